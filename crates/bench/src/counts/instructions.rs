//! Instructions of this thread, as the processor counts them.

use perf_event::events::Hardware;
use perf_event::{Builder, CountAndTime, Counter};

/// One part in so many of the time may be missing: the kernel may begin to measure it a moment before it counts.
const MISSED_PARTS: u64 = 100;

/// Counts instructions of the thread that makes it, in user mode.
pub(super) struct Instructions {
    counter: Counter,
}

impl Instructions {
    /// # Errors
    /// Why they cannot be counted here, in words.
    pub fn new() -> Result<Instructions, String> {
        let built = Builder::new().kind(Hardware::INSTRUCTIONS).build();
        match built {
            Ok(counter) => Ok(Instructions { counter }),
            Err(error) => Err(format!(
                "the kernel does not count instructions here (perf_event_open: {error})"
            )),
        }
    }

    /// How many `work` takes, or why they were not counted, in words; and what it answers.
    pub fn of<T>(mut self, work: impl FnOnce() -> T) -> (Result<u64, String>, T) {
        let enabled = self.counter.enable();
        let done = work();
        let disabled = enabled.and_then(|()| self.counter.disable());
        let counted = disabled.and_then(|()| self.counter.read_count_and_time());
        let counted = counted.map_err(|error| format!("instructions cannot be counted: {error}"));
        (counted.and_then(|counted| whole(&counted)), done)
    }
}

/// What was counted, if that is all. A processor has few counters, which others may want, too; some have cores of two kinds and count on
/// one of them; and there are virtual machines that only seem to count. What is missing then is not known.
fn whole(counted: &CountAndTime) -> Result<u64, String> {
    let CountAndTime {
        count,
        time_enabled,
        time_running,
    } = *counted;
    let enough = time_enabled - time_enabled / MISSED_PARTS;
    match count > 0 && time_running >= enough {
        true => Ok(count),
        false => Err(format!(
            "the processor has counted {count} instructions here, for {time_running} ns of {time_enabled}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_for_a_part_of_the_time_is_no_count() {
        let of = |count, time_running| {
            whole(&CountAndTime {
                count,
                time_enabled: 1000,
                time_running,
            })
        };
        assert_eq!((of(70, 1000), of(70, 990)), (Ok(70), Ok(70)));
        for (count, time_running) in [(70, 989), (70, 0), (0, 1000)] {
            let why = of(count, time_running).unwrap_err();
            assert!(why.contains(&format!("{time_running} ns of 1000")), "{why}");
        }
    }
}
