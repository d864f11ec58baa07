//! The version lock: what a reader validated was never torn, and no change is lost.
//!
//! Seen to fail with any of these faults in `lock.rs`: no fence in `upgrade` or in `validate`; a
//! validation that always succeeds; any of the loads or stores relaxed; an unlock without a new
//! version; an upgrade that ignores the version. (The acquire of `upgrade` itself is not needed: the
//! version that it compares with was acquired by `read`.)

use std::sync::Arc;

use crate::check;
use crate::lock::VersionLock;
use crate::sync::{AtomicU64, Ordering, thread};

/// Two words under a lock that always hold the same number.
struct Pair {
    lock: VersionLock,
    words: [AtomicU64; 2],
    /// Where the pair went when its lock became obsolete.
    moved_to: AtomicU64,
}

impl Pair {
    fn new() -> Pair {
        Pair {
            lock: VersionLock::new(),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
            moved_to: AtomicU64::new(0),
        }
    }

    fn words(&self) -> [u64; 2] {
        [
            self.words[0].load(Ordering::Relaxed),
            self.words[1].load(Ordering::Relaxed),
        ]
    }

    fn set(&self, n: u64) {
        self.words[0].store(n, Ordering::Relaxed);
        self.words[1].store(n, Ordering::Relaxed);
    }

    /// Adds one, however often others interfere; `None` if the lock is obsolete.
    fn add_one(&self) -> Option<()> {
        loop {
            let version = self.lock.read()?;
            let [before, _] = self.words();
            if let Some(_lock) = self.lock.upgrade(version) {
                assert_eq!(self.words(), [before; 2]);
                self.set(before + 1);
                return Some(());
            }
            thread::yield_now();
        }
    }

    /// What a reader saw, if it may believe it; `None` if the lock is obsolete.
    fn read(&self) -> Option<Option<u64>> {
        let version = self.lock.read()?;
        let [first, second] = self.words();
        let sound = self.lock.validate(version);
        assert!(!sound || first == second, "{first} and {second}");
        Some(sound.then_some(first))
    }
}

#[test]
fn a_validated_read_is_whole() {
    check("version lock, a writer and a reader", 3, || {
        let pair = Arc::new(Pair::new());
        let writer = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || (0..2).for_each(|_| pair.add_one().unwrap()))
        };
        let first = pair.read().unwrap();
        let second = pair.read().unwrap();
        if let (Some(first), Some(second)) = (first, second) {
            assert!(first <= second, "time went back");
        }
        writer.join().unwrap();
        assert_eq!(pair.read(), Some(Some(2)));
    });
}

#[test]
fn no_addition_is_lost() {
    check("version lock, two writers", 3, || {
        let pair = Arc::new(Pair::new());
        let writer = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || pair.add_one().unwrap())
        };
        pair.add_one().unwrap();
        writer.join().unwrap();
        assert_eq!(pair.words(), [2; 2]);
    });
}

#[test]
fn two_writers_and_a_reader() {
    check("version lock, two writers and a reader", 2, || {
        let pair = Arc::new(Pair::new());
        let writers = [(); 2].map(|()| {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let version = pair.lock.read().unwrap();
                let Some(_lock) = pair.lock.upgrade(version) else {
                    return 0;
                };
                let [before, _] = pair.words();
                pair.set(before + 1);
                1
            })
        });
        pair.read().unwrap();
        let additions: u64 = writers.into_iter().map(|w| w.join().unwrap()).sum();
        assert_eq!(pair.read(), Some(Some(additions)));
    });
}

#[test]
fn an_obsolete_lock_is_taken_by_nobody_and_shows_where_to_go() {
    check("version lock, one makes it obsolete", 2, || {
        let pair = Arc::new(Pair::new());
        let adding = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                if pair.add_one().is_none() {
                    assert_eq!(pair.moved_to.load(Ordering::Relaxed), 7);
                }
            })
        };
        let moving = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let lock = loop {
                    let version = pair.lock.read().unwrap();
                    if let Some(lock) = pair.lock.upgrade(version) {
                        break lock;
                    }
                    thread::yield_now();
                };
                pair.moved_to.store(7, Ordering::Relaxed);
                let frozen = pair.words();
                lock.obsolete();
                assert_eq!(pair.words(), frozen);
            })
        };
        match pair.read() {
            None => assert_eq!(pair.moved_to.load(Ordering::Relaxed), 7),
            Some(Some(n)) => assert!(n <= 1),
            Some(None) => {}
        }
        adding.join().unwrap();
        moving.join().unwrap();
        assert!(pair.lock.read().is_none());
        let version = pair.lock.read_any();
        assert!(pair.lock.validate(version) && pair.lock.upgrade(version).is_none());
    });
}
