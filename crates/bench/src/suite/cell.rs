//! One workload at one size, and what its runs are.

use std::path::{Path, PathBuf};

use thermocline::options::{DRAM_MIN, Emulation, Preset};
use thermocline::size::format_size;
use thermocline::{Error, Options, Result};

use super::{PRESETS, ROUNDS_MAX};
use crate::distribution::Distribution;
use crate::page::quoted;
use crate::plan::Plan;
use crate::workload::Workload;

/// Bytes of a key and of a value in all cells.
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 1024;

/// Most seconds that the operations of a run take: a preset that is so much slower than others need not show it for longer.
const SECONDS_MAX: f64 = 2.0;

/// By default persistent memory is so many times as large as `dram`.
const PM_BY_DRAM: u64 = 4;

/// Where records lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In what stands for persistent memory.
    Pm,
    /// In a plain file beside the tables; the logs of `leveled`, too.
    File,
}

/// One workload at one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What it is called by.
    pub name: String,
    /// What it does, for people.
    pub what: String,
    pub(super) workload: Workload,
    /// Keys and values, in percent of its persistent memory.
    pub(super) data_percent: u64,
    /// It has so many times as much persistent memory as others: where all lies there, more is done in a second.
    pub(super) pm_times: u64,
    /// Operations for each MiB of the setting's persistent memory; loads write each key once instead.
    pub(super) ops_per_mib: u64,
    pub(super) distribution: Option<Distribution>,
    pub(super) threads: usize,
    pub(super) place: Place,
}

/// How large runs are, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Persistent memory of most cells, in bytes.
    pub pm: u64,
    /// DRAM of those cells, in bytes; `None` for a quarter of that, as by default.
    pub dram: Option<u64>,
    /// How often each preset runs each cell.
    pub rounds: usize,
    /// The seed of everything random.
    pub seed: u64,
    /// How persistent memory is slowed down.
    pub emulate: Emulation,
    /// A folder for the stores, which are gone afterwards; `None` for the system's for temporary files.
    pub dir: Option<PathBuf>,
    /// A folder for persistent memory, and the logs of `leveled`; `None` for the same.
    pub pm_dir: Option<PathBuf>,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            pm: 64 << 20,
            dram: None,
            rounds: 5,
            seed: 42,
            emulate: Emulation::None,
            dir: None,
            pm_dir: None,
        }
    }
}

impl Setting {
    /// DRAM of most cells, in bytes.
    pub fn dram(&self) -> u64 {
        self.dram
            .unwrap_or_else(|| (self.pm / PM_BY_DRAM).max(DRAM_MIN))
    }

    /// Checks every value, and what it makes of these cells.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the option and its limit.
    pub fn validate(&self, cells: &[Cell]) -> Result<()> {
        if !(1..=ROUNDS_MAX).contains(&self.rounds) {
            return Err(Error::InvalidArgument(format!(
                "rounds lies between 1 and {ROUNDS_MAX}; {} was given",
                self.rounds
            )));
        }
        self.check_folders()?;
        for cell in cells {
            for preset in PRESETS {
                let plan = cell.plan(preset, self);
                plan.validate()?;
                plan.options.validate()?;
            }
        }
        Ok(())
    }

    /// Whether the folders for stores are there.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the one that is not.
    pub fn check_folders(&self) -> Result<()> {
        for folder in [&self.dir, &self.pm_dir].into_iter().flatten() {
            if !folder.is_dir() {
                return Err(Error::InvalidArgument(format!(
                    "{} is no folder; the suite makes its stores in folders that are there, and removes them",
                    folder.display()
                )));
            }
        }
        Ok(())
    }
}

impl Cell {
    /// The run of a preset, in a folder that is still to be chosen.
    pub fn plan(&self, preset: Preset, setting: &Setting) -> Plan {
        let mut options = Options::preset(preset);
        options.pm = setting.pm.saturating_mul(self.pm_times);
        options.dram = setting.dram().saturating_mul(self.pm_times);
        let in_pm = match self.place {
            Place::Pm => setting.pm_dir.clone(),
            Place::File => None,
        };
        match options.in_dram() {
            true => options.wal_path = in_pm,
            false => options.pm_path = in_pm,
        }
        let entry = (KEY_BYTES + VALUE_BYTES) as u64;
        let data = (options.pm / 100).saturating_mul(self.data_percent);
        let mut plan = Plan {
            num: (data / entry).max(1),
            threads: self.threads,
            key_size: KEY_BYTES,
            value_size: VALUE_BYTES,
            distribution: self.distribution,
            seed: setting.seed,
            emulate: match options.in_dram() {
                true => Emulation::None,
                false => setting.emulate,
            },
            options,
            ..Plan::new(self.workload)
        };
        match self.workload.loads_first() {
            true => {
                let ops = setting.pm.saturating_mul(self.ops_per_mib) >> 20;
                plan.reads = Some(ops.max(1));
                plan.settle = true;
                plan.seconds_max = Some(SECONDS_MAX);
            }
            // What persistent memory takes in is measured as it is taken in, and the rest to its end. No other cell counts
            // the background work that it leaves.
            false => plan.drain = self.data_percent > 100,
        }
        plan
    }

    /// The command that repeats a run of the default preset. In a folder that was chosen it makes a store of the cell's name, which
    /// stays. A shell takes it as it is.
    pub fn command(&self, setting: &Setting) -> String {
        let plan = self.plan(PRESETS[0], setting);
        let exact = |bytes: u64| match bytes.is_multiple_of(1 << 20) {
            true => format!("{}MiB", bytes >> 20),
            false => bytes.to_string(),
        };
        let mut words = vec![
            format!("thermocline bench {}", plan.workload.name()),
            format!("--num {}", plan.num),
        ];
        words.extend(plan.reads.map(|reads| format!("--reads {reads}")));
        words.push(format!("--value-size {}", plan.value_size));
        words.extend(
            plan.distribution
                .map(|chosen| format!("--distribution {chosen}")),
        );
        if plan.threads > 1 {
            words.push(format!("--threads {}", plan.threads));
        }
        words.extend(
            plan.seconds_max
                .map(|seconds| format!("--seconds-max {seconds}")),
        );
        for (given, word) in [(plan.settle, "--settle"), (plan.drain, "--drain")] {
            words.extend(given.then(|| word.to_string()));
        }
        words.push(format!("--seed {}", plan.seed));
        if plan.emulate != Emulation::None {
            words.push(format!("--emulate {}", plan.emulate.name()));
        }
        let options = &plan.options;
        words.push(format!(
            "--pm {} --dram {}",
            exact(options.pm),
            exact(options.dram)
        ));
        let place = |path: &Path| quoted(&path.to_string_lossy());
        let path = options.pm_path.as_deref();
        words.extend(path.map(|path| format!("--pm-path {}", place(path))));
        let db = setting.dir.as_ref().map(|dir| dir.join(&self.name));
        words.extend(db.map(|db| format!("--db {}", place(&db))));
        words.join(" ")
    }

    /// How much it loads and does, for people.
    pub fn scale(&self, setting: &Setting) -> String {
        let plan = self.plan(PRESETS[0], setting);
        format!(
            "{} keys, {} operations, {} of persistent memory",
            crate::grouped(plan.num),
            crate::grouped(plan.operations()),
            format_size(plan.options.pm)
        )
    }
}
