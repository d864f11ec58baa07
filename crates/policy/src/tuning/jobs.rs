//! Numbers of jobs: what they do in one step.

// ---------------------------------------------------------------------------------------------------------------------
// Steps of a job (`steps`).

/// Records after which a step of a job ends. *Chosen* (commit 3a745e6): some tens of microseconds.
pub const JOB_STEP_RECORDS: u64 = 256;

/// Bytes that a job has written after which a step ends. *Chosen* (commit 3a745e6): a piece of a file.
pub const JOB_STEP_BYTES: u64 = 256 << 10;

/// A piece of a file is about to end when fewer bytes of it were not asked for yet. *Chosen* (commit e35b05a): some blocks.
pub const JOB_SHORT_BYTES: u64 = 32 << 10;

/// Or fewer than so many times what was read last. *Chosen* (commit e35b05a): the next read may be longer, and the one behind it is to find
/// something, too.
pub const JOB_SHORT_READS: u64 = 2;

/// Keys of a memtable that a job collects under one epoch guard. *Chosen* (commit 9bb7bcd): memory that writers have replaced waits
/// meanwhile.
pub const JOB_KEYS: usize = 256;

/// Operands of a key that a job collects before it folds them for the first time. *Chosen* (commit 4cd0887).
pub const FOLD_ENTRIES: usize = 256;

/// After that, when there are so many times as many as were left. *Derived*: so all folds together cost as much as some.
pub const FOLD_TIMES: usize = 2;

// ---------------------------------------------------------------------------------------------------------------------
// Keys of a memtable that are gone through at a time: memory that writers have replaced waits meanwhile.

/// Keys of a sealed memtable that are checked under one epoch guard whether anything lives. *Chosen* (commit 267604a).
pub const RECLAIM_KEYS: usize = 256;

/// Keys of indexes that are merged under one promise of DRAM. *Chosen* (commit 9da1ac5): others wait for what is promised.
pub const MERGE_KEYS: usize = 1024;

/// Keys that are gone through under one epoch guard to see how much an edit would have of them. *Chosen* (commit 0dec625).
pub const NAMED_KEYS: usize = 1024;
