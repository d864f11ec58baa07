//! `plan`: what it prints, as text and as JSON, and what it refuses.

use thermocline_testkit::explore::{is_tried, side_by_side};

use crate::support::{Run, Store};

/// The command of the contract.
const LARGE: [&str; 11] = [
    "plan", "--data", "2TiB", "--pm", "64GiB", "--dram", "16GiB", "--writes", "50MB/s", "--skew",
    "0.9",
];

/// Much less, which takes less time.
const SMALL: [&str; 7] = [
    "plan", "--data", "5GiB", "--pm", "1GiB", "--writes", "10MB/s",
];

fn plan(arguments: &[&str]) -> Run {
    Store::new().run(&[&["plan"], arguments].concat())
}

#[test]
fn a_plan_says_what_may_be_expected_and_what_limits() {
    let run = Store::new().run(&LARGE);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.err);
    for says in [
        "2 TiB of data on 64 GiB of persistent memory and 16 GiB of DRAM",
        "50.0 MB/s written, skew 0.9, preset thermocline",
        "write amplification",
        "of all keys are in persistent memory",
        "delay",
        "processors",
        "docs/plan.md",
    ] {
        assert!(run.out.contains(says), "{says} in {}", run.out);
    }
    let verdicts = ["limits", "limit:", "Nothing limits"];
    assert!(verdicts.iter().any(|v| run.out.contains(v)), "{}", run.out);
    // No store was made.
    let quiet = Store::new();
    let run = quiet.run(&[&SMALL[..], &["--quiet"]].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.err);
    assert!(!run.out.contains("docs/plan.md"), "{}", run.out);
    assert!(quiet.names().is_empty());
}

#[test]
fn json_has_the_same_figures_and_is_the_same_in_every_run() {
    let json_of = |command: &[&str]| Store::new().run(&[command, &["--json"]].concat()).json();
    assert_eq!(json_of(&SMALL), json_of(&SMALL));
    let json = json_of(&LARGE);
    assert_eq!(json["preset"], "thermocline");
    assert_eq!(json["data_bytes"], 2u64 << 40);
    assert_eq!(json["writes_bytes_per_s"], 50e6);
    let number = |name: &str| {
        json[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {json}"))
    };
    let amplification = number("write_amplification_ssd");
    assert!((0.1..20.0).contains(&amplification), "{json}");
    let written = number("ssd_written_bytes_per_s");
    assert!((written - 50e6 * amplification).abs() < 1.0, "{json}");
    assert!((0.0..=1.0).contains(&number("resident_writes")));
    assert!(number("pm_bytes_max") <= (64u64 << 30) as f64);
    assert!(json["limit"].is_string());
}

#[test]
fn what_cannot_be_carried_is_said() {
    let slow = [
        "--data", "1TiB", "--pm", "8GiB", "--writes", "50MB/s", "--device", "100MB/s",
    ];
    let run = plan(&slow);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("The SSD limits"), "{}", run.out);
    let json = plan(&[&slow[..], &["--json"]].concat()).json();
    assert_eq!(json["limit"], "SSD");
    assert!(json["device_used"].as_f64().unwrap() > 1.0, "{json}");
    assert!(
        json["writes_bytes_per_s_max"].as_f64().unwrap() < 50e6,
        "{json}"
    );
}

#[test]
fn every_preset_is_planned_at_ten_tebibytes() {
    let presets = [
        "thermocline",
        "global-index",
        "pm-blade",
        "flat-lsm",
        "leveled",
        "trident",
    ];
    // In a plain run every third one, and the others with a hundredth of that.
    let presets: Vec<(usize, &str)> = presets.into_iter().enumerate().collect();
    // It is the longest of this program, and was the last one.
    side_by_side(&presets, |&(nth, preset)| {
        let (data, pm, dram) = match is_tried(nth, 3) {
            true => ("10TiB", "100GiB", "32GiB"),
            false => ("100GiB", "1GiB", "1GiB"),
        };
        let run = plan(&[
            "--data",
            data,
            "--pm",
            pm,
            "--dram",
            dram,
            "--writes",
            "20MB/s",
            "--skew",
            "0.9",
            "--set",
            "blob.value_bytes_min=0",
            "--preset",
            preset,
            "--json",
        ]);
        assert_eq!(run.json()["preset"], preset);
    });
}

#[test]
fn options_change_the_plan() {
    let with = |more: &[&str]| {
        let all = [
            &[
                "--data", "5GiB", "--pm", "1GiB", "--writes", "10MB/s", "--json",
            ],
            more,
        ];
        let json = plan(&all.concat()).json();
        json["write_amplification_ssd"].as_f64().unwrap()
    };
    let (alike, skewed) = (with(&[]), with(&["--skew", "0.9"]));
    assert!(skewed < alike);
    assert!(with(&["--skew", "0.9", "--spread", "ranges"]) != skewed);
    // Nothing that is written again and again stays in persistent memory.
    assert!(with(&["--skew", "0.9", "--set", "level0.shape=ssd"]) > skewed);
}

#[test]
fn wrong_input_is_refused_with_one_sentence() {
    let good = ["--data", "1GiB", "--writes", "1MB/s"];
    for (more, says) in [
        (&["--preset", "rocks"][..], "there is no preset"),
        (&["--preset", "d-compaction"], "needs"),
        (
            &["--preset", "flat-lsm", "--value-size", "1024"],
            "blob.value_bytes_min=0",
        ),
        (&["--pm", "1KiB"], "pm lies between"),
        (&["--dram", "1KiB"], "dram lies between"),
        (&["--key-size", "0"], "--key-size lies between 1 and"),
        (&["--value-size", "2000000"], "blob files"),
        (&["--value-size", "16384"], "blob.value_bytes_min=0"),
        (
            &[
                "--pm",
                "1MiB",
                "--value-size",
                "100000",
                "--set",
                "blob.value_bytes_min=0",
            ],
            "has no room for",
        ),
        (&["--set", "memtable.size=1"], "there is no option"),
        (&["--set", "pm=1GiB"], "give --pm 1GiB instead"),
        (
            &["--set", "pm_path=/dev/shm"],
            "--set pm_path=/dev/shm would change nothing",
        ),
        (
            &["--preset", "leveled", "--set", "wal_path=logs"],
            "--set wal_path=logs would change nothing",
        ),
        (
            &["--set", "region=shm"],
            "--set region=shm would change nothing",
        ),
        (
            &["--set", "emulate=optane"],
            "--set emulate=optane would change nothing",
        ),
    ] {
        let run = plan(&[&good[..], more].concat());
        assert!(run.code == 1 || run.code == 2, "{more:?}: {}", run.code);
        assert!(run.is_one_sentence_naming(says), "{more:?}: {}", run.err);
        assert_eq!(run.out, "");
    }
    let small = plan(&["--data", "1KiB", "--writes", "1MB/s"]);
    assert!(
        small.is_one_sentence_naming("--data lies between"),
        "{}",
        small.err
    );
    for (wrong, says) in [
        (
            &["--data", "much", "--writes", "1MB/s"][..],
            "is not a size",
        ),
        (
            &["--data", "1GiB", "--writes", "fast"],
            "write a rate like 50MB/s",
        ),
        (
            &["--data", "1GiB", "--writes", "1MB/s", "--skew", "9"],
            "from 0 to 2",
        ),
        (&["--data", "1GiB"], "--writes"),
    ] {
        let run = plan(wrong);
        assert_eq!(run.code, 2, "{wrong:?}");
        assert!(run.err.contains(says), "{wrong:?}: {}", run.err);
    }
}
