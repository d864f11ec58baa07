//! What was found.

use serde::Serialize;
use thermocline::options::Emulation;

use super::cell::{Cell, Setting};
use super::interval::{Ratio, median};
use super::{BAR, PRESETS};
use crate::report::Report;

/// All cells that were run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// Persistent memory of most cells, in bytes.
    pub pm: u64,
    /// DRAM of those, in bytes.
    pub dram: u64,
    /// How often each preset ran each cell.
    pub rounds: usize,
    /// The seed.
    pub seed: u64,
    /// How persistent memory was slowed down.
    pub emulate: String,
    /// The part of the best rival's rate that intervals must reach.
    pub bar: f64,
    /// In their order.
    pub cells: Vec<CellFound>,
    /// Whether it was ended early, so that cells are missing.
    pub interrupted: bool,
    /// Which run failed, and why: that ended it early, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Why the numbers of a run cannot be trusted, of the first such run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_reason: Option<String>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellFound {
    /// Its name.
    pub cell: String,
    /// What it does.
    pub what: String,
    /// The kind of region in which the default preset's records lay.
    pub region_kind: &'static str,
    /// How to repeat a run of the default preset; `--preset` does one of a rival. `leveled` has `--wal-path` for `--pm-path`.
    pub command: String,
    /// The default preset.
    pub ours: Side,
    /// The others.
    pub rivals: Vec<Side>,
    /// The rival with the highest median.
    pub best_rival: &'static str,
    /// How many times as fast as that the default is.
    pub ratio: Ratio,
    /// Whether the interval reaches the bar.
    pub passes: bool,
}

/// One preset in one cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Its name.
    pub preset: &'static str,
    /// Operations a second, by round.
    pub ops_per_sec: Vec<f64>,
    /// Their median.
    pub ops_per_sec_median: f64,
    /// Bytes written to the SSD for each byte of keys and values, in the middle of the rounds; `None` where nothing was written. Logs
    /// and a region that lie on the SSD count.
    pub ssd_bytes_a_byte: Option<f64>,
    /// The longest delay that the engine put on a writer, in milliseconds, in the middle of the rounds. What is loaded before
    /// does not count.
    pub stall_ms_max: f64,
}

impl Found {
    pub(super) fn new(setting: &Setting) -> Found {
        Found {
            pm: setting.pm,
            dram: setting.dram(),
            rounds: setting.rounds,
            seed: setting.seed,
            emulate: match setting.emulate {
                Emulation::None => "none".into(),
                profile => profile.name().into(),
            },
            bar: BAR,
            cells: Vec::new(),
            interrupted: false,
            failure: None,
            invalid_reason: None,
        }
    }

    /// Notes the first run whose numbers cannot be trusted.
    pub(super) fn distrust(&mut self, cell: &Cell, reports: &[Report]) {
        let reasons = reports
            .iter()
            .filter_map(|r| Some((r, r.invalid_reason.as_ref()?)));
        for (report, reason) in reasons {
            self.invalid_reason.get_or_insert_with(|| {
                format!("{} in cell {}: {reason}", report.preset, cell.name)
            });
        }
    }

    /// The cell with the lowest ratio.
    pub fn worst(&self) -> Option<&CellFound> {
        let ratio = |cell: &&CellFound| cell.ratio.mean;
        self.cells
            .iter()
            .min_by(|a, b| ratio(a).total_cmp(&ratio(b)))
    }

    /// How many cells pass.
    pub fn passed(&self) -> usize {
        self.cells.iter().filter(|cell| cell.passes).count()
    }
}

impl CellFound {
    /// Of at least one round, each with a report of every preset.
    pub(super) fn of(
        cell: &Cell,
        setting: &Setting,
        rounds: &[[Report; PRESETS.len()]],
    ) -> CellFound {
        let side = |at: usize| {
            let of = |figure: fn(&Report) -> f64| -> Vec<f64> {
                rounds.iter().map(|round| figure(&round[at])).collect()
            };
            let ops_per_sec = of(|report| report.ops_per_sec);
            let written = rounds.iter().any(|round| round[at].user_bytes_written > 0);
            Side {
                preset: PRESETS[at].name(),
                ops_per_sec_median: median(&ops_per_sec),
                ops_per_sec,
                ssd_bytes_a_byte: written.then(|| median(&of(|r| r.write_amplification_ssd))),
                stall_ms_max: median(&of(|report| report.stall_ms_max)),
            }
        };
        let region_kind = rounds.first().map_or("none", |round| round[0].region_kind);
        let rivals = (1..PRESETS.len()).map(side).collect();
        CellFound::compared(cell, cell.command(setting), region_kind, side(0), rivals)
    }

    /// There is at least one rival.
    pub(super) fn compared(
        cell: &Cell,
        command: String,
        region_kind: &'static str,
        ours: Side,
        rivals: Vec<Side>,
    ) -> CellFound {
        let best = rivals
            .iter()
            .max_by(|a, b| a.ops_per_sec_median.total_cmp(&b.ops_per_sec_median))
            .unwrap_or(&ours);
        let ratio = Ratio::of(&ours.ops_per_sec, &best.ops_per_sec);
        CellFound {
            cell: cell.name.clone(),
            what: cell.what.clone(),
            region_kind,
            command,
            best_rival: best.preset,
            ratio,
            passes: ratio.reaches(BAR),
            ours,
            rivals,
        }
    }
}
