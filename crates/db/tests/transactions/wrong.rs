//! Wrong use, and use at the wrong time.

use thermocline::{CfOptions, Durability, ErrorKind, TxnOptions, WriteOptions};

use crate::{all_options, open};

#[test]
fn families_of_others_and_dropped_ones_are_refused() {
    for options in all_options() {
        let (db, stranger) = (open(), open());
        let theirs = stranger
            .column_family("other", CfOptions::default())
            .unwrap();
        let own = db.column_family("own", CfOptions::default()).unwrap();
        let mut txn = db.transaction(options).unwrap();
        let errors = [
            txn.get_cf(&theirs, "k").unwrap_err(),
            txn.get_for_update_cf(&theirs, "k").unwrap_err(),
            txn.put_cf(&theirs, "k", "v").unwrap_err(),
            txn.delete_cf(&theirs, "k").unwrap_err(),
            txn.delete_range_cf(&theirs, "a".."b").unwrap_err(),
            txn.iter_cf(&theirs).next().unwrap().unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains("own database"), "{error}");
        }
        txn.put_cf(&own, "k", "v").unwrap();
        txn.put("k", "v").unwrap();
        db.drop_column_family("own").unwrap();
        let error = txn.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("'own'"), "{error}");
        // All or nothing.
        assert_eq!(db.get("k").unwrap(), None);
        let txn = db.transaction(options).unwrap();
        assert!(txn.get_cf(&own, "k").is_err());
        assert!(txn.iter_cf(&own).next().unwrap().is_err());
    }
}

#[test]
fn limits_and_ranges_are_checked_and_nothing_is_done() {
    let db = open();
    for options in all_options() {
        let mut txn = db.transaction(options).unwrap();
        let long = vec![0; 65_536];
        assert!(txn.get(&long).is_err() && txn.put(&long, "").is_err());
        assert!(txn.get_for_update(&long).is_err() && txn.delete(&long).is_err());
        let error = txn.put("k", vec![0; (256 << 20) + 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(txn.delete_range("b".."a").is_err());
        assert!(txn.range("b".."a").next().unwrap().is_err());
        assert!(txn.range("b".."b").next().is_none());
        txn.delete_range("b".."b").unwrap();
        assert!(txn.is_empty());
        assert_eq!(db.transactions().locked_keys, 0);
        txn.commit().unwrap();
    }
}

/// As outside of transactions: nothing lies behind the longest keys, and to ask for it is no mistake.
#[test]
fn bounds_may_be_longer_than_keys() {
    let db = open();
    let down = CfOptions::default().reverse(true);
    let down = db.column_family("down", down).unwrap();
    let longest = vec![0xff; 65_535];
    let long = [&longest[..], b"x"].concat();
    for key in [&b"a"[..], &longest] {
        db.put(key, "").unwrap();
        down.put(key, "").unwrap();
    }
    for options in all_options() {
        let txn = db.transaction(options).unwrap();
        let keys = |scan: thermocline::TransactionScan<'_>| -> usize {
            let entries: Result<Vec<_>, _> = scan.collect();
            entries.unwrap().len()
        };
        assert_eq!(keys(txn.range(..long.clone())), 2);
        assert_eq!(keys(txn.range(long.clone()..)), 0);
        assert_eq!(keys(txn.range_cf(&down, ..long.clone())), 0);
        assert_eq!(keys(txn.range_cf(&down, long.clone()..)), 2);
        assert_eq!(keys(txn.prefix(&longest)), 1);
        assert_eq!(keys(txn.prefix(&long)), 0);
        assert_eq!(keys(txn.prefix_cf(&down, &long)), 0);
        let error = txn.range(long.clone()..longest.clone()).next().unwrap();
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn savepoints_of_others_are_refused() {
    let db = open();
    let mut one = db.transaction(TxnOptions::pessimistic()).unwrap();
    let mut two = db.transaction(TxnOptions::pessimistic()).unwrap();
    let theirs = two.savepoint();
    let _own = one.savepoint();
    let error = one.rollback_to(theirs).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let (first, second) = (one.savepoint(), one.savepoint());
    one.rollback_to(first).unwrap();
    assert!(one.rollback_to(second).is_err());
    one.rollback_to(first).unwrap();
    // Of another store's transaction, which has the same number there, and as many savepoints.
    let stranger = open();
    let mut same = stranger.transaction(TxnOptions::pessimistic()).unwrap();
    assert_eq!(same.id(), one.id());
    let theirs = same.savepoint();
    one.put("k", "v").unwrap();
    let error = one.rollback_to(theirs).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(!one.is_empty());
}

#[test]
fn a_closed_store_takes_no_transaction_to_its_end() {
    for options in all_options() {
        let store = open();
        store.put("k", "1").unwrap();
        let db = store.db.clone();
        let mut read = db.transaction(options).unwrap();
        assert!(read.get("k").unwrap().is_some());
        read.put("k", "2").unwrap();
        let mut blind = db.transaction(options).unwrap();
        blind.put("other", "2").unwrap();
        let fresh = db.transaction(options).unwrap();
        store.db.clone().close().unwrap();
        // What it has a snapshot of is there.
        assert!(read.get("j").is_ok());
        for txn in [read, blind] {
            assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Closed);
        }
        assert_eq!(fresh.get("k").unwrap_err().kind(), ErrorKind::Closed);
        fresh.commit().unwrap();
    }
}

#[test]
fn a_commit_that_is_not_to_wait_may_be_refused_and_has_ended() {
    let db = open();
    let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
    // Over `memtable.item_bytes_max`, which always waits for the manifest.
    for n in 0..70u8 {
        txn.put([n], vec![n; 1 << 20]).unwrap();
    }
    let options = WriteOptions {
        durability: Durability::Immediate,
        no_slowdown: true,
    };
    assert_eq!(
        txn.commit_with(options).unwrap_err().kind(),
        ErrorKind::Busy
    );
    assert_eq!(db.iter().count(), 0);
    assert_eq!(db.transactions().open, 0);
}

#[test]
fn a_database_that_is_read_only_takes_no_commit() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let options = thermocline::Options {
        pm: 16 << 20,
        ..Default::default()
    };
    let db = thermocline::Db::open(&path, options.clone()).unwrap();
    db.put("k", "1").unwrap();
    db.close().unwrap();
    let options = thermocline::Options {
        read_only: true,
        ..options
    };
    let db = thermocline::Db::open(&path, options).unwrap();
    for options in all_options() {
        let mut txn = db.transaction(options).unwrap();
        assert!(txn.get("k").unwrap().is_some());
        txn.put("k", "2").unwrap();
        let error = txn.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let txn = db.transaction(options).unwrap();
        assert_eq!(txn.iter().count(), 1);
        txn.commit().unwrap();
    }
}

#[test]
fn a_transaction_may_go_to_another_thread_and_keeps_the_database_open() {
    for options in all_options() {
        let store = open();
        let mut txn = store.transaction(options).unwrap();
        txn.put("k", "1").unwrap();
        assert!(txn.get("j").unwrap().is_none());
        let watch = store.db.clone();
        drop(store.db);
        std::thread::spawn(move || {
            assert!(txn.range("a"..).count() == 1);
            txn.commit().unwrap();
        })
        .join()
        .unwrap();
        assert!(watch.get("k").unwrap().is_some());
    }
}
