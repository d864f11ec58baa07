//! Starting threads, which the system may refuse.
//!
//! A limit on threads may be reached for a moment only. So what waits for a thread that was refused asks for it again,
//! with each later request. Nobody else does: a thread that would look from time to time is what is lacking.
//!
//! # Why not with every request
//! Requests come with each put, and under any lock, and a refusal is not cheap: the thread's stack is mapped and
//! unmapped. So the system is left alone for [`PAUSE_NS`] after it has refused. A put that comes in that time reads the
//! clock of ticks; of those that come just after it only the first few ask.
//!
//! # Rejected
//! - *Asking with every n-th request*: where requests are rare, a thread would come too late; where they are frequent,
//!   most of the time would go there.
//! - *Trying several times at once before giving up*: whoever asks may hold the writer's lock.

use std::io;
use std::sync::Arc;
#[cfg(test)]
use std::sync::OnceLock;

use thermocline_base::sync::{AtomicU64, Ordering, thread};
use thermocline_env::Clock;

/// Nanoseconds for which the system is left alone after it has refused a thread. *Chosen* (commit f7b06ca): a refusal is not
/// cheap, and a limit on threads may be reached for a moment only.
pub(crate) const PAUSE_NS: u64 = 10_000_000;

/// Starts threads of one name. See the [module](self).
pub(crate) struct Starter {
    name: &'static str,
    clock: Arc<dyn Clock>,
    /// When the system, which has refused a thread that is still lacking, may be asked again; 0 if none is. Changed under
    /// the lock of what waits for the thread.
    again_ns: AtomicU64,
    /// Whether the system refuses the next thread.
    #[cfg(test)]
    refuses: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Starter {
    pub fn new(name: &'static str, clock: Arc<dyn Clock>) -> Starter {
        Starter {
            name,
            clock,
            again_ns: AtomicU64::new(0),
            #[cfg(test)]
            refuses: OnceLock::new(),
        }
    }

    /// Starts a thread that does `work`.
    ///
    /// # Errors
    /// The system's, which gives none.
    pub fn start<W>(&self, work: W) -> io::Result<thread::JoinHandle<()>>
    where
        W: FnOnce() + Send + 'static,
    {
        #[cfg(test)]
        if self.refuses.get().is_some_and(|refuses| refuses()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        thread::Builder::new().name(self.name.into()).spawn(work)
    }

    /// A start has failed.
    pub fn refused(&self) {
        let again_ns = self.clock.tick_ns().saturating_add(PAUSE_NS);
        self.again_ns.store(again_ns, Ordering::SeqCst);
    }

    /// Whether the system has refused a thread, and is left alone for now. Costs a load where it has not.
    pub fn rests(&self) -> bool {
        self.again_ns().is_some_and(|at| self.clock.tick_ns() < at)
    }

    /// Whether the system has refused a thread, and may be asked again. Costs a load where it has not.
    pub fn may_ask_again(&self) -> bool {
        self.again_ns().is_some_and(|at| self.clock.tick_ns() >= at)
    }

    /// No thread is lacking: nothing waits for one, or one looks now, and asks for others itself. So it is the new thread
    /// that calls this, and not whoever has started it: behind its look another one may have been refused.
    pub fn forget(&self) {
        self.again_ns.store(0, Ordering::SeqCst);
    }

    fn again_ns(&self) -> Option<u64> {
        match self.again_ns.load(Ordering::SeqCst) {
            0 => None,
            at => Some(at),
        }
    }

    /// Has `refuses` decide from now on whether the system refuses a thread. Once.
    #[cfg(test)]
    pub fn refuse_if(&self, refuses: impl Fn() -> bool + Send + Sync + 'static) {
        assert!(self.refuses.set(Box::new(refuses)).is_ok(), "decided");
    }
}
