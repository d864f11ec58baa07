//! Whose work it is, and which kinds of work there are.

/// What a store may have to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Grow the region, name the next memtable.
    Ahead,
    /// Nothing was written for a while.
    Idle,
    /// Write back what was deferred, and tell whoever waits for that.
    Sync,
    /// Some time has passed in which more may have expired.
    Expire,
    /// Keys were deleted, which may lie beside each other.
    Explore,
    /// A job has failed, or rests behind one that has, and it may be time to try again.
    Retry,
}

/// Long work of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Moves sealed memtables into tables.
    Flush,
    /// Merges indexes of sealed memtables.
    Merge,
    /// Moves tables down the levels.
    Compact,
}

impl Job {
    /// Every kind, the most urgent first.
    pub const ALL: [Job; 3] = [Job::Flush, Job::Merge, Job::Compact];
}

/// Whose tasks and jobs they are: a store.
pub trait Client: Send + Sync {
    /// Does a task.
    fn perform(&self, task: Task);

    /// Does the next piece of a job, on a job thread. Returns whether there is more of it.
    fn run_job(&self, job: Job) -> bool;

    /// A task or job has panicked.
    fn panicked(&self, what: &str);
}
