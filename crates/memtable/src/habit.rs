//! How far cursors usually go.

use thermocline_base::Line;
use thermocline_base::size::index;
use thermocline_base::sync::{AtomicU64, Ordering};
use thermocline_policy::tuning::{HABIT_PARTS, HABIT_TIMES_MAX};

/// Parts of an entry in which the mean is kept: few entries are told apart.
const SCALE: u64 = 16;

/// How many entries of an index cursors use behind a seek: a decaying mean, of all cursors. Relaxed: a guess. It lies apart from what
/// lookups read, since each cursor changes it.
#[derive(Debug, Default)]
pub(crate) struct Habit(Line<AtomicU64>);

impl Habit {
    /// The mean; `None` before any was used.
    pub fn mean(&self) -> Option<usize> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            parts => Some(index(parts / SCALE)),
        }
    }

    /// A cursor has used so many, and not none. More than twice the mean counts as that: one long scan among short ones is soon
    /// forgotten.
    pub fn note(&self, used: usize) {
        let used = (used as u64).saturating_mul(SCALE);
        let before = self.0.load(Ordering::Relaxed);
        let after = match before {
            0 => used,
            _ => before - before / HABIT_PARTS + used.min(HABIT_TIMES_MAX * before) / HABIT_PARTS,
        };
        if after != before {
            self.0.store(after, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_follows_what_is_used_and_one_long_scan_changes_it_little() {
        let habit = Habit::default();
        assert_eq!(habit.mean(), None, "nothing is known yet");
        habit.note(50);
        assert_eq!(habit.mean(), Some(50));
        habit.note(usize::MAX);
        assert_eq!(habit.mean(), Some(56), "as if it had been 100");
        for used in [1, 3, 40] {
            (0..100).for_each(|_| habit.note(used));
            assert_eq!(habit.mean(), Some(used));
        }
    }
}
