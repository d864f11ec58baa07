//! The built program, command by command: right and wrong input, exit codes, text and JSON.

use std::io::Read;

use crate::support::{Store, names};
use serde_json::json;

#[test]
fn put_get_delete() {
    let store = Store::new();
    let put = store.run(&["put", "DB", "order:42", "paid"]);
    assert_eq!((put.code, put.out.as_str(), put.err.as_str()), (0, "", ""));
    let get = store.run(&["get", "DB", "order:42"]);
    assert_eq!((get.code, get.out.as_str()), (0, "paid\n"));
    assert_eq!(
        store.run(&["get", "DB", "order:42", "--json"]).json(),
        json!({"found": true, "value": "paid"})
    );
    assert_eq!(store.run(&["delete", "DB", "order:42"]).code, 0);
    assert_eq!(store.run(&["delete", "DB", "order:42"]).code, 0);
    let missing = store.run(&["get", "DB", "order:42"]);
    assert_eq!((missing.code, missing.err.trim()), (1, "not found"));
    assert_eq!(missing.out, "");
    let missing = store.run(&["get", "DB", "order:42", "--json"]);
    assert_eq!((missing.code, missing.err.as_str()), (1, ""));
    assert_eq!(missing.json(), json!({"found": false}));
    assert_eq!(
        store.run(&["put", "DB", "a", "b", "--json"]).json(),
        json!({"ok": true})
    );
}

#[test]
fn the_empty_key_and_the_empty_value_are_keys_and_values() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "", "empty key"]).code, 0);
    assert_eq!(store.run(&["put", "DB", "empty value", ""]).code, 0);
    assert_eq!(store.run(&["get", "DB", ""]).out, "empty key\n");
    assert_eq!(store.run(&["get", "DB", "empty value"]).out, "\n");
    assert_eq!(store.run(&["put", "DB", "-5", "-7"]).code, 0);
    assert_eq!(store.run(&["get", "DB", "-5"]).out, "-7\n");
    // A number below 0 is a bound as it is a key.
    for bounds in [&["--prefix", "-5"][..], &["--from", "-5", "--to", "-6"]] {
        let scan = store.run(&[&["scan", "DB"], bounds].concat());
        assert_eq!(scan.out, "-5\t-7\n", "{bounds:?}: {}", scan.err);
    }
    let bounds = ["--from", "-5", "--to", "-6"];
    for command in [&["compact", "DB"][..], &["export", "DB", "below.sst"]] {
        let run = store.run(&[command, &bounds].concat());
        assert_eq!(run.code, 0, "{}", run.err);
    }
    assert_eq!(store.run(&["put", "DB", "--", "-k", "--v"]).code, 0);
    assert_eq!(store.run(&["get", "DB", "--", "-k"]).out, "--v\n");
}

#[test]
fn changes_come_in_the_order_of_commits() {
    let store = Store::new();
    store.run(&["put", "DB", "a\tb", "1"]);
    store.run(&["put", "DB", "k", "2", "--cf", "log"]);
    store.run(&["delete", "DB", "a\tb"]);
    store.run(&["delete-range", "DB", "a", "c"]);
    let all = store.run(&["changes", "DB"]);
    let lines: Vec<Vec<&str>> = all.out.lines().map(|l| l.split('\t').collect()).collect();
    let kinds: Vec<&[&str]> = lines.iter().map(|line| &line[1..]).collect();
    let wanted: [&[&str]; 4] = [
        &["default", "put", "a\\tb", "1"],
        &["log", "put", "k", "2"],
        &["default", "delete", "a\\tb"],
        &["default", "delete_range", "a", "c"],
    ];
    assert_eq!(kinds, wanted, "{}", all.err);
    let second = lines[1][0];
    let rest = store.run(&["changes", "DB", "--since", second, "--limit", "1", "--json"]);
    let third: u64 = lines[2][0].parse().unwrap();
    let database = rest.json()["database"].clone();
    assert_eq!(database.as_str().map(str::len), Some(32));
    // Who follows asks for it before the first change.
    let stat = |more: &[&str]| store.run(&[&["stat", "DB"], more].concat());
    assert_eq!(stat(&["--json"]).json()["database"], database);
    let row = format!("\n  {:<18} {}\n", "database", database.as_str().unwrap());
    assert!(stat(&[]).out.contains(&row), "no {row}");
    assert_eq!(
        rest.json(),
        json!({
            "changes": [{"seqno": third, "family": "default", "kind": "delete", "key": "a\tb"}],
            "count": 1,
            "position": third,
            "database": database,
        })
    );
    let hex = store.run(&["changes", "DB", "--limit", "1", "--hex"]);
    assert!(hex.out.ends_with("\t610962\t31\n"), "{}", hex.out);
    let wrong = store.run(&["changes", "DB", "--since", "1000000000"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.contains("whose newest one is"), "{}", wrong.err);
    store.run(&["compact", "DB"]);
    let gone = store.run(&["changes", "DB"]);
    assert_eq!(gone.code, 1);
    assert!(gone.err.contains("only those since"), "{}", gone.err);
}

/// The last number that is printed is what to ask for next time, be it one within a batch, whose rest is of a family that was dropped.
#[test]
fn a_change_that_is_known_is_not_printed_again() {
    let store = Store::new();
    let db = thermocline::Db::open(store.path(), store.options()).unwrap();
    let dropped = db
        .column_family("dropped", thermocline::CfOptions::default())
        .unwrap();
    let mut batch = db.batch();
    batch.put("k", "v").put_cf(&dropped, "k", "of no family");
    batch.commit(thermocline::Durability::Immediate).unwrap();
    drop((batch, dropped));
    db.drop_column_family("dropped").unwrap();
    db.close().unwrap();
    let all = store.run(&["changes", "DB"]).out;
    assert!(all.ends_with("\tdefault\tput\tk\tv\n"), "{all}");
    let last = all.split('\t').next().unwrap();
    let again = store.run(&["changes", "DB", "--since", last]);
    assert_eq!((again.code, again.out.as_str()), (0, ""), "{}", again.err);
    let json = store.run(&["changes", "DB", "--since", last, "--json"]);
    assert_eq!(json.json()["count"], 0);
}

#[test]
fn bytes_go_in_and_out_as_digits() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "--hex", "00FF", "0a09"]).code, 0);
    assert_eq!(store.run(&["get", "DB", "--hex", "00ff"]).out, "0a09\n");
    assert_eq!(
        store.run(&["get", "DB", "--hex", "00ff", "--json"]).json(),
        json!({"found": true, "value_hex": "0a09"})
    );
    assert_eq!(store.run(&["scan", "DB", "--hex"]).out, "00ff\t0a09\n");
    assert_eq!(store.run(&["scan", "DB"]).out, "\\x00\\xff\t\\n\\t\n");
    assert_eq!(
        store.run(&["scan", "DB", "--json"]).json(),
        json!({"entries": [{"key_hex": "00ff", "value": "\n\t"}], "count": 1})
    );
    let wrong = store.run(&["put", "DB", "--hex", "0", "0a"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("two digits"), "{}", wrong.err);
}

#[test]
fn ranges_are_deleted_as_one() {
    let store = Store::new();
    let keys = |family: &[&str]| {
        let run = store.run(&[&["scan", "DB", "--keys-only"], family].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        run.out.lines().collect::<Vec<_>>().join(" ")
    };
    for key in ["a", "b", "b/1", "b/2", "c", "-1"] {
        assert_eq!(store.run(&["put", "DB", key, ""]).code, 0);
    }
    let run = store.run(&["delete-range", "DB", "b", "b/2"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""));
    assert_eq!(keys(&[]), "-1 a b/2 c");
    let run = store.run(&["delete-range", "DB", "-1", "a", "--json"]);
    assert_eq!(run.json(), json!({"ok": true}));
    let run = store.run(&["delete-range", "DB", "--hex", "63", "6300"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(keys(&[]), "a b/2");
    assert_eq!(store.run(&["delete-range", "DB", "a", "a"]).code, 0);
    let wrong = store.run(&["delete-range", "DB", "b", "a"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("ends before it begins"), "{}", wrong.err);
    assert_eq!(keys(&[]), "a b/2");
    // Where keys descend, FROM is the greater one.
    let made = store.run(&["create-family", "DB", "log", "--reverse"]);
    assert_eq!(made.code, 0, "{}", made.err);
    for key in ["1", "2", "3", "4"] {
        assert_eq!(store.run(&["put", "DB", key, "", "--cf", "log"]).code, 0);
    }
    let log = ["--cf", "log"];
    let delete = |from, to| store.run(&[&["delete-range", "DB", from, to], &log[..]].concat());
    assert_eq!(delete("1", "3").code, 2);
    assert_eq!(delete("3", "1").code, 0);
    assert_eq!(keys(&log), "4 1");
    for wrong in [
        vec!["delete-range", "DB", "a", "b", "--cf", "none"],
        vec!["delete-range", "NONE", "a", "b"],
    ] {
        assert_eq!(store.run(&wrong).code, 1, "{wrong:?}");
    }
    assert_eq!(store.run(&["delete-range", "DB", "a"]).code, 2);
}

#[test]
fn a_partition_is_dropped_by_its_prefix() {
    let store = Store::new();
    let divided = [
        "--set",
        "partition.by=prefix",
        "--set",
        "partition.prefix_len=2",
    ];
    for key in ["a/1", "a/2", "b/1", "b"] {
        assert_eq!(
            store
                .run(&[&["put", "DB", key, ""], &divided[..]].concat())
                .code,
            0
        );
    }
    // How keys are divided the database knows.
    let run = store.run(&["drop-partition", "DB", "a/"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""));
    assert_eq!(store.run(&["scan", "DB", "--keys-only"]).out, "b\nb/1\n");
    let run = store.run(&["drop-partition", "DB", "--hex", "622f", "--json"]);
    assert_eq!(run.json(), json!({"ok": true}));
    assert_eq!(store.run(&["scan", "DB", "--keys-only"]).out, "b\n");
    let wrong = store.run(&["drop-partition", "DB", "b"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.contains("prefix of 2 bytes"), "{}", wrong.err);
    assert_eq!(
        store
            .run(&["drop-partition", "DB", "b/", "--cf", "none"])
            .code,
        1
    );
}

#[test]
fn no_partition_is_dropped_where_keys_are_not_divided() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "k", "v"]).code, 0);
    for start in ["", "k"] {
        let wrong = store.run(&["drop-partition", "DB", start]);
        assert_eq!(wrong.code, 1, "{start:?}");
        assert!(wrong.err.contains("not divided"), "{}", wrong.err);
    }
    assert_eq!(store.run(&["scan", "DB"]).out, "k\tv\n");
}

#[test]
fn scans_have_bounds_in_both_directions() {
    let store = Store::new();
    for key in ["a", "b", "b/1", "b/2", "c"] {
        assert_eq!(store.run(&["put", "DB", key, &key.to_uppercase()]).code, 0);
    }
    let keys = |arguments: &[&str]| {
        let all = [&["scan", "DB", "--keys-only"], arguments].concat();
        let run = store.run(&all);
        assert_eq!(run.code, 0, "{}", run.err);
        run.out
            .lines()
            .map(str::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(keys(&[]), "a b b/1 b/2 c");
    assert_eq!(keys(&["--reverse"]), "c b/2 b/1 b a");
    assert_eq!(keys(&["--from", "b"]), "b b/1 b/2 c");
    assert_eq!(keys(&["--to", "b/2"]), "a b b/1");
    assert_eq!(
        keys(&["--from", "b", "--to", "c", "--reverse"]),
        "b/2 b/1 b"
    );
    assert_eq!(keys(&["--prefix", "b/"]), "b/1 b/2");
    assert_eq!(keys(&["--prefix", "b", "--from", "b/2"]), "b/2");
    assert_eq!(keys(&["--prefix", "b", "--to", "b/"]), "b");
    assert_eq!(
        keys(&["--prefix", "b", "--reverse", "--limit", "2"]),
        "b/2 b/1"
    );
    assert_eq!(keys(&["--limit", "0"]), "");
    assert_eq!(keys(&["--from", "b", "--to", "b"]), "");
    assert_eq!(keys(&["--prefix", "x"]), "");
    assert_eq!(store.run(&["scan", "DB", "--prefix", "c"]).out, "c\tC\n");
    let json = store.run(&["scan", "DB", "--limit", "2", "--json"]).json();
    assert_eq!(json["count"], 2);
    assert_eq!(json["entries"][1], json!({"key": "b", "value": "B"}));
    let json = store.run(&["scan", "DB", "--prefix", "x", "--json"]).json();
    assert_eq!(json, json!({"entries": [], "count": 0}));
}

#[test]
fn column_families_are_apart_and_only_writers_make_them() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "k", "default"]).code, 0);
    for command in [
        vec!["get", "DB", "k", "--cf", "other"],
        vec!["delete", "DB", "k", "--cf", "other"],
        vec!["scan", "DB", "--cf", "other"],
    ] {
        let run = store.run(&command);
        assert_eq!(run.code, 1, "{command:?}");
        assert!(
            run.err.contains("no column family 'other'") && run.err.contains("default"),
            "{}",
            run.err
        );
    }
    assert_eq!(
        store
            .run(&["put", "DB", "k", "other", "--cf", "other"])
            .code,
        0
    );
    assert_eq!(
        store.run(&["get", "DB", "k", "--cf", "other"]).out,
        "other\n"
    );
    assert_eq!(
        store.run(&["get", "DB", "k", "--cf", "default"]).out,
        "default\n"
    );
    assert_eq!(
        store.run(&["scan", "DB", "--cf", "other"]).out,
        "k\tother\n"
    );
    let families = &store.run(&["stat", "DB", "--json"]).json()["column_families"];
    assert_eq!(families, &json!(["default", "other"]));
    let long = "x".repeat(256);
    let run = store.run(&["put", "DB", "k", "v", "--cf", &long]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("255"), "{}", run.err);
}

#[test]
fn reading_commands_make_no_database() {
    let store = Store::new();
    for command in [
        vec!["get", "DB", "k"],
        vec!["delete", "DB", "k"],
        vec!["scan", "DB"],
        vec!["stat", "DB"],
        vec!["verify", "DB"],
    ] {
        let run = store.run(&command);
        assert_eq!(run.code, 1, "{command:?}");
        assert!(run.is_one_sentence_naming("db"), "{command:?}: {}", run.err);
        assert!(!store.path().exists(), "{command:?} made a folder");
    }
}

#[test]
fn what_is_not_a_database_is_left_alone() {
    let store = Store::new();
    std::fs::DirBuilder::new().create(store.path()).unwrap();
    let stray = store.path().join("thesis.txt");
    store.write("db/thesis.txt", "years of work");
    for command in [
        vec!["put", "DB", "k", "v"],
        vec!["get", "DB", "k"],
        vec!["verify", "DB"],
    ] {
        let run = store.run(&command);
        assert_eq!(run.code, 1, "{command:?}");
        assert!(run.is_one_sentence_naming("db"), "{command:?}: {}", run.err);
    }
    assert_eq!(store.path().read_dir().unwrap().count(), 1);
    let file = stray.display().to_string();
    let run = store.run(&["put", &file, "k", "v"]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.is_one_sentence_naming("thesis.txt"), "{}", run.err);
}

#[test]
fn limits_are_named_and_nothing_is_written() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "k", "v"]).code, 0);
    let long = "x".repeat(65_536);
    for command in [
        vec!["put", "DB", &long, "v"],
        vec!["get", "DB", &long],
        vec!["delete", "DB", &long],
        vec!["delete-range", "DB", "a", &long],
        vec!["drop-partition", "DB", &long],
        vec!["scan", "DB", "--prefix", &long],
        vec!["compact", "DB", "--from", &long],
        vec!["export", "DB", "x.sst", "--to", &long],
    ] {
        let run = store.run(&command);
        assert_eq!(run.code, 2);
        assert!(
            run.err.contains("65535") && run.err.contains("65536"),
            "{}",
            run.err
        );
    }
    assert_eq!(store.run(&["scan", "DB"]).out, "k\tv\n");
}

#[test]
fn stat_tells_people_and_programs() {
    let store = Store::new();
    store.run(&["put", "DB", "k", "v", "--set", "read.readahead=7"]);
    let text = store.run(&["stat", "DB"]);
    assert_eq!(text.code, 0, "{}", text.err);
    for word in [
        "preset",
        "thermocline",
        "region",
        "persistent memory",
        "huge pages",
        "DRAM",
        "SSD levels",
        "Memtables",
        "memtable.bytes_max",
        "column families",
    ] {
        assert!(text.out.contains(word), "no '{word}' in\n{}", text.out);
    }
    let json = store.run(&["stat", "DB", "--json"]).json();
    assert_eq!(json["preset"], "thermocline");
    assert_eq!(json["recovery"]["records"], 1);
    assert_eq!(json["effective_options"]["read.readahead"], "7");
    assert!(json["region_kind"].is_string() && json["memtables"].is_array());
    assert!(json["latency_us"].is_object());
    assert!(json["pm_huge_bytes"].is_u64());
    assert_eq!(json["stalls"]["growth"]["count"], 0);
    assert_eq!(json["runtime"]["stores"], 1);
    assert!(
        json["runtime"]["dram_limit_bytes"].is_null(),
        "a runtime of its own"
    );
    let changed = store.run(&["stat", "DB", "--json", "--set", "read.readahead=9"]);
    assert_eq!(changed.json()["effective_options"]["read.readahead"], "9");
}

#[test]
fn options_are_listed_with_value_range_and_meaning() {
    let store = Store::new();
    let run = |more: &[&str]| store.run(&[&["options"], more].concat());
    let all = run(&[]);
    assert_eq!((all.code, all.err.as_str()), (0, ""), "{}", all.err);
    let heading = "Options of preset thermocline (change them with --set)\n";
    assert!(all.out.starts_with(heading), "{}", all.out);
    let row =
        |name: &str, value: &str, takes: &str| format!("\n  {name:<30} {value:<14} {takes}\n");
    for (name, value, takes) in [
        ("dram", "1GiB", "1MiB to 128TiB"),
        ("wal_path", "-", "a folder"),
        ("memtable.idle_ms", "1000", "0 to 3600000 ms"),
    ] {
        let row = row(name, value, takes);
        assert!(all.out.contains(&row), "no {row} in\n{}", all.out);
    }
    assert!(!all.out.contains("    0 switches it off."), "{}", all.out);
    // One is there with all its sentences, though others begin as it does.
    let one = run(&["memtable.idle_ms"]).out;
    assert!(one.contains("    An idle store appends"), "{one}");
    assert!(one.ends_with("\n    0 switches it off.\n"), "{one}");
    let one = run(&["compaction.compression"]).out;
    assert_eq!(one.lines().count(), 3, "{one}");
    // As in a new store, but for what its region decides.
    assert_eq!(store.run(&["put", "DB", "k", "v"]).code, 0);
    let stat = store.run(&["stat", "DB", "--json"]).json();
    let listed = run(&["--json"]).json();
    let listed = listed["options"].as_array().unwrap();
    for (name, value) in stat["effective_options"].as_object().unwrap() {
        let one = listed.iter().find(|one| one["name"] == *name);
        let one = one.unwrap_or_else(|| panic!("{name}"));
        assert!(one["value"] == *value || name == "level0.shape", "{one}");
    }
    let group = run(&["level0.", "--preset", "pm-blade", "--json"]).json();
    assert_eq!(
        (&group["preset"], &group["count"]),
        (&json!("pm-blade"), &json!(6))
    );
    let percent = &group["options"][1];
    assert_eq!(percent["name"], "level0.pm_percent");
    assert_eq!(
        (&percent["value"], &percent["takes"]),
        (&json!("80"), &json!("1 to 80"))
    );
    assert!(percent["doc"].as_str().unwrap().ends_with("on the SSD."));
    for (wrong, says) in [
        (&["memtable.size"][..], "there is no option 'memtable.size'"),
        (&["--preset", "rocks"], "there is no preset 'rocks'"),
    ] {
        let run = run(wrong);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
        assert!(run.is_one_sentence_naming(says), "{}", run.err);
    }
}

/// Each way of reading, though nothing was read: what is not used was refused, and an errno says why.
#[test]
fn stat_tells_how_reads_reach_the_device() {
    let store = Store::new();
    store.run(&["put", "DB", "k", "v"]);
    let threads = ["--set", "read.async_io=threads"];
    let text = store.run(&[&["stat", "DB"][..], &threads].concat()).out;
    assert!(text.contains("reads of futures   threads\n"), "{text}");
    for way in ["interrupt", "sqpoll", "iopoll", "threads"] {
        let set = format!("read.async_io={way}");
        let document = store.run(&["stat", "DB", "--json", "--set", &set]).json();
        let runtime = &document["runtime"];
        for (used, refused) in [
            ("async_io", "async_io_refused"),
            ("job_io", "job_io_refused"),
        ] {
            let (used, refused) = (&runtime[used], &runtime[refused]);
            // Jobs of a store that does not write need not have decided.
            if used.is_null() {
                continue;
            }
            assert_eq!(*used == way, refused.is_null(), "{way}: {runtime}");
            if !refused.is_null() {
                assert!(refused["errno"].is_number(), "{way}: {runtime}");
                assert_ne!(refused["way"], *used, "{way}: {runtime}");
            }
        }
    }
}

#[test]
fn stat_tells_what_was_flushed_and_compacted_last_and_why() {
    let store = Store::new();
    store.run(&["put", "DB", "k", "v"]);
    let none = store.run(&["stat", "DB", "--events"]);
    assert_eq!(none.out, "nothing was flushed or compacted yet\n");
    store.run(&["compact", "DB"]);
    let text = store.run(&["stat", "DB", "--events"]).out;
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].contains("took, ms") && lines[0].contains("syncing"),
        "{text}"
    );
    assert!(
        lines[1].contains(": 1 table of ")
            && lines[1].contains("ago")
            && lines[1].contains("flush 1 memtable of"),
        "{text}"
    );
    assert!(
        lines[2].ends_with("flush: somebody wants it, or room"),
        "{text}"
    );
    assert!(
        lines[3].contains("move default 0 to 6, 1 table of")
            && lines[3].ends_with(": nothing written"),
        "{text}"
    );
    assert!(lines[4].ends_with("manual"), "{text}");
    assert_eq!(lines.len(), 5, "{text}");
    let json = store.run(&["stat", "DB", "--events", "--json"]).json();
    let events = json["events"].as_array().unwrap();
    assert_eq!(events.len(), 2);
    let number = |event: usize, name: &str| events[event][name].as_u64().unwrap();
    assert_eq!(events[0]["work"], "flush");
    assert!(events[0]["from_level"].is_null() && events[0]["column_family"].is_null());
    assert_eq!((number(0, "entries_read"), number(0, "tables")), (1, 1));
    assert!(number(0, "ended_unix_s") > 1_700_000_000);
    let of = |event: usize, stage: &str| number(event, &format!("{stage}_us"));
    let stages = ["reading", "merging", "writing", "syncing"].map(|stage| of(0, stage));
    // Each is rounded down.
    assert!(of(0, "took") <= stages.iter().sum::<u64>() + 4, "{json}");
    assert_eq!(
        (events[1]["column_family"].as_str(), number(1, "to_level")),
        (Some("default"), 6)
    );
}

#[test]
fn stat_says_for_which_tables_no_learned_index_fits() {
    let store = Store::new();
    let learned = ["--set", "ssd.index=learned"];
    store.run(&[&["put", "DB", "k", "v"][..], &learned].concat());
    let none = store.run(&["stat", "DB", "--json"]).json();
    let counts = |binary, fell_back| serde_json::json!({ "binary": binary, "learned": 0, "fell_back": fell_back });
    assert_eq!(none["table_indexes"], counts(0, 0));
    let run = store.run(&[&["compact", "DB"][..], &learned].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let json = store.run(&["stat", "DB", "--json"]).json();
    assert_eq!(json["table_indexes"], counts(0, 1));
    let text = store.run(&["stat", "DB"]);
    let says = "0 learned; 1 binary, as no learned one fits; 0 binary, as was wanted";
    assert!(text.out.contains(says), "{}", text.out);
}

#[test]
fn a_ttl_is_of_the_run_and_stat_tells_what_it_makes_of_a_store() {
    let store = Store::new();
    store.run(&["put", "DB", "k", "v"]);
    let json = store.run(&["stat", "DB", "--json"]).json();
    assert!(json["write_times"].is_null());
    assert_eq!(json["ttls"], serde_json::json!({}));
    let ttl = ["--ttl", "default=30d", "--ttl", "other=1h"];
    let run = store.run(&[&["create-family", "DB", "other"][..], &ttl].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let run = store.run(&[&["put", "DB", "l", "w"][..], &ttl].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let run = store.run(&[&["compact", "DB"][..], &ttl].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let json = store.run(&[&["stat", "DB", "--json"][..], &ttl].concat());
    let json = json.json();
    assert_eq!(json["ttls"]["default"]["ttl_seconds"], 2_592_000);
    assert!(json["ttls"]["default"]["expired_seqno"].is_null());
    assert!(json["write_times"]["newest_seqno"].as_u64() >= Some(1));
    let text = store.run(&[&["stat", "DB"][..], &ttl].concat());
    let says = "default keeps 2,592,000 s; of tables 0 B have expired as a whole";
    assert!(text.out.contains(says), "{}", text.out);
    for (ttl, code, says) in [
        ("default=30", 2, "like sessions=30d"),
        (
            "default=0s",
            2,
            "the TTL of column family 'default' is more than 0",
        ),
        ("default=40000d", 2, "at most 3155760000 seconds"),
    ] {
        let run = store.run(&["get", "DB", "k", "--ttl", ttl]);
        assert_eq!(run.code, code, "{}", run.err);
        assert!(run.err.contains(says), "{}", run.err);
    }
    let run = store.run(&["verify", "DB", "--ttl", "default=1d"]);
    assert!(run.err.contains("nothing expires"), "{}", run.err);
    assert_eq!(store.run(&["scan", "DB"]).out, "k\tv\nl\tw\n");
}

#[test]
fn explain_draws_all_tiers_and_says_what_is_next() {
    let store = Store::new();
    let none = store.run(&["explain", "DB"]);
    assert_eq!(none.code, 1);
    store.run(&["put", "DB", "k", "v", "--pm", "8MiB"]);
    let text = store.run(&["explain", "DB"]);
    assert_eq!(text.code, 0, "{}", text.err);
    for word in [
        "DRAM: ",
        "Persistent memory: ",
        "SSD: 0 B",
        "memtable 1, written",
        "flush: not due",
        "due from 4 MiB on",
        "nothing lies on the SSD",
        "writers: not held back",
    ] {
        assert!(text.out.contains(word), "no '{word}' in\n{}", text.out);
    }
    assert_adds_up(&text.out);
    assert_eq!(store.run(&["compact", "DB"]).code, 0);
    for n in 0..3 {
        let key = format!("k{n}");
        store.run(&["put", "DB", &key, "v", "--cf", "other"]);
        assert_eq!(store.run(&["compact", "DB", "--from", "x"]).code, 0);
    }
    let text = store.run(&["explain", "DB"]).out;
    assert!(text.contains("1 table; the last level"), "{text}");
    let json = store.run(&["explain", "DB", "--json"]).json();
    assert_eq!(json["flush"]["due"], false);
    assert_eq!(json["families"][0]["family"], "default");
    assert_eq!(json["families"][0]["next"], serde_json::Value::Null);
    assert_eq!(json["families"][0]["levels"][0]["runs_due"], 4);
}

/// A size as it is printed, in bytes, and by how much it may be off.
fn size_of(text: &str) -> (f64, f64) {
    let (number, unit) = text.trim().split_once(' ').unwrap();
    let unit = ["B", "KiB", "MiB", "GiB"].iter().position(|u| *u == unit);
    let unit = 1024f64.powi(i32::try_from(unit.unwrap()).unwrap());
    (number.parse::<f64>().unwrap() * unit, 0.06 * unit)
}

/// What rows say of persistent memory is what it says of itself.
fn assert_adds_up(text: &str) {
    let (_, part) = text.split_once("Persistent memory: ").unwrap();
    let (part, _) = part.split_once("\n\n").unwrap();
    let mut lines = part.lines();
    let (all, mut off) = size_of(lines.next().unwrap().split_once(" of ").unwrap().0);
    let mut sum = 0.0;
    for line in lines {
        let (bytes, more) = size_of(&line[24..36]);
        sum += bytes;
        off += more;
    }
    assert!((sum - all).abs() <= off, "{sum} for {all} in\n{text}");
}

/// They are dead and nobody reads them: what holds them is said.
#[test]
fn memtables_that_are_kept_for_change_feeds_are_told_as_such() {
    let store = Store::new();
    let retains = ["--pm", "64MiB", "--set", "feed.retain_bytes=32MiB"];
    let put = store.run(&[&["put", "DB", "k", "v"][..], &retains].concat());
    assert_eq!(put.code, 0, "{}", put.err);
    assert_eq!(store.run(&["compact", "DB"]).code, 0);
    let feed = &store.run(&["stat", "DB", "--json"]).json()["feed"];
    assert_eq!(feed["kept_memtables"], 1, "{feed}");
    let stat = store.run(&["stat", "DB"]).out;
    assert!(stat.contains(" of them kept for change feeds)"), "{stat}");
    let text = store.run(&["explain", "DB"]).out;
    assert!(text.contains("1 record; kept for change feeds\n"), "{text}");
    assert_adds_up(&text);
    assert_eq!(store.run(&["explain", "DB", "-o", "x.html"]).code, 0);
    let page = store.path().with_file_name("x.html");
    let html = std::fs::read_to_string(page).unwrap();
    let says = "nothing in it is alive; kept for change feeds\n";
    assert!(html.contains(says), "{html}");
    for told in [text, html] {
        assert!(!told.contains("still read"), "{told}");
    }
}

#[test]
fn explain_tells_what_decides_about_level_0_in_persistent_memory() {
    let store = Store::new();
    for n in 0..3 {
        let value = format!("v{n}");
        let put = [
            "put", "DB", "k", &value, "--preset", "pm-blade", "--pm", "8MiB",
        ];
        let put = store.run(&put);
        assert_eq!(put.code, 0, "{}", put.err);
        // Flushed, and not compacted.
        assert_eq!(store.run(&["compact", "DB", "--from", "x"]).code, 0);
    }
    let text = store.run(&["explain", "DB"]).out;
    for word in [
        "level 0 in persistent memory: ",
        "slice from k on: ",
        "internal: eq. 1, gain 0.000 ms/s, cost 1000.000 ms/s, not due",
    ] {
        assert!(text.contains(word), "no '{word}' in\n{text}");
    }
    assert_adds_up(&text);
    // What zones take is another thing than what lies in them, and is named so.
    assert!(text.contains(" of zones in 1 slice"), "{text}");
    let costs = &store.run(&["explain", "DB", "--json"]).json()["level0_costs"];
    assert_eq!(costs["form"], "printed");
    assert_eq!(
        (&costs["slices"], &costs["nearest"][0]["runs"]),
        (&1.into(), &3.into())
    );
    let stat = store.run(&["stat", "DB", "--json"]).json();
    assert_eq!(stat["compaction"]["internal"]["jobs"], 0);
    assert_eq!(stat["preset"], "pm-blade");
}

#[test]
fn explain_draws_a_page_that_needs_nothing_else() {
    let store = Store::new();
    let page = store.path().with_file_name("x.html");
    let none = store.run(&["explain", "DB", "-o", "x.html"]);
    assert_eq!(none.code, 1);
    assert!(!page.exists());
    for n in 0..3 {
        let key = format!("<k{n}>");
        store.run(&["put", "DB", &key, "v", "--cf", "a&b"]);
        assert_eq!(store.run(&["compact", "DB"]).code, 0);
    }
    store.run(&["put", "DB", "k", "v"]);
    let drawn = store.run(&["explain", "DB", "-o", "x.html"]);
    assert_eq!(drawn.code, 0, "{}", drawn.err);
    assert_eq!(drawn.out, "x.html shows db\n");
    let html = std::fs::read_to_string(&page).unwrap();
    for text in [
        "<!DOCTYPE html>",
        "<h2>Next</h2>",
        "<li><b>flush</b>",
        "memtable 4: takes the writes",
        "Column family a&amp;b <small>1 partition, 3 tables</small>",
        "from &lt;k2&gt; to &lt;k2&gt;",
        "1 entry of which 0 deletes",
        "age: 1 to 1 writes ago (of 4)",
        "partition from the first key",
    ] {
        assert!(html.contains(text), "no '{text}' in\n{html}");
    }
    for foreign in ["http:", "https:", "<script", "TITLE"] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    let opened = html.matches("<g ").count();
    assert_eq!(opened, html.matches("</g>").count());
    let json = store
        .run(&["explain", "DB", "-o", "x.html", "--json"])
        .json();
    assert_eq!(json["families"][0]["family"], "a&b");
    // As with --report, the folder is made.
    let within = store.run(&["explain", "DB", "-o", "new/x.html"]);
    assert_eq!(within.code, 0, "{}", within.err);
    assert!(page.with_file_name("new").join("x.html").is_file());
    let refused = store.run(&["explain", "DB", "-o", "x.html/y.html"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.is_one_sentence_naming("x.html is no folder"),
        "{}",
        refused.err
    );
}

#[test]
fn a_region_elsewhere_needs_to_be_named_only_once() {
    let store = Store::new();
    let pm = store.path().with_file_name("pm");
    std::fs::DirBuilder::new().create(&pm).unwrap();
    let put = store.run(&["put", "DB", "k", "v", "--pm-path", "pm"]);
    assert_eq!(put.code, 0, "{}", put.err);
    assert_eq!(store.run(&["get", "DB", "k"]).out, "v\n");
    assert_eq!(store.run(&["put", "DB", "l", "w"]).code, 0);
    assert_eq!(store.run(&["verify", "DB"]).code, 0);
    let json = store.run(&["stat", "DB", "--json"]).json();
    let region = std::path::PathBuf::from(json["region_path"].as_str().unwrap());
    assert_eq!(region.parent(), Some(&*pm));
    assert_eq!(json["effective_options"]["pm_path"], json["region_path"]);
    assert_eq!(names(&pm).len(), 1);
    thermocline_bench::scratch::remove(&region).unwrap();
    for command in ["get", "delete"] {
        let run = store.run(&[command, "DB", "k"]);
        assert_eq!(run.code, 1);
        let place = region.display().to_string();
        assert!(run.is_one_sentence_naming(&place), "{}", run.err);
        assert!(run.err.contains("db/region.pm"), "{}", run.err);
    }
}

#[test]
fn verify_finds_nothing_in_a_sound_database() {
    let store = Store::new();
    store.run(&["put", "DB", "k", "v"]);
    let text = store.run(&["verify", "DB"]);
    assert_eq!(text.code, 0, "{}", text.err);
    assert!(text.out.contains("no fault"), "{}", text.out);
    let json = store.run(&["verify", "DB", "--json"]).json();
    assert_eq!(
        (&json["sound"], &json["faults"]),
        (&json!(true), &json!([]))
    );
    assert_eq!(store.run(&["verify", "DB", "--quiet"]).out, "");
}

#[test]
fn a_flipped_byte_is_reported_with_its_place() {
    let store = Store::new();
    store.run(&["put", "DB", "good", "untouched"]);
    store.run(&["put", "DB", "bad", "the value that is damaged"]);
    store.run(&["put", "DB", "last", "untouched"]);
    let json = store.run(&["stat", "DB", "--json"]).json();
    let region = json["region_path"].as_str().unwrap().to_string();
    let offset = store.flip(&region, b"that is damaged");
    let verify = store.run(&["verify", "DB"]);
    assert_eq!(verify.code, 1, "{}", verify.out);
    assert!(verify.is_one_sentence_naming("1 fault"), "{}", verify.err);
    assert!(verify.out.contains("at offset"), "{}", verify.out);
    let json = store.run(&["verify", "DB", "--json"]);
    let fault = &json.json()["faults"][0];
    let place = fault["offset"].as_u64().unwrap();
    assert!(
        place <= offset && offset - place < 4096,
        "{fault} for {offset}"
    );
    // What is printed piece by piece is one document all the same.
    let scan = store.run(&["scan", "DB", "--reverse", "--json"]);
    let document = scan.json();
    let entries = document["entries"].as_array().unwrap().len();
    assert_eq!((scan.code, &document["count"]), (1, &json!(entries)));
    let error = document["error"].as_str().unwrap();
    assert!(error.starts_with("corruption"), "{error}");
    assert!(scan.err.contains(error), "{}", scan.err);
    let changes = store.run(&["changes", "DB", "--json"]);
    let document = changes.json();
    assert_eq!((changes.code, &document["count"]), (1, &json!(1)));
    assert_eq!(document["position"], document["changes"][0]["seqno"]);
    assert!(document["error"].is_string() && document["database"].is_string());
    for command in [vec!["get", "DB", "bad"], vec!["scan", "DB"]] {
        let run = store.run(&command);
        assert_eq!(run.code, 1, "{command:?}: {}", run.out);
        assert!(
            run.is_one_sentence_naming("corruption"),
            "{command:?}: {}",
            run.err
        );
    }
}

#[test]
fn a_database_that_is_open_elsewhere_is_named_locked() {
    let store = Store::new();
    store.run(&["put", "DB", "k", "v"]);
    let held = thermocline::Db::open(store.path(), store.options()).unwrap();
    for command in [
        vec!["put", "DB", "k", "w"],
        vec!["delete", "DB", "k"],
        vec!["compact", "DB"],
    ] {
        let run = store.run(&command);
        assert_eq!(run.code, 1, "{command:?}");
        let process = format!("process {}", std::process::id());
        assert!(run.err.contains(&process), "{command:?}: {}", run.err);
    }
    held.close().unwrap();
    assert_eq!(store.run(&["get", "DB", "k"]).out, "v\n");
}

#[test]
fn a_long_value_comes_from_a_file_and_goes_when_it_is_deleted() {
    let store = Store::new();
    let long = "a line\n".repeat(300_000);
    store.write("long.txt", &long);
    let put = ["put", "DB", "book", "--file", "long.txt", "--pm", "8MiB"];
    assert_eq!(store.run(&put).code, 0);
    let get = store.run(&["get", "DB", "book"]);
    assert!(get.code == 0 && get.out == format!("{long}\n"));
    let blobs = || store.run(&["stat", "DB", "--json"]).json()["blobs"].clone();
    assert_eq!(blobs()["files"], 1);
    let explained = store.run(&["explain", "DB"]).out;
    assert!(explained.contains("blob files"), "{explained}");
    assert_adds_up(&explained);
    assert_eq!(blobs()["memtable_bytes"], long.len());
    let text = store.run(&["stat", "DB"]).out;
    assert!(text.contains("in 1 file: "), "{text}");
    assert_eq!(store.run(&["compact", "DB"]).code, 0);
    assert_eq!(blobs()["table_bytes"], long.len());
    assert!(store.run(&["get", "DB", "book"]).out.len() > long.len());
    assert_eq!(store.run(&["verify", "DB"]).code, 0);
    assert_eq!(store.run(&["delete", "DB", "book"]).code, 0);
    assert_eq!(store.run(&["compact", "DB"]).code, 0);
    let none =
        ["files", "bytes", "table_bytes", "memtable_bytes"].map(|name| blobs()[name].clone());
    assert_eq!(none, [0, 0, 0, 0]);
    let left = names(&store.path());
    assert!(left.iter().all(|name| !name.ends_with(".blob")), "{left:?}");
    let both = store.run(&["put", "DB", "k", "v", "--file", "long.txt"]);
    assert_eq!(both.code, 2);
    let missing = store.run(&["put", "DB", "k", "--file", "none.txt"]);
    assert!(missing.code == 1 && missing.err.contains("none.txt"));
}

#[test]
fn wrong_usage_exits_2_and_says_what_is_right() {
    let store = Store::new();
    for (command, says) in [
        (vec!["put", "DB", "k"], "<VALUE>"),
        (vec!["frobnicate"], "frobnicate"),
        (vec!["put", "DB", "k", "v", "--pm", "4GB"], "KiB"),
        (vec!["put", "DB", "k", "v", "--dram", "much"], "64MiB"),
        (
            vec!["put", "DB", "k", "v", "--dram", "1KiB"],
            "between 1 MiB and",
        ),
        (
            vec!["put", "DB", "k", "v", "--pm", "256KiB"],
            "pm is at least 1 MiB here",
        ),
        (
            vec!["put", "DB", "k", "v", "--set", "nonsense"],
            "group.option=value",
        ),
        (
            vec!["put", "DB", "k", "v", "--set", "no.such=1"],
            "there is no option",
        ),
        (
            vec!["put", "DB", "k", "v", "--set", "read.readahead=0"],
            "between 1 and 4096",
        ),
        (
            vec!["put", "DB", "k", "v", "--preset", "rocks"],
            "there is no preset",
        ),
        (vec!["scan", "DB", "--limit", "many"], "--limit"),
        (vec!["load", "DB", "f.csv"], "--key"),
        (vec!["load", "DB", "f.dat", "--key", "k"], "--format"),
        (vec!["bench", "fillrandon"], "fillrandom"),
        (vec!["bench", "fillseq", "--key-size", "4"], "key-size"),
        (vec!["bench", "fillseq", "--emulate", "tape"], "optane"),
        (
            vec![
                "bench",
                "fillseq",
                "--preset",
                "leveled",
                "--emulate",
                "cxl",
            ],
            "emulation profile",
        ),
        (
            vec!["bench", "readrandom", "--distribution", "zipf"],
            "zipfian",
        ),
        (vec!["bench", "readrandom", "--use-existing"], "--db"),
        (vec!["reproduce"], "PAPER"),
        (vec![], "Usage"),
    ] {
        let run = store.run(&command);
        assert_eq!(run.code, 2, "{command:?}: {}", run.err);
        assert!(run.err.contains(says), "{command:?}: {}", run.err);
        // Who types nothing gets help.
        let one = command.is_empty() || run.is_one_sentence_naming(says);
        assert!(one, "{command:?}: {}", run.err);
        assert_eq!(run.out, "", "{command:?}");
        assert!(!store.path().exists(), "{command:?} made a folder");
    }
}

/// If they were taken as they are typed, the preset would take back what was set before it, and say nothing.
#[test]
fn a_preset_keeps_what_is_set_beside_it_and_nothing_is_set_in_two_ways() {
    let store = Store::new();
    let put = ["put", "DB", "k", "v"];
    for (twice, says) in [
        (
            ["--preset", "trident", "--set", "preset=leveled"],
            "--set preset=…",
        ),
        (["--dram", "64MiB", "--set", "dram=32MiB"], "--dram and"),
        (["--pm", "64MiB", "--set", "pm=32MiB"], "pm is there twice"),
        (
            ["--pm-path", "pm", "--set", "pm_path=other"],
            "--pm-path and",
        ),
        (
            ["--wal-path", "w", "--set", "wal_path=other"],
            "--wal-path and",
        ),
    ] {
        let run = store.run(&[&put[..], &twice].concat());
        assert_eq!(run.code, 2, "{}", run.err);
        assert!(run.is_one_sentence_naming(says), "{}", run.err);
        assert!(!store.path().exists());
    }
    let set = ["--set", "compaction.levels=3", "--set", "preset=pm-blade"];
    let run = store.run(&[&put[..], &set].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let json = store.run(&["stat", "DB", "--json"]).json();
    assert_eq!(json["effective_options"]["compaction.levels"], "3");
    assert_eq!(json["preset"], "pm-blade");
}

/// A store with fifty values of 5000 bytes, which do not compress, on the SSD, and one of another family.
fn with_tables() -> Store {
    let store = Store::new();
    let mut state = 1u32;
    let mut digits = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        format!("{:04x}", state >> 16)
    };
    for n in 0..50 {
        let value: String = std::iter::repeat_with(&mut digits).take(1250).collect();
        let key = format!("k{n:02}");
        assert_eq!(store.run(&["put", "DB", &key, &value]).code, 0);
    }
    let other = ["put", "DB", "stays", "here", "--cf", "other"];
    assert_eq!(store.run(&other).code, 0);
    assert!(ssd_after_compacting(&store, &[]) > 50 * 5000);
    store
}

/// Compacts a range, or everything; bytes on the SSD then.
fn ssd_after_compacting(store: &Store, range: &[&str]) -> u64 {
    let run = store.run(&[&["compact", "DB", "--json"], range].concat());
    assert_eq!(run.code, 0, "{range:?}: {}", run.err);
    let json = run.json();
    assert_eq!(json["ok"], true);
    json["ssd_bytes_after"].as_u64().unwrap()
}

/// What has no key of a range that was deleted.
const ELSEWHERE: [&str; 4] = ["--from", "m", "--to", "n"];

#[test]
fn what_was_deleted_takes_no_space_once_it_is_compacted() {
    let store = with_tables();
    for n in 0..50 {
        assert_eq!(store.run(&["delete", "DB", &format!("k{n:02}")]).code, 0);
    }
    // What lies outside of the range stays as it is.
    assert!(ssd_after_compacting(&store, &ELSEWHERE) > 50 * 5000);
    assert!(ssd_after_compacting(&store, &[]) < 5000);
    let there = store.run(&["get", "DB", "stays", "--cf", "other"]);
    assert_eq!(there.out, "here\n");
    let no_family = store.run(&["compact", "DB", "--cf", "none"]);
    assert_eq!(no_family.code, 1);
    assert!(no_family.err.contains("'none'"), "{}", no_family.err);
}

#[test]
fn what_is_left_of_a_blob_file_moves_when_it_is_compacted() {
    let store = Store::new();
    let value = "value".repeat(4000);
    for n in 0..10 {
        let of_one_file = ["put", "DB", &format!("k{n}"), &value];
        assert_eq!(store.run(&of_one_file).code, 0);
    }
    let none = ["--set", "blob.compression=none"];
    let all = ssd_after_compacting(&store, &none);
    assert!(all > 10 * 20_000, "{all}");
    for n in 1..10 {
        assert_eq!(store.run(&["delete", "DB", &format!("k{n}")]).code, 0);
    }
    let left = ssd_after_compacting(&store, &none);
    assert!(left < 30_000, "{left}");
    assert_eq!(store.run(&["get", "DB", "k0"]).out, format!("{value}\n"));
}

/// Their tables are not read for it, and go with or without a compaction.
#[test]
fn tables_of_a_deleted_range_take_no_space_without_being_compacted() {
    let store = with_tables();
    let run = store.run(&["delete-range", "DB", "k", "l"]);
    assert_eq!(run.code, 0, "{}", run.err);
    // Whether a worker comes to it before a command ends is not said.
    let gone = || ssd_after_compacting(&store, &ELSEWHERE) < 5000;
    assert!((0..100).any(|_| gone()));
    assert_eq!(store.run(&["scan", "DB", "--keys-only"]).out, "");
    let there = store.run(&["get", "DB", "stays", "--cf", "other"]);
    assert_eq!(there.out, "here\n");
}

#[test]
fn experiments_are_named_run_saved_and_drawn() {
    let store = Store::new();
    let list = store.run(&["reproduce", "--list"]);
    assert_eq!(list.code, 0, "{}", list.err);
    assert!(
        list.out
            .lines()
            .any(|line| line.starts_with("pm-blade fig-6 ")),
        "{}",
        list.out
    );
    let named = store.run(&["reproduce", "--list", "--json"]).json();
    assert_eq!(named[0]["paper"], "pm-blade");
    let of_one = store.run(&["reproduce", "flat-lsm", "table-1", "--list"]);
    assert_eq!(of_one.code, 0, "{}", of_one.err);
    assert!(of_one.out.starts_with("flat-lsm fig-20 "), "{}", of_one.out);
    assert_eq!(of_one.out.lines().count(), 1, "{}", of_one.out);
    let run = [
        "reproduce",
        "pm-blade",
        "fig-6",
        "--quick",
        "--dir",
        ".",
        "--report",
        "r.html",
    ];
    let done = store.run(&run);
    assert_eq!(done.code, 0, "{}", done.err);
    for text in [
        "Scale: ",
        "array, LZ4 by eight",
        "paper: ",
        "here:  ",
        "saved as reproduced/pm-blade-fig-6.json",
    ] {
        assert!(done.out.contains(text), "no '{text}' in\n{}", done.out);
    }
    let folder = store.path().with_file_name("");
    let saved = std::fs::read_to_string(folder.join("reproduced/pm-blade-fig-6.json")).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    assert_eq!(saved["experiment"], "fig-6");
    assert!(saved["checks"].as_array().unwrap().len() > 3);
    let page = std::fs::read_to_string(folder.join("r.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
    let mut left: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["r.html", "reproduced"]);
    for (wrong, says) in [
        (vec!["reproduce", "pm-blade", "fig-99"], "fig-99"),
        (vec!["reproduce", "nobody"], "nobody"),
        (vec!["reproduce", "nobody", "--list"], "nobody"),
        (vec!["reproduce", "pm-blade", "--emulate", "drum"], "drum"),
    ] {
        let refused = store.run(&wrong);
        assert_eq!(refused.code, 2, "{wrong:?}: {}", refused.err);
        assert!(
            refused.is_one_sentence_naming(says),
            "{wrong:?}: {}",
            refused.err
        );
    }
    assert_eq!(store.run(&["reproduce"]).code, 2);
}

/// They took minutes. Here results are saved where the page was to be, of which nobody knows before.
#[test]
fn results_of_which_no_page_can_be_written_are_printed_all_the_same() {
    let store = Store::new();
    let run = ["reproduce", "pm-blade", "fig-6", "--quick", "--dir", "."];
    let places = ["--out", "here", "--report", "here", "--json"];
    let done = store.run(&[&run[..], &places].concat());
    assert_eq!(done.code, 1, "{}", done.err);
    let says = "here is not an ordinary file";
    assert!(done.is_one_sentence_naming(says), "{}", done.err);
    assert_eq!(done.json()[0]["experiment"], "fig-6");
}

/// A store of hundreds of megabytes would stay, in shared memory perhaps.
#[test]
fn an_experiment_that_is_ended_removes_what_it_wrote() {
    let store = Store::new();
    // At its full size, so that it is under way for as long as nobody ends it.
    let mut child = store.start(&["reproduce", "pm-blade", "loading", "--dir", "."]);
    let mut told = child.stderr.take().unwrap();
    // It says what it does, so it has begun, and listens.
    told.read_exact(&mut [0; 16]).unwrap();
    let pid = child.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(sent.unwrap().success());
    let mut err = String::new();
    told.read_to_string(&mut err).unwrap();
    let ended = child.wait().unwrap();
    assert_eq!(ended.code(), Some(1), "{ended:?}: {err}");
    assert!(err.contains("interrupted: pm-blade loading"), "{err}");
    let mut left = store.names();
    // For results, of which there are none.
    left.retain(|name| name != "reproduced");
    assert_eq!(left, [""; 0]);
}

/// How far an experiment is goes to standard error, which may be closed as standard output may.
#[test]
fn an_experiment_goes_on_though_nobody_hears_how_far_it_is() {
    let store = Store::new();
    let run = store.run_unheard(&["reproduce", "pm-blade", "fig-7a", "--quick", "--dir", "."]);
    assert_eq!(run.code, 0, "{}", run.out);
    let saved = "saved as reproduced/pm-blade-fig-7a.json";
    assert!(run.out.contains(saved), "{}", run.out);
}

#[test]
fn a_range_that_ends_before_it_begins_is_wrong_usage() {
    let store = Store::new();
    let made = store.run(&["create-family", "DB", "down", "--reverse"]);
    assert_eq!(made.code, 0, "{}", made.err);
    for key in ["a", "b", "c"] {
        assert_eq!(store.run(&["put", "DB", key, "1"]).code, 0);
        assert_eq!(store.run(&["put", "DB", key, "1", "--cf", "down"]).code, 0);
    }
    let before = store.run(&["scan", "DB"]).out;
    for (cf, from, to) in [("default", "c", "a"), ("down", "a", "c")] {
        for command in [
            &["scan", "DB"][..],
            &["compact", "DB"],
            &["export", "DB", "x.sst"],
        ] {
            let range = ["--cf", cf, "--from", from, "--to", to];
            let run = store.run(&[command, &range[..]].concat());
            assert_eq!((run.code, run.out.as_str()), (2, ""), "{command:?}");
            for says in [
                &format!("from '{from}' to '{to}'")[..],
                cf,
                "ends before it begins",
            ] {
                assert!(run.is_one_sentence_naming(says), "{command:?}: {}", run.err);
            }
        }
        let run = store.run(&["delete-range", "DB", from, to, "--cf", cf]);
        assert!(
            run.code == 2 && run.is_one_sentence_naming(from),
            "{}",
            run.err
        );
    }
    let hex = ["scan", "DB", "--hex", "--from", "ff", "--to", "00"];
    assert!(store.run(&hex).is_one_sentence_naming("from 'ff' to '00'"));
    assert_eq!(store.run(&["scan", "DB"]).out, before);
    // What ends where it begins, or has nothing of a prefix, is empty, and no mistake.
    for empty in [
        &["scan", "DB", "--from", "b", "--to", "b"][..],
        &["scan", "DB", "--prefix", "a", "--from", "c"],
        &["scan", "DB", "--prefix", "c", "--to", "a"],
        &["scan", "DB", "--prefix", "c", "--from", "a", "--cf", "down"],
    ] {
        let run = store.run(empty);
        assert_eq!(
            (run.code, run.out.as_str()),
            (0, ""),
            "{empty:?}: {}",
            run.err
        );
    }
    assert!(!store.names().contains(&"x.sst".into()));
}

#[test]
fn a_page_is_not_written_through_a_link_or_to_a_device() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "a", "1"]).code, 0);
    store.write("precious", "somebody's");
    let file = |name: &str| store.path().with_file_name(name);
    std::os::unix::fs::symlink(file("precious"), file("link.html")).unwrap();
    std::os::unix::fs::symlink(file("nowhere"), file("dangling.html")).unwrap();
    for name in ["link.html", "dangling.html", "db", "/dev/null"] {
        let run = store.run(&["explain", "DB", "-o", name]);
        assert!(
            run.code == 1 && run.is_one_sentence_naming("not an ordinary file"),
            "{}",
            run.err
        );
    }
    // What cannot be removed is not to be removed.
    store.write("left.html.part", "of a run that was killed");
    for (name, says, remedy) in [
        ("precious/page.html", "precious is no folder", false),
        ("left.html", "left.html", true),
    ] {
        let run = store.run(&["explain", "DB", "-o", name]);
        assert!(
            run.code == 1 && run.is_one_sentence_naming(says),
            "{}",
            run.err
        );
        assert_eq!(run.err.contains("remove it"), remedy, "{}", run.err);
    }
    thermocline_bench::scratch::remove(&file("left.html.part")).unwrap();
    let shown = store.run(&["put", "DB", "p", "--file", "precious"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert_eq!(store.run(&["get", "DB", "p"]).out, "somebody's\n");
    assert!(!store.names().contains(&"nowhere".into()));
    for _ in 0..2 {
        let run = store.run(&["explain", "DB", "-o", "page.html"]);
        assert_eq!(run.code, 0, "{}", run.err);
    }
    let names = store.names();
    assert!(
        !names.iter().any(|name| name.ends_with(".part")),
        "{names:?}"
    );
}

#[test]
fn what_is_not_built_yet_says_what_is_missing() {
    let store = Store::new();
    let run = store.run(&["put", "DB", "k", "v", "--preset", "d-compaction"]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("not supported"), "{}", run.err);
    assert!(run.is_one_sentence_naming(""), "{}", run.err);
}

#[test]
fn help_goes_to_standard_output_with_examples() {
    let store = Store::new();
    for command in [
        "put", "get", "delete", "scan", "load", "stat", "verify", "bench", "tour", "compact",
        "explain", "options", "destroy",
    ] {
        let help = store.run(&[command, "--help"]);
        assert_eq!(help.code, 0);
        let example = format!("thermocline {command}");
        assert!(help.out.contains(&example), "{}", help.out);
    }
    let help = store.run(&["--help"]);
    assert!(help.out.contains("2  wrong usage"), "{}", help.out);
    let version = store.run(&["--version"]);
    assert_eq!(version.code, 0);
    assert!(version.out.starts_with("thermocline "));
}

#[test]
fn a_reader_that_goes_away_ends_a_scan_quietly() {
    let store = Store::new();
    let db = thermocline::Db::open(store.path(), store.options()).unwrap();
    let mut batch = db.batch();
    for i in 0..3000 {
        batch.put(format!("key {i}"), vec![b'v'; 200]);
    }
    batch.commit(thermocline::Durability::Immediate).unwrap();
    db.close().unwrap();
    for arguments in [vec!["scan", "DB"], vec!["scan", "DB", "--json"]] {
        let run = store.run_and_close_early(&arguments);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{arguments:?}");
    }
}

#[test]
fn bench_prints_one_json_object_or_a_table() {
    let store = Store::new();
    let run = store.run(&[
        "bench",
        "readrandom",
        "--num",
        "300",
        "--reads",
        "500",
        "--json",
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    let json = run.json();
    for (field, value) in [
        ("workload", json!("readrandom")),
        ("num", json!(300)),
        ("ops", json!(500)),
        ("found", json!(500)),
        ("key_size", json!(16)),
        ("value_size", json!(100)),
        ("threads", json!(1)),
        ("distribution", json!("uniform")),
        ("durability", json!("immediate")),
        ("emulate", json!("none")),
        ("valid", json!(true)),
    ] {
        assert_eq!(json[field], value, "{field}");
    }
    let mixed = ["bench", "ycsb-a", "--num", "200", "--threads", "2"];
    let json = store.run(&[&mixed[..], &["--json"]].concat()).json();
    assert_eq!(
        (&json["ops"], &json["distribution"]),
        (&json!(200), &json!("zipfian"))
    );
    assert!(json["latency_us"]["update"]["p99"].is_number(), "{json}");
    let table = store.run(&mixed);
    assert!(table.out.contains("read, µs") && table.out.contains("update, µs"));
    assert_eq!(run.out.lines().count(), 1);
    std::fs::DirBuilder::new()
        .create(store.path().with_file_name("pm"))
        .unwrap();
    let table = store.run(&[
        "bench",
        "fillseq",
        "--num",
        "300",
        "--batch",
        "10",
        "--pm-path",
        "pm",
    ]);
    assert_eq!(store.names(), ["pm"]);
    assert_eq!(names(&store.path().with_file_name("pm")), [""; 0]);
    assert_eq!(table.code, 0, "{}", table.err);
    assert!(table.out.contains("per second") && table.out.contains("latency"));
    let overwrite = ["bench", "overwrite", "--num", "200", "--reads", "300"];
    let looked = [&overwrite[..], &["--preload", "--space", "--json"]].concat();
    let json = store.run(&looked).json();
    assert_eq!(json["ops"], json!(300));
    let live = &json["space"]["samples"][0]["live_bytes"];
    assert_eq!(live, &json!(200 * 116), "{json}");
    let device = ["bench", "deviceread", "--num", "1000", "--reads", "50"];
    let json = store.run(&[&device[..], &["--awaited", "--json"]].concat());
    let json = json.json();
    assert_eq!((&json["ops"], &json["found"]), (&json!(50), &json!(null)));
    assert_eq!(json["device"]["read_bytes"], json!(4096), "{json}");
    assert_eq!(json["ssd_bytes_read"], json!(50 * 4096), "{json}");
    let table = store.run(&device);
    assert!(table.out.contains("device alone"), "{}", table.out);
}

#[test]
fn bench_keeps_a_named_database_and_never_overwrites_one() {
    let store = Store::new();
    let fill = [
        "bench",
        "fillrandom",
        "--db",
        "DB",
        "--num",
        "200",
        "--json",
    ];
    let run = store.run(&fill);
    assert_eq!(
        (run.code, &run.json()["ops"]),
        (0, &json!(200)),
        "{}",
        run.err
    );
    let again = store.run(&fill);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("--use-existing"), "{}", again.err);
    let seek = store.run(&[
        "bench",
        "seekrandom",
        "--db",
        "DB",
        "--use-existing",
        "--num",
        "200",
        "--json",
    ]);
    assert_eq!(seek.json()["found"], 200, "{}", seek.err);
    let keys = store.run(&["scan", "DB", "--keys-only", "--hex"]);
    assert_eq!(keys.out.lines().count(), 200);
    let slow = store.run(&[
        "bench",
        "overwrite",
        "--db",
        "DB",
        "--use-existing",
        "--num",
        "20",
        "--emulate",
        "optane",
        "--json",
    ]);
    assert_eq!(slow.json()["emulate"], "optane", "{}", slow.err);
    let stat = store.run(&["stat", "DB", "--json"]).json();
    assert_eq!(stat["emulate"], "none");
    let absent = store.run(&["bench", "readseq", "--db", "other", "--use-existing"]);
    assert_eq!(absent.code, 1, "{}", absent.out);
}

#[test]
fn errors_with_json_leave_standard_output_empty() {
    let store = Store::new();
    let run = store.run(&["stat", "DB", "--json"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
}

#[test]
fn families_are_made_listed_and_dropped() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "k", "v"]).code, 0);
    let list = store.run(&["families", "DB"]);
    assert_eq!(
        (list.code, list.out.as_str()),
        (0, "default\tascending\n"),
        "{}",
        list.err
    );
    let made = store.run(&["create-family", "DB", "log", "--reverse"]);
    assert_eq!((made.code, made.out.as_str()), (0, ""), "{}", made.err);
    let again = store.run(&["create-family", "DB", "log", "--json"]);
    assert_eq!(again.json(), json!({"ok": true}));
    assert_eq!(store.run(&["create-family", "DB", "two\tlines"]).code, 0);
    let wrong = store.run(&["create-family", "DB", "default", "--reverse"]);
    assert_eq!(wrong.code, 1);
    assert!(
        wrong.is_one_sentence_naming("reverse=false"),
        "{}",
        wrong.err
    );
    // What the library sets, the command line shows.
    let db = thermocline::Db::open(store.path(), store.options()).unwrap();
    let log = db.find_column_family("log").unwrap();
    let mut batch = db.batch();
    batch.set_metadata_cf(&log, "offset 17");
    batch.commit(thermocline::Durability::Immediate).unwrap();
    drop((db, log, batch));
    assert_eq!(
        store.run(&["families", "DB"]).out,
        "default\tascending\nlog\tdescending\t9 bytes of metadata\ntwo\\tlines\tascending\n"
    );
    assert_eq!(
        store.run(&["families", "DB", "--json"]).json(),
        json!({"families": [
            {"name": "default", "reverse": false},
            {"name": "log", "reverse": true, "metadata": "offset 17"},
            {"name": "two\tlines", "reverse": false},
        ], "count": 3})
    );
    let stat = store.run(&["stat", "DB"]);
    assert!(stat.out.contains("log (descending)"), "{}", stat.out);

    let dropped = store.run(&["drop-family", "DB", "log"]);
    assert_eq!((dropped.code, dropped.out.as_str()), (0, ""));
    for command in [
        vec!["drop-family", "DB", "log"],
        vec!["scan", "DB", "--cf", "log"],
    ] {
        let run = store.run(&command);
        assert_eq!(run.code, 1, "{command:?}");
        assert!(
            run.is_one_sentence_naming("'log'") && run.err.contains("default"),
            "{command:?}: {}",
            run.err
        );
    }
    let stat = store.run(&["stat", "DB", "--json"]).json();
    assert_eq!(stat["column_families"], json!(["default", "two\tlines"]));
    let run = store.run(&["drop-family", "DB", "default"]);
    assert_eq!(run.code, 1);
    assert!(run.is_one_sentence_naming("'default'"), "{}", run.err);
    assert_eq!(store.run(&["verify", "DB"]).code, 0);
    assert_eq!(store.run(&["drop-family", "DB"]).code, 2);
    // The name is free, and what it had is gone.
    assert_eq!(store.run(&["put", "DB", "new", "1", "--cf", "log"]).code, 0);
    assert_eq!(store.run(&["scan", "DB", "--cf", "log"]).out, "new\t1\n");
    assert_eq!(
        store.run(&["families", "DB"]).out,
        "default\tascending\ntwo\\tlines\tascending\nlog\tascending\n"
    );
}

/// A name may have any characters. As it is, a line's end in it would begin another row, and what a terminal obeys would be obeyed.
#[test]
fn names_of_families_are_escaped_wherever_people_read_them() {
    let store = Store::new();
    let name = "a\tb\nc\u{1b}[31m";
    let put = store.run(&["put", "DB", "k", "v", "--cf", name]);
    assert_eq!(put.code, 0, "{}", put.err);
    assert_eq!(store.run(&["compact", "DB"]).code, 0);
    let says = "a\\tb\\nc\\x1b[31m";
    for command in [
        &["families", "DB"][..],
        &["stat", "DB"],
        &["explain", "DB"],
        &["stat", "DB", "--events"],
    ] {
        let run = store.run(command);
        assert!(
            run.code == 0 && !run.out.contains('\u{1b}'),
            "{command:?}: {}",
            run.out
        );
    }
    for command in ["families", "stat"] {
        assert!(store.run(&[command, "DB"]).out.contains(says), "{command}");
    }
    for command in [
        &["get", "DB", "k", "--cf", "nope"][..],
        &["drop-family", "DB", "nope"],
    ] {
        let run = store.run(command);
        assert!(
            run.code == 1 && run.is_one_sentence_naming(says),
            "{}",
            run.err
        );
    }
    let json = store.run(&["stat", "DB", "--json"]).json();
    assert_eq!(json["column_families"], json!(["default", name]));
}

/// A script reads an error as a line. What was typed is a part of it, and may have any characters.
#[test]
fn an_error_is_one_line_whatever_was_typed() {
    let store = Store::new();
    let name = "a\nb\u{1b}[31m";
    let put = store.run(&["put", "DB", "k", "v", "--cf", name]);
    assert_eq!(put.code, 0, "{}", put.err);
    store.write("a\nfile", "");
    let cases: [(&[&str], i32, &str); 7] = [
        (&["get", name], 2, "<KEY>"),
        (&["scan", "DB", "--limit", name], 2, "--limit"),
        (
            &["scan", "DB", "--cf", name, "--from", "b", "--to", "a"],
            2,
            "ends before it begins",
        ),
        (&["get", "DB", name, "--hex"], 2, "is not hexadecimal"),
        (&["options", name], 2, "there is no option"),
        (&["stat", name], 1, "there is no database"),
        (
            &["explain", "DB", "-o", "a\nfile/page.html"],
            1,
            "is no folder",
        ),
    ];
    for (command, code, says) in cases {
        let run = store.run(command);
        assert_eq!(run.code, code, "{command:?}: {}", run.err);
        assert!(
            run.is_one_sentence_naming(says) && !run.err.contains('\u{1b}'),
            "{command:?}: {:?}",
            run.err
        );
    }
}

#[test]
fn scans_of_a_descending_family_are_in_its_order() {
    let store = Store::new();
    let made = store.run(&["create-family", "DB", "log", "--reverse"]);
    assert_eq!(made.code, 0, "{}", made.err);
    for key in ["a", "b", "b/1", "b/2", "c"] {
        assert_eq!(store.run(&["put", "DB", key, "", "--cf", "log"]).code, 0);
    }
    let keys = |arguments: &[&str]| {
        let all = [&["scan", "DB", "--keys-only", "--cf", "log"], arguments].concat();
        let run = store.run(&all);
        assert_eq!(run.code, 0, "{}", run.err);
        run.out
            .lines()
            .map(str::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(keys(&[]), "c b/2 b/1 b a");
    assert_eq!(keys(&["--reverse"]), "a b b/1 b/2 c");
    assert_eq!(keys(&["--from", "b/1"]), "b/1 b a");
    assert_eq!(keys(&["--to", "b/1"]), "c b/2");
    assert_eq!(keys(&["--from", "c", "--to", "b"]), "c b/2 b/1");
    assert_eq!(keys(&["--prefix", "b"]), "b/2 b/1 b");
    assert_eq!(keys(&["--prefix", "b/", "--reverse"]), "b/1 b/2");
    assert_eq!(keys(&["--prefix", "b", "--from", "b/1"]), "b/1 b");
    assert_eq!(keys(&["--prefix", "b", "--from", "x"]), "b/2 b/1 b");
    assert_eq!(keys(&["--prefix", "b", "--to", "b"]), "b/2 b/1");
    assert_eq!(keys(&["--prefix", "b", "--to", "b/1"]), "b/2");
    assert_eq!(keys(&["--prefix", "b", "--to", "a"]), "b/2 b/1 b");
    assert_eq!(keys(&["--limit", "2"]), "c b/2");
}

/// The system says of it that it is a folder, which it is not.
#[test]
fn a_folder_for_regions_that_is_not_there_is_named() {
    let store = Store::new();
    let run = store.run(&["put", "DB", "k", "v", "--pm-path", "none/"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{}", run.err);
    assert!(
        run.is_one_sentence_naming("there is no folder /"),
        "{}",
        run.err
    );
    assert!(
        run.is_one_sentence_naming("/none/ to make a region in"),
        "{}",
        run.err
    );
    // It is made, or another place is chosen.
    let run = store.run(&["put", "DB", "k", "v", "--pm-path", "none"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(store.run(&["get", "DB", "k"]).out, "v\n");
}

#[test]
fn a_file_in_the_way_of_a_folder_is_called_one() {
    let store = Store::new();
    store.write("afile", "");
    let run = store.run(&["put", "afile/sub", "k", "v"]);
    assert_eq!(run.code, 1, "{}", run.err);
    let says = "cannot create folder afile: it is a file, not a folder";
    assert!(run.is_one_sentence_naming(says), "{}", run.err);
}
