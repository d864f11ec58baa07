//! What a store is put through, and what becomes of it.

use thermocline_base::options::{Options, Preset};

use super::record::Record;
use crate::pressure::Cause;

/// Nanoseconds in a second.
pub(super) const SECOND: f64 = 1e9;

/// Where keys lie that are written often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spread {
    /// Anywhere among the others.
    #[default]
    Keys,
    /// Together: it is ranges of keys that are written often, or seldom.
    Ranges,
}

/// What a store is put through. Sizes in bytes, as users count them: keys and values.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// How it was opened.
    pub options: Options,
    /// All keys with their values.
    pub data_bytes: u64,
    /// A record.
    pub record: Record,
    /// Written in a second.
    pub writes_per_s: f64,
    /// Keys read in a second.
    pub reads_per_s: f64,
    /// Entries read in a second by scans, of all keys alike.
    pub scanned_per_s: f64,
    /// What the device writes or reads in a second. If it is infinite all background work takes no time.
    pub device_per_s: f64,
    /// How unlike keys are: 0 is alike; with 1 the n-th is written one n-th as often as the first.
    pub skew: f64,
    /// Of what: keys, or ranges of them.
    pub spread: Spread,
    /// Whether the store begins with levels as full as they may be: else with all data in the last one.
    pub is_filled: bool,
    /// How much is written before it counts.
    pub warm_bytes: u64,
    /// How much is written that counts.
    pub user_bytes: u64,
    /// Jobs that run beside a flush.
    pub jobs: usize,
    /// Reads of clients that are under way at the device at any time, a mean. Each has as much of it as a flush or a job has.
    pub clients: f64,
}

impl Setting {
    /// The usual options of a preset on persistent memory.
    pub fn options(preset: Preset, pm_bytes: u64, dram_bytes: u64) -> Options {
        let options = Options {
            pm: pm_bytes,
            dram: dram_bytes,
            ..Options::preset(preset)
        };
        options.settled().on_region(true)
    }
}

/// What became of it, once it counted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// Bytes that writers have written.
    pub user_bytes: f64,
    /// Bytes written to the SSD by flushes.
    pub flushed_bytes: f64,
    /// Bytes written to the SSD by compactions.
    pub compacted_bytes: f64,
    /// Bytes that the device has moved, read or written.
    pub moved_bytes: f64,
    /// Bytes written into memtables in persistent memory, and into tables there.
    pub pm_written_bytes: f64,
    /// Nanoseconds that processors have worked in the background.
    pub processor_ns: f64,
    /// Seconds.
    pub seconds: f64,
    /// Bytes of tables in persistent memory, a mean over memtables.
    pub pm_table_bytes: f64,
    /// Keys that are found in persistent memory, or DRAM, as a part of all: a mean over memtables.
    pub resident_keys: f64,
    /// Likewise of keys as often as they are written.
    pub resident_writes: f64,
    /// Most persistent memory that was in use.
    pub pm_bytes_max: u64,
    /// Most DRAM of indexes.
    pub index_bytes_max: u64,
    /// The most delay, in nanoseconds for a byte.
    pub delay_max: f64,
    /// What asked for it.
    pub cause: Option<Cause>,
    /// What of it writers feel: beyond what a byte takes them anyway.
    pub felt_max: f64,
    /// Nanoseconds for which writers were held back.
    pub held_ns: f64,
    /// The longest time, in nanoseconds, for which there was no persistent memory for a writer.
    pub stall_ns_max: f64,
    /// Flushes, and those that were due because indexes took their share of DRAM.
    pub flushes: u64,
    /// See `flushes`.
    pub flushes_for_dram: u64,
    /// Records of memtables that became tables since they were scanned, and entries that scans have collected of memtables.
    pub records_for_scans: u64,
    /// See `records_for_scans`.
    pub scanned: f64,
    /// Times that flushes began to skip level 0, or ended to.
    pub skip_changes: u64,
    /// Jobs: merges inside persistent memory, and others.
    pub jobs: (u64, u64),
    /// Bytes that the device has moved for jobs while they ran.
    pub job_bytes: f64,
    /// Nanoseconds for which jobs ran that use the device.
    pub job_ns: f64,
    /// Most runs of level 0 that count for delay.
    pub level0_runs_max: u64,
    /// Most bytes that have waited for compaction.
    pub pending_bytes_max: u64,
}

impl Outcome {
    /// Bytes on the SSD for each byte that was written.
    pub fn write_amplification(&self) -> f64 {
        (self.flushed_bytes + self.compacted_bytes) / self.user_bytes.max(1.0)
    }

    /// What the device moves for each byte that was written.
    pub fn moved_for_each(&self) -> f64 {
        self.moved_bytes / self.user_bytes.max(1.0)
    }

    /// Nanoseconds of processors in the background for each byte that was written.
    pub fn processor_for_each(&self) -> f64 {
        self.processor_ns / self.user_bytes.max(1.0)
    }

    /// What the device moves for jobs in a second in which some run.
    pub fn jobs_per_s(&self) -> f64 {
        self.job_bytes / (self.job_ns / SECOND).max(f64::MIN_POSITIVE)
    }

    /// Bytes written in a second, as far as writers were not held back.
    pub fn written_per_s(&self) -> f64 {
        self.user_bytes / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// The longest time for which a write of `batch_bytes` at once was held back, in nanoseconds.
    pub fn wait_ns_max(&self, batch_bytes: u64) -> f64 {
        (self.felt_max * batch_bytes as f64).max(self.stall_ns_max)
    }
}
