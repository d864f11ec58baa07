//! `bench suite`, from outside.

use serde_json::Value;

use crate::support::Store;

/// So small that numbers mean nothing.
const SMALL: [&str; 6] = ["--pm", "2MiB", "--dram", "8MiB", "--rounds", "2"];

fn suite(store: &Store, arguments: &[&str]) -> crate::support::Run {
    store.run(&[&["bench", "suite"], arguments].concat())
}

#[test]
fn cells_run_with_every_preset_and_leave_nothing_behind() {
    let store = Store::new();
    let chosen = ["--cells", "put-pm,ycsb-a-5x,put-file", "--db", "."];
    let run = suite(&store, &[&chosen[..], &SMALL, &["--json"]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let found = run.json();
    assert_eq!(found["rounds"], 2);
    assert_eq!(found["interrupted"], false);
    let cells = found["cells"].as_array().unwrap();
    let names: Vec<_> = cells
        .iter()
        .map(|cell| cell["cell"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["put-pm", "ycsb-a-5x", "put-file"]);
    // Each was told when it was done.
    let told: Vec<_> = run.err.lines().collect();
    assert_eq!(told.len(), names.len(), "{}", run.err);
    for (line, name) in told.iter().zip(&names) {
        assert!(line.starts_with(&format!("{name}: thermocline ")), "{line}");
        assert!(line.contains("pm-blade "), "{line}");
    }
    for cell in cells {
        let rivals = cell["rivals"].as_array().unwrap();
        let sides: Vec<&Value> = [&cell["ours"]].into_iter().chain(rivals).collect();
        let presets: Vec<_> = sides
            .iter()
            .map(|side| side["preset"].as_str().unwrap())
            .collect();
        assert_eq!(
            presets,
            [
                "thermocline",
                "global-index",
                "leveled",
                "pm-blade",
                "flat-lsm"
            ]
        );
        for side in &sides {
            let rates = side["ops_per_sec"].as_array().unwrap();
            assert_eq!(rates.len(), 2);
            assert!(rates.iter().all(|rate| rate.as_f64().unwrap() > 0.0));
            assert!(side["ssd_bytes_a_byte"].is_number(), "{side:#}");
        }
        let median = |side: &Value| side["ops_per_sec_median"].as_f64().unwrap();
        let best = rivals.iter().max_by(|a, b| median(a).total_cmp(&median(b)));
        assert_eq!(cell["best_rival"], best.unwrap()["preset"]);
        let [low, high] = [0, 1].map(|end| cell["ratio"]["interval"][end].as_f64().unwrap());
        let mean = cell["ratio"]["mean"].as_f64().unwrap();
        assert!(low <= mean && mean <= high);
        assert_eq!(cell["passes"], high >= 0.95);
    }
    assert!(store.names().is_empty(), "{:?}", store.names());
}

#[test]
fn a_table_for_people_and_one_for_notes() {
    let store = Store::new();
    let once = [&SMALL[..5], &["1"]].concat();
    let one = [&["--cells", "get-pm", "--pm-path", "."], &once[..]].concat();
    let run = suite(&store, &one);
    assert_eq!(run.code, 0, "{}", run.err);
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", run.out);
    assert!(lines[1].contains("pm-blade") && lines[2].starts_with("> get-pm"));
    assert!(run.err.starts_with("get-pm: "), "{}", run.err);
    let run = suite(&store, &[&one[..], &["--markdown", "--quiet"]].concat());
    assert_eq!(run.err, "");
    assert!(run.out.contains("| **get-pm** | **"), "{}", run.out);
    assert!(store.names().is_empty(), "{:?}", store.names());
}

#[test]
fn the_command_of_a_cell_runs_it() {
    let store = Store::new();
    let run = suite(
        &store,
        &[&["--list", "--json", "--pm-path", "."], &SMALL[..]].concat(),
    );
    let all = run.json();
    assert_eq!(all.as_array().unwrap().len(), 12);
    for name in ["ycsb-e-2.5x", "load-5x"] {
        let mut cells = all.as_array().unwrap().iter();
        let cell = cells.find(|cell| cell["cell"] == name).unwrap();
        let command = cell["command"].as_str().unwrap();
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let report = store.run(&[&words[..], &["--json"]].concat());
        assert_eq!(report.code, 0, "{command}: {}", report.err);
        let report = report.json();
        assert_eq!(report["value_size"], 1024);
        assert_eq!(report["drained"]["waited"], name == "load-5x");
    }
    let full = suite(&store, &["--list", "--full"]);
    assert_eq!(full.code, 0, "{}", full.err);
    assert_eq!(full.out.matches("ycsb-").count(), 120, "{}", full.out);
    assert!(full.out.contains("ycsb-e-16x-uniform"));
    assert!(store.names().is_empty(), "{:?}", store.names());
}

#[test]
fn counts_are_the_same_every_time() {
    let store = Store::new();
    let counted = || {
        let run = suite(&store, &["--counts", "--cells", "put-100,get-pm", "--json"]);
        assert_eq!(run.code, 0, "{}", run.err);
        let mut counts = run.json();
        for cell in counts["cells"].as_array_mut().unwrap() {
            // What processors count differs a little from run to run.
            cell.as_object_mut().unwrap().remove("instructions");
        }
        counts
    };
    let once = counted();
    assert_eq!(once, counted());
    assert_eq!(once["cells"][0]["cell"], "put-100");
    assert_eq!(once["cells"][0]["user_bytes"], 116.0);
    assert!(once["cells"][0]["pm_bytes"].as_f64().unwrap() > 116.0);
    assert_eq!(once["cells"][1]["pm_bytes"], 0.0);
    let table = suite(&store, &["--counts", "--cells", "put-100"]);
    assert!(table.out.contains("fences") && table.out.contains("put-100"));
    assert!(store.names().is_empty(), "{:?}", store.names());
}

#[test]
fn wrong_arguments_are_named() {
    let store = Store::new();
    let cases: [(&[&str], &str); 22] = [
        (&["suite", "--cells", "ycsb-a"], "'ycsb-a'"),
        (&["suite", "--full", "--cells", "put-pm"], "'put-pm'"),
        (&["suite", "--rounds", "0"], "rounds lies between 1 and 100"),
        (&["suite", "--rounds", "101"], "101"),
        (&["suite", "--num", "7"], "--num"),
        (&["suite", "--preset", "leveled"], "--preset"),
        (&["suite", "--sets", "2"], "--sets"),
        (&["suite", "--pm", "1KiB"], "pm lies between"),
        (&["suite", "--counts", "--full"], "--full"),
        (&["suite", "--counts", "--cells", "put-file"], "'put-file'"),
        (
            &["ycsb-a", "--rounds", "2"],
            "--rounds is an option of suite",
        ),
        (&["fillseq", "--settle"], "settle"),
        (&["fillseq", "--preload"], "preload"),
        (&["suite", "--preload"], "--preload"),
        (&["suite", "--space"], "--space"),
        (&["tpcc", "--space"], "--space"),
        (&["suite", "--awaited"], "--awaited"),
        (&["tpcc", "--awaited"], "--awaited"),
        (&["fillseq", "--awaited"], "leave awaited out"),
        (&["deviceread", "--batch", "2"], "leave batch out"),
        (&["deviceread", "--space"], "leave space out"),
        (&["deviceread", "--use-existing"], "--db"),
    ];
    for (arguments, word) in cases {
        let run = store.run(&[&["bench"], arguments].concat());
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.err);
        assert!(
            run.is_one_sentence_naming(word),
            "{arguments:?}: {}",
            run.err
        );
    }
}

/// What is typed is right, and it works once the folder is there.
#[test]
fn a_folder_that_is_not_there_is_no_wrong_usage() {
    let store = Store::new();
    let cases: [&[&str]; 6] = [
        &["bench", "suite", "--db", "nowhere"],
        &["bench", "suite", "--pm-path", "nowhere"],
        &["bench", "suite", "--list", "--db", "nowhere"],
        &["bench", "suite", "--counts", "--db", "nowhere"],
        &["reproduce", "pm-blade", "fig-6", "--dir", "nowhere"],
        &["reproduce", "pm-blade", "fig-6", "--pm-path", "nowhere"],
    ];
    for command in cases {
        let run = store.run(command);
        assert_eq!(run.code, 1, "{command:?}: {}", run.err);
        let says = "nowhere is no folder";
        assert!(run.is_one_sentence_naming(says), "{}", run.err);
    }
    assert_eq!(store.names(), [""; 0]);
}
