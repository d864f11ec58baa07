//! A transaction begins with the lists of one that has ended: with their memory, and nothing that was in them.

use thermocline::{ErrorKind, Isolation, Transaction, TxnOptions};

use crate::open;

fn options() -> TxnOptions {
    TxnOptions::pessimistic().isolation(Isolation::Serializable)
}

/// Something of all that a transaction may have.
fn fill(txn: &mut Transaction) {
    assert_eq!(txn.get("read").unwrap(), None);
    txn.get_for_update("wanted").unwrap();
    assert_eq!(txn.range("r".."s").count(), 0);
    for n in 0..40 {
        txn.put(format!("put {n}"), "first").unwrap();
    }
    let savepoint = txn.savepoint();
    txn.put("put 7", "again").unwrap();
    txn.rollback_to(savepoint).unwrap();
    txn.delete_range("d".."e").unwrap();
    assert_eq!(txn.range("p"..).count(), 40);
}

#[test]
fn the_next_has_nothing_of_the_last_one() {
    for way in 0..4 {
        let db = open();
        let mut last = db.transaction(options()).unwrap();
        fill(&mut last);
        let stale = last.savepoint();
        match way {
            0 => last.rollback(),
            1 => drop(last),
            2 => last.commit().unwrap(),
            _ => last.prepare("p").unwrap().rollback().unwrap(),
        }
        let written = db.iter().count();
        assert_eq!(written, if way == 2 { 40 } else { 0 });
        let report = db.transactions();
        assert_eq!((report.locked_keys, report.locked_ranges), (0, 0));
        assert_eq!((report.open, report.memory_bytes), (0, 0));

        let mut next = db.transaction(options()).unwrap();
        assert!(next.is_empty());
        let report = &db.transactions().transactions[0];
        assert_eq!((report.locks, report.snapshot), (0, None));
        let refused = next.rollback_to(stale).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        next.put("own", "1").unwrap();
        assert_eq!(next.get("d").unwrap(), None);
        // Nothing that the last one relied on is asked about.
        for key in ["read", "wanted", "put 3", "r", "rx"] {
            db.put(key, "plain").unwrap();
        }
        next.commit().unwrap();
        let plain = if way == 2 { 4 } else { 5 };
        assert_eq!(db.iter().count(), written + plain + 1, "{way}");
        assert_eq!(db.get("put 3").unwrap().as_deref(), Some(&b"plain"[..]));
    }
}

/// Large ones and small ones, in any order: each writes its own keys and no others.
#[test]
fn many_at_a_time_take_turns_with_what_others_left() {
    let db = open();
    for round in 0..20u32 {
        let mut all: Vec<_> = (0..40u32)
            .map(|_| db.transaction(options()).unwrap())
            .collect();
        for (n, txn) in all.iter_mut().enumerate() {
            let keys = if n % 10 == 3 { 300 } else { 1 + n % 4 };
            for key in 0..keys {
                txn.put(format!("{n} {key}"), round.to_be_bytes()).unwrap();
            }
        }
        for (n, txn) in all.into_iter().enumerate() {
            match (n + round as usize) % 3 {
                0 => txn.rollback(),
                _ => txn.commit().unwrap(),
            }
            let key = format!("{n} 0");
            let is_new = db.get(key).unwrap().as_deref() == Some(&round.to_be_bytes());
            let was_rolled_back = (n + round as usize).is_multiple_of(3);
            assert_eq!(is_new, !was_rolled_back, "{n} in {round}");
        }
        let report = db.transactions();
        assert_eq!(
            (report.open, report.locked_keys, report.memory_bytes),
            (0, 0, 0)
        );
    }
}
