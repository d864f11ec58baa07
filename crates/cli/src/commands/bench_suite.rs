//! `bench suite`: the default preset beside its rivals, on many workloads.

use std::path::PathBuf;

use serde_json::json;
use thermocline::options::Emulation;
use thermocline_bench::suite::{Cell, Found, Setting, choose, full, named, run_suite};

use crate::args::{BenchArgs, DurabilityArg};
use crate::commands::measured::{finished, followed};
use crate::fail::{Failure, Outcome};
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
    interrupt::catch();
    let found = followed(output, "runs", |watch| run_suite(&cells, &setting, watch))?;
    let text = match args.suite.markdown {
        true => found.markdown(),
        false => found.to_string(),
    };
    let value = serde_json::to_value(&found);
    let doubts = (found.interrupted, found.invalid_reason.clone());
    finished(output, value, &text, doubts)?;
    match args.suite.check {
        true => check(&found),
        false => Ok(()),
    }
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
            "slower than the best rival, and not by chance: {}",
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
        (args.threads != 1, "--threads"),
        (args.key_size != 16, "--key-size"),
        (args.value_size != 100, "--value-size"),
        (args.durability != DurabilityArg::Immediate, "--durability"),
        (args.batch != 1, "--batch"),
        (args.async_depth != 1, "--async-depth"),
        (args.distribution.is_some(), "--distribution"),
        (args.scan_length.is_some(), "--scan-length"),
        (args.compressible != 1.0, "--compressible"),
        (args.use_existing, "--use-existing"),
        (args.settle, "--settle"),
        (args.drain, "--drain"),
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
    Ok(Setting {
        pm: args.store.pm.unwrap_or(defaults.pm),
        dram: args.store.dram,
        rounds: args.suite.rounds.unwrap_or(defaults.rounds),
        seed: args.seed,
        emulate: Emulation::parse(&args.emulate).map_err(Failure::usage)?,
        dir: args.db.clone(),
        pm_dir: args.store.pm_path.clone().or_else(memory),
    })
}

fn list(cells: &[Cell], setting: &Setting, output: &mut Output) -> Outcome {
    if output.json {
        let all = cells.iter().map(|cell| {
            json!({ "cell": cell.name, "what": cell.what, "command": cell.command(setting) })
        });
        return output.document(&all.collect());
    }
    for cell in cells {
        output.line(&format!("{:<24} {}", cell.name, cell.what))?;
        output.line(&format!("{:<24} {}", "", cell.scale(setting)))?;
    }
    Ok(())
}
