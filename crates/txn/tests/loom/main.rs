//! Loom models of the locks: every interleaving of a few transactions, and every value that the memory model lets a load
//! return.
//!
//! **What is checked is what is shipped.** The sources are included by path, and reach atomics and locks through
//! `crate::sync`, which is loom's here (`thermocline_testkit::loom`).
//!
//! No wake-up is lost: in each execution every transaction gets its lock or is told why not, and a thread that sleeps for
//! ever ends the model as a deadlock. Two never hold what only one may: each counts who is in. A store that is closed wakes
//! whoever waits.
//!
//! Seen to fail on: a release that does not settle; a request that is given up and does not settle; a range that is
//! unlocked and does not settle; a verdict that wakes nobody; one who gives up without looking again; a range that looks
//! before it is entered. Not seen here is a request that leaves the graph after it was granted: the test of many threads
//! (`db/tests/transactions`, `locks::deadlocks_are_always_broken`) hangs then.

#[expect(dead_code, reason = "the models use parts of the sources")]
#[path = "../../src/life.rs"]
mod life;
#[path = "."]
mod locks {
    #[expect(dead_code, reason = "the models use parts of the sources")]
    #[path = "../../src/locks/entry.rs"]
    pub mod entry;
    #[path = "../../src/locks/graph.rs"]
    pub mod graph;
    #[path = "../../src/locks/key.rs"]
    pub mod key;
    #[path = "../../src/locks/ranges.rs"]
    pub mod ranges;
    #[path = "../../src/locks/slots.rs"]
    pub mod slots;
    #[path = "../../src/locks/stripe.rs"]
    pub mod stripe;
    #[expect(dead_code, reason = "the models use parts of the sources")]
    #[path = "../../src/locks/table.rs"]
    pub mod table;
    #[path = "../../src/locks/wake.rs"]
    pub mod wake;
}
mod sync;

use thermocline_testkit::loom::{SeqCst, check};

use life::Life;
use locks::entry::Mode;
use locks::key::LockKey;
use locks::table::{LockTable, Refused, Taken};
use sync::{Arc, AtomicU64, Ordering, thread};

/// Waits for as long as it takes.
const EVER: u64 = u64::MAX;

/// The locks, and who is in: one for each reader, 100 for a writer.
struct Store {
    locks: LockTable,
    inside: AtomicU64,
}

fn key(name: &str) -> LockKey {
    // Each in a stripe of its own.
    let hash = name
        .bytes()
        .fold(0, |hash, byte| hash + (u64::from(byte) << 32));
    LockKey::new([0, 1], name.as_bytes(), hash)
}

impl Store {
    fn new() -> Arc<Store> {
        Store::of(1)
    }

    /// With so many stripes: in one nobody looks at a key while another key is granted.
    fn of(stripes: usize) -> Arc<Store> {
        // Its clock goes on by one whenever somebody looks.
        let time = AtomicU64::new(1);
        let clock = move || time.fetch_add(1, Ordering::Relaxed);
        Arc::new(Store {
            locks: LockTable::new(stripes, clock),
            inside: AtomicU64::new(0),
        })
    }

    fn enter(&self, mode: Mode) {
        let (step, most) = match mode {
            Mode::Shared => (1, 99),
            Mode::Exclusive => (100, 100),
        };
        let inside = self.inside.fetch_add(step, Ordering::Relaxed) + step;
        assert!(inside <= most, "{inside}");
        self.inside.fetch_sub(step, Ordering::Relaxed);
    }

    /// A transaction that locks a key, does something, and ends. Whether it got the lock.
    fn run(&self, id: u64, mode: Mode, wait_ns: u64) -> bool {
        let life = Arc::new(Life::new(id, 0, EVER));
        match self.locks.acquire(&life, &key("k"), mode, (0, wait_ns)) {
            Ok(taken) => assert_eq!(taken, Taken::Anew),
            Err(Refused::TimedOut { .. } | Refused::Closed) => return false,
            Err(Refused::Deadlock(circle)) => panic!("{circle:?}"),
        }
        self.enter(mode);
        self.locks.release(id, &key("k"));
        true
    }

    /// Everything is free again.
    fn check(&self) {
        assert_eq!(self.locks.counts(), (0, 0, 0));
    }
}

fn all(name: &str, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    check(name, Some(preemptions), SeqCst::Weaker, model);
}

fn beside(store: &Arc<Store>, run: impl FnOnce(&Store) + 'static) -> thread::JoinHandle<()> {
    let store = Arc::clone(store);
    thread::spawn(move || run(&store))
}

#[test]
fn everybody_gets_the_lock_in_turn() {
    for modes in [
        [Mode::Exclusive, Mode::Exclusive, Mode::Exclusive],
        [Mode::Shared, Mode::Exclusive, Mode::Shared],
    ] {
        all("locks, three in turn", 2, move || {
            let store = Store::new();
            let others: Vec<_> = (1..3u64)
                .map(|id| {
                    let mode = modes[usize::try_from(id).unwrap()];
                    beside(&store, move |store| assert!(store.run(id, mode, EVER)))
                })
                .collect();
            assert!(store.run(0, modes[0], EVER));
            others.into_iter().for_each(|other| other.join().unwrap());
            store.check();
        });
    }
}

#[test]
fn one_that_gives_up_leaves_nobody_waiting() {
    all("locks, one gives up", 2, || {
        let store = Store::new();
        let life = Arc::new(Life::new(0, 0, EVER));
        let taken = store
            .locks
            .acquire(&life, &key("k"), Mode::Shared, (0, EVER));
        assert!(taken.is_ok());
        let hasty = beside(&store, |store| {
            assert!(!store.run(1, Mode::Exclusive, 3));
        });
        let patient = beside(&store, |store| assert!(store.run(2, Mode::Shared, EVER)));
        // Both end while it still has the lock: who wants it alone gives up, who wants to read must not wait for that one.
        hasty.join().unwrap();
        patient.join().unwrap();
        store.locks.release(0, &key("k"));
        store.check();
    });
}

#[test]
fn who_was_granted_and_waits_again_is_seen_in_a_circle() {
    all("locks, granted and waiting again", 3, || {
        let store = Store::of(8);
        let life = |id| Arc::new(Life::new(id, 0, EVER));
        let (first, young) = (life(1), life(3));
        for (who, name) in [(&first, "a"), (&young, "b")] {
            let taken = store
                .locks
                .acquire(who, &key(name), Mode::Exclusive, (0, EVER));
            assert!(taken.is_ok());
        }
        let second = beside(&store, move |store| {
            for name in ["a", "b"] {
                let taken = store
                    .locks
                    .acquire(&life(2), &key(name), Mode::Exclusive, (0, EVER));
                assert!(taken.is_ok(), "the older is no victim");
            }
            store.locks.release(2, &key("a"));
            store.locks.release(2, &key("b"));
        });
        store.locks.release(1, &key("a"));
        let taken = store
            .locks
            .acquire(&young, &key("a"), Mode::Exclusive, (0, EVER));
        if taken.is_ok() {
            store.locks.release(3, &key("a"));
        }
        store.locks.release(3, &key("b"));
        second.join().unwrap();
        store.check();
    });
}

#[test]
fn a_deadlock_is_broken_and_the_older_goes_on() {
    all("locks, a deadlock", 3, || {
        let store = Store::new();
        let cross = |store: &Store, id: u64, first: &str, second: &str| {
            let life = Arc::new(Life::new(id, 0, EVER));
            let taken = store
                .locks
                .acquire(&life, &key(first), Mode::Exclusive, (0, EVER));
            assert!(taken.is_ok());
            let taken = store
                .locks
                .acquire(&life, &key(second), Mode::Exclusive, (0, EVER));
            let broken = match taken {
                Ok(_) => {
                    store.locks.release(id, &key(second));
                    false
                }
                Err(Refused::Deadlock(circle)) => {
                    assert_eq!(circle.len(), 2);
                    true
                }
                Err(other) => panic!("{other:?}"),
            };
            store.locks.release(id, &key(first));
            broken
        };
        let young = beside(&store, move |store| {
            cross(store, 2, "b", "a");
        });
        assert!(!cross(&store, 1, "a", "b"), "the older is no victim");
        young.join().unwrap();
        store.check();
    });
}

#[test]
fn a_range_and_a_writer_exclude_each_other() {
    for wait_ns in [EVER, 3] {
        all("locks, a range and a writer", 3, move || {
            let store = Store::new();
            let writer = beside(&store, |store| {
                assert!(store.run(2, Mode::Exclusive, EVER));
            });
            let life = Arc::new(Life::new(1, 0, EVER));
            let mut keys = Vec::new();
            let range: (&[u8], &[u8]) = (b"\0\x01a", b"\0\x01z");
            let taken = store
                .locks
                .acquire_range(&life, range, wait_ns, |key| keys.push(key));
            if let Ok(arrival) = taken {
                store.enter(Mode::Shared);
                store.locks.release_range(arrival, range);
            }
            keys.iter().for_each(|key| store.locks.release(1, key));
            writer.join().unwrap();
            store.check();
        });
    }
}

#[test]
fn a_close_wakes_whoever_waits_and_keeps_others_from_waiting() {
    all("locks, a close", 2, || {
        let store = Store::new();
        let life = Arc::new(Life::new(0, 0, EVER));
        let taken = store
            .locks
            .acquire(&life, &key("k"), Mode::Exclusive, (0, EVER));
        assert!(taken.is_ok());
        let others: Vec<_> = [(1, Mode::Exclusive), (2, Mode::Shared)]
            .into_iter()
            .map(|(id, mode)| beside(&store, move |store| assert!(!store.run(id, mode, EVER))))
            .collect();
        // Both end while it still has the lock.
        store.locks.close();
        others.into_iter().for_each(|other| other.join().unwrap());
        store.locks.release(0, &key("k"));
        store.check();
    });
}

#[test]
fn one_that_has_expired_is_passed_or_has_settled() {
    all("locks, one expires", 3, || {
        let store = Store::new();
        let life = Arc::new(Life::new(1, 0, 1));
        let taken = store
            .locks
            .acquire(&life, &key("k"), Mode::Exclusive, (0, EVER));
        assert!(taken.is_ok());
        let thief = beside(&store, |store| {
            store.run(2, Mode::Exclusive, 8);
        });
        // Either it was taken the lock, or it is written with it.
        if life.settle().is_ok() {
            store.enter(Mode::Exclusive);
        }
        store.locks.release(1, &key("k"));
        thief.join().unwrap();
        store.check();
    });
}
