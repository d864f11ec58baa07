//! The simulator must lose what real memory may lose, and nothing that it may not.

use super::*;

const SITE: Site = Site("test");

fn sim() -> SimPm {
    let sim = SimPm::new(4096, Steps::new());
    sim.set_len(0, 4096, SITE);
    sim
}

fn word(sim: &SimPm, off: u64) -> u64 {
    sim.core.words[index(off / 8)].load(Ordering::Relaxed)
}

#[test]
fn a_store_may_be_lost_word_by_word_until_flushed_and_fenced() {
    let sim = sim();
    sim.store(0, &[1; 24]);
    assert_eq!(sim.crash().pending().len(), 3);
    sim.flush(0, 24);
    assert_eq!(
        sim.crash().pending().len(),
        3,
        "flushed but not fenced is not durable"
    );
    sim.fence(SITE).unwrap();
    assert_eq!(sim.crash().pending().len(), 0);
}

#[test]
fn a_fence_covers_only_its_own_thread_and_only_what_was_stored_before_the_flush() {
    let sim = sim();
    sim.store(0, &[1; 8]);
    std::thread::scope(|s| {
        s.spawn(|| sim.flush(0, 8));
    });
    sim.fence(SITE).unwrap();
    assert_eq!(
        sim.crash().pending().len(),
        1,
        "another thread's flush does not count"
    );
    sim.flush(0, 8);
    sim.store(0, &[2; 8]);
    sim.fence(SITE).unwrap();
    let image = sim.crash();
    let one = u64::from_le_bytes([1; 8]);
    let two = u64::from_le_bytes([2; 8]);
    assert_eq!(image.pending()[0].candidates, vec![one, two]);
}

#[test]
fn every_value_since_the_last_persist_is_possible() {
    let sim = sim();
    for n in [1u8, 2, 3, 2] {
        sim.store(8, &[n; 8]);
    }
    let image = sim.crash();
    let values: Vec<u8> = image.pending()[0]
        .candidates
        .iter()
        .map(|c| c.to_le_bytes()[0])
        .collect();
    assert_eq!(values, vec![0, 1, 3, 2]);
    let built = image.build(4096, Steps::new(), |_, _| 2);
    assert_eq!(word(&built, 8).to_le_bytes(), [3; 8]);
    assert_ne!(image.digest(|_, _| 2), image.digest(|_, _| 1));
    assert_eq!(built.crash().pending().len(), 0);
}

#[test]
fn a_word_that_returned_to_its_durable_value_can_still_be_found_changed() {
    let sim = sim();
    sim.store(8, &[1; 8]);
    sim.store(8, &[0; 8]);
    let image = sim.crash();
    assert_eq!(image.pending()[0].candidates.len(), 2);
    assert_eq!(image.pending()[0].candidates[0], 0);
}

#[test]
fn few_states_are_tried_exhaustively_and_many_by_sampling() {
    let sim = sim();
    sim.store(0, &[1; 24]);
    sim.store(0, &[2; 8]);
    let image = sim.crash();
    let all = image.choices(EXHAUSTIVE_MAX, 0, 0, |_| true);
    let distinct: BTreeSet<u64> = all.iter().map(|c| image.digest(|i, _| c[i])).collect();
    assert_eq!((all.len(), distinct.len()), (3 * 2 * 2, 12));
    let pruned = image.choices(EXHAUSTIVE_MAX, 0, 0, |w| w.offset == 8);
    assert_eq!(pruned.len(), 2);
    sim.store(64, &[3; 800]);
    let image = sim.crash();
    let some = image.choices(EXHAUSTIVE_MAX, 10, 7, |_| true);
    assert_eq!(some.len(), 2 + 2 * image.pending().len() + 10);
}
