//! A store on trial: runs of `bench` on it, one after the other.

use thermocline_base::Result;
use thermocline_base::options::{Options, Preset};
use thermocline_bench::scratch::Scratch;
use thermocline_bench::{Distribution, Latencies, Operation, Plan, Report, Watch, Workload};

use crate::Setting;

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
    size: Size,
}

impl Trial {
    /// Loads every key once, in random order, and waits until nothing is left to be done. `more` are options beside
    /// those of the system.
    pub fn loaded(
        setting: &Setting,
        system: &System,
        more: &[(&str, &str)],
        size: Size,
    ) -> Result<Trial> {
        let mut scratch = Scratch::new_in(&setting.dir, "thermocline-reproduce")?;
        let mut options = Options::preset(system.preset);
        (options.pm, options.dram) = (size.pm, size.dram);
        for (name, value) in system.set.iter().chain(more) {
            options.set(name, value)?;
        }
        match system.preset {
            Preset::Leveled => options.wal_path = scratch.logs(setting.pm_dir.as_deref())?,
            _ => options.pm_path = scratch.region(setting.pm_dir.as_deref())?,
        }
        let trial = Trial {
            scratch,
            options,
            size,
        };
        let mut plan = trial.plan(setting, Workload::FillRandom);
        plan.use_existing = false;
        plan.drain = true;
        trial.run(&plan)?;
        Ok(trial)
    }

    /// A run on what is there.
    pub fn plan(&self, setting: &Setting, workload: Workload) -> Plan {
        Plan {
            db: Some(self.scratch.path().join("db")),
            use_existing: true,
            num: self.size.keys,
            value_size: self.size.value_bytes,
            emulate: setting.emulate,
            options: self.options.clone(),
            ..Plan::new(workload)
        }
    }

    pub fn run(&self, plan: &Plan) -> Result<Report> {
        thermocline_bench::run(plan, &Watch::new())
    }
}

/// Mean latency of reads, in microseconds.
pub(crate) fn read_us(report: &Report) -> f64 {
    match &report.latency_us {
        Latencies::One(one) => one.avg,
        Latencies::Each(each) => each.get(&Operation::Read).map_or(0.0, |read| read.avg),
    }
}

/// Uniform, or zipfian with this skew.
pub(crate) fn skewed(theta: f64) -> Distribution {
    match theta > 0.0 {
        true => Distribution::Zipfian { theta },
        false => Distribution::Uniform,
    }
}
