//! How many events wait to be delivered, and how many were dropped because too many did.

use thermocline_policy::tuning::EVENTS_WAITING_MAX;

use crate::event::Event;

/// What waits to be delivered.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub events: u64,
    /// Dropped since the last that was taken.
    lost: u64,
    pub lost_ever: u64,
}

impl Waiting {
    /// Takes `event`, and returns how many were dropped before it; `None` if it is dropped.
    pub fn take(&mut self, event: &Event) -> Option<u64> {
        let last_words = matches!(event, Event::Poisoned { .. } | Event::Closed { .. });
        if self.events >= EVENTS_WAITING_MAX && !last_words {
            self.lost += 1;
            self.lost_ever += 1;
            return None;
        }
        self.events += 1;
        Some(std::mem::take(&mut self.lost))
    }

    /// The oldest is delivered now.
    pub fn leave(&mut self) {
        self.events -= 1;
    }

    /// How many were dropped behind all that waited, when none does any more.
    pub fn lost_at_end(&mut self) -> u64 {
        match self.events {
            0 => std::mem::take(&mut self.lost),
            // They were dropped behind those that wait.
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Waiting {
        let mut waiting = Waiting::default();
        for _ in 0..EVENTS_WAITING_MAX {
            assert_eq!(waiting.take(&Event::WritesResumed), Some(0));
        }
        waiting
    }

    #[test]
    fn what_is_dropped_is_told_before_the_next_or_at_the_end() {
        let mut waiting = full();
        for _ in 0..5 {
            assert_eq!(waiting.take(&Event::WritesResumed), None);
        }
        waiting.leave();
        assert_eq!(waiting.lost_at_end(), 0);
        assert_eq!(waiting.take(&Event::WritesResumed), Some(5));
        assert_eq!(waiting.take(&Event::WritesResumed), None);
        for left in (0..EVENTS_WAITING_MAX).rev() {
            waiting.leave();
            assert_eq!(waiting.lost_at_end(), u64::from(left == 0));
        }
        assert_eq!(waiting.take(&Event::WritesResumed), Some(0));
        assert_eq!((waiting.events, waiting.lost_ever), (1, 6));
    }

    #[test]
    fn that_a_store_has_failed_or_was_closed_is_never_dropped() {
        let mut waiting = full();
        assert_eq!(waiting.take(&Event::WritesResumed), None);
        let cause = "planned".to_string();
        assert_eq!(waiting.take(&Event::Poisoned { cause }), Some(1));
        assert_eq!(waiting.take(&Event::WritesResumed), None);
        assert_eq!(waiting.take(&Event::Closed { error: None }), Some(1));
    }
}
