//! Every way into the store is checked, and noted: small batches, staged ones, long values, ingested tables, families of
//! both orders.
//!
//! Seen to fail on: a staged batch that is not checked; one that is not noted; an ingestion that is not noted.

use std::path::PathBuf;

use thermocline::{
    CfOptions, Db, Durability, ErrorKind, IngestWriter, Isolation, Options, Transaction, TxnOptions,
};

use crate::Store;

/// One in which little is a staged batch or a long value already.
fn open() -> (Store, PathBuf) {
    let home = crate::home();
    let mut options = Options {
        pm: 64 << 20,
        ..Options::default()
    };
    options.memtable.item_bytes_max = 4096;
    options.blob.inline_bytes_max = 2000;
    let db = Db::open(home.path().join("db"), options).unwrap();
    let table = home.path().join("table.sst");
    (Store { db, _home: home }, table)
}

/// What a transaction writes.
const OWN: [fn(&mut Transaction); 3] = [
    |txn| txn.put("own", "small").unwrap(),
    |txn| (0..20u8).for_each(|n| txn.put([n], [n; 1000]).unwrap()),
    |txn| txn.put("own", [1; 10_000]).unwrap(),
];

/// What others write to `k` meanwhile.
type Other = fn(&Db, &PathBuf);

const OTHERS: [Other; 6] = [
    |db, _| db.put("k", "2").unwrap(),
    |db, _| db.put("k", [2; 10_000]).unwrap(),
    |db, _| {
        let mut batch = db.batch();
        (0..20u8).for_each(|n| {
            batch.put([b'z', n], [n; 1000]);
        });
        batch.put("k", "2").commit(Durability::Buffered).unwrap();
    },
    |db, table| {
        let mut writer = IngestWriter::create(table).unwrap();
        writer.put("k", "2").unwrap();
        writer.finish().unwrap();
        db.ingest(&[table]).unwrap();
    },
    |db, _| {
        let mut txn = db.transaction(TxnOptions::optimistic()).unwrap();
        txn.put("k", "2").unwrap();
        txn.commit().unwrap();
    },
    |db, _| {
        let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
        (0..20u8).for_each(|n| txn.put([b'z', n], [n; 1000]).unwrap());
        txn.delete_range("j".."l").unwrap();
        txn.commit().unwrap();
    },
];

#[test]
fn every_way_in_is_checked_and_noted() {
    let options = TxnOptions::optimistic().isolation(Isolation::Serializable);
    for own in OWN {
        let (db, _) = open();
        db.put("k", "1").unwrap();
        let mut txn = db.transaction(options).unwrap();
        assert!(txn.get("k").unwrap().is_some());
        own(&mut txn);
        txn.commit().unwrap();
        let entries = db.iter().count();
        assert!(entries > 1);
        for other in OTHERS {
            let (db, table) = open();
            db.put("k", "1").unwrap();
            let mut txn = db.transaction(options).unwrap();
            assert!(txn.get("k").unwrap().is_some());
            own(&mut txn);
            other(&db, &table);
            let before = db.iter().count();
            assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
            assert_eq!(db.iter().count(), before);
            // And none that came before.
            let mut txn = db.transaction(options).unwrap();
            txn.get("k").unwrap();
            own(&mut txn);
            txn.commit().unwrap();
        }
    }
}

#[test]
fn families_of_both_orders_are_one_transaction() {
    let (db, _) = open();
    let up = db.column_family("up", CfOptions::default()).unwrap();
    let down = db
        .column_family("down", CfOptions::default().reverse(true))
        .unwrap();
    let keys = |scan: thermocline::TransactionScan<'_>| -> Vec<u8> {
        scan.map(|entry| entry.unwrap().0[0]).collect()
    };
    for cf in [&up, &down] {
        cf.put("b", "").unwrap();
        cf.put("d", "").unwrap();
    }
    let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
    for cf in [&up, &down] {
        txn.put_cf(cf, "c", "").unwrap();
        txn.delete_cf(cf, "d").unwrap();
        txn.put_cf(cf, "e", "").unwrap();
    }
    assert_eq!(keys(txn.iter_cf(&up)), b"bce");
    assert_eq!(keys(txn.iter_cf(&down)), b"ecb");
    assert_eq!(keys(txn.range_cf(&up, "c"..)), b"ce");
    assert_eq!(keys(txn.range_cf(&down, "c"..)), b"cb");
    assert_eq!(keys(txn.prefix_cf(&down, "e")), b"e");
    txn.delete_range_cf(&down, "c".."b").unwrap();
    assert_eq!(keys(txn.iter_cf(&down)), b"eb");
    let before = txn.savepoint();
    for cf in [&up, &down] {
        txn.delete_prefix_cf(cf, "e").unwrap();
    }
    assert_eq!(keys(txn.iter_cf(&up)), b"bc");
    assert_eq!(keys(txn.iter_cf(&down)), b"b");
    txn.rollback_to(before).unwrap();
    txn.commit().unwrap();
    let left = |cf: &thermocline::ColumnFamily| -> Vec<u8> {
        cf.iter().map(|entry| entry.unwrap().0[0]).collect()
    };
    assert_eq!((left(&up), left(&down)), (b"bce".to_vec(), b"eb".to_vec()));
}

/// What is written is in the footprint by its write, and not when that is taken back. What was read stays, also where the
/// write was what was read.
#[test]
fn a_write_that_is_taken_back_counts_no_longer_and_a_read_does() {
    let kinds = [TxnOptions::optimistic(), TxnOptions::pessimistic()];
    let ways = [(false, false), (true, false), (false, true), (true, true)];
    for (options, (deleted_too, read_too)) in kinds.into_iter().flat_map(|o| ways.map(|w| (o, w))) {
        let (store, _) = open();
        let mut txn = store.db.transaction(options).unwrap();
        txn.take_snapshot().unwrap();
        let savepoint = txn.savepoint();
        txn.put("k", "1").unwrap();
        if deleted_too {
            // The range takes the write away, and is taken back with it.
            txn.delete_range("k".."l").unwrap();
        }
        if read_too {
            let own = txn.get_for_share("k").unwrap();
            assert_eq!(own.is_none(), deleted_too);
        }
        txn.rollback_to(savepoint).unwrap();
        txn.put("own", "1").unwrap();
        store.db.put("k", "2").unwrap();
        let ended = txn.commit();
        assert_eq!(ended.is_err(), read_too);
        if let Err(refused) = ended {
            assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
        }
        assert_eq!(store.db.get("own").unwrap().is_none(), read_too);
        assert_eq!(store.db.get("k").unwrap().as_deref(), Some(&b"2"[..]));
    }
}
