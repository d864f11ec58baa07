//! `checkpoint`, `backup`, `backups`, `restore`, `ingest` and `export`; `destroy`.

use serde_json::json;

use crate::support::{Store, names};

fn filled() -> Store {
    let store = Store::new();
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
        assert_eq!(store.run(&["put", "DB", key, value]).code, 0);
    }
    assert_eq!(
        store
            .run(&["create-family", "DB", "down", "--reverse"])
            .code,
        0
    );
    assert_eq!(store.run(&["put", "DB", "x", "9", "--cf", "down"]).code, 0);
    assert_eq!(store.run(&["put", "DB", "y", "8", "--cf", "down"]).code, 0);
    store
}

const ALL: &str = "a\t1\nb\t2\nc\t3\n";

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let store = filled();
    let before = names(&store.path());
    let made = store.run(&["checkpoint", "DB", "copy"]);
    assert_eq!((made.code, made.err.as_str()), (0, ""));
    assert_eq!(made.out, "copy has what db has now\n");
    assert_eq!(names(&store.path()), before, "reading wrote something");
    // Reading makes no region.
    assert_eq!(store.run(&["scan", "copy"]).out, ALL);
    assert_eq!(
        store.run(&["scan", "copy", "--cf", "down"]).out,
        "y\t8\nx\t9\n"
    );
    assert_eq!(store.run(&["verify", "copy"]).code, 0);
    let region = |dir: &str| names(&store.path().with_file_name(dir)).contains(&"region.pm".into());
    assert!(!region("copy"));
    let stat = store.run(&["stat", "copy"]);
    assert!(stat.code == 0 && !stat.out.contains("sim"), "{}", stat.out);
    for says in ["none yet", "0 B free in 0 zones; at most 4 GiB"] {
        assert!(stat.out.contains(says), "no '{says}' in\n{}", stat.out);
    }
    let json = store.run(&["stat", "copy", "--json"]).json();
    assert_eq!(
        (&json["region_kind"], &json["region_bytes"]),
        (&json!("none"), &json!(0))
    );
    assert_eq!(store.run(&["put", "copy", "b", "of the copy"]).code, 0);
    assert!(region("copy"));
    assert_eq!(store.run(&["put", "DB", "a", "of the original"]).code, 0);
    assert_eq!(store.run(&["get", "copy", "a"]).out, "1\n");
    assert_eq!(store.run(&["get", "DB", "b"]).out, "2\n");
    let twice = store.run(&["checkpoint", "DB", "copy"]);
    assert_eq!((twice.code, twice.out.as_str()), (1, ""));
    assert!(
        twice.is_one_sentence_naming("copy already holds a database"),
        "{}",
        twice.err
    );
    let json = store.run(&["checkpoint", "DB", "second", "--json"]);
    assert_eq!((json.code, &json.json()["ok"]), (0, &json!(true)));
    let none = store.run(&["checkpoint", "nothing", "third"]);
    assert!(
        none.code == 1 && none.is_one_sentence_naming("no database in nothing"),
        "{}",
        none.err
    );
    assert!(!store.names().contains(&"third".into()));
}

/// It goes on from the number that the copy has. A number alone does not tell the two apart.
#[test]
fn a_follower_on_the_command_line_hears_whose_numbers_it_has() {
    let store = filled();
    let copied = store.run(&["checkpoint", "DB", "copy", "--json"]).json();
    let since = copied["seqno"].as_u64().unwrap().to_string();
    let [original, copy] = ["DB", "copy"].map(|database| {
        let value = format!("of {database}");
        let put = store.run(&["put", database, "d", &value]);
        assert_eq!(put.code, 0, "{}", put.err);
        let run = store.run(&["changes", database, "--since", &since, "--json"]);
        assert_eq!(run.code, 0, "{}", run.err);
        let changes = run.json();
        let (count, change) = (&changes["count"], &changes["changes"][0]);
        assert_eq!((count, &change["value"]), (&json!(1), &json!(value)));
        changes
    });
    let seqno = |of: &serde_json::Value| of["changes"][0]["seqno"].clone();
    assert_eq!(seqno(&original), seqno(&copy));
    assert_ne!(original["database"], copy["database"]);
    let backup = store.run(&["backup", "DB", "backups", "--json"]).json();
    assert_eq!(original["database"], backup["database"]);
}

/// A region that lies elsewhere is the original's alone.
#[test]
fn a_copy_makes_its_own_region_where_it_is_told_to() {
    let store = Store::new();
    assert_eq!(
        store
            .run(&["put", "DB", "k", "v", "--pm-path", "one.pm"])
            .code,
        0
    );
    assert_eq!(store.run(&["checkpoint", "DB", "copy"]).code, 0);
    assert_eq!(
        store
            .run(&["put", "copy", "k", "w", "--pm-path", "two.pm"])
            .code,
        0
    );
    assert!(!names(&store.path().with_file_name("copy")).contains(&"region.pm".into()));
    assert_eq!(store.run(&["get", "copy", "k"]).out, "w\n");
    assert_eq!(store.run(&["get", "DB", "k"]).out, "v\n");
    let wrong = store.run(&["get", "copy", "k", "--pm-path", "one.pm"]);
    assert_eq!((wrong.code, wrong.out.as_str()), (1, ""));
    assert!(wrong.is_one_sentence_naming("one.pm"), "{}", wrong.err);
}

#[test]
fn backups_are_made_listed_restored_checked_and_deleted() {
    let store = filled();
    let first = store.run(&["backup", "DB", "backups", "--json"]).json();
    assert_eq!(
        (&first["backup"], &first["new_bytes"]),
        (&json!(1), &first["bytes"])
    );
    assert_eq!(store.run(&["put", "DB", "d", "4"]).code, 0);
    let second = store.run(&["backup", "DB", "backups"]);
    assert_eq!((second.code, second.err.as_str()), (0, ""));
    assert!(
        second.out.starts_with("backup 2 in backups has "),
        "{}",
        second.out
    );
    let list = store.run(&["backups", "backups"]);
    assert_eq!(list.out.lines().count(), 2, "{}", list.out);
    let list = store.run(&["backups", "backups", "--json"]).json();
    assert_eq!(list["count"], 2);
    assert_eq!(list["backups"][0]["database"], first["database"]);
    let sound = store.run(&["backups", "backups", "--verify"]);
    assert!(
        sound.code == 0 && sound.out.contains("no fault"),
        "{}",
        sound.err
    );
    let restored = store.run(&["restore", "backups", "new", "--backup", "1"]);
    assert_eq!((restored.code, restored.err.as_str()), (0, ""));
    assert_eq!(store.run(&["scan", "new"]).out, ALL);
    let json = store.run(&["restore", "backups", "newer", "--json"]).json();
    assert_eq!(json["backup"], 2);
    assert_eq!(store.run(&["get", "newer", "d"]).out, "4\n");
    assert_eq!(store.run(&["put", "newer", "d", "5"]).code, 0);
    for (command, says) in [
        (
            vec!["restore", "backups", "DB"],
            "db already holds a database",
        ),
        (
            vec!["restore", "backups", "x", "--backup", "7"],
            "no backup 7 in backups; it has 1, 2",
        ),
        (vec!["restore", "nowhere", "x"], "no folder nowhere"),
        (
            vec!["backup", "DB", "new"],
            "new is not a folder of backups",
        ),
        (vec!["backups", "backups", "--delete", "9"], "no backup 9"),
        (vec!["backups", "DB"], "db is not a folder of backups"),
    ] {
        let run = store.run(&command);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{command:?}");
        assert!(run.is_one_sentence_naming(says), "{command:?}: {}", run.err);
    }
    let wrong = store.run(&["backups", "backups", "--verify", "--delete", "1"]);
    assert_eq!(wrong.code, 2);
    let left = store
        .run(&["backups", "backups", "--delete", "1", "--json"])
        .json();
    assert_eq!(
        (&left["count"], &left["backups"][0]["backup"]),
        (&json!(1), &json!(2))
    );
    // Damage is named, and ends a restoration.
    let file = names(&store.path().with_file_name("backups"));
    let file = file
        .iter()
        .find(|name| name.ends_with(".sst"))
        .unwrap()
        .clone();
    store.flip(&format!("backups/{file}"), b"THCLTABL");
    let faulty = store.run(&["backups", "backups", "--verify"]);
    assert!(
        faulty.code == 1 && faulty.out.contains(&file),
        "{}",
        faulty.out
    );
    let json = store.run(&["backups", "backups", "--verify", "--json"]);
    assert_eq!((json.code, &json.json()["sound"]), (1, &json!(false)));
    let refused = store.run(&["restore", "backups", "broken"]);
    assert!(
        refused.code == 1 && refused.is_one_sentence_naming(&file),
        "{}",
        refused.err
    );
    assert_eq!(store.run(&["get", "broken", "a"]).code, 1);
}

#[test]
fn tables_go_out_and_in() {
    let store = filled();
    let out = store.run(&["export", "DB", "all.sst"]);
    assert_eq!((out.code, out.err.as_str()), (0, ""));
    assert!(out.out.starts_with("all.sst has 3 keys in "), "{}", out.out);
    let range = [
        "export", "DB", "b.sst", "--from", "b", "--to", "c", "--json",
    ];
    assert_eq!(store.run(&range).json()["entries"], 1);
    let down = [
        "export", "DB", "down.sst", "--cf", "down", "--from", "y", "--to", "x",
    ];
    assert_eq!(store.run(&down).code, 0);
    assert_eq!(store.run(&["put", "other", "a", "old"]).code, 0);
    assert_eq!(store.run(&["put", "other", "d", "kept"]).code, 0);
    let done = store.run(&["ingest", "other", "all.sst"]);
    assert_eq!(
        (done.code, done.out.as_str()),
        (0, "3 keys of 1 table ingested\n")
    );
    assert_eq!(store.run(&["scan", "other"]).out, format!("{ALL}d\tkept\n"));
    assert_eq!(store.run(&["put", "other", "b", "newer"]).code, 0);
    assert_eq!(store.run(&["get", "other", "b"]).out, "newer\n");
    let json = store
        .run(&["ingest", "other", "down.sst", "b.sst", "--json"])
        .json();
    assert_eq!((&json["entries"], &json["tables"]), (&json!(2), &json!(1)));
    assert_eq!(store.run(&["get", "other", "b"]).out, "2\n");
    assert_eq!(store.run(&["get", "other", "y"]).out, "8\n");
    store.write(
        "text.sst",
        "not a table, but longer than the footer of one, which takes eighty bytes.....",
    );
    for (command, says) in [
        (vec!["ingest", "other", "all.sst", "b.sst"], "overlap"),
        (vec!["ingest", "other", "text.sst"], "text.sst"),
        (vec!["ingest", "other", "none.sst"], "none.sst"),
        (
            vec!["ingest", "other", "all.sst", "--cf", "x"],
            "no column family 'x'",
        ),
        (
            vec!["ingest", "nothing", "all.sst", "--cf", "x"],
            "no database in nothing",
        ),
        (vec!["ingest", "nothing", "none.sst"], "none.sst"),
        (vec!["export", "DB", "all.sst"], "all.sst exists"),
    ] {
        let run = store.run(&command);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{command:?}");
        assert!(run.is_one_sentence_naming(says), "{command:?}: {}", run.err);
    }
    assert_eq!(store.run(&["ingest", "other"]).code, 2);
    // A database is made, as by put and load.
    assert!(!store.names().contains(&"nothing".into()));
    let fresh = store.run(&["ingest", "nothing", "all.sst"]);
    assert_eq!(fresh.code, 0, "{}", fresh.err);
    assert_eq!(store.run(&["scan", "nothing"]).out, ALL);
    assert_eq!(
        store
            .run(&["export", "DB", "z.sst", "--hex", "--from", "0"])
            .code,
        2
    );
    assert_eq!(store.run(&["verify", "other"]).code, 0);
}

/// How far they have come is for people at a terminal.
#[test]
fn what_may_take_long_says_nothing_to_a_standard_error_that_is_no_terminal() {
    let store = filled();
    for command in [
        &["compact", "DB"][..],
        &["verify", "DB"],
        &["checkpoint", "DB", "copy"],
        &["backup", "DB", "backups"],
        &["backups", "backups", "--verify"],
        &["restore", "backups", "new"],
        &["export", "DB", "all.sst"],
        &["ingest", "new", "all.sst"],
        &["ingest", "made", "all.sst"],
    ] {
        let run = store.run(command);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{command:?}");
    }
}

#[test]
fn a_database_is_destroyed_only_if_that_is_confirmed() {
    let store = filled();
    let before = names(&store.path());
    let once = store.run(&["destroy", "DB"]);
    assert_eq!((once.code, once.out.as_str()), (2, ""));
    assert!(once.is_one_sentence_naming("add --yes"), "{}", once.err);
    assert_eq!(names(&store.path()), before);
    assert_eq!(store.run(&["checkpoint", "DB", "copy"]).code, 0);
    let done = store.run(&["destroy", "DB", "--yes"]);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert_eq!(done.out, "the database in db is gone\n");
    assert_eq!(names(&store.path()), ["LOCK"]);
    assert_eq!(store.run(&["scan", "copy"]).out, ALL);
    let again = store.run(&["destroy", "DB", "--yes"]);
    assert_eq!((again.code, again.out.as_str()), (1, ""));
    assert!(
        again.is_one_sentence_naming("no database in db"),
        "{}",
        again.err
    );
}

/// What the database remembers is not enough: a copy of its folder remembers it, too.
#[test]
fn persistent_memory_elsewhere_is_destroyed_only_if_it_is_named() {
    let store = Store::new();
    let put = store.run(&["put", "DB", "k", "v", "--pm-path", "region"]);
    assert_eq!(put.code, 0, "{}", put.err);
    let unnamed = store.run(&["destroy", "DB", "--yes"]);
    assert_eq!((unnamed.code, unnamed.out.as_str()), (1, ""));
    for says in ["region", "pm-path"] {
        assert!(unnamed.is_one_sentence_naming(says), "{}", unnamed.err);
    }
    assert_eq!(store.run(&["get", "DB", "k"]).out, "v\n");
    let named = ["destroy", "DB", "--yes", "--pm-path", "region", "--json"];
    let named = store.run(&named);
    assert_eq!((named.code, &named.json()["ok"]), (0, &json!(true)));
    assert_eq!(names(&store.path()), ["LOCK"]);
    assert!(!store.names().contains(&"region".into()));
    let empty = store.run(&["destroy", "DB", "--yes", "--pm-path", ""]);
    assert_eq!(empty.code, 2, "{}", empty.err);
}

/// The database remembers where its logs were, and they are not there any more.
#[test]
#[expect(clippy::disallowed_methods, reason = "a user moves a folder")]
fn logs_whose_folder_was_moved_are_destroyed_if_they_are_named() {
    let store = Store::new();
    let put = ["put", "DB", "k", "v", "--preset", "leveled"];
    let put = store.run(&[&put[..], &["--wal-path", "logs"]].concat());
    assert_eq!(put.code, 0, "{}", put.err);
    let [logs, moved] = ["logs", "moved"].map(|name| store.path().with_file_name(name));
    std::fs::rename(&logs, &moved).unwrap();
    assert!(!names(&moved).is_empty());
    let destroy = ["destroy", "DB", "--yes", "--wal-path"];
    let empty = store.run(&[&destroy[..], &[""]].concat());
    assert_eq!(empty.code, 2, "{}", empty.err);
    let done = store.run(&[&destroy[..], &["moved"]].concat());
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert_eq!(names(&store.path()), ["LOCK"]);
    assert_eq!(names(&moved), Vec::<String>::new());
}

/// In a name there may be anything: a line's end would begin another line, and what a terminal obeys would be obeyed.
#[test]
fn a_path_is_shown_on_one_line() {
    let store = Store::new();
    let (odd, shown) = ("od\nd\x1b[31m", "od\\nd\\u{1b}[31m");
    assert_eq!(store.run(&["put", odd, "k", "v"]).code, 0);
    for (command, begins) in [
        (
            &["verify", odd][..],
            "od\\nd\\u{1b}[31m is sound: 1 record ",
        ),
        (
            &["checkpoint", odd, "a\n"][..],
            "a\\n has what od\\nd\\u{1b}[31m has now",
        ),
        (&["backup", odd, "b\n"][..], "backup 1 in b\\n has "),
        (
            &["backups", "b\n", "--verify"][..],
            "b\\n is sound: 1 file of ",
        ),
        (
            &["restore", "b\n", "c\n"][..],
            "c\\n has what backup 1 has: ",
        ),
        (&["export", odd, "d\n"][..], "d\\n has 1 key in "),
        (
            &["explain", odd, "-o", "e\n"][..],
            "e\\n shows od\\nd\\u{1b}[31m",
        ),
        (
            &["destroy", "c\n", "--yes"][..],
            "the database in c\\n is gone",
        ),
    ] {
        let run = store.run(command);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{command:?}");
        assert!(run.out.starts_with(begins), "{command:?}: {}", run.out);
        assert_eq!(run.out.lines().count(), 1, "{command:?}: {}", run.out);
    }
    for command in ["stat", "explain"] {
        let run = store.run(&[command, odd]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{command}");
        assert_eq!(run.out.lines().next(), Some(shown), "{command}");
        assert!(!run.out.contains(odd), "{command}: {}", run.out);
    }
}
