//! The tour: it succeeds, says what it measured and leaves nothing behind unless told to.
//!
//! Tests run in the order of their names; these take longest, and their module's name has them begin first.

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

#[test]
fn a_tour_succeeds_what_is_kept_is_a_database_and_a_full_folder_is_refused() {
    let store = Store::new();
    let run = store.run(&["tour", "--keep", "--db", "DB", "--json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let json = run.json();
    assert_eq!(json["records_lost"], 0);
    assert_eq!(json["faults"], 0);
    let hits = |place: &str| json[format!("tiers_hits_{place}")].as_u64().unwrap();
    assert!(hits("memtable") > 0, "{json}");
    assert!(hits("block_cache") + hits("ssd") > 0, "{json}");
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
