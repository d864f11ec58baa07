//! Operations are timed under their names, each once, failed ones too.

use thermocline::{CfOptions, Db, Durability, LatencyMetrics, Options};

fn open(folder: &tempfile::TempDir, every: u64) -> Db {
    let mut options = Options {
        pm: 16 << 20,
        ..Options::default()
    };
    options.metrics.latency_every = every;
    Db::open(folder.path().join("db"), options).unwrap()
}

/// Does the n-th number of each operation.
fn work(db: &Db) {
    let family = db.column_family("other", CfOptions::default()).unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "1").unwrap();
    family.put("a", "1").unwrap();
    db.delete("a").unwrap();
    family.delete("a").unwrap();
    let mut batch = db.batch();
    batch.put("c", "1").put_cf(&family, "c", "1");
    batch.commit(Durability::Immediate).unwrap();
    db.get("a").unwrap();
    family.get("a").unwrap();
    let snapshot = db.snapshot();
    snapshot.get("b").unwrap();
    db.multi_get(["a", "b"]).unwrap();
    family.multi_get(["a", "b"]).unwrap();
    // Two keys: a seek, a step to the second, and one past the end; and one of each end.
    assert_eq!(db.iter().count(), 2);
    let mut scan = snapshot.range("a"..);
    assert!(scan.next().is_some() && scan.next_back().is_some() && scan.next().is_none());
    let mut cursor = db.cursor().unwrap();
    assert!(cursor.seek_to_last().unwrap() && cursor.prev().unwrap());
    assert!(cursor.seek(b"a").unwrap() && cursor.next().unwrap());
}

fn counts(db: &Db) -> Vec<(&'static str, u64)> {
    let latencies = db.metrics().latencies;
    for l in &latencies {
        let LatencyMetrics {
            avg,
            p50,
            p90,
            p99,
            p999,
            max,
            ..
        } = *l;
        assert!(
            avg <= max && p50 <= p90 && p90 <= p99 && p99 <= p999 && p999 <= max,
            "{l:?}"
        );
    }
    latencies.iter().map(|l| (l.operation, l.count)).collect()
}

#[test]
fn every_operation_is_timed_once() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder, 1);
    assert_eq!(counts(&db), []);
    work(&db);
    let expected = [
        ("put", 3),
        ("delete", 2),
        ("batch", 1),
        ("get", 3),
        ("multi_get", 2),
        ("seek", 5),
        ("step", 5),
    ];
    assert_eq!(counts(&db), expected);
    let other = db.clone();
    db.close().unwrap();
    assert!(other.put("k", "v").is_err());
    assert_eq!(counts(&other)[0], ("put", 4));
    assert_eq!(other.metrics().runtime, None);
}

#[test]
fn none_is_timed_where_that_is_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder, 0);
    work(&db);
    assert_eq!(db.metrics().latencies, []);
    assert_eq!(db.metrics().runtime.unwrap().stores, 1);
}
