//! How much writers are held back: what a put looks at.

use thermocline_observe::cause::StallCause;
use thermocline_policy::pace::{Allowed, need};
use thermocline_policy::pressure::{Cause, Debt, Delay, Due, Limits, Slope, owed_until, waits};

use crate::sync::{AtomicU64, Ordering};

/// The delay for a byte is kept in parts of a nanosecond: so many bits of them.
pub(super) const PART_BITS: u32 = 10;

/// Above the delay stands why.
pub(super) const CAUSE_SHIFT: u32 = 32;

/// Above all of that, whether the disk's reserve has been reached.
pub(super) const FULL: u64 = 1 << 63;

/// See the module's text. Relaxed throughout: numbers that guard nothing.
#[derive(Debug)]
pub(crate) struct Gauge {
    pub(super) slope: Slope,
    due: Due,
    base_bytes: u64,
    /// Delay for a byte, why, and whether the disk is full.
    pub(super) now: AtomicU64,
    pub(super) owed_until: AtomicU64,
    pub(super) relief: super::relief::state::Relief,
    /// Whether the region takes its room from the disk with the tables.
    pub region_on_disk: bool,
}

impl Gauge {
    /// Of a store with so many bytes in its base level, whose work is `due` then.
    pub fn new(base: u64, due: Due) -> Gauge {
        Gauge {
            // How large persistent memory and the disk are is asked each time.
            slope: Slope::new(u64::MAX, base, u64::MAX),
            due,
            base_bytes: base,
            now: AtomicU64::new(0),
            owed_until: AtomicU64::new(0),
            relief: super::relief::state::Relief::default(),
            region_on_disk: false,
        }
    }

    /// Of a store whose region takes its room from the disk with the tables, or not.
    pub fn with_region_on_disk(self, region_on_disk: bool) -> Gauge {
        Gauge {
            region_on_disk,
            ..self
        }
    }

    /// In a store with `pm` bytes of persistent memory, with these limits for the disk, if they are known, and for garbage; and
    /// whether the disk is full.
    pub(super) fn set(
        &self,
        debt: &Debt,
        pm: u64,
        (disk, garbage): (Option<Limits>, Limits),
        full: bool,
    ) {
        let now = match self.slope_of(pm, (disk, garbage)).delay(debt) {
            None => 0,
            Some(delay) => {
                let parts = delay.nanos(1 << PART_BITS);
                parts | (delay.cause as u64) << CAUSE_SHIFT
            }
        };
        let full = if full { FULL } else { 0 };
        self.now.store(now | full, Ordering::Relaxed);
    }

    fn slope_of(&self, pm: u64, (disk, garbage): (Option<Limits>, Limits)) -> Slope {
        Slope {
            disk: disk.unwrap_or(self.slope.disk),
            garbage,
            ..self.slope.behind(pm, &self.due)
        }
    }

    /// How much a debt needs jobs, 0 to 1, in such a store. Its tables in persistent memory have so many bytes, and may have so many.
    pub(super) fn need(
        &self,
        debt: &Debt,
        pm: u64,
        limits: (Option<Limits>, Limits),
        (table_bytes, share): (u64, u64),
    ) -> f64 {
        let allowed = Allowed {
            due: self.due,
            base_bytes: self.base_bytes,
            table_bytes: share,
        };
        need(debt, &self.slope_of(pm, limits), &allowed, table_bytes)
    }

    /// The delay for a byte in parts of a nanosecond, and the number of its cause.
    pub(super) fn parts(&self) -> (u64, u64) {
        let now = self.now.load(Ordering::Relaxed) & !FULL;
        (now & ((1 << CAUSE_SHIFT) - 1), now >> CAUSE_SHIFT)
    }

    /// What is set.
    pub(super) fn get(&self) -> Option<Delay> {
        let (parts, cause) = self.parts();
        let cause = Cause::ALL.into_iter().find(|c| *c as u64 == cause)?;
        (parts > 0).then_some(Delay {
            nanos_per_byte: parts as f64 / f64::from(1 << PART_BITS),
            cause,
        })
    }

    /// Owes what `bytes` bytes cost at the time `clock`. Returns until when to wait, and why.
    pub(super) fn owe(&self, bytes: u64, clock: u64) -> Option<(u64, StallCause)> {
        let (parts, cause) = self.parts();
        let nanos = parts.saturating_mul(bytes) >> PART_BITS;
        let more = |until: u64| Some(owed_until(until, clock, nanos));
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.owed_until.fetch_update(set, fetch, more);
        let until = before.map_or(clock, |before| more(before).unwrap_or(clock));
        let cause = Cause::ALL.into_iter().find(|c| *c as u64 == cause);
        let cause = StallCause::of_pressure(cause?);
        waits(until, clock).then_some((until, cause))
    }
}
