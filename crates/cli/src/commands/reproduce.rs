//! `reproduce`: the papers' experiments, here.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use thermocline::options::Emulation;
use thermocline_reproduce::{EXPERIMENTS, Experiment, Outcome as Result, Setting, find, page};

use crate::args::ReproduceArgs;
use crate::commands::measured::beside;
use crate::fail::{Failure, Outcome, tell_aside};
use crate::files;
use crate::interrupt;
use crate::output::Output;
use crate::text::path_shown;

/// Experiments that ran, and what they came to.
type Ran = [(&'static Experiment, Result)];

/// Runs experiments, or names them.
pub(crate) fn reproduce(args: &ReproduceArgs, output: &mut Output) -> Outcome {
    let experiments = match args.paper.as_deref() {
        Some(paper) => find(paper, args.experiment.as_deref()).map_err(Failure::usage)?,
        None => EXPERIMENTS.iter().collect(),
    };
    if args.list {
        return list(&experiments, output);
    }
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    for folder in [Some(&dir), args.pm_path.as_ref()].into_iter().flatten() {
        if !folder.is_dir() {
            return Err(Failure::Failed(format!(
                "{} is no folder; name one for what experiments write, which they remove again",
                folder.display()
            )));
        }
    }
    // Before minutes are spent on what could not be saved then.
    files::check_folder(&args.out)?;
    let setting = Setting {
        dir,
        pm_dir: args.pm_path.clone(),
        emulate: Emulation::parse(&args.emulate).map_err(Failure::usage)?,
        quick: args.quick,
        watch: Arc::default(),
    };
    if let Some(path) = &args.report {
        files::prepare(path)?;
    }
    interrupt::catch();
    let mut outcomes = Vec::new();
    let ran = run_all(
        &experiments,
        (args, &setting),
        output,
        |experiment, outcome| outcomes.push((experiment, outcome)),
    );
    if outcomes.is_empty() {
        return ran;
    }
    // What was found before one failed, or was interrupted, took minutes.
    let shown = show(args, &outcomes, output);
    ran.and(shown)
}

/// Runs and saves them, one after the other, up to one that fails, and hands over what they came to.
fn run_all(
    experiments: &[&'static Experiment],
    (args, setting): (&ReproduceArgs, &Setting),
    output: &mut Output,
    mut done: impl FnMut(&'static Experiment, Result),
) -> Outcome {
    for &experiment in experiments {
        output.note(&format!(
            "{}: {}\n{}",
            experiment.id(),
            experiment.title,
            experiment.claim
        ))?;
        output.finish()?;
        let outcome = run(experiment, setting, output.json || output.quiet)?;
        let path = args
            .out
            .join(format!("{}-{}.json", experiment.paper, experiment.name));
        save(&path, experiment, &outcome)?;
        if !output.json {
            output.line(&format!("\n{outcome}"))?;
        }
        output.note(&format!("saved as {}\n", path_shown(&path)))?;
        done(experiment, outcome);
    }
    Ok(())
}

/// Runs one, and looks for Ctrl-C meanwhile: it removes what it wrote before it ends.
fn run(experiment: &Experiment, setting: &Setting, quiet: bool) -> Outcome<Result> {
    let look = || {
        if interrupt::asked() {
            setting.watch.stop();
        }
    };
    let mut tell = |at: &str| {
        if !quiet {
            tell_aside(&format!("  {at}"));
        }
    };
    let ran = beside(look, || experiment.run(setting, &mut tell));
    ran.map_err(|error| match interrupt::asked() {
        true => Failure::Failed(format!(
            "interrupted: {} has no result; what it wrote was removed",
            experiment.id()
        )),
        false => Failure::from(error),
    })
}

/// Prints what they came to where it was not printed one by one, and draws it. That it cannot be drawn keeps it from nobody.
fn show(args: &ReproduceArgs, outcomes: &Ran, output: &mut Output) -> Outcome {
    let drawn = match &args.report {
        Some(path) => draw(path, outcomes),
        None => Ok(()),
    };
    let printed = match output.json {
        true => {
            let all: Vec<Value> = outcomes.iter().map(|(e, o)| as_json(e, o)).collect();
            output.document(&Value::from(all))
        }
        false => Ok(()),
    };
    let printed = printed.and_then(|()| output.finish());
    drawn?;
    printed?;
    match &args.report {
        Some(path) => output.note(&format!("{} shows all of that", path_shown(path))),
        None => Ok(()),
    }
}

/// Draws what they came to.
fn draw(path: &Path, outcomes: &Ran) -> Outcome {
    files::write_into(path, page(outcomes)?.as_bytes())
}

fn list(experiments: &[&Experiment], output: &mut Output) -> Outcome {
    if output.json {
        let all = experiments.iter().map(|experiment| {
            json!({
                "paper": experiment.paper,
                "experiment": experiment.name,
                "title": experiment.title,
                "claim": experiment.claim,
            })
        });
        return output.document(&all.collect());
    }
    for experiment in experiments {
        output.line(&format!("{:<20} {}", experiment.id(), experiment.title))?;
    }
    Ok(())
}

fn as_json(experiment: &Experiment, outcome: &Result) -> Value {
    json!({
        "paper": experiment.paper,
        "experiment": experiment.name,
        "title": experiment.title,
        "claim": experiment.claim,
        "scale": outcome.scale,
        "checks": outcome.checks,
        "tables": outcome.tables,
        "charts": outcome.charts,
    })
}

fn save(path: &Path, experiment: &Experiment, outcome: &Result) -> Outcome {
    let text = serde_json::to_string_pretty(&as_json(experiment, outcome))
        .map_err(|e| Failure::Failed(format!("cannot save {}: {e}", path.display())))?;
    files::write_into(path, format!("{text}\n").as_bytes())
}
