//! Compaction filters through the facade.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thermocline::filter::{CompactionFilter, Entry, Verdict};
use thermocline::{CfOptions, Db, Durability, Options, TxnOptions};

/// Removes values that end with `-`, and changes `+` at the end into `=`.
#[derive(Debug)]
struct Ends;

impl CompactionFilter for Ends {
    fn name(&self) -> &str {
        "tests.ends"
    }

    fn filter(&self, entry: &Entry<'_>) -> Result<Verdict, String> {
        let value = entry.value()?;
        Ok(match value.split_last() {
            Some((b'-', _)) => Verdict::Remove,
            Some((b'+', rest)) => Verdict::Change([rest, b"="].concat()),
            _ => Verdict::Keep,
        })
    }
}

fn open(folder: &tempfile::TempDir, shape: &str) -> Db {
    let mut options = Options {
        pm: 16 << 20,
        ..Options::default()
    };
    options.memtable.bytes_max = 64 << 10;
    options.compaction.table_bytes = 32 << 10;
    options.set("level0.shape", shape).unwrap();
    let builder = Db::builder(folder.path().join("db")).options(options);
    builder.compaction_filter("ends", Ends).open().unwrap()
}

/// A snapshot shows the same twice, and a transaction reads the same twice, whatever is filtered meanwhile by the database's own
/// threads and by hand.
#[test]
fn who_reads_twice_finds_the_same_while_others_write_and_compact() {
    for shape in ["tiered", "global-index", "pm-tables", "ssd"] {
        let folder = tempfile::tempdir().unwrap();
        let db = open(&folder, shape);
        let cf = db.column_family("ends", CfOptions::default()).unwrap();
        let (over, looks) = (AtomicBool::new(false), AtomicU64::new(0));
        let key = |n: u64| format!("{:03}", n % 300);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    cf.compact::<&str>(..).unwrap();
                }
            });
            scope.spawn(|| {
                let mut n = 0;
                while !over.load(Ordering::SeqCst) {
                    n += 1;
                    let snapshot = db.snapshot();
                    let own = snapshot.column_family(&cf).unwrap();
                    let all = || -> BTreeMap<_, _> { own.iter().map(Result::unwrap).collect() };
                    let first = all();
                    std::thread::yield_now();
                    assert!(first == all(), "a snapshot has changed");
                    drop(snapshot);
                    let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
                    let key = key(n * 7);
                    let first = txn.get_for_update_cf(&cf, &key).unwrap();
                    std::thread::yield_now();
                    assert_eq!(first.as_deref(), txn.get_cf(&cf, &key).unwrap().as_deref());
                    txn.rollback();
                    looks.fetch_add(1, Ordering::SeqCst);
                }
            });
            let mut n = 0u64;
            while looks.load(Ordering::SeqCst) < 20 || n < 6000 {
                let end = ["-", "+", "."][(n % 3) as usize];
                let value = format!("{n:0100}{end}");
                let mut batch = db.batch();
                batch.put_cf(&cf, key(n * 11), value);
                batch.commit(Durability::Buffered).unwrap();
                n += 1;
            }
            over.store(true, Ordering::SeqCst);
        });
        // Nobody reads: all of it is filtered.
        cf.compact::<&str>(..).unwrap();
        let ends = cf.iter().map(|entry| *entry.unwrap().1.last().unwrap());
        assert!(ends.into_iter().all(|end| end == b'=' || end == b'.'));
        let did = db.metrics().compaction.filters;
        assert!(
            did.removed > 0 && did.changed > 0 && did.failed == 0,
            "{did:?}"
        );
        drop(cf);
        db.close().unwrap();
    }
}

#[test]
fn long_values_are_read_when_a_filter_asks_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder, "ssd");
    let cf = db.column_family("ends", CfOptions::default()).unwrap();
    let long = |end: u8| [vec![b'v'; 3 << 20], vec![end]].concat();
    cf.put("gone", long(b'-')).unwrap();
    cf.put("stays", long(b'.')).unwrap();
    // Not longer than a table holds itself.
    cf.put("other", [vec![b'v'; 1000], vec![b'+']].concat())
        .unwrap();
    cf.compact::<&str>(..).unwrap();
    assert!(cf.get("gone").unwrap().is_none());
    assert_eq!(cf.get("stays").unwrap().unwrap().len(), (3 << 20) + 1);
    assert_eq!(cf.get("other").unwrap().unwrap()[1000], b'=');
}
