//! `bench suite`: the default preset beside its rivals, on many workloads.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};
use thermocline::options::Emulation;
use thermocline::size::format_size;
use thermocline_bench::counts::{choose_scripts, count};
use thermocline_bench::suite::{Cell, CellFound, Found, Setting, choose, full, named, run_suite};

use crate::args::{BenchArgs, DurabilityArg};
use crate::commands::bench_page::{Page, Rows, given, wanted};
use crate::commands::measured::{finished, followed, told};
use crate::fail::{Failure, Outcome, even_unread};
use crate::interrupt;
use crate::output::Output;

/// Its name among the workloads.
pub(super) const NAME: &str = "suite";

/// Where persistent memory lies unless the user says so: memory that several processes may map.
const SHARED_MEMORY: &str = "/dev/shm";

/// Runs the suite, or names its cells.
pub(super) fn bench(args: BenchArgs, output: &mut Output) -> Outcome {
    if let Some(option) = foreign(&args) {
        return Err(Failure::Usage(format!(
            "{option} is not an option of {NAME}, whose cells say what is run; leave it out"
        )));
    }
    if args.suite.list && args.report.is_some() {
        return Err(Failure::Usage(
            "--list names what would be run, and runs nothing; leave --report out".to_string(),
        ));
    }
    if args.suite.counts {
        return counts(&args, output);
    }
    let cells = match args.suite.full {
        true => full(),
        false => named(),
    };
    let cells = choose(cells, &args.suite.cells).map_err(Failure::usage)?;
    let setting = setting(&args)?;
    setting.validate(&cells).map_err(Failure::usage)?;
    if args.suite.list {
        return list(&cells, &setting, output);
    }
    let wanted = wanted(args.report.as_deref())?;
    interrupt::catch();
    let found = told(output, "runs", |watch, tell| {
        let mut done = |cell: &CellFound| tell(&cell.in_a_line());
        run_suite(&cells, &setting, watch, &mut done)
    })?;
    if let Some(why) = found.failure.as_ref().filter(|_| found.cells.is_empty()) {
        return Err(Failure::Failed(why.clone()));
    }
    let text = match args.suite.markdown {
        true => found.markdown(),
        false => found.to_string(),
    };
    let value = serde_json::to_value(&found);
    let numbers = value.as_ref().ok().cloned();
    let doubts = (found.interrupted, found.invalid_reason.clone());
    let printed = finished(output, value, &text, doubts);
    let of_page = page((&args, &found), &text, numbers.as_ref());
    let printed = of_page.write(wanted.as_deref(), printed, output);
    if let Some(why) = &found.failure {
        even_unread(printed)?;
        return Err(Failure::Failed(why.clone()));
    }
    match args.suite.check {
        // The exit code tells it, too.
        true => even_unread(printed).and_then(|()| check(&found)),
        false => printed,
    }
}

/// What a page says of it.
fn page<'a>(
    (args, found): (&BenchArgs, &Found),
    results: &'a str,
    numbers: Option<&'a Value>,
) -> Page<'a> {
    let kinds: BTreeSet<&str> = found.cells.iter().map(|cell| cell.region_kind).collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    let mut options = vec![
        ("--pm", format_size(found.pm)),
        ("--dram", format_size(found.dram)),
        ("--rounds", found.rounds.to_string()),
        ("--seed", found.seed.to_string()),
        ("--emulate", found.emulate.clone()),
    ];
    options.extend(places(args));
    options.extend(given([
        ("--full", args.suite.full),
        ("--check", args.suite.check),
    ]));
    Page {
        name: NAME,
        options,
        store: None,
        machine: vec![
            ("kinds of regions", kinds.join(", ")),
            ("emulated memory", found.emulate.clone()),
        ],
        results,
        numbers,
        course: None,
    }
}

/// Which cells were chosen, and where stores lie.
fn places(args: &BenchArgs) -> Rows {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let cells = &args.suite.cells;
    let some = [
        ("--cells", (!cells.is_empty()).then(|| cells.join(","))),
        ("--db", path(&args.db)),
        ("--pm-path", path(&args.store.pm_path)),
    ];
    let some = some.into_iter();
    some.filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Counts instead of timing, or names what is counted.
fn counts(args: &BenchArgs, output: &mut Output) -> Outcome {
    let defaults = Setting::default();
    let given = [
        (args.suite.full, "--full"),
        (args.suite.rounds.is_some(), "--rounds"),
        (args.suite.check, "--check"),
        (args.store.pm.is_some(), "--pm"),
        (args.store.dram.is_some(), "--dram"),
        (args.seed != defaults.seed, "--seed"),
        (args.emulate != "none", "--emulate"),
    ];
    if let Some((_, option)) = given.into_iter().find(|(given, _)| *given) {
        return Err(Failure::Usage(format!(
            "{option} is for what is timed; leave it out, or --counts"
        )));
    }
    let scripts = choose_scripts(&args.suite.cells).map_err(Failure::usage)?;
    let setting = setting(args)?;
    setting.validate(&[]).map_err(Failure::usage)?;
    if args.suite.list {
        let named = scripts
            .iter()
            .map(|script| json!({ "cell": script.name, "what": script.what }));
        return listed(named.collect(), output);
    }
    let wanted = wanted(args.report.as_deref())?;
    interrupt::catch();
    let dir = setting.dir.unwrap_or_else(std::env::temp_dir);
    let pm_dir = setting.pm_dir.as_deref();
    let counts = followed(output, "cells", |watch| {
        count(&scripts, &dir, pm_dir, watch)
    })?;
    let text = match args.suite.markdown {
        true => counts.markdown(),
        false => counts.to_string(),
    };
    let doubts = (counts.interrupted, None);
    let value = serde_json::to_value(&counts);
    let numbers = value.as_ref().ok().cloned();
    let printed = finished(output, value, &text, doubts);
    let mut options = vec![("--counts", "yes".to_string())];
    options.extend(places(args));
    let page = Page {
        name: NAME,
        options,
        store: None,
        machine: Vec::new(),
        results: &text,
        numbers: numbers.as_ref(),
        course: None,
    };
    page.write(wanted.as_deref(), printed, output)
}

fn check(found: &Found) -> Outcome {
    let failed: Vec<&str> = found
        .cells
        .iter()
        .filter(|cell| !cell.passes)
        .map(|cell| cell.cell.as_str())
        .collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(format!(
            "slower than the best rival, {}: {}",
            match found.rounds {
                1 => "in a single round, which says nothing about chance",
                _ => "and not by chance",
            },
            failed.join(", ")
        ))),
    }
}

/// The first option that was given and says what cells say, or what presets do.
fn foreign(args: &BenchArgs) -> Option<&'static str> {
    let store = &args.store;
    let given = [
        (args.num != 100_000, "--num"),
        (args.reads.is_some(), "--reads"),
        (args.duration.is_some(), "--duration"),
        (args.seconds_max.is_some(), "--seconds-max"),
        (args.rate.is_some(), "--rate"),
        (args.threads != 1, "--threads"),
        (args.key_size != 16, "--key-size"),
        (args.value_size != 100, "--value-size"),
        (args.durability != DurabilityArg::Immediate, "--durability"),
        (args.batch != 1, "--batch"),
        (args.async_depth != 1, "--async-depth"),
        (args.awaited, "--awaited"),
        (args.distribution.is_some(), "--distribution"),
        (args.scan_length.is_some(), "--scan-length"),
        (args.compressible != 1.0, "--compressible"),
        (args.use_existing, "--use-existing"),
        (args.preload, "--preload"),
        (args.settle, "--settle"),
        (args.drain, "--drain"),
        (args.space, "--space"),
        (store.preset.is_some(), "--preset"),
        (store.wal_path.is_some(), "--wal-path"),
        (!store.ttl.is_empty(), "--ttl"),
        (!store.set.is_empty(), "--set"),
    ];
    let given = given.into_iter().find(|(given, _)| *given);
    let other = || args.oltp.given().first().map(|(name, _)| *name);
    given.map(|(_, name)| name).or_else(other)
}

fn setting(args: &BenchArgs) -> Outcome<Setting> {
    let defaults = Setting::default();
    let memory = || Some(PathBuf::from(SHARED_MEMORY)).filter(|path: &PathBuf| path.is_dir());
    let setting = Setting {
        pm: args.store.pm.unwrap_or(defaults.pm),
        dram: args.store.dram,
        rounds: args.suite.rounds.unwrap_or(defaults.rounds),
        seed: args.seed,
        emulate: Emulation::parse(&args.emulate).map_err(Failure::usage)?,
        dir: args.db.clone(),
        pm_dir: args.store.pm_path.clone().or_else(memory),
    };
    // What is not there is not wrong in itself: another exit code than for what is.
    setting.check_folders()?;
    Ok(setting)
}

fn list(cells: &[Cell], setting: &Setting, output: &mut Output) -> Outcome {
    let named = cells.iter().map(|cell| {
        json!({
            "cell": cell.name,
            "what": cell.what,
            "scale": cell.scale(setting),
            "command": cell.command(setting),
        })
    });
    listed(named.collect(), output)
}

/// Objects with names and what else is said of them: as a document, or each with its text in lines.
fn listed(all: Vec<Value>, output: &mut Output) -> Outcome {
    if output.json {
        return output.document(&Value::from(all));
    }
    for object in &all {
        let texts = ["what", "scale"].map(|key| object[key].as_str());
        let mut name = object["cell"].as_str().unwrap_or_default();
        for text in texts.into_iter().flatten() {
            output.line(&format!("{name:<24} {text}"))?;
            name = "";
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use thermocline_bench::suite::{Ratio, Side};

    use super::*;

    fn cell(name: &str, passes: bool) -> CellFound {
        let side = Side {
            preset: "thermocline",
            ops_per_sec: vec![1.0],
            ops_per_sec_median: 1.0,
            ssd_bytes_a_byte: None,
            stall_ms_max: 0.0,
        };
        CellFound {
            cell: name.to_string(),
            what: String::new(),
            region_kind: "shm",
            command: String::new(),
            ours: side.clone(),
            rivals: vec![side],
            best_rival: "leveled",
            ratio: Ratio::of(&[1.0], &[1.0]),
            passes,
        }
    }

    #[test]
    fn a_check_fails_for_cells_that_do_not_pass_and_names_them() {
        let found = |rounds, cells: Vec<CellFound>| Found {
            pm: 64 << 20,
            dram: 16 << 20,
            rounds,
            seed: 42,
            emulate: "none".to_string(),
            bar: 0.95,
            cells,
            interrupted: false,
            failure: None,
            invalid_reason: None,
        };
        check(&found(1, vec![cell("one", true)])).unwrap();
        for (rounds, says) in [(1, "a single round"), (5, "not by chance")] {
            let cells = vec![cell("one", true), cell("two", false), cell("three", false)];
            let Err(Failure::Failed(text)) = check(&found(rounds, cells)) else {
                panic!("it passes")
            };
            assert!(text.ends_with(": two, three"), "{text}");
            assert!(text.contains(says), "{text}");
        }
    }
}
