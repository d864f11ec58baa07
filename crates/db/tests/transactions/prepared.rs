//! Transactions that are prepared: whom they keep out, what is left of them after an opening, in copies, and for readers.
//!
//! Seen to fail on: a claim that a write, a staged batch, an ingestion, a drop or a preparation is not checked against; reads
//! or ranges that are not claimed; an open that restores no claims or no locks; a commit that leaves its records; a copy
//! without them.

use std::path::Path;
use std::time::Duration;

use thermocline::{
    CfOptions, ChangeOp, Db, Durability, Error, ErrorKind, IngestWriter, Isolation, Options,
    Result, Transaction, TxnOptions, limits,
};

/// A store in which little is a staged batch or a long value already.
pub fn options() -> Options {
    let mut options = Options {
        pm: 64 << 20,
        ..Options::default()
    };
    options.memtable.item_bytes_max = 4096;
    options.blob.inline_bytes_max = 2000;
    options
}

pub fn open(home: &tempfile::TempDir) -> Db {
    Db::open(home.path().join("db"), options()).unwrap()
}

fn serializable() -> TxnOptions {
    TxnOptions::optimistic().isolation(Isolation::Serializable)
}

/// How a transaction comes to rely on `k`.
const CLAIMS: [fn(&Db) -> Transaction; 6] = [
    |db| {
        let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
        txn.put("k", "1").unwrap();
        txn
    },
    |db| {
        let mut txn = db.transaction(TxnOptions::optimistic()).unwrap();
        txn.delete("k").unwrap();
        (0..30u8).for_each(|n| txn.put([b'y', n], [n; 1000]).unwrap());
        txn
    },
    |db| {
        let txn = db.transaction(serializable()).unwrap();
        assert!(txn.get("k").unwrap().is_some());
        txn
    },
    |db| {
        let options = TxnOptions::pessimistic().isolation(Isolation::Serializable);
        let mut txn = db.transaction(options).unwrap();
        assert_eq!(txn.range("j".."l").count(), 1);
        txn.put("y", [1; 10_000]).unwrap();
        txn
    },
    |db| {
        let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
        assert!(txn.get_for_share("k").unwrap().is_some());
        txn
    },
    |db| {
        let mut txn = db.transaction(TxnOptions::optimistic()).unwrap();
        txn.delete_range("j".."l").unwrap();
        txn
    },
];

/// What others do to `k`.
type Way = fn(&Db, &Path) -> Result<()>;

const WAYS: [Way; 11] = [
    |db, _| db.put("k", "2"),
    |db, _| db.delete("k"),
    |db, _| db.put("k", [2; 10_000]),
    |db, _| db.delete_range("k".."z"),
    |db, _| {
        let mut batch = db.batch();
        batch.put("a", "2").put("k", "2");
        batch.commit(Durability::Buffered)
    },
    |db, _| {
        let mut batch = db.batch();
        batch.put("a", "2").put("k", "2");
        batch.commit_async()?.wait()
    },
    // Staged.
    |db, _| {
        let mut batch = db.batch();
        (0..20u8).for_each(|n| {
            batch.put([b'z', n], [n; 1000]);
        });
        batch.put("k", "2").commit(Durability::Immediate)
    },
    |db, table| {
        let mut writer = IngestWriter::create(table)?;
        writer.put("another", "2")?;
        writer.finish()?;
        let ingested = db.ingest(&[table]);
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        let removed = std::fs::remove_file(table);
        removed.unwrap();
        ingested.map(drop)
    },
    |db, _| {
        let mut txn = db.transaction(TxnOptions::optimistic())?;
        txn.put("k", "2")?;
        txn.commit()
    },
    |db, _| {
        let mut txn = db.transaction(TxnOptions::optimistic())?;
        (0..20u8).for_each(|n| txn.put([b'z', n], [n; 1000]).unwrap());
        txn.delete_range("b".."l")?;
        txn.commit()
    },
    |db, _| {
        let options = TxnOptions::pessimistic().lock_timeout(Duration::ZERO);
        let mut txn = db.transaction(options)?;
        txn.put("k", "2")?;
        txn.commit()
    },
];

/// Refused, naming who is in the way.
fn refused(way: usize, done: Result<()>) {
    let error = done.expect_err(&format!("way {way}"));
    // Who locks as he goes does not come to his commit.
    let expected = [ErrorKind::Conflict, ErrorKind::Busy];
    assert_eq!(error.kind(), expected[usize::from(way == 10)], "{error}");
    assert!(error.to_string().contains("'one'") || way == 10, "{error}");
}

fn nobody_comes_in(db: &Db, table: &Path) {
    let before: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
    for (n, way) in WAYS.iter().enumerate() {
        refused(n, way(db, table));
    }
    let after: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
    assert_eq!(before, after);
    // Beside it everybody writes.
    db.put("a", "3").unwrap();
    db.delete("a").unwrap();
}

#[test]
fn nobody_changes_what_is_claimed_until_it_is_resolved_before_and_after_an_opening() {
    for claim in CLAIMS {
        for reopens in [false, true] {
            let home = crate::home();
            let (mut db, table) = (open(&home), home.path().join("table.sst"));
            db.put("k", "0").unwrap();
            let prepared = claim(&db).prepare("one").unwrap();
            assert_eq!(prepared.name(), b"one");
            assert_eq!(db.transactions().open, 0);
            nobody_comes_in(&db, &table);
            drop(prepared);
            if reopens {
                db.close().unwrap();
                db = open(&home);
                nobody_comes_in(&db, &table);
            }
            db.roll_back_prepared("one").unwrap();
            assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"0"[..]));
            assert!(db.prepared().unwrap().is_empty());
            let report = db.transactions();
            assert_eq!((report.prepared, report.locked_keys), (0, 0));
            assert_eq!((report.locked_ranges, report.memory_bytes), (0, 0));
            for way in WAYS {
                way(&db, &table).unwrap();
            }
        }
    }
}

#[test]
fn a_lock_that_a_prepared_transaction_has_is_waited_for_and_says_whose_it_is() {
    let home = crate::home();
    let db = open(&home);
    let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
    txn.put("k", "1").unwrap();
    drop(txn.prepare("one").unwrap());
    for reopened in [false, true] {
        let db = if reopened {
            db.clone().close().unwrap();
            open(&home)
        } else {
            db.clone()
        };
        let report = db.transactions();
        assert_eq!((report.prepared, report.locked_keys), (1, 1));
        let waits = TxnOptions::pessimistic().lock_timeout(Duration::ZERO);
        let mut other = db.transaction(waits).unwrap();
        let error = other.get_for_update("k").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
        let text = error.to_string();
        assert!(text.contains("prepared transaction 'one'"), "{text}");
        assert!(other.get_for_share("k").is_err());
        // A plain read sees what was there.
        assert_eq!(other.get("k").unwrap(), None);
        drop(other);
        if reopened {
            let forever = TxnOptions::pessimistic().lock_timeout(Duration::MAX);
            let mut other = db.transaction(forever).unwrap();
            let waiting = std::thread::spawn(move || {
                let value = other.get_for_update("k").unwrap();
                value.map(|value| value.to_vec())
            });
            while db.transactions().waiting == 0 {
                std::thread::yield_now();
            }
            db.commit_prepared("one").unwrap();
            assert_eq!(waiting.join().unwrap().as_deref(), Some(&b"1"[..]));
        }
    }
}

#[test]
fn of_two_that_meet_one_is_prepared_and_those_that_only_read_are_beside_each_other() {
    let home = crate::home();
    let db = open(&home);
    db.put("k", "0").unwrap();
    db.put("j", "0").unwrap();
    let no_wait = |options: TxnOptions| options.lock_timeout(Duration::ZERO);
    let reads_k_writes = |key: &str| {
        let mut txn = db.transaction(no_wait(serializable())).unwrap();
        assert!(txn.get("k").unwrap().is_some());
        txn.put(key, "1").unwrap();
        txn
    };
    let one = reads_k_writes("a").prepare("one").unwrap();
    let two = reads_k_writes("b").prepare("two").unwrap();
    // It would change what both rely on.
    let mut third = db.transaction(no_wait(TxnOptions::optimistic())).unwrap();
    third.put("k", "3").unwrap();
    assert!(third.prepare("three").is_err());
    // And this one would rely on what is about to change.
    let third = db.transaction(no_wait(serializable())).unwrap();
    assert!(third.range("a".."c").next().is_none());
    assert!(third.prepare("three").is_err());
    two.commit().unwrap();
    one.commit().unwrap();
    let keys: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, [b"a", b"b", b"j", b"k"]);
}

#[test]
fn what_was_changed_before_refuses_the_preparation_as_it_would_the_commit() {
    let home = crate::home();
    let db = open(&home);
    for kind in [TxnOptions::pessimistic(), TxnOptions::optimistic()] {
        db.put("k", "0").unwrap();
        let mut txn = db.transaction(kind).unwrap();
        assert!(txn.get_for_update("k").unwrap().is_some());
        txn.put("own", "1").unwrap();
        db.put("k", "2").unwrap();
        let error = txn.prepare("one").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(db.prepared().unwrap().is_empty());
        // Nothing is left in the way.
        db.put("own", "3").unwrap();
        db.delete("own").unwrap();
        let report = db.transactions();
        assert_eq!((report.locked_keys, report.memory_bytes), (0, 0));
    }
}

#[test]
fn readers_the_feed_and_others_meet_it_at_its_commit() {
    let home = crate::home();
    let db = open(&home);
    db.put("k", "0").unwrap();
    let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
    txn.put("k", "1").unwrap();
    txn.put("l", "1").unwrap();
    let prepared = txn.prepare("one").unwrap();
    let before = db.snapshot();
    let reader = db.transaction(serializable()).unwrap();
    assert_eq!(reader.get("k").unwrap().as_deref(), Some(&b"0"[..]));
    let mut overtaken = db.transaction(serializable()).unwrap();
    assert_eq!(overtaken.get("k").unwrap().as_deref(), Some(&b"0"[..]));
    overtaken.put("m", "0").unwrap();
    // Who commits before it came before it.
    let mut first = db.transaction(serializable()).unwrap();
    assert_eq!(first.get("l").unwrap(), None);
    first.put("n", "0").unwrap();
    first.commit().unwrap();
    db.put("z", "0").unwrap();
    prepared.commit().unwrap();
    assert_eq!(before.get("k").unwrap().as_deref(), Some(&b"0"[..]));
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(overtaken.commit().unwrap_err().kind(), ErrorKind::Conflict);
    reader.commit().unwrap();
    let mut keys = Vec::new();
    for group in db.changes_since(0).unwrap() {
        for change in group.unwrap().changes() {
            match change.unwrap().op {
                ChangeOp::Put { key, .. } => keys.push(key.to_vec()),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(keys, [&b"k"[..], b"n", b"z", b"k", b"l"]);
}

#[test]
fn large_ones_with_long_values_are_committed_as_they_were_prepared() {
    let home = crate::home();
    let db = open(&home);
    let other = db.column_family("other", CfOptions::default()).unwrap();
    let value = |n: u16| vec![n.to_le_bytes()[0]; 500 + 40 * usize::from(n)];
    let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
    for n in 0..300u16 {
        let key = n.to_be_bytes();
        match n % 2 {
            0 => txn.put(key, value(n)).unwrap(),
            _ => txn.put_cf(&other, key, value(n)).unwrap(),
        }
    }
    drop(txn.prepare("large").unwrap());
    assert_eq!(
        db.drop_column_family("other").unwrap_err().kind(),
        ErrorKind::Conflict
    );
    let state = &db.prepared().unwrap()[0];
    assert_eq!((state.changes, state.claims), (300, 300));
    assert_eq!(state.families, ["default", "other"]);
    assert!(state.bytes > 1 << 20);
    drop(other);
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(&home);
    db.compact::<&[u8]>(..).unwrap();
    db.commit_prepared("large").unwrap();
    let other = db.column_family("other", CfOptions::default()).unwrap();
    for n in 0..300u16 {
        let key = n.to_be_bytes();
        let found = match n % 2 {
            0 => db.get(key).unwrap(),
            _ => other.get(key).unwrap(),
        };
        assert_eq!(found.as_deref(), Some(&value(n)[..]));
    }
    db.drop_column_family("other").unwrap();
}

#[test]
fn a_commit_that_finds_no_room_leaves_it_prepared_and_a_rollback_finds_some() {
    let home = crate::home();
    let mut options = Options {
        pm: 4 << 20,
        ..Options::default()
    };
    options.flush.automatic = false;
    let db = Db::open(home.path().join("db"), options.clone()).unwrap();
    for name in ["one", "two"] {
        let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
        txn.put(name, [1; 400_000]).unwrap();
        drop(txn.prepare(name).unwrap());
    }
    let mut n = 0u32;
    let full = loop {
        n += 1;
        if let Err(error) = db.put(n.to_be_bytes(), [2; 30_000]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::OutOfSpace, "{full}");
    let error = db.commit_prepared("one").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert_eq!(db.prepared().unwrap().len(), 2);
    assert_eq!(db.put("one", "2").unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(db.get("one").unwrap(), None);
    db.roll_back_prepared("two").unwrap();
    db.close().unwrap();
    options.flush.automatic = true;
    options.pm = 16 << 20;
    let db = Db::open(home.path().join("db"), options).unwrap();
    db.commit_prepared("one").unwrap();
    assert_eq!(db.get("one").unwrap().as_deref(), Some(&[1; 400_000][..]));
    assert_eq!(db.get("two").unwrap(), None);
}

#[test]
fn wrong_use_is_an_error_that_says_so() {
    let home = crate::home();
    let db = open(&home);
    let begin = || db.transaction(TxnOptions::pessimistic()).unwrap();
    let invalid = |error: Error, what: &str| {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    let long = vec![b'n'; limits::PREPARED_NAME_LEN_MAX + 1];
    invalid(begin().prepare("").unwrap_err(), "1 to 64 bytes");
    invalid(begin().prepare(&long).unwrap_err(), "has 65");
    // One that has done nothing, with the longest name.
    let nothing = begin().prepare(&long[1..]).unwrap();
    let mut second = begin();
    second.put("k", "1").unwrap();
    invalid(second.prepare(&long[1..]).unwrap_err(), "prepared already");
    invalid(db.commit_prepared("two").unwrap_err(), "'two'");
    invalid(db.roll_back_prepared("two").unwrap_err(), "'two'");
    nothing.commit().unwrap();
    invalid(
        db.commit_prepared(&long[1..]).unwrap_err(),
        "never prepared",
    );
    // Resolved by its name behind its back.
    let mut txn = begin();
    txn.put("k", "1").unwrap();
    let prepared = txn.prepare(b"\xff\0").unwrap();
    db.commit_prepared(b"\xff\0").unwrap();
    invalid(prepared.rollback().unwrap_err(), "committed or rolled back");
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"1"[..]));
    // Of a family that is gone.
    let gone = db.column_family("gone", CfOptions::default()).unwrap();
    let mut txn = begin();
    txn.put_cf(&gone, "k", "1").unwrap();
    db.drop_column_family("gone").unwrap();
    invalid(txn.prepare("late").unwrap_err(), "'gone' was dropped");
    let report = db.transactions();
    assert_eq!((report.open, report.prepared), (0, 0));
    assert_eq!((report.locked_keys, report.memory_bytes), (0, 0));
    // Closed, and for reading only.
    let mut txn = begin();
    txn.put("k", "2").unwrap();
    drop(txn.prepare("one").unwrap());
    let late = begin();
    db.clone().close().unwrap();
    assert_eq!(late.prepare("late").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(
        db.commit_prepared("one").unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(db.prepared().unwrap_err().kind(), ErrorKind::Closed);
    drop(db);
    let reading = Options {
        read_only: true,
        ..options()
    };
    let db = Db::open(home.path().join("db"), reading).unwrap();
    assert_eq!(db.prepared().unwrap()[0].name, b"one");
    invalid(db.commit_prepared("one").unwrap_err(), "for reading only");
    let txn = db.transaction(TxnOptions::pessimistic()).unwrap();
    invalid(txn.prepare("two").unwrap_err(), "for reading only");
}

/// A name is free again when its transaction was resolved, and a handle is of that transaction.
#[test]
fn a_handle_resolves_its_own_transaction_and_no_other_one_of_its_name() {
    let home = crate::home();
    let db = open(&home);
    let prepare = |value: &str| {
        let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
        txn.put("k", value).unwrap();
        txn.prepare("one").unwrap()
    };
    for commits in [true, false] {
        let stale = prepare("stale");
        db.roll_back_prepared("one").unwrap();
        let other = prepare("other");
        let resolved = match commits {
            true => stale.commit(),
            false => stale.rollback(),
        };
        let error = resolved.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(db.transactions().prepared, 1);
        assert_eq!(db.prepared().unwrap().len(), 1);
        assert_eq!(db.get("k").unwrap(), None);
        other.rollback().unwrap();
    }
    prepare("last").commit().unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"last"[..]));
}

#[test]
fn expiration_takes_nothing_from_a_prepared_transaction() {
    let home = crate::home();
    let db = open(&home);
    let expires = TxnOptions::pessimistic().expiration(Duration::ZERO);
    let mut txn = db.transaction(expires).unwrap();
    txn.put("k", "1").unwrap();
    let prepared = txn.prepare("one").unwrap();
    let no_wait = TxnOptions::pessimistic().lock_timeout(Duration::ZERO);
    let mut other = db.transaction(no_wait).unwrap();
    assert_eq!(other.put("k", "2").unwrap_err().kind(), ErrorKind::Busy);
    prepared.commit().unwrap();
    other.put("k", "2").unwrap();
    other.commit().unwrap();
}
