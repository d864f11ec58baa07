//! Merging level 0 by hand, inside persistent memory.

use thermocline::{CfOptions, Db, Durability, ErrorKind, Options};

fn options() -> Options {
    let mut options = Options {
        pm: 16 << 20,
        ..Options::default()
    };
    for (name, value) in [("level0.shape", "pm-tables"), ("level0.internal", "off")] {
        options.set(name, value).unwrap();
    }
    options
}

/// Entries of level 0 in persistent memory, of the default family and of another one.
fn entries(db: &Db) -> [u64; 2] {
    let map = db.map();
    let of = |name: &str| {
        let family = map.iter().find(|f| f.name.as_deref() == Some(name));
        let tables = family.into_iter().flat_map(|f| &f.tables);
        tables
            .inspect(|t| assert!(t.in_pm))
            .map(|t| t.entries)
            .sum()
    };
    [of("default"), of("other")]
}

#[test]
fn each_family_is_merged_by_itself_and_stays_in_persistent_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = Db::open(&path, options()).unwrap();
    let other = db.column_family("other", CfOptions::default()).unwrap();
    let later = Durability::Buffered;
    for round in 0..3u8 {
        for key in 0..100u8 {
            db.put_with([key], [round; 500], later).unwrap();
            other.put_with([key], [round; 500], later).unwrap();
        }
        db.flush().unwrap();
    }
    assert_eq!(entries(&db), [300, 300]);
    other.compact_level0().unwrap();
    assert_eq!(entries(&db), [300, 100]);
    db.compact_level0().unwrap();
    assert_eq!(entries(&db), [100, 100]);
    assert_eq!(db.get([7]).unwrap().as_deref(), Some(&[2; 500][..]));
    assert_eq!(other.get([7]).unwrap().as_deref(), Some(&[2; 500][..]));
    db.drop_column_family("other").unwrap();
    let refused = other.compact_level0().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    db.close().unwrap();
    let mut own = options();
    own.read_only = true;
    let db = Db::open(&path, own).unwrap();
    let refused = db.compact_level0().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
}

#[test]
fn where_level_0_lies_elsewhere_there_is_nothing_to_merge() {
    let folder = tempfile::tempdir().unwrap();
    let mut own = options();
    own.set("level0.shape", "ssd").unwrap();
    own.compaction.level0_tables = 1024;
    let db = Db::open(folder.path().join("db"), own).unwrap();
    for round in 0..3u8 {
        db.put("key", [round]).unwrap();
        db.flush().unwrap();
    }
    db.compact_level0().unwrap();
    assert_eq!(db.metrics().levels[0].runs, 3);
}
