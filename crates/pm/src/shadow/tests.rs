//! What reaches the image, and what does not.

use std::collections::BTreeSet;

use thermocline_env::{Env, File, OpenMode};

use super::*;
use crate::SimPm;

const LEN: u64 = 1 << 20;

/// A shadowed file of which nothing is evicted unless a test says so.
struct Rig {
    pm: ShadowPm,
    file: Arc<dyn File>,
    _dir: tempfile::TempDir,
}

impl Rig {
    fn new(shadow: Shadow) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let storage = Env::real().storage;
        let file = storage.open(&path, OpenMode::CreateNew).unwrap();
        file.set_len(LEN).unwrap();
        Rig {
            pm: open(shadow, &*file),
            file,
            _dir: dir,
        }
    }

    fn quiet(seed: u64) -> Rig {
        let evictions_per_ms = 0;
        Rig::new(Shadow {
            seed,
            evictions_per_ms,
        })
    }

    /// What a killed process would leave.
    fn image(&self, off: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, off).unwrap();
        bytes
    }

    fn image_word(&self, off: u64) -> u64 {
        u64::from_le_bytes(self.image(off, 8).try_into().unwrap())
    }

    fn cache_word(&self, off: u64) -> u64 {
        word(&self.pm.core.cache, off).load(Ordering::Relaxed)
    }

    fn store_word(&self, off: u64, value: u64) {
        self.pm.store(off, &value.to_le_bytes());
    }

    fn noted(&self) -> usize {
        let stripes = self.pm.core.stripes.iter();
        stripes.map(|stripe| lock(stripe).len()).sum()
    }
}

fn open(shadow: Shadow, file: &dyn File) -> ShadowPm {
    let fd = file.raw_fd().unwrap();
    let cache = Arc::new(Reservation::reserve(index(LEN)).unwrap());
    cache
        .map(fd, 0, index(LEN), true, Sharing::Private)
        .unwrap();
    ShadowPm::open(shadow, file.path(), fd, cache, LEN, false).unwrap()
}

#[test]
fn only_what_was_flushed_and_fenced_reaches_the_image() {
    let rig = Rig::quiet(1);
    rig.pm.store(100, &[1; 200]);
    assert_eq!(rig.image(0, 4096), [0; 4096], "stored");
    rig.pm.fence();
    assert_eq!(rig.image(0, 4096), [0; 4096], "fenced, not flushed");
    rig.pm.flush(100, 200);
    assert_eq!(rig.image(0, 4096), [0; 4096], "flushed, not fenced");
    rig.pm.fence();
    let mut expected = [0; 4096];
    expected[100..300].fill(1);
    assert_eq!(rig.image(0, 4096), expected);
    assert_eq!(rig.noted(), 0);
    rig.pm.store_u64(4096, 7);
    rig.pm.flush(4096, 8);
    assert_eq!(rig.image_word(4096), 0);
    rig.pm.fence();
    assert_eq!(rig.image_word(4096), 7);
}

#[test]
fn a_flush_covers_its_lines_and_no_others() {
    let rig = Rig::quiet(1);
    rig.pm.store(0, &[1; 8192]);
    rig.pm.flush(63, 2);
    rig.pm.flush(4095, 66);
    rig.pm.fence();
    let covered = [0, 64, 4032, 4096, 4160];
    for line in 0..8192 / 64 {
        let expected = u8::from(covered.contains(&(line * 64)));
        assert_eq!(rig.image(line * 64, 64), [expected; 64], "line {line}");
    }
}

#[test]
fn another_threads_fence_does_not_help() {
    let rig = Rig::quiet(1);
    rig.pm.store(0, &[1; 64]);
    rig.pm.flush(0, 64);
    rig.pm.store_nt(64, &[1; 64]);
    std::thread::scope(|scope| {
        scope.spawn(|| rig.pm.fence()).join().unwrap();
    });
    {
        let _other = SimPm::as_writer(1);
        rig.pm.fence();
    }
    assert_eq!(rig.image(0, 128), [0; 128]);
    rig.pm.fence();
    assert_eq!(rig.image(0, 128), [1; 128]);
}

#[test]
fn what_is_stored_after_the_flush_is_not_covered_by_its_fence() {
    let rig = Rig::quiet(1);
    rig.store_word(0, 1);
    rig.pm.flush(0, 8);
    rig.store_word(0, 2);
    rig.store_word(8, 2);
    rig.pm.fence();
    assert_eq!((rig.image_word(0), rig.image_word(8)), (1, 0));
    rig.pm.flush(0, 8);
    rig.pm.fence();
    assert_eq!((rig.image_word(0), rig.image_word(8)), (2, 2));
}

#[test]
fn one_thread_persists_what_another_stored_before() {
    let rig = Rig::quiet(1);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| rig.pm.store(0, &[1; 300]));
        writer.join().unwrap();
    });
    rig.pm.flush(0, 300);
    rig.pm.fence();
    assert_eq!(rig.image(0, 300), [1; 300]);
}

#[test]
fn stores_past_the_cache_need_their_own_writers_fence_alone() {
    let rig = Rig::quiet(1);
    rig.pm.store_nt(0, &[1; 128]);
    assert_eq!(rig.image(0, 128), [0; 128]);
    {
        let _other = SimPm::as_writer(1);
        rig.pm.flush(0, 128);
        rig.pm.fence();
        assert_eq!(rig.image(0, 128), [0; 128], "another's flush and fence");
        // What the other stores into that word meanwhile is not certain either.
        rig.store_word(0, 2);
        rig.pm.flush(0, 8);
        rig.pm.fence();
        assert_eq!(rig.image_word(0), 0);
    }
    rig.pm.fence();
    assert_eq!(rig.image(0, 128), [1; 128]);
    let _other = SimPm::as_writer(1);
    rig.pm.flush(0, 8);
    rig.pm.fence();
    assert_eq!(rig.image_word(0), 2);
}

#[test]
fn a_late_fence_does_not_undo_an_earlier_one() {
    let rig = Rig::quiet(1);
    rig.store_word(0, 1);
    rig.store_word(8, 1);
    rig.pm.flush(0, 16);
    {
        let _other = SimPm::as_writer(1);
        rig.store_word(0, 2);
        rig.pm.flush(0, 8);
        rig.pm.fence();
        assert_eq!((rig.image_word(0), rig.image_word(8)), (2, 1));
        rig.store_word(8, 3);
    }
    rig.pm.fence();
    assert_eq!((rig.image_word(0), rig.image_word(8)), (2, 1));
}

/// Every word of the image holds a value that the word had, never an older one than before, and
/// what was persisted stays, whatever is evicted.
#[test]
fn evictions_bring_any_word_forward_and_none_back() {
    for seed in 0..40 {
        let rig = Rig::quiet(seed);
        let random = SeededRandom::new(seed);
        let words = 32;
        let mut image = vec![0; words];
        let mut persisted = vec![0; words];
        for value in 1..400 {
            let at = random.below(words as u64) * 8;
            let _writer = SimPm::as_writer(random.below(3));
            rig.store_word(at, value);
            match random.below(4) {
                0 => rig.pm.flush(at, 8),
                1 => {
                    rig.pm.flush(at, 8);
                    rig.pm.fence();
                    persisted[index(at / 8)] = value;
                }
                2 => drop(rig.pm.core.evict()),
                _ => {}
            }
            for i in 0..words {
                let now = rig.image_word(i as u64 * 8);
                assert!(now >= image[i], "seed {seed}: a word went back");
                assert!(now >= persisted[i], "seed {seed}: a word was lost");
                assert!(now <= rig.cache_word(i as u64 * 8), "seed {seed}");
                image[i] = now;
            }
        }
    }
}

#[test]
fn an_eviction_takes_a_line_whole_or_torn_and_as_it_is_or_as_it_was_flushed() {
    let (mut counts, mut values) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..200 {
        let rig = Rig::quiet(seed);
        rig.pm.store(64, &[1; 64]);
        rig.pm.flush(64, 64);
        rig.pm.store(64, &[2; 64]);
        assert!(rig.pm.core.evict());
        let line = rig.image(64, 64);
        counts.insert(line.iter().filter(|&&b| b != 0).count());
        values.extend(line);
    }
    assert!(counts.iter().all(|n| n % 8 == 0), "{counts:?}");
    assert!([8, 16, 24, 32, 40, 64].iter().all(|n| counts.contains(n)));
    assert_eq!(values, BTreeSet::from([0, 1, 2]));
}

#[test]
fn evictions_reach_everything_in_the_end_and_only_what_was_stored() {
    let rig = Rig::quiet(9);
    let mut stored = BTreeSet::new();
    for n in 0..50u64 {
        let off = n * n * 320 / 8 * 8;
        stored.insert(off);
        rig.pm.store_u64(off, !off);
    }
    assert_eq!(rig.image(0, index(LEN)), vec![0; index(LEN)]);
    while rig.pm.core.evict() {}
    let expected: BTreeSet<u64> = (0..LEN / 8)
        .map(|i| i * 8)
        .filter(|&off| rig.image_word(off) != 0)
        .collect();
    assert_eq!(stored, expected);
    assert!(stored.iter().all(|&off| rig.image_word(off) == !off));
    assert_eq!(rig.noted(), 0);
}

/// Two values, stored by turns, neither of which shares a byte with the other: a torn word would
/// show. The evictor runs beside the writer, and the reader looks at the image through the file.
#[test]
fn a_word_is_never_torn_while_a_thread_evicts() {
    let rig = Rig::new(Shadow {
        seed: 3,
        evictions_per_ms: 1000,
    });
    let values = [u64::MAX / 0xff * 0x11, u64::MAX / 0xff * 0xee];
    let mut seen = BTreeSet::new();
    let mut n = 0;
    while seen.len() < 2 {
        n += 1;
        for at in 0..8 {
            if n % 3 == 0 {
                rig.store_word(at * 8, values[index(n % 2)]);
            } else {
                rig.pm.store_u64(at * 8, values[index(n % 2)]);
            }
        }
        let found = rig.image_word(n % 8 * 8);
        assert!(found == 0 || values.contains(&found), "{found:x}");
        if found != 0 {
            seen.insert(found);
        }
    }
    rig.pm.stop();
    let left = rig.image(0, 64);
    rig.pm.store(0, &[0x55; 64]);
    assert_eq!(rig.image(0, 64), left, "nothing arrives after the stop");
    assert!(Arc::strong_count(&rig.pm.core) == 1, "the thread is gone");
}

#[test]
fn a_kill_in_a_fence_leaves_any_of_its_lines() {
    let order = |seed| {
        let rig = Rig::quiet(seed);
        let mut numbers: Vec<u64> = (0..100).collect();
        rig.pm.core.shuffle(&mut numbers);
        numbers
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    let sorted = order(1).into_iter().collect::<BTreeSet<u64>>();
    assert!(sorted.into_iter().eq(0..100));
}

#[test]
fn threads_that_share_lines_lose_nothing_that_they_persist() {
    let rig = Rig::new(Shadow {
        seed: 4,
        evictions_per_ms: 2000,
    });
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let rig = &rig;
            scope.spawn(move || {
                for n in 1..3000u64 {
                    let at = (n % 16) * 64 + thread * 16;
                    rig.store_word(at, n);
                    rig.pm.store_u64(at + 8, n);
                    rig.pm.flush(at, 16);
                    rig.pm.fence();
                    assert_eq!((rig.image_word(at), rig.image_word(at + 8)), (n, n));
                }
            });
        }
    });
}
