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
    watch.begin("suite", runs as u64);
    for cell in cells {
        watch.name(cell.workload.name());
        let mut rounds = Vec::with_capacity(setting.rounds);
        for round in 0..setting.rounds {
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
    let [Some(a), Some(b), Some(c), Some(d), Some(e)] = reports else {
        return Ok(None);
    };
    Ok(Some([a, b, c, d, e]))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{choose, named};

    fn small(folder: &Scratch) -> Setting {
        Setting {
            pm: 2 << 20,
            dram: Some(8 << 20),
            rounds: 1,
            pm_dir: Some("/dev/shm".into()).filter(|path: &std::path::PathBuf| path.is_dir()),
            dir: Some(folder.path().to_path_buf()),
            ..Setting::default()
        }
    }

    #[test]
    fn each_preset_runs_each_round_and_is_named_for_what_it_is() {
        let folder = Scratch::new("suite-test").unwrap();
        let setting = small(&folder);
        let cells = choose(named(), &["ycsb-f-1x".into()]).unwrap();
        let watch = Watch::new();
        let found = run_suite(&cells, &setting, &watch).unwrap();
        assert_eq!((watch.snapshot().done, watch.snapshot().total), (5, 5));
        // A report says which preset its store had: sides are not mixed up by who begins.
        let second = run_round(&cells[0], &setting, 1, &watch).unwrap();
        let reports = second.unwrap();
        let presets = reports.each_ref().map(|report| report.preset.as_str());
        assert_eq!(presets, PRESETS.map(Preset::name));
        assert_eq!(found.cells[0].ours.ops_per_sec.len(), 1);
        assert_eq!(found.cells[0].region_kind, reports[0].region_kind);
        assert!(found.invalid_reason.is_none() && !found.interrupted);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_suite_that_is_ended_early_has_only_whole_cells() {
        let folder = Scratch::new("suite-test").unwrap();
        let watch = Watch::new();
        watch.stop();
        let found = run_suite(&named(), &small(&folder), &watch).unwrap();
        assert!(found.interrupted && found.cells.is_empty());
        assert!(found.to_string().contains("0 of 0 cells pass"));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_run_that_cannot_be_trusted_is_told() {
        let folder = Scratch::new("suite-test").unwrap();
        let setting = small(&folder);
        let cells = choose(named(), &["put-pm".into()]).unwrap();
        let round = run_round(&cells[0], &setting, 0, &Watch::new());
        let mut reports = round.unwrap().unwrap();
        let mut found = Found::new(&setting);
        found.distrust(&cells[0], &reports);
        assert_eq!(found.invalid_reason, None);
        reports[2].invalid_reason = Some("lines are missing".into());
        found.distrust(&cells[0], &reports);
        let reason = found.invalid_reason.unwrap();
        assert_eq!(reason, "leveled in cell put-pm: lines are missing");
    }
}
