//! Limits of keys, values, batches, names and options.

use std::ops::Bound;

use thermocline::limits::{
    CF_NAME_LEN_MAX, KEY_LEN_MAX, METADATA_LEN_MAX, VALUE_INLINE_MAX, VALUE_LEN_MAX,
};
use thermocline::options::{DRAM_MAX, Preset};
use thermocline::{CfOptions, Db, Durability, ErrorKind, IngestWriter, Options};

use super::*;

#[test]
fn keys_and_values() {
    let home = home();
    let dir = home.path().join("db");
    let db = Db::open(&dir, options()).unwrap();
    fill(&db);
    // Opened again and not written to, it has nothing to do in the background.
    db.close().unwrap();
    let db = Db::open(&dir, options()).unwrap();
    let before = snapshot(&dir);
    let seqno = db.metrics().seqno_visible;
    let long = vec![b'k'; KEY_LEN_MAX + 1];
    let says = ["key", "65535", "65536"];
    let kind = ErrorKind::InvalidArgument;
    let other = db.find_column_family("other").unwrap();
    refused(db.put(&long, "v"), kind, &says);
    refused(db.delete(&long), kind, &says);
    refused(db.get(&long), kind, &says);
    refused(other.put(&long, "v"), kind, &says);
    refused(other.delete(&long), kind, &says);
    refused(other.get(&long), kind, &says);
    // Zeros that nobody touches cost no memory.
    let huge = vec![0; VALUE_LEN_MAX + 1];
    refused(
        db.put("k", &huge),
        kind,
        &["value", "268435456", "268435457"],
    );
    // A batch that lost one change applies none, and says why.
    let mut batch = db.batch();
    batch.put("a", "b").put(&long, "v").put("c", "d");
    refused(
        batch.commit(Durability::Immediate),
        kind,
        &["65535", "65536"],
    );
    let again = batch.commit(Durability::Immediate);
    refused(again, kind, &["lost a change", "cleared", "65536"]);
    batch.clear();
    batch.put("a", &huge);
    refused(
        batch.commit(Durability::Immediate),
        kind,
        &["268435456", "268435457"],
    );
    drop(huge);
    // Bounds and positions may be as long as they like; nothing lies there.
    assert_eq!(db.range(..long.clone()).count(), entries().len());
    assert!(!db.cursor().unwrap().seek(&[0xff; KEY_LEN_MAX + 1]).unwrap());
    assert_unchanged(&dir, &before);
    assert_eq!(db.metrics().seqno_visible, seqno);
    assert_filled(&db);
    // At the limit all is well.
    let key = vec![b'k'; KEY_LEN_MAX];
    let value = vec![7; VALUE_INLINE_MAX];
    db.put(&key, &value).unwrap();
    db.put("", "").unwrap();
    // And over what a record holds itself.
    let long = [&value[..], b"!"].concat();
    other.put("long", &long).unwrap();
    drop((db, other, batch));
    let db = Db::open(&dir, options()).unwrap();
    let other = db.find_column_family("other").unwrap();
    assert!(*other.get("long").unwrap().unwrap() == long);
    assert_eq!(db.metrics().blobs.files, 1);
    assert!(*db.get(&key).unwrap().unwrap() == value);
    assert_eq!(db.get("").unwrap().as_deref(), Some(&b""[..]));
}

#[test]
fn batches() {
    let home = home();
    let dir = home.path().join("db");
    let db = Db::open(&dir, options()).unwrap();
    fill(&db);
    // Opened again and not written to, it has nothing to do in the background.
    db.close().unwrap();
    let db = Db::open(&dir, options()).unwrap();
    let before = snapshot(&dir);
    // Over what one item holds, and over what the region does.
    let mut too_big = db.batch();
    let value = vec![3; VALUE_INLINE_MAX];
    for n in 0..64u8 {
        too_big.put([n], &value);
    }
    let says = ["region", "is full"];
    refused(
        too_big.commit(Durability::Immediate),
        ErrorKind::OutOfSpace,
        &says,
    );
    assert_eq!(too_big.len(), 64, "the batch stays as it was");
    assert_unchanged(&dir, &before);
    // A family of another database.
    let stranger = Db::open(home.path().join("stranger"), options()).unwrap();
    let family = stranger
        .column_family("theirs", CfOptions::default())
        .unwrap();
    let mut mixed = db.batch();
    mixed.put("k", "v").put_cf(&family, "k", "v");
    let kind = ErrorKind::InvalidArgument;
    refused(mixed.commit(Durability::Immediate), kind, &["own database"]);
    mixed.clear();
    mixed.delete_cf(&family, "k");
    refused(mixed.commit(Durability::Immediate), kind, &["own database"]);
    mixed.clear();
    mixed.set_metadata_cf(&family, "blob");
    refused(mixed.commit(Durability::Immediate), kind, &["own database"]);
    refused(db.multi_get_cf([(&family, "k")]), kind, &["own database"]);
    // Metadata past its limit takes the whole batch along; at the limit all is well.
    let longest = vec![b'm'; METADATA_LEN_MAX];
    mixed.clear();
    mixed
        .put("k", "v")
        .set_metadata([&longest[..], b"m"].concat());
    let says = ["metadata", "65536", "65537"];
    refused(mixed.commit(Durability::Immediate), kind, &says);
    assert_unchanged(&dir, &before);
    assert_eq!(db.metadata().unwrap(), None);
    mixed.clear();
    mixed.set_metadata(&longest);
    mixed.commit(Durability::Immediate).unwrap();
    assert!(db.metadata().unwrap().unwrap() == longest[..]);
    mixed
        .set_metadata("")
        .commit(Durability::Immediate)
        .unwrap();
    assert_eq!(db.metadata().unwrap().as_deref(), Some(&b""[..]));
    // An empty batch is nothing.
    let seqno = db.metrics().seqno_visible;
    db.batch().commit(Durability::Immediate).unwrap();
    assert_eq!(db.metrics().seqno_visible, seqno);
    assert_filled(&db);
    drop((db, mixed, too_big));
    // In a larger region a little less is one item, and that batch is staged.
    let big_enough = Options {
        pm: 1 << 30,
        ..options()
    };
    let db = Db::open(&dir, big_enough.clone()).unwrap();
    let mut batch = db.batch();
    for n in 0..63u8 {
        batch.put([n], &value);
    }
    batch.commit(Durability::Immediate).unwrap();
    let mut staged = db.batch();
    for n in 0..64u8 {
        staged.put([n], &value);
    }
    staged.commit(Durability::Immediate).unwrap();
    drop((db, batch, staged));
    let db = Db::open(&dir, big_enough).unwrap();
    assert_eq!(db.metadata().unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(db.range([0]..=[63]).count(), 64);
    assert!(*db.get([63]).unwrap().unwrap() == value);
}

#[test]
fn ranges_that_end_before_they_begin() {
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, options());
    let db = Db::open(&dir, options()).unwrap();
    let down = db
        .column_family("down", CfOptions::default().reverse(true))
        .unwrap();
    down.put("m", "").unwrap();
    let up = db.find_column_family("default").unwrap();
    let file = home.path().join("out.sst");
    let (kind, says) = (ErrorKind::InvalidArgument, ["ends before it begins"]);
    for (family, begin, end) in [(&up, "key 2", "key 1"), (&down, "a\u{1}", "z")] {
        let says = [says[0], "key 2", "key 1"];
        let says = if begin == "key 2" {
            &says[..]
        } else {
            &["'a\\x01'", "'z'", "descending"]
        };
        let [first, last] = [begin, end].map(String::from);
        let range = || {
            (
                Bound::Included(first.clone()),
                Bound::Excluded(last.clone()),
            )
        };
        let then = db.snapshot().column_family(family).unwrap();
        for mut scan in [family.range(range()), then.range(range())] {
            refused(scan.next().unwrap(), kind, says);
            assert!(scan.next().is_none() && scan.next_back().is_none());
        }
        refused(family.range(range()).next_back().unwrap(), kind, says);
        refused(family.delete_range(range()), kind, says);
        refused(family.compact(range()), kind, says);
        refused(family.approximate_size(range()), kind, says);
        refused(family.export(range(), &file), kind, says);
        let mut batch = db.batch();
        batch.delete_range_cf(family, range());
        refused(batch.commit(Durability::Immediate), kind, says);
        // One that ends where it begins is empty.
        let empty = || {
            (
                Bound::Excluded(first.clone()),
                Bound::Excluded(first.clone()),
            )
        };
        assert_eq!(family.range(empty()).count(), 0);
        assert_eq!(family.approximate_size(empty()).unwrap().entries, 0);
        family.compact(empty()).unwrap();
    }
    let long = "l".repeat(1000);
    let error = refused(db.range(&*long.."a").next().unwrap(), kind, &says);
    assert!(error.to_string().len() < 300, "{error}");
    assert!(!file.exists());
    assert_filled(&db);
}

/// A range without keys is written nowhere. Whether anything could be deleted there is asked all the same.
#[test]
fn an_empty_range_is_refused_where_any_other_is() {
    let home = home();
    let db = Db::open(home.path().join("db"), options()).unwrap();
    let gone = db.column_family("gone", CfOptions::default()).unwrap();
    gone.delete_range("k".."k").unwrap();
    db.drop_column_family("gone").unwrap();
    for range in ["k".."l", "k".."k"] {
        refused(
            gone.delete_range(range),
            ErrorKind::InvalidArgument,
            &["'gone'"],
        );
    }
    db.clone().close().unwrap();
    for range in ["k".."l", "k".."k"] {
        refused(db.delete_range(range), ErrorKind::Closed, &["closed"]);
    }
}

#[test]
fn keys_of_a_table_that_do_not_ascend() {
    let home = home();
    let mut table = IngestWriter::create(home.path().join("t.sst")).unwrap();
    table.put("b", "1").unwrap();
    table.delete_range("k", "l").unwrap();
    let kind = ErrorKind::InvalidArgument;
    for key in ["a", "b"] {
        let says = format!("the key '{key}' must not be written after the key 'b' to ");
        refused(table.put(key, "2"), kind, &[&says[..], "ascend"]);
    }
    let says = "the key 'k' must not be written after the key 'k' to ";
    refused(table.delete_range("k", "m"), kind, &[says, "ascend"]);
    table.put("c", "3").unwrap();
    assert_eq!(table.finish().unwrap().entries, 2);
}

#[test]
fn names_of_column_families() {
    let home = home();
    let dir = home.path().join("db");
    let db = Db::open(&dir, options()).unwrap();
    let before = snapshot(&dir);
    let kind = ErrorKind::InvalidArgument;
    let long = "n".repeat(CF_NAME_LEN_MAX + 1);
    let says = ["name of a column family", "1 to 255", "256"];
    refused(db.column_family(&long, CfOptions::default()), kind, &says);
    refused(
        db.column_family("", CfOptions::default()),
        kind,
        &["1 to 255", "0"],
    );
    assert!(db.find_column_family("none").is_none());
    assert_unchanged(&dir, &before);
    let family = db.column_family(&long[1..], CfOptions::default()).unwrap();
    family.put("k", "v").unwrap();
    drop((db, family));
    let db = Db::open(&dir, options()).unwrap();
    assert_eq!(db.column_families(), ["default", &long[1..]]);
}

#[test]
fn options_out_of_range() {
    let home = home();
    let dir = home.path().join("db");
    let kind = ErrorKind::InvalidArgument;
    let bad: Vec<(Options, &[&str])> = vec![
        (
            Options {
                dram: 1000,
                ..options()
            },
            &["dram", "1 MiB", "1000"],
        ),
        (
            Options {
                dram: u64::MAX,
                ..Options::preset(Preset::Leveled)
            },
            &["dram", "128 TiB", "18446744073709551615 B"],
        ),
        (
            Options {
                pm: 1000,
                ..options()
            },
            &["pm", "256", "128 TiB"],
        ),
        (
            Options {
                pm: u64::MAX,
                ..options()
            },
            &["pm", "128 TiB"],
        ),
        (
            Options {
                pm: 300 << 10,
                ..Options::default()
            },
            &["part_bytes_first", "300"],
        ),
    ];
    for (options, says) in bad {
        refused(Db::open(&dir, options), kind, says);
        assert!(!dir.exists());
    }
    // Every row of every table, one below and one above.
    let mut out_of_range = 0;
    for row in Options::rows() {
        for value in [row.min.checked_sub(1), row.max.checked_add(1)]
            .into_iter()
            .flatten()
        {
            let mut options = options();
            let error = options.set(row.name, &value.to_string());
            refused(error, kind, &[row.name]);
            out_of_range += 1;
        }
    }
    assert!(out_of_range > 8);
    // Set past the parser: opening looks again.
    let breaks: [fn(&mut Options); 5] = [
        |o| o.read.readahead = 0,
        |o| o.pm_region.part_bytes_first = 3 << 18,
        |o| o.manifest.bytes_max = 1,
        |o| o.memtable.item_bytes_max = 64 << 20,
        |o| o.memtable.replay_threads = 10_000,
    ];
    for break_it in breaks {
        let mut options = options();
        break_it(&mut options);
        refused(Db::open(&dir, options.clone()), kind, &["must"]);
        assert!(!dir.exists());
    }
    filled(&dir, options());
    let before = snapshot(&dir);
    for break_it in breaks {
        let mut options = options();
        break_it(&mut options);
        refused(Db::open(&dir, options), kind, &["must"]);
    }
    assert_unchanged(&dir, &before);
    assert_filled(&Db::open(&dir, options()).unwrap());
}

/// As much `dram` as no process has addresses for: nothing is there afterwards that would remember it.
#[test]
fn dram_that_cannot_be_mapped() {
    for preset in [Preset::Leveled, Preset::Trident] {
        let home = home();
        let dir = home.path().join("db");
        let usual = Options::preset(preset);
        let most = Options {
            dram: DRAM_MAX,
            ..usual.clone()
        };
        let Err(error) = Db::open(&dir, most) else {
            // Some processors have more addresses.
            continue;
        };
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("as much as dram"), "{error}");
        let existing = Options {
            create_if_missing: false,
            ..usual.clone()
        };
        let kind = ErrorKind::InvalidArgument;
        refused(Db::open(&dir, existing), kind, &["no database"]);
        let db = Db::open(&dir, usual).unwrap();
        db.put("k", "v").unwrap();
        db.close().unwrap();
    }
}
