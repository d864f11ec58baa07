use std::thread;

use crate::life::{Ended, Life, TxnId};
use crate::locks::entry::Mode;
use crate::locks::key::LockKey;
use crate::locks::table::{LockTable, Refused, Taken};
use crate::sync::{Arc, AtomicU64, Ordering};

/// Waits for as long as it takes.
const EVER: u64 = u64::MAX;

/// As many as wait, or are waited for.
const MANY: usize = 96;

/// All keys here lie in it.
const RANGE: (&[u8], &[u8]) = (b"\0\x01a", b"\0\x01z");

/// Its clock stands still.
fn table() -> LockTable {
    LockTable::new(8, || 1)
}

/// One with a clock that is set.
fn table_and_time() -> (LockTable, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(1));
    let clock = Arc::clone(&time);
    let table = LockTable::new(8, move || clock.load(Ordering::Relaxed));
    (table, time)
}

fn life(id: TxnId) -> Arc<Life> {
    expiring(id, EVER)
}

fn expiring(id: TxnId, expires_ns: u64) -> Arc<Life> {
    Arc::new(Life::new(id, 0, expires_ns))
}

fn key(name: &str) -> LockKey {
    let hash = name
        .bytes()
        .fold(0, |hash, byte| hash + (u64::from(byte) << 32));
    LockKey::new([0, 1], name.as_bytes(), hash)
}

fn take(table: &LockTable, who: TxnId, name: &str, mode: Mode) -> Result<Taken, Refused> {
    table.acquire(&life(who), &key(name), mode, (0, EVER))
}

fn take_and_release(table: &LockTable, who: TxnId, name: &str, mode: Mode) {
    take(table, who, name, mode).unwrap();
    table.release(who, &key(name));
}

/// Sleeps until so many wait.
fn until_waiting(table: &LockTable, count: usize) {
    while table.counts().2 < count {
        thread::yield_now();
    }
}

/// Numbers of transactions that begin behind those with smaller ones.
fn ids(from: u64) -> std::ops::Range<u64> {
    from..from + MANY as u64
}

#[test]
fn a_hot_key_costs_a_few_steps_each_time_it_changes_hands() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let table = table();
        take(&table, 0, "hot", Mode::Exclusive).unwrap();
        thread::scope(|scope| {
            for id in ids(1) {
                let table = &table;
                scope.spawn(move || take_and_release(table, id, "hot", mode));
            }
            until_waiting(&table, MANY);
            table.release(0, &key("hot"));
        });
        assert_eq!(table.counts(), (0, 0, 0));
        let steps = table.steps();
        assert!(steps <= 16 * MANY, "{mode:?}: {steps} steps");
    }
}

#[test]
fn a_reader_that_goes_costs_those_who_hold_and_wait_a_few_steps_each() {
    let table = table();
    for id in ids(1) {
        take(&table, id, "hot", Mode::Shared).unwrap();
    }
    thread::scope(|scope| {
        for id in ids(1000) {
            let table = &table;
            scope.spawn(move || take_and_release(table, id, "hot", Mode::Exclusive));
        }
        until_waiting(&table, MANY);
        for id in ids(1) {
            let before = table.steps();
            table.release(id, &key("hot"));
            if id < MANY as u64 {
                // Nobody has it yet of those who wait, and takes steps.
                let steps = table.steps() - before;
                assert!(steps <= 4 * MANY, "{steps} steps");
            }
        }
    });
    assert_eq!(table.counts(), (0, 0, 0));
}

#[test]
fn a_range_that_goes_costs_those_who_wait_for_it_a_few_steps_each() {
    let table = table();
    let lock = |id| table.acquire_range(&life(id), RANGE, 0, |_| ()).unwrap();
    let ranges: Vec<u64> = ids(1).map(lock).collect();
    thread::scope(|scope| {
        for id in ids(1000) {
            let table = &table;
            scope.spawn(move || take_and_release(table, id, "k", Mode::Exclusive));
        }
        until_waiting(&table, MANY);
        let before = table.steps();
        table.release_range(ranges[0], RANGE);
        let steps = table.steps() - before;
        assert!(steps <= 4 * MANY, "{steps} steps");
        for id in ids(1000) {
            let blockers = table.blockers(id);
            let others = ids(2).take(MANY - 1);
            assert!(!blockers.contains(&1) && others.eq(blockers.iter().copied().take(MANY - 1)));
        }
        for range in &ranges[1..] {
            table.release_range(*range, RANGE);
        }
    });
    assert_eq!(table.counts(), (0, 0, 0));
}

/// A circle through the end of a long queue has nobody of the queue but that end, whoever is younger.
#[test]
fn those_in_between_are_no_victims() {
    let table = table();
    take(&table, 1, "hot", Mode::Exclusive).unwrap();
    take(&table, 2, "other", Mode::Exclusive).unwrap();
    thread::scope(|scope| {
        let table = &table;
        for id in ids(10) {
            scope.spawn(move || take_and_release(table, id, "hot", Mode::Exclusive));
        }
        until_waiting(table, MANY);
        scope.spawn(move || {
            let refused = take(table, 2, "hot", Mode::Exclusive).unwrap_err();
            assert!(matches!(refused, Refused::Deadlock(circle) if circle == [1, 2]));
            table.release(2, &key("other"));
        });
        until_waiting(table, MANY + 1);
        take_and_release(table, 1, "other", Mode::Exclusive);
        table.release(1, &key("hot"));
    });
    assert_eq!(table.counts(), (0, 0, 0));
}

#[test]
fn who_waits_when_the_store_is_closed_is_told() {
    let table = table();
    take(&table, 0, "k", Mode::Exclusive).unwrap();
    thread::scope(|scope| {
        let table = &table;
        let modes = [Mode::Exclusive, Mode::Shared, Mode::Exclusive];
        for (id, mode) in (1..).zip(modes) {
            scope.spawn(move || {
                let refused = take(table, id, "k", mode);
                assert!(matches!(refused, Err(Refused::Closed)));
            });
        }
        scope.spawn(move || {
            let refused = table.acquire_range(&life(4), RANGE, EVER, |_| ());
            assert!(matches!(refused, Err(Refused::Closed)));
        });
        until_waiting(table, 4);
        table.close();
    });
    // Nobody waits any more. What is free is to be had, for those who read on.
    let late = take(&table, 5, "k", Mode::Shared);
    assert!(matches!(late, Err(Refused::Closed)));
    assert_eq!(take(&table, 5, "j", Mode::Shared).unwrap(), Taken::Anew);
    assert_eq!(table.counts(), (2, 0, 0));
    table.release(5, &key("j"));
    table.release(0, &key("k"));
    assert_eq!(table.counts(), (0, 0, 0));
}

/// Whoever is first in the queue takes the lock of one whose time is over, and then the next one does.
#[test]
fn whoever_comes_first_looks_for_one_whose_time_is_over() {
    let (table, time) = table_and_time();
    let hold = |id, expires_ns| {
        let life = expiring(id, expires_ns);
        let taken = table.acquire(&life, &key("k"), Mode::Exclusive, (0, EVER));
        assert_eq!(taken.unwrap(), Taken::Anew);
    };
    hold(1, 10);
    thread::scope(|scope| {
        let second = scope.spawn(|| hold(2, 20));
        until_waiting(&table, 1);
        let third = scope.spawn(|| hold(3, EVER));
        until_waiting(&table, 2);
        time.store(10, Ordering::Relaxed);
        second.join().unwrap();
        time.store(20, Ordering::Relaxed);
        third.join().unwrap();
    });
    for id in 1..=3 {
        table.release(id, &key("k"));
    }
    assert_eq!(table.counts(), (0, 0, 0));
}

/// Whoever is first is past its time when the key is free, and its owner never does anything again: the next one has it.
#[test]
fn whoever_is_past_its_time_when_it_is_its_turn_keeps_nobody() {
    for is_told_before in [false, true] {
        let (table, time) = table_and_time();
        let second = expiring(2, 20);
        let hold = |life: &Arc<Life>, name| {
            let taken = table.acquire(life, &key(name), Mode::Exclusive, (0, EVER));
            assert_eq!(taken.unwrap(), Taken::Anew);
        };
        hold(&life(1), "k");
        hold(&second, "other");
        thread::scope(|scope| {
            let waits = scope.spawn(|| hold(&second, "k"));
            until_waiting(&table, 1);
            let third = scope.spawn(|| hold(&life(3), "k"));
            until_waiting(&table, 2);
            time.store(30, Ordering::Relaxed);
            if is_told_before {
                take_and_release(&table, 4, "other", Mode::Exclusive);
                assert_eq!(second.check(), Err(Ended::Expired));
            }
            table.release(1, &key("k"));
            waits.join().unwrap();
            third.join().unwrap();
        });
        assert_eq!(second.check(), Err(Ended::Expired));
        for name in ["other", "k"] {
            // It is another one's, or nobody's.
            table.release(2, &key(name));
        }
        assert_eq!(table.counts(), (1, 0, 0));
        table.release(3, &key("k"));
        assert_eq!(table.counts(), (0, 0, 0));
    }
}

/// A range whose owner's time is over keeps nobody, even where a holder does: so nobody is in a circle by it.
#[test]
fn a_range_past_its_time_makes_no_victim() {
    const NARROW: (&[u8], &[u8]) = (b"\0\x01a", b"\0\x01l");
    let (table, time) = table_and_time();
    let old = expiring(1, 10);
    let range = table.acquire_range(&old, NARROW, EVER, |_| ()).unwrap();
    take(&table, 2, "k", Mode::Shared).unwrap();
    take(&table, 3, "q", Mode::Exclusive).unwrap();
    time.store(10, Ordering::Relaxed);
    assert_eq!(old.check(), Ok(()));
    thread::scope(|scope| {
        scope.spawn(|| {
            take_and_release(&table, 3, "k", Mode::Exclusive);
            table.release(3, &key("q"));
        });
        until_waiting(&table, 1);
        assert_eq!(table.blockers(3), [2]);
        assert_eq!(old.check(), Err(Ended::Expired));
        // Its owner is not told before it asks for more.
        scope.spawn(|| {
            let taken = table.acquire(&old, &key("q"), Mode::Exclusive, (0, EVER));
            assert_eq!(taken.unwrap(), Taken::Anew);
        });
        until_waiting(&table, 2);
        table.release(2, &key("k"));
    });
    table.release(1, &key("q"));
    table.release_range(range, NARROW);
    assert_eq!(table.counts(), (0, 0, 0));
}

/// One that waits for more of what it has takes it from others whose time is over, and not from itself.
#[test]
fn what_one_asks_for_itself_ends_nothing_of_its_own() {
    let (table, time) = table_and_time();
    let (own, other) = (expiring(1, 10), expiring(2, 10));
    let range = table.acquire_range(&own, RANGE, EVER, |_| ()).unwrap();
    for life in [&own, &other, &life(3)] {
        let taken = table.acquire(life, &key("k"), Mode::Shared, (0, EVER));
        assert_eq!(taken.unwrap(), Taken::Anew);
    }
    time.store(10, Ordering::Relaxed);
    thread::scope(|scope| {
        scope.spawn(|| {
            let taken = table.acquire(&own, &key("k"), Mode::Exclusive, (0, EVER));
            assert_eq!(taken.unwrap(), Taken::Before);
        });
        until_waiting(&table, 1);
        assert_eq!(table.blockers(1), [3]);
        assert_eq!(other.check(), Err(Ended::Expired));
        table.release(3, &key("k"));
    });
    assert_eq!(own.check(), Ok(()));
    take(&table, 4, "k", Mode::Exclusive).unwrap();
    assert_eq!(own.check(), Err(Ended::Expired));
    table.release(1, &key("k"));
    assert_eq!(table.counts(), (1, 1, 0));
    table.release(4, &key("k"));
    table.release_range(range, RANGE);
    assert_eq!(table.counts(), (0, 0, 0));
}
