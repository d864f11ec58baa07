//! Whether what a run stored in persistent memory was written back.

use thermocline::{Db, Metrics, Result};

/// What was stored, in bytes, and lines of 64 bytes that were written back, so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    bytes: u64,
    lines: u64,
}

impl Counted {
    pub fn of(metrics: &Metrics) -> Counted {
        Counted {
            bytes: metrics.pm_bytes_written,
            lines: metrics.pm_lines_written_back,
        }
    }

    /// Why a run that began here, and has come to `after`, cannot be trusted.
    fn doubts(self, after: Counted) -> Option<String> {
        let bytes = after.bytes.saturating_sub(self.bytes);
        let lines = after.lines.saturating_sub(self.lines);
        (lines.saturating_mul(64) < bytes).then(|| {
            format!(
                "{bytes} bytes were stored in persistent memory but only {lines} lines of 64 bytes \
                 written back, so not every write was made durable"
            )
        })
    }

    /// The same. What background work has stored, and not written back yet, is no fault: where something seems to be missing,
    /// it is what is missing once that work is `at_rest`.
    fn doubts_at_rest(
        self,
        after: Counted,
        at_rest: impl FnOnce() -> Result<Counted>,
    ) -> Result<Option<String>> {
        match self.doubts(after) {
            None => Ok(None),
            Some(_) => Ok(self.doubts(at_rest()?)),
        }
    }

    /// Why a run of `db` that began here, and has come to `after`, cannot be trusted. May wait for background work.
    ///
    /// # Errors
    /// Those of waiting.
    pub fn reason(self, db: &Db, after: &Metrics) -> Result<Option<String>> {
        self.doubts_at_rest(Counted::of(after), || {
            db.drain()?;
            Ok(Counted::of(&db.metrics()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN: Counted = Counted {
        bytes: 1000,
        lines: 10,
    };

    fn at(bytes: u64, lines: u64) -> Counted {
        let (bytes, lines) = (BEGUN.bytes + bytes, BEGUN.lines + lines);
        Counted { bytes, lines }
    }

    #[test]
    fn a_run_that_skipped_write_backs_says_so() {
        assert_eq!(BEGUN.doubts(at(128, 2)), None);
        let doubts = BEGUN.doubts(at(129, 2));
        assert!(doubts.is_some_and(|r| r.contains("129 bytes")));
        assert_eq!(BEGUN.doubts(BEGUN), None);
    }

    #[test]
    fn what_is_not_written_back_yet_is_no_fault() {
        let reason = |after, rest: Option<Counted>| {
            let at_rest = || Ok(rest.expect("nobody waits where nothing is missing"));
            BEGUN.doubts_at_rest(after, at_rest).unwrap()
        };
        assert_eq!(reason(at(128, 2), None), None);
        assert_eq!(reason(at(129, 2), Some(at(192, 3))), None);
        let missing = reason(at(129, 2), Some(at(193, 3)));
        assert!(missing.is_some_and(|r| r.contains("193 bytes")));
    }
}
