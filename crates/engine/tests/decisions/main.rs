//! The decision log: stores of all shapes, whose every decision and every byte count is written down.
//!
//! A *script* says how a store is opened and what is done to it. Its *log* has, below each line of the script, the
//! events of the store (what was done, of what, why, with which numbers), what the costs of level 0 have said, and then
//! what was moved so far and what lies where. A change that is meant to change no decision must not change a log. One
//! that is meant to says so by a log that is written anew, and shows what became of it:
//!
//! ```text
//! cargo test -p thermocline-engine --test decisions                           # compares
//! THERMOCLINE_REWRITE=1 cargo test -p thermocline-engine --test decisions     # writes down what is different
//! ```
//!
//! # Why a log is the same in every run
//! Files, persistent memory, clock and randomness are simulated. The clock moves by a fixed time with each operation,
//! and when somebody waits. There are no threads: a store has a [scripted](thermocline_engine::Runtime::scripted)
//! runtime, and a piece of its background work is done where the script says so, or after so many operations
//! (`every`); or it has no background at all (`inline`). Each script runs on a thread of its own, since what is
//! sampled at random is drawn from a sequence of the thread.
//!
//! # Scripts
//! A line is a command with words; `#` begins a comment. Numbers may end in `K` or `M`.
//!
//! | | |
//! |---|---|
//! | `open` OPTION=VALUE… | opens the store; `every=N`, `inline` and `preset=NAME` come first |
//! | `put` N `of` KEYS `len` BYTES [`seq`, `hot` or `churn`] | writes, one record each |
//! | `delete` N `of` KEYS, `delete-range` FROM TO | likewise |
//! | `get` N `of` KEYS [`hot`], `scan` N `of` KEYS `len` ENTRIES | reads |
//! | `work` | does all that waits in the background; `step` N only so many pieces |
//! | `wait` MS | lets time pass, and does what is due then |
//! | `hold`, `let-go` | a snapshot |
//! | `flush`, `compact`, `drain`, `close` | by hand |
#![expect(
    clippy::disallowed_methods,
    reason = "scripts and logs are files of the repository"
)]

mod report;
mod run;

use std::path::{Path, PathBuf};

/// The allocator of these tests, which make and drop a great deal (decision 179).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Where scripts and logs lie.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decisions/scripts")
}

/// The log of a script, on a thread of its own.
fn log_of(script: &str) -> String {
    let script = script.to_string();
    let thread = std::thread::spawn(move || run::run(&script));
    thread.join().expect("the script runs")
}

/// Where two texts differ first, for whoever looks for the reason.
fn difference(name: &str, golden: &str, log: &str) -> String {
    let mut lines = golden.lines().zip(log.lines()).enumerate();
    let (at, was, is) = match lines.find(|(_, (was, is))| was != is) {
        Some((at, (was, is))) => (at + 1, was, is),
        None => (golden.lines().count().min(log.lines().count()) + 1, "", ""),
    };
    format!(
        "{name}: another decision in line {at}\n  was: {was}\n  is:  {is}\n\
         THERMOCLINE_REWRITE=1 writes the log anew, if that is meant"
    )
}

fn rewrites() -> bool {
    std::env::var_os("THERMOCLINE_REWRITE").is_some()
}

fn check(name: &str) {
    let script = std::fs::read_to_string(folder().join(format!("{name}.script"))).unwrap();
    let log = log_of(&script);
    let path = folder().join(format!("{name}.log"));
    if rewrites() {
        std::fs::write(&path, log).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == log, "{}", difference(name, &golden, &log));
}

macro_rules! scripts {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*

        /// No script is left out, and no log has lost its script.
        #[test]
        fn every_script_is_run() {
            let mut run: Vec<String> = vec![$(stringify!($name).to_string()),*];
            run.sort();
            for ending in ["script", "log"] {
                if ending == "log" && rewrites() {
                    continue;
                }
                let files = std::fs::read_dir(folder()).unwrap();
                let names = files.map(|file| file.unwrap().path());
                let of_ending = names.filter(|path| path.extension().is_some_and(|e| e == ending));
                let mut found: Vec<String> = of_ending
                    .map(|path| path.file_stem().unwrap().to_str().unwrap().to_string())
                    .collect();
                found.sort();
                assert_eq!(found, run, "{ending}");
            }
        }
    };
}

scripts! {
    tiered
    tiered_inline
    tiered_bypass
    tiered_reads
    pm_tables
    pm_blade
    global_index
    global_index_rewrite
    immutables
    divided
    ssd
    leveled
    trident
    partitions
    prefixes
    blobs
    apart
    held
    behind
    behind_files
    file
}

/// A log that would not change if the store decided otherwise is worth nothing: a run twice is the same, and another
/// number of tuning gives another log.
#[test]
fn a_log_tells_decisions_apart() {
    let script = std::fs::read_to_string(folder().join("tiered.script")).unwrap();
    let log = log_of(&script);
    assert!(log == log_of(&script), "the same in every run");
    let other = script.replace("open ", "open level0.pm_percent=20 ");
    assert_ne!(log, log_of(&other));
}
