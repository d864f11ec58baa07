//! How writers are held back before anything is full (`compaction::pressure` has the slope).
//!
//! What a write costs in delay is the slope's nanoseconds for each of its bytes. That is reckoned anew when
//! what it depends on has changed, which is seldom: a zone was attached or given back, a job was installed. A write looks
//! at one number, and if that is 0, goes on.
//!
//! Delay is owed by the store, not by each writer: [`Pressure::owed_until`] is a time up to which its writes
//! have used up what the slope allows. Whoever writes moves it on, and waits until it has come, if it
//! is farther away than a moment. So several writers are together as slow as one alone would be, and what
//! a write takes anyway counts. Nobody waits longer than [`DELAY_MAX`] at a time; what a large write
//! owes beyond that is forgotten.
//!
//! Writers wait before they ask for their grant, and hold no lock. Time is the clock's of `env`. Stores
//! without background have no delay.

use thermocline_compaction::pressure::{Cause, Debt, Delay, Slope};

use crate::stall::StallCause;
use crate::store::Inner;
use crate::sync::{AtomicU64, Ordering, lock};
use crate::write::busy;

/// Less than this is owed on, in nanoseconds: sleeps are not shorter.
const PIECE: u64 = 1_000_000;

/// Most that is waited at a time, in nanoseconds.
const DELAY_MAX: u64 = 20_000_000;

/// The delay for a byte is kept in parts of a nanosecond: so many bits of them.
const PART_BITS: u32 = 10;

/// Above the delay stands why.
const CAUSE_SHIFT: u32 = 32;

/// See the module's text. Relaxed throughout: numbers that guard nothing.
#[derive(Debug)]
pub(crate) struct Pressure {
    slope: Slope,
    /// Delay for a byte, and why.
    now: AtomicU64,
    owed_until: AtomicU64,
}

impl Pressure {
    /// Of a store with at most `pm` bytes of persistent memory.
    pub fn new(pm: u64) -> Pressure {
        Pressure {
            // Nobody says how large the disk is.
            slope: Slope::new(pm, u64::MAX),
            now: AtomicU64::new(0),
            owed_until: AtomicU64::new(0),
        }
    }

    fn set(&self, debt: &Debt) {
        let now = match self.slope.delay(debt) {
            None => 0,
            Some(delay) => {
                let parts = delay.nanos(1 << PART_BITS);
                parts | (delay.cause as u64) << CAUSE_SHIFT
            }
        };
        self.now.store(now, Ordering::Relaxed);
    }

    /// What is set.
    fn get(&self) -> Option<Delay> {
        let now = self.now.load(Ordering::Relaxed);
        let (parts, cause) = (now & ((1 << CAUSE_SHIFT) - 1), now >> CAUSE_SHIFT);
        let cause = Cause::ALL.into_iter().find(|c| *c as u64 == cause)?;
        (parts > 0).then_some(Delay {
            nanos_per_byte: parts as f64 / f64::from(1 << PART_BITS),
            cause,
        })
    }

    /// Owes what `bytes` bytes cost at the time `clock`. Returns until when to wait, and why.
    fn owe(&self, bytes: u64, clock: u64) -> Option<(u64, StallCause)> {
        let now = self.now.load(Ordering::Relaxed);
        let (parts, cause) = (now & ((1 << CAUSE_SHIFT) - 1), now >> CAUSE_SHIFT);
        let nanos = parts.saturating_mul(bytes) >> PART_BITS;
        let most = clock.saturating_add(DELAY_MAX);
        let more = |until: u64| Some(until.max(clock).saturating_add(nanos).min(most));
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.owed_until.fetch_update(set, fetch, more);
        let until = before.map_or(clock, |before| more(before).unwrap_or(clock));
        let cause = Cause::ALL.into_iter().find(|c| *c as u64 == cause);
        let cause = StallCause::of_pressure(cause?);
        (until - clock >= PIECE).then_some((until, cause))
    }
}

impl Inner {
    /// What fills up has changed.
    pub fn press(&self) {
        if !self.world.background || !self.flushes() {
            return;
        }
        let (level0_tables, pending_bytes) = self.compaction_debt();
        let keeping = self.keeping();
        // What is kept for change feeds goes as soon as somebody needs the room.
        let kept = lock(&self.reclaim).kept(&keeping).1;
        self.pressure.set(&Debt {
            pm_bytes: self.space.usage().attached_bytes.saturating_sub(kept),
            level0_tables,
            pending_bytes,
            ..Debt::default()
        });
    }

    /// How much writers are held back.
    pub fn pressing(&self) -> Option<Delay> {
        self.pressure.get()
    }

    /// Holds a write of `bytes` bytes back, if that is due. The caller holds no lock.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Busy`] for one with `no_slowdown` that would have to wait.
    #[inline]
    pub fn hold_back(&self, bytes: u64, no_slowdown: bool) -> thermocline_base::Result<()> {
        match self.pressure.now.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => self.delay(bytes, no_slowdown),
        }
    }

    #[cold]
    fn delay(&self, bytes: u64, no_slowdown: bool) -> thermocline_base::Result<()> {
        let clock = &self.world.env.clock;
        let begun = clock.now_ns();
        let owed_until = self.pressure.owed_until.load(Ordering::Relaxed);
        if no_slowdown && owed_until >= begun + PIECE {
            return Err(busy("for flushing or compaction, which are behind"));
        }
        let Some((until, cause)) = self.pressure.owe(bytes, begun) else {
            return Ok(());
        };
        // A store that is being closed, and one whose space was just freed, keeps nobody.
        let waits = || !self.closed.load(Ordering::Relaxed);
        while clock.now_ns() < until && waits() {
            clock.sleep_ms(PIECE / 1_000_000);
        }
        self.stalls
            .note(cause, clock.now_ns().saturating_sub(begun));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
