//! The simulator must lose what real memory may lose, and nothing that it may not.

use thermocline_base::Error;

use super::*;

const SITE: Site = Site("test");

fn sim() -> SimPm {
    let sim = SimPm::new(8192, Steps::new());
    sim.grow(0, 4096, SITE).unwrap();
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
fn a_store_may_begin_and_end_in_any_word_of_any_line() {
    for (off, len) in [(0, 64), (3, 2), (5, 200), (61, 7), (63, 66), (128, 1)] {
        let sim = sim();
        let bytes: Vec<u8> = (1..=len).collect();
        sim.store(off, &bytes);
        let end = off + u64::from(len);
        let words = end.div_ceil(8) - off / 8;
        assert_eq!(sim.crash().pending().len() as u64, words, "{off} {len}");
        sim.flush(off, u64::from(len));
        sim.fence(SITE).unwrap();
        assert!(sim.crash().pending().is_empty(), "{off} {len}");
        let byte = |at: u64| word(&sim, at).to_le_bytes()[index(at % 8)];
        assert!((0..off).all(|at| byte(at) == 0), "{off} {len}");
        let found: Vec<u8> = (off..end).map(byte).collect();
        assert_eq!(found, bytes, "{off}");
        assert!((end..end + 64).all(|at| byte(at) == 0), "{off} {len}");
    }
}

#[test]
fn the_words_that_were_read_are_told() {
    let sim = sim();
    sim.note_read(0, 8);
    assert!(sim.reads().is_empty(), "nobody had asked");
    sim.track_reads(true);
    assert!(sim.reads().is_empty());
    // The first word of all, words over a boundary of 64, and the last one.
    sim.note_read(0, 1);
    sim.note_read(63 * 8 + 4, 8);
    sim.note_read(8192 - 8, 8);
    let read: Vec<u64> = sim.reads().into_iter().collect();
    assert_eq!(read, [0, 63 * 8, 64 * 8, 8192 - 8]);
    sim.track_reads(false);
    sim.note_read(128, 8);
    assert!(sim.reads().is_empty());
}

/// Whether it is durable makes no difference to who reads.
#[test]
fn memories_that_read_alike_have_one_digest() {
    let sim = sim();
    let empty = sim.digest();
    sim.store(8, &[1; 8]);
    let stored = sim.digest();
    assert_ne!(stored, empty);
    assert_eq!(sim.fork(Steps::new()).digest(), stored);
    sim.flush(8, 8);
    sim.fence(SITE).unwrap();
    assert_eq!(sim.digest(), stored);
    sim.store(8, &[0; 8]);
    assert_eq!(sim.digest(), empty);
    sim.grow(4096, 8192, SITE).unwrap();
    assert_ne!(sim.digest(), empty, "it is longer");
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

/// What the first word may hold after a crash; one value if it is certain.
fn first_word(sim: &SimPm) -> Vec<u64> {
    match sim.crash().pending() {
        [] => vec![word(sim, 0)],
        words => words[0].candidates.clone(),
    }
}

#[test]
fn writers_on_one_thread_have_fences_of_their_own() {
    let sim = sim();
    sim.store(0, &[1; 8]);
    sim.store(64, &[2; 8]);
    let one = SimPm::as_writer(1);
    sim.flush(0, 8);
    {
        let _two = SimPm::as_writer(2);
        sim.flush(64, 8);
        {
            let _one_again = SimPm::as_writer(1);
            sim.fence(SITE).unwrap();
        }
        let left: Vec<u64> = sim.crash().pending().iter().map(|w| w.offset).collect();
        assert_eq!(left, vec![64], "writer 1's fence covers what 1 flushed");
    }
    assert_eq!(Writer::current(), Writer::Acting(1), "guards nest");
    sim.fence(SITE).unwrap();
    assert_eq!(sim.crash().pending().len(), 1, "and not what 2 flushed");
    drop(one);
    sim.fence(SITE).unwrap();
    assert_eq!(sim.crash().pending().len(), 1, "nor does the thread's own");
    let _two = SimPm::as_writer(2);
    sim.fence(SITE).unwrap();
    assert_eq!(sim.crash().pending().len(), 0);
}

#[test]
fn a_thread_that_acts_as_no_writer_is_none_of_them() {
    let sim = sim();
    sim.store(0, &[1; 8]);
    sim.flush(0, 8);
    for number in 0..200 {
        let _writer = SimPm::as_writer(number);
        sim.fence(SITE).unwrap();
    }
    assert_eq!(sim.crash().pending().len(), 1);
}

#[test]
fn one_writer_persists_what_another_stored_before_its_flush() {
    let sim = sim();
    let as_a = || SimPm::as_writer(1);
    let as_b = || SimPm::as_writer(2);
    {
        let _a = as_a();
        sim.store(0, &1u64.to_le_bytes());
    }
    {
        let _b = as_b();
        sim.flush(0, 8);
    }
    {
        let _a = as_a();
        sim.store(0, &2u64.to_le_bytes());
    }
    let _b = as_b();
    assert_eq!(first_word(&sim), vec![0, 1, 2]);
    sim.fence(SITE).unwrap();
    assert_eq!(first_word(&sim), vec![1, 2], "stored after B's flush");
    sim.flush(0, 8);
    sim.fence(SITE).unwrap();
    assert_eq!(first_word(&sim), vec![2]);
}

#[test]
fn one_writer_does_not_persist_what_another_stored_past_the_cache() {
    let sim = sim();
    let (a, b) = (1, 2);
    let as_writer = SimPm::as_writer;
    let line = |n: u64| n.to_le_bytes().repeat(8);
    {
        let _a = as_writer(a);
        sim.store(0, &line(1));
        sim.store_nt(0, &line(2));
    }
    {
        let _b = as_writer(b);
        sim.flush(0, 64);
        sim.fence(SITE).unwrap();
        assert_eq!(first_word(&sim), vec![1, 2], "what A stored before is");
        sim.store(0, &line(3));
        sim.flush(0, 64);
        sim.fence(SITE).unwrap();
        assert_eq!(first_word(&sim), vec![1, 2, 3], "A's may still arrive");
    }
    {
        let _a = as_writer(a);
        sim.fence(SITE).unwrap();
    }
    assert_eq!(first_word(&sim), vec![2, 3]);
    let _b = as_writer(b);
    sim.flush(0, 64);
    sim.fence(SITE).unwrap();
    assert_eq!(first_word(&sim), vec![3]);
}

#[test]
fn a_killed_writers_stores_past_the_cache_can_be_persisted_by_others() {
    let sim = sim();
    {
        let _a = SimPm::as_writer(1);
        sim.store_nt(0, &[1; 64]);
    }
    let next = sim.fork(Steps::new());
    assert_eq!(next.crash().pending().len(), 8, "still not durable");
    next.flush(0, 64);
    next.fence(SITE).unwrap();
    assert_eq!(next.crash().pending().len(), 0);
}

#[test]
fn what_a_failed_sync_covered_is_certain_only_when_it_is_stored_again() {
    for kind in ["fence", "growth"] {
        let sim = sim();
        sim.store(0, &[1; 8]);
        sim.store(64, &[1; 8]);
        sim.flush(0, 8);
        sim.fail_sync_once_in(0, libc::ENOSPC);
        let failed = match kind {
            "fence" => sim.fence(SITE),
            _ => sim.grow(4096, 8192, SITE),
        };
        assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
        assert!(!sim.will_fail());
        assert_eq!(sim.len(), 4096);
        let again = sim.fork(Steps::new());
        for sim in [&sim, &again] {
            assert_eq!(word(sim, 0).to_le_bytes(), [1; 8], "readers see it");
            // What was not flushed was not certain either.
            sim.flush(0, 128);
            sim.fence(SITE).unwrap();
            assert_eq!(sim.crash().pending().len(), 2, "pages are clean");
            sim.store(0, &[1; 8]);
            sim.flush(0, 128);
            sim.fence(SITE).unwrap();
            let open: Vec<u64> = sim.crash().pending().iter().map(|w| w.offset).collect();
            assert_eq!(open, [64], "{kind}: only what was stored again");
            // The rest of the word comes along.
            sim.store(64, &[2]);
            sim.flush(64, 8);
            sim.fence(SITE).unwrap();
            assert!(sim.crash().pending().is_empty());
        }
    }
}

/// How long the region's file may be after a crash.
fn lens(sim: &SimPm) -> Vec<u64> {
    let image = sim.crash();
    let all = std::iter::once(image.clone()).chain(image.longer());
    all.map(|image| image.build(0, Steps::new(), |_, _| 0).len())
        .collect()
}

#[test]
fn a_growth_or_a_cut_may_leave_a_longer_file_until_a_growth_is_synced() {
    let sim = SimPm::new(32 << 10, Steps::new());
    sim.grow(0, 4096, SITE).unwrap();
    assert_eq!(lens(&sim), [4096]);
    // By two pages, and two that are to be left on the disk.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (sink, watched) = (seen.clone(), sim.clone());
    sim.steps().observe(Some(Arc::new(move |point| {
        let killed = watched.fork(Steps::new()).len();
        lock(&sink).push((point.when, lens(&watched), killed));
    })));
    assert!(sim.take_disk(20_480) && sim.take_disk(12_288));
    sim.grow(4096, 12_288, SITE).unwrap();
    sim.steps().observe(None);
    let expected = [
        (When::Before, vec![4096, 12_288, 20_480], 20_480),
        (When::After, vec![12_288], 12_288),
    ];
    assert_eq!(*lock(&seen), expected);
    // Cut, it has what lay there if it comes back.
    sim.store(8192, &[7; 8]);
    sim.flush(8192, 8);
    sim.fence(SITE).unwrap();
    sim.cut(4096);
    assert_eq!(lens(&sim), [4096, 8192, 12_288]);
    assert_eq!(sim.fork(Steps::new()).len(), 4096);
    let longest = sim.crash().longer().pop().unwrap();
    let longest = longest.build(0, Steps::new(), |_, _| 0);
    assert_eq!(word(&longest, 8192).to_le_bytes(), [7; 8]);
    // What came back is zeroed as it becomes part of the region, and what lies behind stays.
    longest.grow(4096, 8192, SITE).unwrap();
    assert_eq!(lens(&longest), [12_288]);
    sim.grow(4096, 8192, SITE).unwrap();
    assert_eq!(lens(&sim), [8192]);
    sim.fail_sync_once_in(0, libc::EIO);
    sim.grow(8192, 16_384, SITE).unwrap_err();
    assert_eq!(sim.len(), 8192);
    assert_eq!(lens(&sim), [8192, 12_288, 16_384]);
    sim.begin_anew();
    assert_eq!(lens(&sim), [0]);
    assert_eq!(word(&sim, 8192), 0);
}
