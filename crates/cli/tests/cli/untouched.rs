//! Commands that are refused: what they name stays as it was, and where nothing was, nothing is made.

use thermocline::{Db, TxnOptions};

use crate::support::{Store, names};

/// Runs a command that fails with this code and sentence, and makes nothing in the folder.
fn is_refused(store: &Store, command: &[&str], code: i32, says: &str) {
    let before = store.names();
    let run = store.run(command);
    assert_eq!((run.code, run.out.as_str()), (code, ""), "{}", run.err);
    assert!(run.is_one_sentence_naming(says), "{says}: {}", run.err);
    assert_eq!(store.names(), before, "{says}");
}

#[test]
fn tables_that_cannot_be_ingested_make_no_database() {
    let store = Store::new();
    for key in ["a", "b"] {
        assert_eq!(store.run(&["put", "DB", key, "the value"]).code, 0);
    }
    for file in ["all.sst", "again.sst", "damaged.sst"] {
        assert_eq!(store.run(&["export", "DB", file]).code, 0);
    }
    // Its footer, which comes last, is whole.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test damages a file on purpose"
    )]
    let mut bytes = std::fs::read(store.path().with_file_name("damaged.sst")).unwrap();
    bytes[2] ^= 1;
    store.write("damaged.sst", bytes);
    store.write("text.sst", "not a table, ".repeat(20));
    store.write("short.sst", "no");
    for (tables, says) in [
        (&["text.sst"][..], "text.sst"),
        (&["short.sst"][..], "short.sst"),
        (&["damaged.sst"][..], "damaged.sst"),
        (&["all.sst", "again.sst"][..], "overlap"),
        (&["all.sst", "none.sst"][..], "none.sst"),
    ] {
        is_refused(&store, &[&["ingest", "new"], tables].concat(), 1, says);
    }
    let run = store.run(&["ingest", "new", "all.sst"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let run = store.run(&["scan", "new"]);
    assert_eq!(run.out, "a\tthe value\nb\tthe value\n");
}

#[test]
fn what_is_too_long_makes_no_database() {
    let store = Store::new();
    let (key, name) = ("x".repeat(65_536), "n".repeat(256));
    let says = "a key has at most 65535 bytes; this one has 65536";
    is_refused(&store, &["put", "new", &key, "v"], 2, says);
    is_refused(&store, &["put", "new", &key, "v", "--cf", "f"], 2, says);
    let says = "the name of a column family has 1 to 255 bytes; this one has 256";
    is_refused(&store, &["put", "new", "k", "v", "--cf", &name], 2, says);
    is_refused(&store, &["create-family", "new", &name], 2, says);
    store.write("rows.csv", format!("id,v\n{key},1\n2,2\n"));
    let load = ["load", "new", "rows.csv", "--key", "id"];
    is_refused(&store, &load, 1, "0 rows before it loaded");
    let elsewhere = [&load[..], &["--cf", &name]].concat();
    is_refused(&store, &elsewhere, 2, says);
    let all = store.run(&[&load[..], &["--skip-bad"]].concat());
    assert_eq!(all.code, 0, "{}", all.err);
    assert_eq!(store.run(&["scan", "new", "--keys-only"]).out, "2\n");
}

/// A run that passed over a misspelt family would write, and keep for ever what its user wants gone in a day.
#[test]
fn a_ttl_of_a_family_that_is_not_there_makes_and_writes_nothing() {
    let store = Store::new();
    let typo = ["--ttl", "sesions=1d"];
    let says = "there is no column family 'sesions' in new; it has default";
    let put = ["put", "new", "k", "v"];
    is_refused(&store, &[&put[..], &typo].concat(), 1, says);
    let elsewhere = [&put[..], &["--cf", "sessions"], &typo].concat();
    is_refused(&store, &elsewhere, 1, says);
    store.write("rows.csv", "id,v\n1,a\n");
    let load = ["load", "new", "rows.csv", "--key", "id"];
    is_refused(&store, &[&load[..], &typo].concat(), 1, says);
    // What the run makes is there for it.
    let right = ["--cf", "sessions", "--ttl", "sessions=1d"];
    let run = store.run(&[&put[..], &right].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let says = "it has default, sessions; mend or leave out --ttl sesions=";
    for command in [
        &["put", "new", "k", "w", "--cf", "sessions"][..],
        &["stat", "new"],
    ] {
        is_refused(&store, &[command, &typo].concat(), 1, says);
    }
    let get = ["get", "new", "k", "--cf", "sessions"];
    assert_eq!(store.run(&get).out, "v\n");
}

/// Else the experiments would run, for minutes each, before it is found that nothing can be saved.
#[test]
fn experiments_whose_results_could_not_be_saved_do_not_begin() {
    let store = Store::new();
    store.write("notes", "somebody's");
    let run = ["reproduce", "pm-blade", "fig-6", "--quick"];
    for place in [
        ["--out", "notes"],
        ["--out", "notes/of/mine"],
        ["--report", "notes/page.html"],
    ] {
        let run = [&run[..], &place].concat();
        is_refused(&store, &run, 1, "notes is no folder; name one");
    }
    let over = [&run[..], &["--report", "."]].concat();
    is_refused(&store, &over, 1, ". is not an ordinary file");
}

/// Else hours would be spent on numbers of which no page can be written then.
#[test]
fn a_benchmark_whose_page_could_not_be_written_does_not_begin() {
    let store = Store::new();
    store.write("notes", "somebody's");
    store.write("left.html.part", "of a run that was killed");
    let key_value = ["fillseq", "--num", "10", "--db", "new"];
    let oltp = ["randomtransaction", "--transactions", "1", "--db", "new"];
    for bench in [&key_value[..], &oltp, &["suite", "--cells", "put-pm"]] {
        for (place, says) in [
            ("notes/page.html", "notes is no folder; name one"),
            (".", ". is not an ordinary file"),
            ("left.html", "cannot create left.html.part"),
        ] {
            let run = [&["bench"], bench, &["--report", place]].concat();
            is_refused(&store, &run, 1, says);
        }
    }
    let list = ["bench", "suite", "--list", "--report", "page.html"];
    is_refused(&store, &list, 2, "leave --report out");
}

/// A temporary database goes with its logs and its region, which these would be taken for.
#[test]
fn a_benchmark_removes_no_file_that_was_there_before() {
    let store = Store::new();
    store.write("precious", "somebody's");
    for (path, preset) in [("--wal-path", "leveled"), ("--pm-path", "thermocline")] {
        let bench = ["bench", "fillrandom", "--num", "10", "--preset", preset];
        let bench = [&bench[..], &[path, "precious"]].concat();
        is_refused(&store, &bench, 1, "precious is there already");
    }
    let put = store.run(&["put", "DB", "k", "--file", "precious"]);
    assert_eq!(put.code, 0, "{}", put.err);
    assert_eq!(store.run(&["get", "DB", "k"]).out, "somebody's\n");
}

/// To open its tables would make them.
#[test]
fn a_benchmark_of_transactions_makes_no_tables_in_a_database_of_somebody_else() {
    let store = Store::new();
    let put = store.run(&["put", "DB", "k", "v"]);
    assert_eq!(put.code, 0, "{}", put.err);
    for (workload, says) in [("tpcc", "'warehouse'"), ("orders", "'orders'")] {
        let run = ["bench", workload, "--db", "DB", "--use-existing"];
        is_refused(&store, &run, 1, &format!("has no table {says}"));
    }
    let families = store.run(&["families", "DB"]);
    assert_eq!(families.out, "default\tascending\n", "{}", families.err);
}

/// Every database comes with it, and its keys ascend.
#[test]
fn the_default_family_in_another_order_makes_no_database() {
    let store = Store::new();
    let create = ["create-family", "new", "default", "--reverse"];
    let says = "column family 'default' was made with reverse=false, which stays";
    is_refused(&store, &create, 1, says);
    let run = store.run(&create[..3]);
    assert_eq!(run.code, 0, "{}", run.err);
    is_refused(&store, &create, 1, says);
}

/// It is there, so who is told that there is no folder looks for what is wrong with the path.
#[test]
fn a_file_is_named_as_what_it_is_where_backups_are_asked_for() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "k", "v"]).code, 0);
    store.write("notes", "somebody's");
    for command in [
        &["backup", "DB", "notes"][..],
        &["backups", "notes"],
        &["backups", "notes", "--delete", "1"],
        &["backups", "notes", "--verify"],
        &["restore", "notes", "new"],
    ] {
        is_refused(&store, command, 1, "notes is a file, not a folder");
    }
}

#[test]
fn one_backup_that_is_not_there_keeps_all_from_being_deleted() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "k", "v"]).code, 0);
    for _ in 0..3 {
        assert_eq!(store.run(&["backup", "DB", "backups"]).code, 0);
    }
    let folder = store.path().with_file_name("backups");
    let before = names(&folder);
    for (ids, code, says) in [
        (["1", "9"], 1, "no backup 9 in backups; it has 1, 2, 3"),
        (["9", "1"], 1, "no backup 9"),
        (["1", "1"], 2, "twice"),
    ] {
        let [one, other] = ids;
        let delete = ["backups", "backups", "--delete", one, "--delete", other];
        is_refused(&store, &delete, code, says);
        assert_eq!(names(&folder), before, "{ids:?}");
    }
    let delete = ["backups", "backups", "--delete", "1", "--delete", "3"];
    let left = store.run(&delete);
    assert_eq!(
        (left.code, left.out.lines().count()),
        (0, 1),
        "{}",
        left.err
    );
}

/// The list of what is there cannot be read then.
#[test]
fn a_damaged_backup_hides_neither_what_is_there_nor_what_was_deleted() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "k", "v"]).code, 0);
    for _ in 0..3 {
        assert_eq!(store.run(&["backup", "DB", "backups"]).code, 0);
    }
    store.write("backups/BACKUP-000001", "damaged");
    let folder = store.path().with_file_name("backups");
    let before = names(&folder);
    let delete = ["backups", "backups", "--delete", "2", "--delete", "9"];
    is_refused(
        &store,
        &delete,
        1,
        "no backup 9 in backups; it has 1, 2, 3; nothing was deleted",
    );
    assert_eq!(names(&folder), before);
    let run = store.run(&["backups", "backups", "--delete", "2", "--delete", "3"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{}", run.err);
    for says in ["BACKUP-000001", "deleted before that: 2, 3"] {
        assert!(run.is_one_sentence_naming(says), "{says}: {}", run.err);
    }
    let left = names(&folder);
    let left = left.iter().filter(|name| name.starts_with("BACKUP-"));
    assert_eq!(left.collect::<Vec<_>>(), ["BACKUP-000001"]);
    let last = store.run(&["backups", "backups", "--delete", "1"]);
    assert_eq!((last.code, last.out.as_str()), (0, ""), "{}", last.err);
}

#[test]
fn one_transaction_that_is_not_prepared_keeps_all_from_being_ended() {
    let store = Store::new();
    let db = Db::open(store.path(), store.options()).unwrap();
    for name in ["a", "b"] {
        let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
        txn.put(name, "v").unwrap();
        drop(txn.prepare(name).unwrap());
    }
    db.close().unwrap();
    let before = store.run(&["prepared", "DB"]).out;
    assert_eq!(before.lines().count(), 2);
    for (ends, code, says) in [
        (["--commit", "a", "--commit", "zz"], 1, "transaction 'zz'"),
        (["--commit", "a", "--rollback", "zz"], 1, "transaction 'zz'"),
        (["--commit", "a", "--rollback", "a"], 2, "twice"),
        (["--rollback", "b", "--rollback", "b"], 2, "twice"),
    ] {
        is_refused(
            &store,
            &[&["prepared", "DB"][..], &ends[..]].concat(),
            code,
            says,
        );
        assert_eq!(store.run(&["prepared", "DB"]).out, before, "{ends:?}");
    }
    let both = ["prepared", "DB", "--commit", "a", "--rollback", "b"];
    let run = store.run(&both);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(store.run(&["prepared", "DB"]).out, "");
    assert_eq!(store.run(&["scan", "DB"]).out, "a\tv\n");
}
