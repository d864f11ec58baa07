//! A run, from its beginning to its end.

use super::merge::{Table, union_of, whole};
use super::setting::{Outcome, SECOND, Setting};
use super::state::{Active, Run};
use super::store::Store;
use crate::pick::depth;
use crate::pressure::{Debt, Due, Slope};
use crate::room::waiting;

/// Memtables between two looks at what lies where.
const LOOK_EVERY: u64 = 7;

/// Puts a store through this. It begins with all data in its last level; what levels above have is there a second time.
///
/// ```
/// use thermocline_base::options::Preset;
/// use thermocline_policy::simulate::{Record, Setting, Spread, run};
/// let setting = Setting {
///     options: Setting::options(Preset::Thermocline, 256 << 20, 1 << 30),
///     data_bytes: 1 << 30,
///     record: Record { key_bytes: 16, value_bytes: 184 },
///     writes_per_s: 20e6,
///     reads_per_s: 1000.0,
///     scanned_per_s: 0.0,
///     device_per_s: 500e6,
///     skew: 0.0,
///     spread: Spread::Keys,
///     is_filled: false,
///     warm_bytes: 1 << 30,
///     user_bytes: 2 << 30,
///     jobs: 2,
///     clients: 0.0,
/// };
/// let outcome = run(&setting);
/// assert_eq!(outcome, run(&setting));
/// assert!(outcome.write_amplification() > 0.1);
/// ```
pub fn run(setting: &Setting) -> Outcome {
    counted(setting, false)
}

/// As [`run`], but it counts on until level 0 and what waits for a flush are as they were when it began to count, for twice as long at most. So whole
/// rounds of flushes count: level 0 is compacted once in several of them, which may be most of what is written.
pub(super) fn run_in_rounds(setting: &Setting) -> Outcome {
    counted(setting, true)
}

fn counted(setting: &Setting, in_rounds: bool) -> Outcome {
    let mut run = Run::new(setting);
    while run.outcome.user_bytes < setting.warm_bytes as f64 {
        run.fill_memtable();
    }
    run.outcome = Outcome::default();
    (run.counted, run.now_ns) = (0, run.now_ns.max(1.0));
    let (begun, phase) = (run.now_ns, run.phase());
    let least = setting.user_bytes as f64;
    let goes_on =
        |run: &Run| in_rounds && run.phase() != phase && run.outcome.user_bytes < 2.0 * least;
    while run.outcome.user_bytes < least || goes_on(&run) {
        run.fill_memtable();
    }
    let looks = run.counted.div_ceil(LOOK_EVERY).max(1) as f64;
    let mut outcome = run.outcome;
    outcome.seconds = (run.now_ns - begun) / SECOND;
    outcome.pm_table_bytes /= looks;
    outcome.resident_keys /= looks;
    outcome.resident_writes /= looks;
    outcome
}

impl Run {
    /// One that begins.
    pub(super) fn new(setting: &Setting) -> Run {
        let region_bytes = setting.options.region_bytes_max();
        Run {
            slope: Slope::new(region_bytes, setting.options.base_bytes(), u64::MAX)
                .behind(region_bytes, &Due::of(&setting.options)),
            region_bytes,
            store: Store::new(setting),
            setting: setting.clone(),
            sealed: Vec::new(),
            active: Active::default(),
            scanned: 0.0,
            work: Vec::new(),
            nothing_due_at: u64::MAX,
            now_ns: 1.0,
            share: 1.0,
            written: 0,
            outcome: Outcome::default(),
            counted: 0,
        }
    }

    /// A memtable is written full, while background work goes on, and is sealed.
    pub(super) fn fill_memtable(&mut self) {
        let record = self.setting.record;
        let memtable = self.memtable_bytes();
        let bytes = memtable as f64;
        let user = bytes / record.in_memtable() as f64 * record.user() as f64;
        let delay = self.delay();
        let own = SECOND / self.setting.writes_per_s;
        let felt = (delay - own).max(0.0);
        self.outcome.felt_max = self.outcome.felt_max.max(felt);
        self.outcome.held_ns += user * felt;
        let nanos = user * (own + felt);
        self.active.per_ns = bytes / nanos.max(1.0);
        self.advance(nanos);
        self.seal(memtable.saturating_sub(self.active.sealed_sooner));
        self.active = Active::default();
        self.written += memtable / record.in_memtable();
        self.outcome.user_bytes += user;
        self.outcome.pm_written_bytes += bytes;
        self.begin_what_is_due();
        let mut stalled = 0.0;
        while self.attached() + self.next_zones() > self.region_bytes && !self.work.is_empty() {
            stalled += self.advance_to_an_end();
        }
        self.outcome.held_ns += stalled;
        self.outcome.stall_ns_max = self.outcome.stall_ns_max.max(stalled);
        self.look();
    }

    /// So much of a memtable is sealed, unless that is less than a record which is left of one.
    fn seal(&mut self, bytes: u64) {
        let is_left = self.active.sealed_sooner > 0;
        if !is_left || bytes >= self.setting.record.in_memtable() {
            let sealed = self.store.sealed(bytes);
            self.sealed.push(sealed);
        }
    }

    /// The memtable that is written is sealed as it is.
    pub(super) fn seal_active(&mut self) {
        let bytes = whole(self.active.bytes);
        self.seal(bytes);
        self.active.bytes = 0.0;
        self.active.sealed_sooner += bytes;
    }

    /// Where it is in its rounds: runs of level 0 in files, and memtables that wait.
    fn phase(&self) -> (usize, usize) {
        let seen = self.store.seen();
        let files = seen.levels[0].iter().filter(|table| !table.in_pm);
        let files: Vec<_> = files.copied().collect();
        (depth(&files), self.sealed.len())
    }

    /// What lies where.
    fn look(&mut self) {
        let attached = self.attached() + self.next_zones();
        let index = self.index_bytes();
        let outcome = &mut self.outcome;
        outcome.pm_bytes_max = outcome.pm_bytes_max.max(attached);
        outcome.index_bytes_max = outcome.index_bytes_max.max(index);
        self.counted += 1;
        if !(self.counted - 1).is_multiple_of(LOOK_EVERY) {
            return;
        }
        let in_pm = self.store.levels[0].iter().filter(|table| table.in_pm);
        let mut all: Vec<&Table> = in_pm.collect();
        all.extend(self.sealed.iter().map(|sealed| &sealed.table));
        self.outcome.pm_table_bytes += self.store.pm_table_bytes() as f64;
        let keys = &self.store.keys;
        let Some(found) = union_of(&all, keys) else {
            return;
        };
        let of_class = keys.of_class.iter().cycle();
        let weights = &keys.weights[found.first * keys.classes()..];
        let parts = found.records.iter().zip(of_class).zip(weights);
        let often = parts.map(|((records, n), weight)| weight * records / n);
        self.outcome.resident_writes += often.sum::<f64>();
        let every: f64 = keys.of_class.iter().sum::<f64>() * keys.cells() as f64;
        self.outcome.resident_keys += found.entries / every;
    }

    /// What records the memtable takes until it is sealed.
    pub(super) fn memtable_bytes(&self) -> u64 {
        let tables = self.store.pm_table_bytes() > 0;
        self.setting.options.memtable_bytes_beside(tables)
    }

    /// What its zones have.
    fn next_zones(&self) -> u64 {
        self.store.zones_of_memtable(self.memtable_bytes())
    }

    /// Persistent memory in use, without the memtable that is being written.
    pub(super) fn attached(&self) -> u64 {
        let sealed = self.sealed.iter().map(|sealed| sealed.numbers.bytes);
        let zones = sealed.map(|bytes| self.store.zones_of_memtable(bytes));
        zones.sum::<u64>() + self.flushing().zones + self.store.pm_table_bytes()
    }

    /// DRAM of the indexes of memtables.
    pub(super) fn index_bytes(&self) -> u64 {
        let active = self.memtable_bytes() / self.setting.record.in_memtable();
        let sealed = self.sealed.iter().map(|sealed| sealed.numbers.records);
        let records = active + sealed.sum::<u64>() + self.flushing().records;
        records * self.setting.record.in_index()
    }

    /// What fills up.
    pub(super) fn debt(&self) -> Debt {
        let share = self.setting.options.level0_pm_bytes().unwrap_or(0);
        let at_home = self.store.pm_table_bytes().min(share);
        let attached = self.attached() + self.next_zones();
        Debt {
            pm_bytes: waiting(attached, at_home, self.region_bytes),
            ..self.store.debt()
        }
    }

    /// Nanoseconds for a byte by which writers are held back.
    fn delay(&mut self) -> f64 {
        let (debt, outcome) = (self.debt(), &mut self.outcome);
        outcome.level0_runs_max = outcome.level0_runs_max.max(debt.level0_tables);
        outcome.pending_bytes_max = outcome.pending_bytes_max.max(debt.pending_bytes);
        let Some(delay) = self.slope.delay(&debt) else {
            return 0.0;
        };
        if delay.nanos_per_byte > self.outcome.delay_max {
            self.outcome.delay_max = delay.nanos_per_byte;
            self.outcome.cause = Some(delay.cause);
        }
        delay.nanos_per_byte
    }
}
