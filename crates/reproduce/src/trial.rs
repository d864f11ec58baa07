//! A store on trial: runs of `bench` on it, one after the other, or what else is done to it when it is open.

use std::path::PathBuf;
use std::sync::Arc;

use thermocline::{Db, Durability, Metrics, Runtime, RuntimeOptions};
use thermocline_base::options::{Emulation, Options, Preset};
use thermocline_base::{Error, Result};
use thermocline_bench::distribution::Draw;
use thermocline_bench::keys::KeyMaker;
use thermocline_bench::scratch::Scratch;
use thermocline_bench::values::Values;
use thermocline_bench::{
    Distribution, Latencies, Latency, Operation, Plan, Report, Watch, Workload,
};

use crate::setting::{Setting, ended_early};

/// Bytes of keys, as of a plan of `bench` by itself.
pub(crate) const KEY_BYTES: usize = 16;

/// The seed of what is random beside the runs of `bench`.
pub(crate) const SEED: u64 = 42;

/// A kind of store, with a name for people.
#[derive(Debug, Clone, Copy)]
pub(crate) struct System {
    pub name: &'static str,
    pub preset: Preset,
    /// Options that are not as the preset has them.
    pub set: &'static [(&'static str, &'static str)],
}

/// How large a trial is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub pm: u64,
    pub dram: u64,
    pub keys: u64,
    pub value_bytes: usize,
}

/// A store, gone when this is dropped.
pub(crate) struct Trial {
    scratch: Scratch,
    options: Options,
    /// Of its own; `None` for what a store has by itself.
    runtime: Option<Runtime>,
    /// Of the setting: ends its runs.
    watch: Arc<Watch>,
    pub size: Size,
}

impl Trial {
    /// A store that is still to be made. `more` are options beside those of the system.
    pub fn new(
        setting: &Setting,
        system: &System,
        more: &[(&str, &str)],
        size: Size,
    ) -> Result<Trial> {
        setting.goes_on()?;
        let mut scratch = Scratch::new_in(&setting.dir, "thermocline-reproduce")?;
        let mut options = Options::preset(system.preset);
        (options.pm, options.dram) = (size.pm, size.dram);
        for (name, value) in system.set.iter().chain(more) {
            options.set(name, value)?;
        }
        match options.in_dram() {
            true => options.wal_path = scratch.logs(setting.pm_dir.as_deref())?,
            false => options.pm_path = scratch.region(setting.pm_dir.as_deref())?,
        }
        Ok(Trial {
            scratch,
            options,
            runtime: None,
            watch: setting.watch.clone(),
            size,
        })
    }

    /// The same; so many threads do its jobs when it is opened by [`Trial::open`].
    pub fn with_jobs(self, jobs: usize) -> Result<Trial> {
        let options = RuntimeOptions {
            // As a store by itself has it: its own limit is enough.
            dram: u64::MAX,
            jobs,
            ..RuntimeOptions::default()
        };
        Ok(Trial {
            runtime: Some(Runtime::new(options)?),
            ..self
        })
    }

    /// One into which every key was loaded once, in random order, and that has nothing left to be done.
    pub fn loaded(
        setting: &Setting,
        system: &System,
        more: &[(&str, &str)],
        size: Size,
    ) -> Result<Trial> {
        let trial = Trial::new(setting, system, more, size)?;
        let mut plan = trial.plan(setting, Workload::FillRandom);
        plan.use_existing = false;
        plan.durability = Durability::Buffered;
        plan.drain = true;
        trial.run(&plan)?;
        Ok(trial)
    }

    /// A run on what is there.
    pub fn plan(&self, setting: &Setting, workload: Workload) -> Plan {
        Plan {
            db: Some(self.folder()),
            use_existing: true,
            num: self.size.keys,
            value_size: self.size.value_bytes,
            key_size: KEY_BYTES,
            durability: match setting.quick {
                true => Durability::Buffered,
                false => Durability::Immediate,
            },
            emulate: self.emulation(setting),
            options: self.options.clone(),
            ..Plan::new(workload)
        }
    }

    /// Where its tables lie, and its logs, unless they lie with persistent memory.
    pub fn folder(&self) -> PathBuf {
        self.scratch.path().join("db")
    }

    /// Of its persistent memory, if it has any.
    fn emulation(&self, setting: &Setting) -> Emulation {
        match self.options.in_dram() {
            true => Emulation::None,
            false => setting.emulate,
        }
    }

    /// Opens it, and makes it if it is not there.
    pub fn open(&self, setting: &Setting) -> Result<Db> {
        let options = Options {
            emulate: self.emulation(setting),
            ..self.options.clone()
        };
        match &self.runtime {
            Some(runtime) => Db::open_in(runtime, self.folder(), options),
            None => Db::open(self.folder(), options),
        }
    }

    /// Runs `plan`.
    ///
    /// # Errors
    /// Those of the run, and of [`trusted`].
    pub fn run(&self, plan: &Plan) -> Result<Report> {
        trusted(thermocline_bench::run(plan, &self.watch.part())?)
    }
}

/// A report of which the numbers can be trusted: no claim is said to hold by others.
///
/// # Errors
/// [`Error::InvalidArgument`] saying why they cannot.
pub(crate) fn trusted(report: Report) -> Result<Report> {
    if report.interrupted {
        return Err(ended_early());
    }
    if let Some(reason) = &report.invalid_reason {
        let workload = report.workload;
        return Err(Error::InvalidArgument(format!(
            "a run of {workload} is invalid: {reason}"
        )));
    }
    Ok(report)
}

/// What updates and reads have come to while background work never was behind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settled {
    /// Bytes written to the SSD for each byte of updates.
    pub ssd: f64,
    /// And to persistent memory.
    pub pm: f64,
    /// The share of reads that persistent memory answers.
    pub pm_share: f64,
}

/// Background work that is due is waited for so often while as much as persistent memory is written.
const STEPS: u64 = 256;

impl Trial {
    /// So many updates, and beside each a read, of keys that are drawn with this skew. Which bytes are written, and where
    /// reads find what they want, is then a matter of what is decided, and not of how far background work is behind.
    pub fn settled(&self, setting: &Setting, theta: f64, updates: u64) -> Result<Settled> {
        let size = self.size;
        let db = self.open(setting)?;
        let before = db.metrics();
        let mut draws = [0, 1].map(|of| Draw::new(skewed(theta), size.keys, SEED, of, 0));
        let mut writer = Writer::new(&size);
        let mut keys = KeyMaker::new(KEY_BYTES);
        let step = (size.pm / (KEY_BYTES + size.value_bytes) as u64 / STEPS).max(1);
        for n in 1..=updates {
            writer.put(&db, draws[0].index(0))?;
            db.get(keys.key(draws[1].index(0)))?;
            if n % step == 0 {
                setting.goes_on()?;
                db.drain()?;
            }
        }
        db.drain()?;
        let after = db.metrics();
        db.close()?;
        let written = (after.user_bytes_written - before.user_bytes_written).max(1) as f64;
        let hits = |of: fn(&Metrics) -> u64| (of(&after) - of(&before)) as f64;
        let in_pm = hits(|m| m.hits.memtable + m.hits.global_index + m.hits.pm_table);
        let on_ssd = hits(|m| m.hits.block_cache + m.hits.ssd);
        Ok(Settled {
            ssd: (after.ssd_bytes_written - before.ssd_bytes_written) as f64 / written,
            pm: (after.pm_bytes_written - before.pm_bytes_written) as f64 / written,
            pm_share: in_pm / (in_pm + on_ssd).max(1.0),
        })
    }
}

/// Writes entries one by one, which nobody measures.
pub(crate) struct Writer {
    keys: KeyMaker,
    values: Values,
}

impl Writer {
    pub fn new(size: &Size) -> Writer {
        Writer {
            keys: KeyMaker::new(KEY_BYTES),
            values: Values::new(size.value_bytes, 1.0, SEED),
        }
    }

    pub fn put(&mut self, db: &Db, index: u64) -> Result<()> {
        let (key, value) = (self.keys.key(index), self.values.next_value());
        db.put_with(key, value, Durability::Buffered)
    }

    /// Writes these keys, and flushes them: a run of level 0, if they fit a memtable.
    pub fn put_run(&mut self, db: &Db, indexes: impl Iterator<Item = u64>) -> Result<()> {
        for index in indexes {
            self.put(db, index)?;
        }
        db.flush()
    }
}

/// Latencies of operations of this kind, in microseconds; `None` if there were none.
pub(crate) fn latency(report: &Report, operation: Operation) -> Option<Latency> {
    match &report.latency_us {
        Latencies::One(one) => Some(*one),
        Latencies::Each(each) => each.get(&operation).copied(),
    }
}

/// Mean latency of reads, in microseconds.
pub(crate) fn read_us(report: &Report) -> f64 {
    latency(report, Operation::Read).map_or(0.0, |read| read.avg)
}

/// Uniform, or zipfian with this skew.
pub(crate) fn skewed(theta: f64) -> Distribution {
    match theta > 0.0 {
        true => Distribution::Zipfian { theta },
        false => Distribution::Uniform,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever prints the figures of such a run says that a claim holds of a store that persists too little.
    #[test]
    fn a_run_that_cannot_be_trusted_is_an_error() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let system = System {
            name: "thermocline",
            preset: Preset::Thermocline,
            set: &[],
        };
        let size = Size {
            pm: 4 << 20,
            dram: 32 << 20,
            keys: 10,
            value_bytes: 10,
        };
        let trial = Trial::new(&setting, &system, &[], size).unwrap();
        let mut plan = trial.plan(&setting, Workload::FillRandom);
        plan.use_existing = false;
        let report = trial.run(&plan).unwrap();
        let report = Report {
            invalid_reason: Some("lines are missing".to_string()),
            ..report
        };
        let error = trusted(report).unwrap_err().to_string();
        let told = ["fillrandom", "lines are missing"];
        assert!(told.iter().all(|word| error.contains(word)), "{error}");
    }

    /// The numbers of a part of a run would be told as those of all of it, and the next store would be made.
    #[test]
    fn who_is_ended_early_fails_and_leaves_nothing_behind() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let system = System {
            name: "thermocline",
            preset: Preset::Thermocline,
            set: &[],
        };
        let size = Size {
            pm: 4 << 20,
            dram: 32 << 20,
            keys: 1000,
            value_bytes: 10,
        };
        let trial = Trial::loaded(&setting, &system, &[], size).unwrap();
        setting.watch.stop();
        let ended = [
            trial.run(&trial.plan(&setting, Workload::ReadRandom)).err(),
            trial.settled(&setting, 0.0, 1000).err(),
            Trial::new(&setting, &system, &[], size).err(),
        ];
        for error in ended {
            let error = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains("ended early"), "{error}");
        }
        drop(trial);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
