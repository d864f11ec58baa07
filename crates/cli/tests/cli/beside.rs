//! Commands that read, beside a process that writes: this one.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout};

use thermocline::{Db, Options};

use crate::support::Store;

fn writer(store: &Store) -> Db {
    let mut options = store.options();
    options.pm = 8 << 20;
    options.pm_region.part_bytes_first = 1 << 20;
    Db::open(store.path(), options).unwrap()
}

#[test]
fn what_is_written_so_far_is_read() {
    let store = Store::new();
    let db = writer(&store);
    let mut written = Vec::new();
    for round in 0..6 {
        for n in 0..400 {
            let key = format!("key {round} {n:03}");
            db.put(&key, "v".repeat(n)).unwrap();
            written.push(key);
        }
        match round {
            1 => db.flush().unwrap(),
            3 => db.compact::<&str>(..).unwrap(),
            _ => {}
        }
        let scanned = store.run(&["scan", "DB", "--keys-only"]);
        assert!(scanned.code == 0, "{}", scanned.err);
        assert!(scanned.out.lines().eq(&written), "round {round}");
        let key = format!("key {round} 399");
        assert_eq!(
            store.run(&["get", "DB", &key]).out.trim_end(),
            "v".repeat(399)
        );
        let stat = store.run(&["stat", "DB", "--json"]).json();
        assert_eq!(stat["seqno_visible"], written.len());
        // What is read is a copy, in other memory than the writer's region.
        assert!(stat["pm_huge_bytes"].is_null(), "{stat}");
        let verified = store.run(&["verify", "DB", "--json"]).json();
        assert_eq!(verified["sound"], true, "{verified}");
        for command in [&["explain", "DB"][..], &["stat", "DB", "--events"]] {
            let run = store.run(command);
            assert_eq!((run.code, run.err.as_str()), (0, ""), "{command:?}");
        }
    }
    let missing = store.run(&["get", "DB", "none"]);
    assert_eq!(missing.code, 1);
    // Nobody was in the writer's way.
    db.put("k", "v").unwrap();
    db.close().unwrap();
}

#[test]
fn what_is_written_so_far_is_backed_up() {
    let store = Store::new();
    let db = writer(&store);
    db.put("a", "flushed").unwrap();
    db.flush().unwrap();
    db.put("b", "not yet").unwrap();
    let backup = || {
        let run = store.run(&["backup", "DB", "backups", "--json"]);
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        run.json()
    };
    assert_eq!(backup()["backup"], 1);
    // Nobody was in the writer's way.
    db.put("c", "later").unwrap();
    let second = backup();
    assert_eq!(second["seqno"], db.metrics().seqno_visible);
    db.close().unwrap();
    // Nor does it wait for who reads.
    let reader = Options {
        read_only: true,
        ..store.options()
    };
    let reader = Db::open(store.path(), reader).unwrap();
    assert_eq!(backup()["backup"], 3);
    drop(reader);
    for (id, has) in [
        ("1", "a\tflushed\nb\tnot yet\n"),
        ("2", "a\tflushed\nb\tnot yet\nc\tlater\n"),
        ("3", "a\tflushed\nb\tnot yet\nc\tlater\n"),
    ] {
        let made = store.run(&["restore", "backups", id, "--backup", id]);
        assert_eq!(made.code, 0, "{}", made.err);
        assert_eq!(store.run(&["scan", id]).out, has);
    }
    assert_eq!(store.run(&["backups", "backups", "--verify"]).code, 0);
}

/// What `stat --watch` prints.
struct Watched {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watched {
    fn start(store: &Store) -> Watched {
        let mut child = store.start(&["stat", "DB", "--watch=0.1"]);
        let out = child.stdout.take().unwrap();
        Watched {
            child,
            lines: BufReader::new(out).lines(),
        }
    }

    /// Waits for a line that begins so.
    fn wait_for(&mut self, beginning: &str) -> String {
        let begins = |line: &String| line.trim_start().starts_with(beginning);
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        lines.find(begins).expect("it goes on")
    }
}

#[test]
fn stat_watches_until_nobody_reads_it() {
    let store = Store::new();
    drop(writer(&store));
    let mut watched = Watched::start(&store);
    watched.wait_for("sequence numbers");
    // It keeps no writer out, and shows what each has written.
    for round in 0..5 {
        let db = writer(&store);
        let before: u64 = db.metrics().seqno_visible;
        db.put(format!("{round}"), "v").unwrap();
        let after = db.metrics().seqno_visible;
        assert!(after > before);
        let shown = format!("{after} visible");
        while !watched.wait_for("sequence numbers").contains(&shown) {}
        watched.wait_for("Since the look before: ");
        db.close().unwrap();
    }
    drop(watched.lines);
    assert!(watched.child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_watched_is_wrong_usage() {
    let store = Store::new();
    store.run(&["put", "DB", "k", "v"]);
    for (watch, says) in [
        (&["--watch=0"][..], "from 0.1 to 86400"),
        (&["--watch=often"], "from 0.1 to 86400"),
        (&["--watch", "--json"], "--watch has no end"),
    ] {
        let run = store.run(&[&["stat", "DB"], watch].concat());
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{watch:?}");
        assert!(run.err.contains(says), "{watch:?}: {}", run.err);
    }
    let none = store.run(&["stat", "nothing", "--watch"]);
    assert_eq!(none.code, 1);
}
