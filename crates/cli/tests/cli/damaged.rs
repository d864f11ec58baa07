//! A damaged manifest: what `verify` reports, and that whoever writes to a database beside is not taken for damage. And that who
//! fails does so though nobody reads the output.

use serde_json::json;

use crate::support::{Store, names};

/// A database whose `CURRENT`, or whose manifest, is damaged.
fn damaged() -> [(Store, String); 2] {
    let made = || {
        let store = Store::new();
        assert_eq!(store.run(&["put", "DB", "k", "v"]).code, 0);
        store
    };
    let (current, manifest) = (made(), made());
    current.write("db/CURRENT", "neither a name nor a checksum\n");
    let files = names(&manifest.path());
    let name = files.iter().find(|name| name.starts_with("MANIFEST"));
    let name = name.unwrap().clone();
    manifest.write(&format!("db/{name}"), [0xff_u8; 4096]);
    [(current, "CURRENT".into()), (manifest, name)]
}

#[test]
fn verify_reports_a_manifest_that_is_damaged() {
    for (store, file) in damaged() {
        let json = store.run(&["verify", "DB", "--json"]);
        assert_eq!(json.code, 1, "{file}: {}", json.err);
        let report = json.json();
        assert_eq!(report["sound"], json!(false), "{file}: {report}");
        let place = report["faults"][0]["place"].as_str().unwrap();
        assert!(place.contains(&file), "{file}: {report}");
        let text = store.run(&["verify", "DB", "--pm", "64MiB"]);
        assert_eq!(text.code, 1, "{file}: {}", text.err);
        assert!(text.out.contains(&file), "{file}: {}", text.out);
        assert!(text.is_one_sentence_naming("1 fault"), "{}", text.err);
        // Whoever reads it is told of the damage, as before.
        let stat = store.run(&["stat", "DB"]);
        assert_eq!(stat.code, 1, "{file}");
        assert!(stat.is_one_sentence_naming("corruption"), "{}", stat.err);
    }
}

/// Whoever opens the database hears which file it is, and in which folder; the manifest is whole.
#[test]
fn a_table_that_is_missing_is_named() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "k", "v"]).code, 0);
    assert_eq!(store.run(&["compact", "DB"]).code, 0);
    let files = names(&store.path());
    let table = files.iter().find(|name| name.ends_with(".sst")).unwrap();
    thermocline_bench::scratch::remove(&store.path().join(table)).unwrap();
    for command in [
        &["stat", "DB"][..],
        &["get", "DB", "k"],
        &["put", "DB", "k", "w"],
    ] {
        let run = store.run(command);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{command:?}");
        let says = format!("db/{table} at offset 0: a file that the manifest names is missing");
        assert!(run.is_one_sentence_naming(&says), "{}", run.err);
    }
    let report = store.run(&["verify", "DB", "--json"]).json();
    let place = report["faults"][0]["place"].as_str().unwrap();
    assert!(place.ends_with(table.as_str()), "{report}");
}

/// Two looks have found the same, so it is no exchange beside.
#[test]
fn what_stays_damaged_beside_a_writer_is_told() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "k", "v"]).code, 0);
    let held = thermocline::Db::open(store.path(), store.options()).unwrap();
    store.write("db/CURRENT", "half of it");
    for command in [
        &["stat", "DB"][..],
        &["get", "DB", "k"],
        &["put", "DB", "k", "w"],
    ] {
        let run = store.run(command);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{command:?}");
        assert!(
            run.is_one_sentence_naming("CURRENT at offset 0"),
            "{}",
            run.err
        );
    }
    let run = store.run(&["verify", "DB"]);
    assert_eq!(run.code, 1);
    assert!(run.out.contains("CURRENT at offset 0"), "{}", run.out);
    drop(held);
}

/// As with `thermocline verify DB | head -1` in a script that looks at the exit codes of both.
#[test]
fn what_is_damaged_or_not_found_is_a_failure_though_nobody_reads_of_it() {
    let store = Store::new();
    assert_eq!(store.run(&["put", "DB", "k", "v"]).code, 0);
    assert_eq!(store.run(&["backup", "DB", "backups"]).code, 0);
    let is_failure = |command: &[&str], says: &str| {
        let run = store.run_unread(command);
        assert_eq!(run.code, 1, "{command:?}: {}", run.err);
        assert!(run.err.contains(says), "{command:?}: {}", run.err);
    };
    is_failure(&["get", "DB", "none", "--json"], "");
    let files = names(&store.path().with_file_name("backups"));
    let table = files.iter().find(|name| name.ends_with(".sst")).unwrap();
    store.flip(&format!("backups/{table}"), b"THCLTABL");
    is_failure(&["backups", "backups", "--verify"], "1 fault");
    is_failure(&["backups", "backups", "--verify", "--json"], "1 fault");
    store.write("db/CURRENT", "neither a name nor a checksum\n");
    is_failure(&["verify", "DB"], "1 fault");
    is_failure(&["verify", "DB", "--json"], "1 fault");
    // What has not failed ends quietly, as before.
    let quiet = store.run_unread(&["options", "--json"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
}

/// Also of a script that keeps what the program says of itself.
#[test]
fn what_cannot_be_written_is_a_failure() {
    let store = Store::new();
    for command in [
        &["options"][..],
        &["--version"],
        &["--help"],
        &["help", "put"],
    ] {
        let run = store.run_full(command);
        assert_eq!(run.code, 1, "{command:?}: {}", run.err);
        assert!(
            run.is_one_sentence_naming("cannot write to standard output"),
            "{command:?}: {}",
            run.err
        );
        let unread = store.run_unread(command);
        assert_eq!((unread.code, unread.err.as_str()), (0, ""), "{command:?}");
    }
}
