//! Running the cells, round by round.

use std::path::Path;

use thermocline::Result;
use thermocline::options::Preset;

use super::cell::{Cell, Setting};
use super::found::{CellFound, Found};
use super::{PRESETS, keys_of_round};
use crate::report::Report;
use crate::run::run;
use crate::scratch::Scratch;
use crate::watch::Watch;

/// Runs every cell, and tells of each that is done. `watch` counts runs, and can end them early: then the cells that were not
/// done are left out. So it is where a run fails, which [`Found::failure`] tells: what was measured before is as right as ever.
///
/// # Errors
/// As [`Setting::validate`].
pub fn run_suite(
    cells: &[Cell],
    setting: &Setting,
    watch: &Watch,
    tell: &mut dyn FnMut(&CellFound),
) -> Result<Found> {
    setting.validate(cells)?;
    let runs = cells.len() * setting.rounds * PRESETS.len();
    let mut found = Found::new(setting);
    watch.begin("suite", runs as u64);
    for cell in cells {
        watch.name(cell.workload.name());
        match run_cell(cell, setting, watch, &mut found) {
            Ok(Some(done)) => {
                tell(&done);
                found.cells.push(done);
            }
            Ok(None) => {
                found.interrupted = true;
                break;
            }
            Err(why) => {
                found.failure = Some(why);
                break;
            }
        }
    }
    Ok(found)
}

/// All rounds of a cell; `None` if they were ended early. An error says which run failed, and why.
fn run_cell(
    cell: &Cell,
    setting: &Setting,
    watch: &Watch,
    found: &mut Found,
) -> std::result::Result<Option<CellFound>, String> {
    let mut rounds = Vec::with_capacity(setting.rounds);
    for round in 0..setting.rounds {
        let Some(reports) = run_round(cell, setting, round, watch)? else {
            return Ok(None);
        };
        found.distrust(cell, &reports);
        rounds.push(reports);
    }
    Ok(Some(CellFound::of(cell, setting, &rounds)))
}

/// One run of each preset, in the order of [`PRESETS`]; `None` if it was ended early. Which one begins is another one in each round.
/// An error says which run failed, and why.
fn run_round(
    cell: &Cell,
    setting: &Setting,
    round: usize,
    watch: &Watch,
) -> std::result::Result<Option<[Report; PRESETS.len()]>, String> {
    let mut reports = [const { None }; PRESETS.len()];
    for turn in 0..PRESETS.len() {
        let at = (round + turn) % PRESETS.len();
        let part = watch.part();
        let report = run_one(cell, PRESETS[at], setting, round, &part)
            .map_err(|e| format!("{} in cell {}: {e}", PRESETS[at].name(), cell.name))?;
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
fn run_one(
    cell: &Cell,
    preset: Preset,
    setting: &Setting,
    round: usize,
    watch: &Watch,
) -> Result<Report> {
    let temporary = std::env::temp_dir();
    let dir: &Path = setting.dir.as_deref().unwrap_or(&temporary);
    let mut scratch = Scratch::new_in(dir, "thermocline-suite")?;
    let mut plan = cell.plan(preset, setting);
    plan.num = keys_of_round(plan.num, round);
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
        let found = run_suite(&cells, &setting, &watch, &mut |_| ()).unwrap();
        assert_eq!((watch.snapshot().done, watch.snapshot().total), (5, 5));
        // A report says which preset its store had: sides are not mixed up by who begins.
        let second = run_round(&cells[0], &setting, 1, &watch).unwrap();
        let reports = second.unwrap();
        let presets = reports.each_ref().map(|report| report.preset.as_str());
        assert_eq!(presets, PRESETS.map(Preset::name));
        let keys = cells[0].plan(PRESETS[0], &setting).num;
        assert!(
            reports
                .iter()
                .all(|report| report.num == keys_of_round(keys, 1))
        );
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
        let mut told = 0;
        let setting = small(&folder);
        let found = run_suite(&named(), &setting, &watch, &mut |_| told += 1).unwrap();
        assert!(found.interrupted && found.cells.is_empty() && told == 0);
        assert!(found.to_string().contains("0 of 0 cells pass"));
        assert!(found.to_string().contains("ended early"));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    /// Rows of minutes are not thrown away because the disk is full at the end.
    #[test]
    fn what_was_measured_is_told_when_it_is_done_and_stays_where_a_later_run_fails() {
        let (stores, folder) = (
            Scratch::new("suite-test").unwrap(),
            Scratch::new("suite-test").unwrap(),
        );
        let setting = Setting {
            dir: Some(stores.path().to_path_buf()),
            ..small(&folder)
        };
        let cells = choose(named(), &["put-pm".into(), "load-5x".into()]).unwrap();
        let mut told = Vec::new();
        let found = run_suite(&cells, &setting, &Watch::new(), &mut |cell: &CellFound| {
            told.push(cell.in_a_line());
            // The next run has no place.
            crate::scratch::remove(stores.path()).unwrap();
        });
        let found = found.unwrap();
        assert!(
            told.len() == 1 && told[0].starts_with("put-pm: "),
            "{told:?}"
        );
        assert_eq!(found.cells.len(), 1);
        assert!(!found.interrupted);
        let why = found.failure.as_ref().unwrap();
        assert!(why.starts_with("thermocline in cell load-5x: "), "{why}");
        let table = found.to_string();
        assert!(table.contains("put-pm") && table.contains(why), "{table}");
    }

    #[test]
    fn who_ends_a_suite_has_the_cells_that_were_done() {
        let folder = Scratch::new("suite-test").unwrap();
        let setting = small(&folder);
        let cells = choose(named(), &["put-pm".into(), "load-5x".into()]).unwrap();
        let watch = Watch::new();
        let found = run_suite(&cells, &setting, &watch, &mut |_| watch.stop()).unwrap();
        assert!(found.interrupted && found.failure.is_none());
        assert_eq!(found.cells.len(), 1);
        let table = found.to_string();
        assert!(table.contains("1 of 1 cells pass") || table.contains("0 of 1 cells pass"));
        assert!(table.contains("> put-pm") && table.contains("cells are missing"));
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
