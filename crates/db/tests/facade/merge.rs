//! Merge operators through the facade.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thermocline::limits::MERGE_OPERAND_LEN_MAX;
use thermocline::merge::{Append, Counter, MergeOperator};
use thermocline::{
    CfOptions, ColumnFamily, Db, Durability, ErrorKind, Isolation, Options, TxnOptions,
};
use thermocline_testkit::explore::explored;

fn small() -> Options {
    let mut options = Options {
        pm: 16 << 20,
        ..Options::default()
    };
    options.memtable.bytes_max = 256 << 10;
    options
}

/// That it is a wrong argument, and says so with these words.
fn says(error: thermocline::Error, what: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
    what.iter()
        .for_each(|what| assert!(text.contains(what), "{text}"));
}

fn counters(db: &Db) -> ColumnFamily {
    let options = CfOptions::default().merge_operator(Counter::NAME);
    db.column_family("counters", options).unwrap()
}

/// Brings all of it into tables, and those into one another.
fn settle(db: &Db, cf: &ColumnFamily) {
    db.flush().unwrap();
    cf.compact_level0().unwrap();
    cf.compact::<&str>(..).unwrap();
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

fn count(cf: &ColumnFamily, key: &str) -> Option<u64> {
    cf.get(key).unwrap().map(|value| number(&value))
}

/// Several threads count, while others flush and compact; the database is opened again in between. Nothing is lost, and
/// nothing counts twice.
#[test]
fn every_increment_counts_once_beside_flushes_and_compactions() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 3;
    let each = explored(1_000, 3_000);
    for shape in ["tiered", "global-index", "pm-tables", "immutables", "ssd"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let mut options = small();
        options.set("level0.shape", shape).unwrap();
        for round in 1..=ROUNDS {
            let db = Db::open(&path, options.clone()).unwrap();
            let cf = counters(&db);
            assert_eq!(count(&cf, "all").unwrap_or(0), (round - 1) * THREADS * each);
            let (over, added) = (AtomicBool::new(false), AtomicU64::new(0));
            std::thread::scope(|scope| {
                let writers: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        let (db, cf, added) = (&db, &cf, &added);
                        scope.spawn(move || {
                            for n in 0..each {
                                let mut batch = db.batch();
                                let one = 1u64.to_le_bytes();
                                batch.merge_cf(cf, "all", one);
                                batch.merge_cf(cf, format!("{:03}", (n * 7 + thread) % 100), one);
                                batch.commit(Durability::Buffered).unwrap();
                                added.fetch_add(1, Ordering::SeqCst);
                            }
                        })
                    })
                    .collect();
                scope.spawn(|| {
                    while !over.load(Ordering::SeqCst) {
                        settle(&db, &cf);
                    }
                });
                scope.spawn(|| {
                    while !over.load(Ordering::SeqCst) {
                        let before = added.load(Ordering::SeqCst);
                        let seen = count(&cf, "all").unwrap_or(0) - (round - 1) * THREADS * each;
                        let after = added.load(Ordering::SeqCst) + THREADS;
                        assert!(before <= seen && seen <= after, "{before} {seen} {after}");
                        let snapshot = db.snapshot();
                        let mut sum = 0;
                        let mut all = 0;
                        for entry in snapshot.column_family(&cf).unwrap().iter() {
                            let (key, value) = entry.unwrap();
                            match &*key == b"all" {
                                true => all = number(&value),
                                false => sum += number(&value),
                            }
                        }
                        assert_eq!(all, sum, "a batch is seen whole");
                    }
                });
                writers
                    .into_iter()
                    .for_each(|writer| writer.join().unwrap());
                over.store(true, Ordering::SeqCst);
            });
            assert_eq!(count(&cf, "all"), Some(round * THREADS * each), "{shape}");
            if round == 2 {
                settle(&db, &cf);
            }
        }
        let db = Db::open(&path, options).unwrap();
        let cf = counters(&db);
        let sum: u64 = (0..100)
            .filter_map(|n| count(&cf, &format!("{n:03}")))
            .sum();
        assert_eq!(sum, ROUNDS * THREADS * each, "{shape}");
        drop(cf);
        db.close().unwrap();
        let report = Db::verify(&path, small()).unwrap();
        assert!(report.faults.is_empty(), "{:?}", report.faults);
    }
}

#[test]
fn a_family_without_an_operator_refuses_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = Db::open(&path, small()).unwrap();
    says(
        db.merge("k", "1").unwrap_err(),
        &["'default'", "CfOptions::merge_operator"],
    );
    let mut batch = db.batch();
    batch.merge("k", "1");
    says(
        batch.commit(Durability::Immediate).unwrap_err(),
        &["'default'"],
    );
    let mut txn = db.transaction(TxnOptions::optimistic()).unwrap();
    says(txn.merge("k", "1").unwrap_err(), &["'default'"]);
    drop(txn);
    let unknown = CfOptions::default().merge_operator("mine");
    says(
        db.column_family("new", unknown).unwrap_err(),
        &["'new'", "'mine'", "DbBuilder::merge_operator"],
    );
    assert!(db.find_column_family("new").is_none());
    let cf = counters(&db);
    says(
        cf.merge("k", "1").unwrap_err(),
        &["thermocline.counter", "8 bytes"],
    );
    let other = CfOptions::default().merge_operator(Append::new("").name());
    says(
        db.column_family("counters", other).unwrap_err(),
        &["'counters'", "thermocline.counter", "stays"],
    );
    let lists = db.column_family("lists", other).unwrap();
    let long = vec![b'x'; thermocline::limits::MERGE_OPERAND_LEN_MAX + 1];
    says(lists.merge("k", &long).unwrap_err(), &["65536", "65537"]);
    // What is no counter is an error of the read, and of nothing else.
    cf.put("k", "three").unwrap();
    cf.merge("k", 1u64.to_le_bytes()).unwrap();
    for _ in 0..2 {
        says(
            cf.get("k").unwrap_err(),
            &["'k'", "thermocline.counter", "stay as they are"],
        );
        says(cf.iter().next().unwrap().unwrap_err(), &["'k'"]);
        settle(&db, &cf);
    }
    cf.put("k", 4u64.to_le_bytes()).unwrap();
    assert_eq!(count(&cf, "k"), Some(4));
}

/// Puts its operands in order, and wants to be given at each opening.
#[derive(Debug)]
struct Mine;

impl MergeOperator for Mine {
    fn name(&self) -> &str {
        "mine"
    }

    fn merge(&self, _: &[u8], existing: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
        assert!(operand != b"panic", "a fault of the operator's");
        Ok([existing.unwrap_or_default(), operand].concat())
    }
}

#[test]
fn an_operator_of_the_users_is_given_at_each_opening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let open = || {
        Db::builder(&path)
            .options(small())
            .merge_operator(Mine)
            .open()
    };
    let mine = CfOptions::default().merge_operator("mine");
    {
        let db = open().unwrap();
        db.column_family("default", mine).unwrap();
        db.merge("k", "a").unwrap();
        db.merge("bad", "panic").unwrap();
        let error = db.get("bad").unwrap_err().to_string();
        assert!(
            error.contains("'mine'") && error.contains("panicked"),
            "{error}"
        );
        db.flush().unwrap();
        db.merge("k", "b").unwrap();
        db.close().unwrap();
    }
    let error = Db::open(&path, small()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("'default'") && text.contains("'mine'"),
        "{text}"
    );
    let db = open().unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"ab"[..]));
    assert_eq!(db.column_family("default", mine).unwrap().options(), {
        CfOptions::default().reverse(false).merge_operator("mine")
    });
    db.flush().unwrap();
    db.compact::<&str>(..).unwrap();
    assert!(db.get("bad").is_err());
    db.delete("bad").unwrap();
    assert_eq!(db.get("bad").unwrap(), None);
}

#[test]
fn transactions_see_their_own_operands_and_conflict_as_with_a_put() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("db"), small()).unwrap();
    let append = Append::new("-");
    let lists = db
        .column_family("lists", CfOptions::default().merge_operator(append.name()))
        .unwrap();
    lists.put("a", "1").unwrap();
    lists.put("d", "1").unwrap();
    let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
    txn.merge_cf(&lists, "a", "2").unwrap();
    let savepoint = txn.savepoint();
    txn.merge_cf(&lists, "a", "3").unwrap();
    txn.merge_cf(&lists, "b", "x").unwrap();
    txn.put_cf(&lists, "c", "p").unwrap();
    txn.merge_cf(&lists, "c", "q").unwrap();
    txn.delete_range_cf(&lists, "d".."e").unwrap();
    txn.merge_cf(&lists, "d", "new").unwrap();
    let seen = |txn: &thermocline::Transaction| -> BTreeMap<Vec<u8>, Vec<u8>> {
        let all: BTreeMap<Vec<u8>, Vec<u8>> = txn
            .iter_cf(&lists)
            .map(|entry| {
                entry
                    .map(|(key, value)| (key.to_vec(), value.to_vec()))
                    .unwrap()
            })
            .collect();
        for key in [&b"a"[..], b"b", b"c", b"d"] {
            let value = txn.get_cf(&lists, key).unwrap();
            assert_eq!(value.as_deref(), all.get(key).map(Vec::as_slice));
        }
        // Together as one by one: keys of its own, keys of the store, and those that need both.
        let keys = ["zero", "a", "b", "a", "c", "d"];
        let together = txn.multi_get_cf(keys.map(|key| (&lists, key))).unwrap();
        for (key, value) in keys.iter().zip(together) {
            assert_eq!(value.as_deref(), all.get(key.as_bytes()).map(Vec::as_slice));
        }
        all
    };
    let texts = |all: BTreeMap<Vec<u8>, Vec<u8>>| -> Vec<String> {
        let text = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
            format!("{key}={value}")
        };
        all.iter().map(text).collect()
    };
    assert_eq!(texts(seen(&txn)), ["a=1-2-3", "b=x", "c=p-q", "d=new"]);
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(texts(seen(&txn)), ["a=1-2", "d=1"]);
    txn.commit().unwrap();
    assert_eq!(lists.get("a").unwrap().as_deref(), Some(&b"1-2"[..]));

    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let mut txn = db
            .transaction(TxnOptions::optimistic().isolation(isolation))
            .unwrap();
        txn.get_cf(&lists, "z").unwrap();
        txn.merge_cf(&lists, "a", "3").unwrap();
        lists.merge("a", "between").unwrap();
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
    }
    let a = lists.get("a").unwrap();
    assert_eq!(a.as_deref(), Some(&b"1-2-between-between"[..]));
}

/// A list that grows past what a table holds itself, on a long value, and one operand after the other.
/// What a transaction folds is one operand, which tables and change feeds must be able to have.
#[test]
fn operands_of_a_transaction_come_to_no_more_than_an_operand_may_have() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let append = Append::new("");
    let piece = vec![b'p'; MERGE_OPERAND_LEN_MAX / 2];
    let db = Db::open(&path, small()).unwrap();
    let lists = db
        .column_family("lists", CfOptions::default().merge_operator(append.name()))
        .unwrap();
    for prepared in [false, true] {
        let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
        txn.merge_cf(&lists, "long", &piece).unwrap();
        txn.merge_cf(&lists, "long", &piece).unwrap();
        let error = txn.merge_cf(&lists, "long", "q").unwrap_err();
        says(error, &["'long'", "65536", "65537", "commit before it"]);
        // Nothing has changed. Into a value of its own it merges what it likes.
        txn.put_cf(&lists, "own", &piece).unwrap();
        for _ in 0..4 {
            txn.merge_cf(&lists, "own", &piece).unwrap();
        }
        match prepared {
            true => txn.prepare("long").unwrap().commit().unwrap(),
            false => txn.commit().unwrap(),
        }
    }
    db.flush().unwrap();
    db.close().unwrap();
    let db = Db::open(&path, small()).unwrap();
    let lists = db.find_column_family("lists").unwrap();
    lists.compact::<&str>(..).unwrap();
    let len = |key: &str| lists.get(key).unwrap().map(|value| value.len());
    assert_eq!(len("long"), Some(4 * piece.len()));
    assert_eq!(len("own"), Some(5 * piece.len()));
}

#[test]
fn long_values_are_merged_wherever_they_lie() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("db"), small()).unwrap();
    let append = CfOptions::default().merge_operator(Append::new("").name());
    let lists = db.column_family("lists", append).unwrap();
    let mut expected = vec![b'v'; 2 << 20];
    lists.put("long", &expected).unwrap();
    let piece = vec![b'p'; 60 << 10];
    for n in 0..24u32 {
        lists.merge("long", &piece).unwrap();
        lists.merge("short", &piece).unwrap();
        expected.extend_from_slice(&piece);
        if n % 5 == 4 {
            settle(&db, &lists);
        }
        assert!(*lists.get("long").unwrap().unwrap() == *expected);
        let short = lists.get("short").unwrap().unwrap();
        assert!(*short == expected[2 << 20..]);
    }
}

/// The feed shows operands as they were written; a copy and a backup have what they come to.
#[test]
fn feeds_and_copies_have_each_operand_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = small();
    options.feed.retain_bytes = 1 << 20;
    let db = Db::open(folder.path().join("db"), options).unwrap();
    let replica = Db::open(folder.path().join("replica"), small()).unwrap();
    let (cf, mirror) = (counters(&db), counters(&replica));
    for n in 1..=20u64 {
        cf.merge("n", n.to_le_bytes()).unwrap();
        if n % 6 == 0 {
            db.flush().unwrap();
        }
    }
    let mut merges = 0;
    for group in db.changes_since(0).unwrap() {
        let group = group.unwrap();
        let mut batch = replica.batch();
        for change in group.changes() {
            let change = change.unwrap();
            merges += u64::from(change.op.name() == "merge");
            batch.apply(&mirror, &change);
        }
        batch.commit(Durability::Immediate).unwrap();
    }
    assert_eq!(merges, 20);
    assert_eq!(count(&mirror, "n"), Some(210));
    db.checkpoint(folder.path().join("copy")).unwrap();
    let copy = Db::open(folder.path().join("copy"), small()).unwrap();
    let copied = copy.find_column_family("counters").unwrap();
    assert_eq!(count(&copied, "n"), Some(210));
    copied.merge("n", 1u64.to_le_bytes()).unwrap();
    assert_eq!(
        (count(&copied, "n"), count(&cf, "n")),
        (Some(211), Some(210))
    );
}

/// Merges nothing.
#[derive(Debug)]
struct Never;

impl MergeOperator for Never {
    fn name(&self) -> &str {
        "tests.never"
    }

    fn merge(&self, _: &[u8], _: Option<&[u8]>, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("never".into())
    }
}

#[test]
fn keys_are_given_whatever_their_operands_come_to() {
    let folder = tempfile::tempdir().unwrap();
    let builder = Db::builder(folder.path().join("db")).options(small());
    let db = builder.merge_operator(Never).open().unwrap();
    let options = CfOptions::default().merge_operator("tests.never");
    let cf = db.column_family("never", options).unwrap();
    cf.put("a", "1").unwrap();
    cf.merge("b", "2").unwrap();
    cf.put("c", "3").unwrap();
    assert!(cf.iter().any(|entry| entry.is_err()));
    let entries: Vec<_> = cf.iter().keys_only().map(Result::unwrap).collect();
    let keys: Vec<&[u8]> = entries.iter().map(|(key, _)| &key[..]).collect();
    assert_eq!(keys, [b"a", b"b", b"c"]);
    assert!(entries.iter().all(|(_, value)| value.is_empty()));
    let back = cf.range("a".."c").keys_only().rev();
    assert!(back.map(|entry| entry.unwrap().0).eq([b"b", b"a"]));
    let mut cursor = cf.cursor().unwrap().keys_only();
    assert!(cursor.seek(b"b").unwrap());
    assert_eq!((cursor.key(), cursor.value()), (&b"b"[..], &b""[..]));
}
