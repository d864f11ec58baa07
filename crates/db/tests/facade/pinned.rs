//! Values that are read where they lie, and cursors that move on to the present.

use thermocline::{CfOptions, Db, ErrorKind, Options};

fn open(dir: &std::path::Path, percent: u64) -> Db {
    let mut options = Options {
        pm: 64 << 20,
        ..Options::default()
    };
    options.read.pins_percent_max = percent;
    Db::open(dir, options).unwrap()
}

#[test]
fn large_values_are_pinned_and_outlive_the_store() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let db = open(&dir, 50);
    let (small, large) = (vec![1u8; 1023], vec![2u8; 1024]);
    db.put("small", &small).unwrap();
    db.put("large", &large).unwrap();
    let value = db.get("small").unwrap().unwrap();
    assert!(!value.is_pinned() && *value == *small);
    assert_eq!(db.metrics().pinned_bytes, 0);
    let value = db.get("large").unwrap().unwrap();
    let at_moment = db.snapshot().get("large").unwrap().unwrap();
    let again = value.clone();
    assert!(value.is_pinned() && again.is_pinned() && at_moment == value);
    let metrics = db.metrics();
    assert_eq!(metrics.pinned_bytes, 3 * 1024);
    assert_eq!(metrics.memtables[0].pinned_bytes, 3 * 1024);
    drop((again, at_moment));
    assert_eq!(db.metrics().pinned_bytes, 1024);
    db.put("large", vec![3u8; 1024]).unwrap();
    assert!(*value == *large, "what was read stays");
    db.close().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    value.verify().unwrap();
    assert!(*value == *large && value.into_vec() == large);
}

#[test]
fn past_a_share_of_the_region_values_are_copied() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"), 5);
    let large = vec![7u8; 64 << 10];
    for n in 0..32u8 {
        db.put([n], &large).unwrap();
    }
    let region = db.metrics().region_bytes;
    let held: Vec<_> = (0..32u8).map(|n| db.get([n]).unwrap().unwrap()).collect();
    let pinned = held.iter().filter(|value| value.is_pinned()).count();
    assert!(pinned > 0 && pinned < 32, "{pinned} of 32");
    assert_eq!(db.metrics().pinned_bytes, (pinned * large.len()) as u64);
    assert!(db.metrics().pinned_bytes <= region / 20);
    assert!(held.iter().all(|value| **value == *large));
    drop(held);
    assert_eq!(db.metrics().pinned_bytes, 0);
    assert!(db.get([0]).unwrap().unwrap().is_pinned());
    // None at all, if that is what the options say.
    let none = open(&home.path().join("none"), 0);
    none.put("k", &large).unwrap();
    assert!(!none.get("k").unwrap().unwrap().is_pinned());
}

#[test]
fn a_refreshed_cursor_sees_the_present_and_lets_the_past_go() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"), 5);
    db.put("a", "1").unwrap();
    let mut cursor = db.cursor().unwrap();
    assert!(cursor.seek_to_first().unwrap());
    db.put("a", "2").unwrap();
    db.put("b", "3").unwrap();
    assert!(cursor.seek_to_first().unwrap() && cursor.value() == b"1");
    assert!(!cursor.next().unwrap());
    cursor.refresh().unwrap();
    assert!(!cursor.valid(), "at no key");
    assert!(cursor.seek_to_first().unwrap() && cursor.value() == b"2");
    assert!(cursor.next().unwrap() && cursor.key() == b"b");
    assert_eq!(db.metrics().readers, 1);
    let family = db.column_family("f", CfOptions::default()).unwrap();
    family.put("k", "v").unwrap();
    let mut cursor = family.cursor().unwrap();
    assert!(cursor.seek_to_first().unwrap());
    db.drop_column_family("f").unwrap();
    assert_eq!(
        cursor.refresh().unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert!(
        cursor.valid() && cursor.value() == b"v",
        "it stays where it was"
    );
}
