//! How far cursors usually go.

use thermocline_base::sync::{AtomicU64, Ordering};
use thermocline_policy::tuning::{HABIT_PARTS, HABIT_SPARE_PARTS};
use thermocline_version::Level;

/// What cursors are used to: how many bytes they go through in tables of each level, from where they were
/// placed on. Decaying means. Relaxed: guesses.
#[derive(Debug, Default)]
pub struct Habit([AtomicU64; Level::MAX.0 as usize + 1]);

impl Habit {
    fn of(&self, level: Level) -> Option<&AtomicU64> {
        self.0.get(usize::from(level.0))
    }

    /// How many bytes they go through.
    pub(crate) fn mean(&self, level: Level) -> u64 {
        let mean = self.of(level);
        mean.map_or(0, |mean| mean.load(Ordering::Relaxed))
    }

    /// How many bytes to be ready for.
    pub(crate) fn expected(&self, level: Level) -> u64 {
        let mean = self.mean(level);
        mean + mean / HABIT_SPARE_PARTS
    }

    pub(crate) fn note(&self, level: Level, bytes: u64) {
        let Some(mean) = self.of(level) else { return };
        let before = mean.load(Ordering::Relaxed);
        let after = before - before / HABIT_PARTS + bytes / HABIT_PARTS;
        if after != before {
            mean.store(after, Ordering::Relaxed);
        }
    }
}
