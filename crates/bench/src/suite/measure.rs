//! Running the cells, round by round.

use std::path::Path;

use thermocline::Result;
use thermocline::options::Preset;

use super::PRESETS;
use super::cell::{Cell, Setting};
use super::found::{CellFound, Found};
use crate::report::Report;
use crate::run::run;
use crate::scratch::Scratch;
use crate::watch::Watch;

/// Runs every cell. `watch` counts runs, and can end them early: then the cells that were not done are left out.
///
/// # Errors
/// As [`Setting::validate`]; every error of the store.
pub fn run_suite(cells: &[Cell], setting: &Setting, watch: &Watch) -> Result<Found> {
    setting.validate(cells)?;
    let runs = cells.len() * setting.rounds * PRESETS.len();
    let mut found = Found::new(setting);
    let mut done = 0;
    for cell in cells {
        let mut rounds = Vec::with_capacity(setting.rounds);
        for round in 0..setting.rounds {
            watch.begin(cell.workload.name(), runs as u64);
            watch.add(done);
            match run_round(cell, setting, round, watch)? {
                Some(reports) => {
                    found.distrust(cell, &reports);
                    rounds.push(reports);
                }
                None => {
                    found.interrupted = true;
                    return Ok(found);
                }
            }
            done += PRESETS.len() as u64;
        }
        found.cells.push(CellFound::of(cell, setting, &rounds));
    }
    Ok(found)
}

/// One run of each preset, in the order of [`PRESETS`]; `None` if it was ended early. Which one begins is another one in each round.
fn run_round(
    cell: &Cell,
    setting: &Setting,
    round: usize,
    watch: &Watch,
) -> Result<Option<[Report; PRESETS.len()]>> {
    let mut reports = [const { None }; PRESETS.len()];
    for turn in 0..PRESETS.len() {
        let at = (round + turn) % PRESETS.len();
        let part = watch.part();
        let report = run_one(cell, PRESETS[at], setting, &part)?;
        if watch.is_stopped() {
            return Ok(None);
        }
        reports[at] = Some(report);
        watch.add(1);
    }
    let [Some(a), Some(b), Some(c), Some(d)] = reports else {
        return Ok(None);
    };
    Ok(Some([a, b, c, d]))
}

/// A run on a store of its own, which is gone afterwards.
fn run_one(cell: &Cell, preset: Preset, setting: &Setting, watch: &Watch) -> Result<Report> {
    let temporary = std::env::temp_dir();
    let dir: &Path = setting.dir.as_deref().unwrap_or(&temporary);
    let mut scratch = Scratch::new_in(dir, "thermocline-suite")?;
    let mut plan = cell.plan(preset, setting);
    plan.db = Some(scratch.path().join("db"));
    plan.options.pm_path = scratch.region(plan.options.pm_path.as_deref())?;
    plan.options.wal_path = scratch.logs(plan.options.wal_path.as_deref())?;
    let report = run(&plan, watch)?;
    scratch.remove()?;
    Ok(report)
}
