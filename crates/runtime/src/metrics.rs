//! What a runtime counts.

use thermocline_exec::{AsyncUse, JobIoUse};

/// What a runtime says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuntimeMetrics {
    /// Stores that are open in it.
    pub stores: usize,
    /// Threads that have started.
    pub workers: usize,
    /// Most threads there will be.
    pub workers_limit: usize,
    /// Stores that wait for a thread.
    pub stores_waiting: usize,
    /// Threads that make calls of the user's, and have started.
    pub couriers: usize,
    /// Most of them that there will be.
    pub couriers_limit: usize,
    /// Stores whose callbacks and events wait for one of them.
    pub calls_waiting: usize,
    /// Threads for jobs that have started.
    pub job_threads: usize,
    /// Most threads for jobs there will be.
    pub job_threads_limit: usize,
    /// Jobs that run.
    pub jobs_running: usize,
    /// Jobs that wait for a thread.
    pub jobs_waiting: usize,
    /// Deadlines of stores that lie ahead.
    pub timers: usize,
    /// How futures read, and threads that help with it.
    pub async_reads: AsyncUse,
    /// How jobs read ahead, and threads that write for them.
    pub job_io: JobIoUse,
    /// Callbacks and listeners of the user that have panicked.
    pub panics: u64,
    /// Most DRAM that its stores may use together, in bytes; `u64::MAX` for the runtime of a store
    /// alone, whose own limit is enough.
    pub dram_limit_bytes: u64,
    /// DRAM that they use for indexes, those of closed stores that snapshots keep included.
    pub dram_used_bytes: u64,
    /// DRAM that they use for indexes or have promised to writes.
    pub dram_held_bytes: u64,
    /// DRAM that they use beside the indexes: for cached blocks, open tables, buffers, and records that
    /// lie in DRAM.
    pub dram_charged_bytes: u64,
}
