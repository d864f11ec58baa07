//! The tour: it succeeds, says what it measured and leaves nothing behind unless told to.
//!
//! Tests run in the order of their names; these take longest, and their module's name has them begin first.

use std::io::Read;
use std::process::Command;

use thermocline_testkit::explore::times;

use crate::support::{Store, names};

/// The long explorations have it: a plain run sees the tour that is kept.
#[test]
fn the_tour_leaves_nothing_behind() {
    if times().is_none() {
        return;
    }
    let store = Store::new();
    for folder in ["db", "pm"] {
        let path = store.path().with_file_name(folder);
        std::fs::DirBuilder::new().create(path).unwrap();
    }
    // An empty folder is used and stays; the region lies elsewhere and goes.
    let run = store.run(&["tour", "--quiet", "--db", "DB", "--pm-path", "pm"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("acknowledged records lost"), "{}", run.out);
    assert_eq!(store.names(), ["db", "pm"]);
    for folder in ["db", "pm"] {
        let path = store.path().with_file_name(folder);
        assert_eq!(names(&path), [""; 0], "{folder}");
    }
}

/// A tour that took the name of its memory for that of a file would remove the user's folder.
#[test]
fn the_tour_of_a_store_with_logs_removes_them_and_nothing_of_anybody_else() {
    if times().is_none() {
        return;
    }
    let store = Store::new();
    let place = |name: &str| store.path().with_file_name(name);
    for folder in ["dram", "logs"] {
        std::fs::DirBuilder::new().create(place(folder)).unwrap();
    }
    store.write("dram/precious", "somebody's");
    store.write("logs/other.log", "somebody's");
    let tour = ["tour", "--quiet", "--db", "DB", "--preset", "leveled"];
    let run = store.run(&[&tour[..], &["--wal-path", "logs"]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(store.names(), ["dram", "logs"]);
    assert_eq!(names(&place("dram")), ["precious"]);
    assert_eq!(names(&place("logs")), ["other.log"]);
}

/// Its folder is named, so it does not go by itself, as a temporary one does.
#[test]
fn a_tour_that_is_ended_removes_what_it_wrote_unless_it_is_to_be_kept() {
    for (keep, says, left) in [
        (vec![], "what it wrote was removed", vec![]),
        (vec!["--keep"], "what it wrote is in db", vec!["db"]),
    ] {
        let store = Store::new();
        let mut child = store.start(&[&["tour", "--db", "DB"][..], &keep[..]].concat());
        let mut out = child.stdout.take().unwrap();
        // It tells something, so it has begun, and listens.
        out.read_exact(&mut [0; 16]).unwrap();
        let pid = child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status();
        assert!(sent.unwrap().success());
        out.read_to_end(&mut Vec::new()).unwrap();
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{keep:?}: {err}");
        let told = format!("the tour was interrupted; {says}");
        assert!(err.contains(&told), "{keep:?}: {err}");
        assert_eq!(store.names(), left, "{keep:?}");
    }
    // Nobody reads of it, either.
    let store = Store::new();
    let run = store.run_and_close_early(&["tour", "--db", "DB"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(store.names(), [""; 0]);
}

#[test]
fn a_tour_succeeds_what_is_kept_is_a_database_and_a_full_folder_is_refused() {
    let store = Store::new();
    let run = store.run(&["tour", "--keep", "--db", "DB", "--json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let json = run.json();
    assert_eq!(json["records_lost"], 0);
    assert_eq!(json["faults"], 0);
    assert_eq!(json["kept_in"], "db");
    let hits = |place: &str| json[format!("tiers_hits_{place}")].as_u64().unwrap();
    assert!(hits("memtable") > 0, "{json}");
    assert!(hits("block_cache") + hits("ssd") > 0, "{json}");
    // Each read was found somewhere, and it is told where.
    let places = ["memtable", "global_index", "pm_table", "block_cache", "ssd"];
    assert_eq!(json["tiers_gets"], places.map(hits).iter().sum::<u64>());
    assert!(json["records_acknowledged"].as_u64().is_some_and(|n| n > 0));
    assert_eq!(store.names(), ["db"]);
    assert_eq!(store.run(&["verify", "DB"]).code, 0);
    let paris = store.run(&["get", "DB", "name/FR/Paris/00"]);
    assert!(paris.out.contains("\"cc\":\"FR\""), "{}", paris.out);
    let before = names(&store.path());
    let again = store.run(&["tour", "--db", "DB"]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("not empty"), "{}", again.err);
    assert_eq!(names(&store.path()), before);
}
