//! How jobs wait for the device.

/// How flushes and compactions read, merge and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scheduler {
    /// One after the other: the thread of a job waits for each read and each write.
    Threads,
    /// At the same time: while the job merges, what it will read next is read, and what it has written is
    /// written (PM-Blade §V).
    #[default]
    Stages,
}

impl Scheduler {
    /// All of them, by their places among [`SCHEDULERS`](crate::options::SCHEDULERS).
    pub const ALL: [Scheduler; 2] = [Scheduler::Threads, Scheduler::Stages];
}
