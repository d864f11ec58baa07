//! A run, from its beginning to its end.

use thermocline_base::options::Options;

use super::setting::{Outcome, SECOND, Setting};
use super::state::Run;
use super::store::Store;
use crate::pressure::Slope;
use crate::room::waiting;

/// Puts a store through this. It begins with all data in its last level.
///
/// ```
/// use thermocline_policy::simulate::{Setting, run};
/// let setting = Setting {
///     data_bytes: 1 << 30,
///     pm_bytes: 256 << 20,
///     record_bytes: 200,
///     writes_per_s: 20e6,
///     reads_per_s: 1000.0,
///     device_per_s: 500e6,
///     skew: 0.0,
///     user_bytes: 2 << 30,
///     jobs: 2,
/// };
/// let outcome = run(&setting);
/// assert_eq!(outcome, run(&setting));
/// assert!(outcome.write_amplification() > 0.1);
/// ```
pub fn run(setting: &Setting) -> Outcome {
    let options = Options {
        pm: setting.pm_bytes,
        ..Options::default()
    };
    let mut run = Run {
        slope: Slope::new(setting.pm_bytes, u64::MAX),
        memtable_bytes: options.memtable_bytes(),
        store: Store::new(setting, &options),
        setting: *setting,
        options,
        sealed: Vec::new(),
        work: Vec::new(),
        now_ns: 1.0,
        outcome: Outcome::default(),
    };
    while run.outcome.user_bytes < setting.user_bytes as f64 {
        run.fill_memtable();
    }
    run.outcome.seconds = run.now_ns / SECOND;
    run.outcome.pm_table_bytes /= run.outcome.flushes.max(1) as f64;
    run.outcome
}

impl Run {
    /// A memtable is written full, while background work goes on, and is sealed.
    fn fill_memtable(&mut self) {
        let bytes = self.memtable_bytes as f64;
        let delay = self.delay();
        let own = SECOND / self.setting.writes_per_s;
        let felt = (delay - own).max(0.0);
        self.outcome.delay_max = self.outcome.delay_max.max(delay);
        self.outcome.felt_max = self.outcome.felt_max.max(felt);
        self.advance(bytes * (own + felt));
        let sealed = self.store.sealed(self.memtable_bytes);
        self.sealed.push(sealed);
        self.outcome.user_bytes += bytes;
        self.begin_what_is_due();
        let mut stalled = 0.0;
        while self.attached() + self.memtable_bytes > self.setting.pm_bytes && !self.work.is_empty()
        {
            stalled += self.advance_to_an_end();
        }
        self.outcome.stall_ns_max = self.outcome.stall_ns_max.max(stalled);
    }

    /// Persistent memory in use, without the memtable that is being written.
    pub(super) fn attached(&self) -> u64 {
        let memtables = (self.sealed.len() + self.flushing()) as u64;
        memtables * self.memtable_bytes + self.store.pm_table_bytes()
    }

    /// Nanoseconds for a byte by which writers are held back.
    fn delay(&self) -> f64 {
        let mut debt = self.store.debt();
        let share = self.options.level0_pm_bytes().unwrap_or(0);
        let at_home = self.store.pm_table_bytes().min(share);
        let attached = self.attached() + self.memtable_bytes;
        debt.pm_bytes = waiting(attached, at_home, self.setting.pm_bytes);
        let delay = self.slope.delay(&debt);
        delay.map_or(0.0, |delay| delay.nanos_per_byte)
    }
}
