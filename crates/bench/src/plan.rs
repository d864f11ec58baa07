//! What to run.

use std::path::PathBuf;

use thermocline::options::Emulation;
use thermocline::{Durability, Error, Options, Result, limits};

use crate::distribution::Distribution;
use crate::keys::INDEX_BYTES;
use crate::values::Values;
use crate::workload::Workload;

/// Most threads of a run.
pub(crate) const THREADS_MAX: usize = 1024;

/// Seconds, and operations a second, are fewer than this, and a rate has one operation in so many seconds at least: what is
/// made of them fits the clock's numbers.
const SECONDS_END: f64 = 1e9;

/// One run, described.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What to do.
    pub workload: Workload,
    /// The database's folder; `None` for a temporary one that goes after the run.
    pub db: Option<PathBuf>,
    /// Use the database and the keys that are there. New keys come behind the last of them.
    pub use_existing: bool,
    /// Distinct keys; for the workloads that only write them also the number of writes.
    pub num: u64,
    /// Operations of a workload that loads keys first, and of no other; `None` for `num`.
    pub reads: Option<u64>,
    /// Run for so many seconds instead of a number of operations. The fills end early if they have
    /// written every key.
    pub duration: Option<f64>,
    /// Most seconds that operations take: those that are left then are not done. `None` for no limit.
    pub seconds_max: Option<f64>,
    /// Operations a second, over all threads; those beside the workload's own do not count. `None` for as many as can be.
    pub rate: Option<f64>,
    /// Threads that share the operations.
    pub threads: usize,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// When a write counts as done.
    pub durability: Durability,
    /// Writes committed together; for reads of several keys, the keys.
    pub batch: usize,
    /// Reads or scans that one thread keeps in flight.
    pub async_depth: usize,
    /// Reads and scans are futures even where only one is in flight.
    pub awaited: bool,
    /// How keys are chosen; `None` for what the workload does by itself.
    pub distribution: Option<Distribution>,
    /// The seed of everything random.
    pub seed: u64,
    /// Entries that a scan reads, at most, of a workload that makes some; `None` for what it does by itself.
    pub scan_length: Option<u64>,
    /// Write every key once before `overwrite` begins, which is not counted. Other workloads load what they need.
    pub preload: bool,
    /// Wait for background work after the keys are loaded, before anything counts.
    pub settle: bool,
    /// Wait for background work at the end, and count that time and work.
    pub drain: bool,
    /// Look every second how much the store takes of the SSD. The report has what was seen.
    pub space: bool,
    /// How the region is slowed down, for this run only.
    pub emulate: Emulation,
    /// The part of its size that a value compresses to; 1 is incompressible.
    pub compressible: f64,
    /// Options of the store.
    pub options: Options,
}

impl Plan {
    /// The plan for `workload` with every default.
    pub fn new(workload: Workload) -> Plan {
        Plan {
            workload,
            db: None,
            use_existing: false,
            num: 100_000,
            reads: None,
            duration: None,
            seconds_max: None,
            rate: None,
            threads: 1,
            key_size: 16,
            value_size: 100,
            durability: Durability::Immediate,
            batch: 1,
            async_depth: 1,
            awaited: false,
            distribution: None,
            seed: 42,
            scan_length: None,
            preload: false,
            settle: false,
            drain: false,
            space: false,
            emulate: Emulation::None,
            compressible: 1.0,
            options: Options::default(),
        }
    }

    /// How this run chooses keys.
    pub fn effective_distribution(&self) -> Distribution {
        if self.workload.distribution_is_fixed() {
            return self.workload.distribution();
        }
        self.distribution.unwrap_or(self.workload.distribution())
    }

    /// Entries that a scan of this run reads, at most.
    pub fn effective_scan_length(&self) -> u64 {
        self.scan_length.unwrap_or(self.workload.scan_length())
    }

    /// The values of a thread. A seed may be any number, the largest, too.
    pub(crate) fn values(&self, thread: u64) -> Values {
        let seed = self.seed.wrapping_add(thread);
        Values::new(self.value_size, self.compressible, seed)
    }

    /// How many reads or scans each thread keeps in flight, as futures; `None` if it waits for each.
    pub fn awaited_depth(&self) -> Option<usize> {
        (self.awaited || self.async_depth > 1).then_some(self.async_depth)
    }

    /// Whether keys are loaded before anything counts, unless they are there.
    pub fn loads(&self) -> bool {
        self.workload.loads_first() || self.preload
    }

    /// How many keys live when so many operations are done, if that is known. With `use_existing` the plan's keys are taken
    /// to be there.
    fn live_keys(&self, done: u64) -> Option<u64> {
        match self.workload {
            // How many different keys were deleted nobody counts, nor how many were inserted so far.
            Workload::DeleteRandom | Workload::YcsbD | Workload::YcsbE => None,
            _ if self.loads() || self.use_existing => Some(self.num),
            Workload::FillSeq | Workload::FillRandom | Workload::YcsbLoad => {
                Some(done.min(self.num))
            }
            _ => None,
        }
    }

    /// Bytes of those keys and their values. A plan may say of any number of keys that they are there.
    pub(crate) fn live_bytes(&self, done: u64) -> Option<u64> {
        let entry = (self.key_size + self.value_size) as u64;
        Some(self.live_keys(done)?.saturating_mul(entry))
    }

    /// Operations of this run, if nothing ends it early.
    pub fn operations(&self) -> u64 {
        if self.loads() {
            self.reads.unwrap_or(self.num)
        } else {
            self.num
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the option and its limit, [`Error::Unsupported`] naming
    /// the part that is missing.
    pub fn validate(&self) -> Result<()> {
        within("num", self.num, 1, u64::MAX >> 1)?;
        within("reads", self.operations(), 1, u64::MAX >> 1)?;
        within("threads", self.threads as u64, 1, THREADS_MAX as u64)?;
        let key_max = limits::KEY_LEN_MAX as u64;
        within(
            "key-size",
            self.key_size as u64,
            INDEX_BYTES as u64,
            key_max,
        )?;
        let value_max = limits::VALUE_LEN_MAX as u64;
        within("value-size", self.value_size as u64, 0, value_max)?;
        within("batch", self.batch as u64, 1, 1 << 20)?;
        within(
            "scan-length",
            self.effective_scan_length(),
            1,
            u64::MAX >> 1,
        )?;
        within("async-depth", self.async_depth as u64, 1, 1 << 16)?;
        if !(self.compressible > 0.0 && self.compressible <= 1.0) {
            return Err(Error::InvalidArgument(format!(
                "compressible is the part of its size that a value compresses to, above 0 and at \
                 most 1; {} was given",
                self.compressible
            )));
        }
        self.validate_seconds()?;
        self.validate_rate()?;
        if self.use_existing && self.db.is_none() {
            return Err(Error::InvalidArgument(
                "use-existing needs the database's folder: add --db DIR".to_string(),
            ));
        }
        if self
            .distribution
            .is_some_and(|d| d != self.effective_distribution())
        {
            return Err(Error::InvalidArgument(format!(
                "{} always chooses keys in the way '{}'; leave distribution out",
                self.workload.name(),
                self.effective_distribution()
            )));
        }
        if self.batch > 1 && !self.workload.batches() {
            return Err(Error::InvalidArgument(format!(
                "{} does one thing at a time; leave batch out",
                self.workload.name()
            )));
        }
        self.validate_counts()?;
        self.validate_load()?;
        if self.awaited_depth().is_some() && !self.workload.overlaps() {
            return Err(Error::InvalidArgument(format!(
                "{} has no reads that could be under way at once; leave {} out",
                self.workload.name(),
                self.futures_option()
            )));
        }
        Ok(())
    }

    fn validate_counts(&self) -> Result<()> {
        if self.reads.is_some() && !self.loads() {
            return Err(Error::InvalidArgument(format!(
                "{} writes as often as num says where it loads no keys; leave reads out",
                self.workload.name()
            )));
        }
        if self.scan_length.is_some() && !self.workload.scans() {
            return Err(Error::InvalidArgument(format!(
                "{} makes no scans; leave scan-length out",
                self.workload.name()
            )));
        }
        Ok(())
    }

    fn validate_load(&self) -> Result<()> {
        if self.preload && self.workload != Workload::Overwrite {
            return Err(Error::InvalidArgument(format!(
                "{} needs no keys, or loads them by itself; leave preload out",
                self.workload.name()
            )));
        }
        if self.preload && self.use_existing {
            return Err(Error::InvalidArgument(
                "preload writes the keys that use-existing finds; leave one of them out"
                    .to_string(),
            ));
        }
        if self.settle && !self.loads() {
            return Err(Error::InvalidArgument(format!(
                "{} loads no keys that could settle; leave settle out",
                self.workload.name()
            )));
        }
        if self.space && self.workload == Workload::DeviceRead {
            return Err(Error::InvalidArgument(
                "deviceread reads while the store is closed and its room does not change; leave space out"
                    .to_string(),
            ));
        }
        Ok(())
    }

    fn validate_rate(&self) -> Result<()> {
        let fits = |rate: f64| (SECONDS_END.recip()..SECONDS_END).contains(&rate);
        if self.rate.is_some_and(|rate| !fits(rate)) {
            return Err(Error::InvalidArgument(
                "rate is a number of operations a second, from 0.000000001 to below 1000000000"
                    .to_string(),
            ));
        }
        if self.rate.is_some() && self.awaited_depth().is_some() {
            return Err(Error::InvalidArgument(format!(
                "with {} reads begin when others end; leave rate out",
                self.futures_option()
            )));
        }
        Ok(())
    }

    /// The option by which reads are futures.
    fn futures_option(&self) -> &'static str {
        match self.async_depth {
            1 => "awaited",
            _ => "async-depth",
        }
    }

    fn validate_seconds(&self) -> Result<()> {
        check_seconds("duration", self.duration)?;
        check_seconds("seconds-max", self.seconds_max)?;
        if self.duration.is_some() && self.seconds_max.is_some() {
            return Err(Error::InvalidArgument(
                "duration says how long the run takes; leave seconds-max out".to_string(),
            ));
        }
        Ok(())
    }
}

/// Refuses a time that is none, or more than fits the clock's numbers.
pub(crate) fn check_seconds(name: &str, seconds: Option<f64>) -> Result<()> {
    if seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds < SECONDS_END)) {
        return Err(Error::InvalidArgument(format!(
            "{name} is a number of seconds above 0 and below 1000000000"
        )));
    }
    Ok(())
}

/// Refuses a number that is too small or too large.
pub(crate) fn within(name: &str, value: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "{name} lies between {min} and {max}; {value} was given"
    )))
}
