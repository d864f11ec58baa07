//! When to try again what the system had no room for.
//!
//! A system that refuses something refuses it always, and is not asked again. One that is out of descriptors, memory or
//! threads may have some soon: so the next one who needs it tries again, and, while that is in vain, every second one,
//! every fourth one, and so on, up to [`PAUSE_MAX`].
//!
//! Where there is a simpler way, as interrupts are beside a device or a queue that is polled, the better one is given up in the end
//! ([`POLLED_TRIES`]): threads, which read meanwhile, are the worst of all.

use std::io;

use crate::ring::is_refusal;

/// Of so many one tries, at least, as a power of two.
const PAUSE_MAX: u32 = 6;

/// So often a way that polls is tried, before one without it is taken.
const POLLED_TRIES: u32 = 4;

/// What is known of the tries so far.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    /// In vain, up to [`PAUSE_MAX`].
    failed: u32,
    /// How many do not try before the next one does.
    pause: u32,
}

impl Tries {
    /// Whether who needs it tries.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        is_due
    }

    /// Whether a way that polls, which has just failed so, gives way to a simpler one, instead of being tried again later.
    pub fn falls_back(&self, error: &io::Error) -> bool {
        is_refusal(error) || self.failed + 1 >= POLLED_TRIES
    }

    /// What a try has come to, if that is what will be for good: what there is, or that there will be nothing.
    pub fn settle<T>(&mut self, tried: io::Result<Option<T>>) -> Option<Option<T>> {
        match tried {
            Ok(made) => Some(made),
            Err(error) if is_refusal(&error) => Some(None),
            Err(_) => {
                self.pause = (1 << self.failed) - 1;
                self.failed = (self.failed + 1).min(PAUSE_MAX);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed_by(errno: i32) -> io::Result<Option<u8>> {
        Err(io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn refusals_are_for_good_and_shortages_are_not() {
        // EPERM, EACCES, EINVAL, ENOSYS.
        for refusal in [1, 13, 22, 38] {
            let settled = Tries::default().settle(failed_by(refusal));
            assert_eq!(settled, Some(None), "{refusal}");
        }
        // EAGAIN, ENOMEM, ENFILE, EMFILE.
        for shortage in [11, 12, 23, 24] {
            let settled = Tries::default().settle(failed_by(shortage));
            assert_eq!(settled, None, "{shortage}");
        }
        assert_eq!(Tries::default().settle(Ok(Some(7))), Some(Some(7)));
    }

    #[test]
    fn a_way_that_polls_is_tried_again_after_a_shortage_and_not_for_ever() {
        let error = |errno| io::Error::from_raw_os_error(errno);
        // EPERM, EINVAL, ENOSYS, EOPNOTSUPP.
        for refusal in [1, 22, 38, 95] {
            assert!(Tries::default().falls_back(&error(refusal)), "{refusal}");
        }
        // EINTR, EAGAIN, ENOMEM, EBUSY.
        for shortage in [4, 11, 12, 16] {
            let mut tries = Tries::default();
            for _ in 1..POLLED_TRIES {
                assert!(!tries.falls_back(&error(shortage)), "{shortage}");
                assert_eq!(tries.settle(failed_by(shortage)), None);
            }
            assert!(tries.falls_back(&error(shortage)), "{shortage}");
        }
    }

    #[test]
    fn tries_become_rarer_and_do_not_end() {
        let mut tries = Tries::default();
        let mut tried = Vec::new();
        for read in 0..300 {
            if tries.is_due() {
                tried.push(read);
                assert_eq!(tries.settle(failed_by(24)), None);
            }
        }
        assert_eq!(tried, [0, 1, 3, 7, 15, 31, 63, 127, 191, 255]);
    }
}
