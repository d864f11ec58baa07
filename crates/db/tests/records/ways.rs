//! What tables do, step by step, and wrong use.

use std::time::Duration;

use thermocline::filter::{CompactionFilter, Entry, Verdict};
use thermocline::records::{Decimal, FAULTS_MAX, Field, Row, Schema, Table, Type, fields};
use thermocline::{CfOptions, Db, DbBuilder, Error, ErrorKind, Result, TxnOptions, limits};

use super::{begin, check, home, open, options, parts};

fn refused<T>(result: Result<T>, kind: ErrorKind, words: &[&str]) {
    let error = result.err().expect("it is refused");
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for word in words {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
}

fn all(rows: impl Iterator<Item = Result<Row>>) -> Vec<Row> {
    rows.map(Result::unwrap).collect()
}

#[test]
fn rows_are_there_with_their_entries_or_not_at_all() {
    let db = open();
    let schema = parts()
        .index("by_shelf", ["shelf", "name"])
        .unique("by_name", ["name"]);
    let table = Table::open(&*db, schema).unwrap();
    let mut txn = begin(&db);
    table.insert(&mut txn, &fields![1, "bolt", 7, 100]).unwrap();
    table.insert(&mut txn, &fields![2, "nut", 7, 50]).unwrap();
    table
        .insert(&mut txn, &fields![3, "gear", None::<i64>, 1])
        .unwrap();
    // Nobody else sees them, in the table or by an index.
    let before = db.snapshot();
    assert_eq!(table.range(&before, ..).unwrap().count(), 0);
    assert_eq!(
        table
            .index("by_name")
            .unwrap()
            .keys(&before, ..)
            .unwrap()
            .count(),
        0
    );
    assert_eq!(
        table
            .index("by_name")
            .unwrap()
            .keys(&txn, ..)
            .unwrap()
            .count(),
        3
    );
    txn.commit().unwrap();
    let now = db.snapshot();
    let gear = fields![3u64, "gear", None::<i64>, 1u64];
    assert_eq!(table.get(&now, &fields![3]).unwrap(), Some(gear.clone()));
    let rows = table
        .multi_get(&now, [fields![3], fields![9], fields![3u64]])
        .unwrap();
    assert_eq!(rows, [Some(gear.clone()), None, Some(gear.clone())]);
    let by_shelf = table.index("by_shelf").unwrap();
    let names =
        |rows: Vec<Row>| -> Vec<Field> { rows.into_iter().map(|row| row[1].clone()).collect() };
    assert_eq!(
        names(all(by_shelf.range(&now, ..).unwrap())),
        fields!["gear", "bolt", "nut"]
    );
    assert_eq!(
        names(all(by_shelf.range(&now, ..).unwrap().rev())),
        fields!["nut", "bolt", "gear"]
    );
    assert_eq!(
        names(all(by_shelf.prefix(&now, &fields![7]).unwrap())),
        fields!["bolt", "nut"]
    );
    assert_eq!(
        names(all(by_shelf.prefix(&now, &fields![None::<i64>]).unwrap())),
        fields!["gear"]
    );
    // What is excluded with some of its columns is excluded with all that begin so.
    let missing = vec![Field::Null];
    let above = (
        std::ops::Bound::Excluded(missing),
        std::ops::Bound::Unbounded,
    );
    assert_eq!(
        names(all(by_shelf.range(&now, above).unwrap())),
        fields!["bolt", "nut"]
    );
    let by_name = table.index("by_name").unwrap();
    assert_eq!(by_name.get(&now, &fields!["gear"]).unwrap(), Some(gear));
    assert_eq!(by_name.get(&now, &fields!["gea"]).unwrap(), None);

    let mut txn = begin(&db);
    assert!(
        table
            .update(&mut txn, &fields![1], |row| row[2] = 8.into())
            .unwrap()
    );
    assert!(!table.update(&mut txn, &fields![9], |_| ()).unwrap());
    assert!(table.delete(&mut txn, &fields![2]).unwrap());
    assert!(!table.delete(&mut txn, &fields![2]).unwrap());
    assert!(table.put(&mut txn, &fields![3, "cog", 8, 2]).unwrap());
    assert!(!table.put(&mut txn, &fields![4, "gear", 8, 2]).unwrap());
    let row = table
        .get_for_update(&mut txn, &fields![3])
        .unwrap()
        .unwrap();
    assert_eq!(row[1].as_text(), Some("cog"));
    txn.commit().unwrap();
    // An old moment has the old rows, by the indexes, too.
    assert_eq!(
        names(all(by_shelf.range(&now, ..).unwrap())),
        fields!["gear", "bolt", "nut"]
    );
    let later = db.snapshot();
    assert_eq!(
        names(all(by_shelf.range(&later, ..).unwrap())),
        fields!["bolt", "cog", "gear"]
    );
    check(&db, &table);
}

#[test]
fn a_row_that_is_refused_leaves_nothing_behind() {
    let db = open();
    let schema = parts()
        .unique("by_name", ["name"])
        .index("by_shelf", ["shelf"])
        .unique("place", ["shelf", "count"]);
    let table = Table::open(&*db, schema).unwrap();
    for options in [TxnOptions::pessimistic(), TxnOptions::optimistic()] {
        let mut txn = db.transaction(options).unwrap();
        table.put(&mut txn, &fields![1, "bolt", 7, 1]).unwrap();
        table
            .put(&mut txn, &fields![2, "nut", None::<i64>, 1])
            .unwrap();
        refused(
            table.insert(&mut txn, &fields![1, "x", 9, 9]),
            ErrorKind::Duplicate,
            &["'parts'", "(1)"],
        );
        refused(
            table.insert(&mut txn, &fields![5, "nut", 9, 9]),
            ErrorKind::Duplicate,
            &["'by_name'", "(2)"],
        );
        refused(
            table.put(&mut txn, &fields![2, "nut", 7, 1]),
            ErrorKind::Duplicate,
            &["'place'", "(1)"],
        );
        let renamed = table.update(&mut txn, &fields![2], |row| row[1] = "bolt".into());
        refused(renamed, ErrorKind::Duplicate, &["'by_name'", "(1)"]);
        // NULL is no other NULL's same.
        table
            .put(&mut txn, &fields![3, "gear", None::<i64>, 1])
            .unwrap();
        txn.commit().unwrap();
        assert_eq!(table.verify(&db.snapshot()).unwrap().entries, 9);
        check(&db, &table);
    }
    // Of two that add the same, one is refused, whichever way it locks.
    for options in [TxnOptions::pessimistic(), TxnOptions::optimistic()] {
        let options = options.lock_timeout(std::time::Duration::ZERO);
        let (mut one, mut two) = (
            db.transaction(options).unwrap(),
            db.transaction(options).unwrap(),
        );
        table.put(&mut one, &fields![10, "washer", 1, 1]).unwrap();
        let second = table.put(&mut two, &fields![11, "washer", 2, 1]);
        let second = second.and_then(|_| {
            one.commit()?;
            two.commit()
        });
        assert!(
            matches!(second, Err(Error::Busy(_) | Error::Conflict(_))),
            "{second:?}"
        );
        check(&db, &table);
    }
}

/// Each change of a row has a savepoint to fall back to, and none of them stays.
#[test]
fn changes_of_rows_leave_nothing_in_a_transaction_but_writes() {
    let db = open();
    let table = Table::open(&*db, parts().index("by_shelf", ["shelf"])).unwrap();
    let mut txn = begin(&db);
    let mut put = |times: u32| {
        for _ in 0..times {
            table.put(&mut txn, &fields![1, "a", 2, 3]).unwrap();
        }
        db.transactions().memory_bytes
    };
    let (first, all) = (put(1), put(1000));
    txn.commit().unwrap();
    // Each of them writes the row, and leaves its entry as it is. Some memory is taken ahead.
    let (key, row) = table.family().iter().nth(1).unwrap().unwrap();
    let expected = 1000 * (160 + key.len() as u64 + row.len() as u64);
    let more = all - first;
    assert!(more.abs_diff(expected) < 10_000, "{more} {expected}");
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let db = open();
    let table = Table::open(&*db, parts().index("by_shelf", ["shelf"])).unwrap();
    let mut txn = begin(&db);
    let invalid = ErrorKind::InvalidArgument;
    refused(
        table.insert(&mut txn, &fields![1, "x", 2]),
        invalid,
        &["'parts'", "4 columns", "3 values"],
    );
    refused(
        table.insert(&mut txn, &fields![-1, "x", 2, 3]),
        invalid,
        &["'id'", "u64", "-1"],
    );
    refused(
        table.insert(&mut txn, &fields![1, 5, 2, 3]),
        invalid,
        &["'name'", "text", "i64 5"],
    );
    refused(
        table.insert(&mut txn, &fields![1, "x", u64::MAX, 3]),
        invalid,
        &["'shelf'", "i64"],
    );
    refused(
        table.insert(&mut txn, &fields![1, "x", 1, None::<u64>]),
        invalid,
        &["'count'", "NULL"],
    );
    refused(
        table.get(&txn, &fields![]),
        invalid,
        &["'parts'", "1 columns", "prefix"],
    );
    refused(table.get(&txn, &fields![1, 2]), invalid, &["(1, 2)"]);
    refused(
        table.range(&txn, fields![2]..fields![1]),
        invalid,
        &["(2)", "(1)", "before"],
    );
    refused(
        table.index("by_colour"),
        invalid,
        &["'by_colour'", "by_shelf"],
    );
    refused(
        table.index("by_shelf").unwrap().get(&txn, &fields![1]),
        invalid,
        &["unique", "prefix"],
    );
    table.insert(&mut txn, &fields![1, "x", 2, 3]).unwrap();
    refused(
        table.update(&mut txn, &fields![1], |row| row[0] = 2.into()),
        invalid,
        &["(1)", "delete"],
    );
    let long = "x".repeat(70_000);
    let by_name = Table::open(
        &*db,
        Schema::new("long")
            .column("name", Type::Text)
            .primary_key(["name"]),
    )
    .unwrap();
    refused(
        by_name.insert(&mut begin(&db), &fields![long.as_str()]),
        invalid,
        &["'long'", "65535"],
    );
    assert_eq!(
        table.range(&txn, fields![2]..fields![2]).unwrap().count(),
        0
    );

    let numbers = Schema::new("numbers")
        .column("f", Type::F64)
        .column("d", Type::Decimal(2))
        .primary_key(["f"]);
    let numbers = Table::open(&*db, numbers).unwrap();
    let mut txn = begin(&db);
    let price = |units, scale| Field::Decimal(Decimal::new(units, scale));
    refused(
        numbers.put(&mut txn, &[f64::NAN.into(), price(1, 2)]),
        invalid,
        &["'f'", "NaN"],
    );
    refused(
        numbers.put(&mut txn, &[1.0.into(), price(1, 3)]),
        invalid,
        &["'d'", "decimal(2)", "decimal(3)"],
    );
    numbers
        .put(&mut txn, &[(-0.0).into(), price(1, 2)])
        .unwrap();
    assert!(numbers.get(&txn, &fields![0.0]).unwrap().is_some());
}

#[test]
fn a_schema_that_makes_no_sense_is_refused() {
    let db = open();
    let invalid = ErrorKind::InvalidArgument;
    let cases = [
        (Schema::new(""), "name"),
        (Schema::new("t").column("a", Type::U64), "primary key"),
        (
            Schema::new("t").column("a", Type::U64).primary_key(["b"]),
            "'b'",
        ),
        (
            Schema::new("t")
                .column("a", Type::U64)
                .column("a", Type::U64)
                .primary_key(["a"]),
            "'a'",
        ),
        (
            Schema::new("t").nullable("a", Type::U64).primary_key(["a"]),
            "nullable",
        ),
        (
            Schema::new("t")
                .column("a", Type::Decimal(19))
                .primary_key(["a"]),
            "decimal(19)",
        ),
        (parts().index("i", []), "index 'i'"),
        (parts().index("i", ["id", "id"]), "twice"),
        (parts().index("i", ["id"]).unique("i", ["name"]), "'i'"),
    ];
    for (schema, word) in cases {
        refused(Table::open(&*db, schema), invalid, &[word]);
    }
    assert_eq!(db.column_families().len(), 1, "no family was made");
    // What is no table.
    db.column_family("other", CfOptions::default())
        .unwrap()
        .put("a", "b")
        .unwrap();
    db.column_family("down", CfOptions::default().reverse(true))
        .unwrap();
    let of = |name| Schema {
        name: String::from(name),
        ..parts()
    };
    refused(Table::open(&*db, of("other")), invalid, &["'other'", "'a'"]);
    refused(
        Table::open(&*db, of("down")),
        invalid,
        &["'down'", "descending"],
    );
    refused(Table::drop_index(&*db, "none", "i"), invalid, &["'none'"]);
    refused(Table::drop_index(&*db, "other", "i"), invalid, &["'other'"]);
}

/// Single entries of a table must not go by themselves: with its schema the table would be lost.
#[test]
fn no_table_is_where_entries_expire_or_are_filtered() {
    #[derive(Debug)]
    struct KeepsAll;

    impl CompactionFilter for KeepsAll {
        fn name(&self) -> &str {
            "keeps.all"
        }

        fn filter(&self, _: &Entry<'_>) -> std::result::Result<Verdict, String> {
            Ok(Verdict::Keep)
        }
    }

    let home = home();
    let path = home.path().join("db");
    let invalid = ErrorKind::InvalidArgument;
    let builders: [fn(DbBuilder) -> DbBuilder; 2] = [
        |db| db.ttl("parts", Duration::from_secs(1)),
        |db| db.compaction_filter("parts", KeepsAll),
    ];
    for builder in builders {
        let db = builder(Db::builder(&path).options(options()));
        let db = db.open().unwrap();
        let words = ["'parts'", "TTL", "filter", "without it"];
        refused(Table::open(&db, parts()), invalid, &words);
        assert!(db.find_column_family("parts").is_none());
        let other = Schema {
            name: "other".into(),
            ..parts()
        };
        Table::open(&db, other).unwrap();
        db.close().unwrap();
    }
    // A table that is there is refused, too, and takes no harm.
    let db = Db::open(&path, options()).unwrap();
    let table = Table::open(&db, parts()).unwrap();
    let mut txn = begin(&db);
    table.insert(&mut txn, &fields![1, "bolt", 7, 100]).unwrap();
    txn.commit().unwrap();
    db.close().unwrap();
    for builder in builders {
        let db = builder(Db::builder(&path).options(options()));
        let db = db.open().unwrap();
        refused(Table::open(&db, parts()), invalid, &["'parts'"]);
        let dropped = Table::drop_index(&db, "parts", "by_name");
        refused(dropped, invalid, &["'parts'"]);
        db.close().unwrap();
    }
    let db = Db::open(&path, options()).unwrap();
    let table = Table::open(&db, parts()).unwrap();
    assert_eq!(all(table.range(&db.snapshot(), ..).unwrap()).len(), 1);
}

#[test]
fn the_store_keeps_the_schema_and_refuses_another() {
    let home = home();
    let path = home.path().join("db");
    let schema = parts()
        .index("by_shelf", ["shelf"])
        .unique("by_name", ["name"]);
    {
        let db = Db::open(&path, options()).unwrap();
        let table = Table::open(&db, schema.clone()).unwrap();
        let mut txn = begin(&db);
        table.insert(&mut txn, &fields![1, "bolt", 7, 1]).unwrap();
        txn.commit().unwrap();
    }
    let db = Db::open(&path, options()).unwrap();
    let invalid = ErrorKind::InvalidArgument;
    let mut other = schema.clone();
    other.columns[3].kind = Type::I64;
    refused(
        Table::open(&db, other),
        invalid,
        &["'count' (i64)", "'count' (u64)"],
    );
    let mut other = schema.clone();
    other.columns.pop();
    refused(
        Table::open(&db, other),
        invalid,
        &["'count' (u64)", "missing"],
    );
    refused(
        Table::open(&db, schema.clone().column("new", Type::U64)),
        invalid,
        &["'new'", "nullable"],
    );
    refused(
        Table::open(&db, schema.clone().primary_key(["name"])),
        invalid,
        &["primary key", "id"],
    );
    refused(
        Table::open(&db, parts().index("by_shelf", ["shelf"])),
        invalid,
        &["'by_name'", "drop_index"],
    );
    let swapped = parts()
        .index("by_shelf", ["count"])
        .unique("by_name", ["name"]);
    refused(Table::open(&db, swapped), invalid, &["'by_shelf'", "shelf"]);
    let swapped = parts()
        .index("by_shelf", ["shelf"])
        .index("by_name", ["name"]);
    refused(Table::open(&db, swapped), invalid, &["'by_name'", "unique"]);
    let table = Table::open(&db, schema).unwrap();
    assert_eq!(table.range(&db.snapshot(), ..).unwrap().count(), 1);
    drop(table);
    db.close().unwrap();
    // Reading only changes nothing: the schema must be that of the store.
    let reading = thermocline::Options {
        read_only: true,
        ..options()
    };
    let db = Db::open(&path, reading).unwrap();
    let same = parts()
        .index("by_shelf", ["shelf"])
        .unique("by_name", ["name"]);
    let table = Table::open(&db, same.clone()).unwrap();
    assert_eq!(
        table
            .index("by_name")
            .unwrap()
            .keys(&db.snapshot(), ..)
            .unwrap()
            .count(),
        1
    );
    refused(
        Table::open(&db, same.index("more", ["count"])),
        invalid,
        &["read"],
    );
}

#[test]
fn columns_and_indexes_are_added_and_indexes_dropped() {
    let db = open();
    let old = Table::open(&*db, parts()).unwrap();
    let mut txn = begin(&db);
    for id in 0..1000 {
        old.insert(&mut txn, &fields![id, format!("part {id}"), id % 10, 1])
            .unwrap();
    }
    txn.commit().unwrap();
    let before = db.snapshot();
    let indexed = Table::open(&*db, parts().index("by_shelf", ["shelf"])).unwrap();
    let by_shelf = indexed.index("by_shelf").unwrap();
    assert_eq!(
        by_shelf
            .prefix(&db.snapshot(), &fields![3])
            .unwrap()
            .count(),
        100
    );
    refused(
        by_shelf.keys(&before, ..),
        ErrorKind::InvalidArgument,
        &["'by_shelf'", "moment"],
    );
    // A handle from before keeps the index that it has not been opened with.
    let mut txn = begin(&db);
    old.insert(&mut txn, &fields![5000, "late", 3, 1]).unwrap();
    assert!(old.delete(&mut txn, &fields![13]).unwrap());
    txn.commit().unwrap();
    assert_eq!(
        by_shelf
            .prefix(&db.snapshot(), &fields![3])
            .unwrap()
            .count(),
        100
    );
    check(&db, &indexed);

    let wide = parts()
        .index("by_shelf", ["shelf"])
        .nullable("colour", Type::Text)
        .index("by_colour", ["colour"]);
    let wide = Table::open(&*db, wide).unwrap();
    let row = wide.get(&db.snapshot(), &fields![7]).unwrap().unwrap();
    assert_eq!(row, fields![7u64, "part 7", 7i64, 1u64, None::<&str>]);
    let mut txn = begin(&db);
    wide.put(&mut txn, &fields![7, "part 7", 7, 1, "red"])
        .unwrap();
    txn.commit().unwrap();
    // One that does not know the column writes nothing, and does not take such a row for another one.
    let invalid = ErrorKind::InvalidArgument;
    refused(
        old.put(&mut begin(&db), &fields![8, "x", 1, 1]),
        invalid,
        &["'parts'", "open it again"],
    );
    let now = db.snapshot();
    let named = ["'parts'", "(7)", "5", "open it again"];
    refused(old.get(&now, &fields![7]), invalid, &named);
    refused(old.multi_get(&now, [fields![7]]), invalid, &named);
    let mut txn = begin(&db);
    refused(old.get_for_update(&mut txn, &fields![7]), invalid, &named);
    drop(txn);
    let first = old.prefix(&now, &fields![7]).unwrap().next();
    refused(first.unwrap(), invalid, &named);
    let reds = wide
        .index("by_colour")
        .unwrap()
        .prefix(&now, &fields!["red"])
        .unwrap();
    assert_eq!(all(reds), [fields![7u64, "part 7", 7i64, 1u64, "red"]]);
    // At the moment before, the index that was there gives rows of that time, with the column that came since.
    check(&db, &wide);

    assert!(Table::drop_index(&*db, "parts", "by_shelf").unwrap());
    assert!(!Table::drop_index(&*db, "parts", "by_shelf").unwrap());
    let gone = wide.index("by_shelf").unwrap();
    refused(gone.keys(&db.snapshot(), ..), invalid, &["'by_shelf'"]);
    let mut txn = begin(&db);
    wide.put(&mut txn, &fields![9, "part 9", 70, 1, "red"])
        .unwrap();
    txn.commit().unwrap();
    let report = wide.verify(&db.snapshot()).unwrap();
    assert_eq!((report.rows, report.entries), (1000, 1000));
    check(&db, &wide);
    // Its number is free for another one.
    let again = parts()
        .nullable("colour", Type::Text)
        .index("by_colour", ["colour"])
        .unique("name", ["name"]);
    let again = Table::open(&*db, again).unwrap();
    assert_eq!(again.verify(&db.snapshot()).unwrap().entries, 2000);
    check(&db, &again);
}

#[test]
fn a_unique_index_is_not_added_to_rows_with_the_same_values() {
    let db = open();
    let table = Table::open(&*db, parts()).unwrap();
    let mut txn = begin(&db);
    for (id, name) in [(1, "a"), (2, "b"), (3, "a"), (4, "c")] {
        table
            .insert(&mut txn, &fields![id, name, None::<i64>, 1])
            .unwrap();
    }
    txn.commit().unwrap();
    let unique = parts().unique("by_name", ["name"]);
    refused(
        Table::open(&*db, unique.clone()),
        ErrorKind::Duplicate,
        &["'by_name'", "(1)", "(3)"],
    );
    let report = table.verify(&db.snapshot()).unwrap();
    assert_eq!((report.rows, report.entries), (4, 0));
    let mut txn = begin(&db);
    table
        .put(&mut txn, &fields![3, "d", None::<i64>, 1])
        .unwrap();
    txn.commit().unwrap();
    let table = Table::open(&*db, unique).unwrap();
    let row = table
        .index("by_name")
        .unwrap()
        .get(&db.snapshot(), &fields!["d"])
        .unwrap();
    assert_eq!(row.unwrap()[0], Field::U64(3));
    check(&db, &table);
}

#[test]
fn an_index_is_not_added_to_a_row_whose_values_are_too_long_for_it() {
    let db = open();
    let table = Table::open(&*db, parts()).unwrap();
    let long = "x".repeat(limits::KEY_LEN_MAX);
    let mut txn = begin(&db);
    for (id, name) in [(1, "a"), (2, long.as_str()), (3, "b")] {
        table
            .insert(&mut txn, &fields![id, name, None::<i64>, 1])
            .unwrap();
    }
    txn.commit().unwrap();
    let indexed = parts().index("by_name", ["name"]);
    for schema in [indexed.clone(), parts().unique("by_name", ["name"])] {
        refused(
            Table::open(&*db, schema),
            ErrorKind::InvalidArgument,
            &["'by_name'", "(2)", "65535"],
        );
        // The table is as it was.
        let table = Table::open(&*db, parts()).unwrap();
        let report = table.verify(&db.snapshot()).unwrap();
        assert_eq!((report.rows, report.entries), (3, 0));
    }
    let mut txn = begin(&db);
    table
        .put(&mut txn, &fields![2, "c", None::<i64>, 1])
        .unwrap();
    txn.commit().unwrap();
    let table = Table::open(&*db, indexed).unwrap();
    check(&db, &table);
}

/// Of a chunk of rows more is locked and written than transactions may have; of some of these rows it is not.
#[test]
fn an_index_is_added_where_transactions_have_little_room() {
    let home = home();
    let options = thermocline::Options {
        dram: 32 << 20,
        ..options()
    };
    let db = Db::open(home.path().join("db"), options).unwrap();
    let table = Table::open(&db, parts()).unwrap();
    let long = "x".repeat(40_000);
    for ten in 0..30 {
        let mut txn = begin(&db);
        for id in 10 * ten..10 * ten + 10 {
            let row = fields![id, format!("{id:03}{long}"), id, 1];
            table.insert(&mut txn, &row).unwrap();
        }
        txn.commit().unwrap();
    }
    let most = db.transactions().memory_bytes_max;
    assert!(most < 256 * 2 * 40_000, "{most}");
    let table = Table::open(&db, parts().index("by_name", ["name"])).unwrap();
    check(&db, &table);
    let by_name = table.index("by_name").unwrap();
    assert_eq!(by_name.keys(&db.snapshot(), ..).unwrap().count(), 300);
}

#[test]
fn what_others_wrote_into_the_family_is_named() {
    let db = open();
    let schema = parts().index("by_shelf", ["shelf"]);
    let table = Table::open(&*db, schema.clone()).unwrap();
    let mut txn = begin(&db);
    table.insert(&mut txn, &fields![1, "a", 2, 3]).unwrap();
    table.insert(&mut txn, &fields![2, "b", 2, 3]).unwrap();
    txn.commit().unwrap();
    let family = db.find_column_family("parts").unwrap();
    let key = family.iter().nth(1).unwrap().unwrap().0;
    let good = family.get(&key).unwrap().unwrap().to_vec();
    family.put(&key, "nonsense").unwrap();
    let words = ["'parts'", "(1)"];
    refused(
        table.get(&db.snapshot(), &fields![1]),
        ErrorKind::Corruption,
        &words,
    );
    refused(
        table.put(&mut begin(&db), &fields![1, "a", 1, 1]),
        ErrorKind::Corruption,
        &words,
    );
    let mut rows = table.range(&db.snapshot(), ..).unwrap().collect::<Vec<_>>();
    assert_eq!(rows.len(), 1, "after an error it ends");
    refused(rows.remove(0), ErrorKind::Corruption, &words);
    let faults = table.verify(&db.snapshot()).unwrap().faults;
    assert_eq!(faults.len(), 1, "{faults:?}");
    family.delete(&key).unwrap();
    let by_shelf = table.index("by_shelf").unwrap();
    let rows: Vec<_> = by_shelf.range(&db.snapshot(), ..).unwrap().collect();
    assert_eq!(rows.len(), 1);
    refused(
        rows.into_iter().next().unwrap(),
        ErrorKind::Corruption,
        &["by_shelf", "(1)"],
    );
    family.put(&key, &good).unwrap();
    check(&db, &table);
    let entry = family.iter().next_back().unwrap().unwrap().0;
    family.delete(&entry).unwrap();
    family.put([77u8, 1], "").unwrap();
    let faults = table.verify(&db.snapshot()).unwrap().faults;
    assert_eq!(faults.len(), 2, "{faults:?}");
    // Before the rows, on either side of the schema.
    family.put("", "").unwrap();
    family.put([0u8, 1], "").unwrap();
    let faults = table.verify(&db.snapshot()).unwrap().faults;
    assert_eq!(faults.len(), 4, "{faults:?}");
    family.put([0u8], "no schema").unwrap();
    refused(
        Table::open(&*db, schema),
        ErrorKind::Corruption,
        &["schema", "'parts'"],
    );
    refused(
        table.put(&mut begin(&db), &fields![1, "a", 1, 1]),
        ErrorKind::Corruption,
        &["schema"],
    );
}

/// A report names some, and counts all.
#[test]
fn faults_past_those_that_are_named_are_counted() {
    let db = open();
    let table = Table::open(&*db, parts()).unwrap();
    let family = db.find_column_family("parts").unwrap();
    let more = 7;
    for n in 0..FAULTS_MAX + more {
        family.put(format!("stray {n}"), "").unwrap();
    }
    let report = table.verify(&db.snapshot()).unwrap();
    assert_eq!(report.faults.len(), FAULTS_MAX);
    assert_eq!(report.more_faults, more as u64);
    assert_eq!(report.fault_count(), report.entries);
}

/// Entries that lead nowhere, and rows that an index cannot have: damage to readers, and faults to the check.
#[test]
fn what_others_wrote_into_an_index_is_damage() {
    let db = open();
    let schema = parts()
        .unique("by_name", ["name"])
        .index("by_shelf", ["shelf"]);
    let table = Table::open(&*db, schema).unwrap();
    let mut txn = begin(&db);
    table.insert(&mut txn, &fields![1, "a", 2, 3]).unwrap();
    table.insert(&mut txn, &fields![2, "b", 2, 3]).unwrap();
    txn.commit().unwrap();
    let family = db.find_column_family("parts").unwrap();
    let entries: Vec<Vec<u8>> = family.iter().map(|entry| entry.unwrap().0).collect();
    // The schema, two rows, and two entries of each index.
    assert_eq!(entries.len(), 7);
    let faults = || table.verify(&db.snapshot()).unwrap().faults.len();

    // A primary key that is longer than a key can be.
    let by_name = &entries[3];
    let good = family.get(by_name).unwrap().unwrap().to_vec();
    let long = "x".repeat(limits::KEY_LEN_MAX);
    family.put(by_name, &long).unwrap();
    assert_eq!(faults(), 2, "of the row, and of the entry");
    let index = table.index("by_name").unwrap();
    refused(
        index.get(&db.snapshot(), &fields!["a"]),
        ErrorKind::Corruption,
        &["'by_name'", "'parts'"],
    );
    family.put(by_name, &good).unwrap();
    check(&db, &table);

    // Bytes behind a primary key.
    let longer = [&entries[5][..], &[0]].concat();
    family.put(&longer, "").unwrap();
    assert_eq!(faults(), 1);
    let by_shelf = table.index("by_shelf").unwrap();
    let mut keys: Vec<_> = by_shelf.keys(&db.snapshot(), ..).unwrap().collect();
    assert_eq!(keys.len(), 2, "after an error it ends");
    refused(keys.remove(1), ErrorKind::Corruption, &["'parts'"]);
    family.delete(&longer).unwrap();
    check(&db, &table);

    // A row with a name that is too long for an index, from a table without one.
    let other = Schema {
        name: "other".into(),
        ..parts()
    };
    let other = Table::open(&*db, other).unwrap();
    let mut txn = begin(&db);
    let wide = fields![1, long.as_str(), 2, 3];
    other.insert(&mut txn, &wide).unwrap();
    txn.commit().unwrap();
    let row = other.family().get(&entries[1]).unwrap().unwrap().to_vec();
    family.put(&entries[1], &row).unwrap();
    assert_eq!(faults(), 2, "of the row, and of its old entry");
}
