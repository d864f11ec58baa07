//! What transactions take, and where that ends.

use std::thread;
use std::time::Duration;

use thermocline::{Durability, ErrorKind, Isolation, TxnOptions};

use crate::open;

#[test]
fn a_hundred_thousand_locks_and_ten_thousand_transactions_are_counted_and_given_back() {
    const LOCKS: u32 = 100_000;
    const OPEN: usize = 10_000;
    let db = open();
    let mut large = db.transaction(TxnOptions::pessimistic()).unwrap();
    for n in 0..LOCKS {
        large.put(n.to_be_bytes(), "x").unwrap();
    }
    let mut small: Vec<_> = (0..OPEN)
        .map(|_| db.transaction(TxnOptions::pessimistic()).unwrap())
        .collect();
    for (n, txn) in small.iter_mut().enumerate() {
        assert_eq!(txn.get_for_update(format!("small {n}")).unwrap(), None);
    }
    let report = db.transactions();
    assert_eq!((report.open, report.waiting), (OPEN + 1, 0));
    assert_eq!(report.locked_keys, LOCKS as usize + OPEN);
    assert!(report.memory_bytes <= report.memory_bytes_max);
    assert_eq!(report.memory_bytes_max, db.metrics().dram_limit_bytes / 4);
    // The one that has been open longest comes first, with some of its keys.
    let first = &report.transactions[0];
    assert_eq!((first.id, first.locks), (large.id(), u64::from(LOCKS)));
    assert_eq!(first.keys.len(), 8);
    assert!(
        first
            .keys
            .iter()
            .all(|key| key.exclusive && key.family == "default")
    );
    assert_eq!(first.snapshot, None);
    assert!(report.transactions[1].snapshot.is_some());
    drop(small);
    large.commit().unwrap();
    let report = db.transactions();
    assert_eq!(
        (report.open, report.locked_keys, report.memory_bytes),
        (0, 0, 0)
    );
    assert_eq!(db.iter().count(), LOCKS as usize);
}

/// Each that ends changes for whom the last one waits, and must not look through all the others for each of them.
#[test]
fn one_waits_for_ten_thousand_that_share_a_key() {
    const SHARERS: usize = 10_000;
    let db = open();
    db.put("shared", "1").unwrap();
    let options = TxnOptions::pessimistic().lock_timeout(Duration::from_secs(600));
    let sharers: Vec<_> = (0..SHARERS)
        .map(|_| {
            let mut txn = db.transaction(options).unwrap();
            txn.get_for_share("shared").unwrap();
            txn
        })
        .collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut alone = db.transaction(options).unwrap();
            alone.put("shared", "2").unwrap();
            alone.commit().unwrap();
        });
        while db.transactions().waiting == 0 {
            thread::yield_now();
        }
        assert_eq!(db.get("shared").unwrap().as_deref(), Some(&b"1"[..]));
        sharers.into_iter().for_each(|txn| txn.rollback());
    });
    assert_eq!(db.get("shared").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(db.transactions().memory_bytes, 0);
}

/// Whoever tries again and again, and takes it back, has no more than at first.
#[test]
fn what_is_taken_back_or_refused_is_given_back() {
    let db = open();
    let mut other = db.transaction(TxnOptions::pessimistic()).unwrap();
    other.put("m", "1").unwrap();
    let options = TxnOptions::pessimistic().isolation(Isolation::Serializable);
    let mut txn = db
        .transaction(options.lock_timeout(Duration::ZERO))
        .unwrap();
    let savepoint = txn.savepoint();
    let mut round = || {
        txn.put("k", vec![0; 100_000]).unwrap();
        txn.rollback_to(savepoint).unwrap();
        let refused = txn.range("l".."n").next().unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Busy);
        db.transactions().memory_bytes
    };
    let first = (0..10).map(|_| round()).max();
    let later = (0..1000).map(|_| round()).max();
    assert_eq!(first, later);
}

/// An iterator remembers the key up to which it went, however short its bounds are.
#[test]
fn keys_that_iterators_went_to_are_counted() {
    let db = open();
    let longest = vec![b'k'; 60_000];
    db.put("a", "").unwrap();
    db.put(&longest, "").unwrap();
    let options = TxnOptions::optimistic().isolation(Isolation::Serializable);
    let txn = db.transaction(options).unwrap();
    let bytes = || db.transactions().memory_bytes;
    for way in ["forwards", "backwards"] {
        let before = bytes();
        for _ in 0..100 {
            let mut entries = txn.iter();
            let (key, _) = match way {
                "forwards" => entries.nth(1),
                _ => entries.next_back(),
            }
            .unwrap()
            .unwrap();
            assert_eq!(key, longest);
        }
        let taken = bytes() - before;
        // A little goes for all else, and some is taken ahead.
        assert!((6_000_000..6_200_000).contains(&taken), "{way} {taken}");
    }
}

#[test]
fn savepoints_are_counted_and_those_that_are_passed_are_given_back() {
    let db = open();
    let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
    let bytes = || db.transactions().memory_bytes;
    let (before, first) = (bytes(), txn.savepoint());
    for _ in 0..100_000 {
        let _later = txn.savepoint();
    }
    let all = bytes();
    assert!(all - before >= 100_000 * 24, "{before} {all}");
    // What they took is there for others.
    txn.rollback_to(first).unwrap();
    for _ in 0..100_000 {
        let _later = txn.savepoint();
    }
    assert_eq!(bytes(), all);
    txn.rollback();
    assert_eq!(bytes(), 0);
}

/// A range has a list of the writes that it hides.
#[test]
fn writes_that_a_range_hides_are_counted() {
    let db = open();
    let taken = |keys: u32| {
        let mut txn = db.transaction(TxnOptions::optimistic()).unwrap();
        for n in 0..keys {
            txn.put(n.to_be_bytes(), "").unwrap();
        }
        txn.delete_range("".."z").unwrap();
        txn.delete_range("".."z").unwrap();
        db.transactions().memory_bytes
    };
    let more = taken(50_001) - taken(1);
    // Each write counts as 160 bytes and its key, and is in the list of the first range alone. Some is taken ahead.
    let expected = 50_000 * (160 + 4 + 8);
    assert!(more.abs_diff(expected) < 10_000, "{more} {expected}");
    assert_eq!(db.transactions().memory_bytes, 0);
}

#[test]
fn the_limit_of_memory_is_said_and_holds_for_all_together() {
    let db = open();
    let limit = db.transactions().memory_bytes_max;
    // What is never ended takes what it has, and no more.
    let mut first = db.transaction(TxnOptions::optimistic()).unwrap();
    let value = vec![0; 8 << 20];
    let error = (0..)
        .find_map(|n: u32| first.put(n.to_be_bytes(), &value).err())
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace);
    let message = error.to_string();
    for part in ["256 MiB", "`dram`", "Db::transactions"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(db.transactions().memory_bytes <= limit);
    let mut second = db.transaction(TxnOptions::pessimistic()).unwrap();
    let error = second.put("k", &value).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace);
    assert_eq!(db.transactions().locked_keys, 0);
    // What failed took nothing, and small things still fit.
    second.put("k", "small").unwrap();
    second.commit().unwrap();
    first.rollback();
    assert_eq!(db.transactions().memory_bytes, 0);
}

#[test]
fn a_transaction_whose_past_is_forgotten_is_refused() {
    let db = open();
    db.put("k", "1").unwrap();
    let options = TxnOptions::optimistic().isolation(Isolation::Serializable);
    let begin = || {
        let mut txn = db.transaction(options).unwrap();
        assert!(txn.get("k").unwrap().is_some());
        txn.put("other", "").unwrap();
        txn
    };
    let (old, mut ranges, fresh) = (begin(), begin(), begin());
    assert_eq!(ranges.range("y"..).count(), 0);
    ranges.put("z", "").unwrap();
    // More keys than are remembered.
    let mut batch = db.batch();
    for n in 0..6_000u32 {
        let key = [&n.to_be_bytes()[..], &[b'x'; 4000]].concat();
        batch.put(key, "");
        if n % 1000 == 999 {
            batch.commit(Durability::Buffered).unwrap();
        }
    }
    // What has single keys may know from hashes that they have not changed; whoever has ranges does not.
    let error = ranges.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let message = error.to_string();
    assert!(message.contains("not remembered"), "{message}");
    db.put("k", "2").unwrap();
    assert!(old.commit().is_err() && fresh.commit().is_err());
    let mut txn = begin();
    txn.delete("k").unwrap();
    txn.commit().unwrap();
}

#[test]
fn as_many_are_open_as_may_be() {
    let db = open();
    let options = TxnOptions::optimistic().lock_timeout(Duration::ZERO);
    let mut all = Vec::new();
    let error = loop {
        match db.transaction(options) {
            Ok(txn) => all.push(txn),
            Err(error) => break error,
        }
    };
    assert_eq!(all.len(), 65_536);
    assert_eq!(error.kind(), ErrorKind::OutOfSpace);
    assert!(error.to_string().contains("65536"), "{error}");
    all.pop();
    db.transaction(options).unwrap();
}
