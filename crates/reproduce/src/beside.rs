//! What goes on beside some work, and ends with it.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Says that something is over when this goes, be it by a panic. A scope waits for its threads, so one that was never told would be waited
/// for for ever.
pub(crate) struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        // Relaxed: it guards nothing.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `work` here and `other` on another thread, which ends when it sees that the work is over. Returns what both came to.
pub(crate) fn beside<T, O: Send>(
    other: impl FnOnce(&AtomicBool) -> O + Send,
    work: impl FnOnce() -> T,
) -> (T, O) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let runs = scope.spawn(|| other(&is_over));
        let over = Over(&is_over);
        let done = work();
        drop(over);
        match runs.join() {
            Ok(seen) => (done, seen),
            Err(panic) => resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    fn until_over(is_over: &AtomicBool) -> u64 {
        while !is_over.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        8
    }

    /// If the flag were set by hand behind the work, a panic there would leave the other thread running, and this test with it.
    #[test]
    fn what_goes_on_beside_work_ends_with_it_and_with_its_panic() {
        assert_eq!(beside(until_over, || 7), (7, 8));
        let panics = || beside(until_over, || -> u64 { panic!("in the work") });
        assert!(catch_unwind(panics).is_err());
        let panics = || beside(|_| -> u64 { panic!("beside it") }, || 7);
        assert!(catch_unwind(panics).is_err());
    }
}
