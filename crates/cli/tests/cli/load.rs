//! `load`: formats, keys, bad lines.

use std::io::Write;

use crate::support::Store;
use serde_json::json;

const CITIES: &str = "id,name,cc\n1,Zurich,CH\n2,\"Bern, the capital\",CH\n3,Oslo,NO\n";

#[test]
fn csv_rows_become_json_objects() {
    let store = Store::new();
    store.write("cities.csv", CITIES);
    let run = store.run(&["load", "DB", "cities.csv", "--key", "id"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.starts_with("3 rows loaded"), "{}", run.out);
    assert_eq!(
        store.run(&["get", "DB", "2"]).out,
        "{\"id\":\"2\",\"name\":\"Bern, the capital\",\"cc\":\"CH\"}\n"
    );
    let again = store.run(&["load", "DB", "cities.csv", "--key", "id", "--json"]);
    let json = again.json();
    assert_eq!((&json["loaded"], &json["skipped"]), (&json!(3), &json!(0)));
    assert_eq!(store.run(&["scan", "DB", "--keys-only"]).out, "1\n2\n3\n");
}

#[test]
fn several_columns_make_one_key_in_a_family_of_its_own() {
    let store = Store::new();
    store.write("cities.csv", CITIES);
    let run = store.run(&[
        "load",
        "DB",
        "cities.csv",
        "--key",
        "cc",
        "--key",
        "id",
        "--cf",
        "cities",
        "--quiet",
    ]);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    let keys = store.run(&["scan", "DB", "--keys-only", "--cf", "cities"]);
    assert_eq!(keys.out, "CH/1\nCH/2\nNO/3\n");
    assert_eq!(store.run(&["scan", "DB"]).out, "");
}

#[test]
fn tsv_and_json_lines() {
    let store = Store::new();
    store.write("a.tsv", "k\tv\nx\t\"1\n");
    store.write("b.jsonl", "{\"k\": 7, \"v\": [1.50]}\n\n{\"k\":\"y\"}\n");
    store.write("c.txt", "k\tv\nz\t2\n");
    assert_eq!(store.run(&["load", "DB", "a.tsv", "--key", "k"]).code, 0);
    assert_eq!(store.run(&["load", "DB", "b.jsonl", "--key", "k"]).code, 0);
    let run = store.run(&["load", "DB", "c.txt", "--key", "k", "--format", "tsv"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(
        store.run(&["scan", "DB"]).out,
        "7\t{\"k\": 7, \"v\": [1.50]}\nx\t{\"k\":\"x\",\"v\":\"\\\\\"1\"}\n\
         y\t{\"k\":\"y\"}\nz\t{\"k\":\"z\",\"v\":\"2\"}\n"
    );
}

#[test]
fn a_bad_line_is_named_and_nothing_after_it_is_loaded() {
    let store = Store::new();
    store.write("bad.csv", "id,name\r\n1,a\r\n\r\n2,b\r\n3\r\n4,d\r\n");
    let run = store.run(&["load", "DB", "bad.csv", "--key", "id"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    for word in [
        "bad.csv line 5",
        "1 field,",
        "2 columns",
        "2 rows before it",
        "--skip-bad",
    ] {
        assert!(run.err.contains(word), "no '{word}' in {}", run.err);
    }
    assert_eq!(store.run(&["scan", "DB", "--keys-only"]).out, "1\n2\n");
    let run = store.run(&[
        "load",
        "DB",
        "bad.csv",
        "--key",
        "id",
        "--skip-bad",
        "--json",
    ]);
    assert_eq!(run.code, 0);
    assert!(run.err.contains("line 5"), "{}", run.err);
    let json = run.json();
    assert_eq!((&json["loaded"], &json["skipped"]), (&json!(3), &json!(1)));
    assert_eq!(store.run(&["scan", "DB", "--keys-only"]).out, "1\n2\n4\n");
}

#[test]
fn the_rows_before_a_bad_line_are_counted_exactly() {
    let store = Store::new();
    let mut text = String::from("id,v\n");
    for i in 0..2345 {
        text.push_str(&format!("{i:06},x\n"));
    }
    text.push_str("bad\n9,x\n");
    store.write("many.csv", text);
    let run = store.run(&["load", "DB", "many.csv", "--key", "id"]);
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains("line 2347") && run.err.contains("2,345 rows"),
        "{}",
        run.err
    );
    assert_eq!(
        store
            .run(&["scan", "DB", "--keys-only"])
            .out
            .lines()
            .count(),
        2345
    );
}

#[test]
fn many_bad_rows_are_named_only_at_first() {
    let store = Store::new();
    store.write("bad.jsonl", "nonsense\n".repeat(50));
    let run = store.run(&["load", "DB", "bad.jsonl", "--key", "k", "--skip-bad"]);
    assert_eq!(run.code, 0);
    assert_eq!(run.err.lines().count(), 11, "{}", run.err);
    assert!(run.out.contains("50 bad ones left out"), "{}", run.out);
}

#[test]
fn rows_past_a_limit_are_bad_rows() {
    let store = Store::new();
    let long = "x".repeat(70_000);
    let big = "y".repeat(2 << 20);
    store.write("limits.csv", format!("k,v\na,1\n{long},2\nb,{big}\nc,3\n"));
    let run = store.run(&["load", "DB", "limits.csv", "--key", "k"]);
    assert!(
        run.err.contains("line 3") && run.err.contains("65535"),
        "{}",
        run.err
    );
    let run = store.run(&["load", "DB", "limits.csv", "--key", "k", "--skip-bad"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(!run.err.contains("line 4"), "{}", run.err);
    assert_eq!(store.run(&["scan", "DB", "--keys-only"]).out, "a\nb\nc\n");
}

#[test]
fn files_that_cannot_be_loaded_make_no_database() {
    let store = Store::new();
    store.write("good.csv", "k,v\n");
    store.write("empty.csv", "");
    store.write("twice.csv", "k,k\n1,2\n");
    std::fs::DirBuilder::new()
        .create(store.path().with_file_name("folder.csv"))
        .unwrap();
    for (file, key, says) in [
        ("absent.csv", "k", "absent.csv"),
        ("empty.csv", "k", "name the columns"),
        ("twice.csv", "k", "twice"),
        ("good.csv", "key", "its columns are k, v"),
        ("folder.csv", "k", "folder"),
    ] {
        let run = store.run(&["load", "DB", file, "--key", key]);
        assert_eq!(run.code, 1, "{file}");
        assert!(run.is_one_sentence_naming(says), "{file}: {}", run.err);
        assert!(!store.path().exists(), "{file}");
    }
    let run = store.run(&["load", "DB", "good.csv", "--key", "k"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.starts_with("0 rows"), "{}", run.out);
}

#[test]
fn a_full_region_says_how_many_rows_are_there() {
    let store = Store::new();
    let mut text = String::from("id,v\n");
    let value = "x".repeat(1000);
    for i in 0..20_000 {
        text.push_str(&format!("{i:06},{value}\n"));
    }
    store.write("big.csv", text);
    let mut args = vec!["load", "DB", "big.csv", "--key", "id", "--pm", "4MiB"];
    args.extend(["--set", "flush.automatic=false"]);
    let run = store.run(&args);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.is_one_sentence_naming("out of space"), "{}", run.err);
    let said: usize = run
        .err
        .split_once("loaded before that: ")
        .and_then(|(_, rest)| rest.split_once(" rows of big.csv"))
        .and_then(|(count, _)| count.replace(',', "").parse().ok())
        .unwrap_or_else(|| panic!("{}", run.err));
    let scan = store.run(&["scan", "DB", "--keys-only"]);
    assert_eq!(
        (scan.code, scan.out.lines().count()),
        (0, said),
        "{}",
        scan.err
    );
    assert!(said > 0);
}

#[test]
fn a_quote_that_is_never_closed_ends_the_load() {
    let store = Store::new();
    let mut text = String::from("id,name\n1,a\n2,\"b\n");
    for n in 3..20_000 {
        text.push_str(&format!("{n},row {n}\n"));
    }
    store.write("a.csv", &text);
    for more in [&[][..], &["--skip-bad"]] {
        let load = [&["load", "DB", "a.csv", "--key", "id"][..], more].concat();
        let run = store.run(&load);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{more:?}");
        for says in [
            "a.csv line 3",
            "never closed",
            "19,997 more lines",
            "1 row before it",
        ] {
            assert!(run.is_one_sentence_naming(says), "{more:?}: {}", run.err);
        }
        assert_eq!(store.run(&["scan", "DB", "--keys-only"]).out, "1\n");
    }
    store.write("head.csv", "id,\"name\n1,a\n");
    let run = store.run(&["load", "DB", "head.csv", "--key", "id"]);
    assert!(
        run.code == 1 && run.is_one_sentence_naming("first line"),
        "{}",
        run.err
    );
}

/// A row that is loaded, and one that is left out.
const LINES: [&str; 2] = ["good,x\n", "bad\n"];

/// The signals by which others than its user end a process, while rows are loaded and while all are left out.
#[test]
fn a_load_that_is_told_to_end_does_so_in_order() {
    for (signal, line) in [
        ("-TERM", LINES[0]),
        ("-HUP", LINES[0]),
        ("-INT", LINES[0]),
        ("-TERM", LINES[1]),
    ] {
        let store = Store::new();
        let format = ["--format", "csv", "--key", "id", "--skip-bad"];
        let load = [&["load", "DB", "/dev/stdin"][..], &format].concat();
        let mut child = store.start(&load);
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"id,name\n").unwrap();
        let thousand = line.repeat(1000);
        let mut feed = || input.write_all(thousand.as_bytes());
        // It reads, so it has begun, and listens.
        for _ in 0..200 {
            feed().unwrap();
        }
        let pid = child.id().to_string();
        let sent = std::process::Command::new("kill")
            .args([signal, &pid])
            .status();
        assert!(sent.unwrap().success());
        // On and on, until nobody reads any more; or for very long.
        let unread = (0..100_000).any(|_| feed().is_err());
        drop(input);
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(unread, "{signal} {line}: {err}");
        assert_eq!(
            output.status.code(),
            Some(1),
            "{signal} {line}: {:?} {err}",
            output.status
        );
        assert!(
            err.contains("interrupted; loaded so far"),
            "{signal} {line}: {err}"
        );
        assert_eq!(store.run(&["verify", "DB"]).code, 0);
    }
}

/// It has more rows than pipe and program have room for, so all but the last of them are loaded when it is told to end, and
/// nothing more comes: without an end of its own it would wait for ever.
#[test]
fn a_load_that_waits_for_a_pipe_ends_in_order_when_it_is_told_to() {
    let store = Store::new();
    let load = ["load", "DB", "/dev/stdin", "--format", "csv", "--key", "id"];
    let mut child = store.start(&load);
    let mut input = child.stdin.take().unwrap();
    let mut text = String::from("id,name\n");
    let name = "x".repeat(60);
    for id in 0..20_500 {
        text.push_str(&format!("{id:06},{name}\n"));
    }
    input.write_all(text.as_bytes()).unwrap();
    let pid = child.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(sent.unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(input);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    let said: Option<usize> = err
        .trim_end()
        .strip_prefix("interrupted; loaded so far: ")
        .and_then(|rest| rest.strip_suffix(" rows of /dev/stdin"))
        .and_then(|count| count.replace(',', "").parse().ok());
    let keys = store.run(&["scan", "DB", "--keys-only"]).out;
    assert_eq!(said, Some(keys.lines().count()), "{err}");
}
