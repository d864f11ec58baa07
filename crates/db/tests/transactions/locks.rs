//! Locks: who waits, who is told what, and that it ends.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use thermocline::{ErrorKind, Isolation, TxnOptions};
use thermocline_testkit::Rng;

use crate::{open, text};

fn patient() -> TxnOptions {
    TxnOptions::pessimistic().lock_timeout(Duration::MAX)
}

#[test]
fn a_lock_that_is_not_got_says_who_has_it_and_what_to_do() {
    let db = open();
    let mut one = db.transaction(patient()).unwrap();
    one.put("stock", "1").unwrap();
    let mut two = db
        .transaction(TxnOptions::pessimistic().lock_timeout(Duration::ZERO))
        .unwrap();
    let error = two.put("stock", "2").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let message = error.to_string();
    let holder = format!("transaction {} (exclusively, for ", one.id());
    for part in ["'stock'", "'default'", &holder, "roll back", "lock_timeout"] {
        assert!(message.contains(part), "{message}");
    }
    // It goes on.
    two.put("other", "2").unwrap();
    one.commit().unwrap();
    two.put("stock", "2").unwrap();
    two.commit().unwrap();
    assert_eq!(text(db.get("stock").unwrap()).unwrap(), "2");
    assert_eq!(db.transactions().locked_keys, 0);
}

#[test]
fn a_range_that_is_read_keeps_writers_out_and_says_so() {
    let db = open();
    let options = patient().isolation(Isolation::Serializable);
    let one = db.transaction(options).unwrap();
    assert_eq!(one.range("b".."d").count(), 0);
    let mut two = db
        .transaction(options.lock_timeout(Duration::ZERO))
        .unwrap();
    two.put("a", "").unwrap();
    two.put("d", "").unwrap();
    // Others may read there.
    assert_eq!(two.get("bb").unwrap(), None);
    assert_eq!(two.range("a".."z").count(), 2);
    let error = two.put("c", "").unwrap_err().to_string();
    let holder = format!("transaction {} has locked a range", one.id());
    assert!(error.contains(&holder), "{error}");
    // And a reader of a range waits for writers in it.
    let three = db
        .transaction(options.lock_timeout(Duration::ZERO))
        .unwrap();
    let error = three.range("a".."b").next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let report = db.transactions();
    assert_eq!((report.open, report.locked_ranges), (3, 2));
    one.rollback();
    two.put("c", "").unwrap();
    two.commit().unwrap();
    assert_eq!(three.range("a".."z").count(), 3);
}

/// Ranges that meet, in which no key is. Whichever begins first, the second waits, and so does who puts a key there: nobody is
/// rolled back, nor refused its commit.
#[test]
fn who_deletes_a_range_waits_for_who_deletes_one_that_meets_it() {
    let hasty = TxnOptions::pessimistic().lock_timeout(Duration::ZERO);
    let ranges = ["b".."m", "f".."z"];
    for (first, second) in [(0, 1), (1, 0), (0, 0)] {
        let db = open();
        let [mut one, mut two, mut three] = [(); 3].map(|()| db.transaction(hasty).unwrap());
        one.delete_range(ranges[first].clone()).unwrap();
        let error = two.delete_range(ranges[second].clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(three.put("g", "three").is_err());
        one.put("h", "one").unwrap();
        one.commit().unwrap();
        two.delete_range(ranges[second].clone()).unwrap();
        let error = three.put("g", "three").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        two.commit().unwrap();
        three.put("g", "three").unwrap();
        three.commit().unwrap();
        let keys: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
        assert_eq!(keys, [b"g"]);
        let report = db.transactions();
        assert_eq!((report.locked_keys, report.locked_ranges), (0, 0));
    }
}

/// Whoever is refused what has changed is as before, and may go on: nobody waits for what it has not got.
#[test]
fn who_is_refused_what_has_changed_has_not_locked_it() {
    let db = open();
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let options = patient().isolation(isolation);
        let mut one = db.transaction(options).unwrap();
        one.put("own", "0").unwrap();
        one.take_snapshot().unwrap();
        assert_eq!(one.range("a".."c").count(), 0);
        db.put("k", "1").unwrap();
        let mut round = || {
            let refused = [
                one.put("k", "2"),
                one.get_for_update("k").map(drop),
                one.get_for_share("k").map(drop),
                one.delete_range("j".."l"),
            ];
            for error in refused.map(Result::unwrap_err) {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            }
            if isolation == Isolation::Serializable {
                assert!(one.range("j".."l").next().unwrap().is_err());
            }
            db.transactions().memory_bytes
        };
        let first = round();
        assert_eq!((0..100).map(|_| round()).max(), Some(first));
        // What it had locked before it has still, the range of a serializable one included.
        assert_eq!(one.get("b").unwrap(), None);
        let ranges = usize::from(isolation == Isolation::Serializable);
        let report = db.transactions();
        assert_eq!((report.locked_keys, report.locked_ranges), (1, ranges));
        let hasty = options.lock_timeout(Duration::ZERO);
        let mut two = db.transaction(hasty).unwrap();
        two.put("k", "3").unwrap();
        two.commit().unwrap();
        one.put("own", "1").unwrap();
        one.commit().unwrap();
    }
    assert_eq!(db.transactions().locked_keys, 0);
}

#[test]
fn who_is_refused_one_of_several_keys_has_locked_none() {
    let db = open();
    let hasty = TxnOptions::pessimistic().lock_timeout(Duration::ZERO);
    let mut other = db.transaction(hasty).unwrap();
    other.put("b", "1").unwrap();
    let reader = hasty.isolation(Isolation::Serializable);
    let reader = db.transaction(reader).unwrap();
    let read = || reader.multi_get(["a", "b", "c"]).map(|values| values.len());
    assert_eq!(read().unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(db.transactions().locked_keys, 1);
    other.rollback();
    assert_eq!(read().unwrap(), 3);
    assert_eq!(db.transactions().locked_keys, 3);
}

#[test]
fn a_waiter_goes_on_with_what_it_waited_for() {
    let db = open();
    db.put("n", "0").unwrap();
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let threads = 8u64;
        let rounds = 40u64;
        db.put("n", "0").unwrap();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        // No conflict, no deadlock: each waits for its turn and reads what the one before wrote.
                        let mut txn = db.transaction(patient().isolation(isolation)).unwrap();
                        let n = text(txn.get_for_update("n").unwrap()).unwrap();
                        let n: u64 = n.parse().unwrap();
                        txn.put("n", (n + 1).to_string()).unwrap();
                        txn.commit().unwrap();
                    }
                });
            }
        });
        let n = text(db.get("n").unwrap()).unwrap();
        assert_eq!(n, (threads * rounds).to_string());
    }
}

#[test]
fn a_deadlock_ends_with_the_youngest() {
    let db = open();
    let met = Barrier::new(2);
    thread::scope(|scope| {
        let mut old = db.transaction(patient()).unwrap();
        let mut young = db.transaction(patient()).unwrap();
        assert!(old.id() < young.id());
        let (db, met) = (&db, &met);
        scope.spawn(move || {
            young.put("b", "young").unwrap();
            met.wait();
            let error = young.put("a", "young").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict);
            let message = error.to_string();
            for part in ["deadlock", "youngest", "begin anew"] {
                assert!(message.contains(part), "{message}");
            }
            // It takes nothing any more, and has no lock.
            assert!(young.put("c", "").is_err() && young.get("c").is_err());
            assert!(young.iter().next().unwrap().is_err());
            let error = young.commit().unwrap_err().to_string();
            assert!(error.contains("deadlock"), "{error}");
            let _ = db;
        });
        old.put("a", "old").unwrap();
        met.wait();
        // Whoever closes the circle, it is the young one that gives up.
        old.put("b", "old").unwrap();
        old.commit().unwrap();
    });
    assert_eq!(text(db.get("a").unwrap()).unwrap(), "old");
    assert_eq!(db.transactions().locked_keys, 0);
}

/// A prepared transaction that nobody resolves keeps its locks, and who waits for one has no limit. They end with the store.
#[test]
fn a_close_wakes_whoever_waits_for_a_lock() {
    let db = open();
    let mut first = db.transaction(patient()).unwrap();
    first.put("k", "1").unwrap();
    let _prepared = first.prepare("first").unwrap();
    thread::scope(|scope| {
        for limit in [Duration::MAX, Duration::MAX, Duration::from_secs(3600)] {
            let db = &db;
            scope.spawn(move || {
                let options = patient().lock_timeout(limit);
                let mut waits = db.transaction(options).unwrap();
                let error = waits.put("k", "2").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Closed);
            });
        }
        while db.transactions().waiting < 3 {
            thread::yield_now();
        }
        db.db.clone().close().unwrap();
    });
    // Nobody begins to wait.
    let mut late = db.transaction(patient()).unwrap();
    let error = late.put("k", "3").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let report = db.transactions();
    assert_eq!((report.waiting, report.locked_keys), (0, 1));
}

/// Many threads lock few keys in any order, in all modes, and ranges. The test ends, and all that was committed is there.
#[test]
fn deadlocks_are_always_broken() {
    const KEYS: usize = 5;
    const THREADS: usize = 8;
    let committed_wanted = thermocline_testkit::explore::explored(150, 1500);
    let db = open();
    let deadlocks = AtomicU64::new(0);
    let sum = AtomicU64::new(0);
    thread::scope(|scope| {
        for index in 0..THREADS {
            let (db, deadlocks, sum) = (&db, &deadlocks, &sum);
            scope.spawn(move || {
                let mut rng = Rng::new(index as u64);
                let mut committed = 0;
                while committed < committed_wanted {
                    let level = *rng.pick(&[Isolation::Snapshot, Isolation::Serializable]);
                    let mut txn = db.transaction(patient().isolation(level)).unwrap();
                    let mut work = || {
                        let mut added = 0;
                        for _ in 0..1 + rng.below(4) {
                            let key = [b'a' + u8::try_from(rng.below(KEYS)).unwrap()];
                            thread::yield_now();
                            match rng.below(6) {
                                0 => drop(txn.get(key)?),
                                1 => {
                                    let entries = txn.range([b'a']..[b'c']);
                                    entries.collect::<Result<Vec<_>, _>>()?;
                                }
                                _ => {
                                    let before = text(txn.get_for_update(key)?);
                                    let n: u64 = before.map_or(0, |n| n.parse().unwrap());
                                    txn.put(key, (n + 1).to_string())?;
                                    added += 1;
                                }
                            }
                        }
                        Ok::<u64, thermocline::Error>(added)
                    };
                    let ended = match work() {
                        Ok(added) => txn.commit().map(|()| added),
                        Err(error) => Err(error),
                    };
                    match ended {
                        Ok(added) => {
                            sum.fetch_add(added, Ordering::Relaxed);
                            committed += 1;
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                            let deadlock = error.to_string().contains("deadlock");
                            deadlocks.fetch_add(u64::from(deadlock), Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let values = db.iter().map(|entry| text(Some(entry.unwrap().1)).unwrap());
    let found: u64 = values.map(|n| n.parse::<u64>().unwrap()).sum();
    assert_eq!(found, sum.load(Ordering::Relaxed));
    let report = db.transactions();
    assert_eq!(
        (report.open, report.locked_keys, report.locked_ranges),
        (0, 0, 0)
    );
    assert_eq!((report.waiting, report.memory_bytes), (0, 0));
    println!("{} deadlocks broken", deadlocks.into_inner());
}

#[test]
fn locks_of_one_that_has_expired_are_taken_and_it_cannot_commit() {
    let db = open();
    let mut late = db
        .transaction(patient().expiration(Duration::ZERO))
        .unwrap();
    late.put("a", "late").unwrap();
    late.put("b", "late").unwrap();
    // Nobody else wants anything of it: it may go on.
    late.put("c", "late").unwrap();
    let mut two = db.transaction(patient()).unwrap();
    two.put("b", "two").unwrap();
    let error = late.put("d", "late").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let message = error.to_string();
    assert!(message.contains("expiration") && message.contains("begin anew"));
    assert!(late.get("a").is_err() && late.delete_range("k".."k").is_err());
    assert!(late.commit().is_err());
    two.commit().unwrap();
    assert_eq!(db.get("a").unwrap(), None);
    assert_eq!(text(db.get("b").unwrap()).unwrap(), "two");
    // One that has expired and that nobody was in the way of commits.
    let mut late = db
        .transaction(patient().expiration(Duration::ZERO))
        .unwrap();
    late.put("a", "late").unwrap();
    late.commit().unwrap();
    assert_eq!(db.transactions().locked_keys, 0);
    // A range that has expired keeps nobody.
    let options = patient().isolation(Isolation::Serializable);
    let late = db.transaction(options.expiration(Duration::ZERO)).unwrap();
    assert_eq!(late.range("x"..).count(), 0);
    let mut two = db.transaction(options).unwrap();
    two.put("x", "").unwrap();
    two.commit().unwrap();
    assert!(late.get("a").is_err());
    // It is over, though it has written nothing.
    let error = late.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

#[test]
fn an_upgrade_passes_a_writer_that_waits_for_it_anyway() {
    let db = open();
    let options = patient().isolation(Isolation::Serializable);
    let mut reader = db.transaction(options).unwrap();
    assert_eq!(reader.get("k").unwrap(), None);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = db.transaction(patient()).unwrap();
            writer.put("k", "writer").unwrap();
            writer.commit().unwrap();
        });
        while db.transactions().waiting == 0 {
            thread::yield_now();
        }
        reader.put("k", "reader").unwrap();
        reader.commit().unwrap();
    });
    assert_eq!(text(db.get("k").unwrap()).unwrap(), "writer");
    // So does whoever has locked a range with the key.
    let mut reader = db.transaction(options).unwrap();
    assert_eq!(reader.range("j".."l").count(), 1);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = db.transaction(patient()).unwrap();
            writer.put("k", "writer again").unwrap();
            writer.commit().unwrap();
        });
        while db.transactions().waiting == 0 {
            thread::yield_now();
        }
        // It reads again what it has locked, and writes it.
        assert!(reader.get("k").unwrap().is_some());
        assert_eq!(reader.range("j".."l").count(), 1);
        reader.put("k", "reader").unwrap();
        reader.commit().unwrap();
    });
    assert_eq!(text(db.get("k").unwrap()).unwrap(), "writer again");
}

/// Neither readers nor writers starve: whoever comes behind one that waits waits behind it.
#[test]
fn nobody_passes_one_that_waits() {
    let db = open();
    db.put("k", "1").unwrap();
    let hasty = patient().lock_timeout(Duration::ZERO);
    let mut first = db.transaction(patient()).unwrap();
    first.get_for_share("k").unwrap();
    // Beside a reader another one reads.
    let mut second = db.transaction(hasty).unwrap();
    second.get_for_share("k").unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writer = db.transaction(patient()).unwrap();
            writer.put("k", "2").unwrap();
            writer.commit().unwrap();
        });
        while db.transactions().waiting == 0 {
            thread::yield_now();
        }
        // Behind a writer that waits none does, however many come.
        for _ in 0..100 {
            let mut late = db.transaction(hasty).unwrap();
            let refused = late.get_for_share("k").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Busy);
        }
        // And one that waits sees what the writer before it wrote.
        let reader = scope.spawn(|| {
            let mut reader = db.transaction(patient()).unwrap();
            text(reader.get_for_share("k").unwrap())
        });
        while db.transactions().waiting < 2 {
            thread::yield_now();
        }
        first.rollback();
        second.rollback();
        writer.join().unwrap();
        assert_eq!(reader.join().unwrap().as_deref(), Some("2"));
    });
}

#[test]
fn an_upgrade_goes_first_and_two_of_one_key_are_a_deadlock() {
    let db = open();
    let options = patient().isolation(Isolation::Serializable);
    let mut old = db.transaction(options).unwrap();
    let young = db.transaction(options).unwrap();
    assert_eq!(old.get("k").unwrap(), None);
    assert_eq!(young.get("k").unwrap(), None);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut young = young;
            let error = young.put("k", "young").unwrap_err().to_string();
            assert!(error.contains("deadlock"), "{error}");
        });
        old.put("k", "old").unwrap();
    });
    old.commit().unwrap();
    assert_eq!(text(db.get("k").unwrap()).unwrap(), "old");
}

/// What is read for share stays as it is until the commit, in every kind and at every level, and others may read it so.
#[test]
fn what_is_read_for_share_does_not_change_before_the_commit() {
    for options in crate::all_options() {
        let db = open();
        db.put("rule", "1").unwrap();
        let begin = || db.transaction(options).unwrap();
        let (mut one, mut two) = (begin(), begin());
        for txn in [&mut one, &mut two] {
            let rule = txn.get_for_share("rule").unwrap();
            assert_eq!(text(rule).unwrap(), "1");
            let key = format!("by {}", txn.id());
            txn.put(key, "rule 1").unwrap();
        }
        one.commit().unwrap();
        // Whoever changes it waits for the second one, or refuses it.
        let mut changes = begin();
        let changed = changes.put("rule", "2").and_then(|()| changes.commit());
        assert_eq!(changed.is_ok(), two.commit().is_err(), "{options:?}");
        if let Err(error) = changed {
            assert_eq!(error.kind(), ErrorKind::Busy);
        }
        // So does a plain write, which no lock keeps out.
        let mut three = begin();
        three.get_for_share("rule").unwrap();
        three.put("by three", "rule").unwrap();
        db.put("rule", "3").unwrap();
        let error = three.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("'rule'"), "{error}");
        // Its own write is what it reads.
        let mut four = begin();
        four.put("rule", "4").unwrap();
        assert_eq!(text(four.get_for_share("rule").unwrap()).unwrap(), "4");
        four.commit().unwrap();
    }
}
