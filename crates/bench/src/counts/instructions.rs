//! Instructions of this thread, as the processor counts them.

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

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

    /// How many `work` takes, and what it answers.
    ///
    /// # Errors
    /// Why they were not counted, in words; those of `work` are in its answer.
    pub fn of<T>(mut self, work: impl FnOnce() -> T) -> Result<(u64, T), String> {
        let failed = |error: std::io::Error| format!("instructions cannot be counted: {error}");
        self.counter.enable().map_err(failed)?;
        let done = work();
        self.counter.disable().map_err(failed)?;
        let counted = self.counter.read().map_err(failed)?;
        Ok((counted, done))
    }
}
