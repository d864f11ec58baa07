//! How jobs wait for the device.

/// How flushes and compactions read, merge and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scheduler {
    /// One after the other: the thread of a job waits for each read and each write.
    Threads,
    /// A job is divided among coroutines of one thread, each of which reads, merges and writes one after the other. While one
    /// waits, another one goes on.
    Coroutines,
    /// As [`Scheduler::Coroutines`], and while a coroutine merges, what it will read next is read, and what it has written is
    /// written (PM-Blade §V).
    #[default]
    Stages,
}

impl Scheduler {
    /// All of them, by their places among [`SCHEDULERS`](crate::options::SCHEDULERS).
    pub const ALL: [Scheduler; 3] = [Scheduler::Threads, Scheduler::Coroutines, Scheduler::Stages];
}
