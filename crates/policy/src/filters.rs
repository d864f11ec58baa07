//! Which jobs ask a family's compaction filter.
//!
//! A job whose filter has done something comes to nothing if at its end a reader is registered that would see that. It
//! is then done again without the filter. Where somebody always reads, every job would be done twice. So the filter
//! rests after each such job, for twice as many jobs as the time before: in the long run one job of
//! [`FILTER_RESTS_MAX`] is done twice.

use crate::tuning::{FILTER_RESTS_GROWTH, FILTER_RESTS_MAX};

/// The turns of one family's filter.
///
/// ```
/// use thermocline_policy::filters::FilterTurns;
/// let mut turns = FilterTurns::default();
/// assert!(turns.take());
/// turns.failed();
/// assert!(!turns.take() && turns.take());
/// turns.failed();
/// assert!(!turns.take() && !turns.take() && turns.take());
/// turns.succeeded();
/// assert!(turns.take());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilterTurns {
    /// Jobs that are still to go without it.
    rests: u32,
    /// How many did so the last time.
    rested: u32,
}

impl FilterTurns {
    /// Whether the next job asks it.
    pub fn take(&mut self) -> bool {
        let takes = self.rests == 0;
        self.rests = self.rests.saturating_sub(1);
        takes
    }

    /// A job that has asked it came to nothing for that.
    pub fn failed(&mut self) {
        self.rested = (FILTER_RESTS_GROWTH * self.rested).clamp(1, FILTER_RESTS_MAX);
        self.rests = self.rested;
    }

    /// What it has said came true.
    pub fn succeeded(&mut self) {
        *self = FilterTurns::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_every_job_fails_few_are_done_twice() {
        let mut turns = FilterTurns::default();
        let mut asked = 0;
        for _ in 0..10_000 {
            if turns.take() {
                asked += 1;
                turns.failed();
            }
        }
        let rests = u64::from(FILTER_RESTS_MAX);
        assert!((1..=10_000 / rests + 7).contains(&asked), "{asked}");
    }
}
