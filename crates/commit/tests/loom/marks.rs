//! The ring: watermarks move only over contiguous groups that have finished, and nobody who waits for
//! them is forgotten. (Loom reports a deadlock when nobody can go on.)
//!
//! Seen to fail on: arrivals that do not acquire and release; `head` stored before the watermarks; no
//! notice to who waits; a baton laid down after one group; `visible` stored outside the lock of the list,
//! or before `durable`; `behind` not asked; `persisted` that takes `visible` though more is deferred; no wait
//! behind a group that is granted when it has finished.
//! Not caught: no fence before `parked` is read, since the models put one at the addition before it.

use crate::ring::{Range, Ring};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock, thread};
use crate::{check_any, check_sc};

/// A ring, and what groups did before they finished. Group `n` has the one seqno `n`.
struct Store {
    ring: Ring,
    indexed: [AtomicU64; 2],
    persisted: [AtomicU64; 2],
    syncing: Mutex<()>,
}

impl Store {
    /// A store with `slots` slots, of which as many as `groups` are granted.
    fn new(slots: usize, groups: u64) -> Arc<Store> {
        let zeros = || [AtomicU64::new(0), AtomicU64::new(0)];
        let ring = Ring::new(0, slots);
        (1..=groups).for_each(|last| assert_eq!(ring.grant(last, 1), last - 1));
        Arc::new(Store {
            ring,
            indexed: zeros(),
            persisted: zeros(),
            syncing: Mutex::new(()),
        })
    }

    fn index(&self, last: u64) {
        self.indexed[place(last)].store(1, Ordering::Relaxed);
    }

    fn persist(&self, last: u64) {
        self.persisted[place(last)].store(1, Ordering::Relaxed);
    }

    /// A group's way, from its grant to its acknowledgement.
    fn write(&self, last: u64) {
        self.persist(last);
        self.index(last);
        self.ring.finish(last - 1, None);
        assert!(self.ring.wait_visible(last));
        self.sync_up_to(last);
        self.holds(last, last);
    }

    /// As `write`, acknowledged when it is visible.
    fn write_buffered(&self, last: u64) {
        self.index(last);
        let range = Range {
            at: 64 * last,
            bytes: 64,
        };
        self.ring.finish(last - 1, Some(range));
        assert!(self.ring.wait_visible(last));
        self.holds(last, 0);
    }

    /// The engine's, with a list in the place of the region.
    fn sync_up_to(&self, last: u64) {
        if self.ring.durable() >= last {
            return;
        }
        let _turn = lock(&self.syncing);
        if self.ring.durable() >= last {
            return;
        }
        let mut ranges = Vec::new();
        let up_to = self.ring.take_deferred(&mut ranges);
        for range in ranges {
            (range.at / 64..(range.at + range.bytes) / 64).for_each(|last| self.persist(last));
        }
        self.ring.persisted(up_to);
    }

    /// What the watermarks say is so, and they say at least this much.
    fn holds(&self, visible: u64, durable: u64) {
        let now = self.ring.durable();
        assert!(now >= durable, "durable is {now}, not {durable}");
        for last in 1..=now {
            let persisted = self.persisted[place(last)].load(Ordering::Relaxed);
            assert_eq!(
                persisted, 1,
                "{last} is not persisted, and durable is {now}"
            );
        }
        let now = self.ring.visible();
        assert!(now >= visible, "visible is {now}, not {visible}");
        for last in 1..=now {
            let indexed = self.indexed[place(last)].load(Ordering::Relaxed);
            assert_eq!(indexed, 1, "{last} is not indexed, and visible is {now}");
        }
    }
}

fn place(last: u64) -> usize {
    usize::try_from(last - 1).unwrap()
}

fn spawn(store: &Arc<Store>, f: impl FnOnce(&Store) + 'static) -> thread::JoinHandle<()> {
    let store = Arc::clone(store);
    thread::spawn(move || f(&store))
}

#[test]
fn two_groups_finish_in_any_order() {
    check_sc("ring, two groups finish", 3, || {
        let store = Store::new(2, 2);
        let second = spawn(&store, |store| store.write(2));
        store.write(1);
        second.join().unwrap();
        store.holds(2, 2);
        assert_eq!(store.ring.groups(), 0);
    });
}

#[test]
fn whoever_looks_sees_finished_groups_only() {
    check_sc("ring, two groups finish and one looks", 2, || {
        let store = Store::new(2, 2);
        let writers = [1, 2].map(|last| spawn(&store, move |store| store.write(last)));
        store.holds(0, 0);
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        store.holds(2, 2);
    });
}

#[test]
fn buffered_groups_become_durable_with_the_next_durable_one() {
    check_sc("ring, a buffered and a durable group", 2, || {
        let store = Store::new(2, 2);
        let buffered = spawn(&store, |store| store.write_buffered(1));
        store.write(2);
        store.holds(2, 2);
        buffered.join().unwrap();
        assert_eq!(store.ring.groups(), 0);
    });
}

#[test]
fn a_buffered_group_beside_a_sync() {
    check_sc("ring, a buffered group and a sync", 3, || {
        let store = Store::new(2, 2);
        store.write_buffered(1);
        let buffered = spawn(&store, |store| store.write_buffered(2));
        store.sync_up_to(1);
        store.holds(1, 1);
        buffered.join().unwrap();
        store.sync_up_to(2);
        store.holds(2, 2);
    });
}

#[test]
fn a_full_ring_makes_the_grant_wait() {
    check_sc("ring, a grant waits for room", 3, || {
        let store = Store::new(1, 1);
        let first = spawn(&store, |store| store.write(1));
        assert!(store.ring.wait_for_room());
        assert_eq!(store.ring.grant(2, 1), 1);
        store.write(2);
        first.join().unwrap();
        assert!(store.ring.wait_empty());
        store.holds(2, 2);
    });
}

#[test]
fn a_seal_waits_until_nothing_is_in_flight() {
    check_sc("ring, a seal waits for two groups", 2, || {
        let store = Store::new(2, 2);
        let writers = [1, 2].map(|last| spawn(&store, move |store| store.write(last)));
        assert!(store.ring.wait_empty());
        store.sync_up_to(2);
        store.holds(2, 2);
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
    });
}

#[test]
fn a_group_that_is_granted_finished_is_seen_at_once() {
    check_sc("ring, a group is granted finished behind a seal", 2, || {
        let store = Store::new(2, 1);
        let before = spawn(&store, |store| store.write(1));
        // As whoever commits a staged batch: the other one may still have the baton in hand.
        assert!(store.ring.wait_empty());
        store.persist(2);
        store.index(2);
        store.ring.grant_finished(2, 1);
        store.holds(2, 2);
        before.join().unwrap();
    });
}

#[test]
fn a_failure_wakes_whoever_waits() {
    check_any("ring, a group fails under two that wait", 2, || {
        let store = Store::new(2, 2);
        let behind = spawn(&store, |store| {
            store.index(2);
            store.ring.finish(1, None);
            assert!(!store.ring.wait_visible(2), "the first never finished");
        });
        let sealing = spawn(&store, |store| assert!(!store.ring.wait_empty()));
        store.ring.fail();
        behind.join().unwrap();
        sealing.join().unwrap();
        store.holds(0, 0);
    });
}
