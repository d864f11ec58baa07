//! What a user may expect of a store: a run at no cost says what background work is for each byte that is written, and one on the
//! given machine how writers feel it.

use thermocline_base::limits::MEMTABLES_MAX;
use thermocline_base::options::Options;

use super::merge::whole;
use super::record::Record;
use super::run::run_in_rounds;
use super::setting::{Outcome, Setting, Spread};
use crate::pressure::Cause;
use crate::tuning::DESCRIPTORS_SHORT;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// How the store is opened.
    pub options: Options,
    /// All keys with their values, in bytes.
    pub data_bytes: u64,
    /// A record.
    pub record: Record,
    /// Bytes of keys and values written in a second.
    pub writes_per_s: f64,
    /// Keys read in a second.
    pub reads_per_s: f64,
    /// Bytes that the device writes or reads in a second.
    pub device_per_s: f64,
    /// How unlike keys are.
    pub skew: f64,
    /// Of what.
    pub spread: Spread,
    /// Processors for background work.
    pub processors: usize,
}

/// What a store is limited by first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The device.
    Device,
    /// Processors.
    Processors,
    /// Persistent memory: writers wait for it.
    Memory,
    /// Levels: bytes that wait for compaction, or tables of level 0, are so many that writers are held back.
    Levels,
    /// DRAM: indexes take their share of it before persistent memory is used.
    Dram,
    /// None of these.
    Nothing,
}

impl Bound {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Device => "SSD",
            Bound::Processors => "processors",
            Bound::Memory => "persistent memory",
            Bound::Levels => "levels",
            Bound::Dram => "DRAM",
            Bound::Nothing => "nothing",
        }
    }
}

/// What may be expected, once a store has been written to for long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// At no cost.
    pub ideal: Outcome,
    /// On this machine, at this rate.
    pub felt: Outcome,
    /// Bytes of tables written to the SSD for each byte that is written.
    pub write_amplification: f64,
    /// Bytes of a log, at least, for each byte that is written: where records lie in DRAM.
    pub logged: f64,
    /// Bytes written to the SSD, and read from it by background work, in a second, at the rate that is asked for.
    pub ssd_written_per_s: f64,
    /// See `ssd_written_per_s`.
    pub ssd_read_per_s: f64,
    /// The part of the device that is used.
    pub device_used: f64,
    /// Processors that background work keeps busy.
    pub processors_busy: f64,
    /// The rate at which the device, or the processors, would be used in full.
    pub writes_per_s_max: f64,
    /// Which of the two.
    pub full_first: Bound,
    /// What limits first.
    pub bound: Bound,
}

/// Memtables that may wait for a flush before descriptors run short.
const SEALED_MAX: u64 = MEMTABLES_MAX as u64 - DESCRIPTORS_SHORT as u64;

/// No more tables than this stand beside each other in persistent memory: larger stores are modelled with larger tables.
const TABLES_MAX: u64 = 128;

/// Memtables that are modelled, at most, of a store whose persistent memory takes more to fill: so many before it
/// counts, and so many that count.
const MODELLED_MAX: (f64, f64) = (2304.0, 4608.0);

/// Bytes of the write whose longest wait is told.
pub const BATCH_BYTES: u64 = 16 << 10;

/// A wait that is none, in nanoseconds.
const WAIT_NS: f64 = 10e6;

impl Demand {
    /// What a flush takes: the share of memtables, as far as there are places for them.
    fn flush_bytes(&self) -> u64 {
        let memtable = self.options.memtable_bytes();
        let share = self.options.region_bytes_max() / 100 * self.options.sealed_percent();
        share.clamp(memtable, SEALED_MAX * memtable)
    }

    /// What becomes of it on this machine.
    pub fn felt(&self) -> Outcome {
        run_in_rounds(&self.setting(self.device_per_s))
    }

    /// What becomes of it at no cost.
    pub(super) fn ideal(&self) -> Outcome {
        run_in_rounds(&self.setting(f64::INFINITY))
    }

    /// Bytes of a log, at least, for each byte that is written.
    fn logged(&self) -> f64 {
        match self.options.in_dram() {
            true => self.record.in_memtable() as f64 / self.record.user() as f64,
            false => 0.0,
        }
    }

    /// The rates at which the device, and the processors, would be used in full, if that becomes of it at no cost.
    pub(super) fn rates_max(&self, ideal: &Outcome) -> (f64, f64) {
        let moved = ideal.moved_for_each() + self.logged();
        let processors = ideal.processor_for_each();
        // A flush has a thread beside the jobs.
        let all = self.processors.max(1) as f64 + 1.0;
        (
            self.device_per_s / moved.max(f64::MIN_POSITIVE),
            all * 1e9 / processors.max(f64::MIN_POSITIVE),
        )
    }

    fn setting(&self, device_per_s: f64) -> Setting {
        let mut options = self.options.clone();
        let region = options.region_bytes_max();
        let table = options.table_bytes().max(region / TABLES_MAX);
        // Levels are as they would be.
        options.compaction.base_bytes = options.base_bytes();
        options.compaction.table_bytes = table;
        let flush = self.flush_bytes() as f64;
        let user = self.record.user() as f64 / self.record.in_memtable() as f64;
        let memtable = self.options.memtable_bytes() as f64;
        let bytes = |regions: f64, flushes: f64, memtables: f64| {
            let most = (memtables * memtable).max(flushes * flush);
            let of_region = (regions * region as f64).clamp(flushes * flush, most);
            whole(of_region * user)
        };
        Setting {
            options,
            data_bytes: self.data_bytes,
            record: self.record,
            writes_per_s: self.writes_per_s,
            reads_per_s: self.reads_per_s,
            scanned_per_s: 0.0,
            device_per_s,
            skew: self.skew,
            spread: self.spread,
            is_filled: true,
            warm_bytes: bytes(2.0, 8.0, MODELLED_MAX.0),
            user_bytes: bytes(3.0, 16.0, MODELLED_MAX.1),
            jobs: self.processors.max(1),
            clients: 0.0,
        }
    }
}

/// What may be expected.
///
/// ```
/// use thermocline_base::options::Preset;
/// use thermocline_policy::simulate::{Demand, Record, Setting, Spread, forecast};
/// let demand = Demand {
///     options: Setting::options(Preset::Thermocline, 256 << 20, 1 << 30),
///     data_bytes: 1 << 30,
///     record: Record { key_bytes: 16, value_bytes: 400 },
///     writes_per_s: 20e6,
///     reads_per_s: 0.0,
///     device_per_s: 500e6,
///     skew: 0.9,
///     spread: Spread::Keys,
///     processors: 2,
/// };
/// let forecast = forecast(&demand);
/// assert!(forecast.device_used < 1.0 && forecast.writes_per_s_max > 20e6);
/// ```
pub fn forecast(demand: &Demand) -> Forecast {
    let ideal = demand.ideal();
    let felt = demand.felt();
    let rate = demand.writes_per_s;
    let logged = demand.logged();
    let written = ideal.write_amplification() + logged;
    let moved = ideal.moved_for_each() + logged;
    let busy = ideal.processor_for_each() * rate / 1e9;
    let (by_device, by_processors) = demand.rates_max(&ideal);
    let device_used = rate * moved / demand.device_per_s;
    let waits = felt.wait_ns_max(BATCH_BYTES) > WAIT_NS;
    let full_first = match by_device <= by_processors {
        true => Bound::Device,
        false => Bound::Processors,
    };
    let writes_per_s_max = by_device.min(by_processors);
    let bound = match felt.cause {
        _ if rate >= writes_per_s_max => full_first,
        Some(Cause::PmFill) if waits => Bound::Memory,
        Some(_) if waits => Bound::Levels,
        _ if ideal.flushes_for_dram > 0 => Bound::Dram,
        _ => Bound::Nothing,
    };
    Forecast {
        write_amplification: ideal.write_amplification(),
        logged,
        ssd_written_per_s: rate * written,
        ssd_read_per_s: rate * (moved - written).max(0.0),
        device_used,
        processors_busy: busy,
        writes_per_s_max,
        full_first,
        bound,
        ideal,
        felt,
    }
}
