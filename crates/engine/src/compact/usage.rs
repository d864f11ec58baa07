//! What compactions and flushes have read and written, by level.

use thermocline_version::Level;

use crate::store::Inner;
use crate::sync::{Mutex, lock};

const LEVELS: usize = Level::MAX.0 as usize + 1;

/// What went into one level since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelUse {
    /// Jobs that wrote into it. For level 0 those are flushes.
    pub jobs: u64,
    /// Tables that moved into it unread.
    pub tables_moved: u64,
    /// Bytes of tables that those jobs read.
    pub bytes_read: u64,
    /// Bytes of tables that they wrote.
    pub bytes_written: u64,
    /// Entries that they read and nobody needed.
    pub entries_dropped: u64,
}

/// What compactions do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompactionUse {
    /// By output level.
    pub levels: Vec<LevelUse>,
    /// Jobs that run.
    pub running: u64,
    /// The runs in level 0 of the family that has most.
    pub level0_runs: u64,
    /// About how many bytes are to be read and written until no level is too large.
    pub pending_bytes: u64,
}

/// The counters. Each job adds to them once.
#[derive(Debug, Default)]
pub(crate) struct Usage(Mutex<[LevelUse; LEVELS]>);

impl Usage {
    /// A job has written into `level`.
    pub fn add(&self, level: usize, did: LevelUse) {
        let all = &mut lock(&self.0)[level];
        all.jobs += did.jobs;
        all.tables_moved += did.tables_moved;
        all.bytes_read += did.bytes_read;
        all.bytes_written += did.bytes_written;
        all.entries_dropped += did.entries_dropped;
    }
}

impl Inner {
    /// What compactions have done and are behind.
    pub fn compaction_use(&self) -> CompactionUse {
        let compactions = &self.compactions;
        let (level0_runs, pending_bytes) = self.compaction_debt();
        CompactionUse {
            levels: lock(&compactions.usage.0).to_vec(),
            running: lock(&compactions.jobs).running.len() as u64,
            level0_runs,
            pending_bytes,
        }
    }
}
