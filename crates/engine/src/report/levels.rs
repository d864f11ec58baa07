//! What compactions and flushes have read and written, by level.

use thermocline_policy::pick::Reason;
use thermocline_version::Level;

use crate::sync::{Mutex, lock};

const LEVELS: usize = Level::MAX.0 as usize + 1;

/// What went into one level since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelUse {
    /// Jobs that wrote into it. For level 0 those are flushes, and what took tables there from persistent memory.
    pub jobs: u64,
    /// Tables that moved into it unread.
    pub tables_moved: u64,
    /// Bytes of tables that those jobs read.
    pub bytes_read: u64,
    /// Bytes that they brought from above: of tables of the level above, or of level 0, unread ones among them; and where
    /// a flush goes to a deeper level, of the keys and values that it took out of memtables, needed or not. None for
    /// level 0, nor of tables that are written anew, or go, where they stand.
    pub bytes_in: u64,
    /// Bytes of tables that they wrote.
    pub bytes_written: u64,
    /// Entries that they read and nobody needed.
    pub entries_dropped: u64,
}

impl LevelUse {
    /// Bytes written into the level for each byte that came to it from above; `None` where none did. Flushes into
    /// level 0 bring none.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.bytes_in > 0).then(|| self.bytes_written as f64 / self.bytes_in as f64)
    }
}

/// What was decided about level 0 in persistent memory, since the store was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CostUse {
    /// Merges inside persistent memory that reads have paid for: equation 1.
    pub by_reads: u64,
    /// Those that what need not be written to the SSD has paid for: equation 2.
    pub by_writes: u64,
    /// Those that level 0 has asked for when it was nearly full, since much of it would go.
    pub by_room: u64,
    /// Jobs that took slices to the SSD which equation 3 has chosen.
    pub by_warmth: u64,
    /// The last decisions with their numbers, the newest last.
    pub last: Vec<String>,
}

/// What compaction filters, and TTLs, have done since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilterUse {
    /// Values that they removed.
    pub removed: u64,
    /// Values that they changed.
    pub changed: u64,
    /// Compactions that were done again without a filter, because somebody read what it would have changed.
    pub undone: u64,
    /// Compactions that failed because a filter did.
    pub failed: u64,
    /// Values that have expired, and were removed; of tables that went unread all that were no deletes, hidden ones among them.
    pub expired: u64,
}

/// What compactions do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompactionUse {
    /// By output level.
    pub levels: Vec<LevelUse>,
    /// Compactions that were installed, by reason; flushes are not among them.
    pub reasons: Vec<(Reason, u64)>,
    /// Those that have failed, other than for lack of room.
    pub failed: u64,
    /// The last of them and its error, until a compaction from that level succeeds. Meanwhile it is tried again from time to time.
    pub last_failure: Option<String>,
    /// Merges of level 0 inside persistent memory: of their `bytes_in` as many were read, and nothing moved.
    pub internal: LevelUse,
    /// Those that have given up, for lack of room.
    pub internal_given_up: u64,
    /// What compaction filters did.
    pub filters: FilterUse,
    /// What was decided about level 0 in persistent memory by its costs.
    pub costs: CostUse,
    /// Jobs that run.
    pub running: u64,
    /// The runs in level 0 of the family that has most.
    pub level0_runs: u64,
    /// About how many bytes are to be read and written until no level is too large.
    pub pending_bytes: u64,
    /// Percent of their time that compactions work now, if they give way to clients (`compaction.rate_adapts`): the rest of it
    /// they leave to reads.
    pub percent_worked: Option<u64>,
}

/// The counters. Each job adds to them once.
#[derive(Debug, Default)]
pub(crate) struct Usage(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    levels: [LevelUse; LEVELS],
    /// By number of the reason.
    reasons: [u64; Reason::ALL.len()],
    internal: LevelUse,
    internal_given_up: u64,
}

impl Usage {
    /// A job has written into `level`.
    pub fn add(&self, level: usize, did: LevelUse) {
        lock(&self.0).levels[level].add(did);
    }

    /// One has merged inside level 0.
    pub fn add_internal(&self, did: LevelUse) {
        lock(&self.0).internal.add(did);
    }

    /// One of those has given up.
    pub fn add_given_up(&self) {
        lock(&self.0).internal_given_up += 1;
    }

    /// What was counted; the rest of it is the store's to say.
    pub fn counted(&self) -> CompactionUse {
        let counted = lock(&self.0);
        let reasons = Reason::ALL.map(|reason| (reason, counted.reasons[reason as usize]));
        CompactionUse {
            levels: counted.levels.to_vec(),
            internal: counted.internal,
            internal_given_up: counted.internal_given_up,
            reasons: reasons.to_vec(),
            ..CompactionUse::default()
        }
    }

    /// A compaction was installed.
    pub fn add_reason(&self, reason: Reason) {
        lock(&self.0).reasons[reason as usize] += 1;
    }
}

impl LevelUse {
    fn add(&mut self, did: LevelUse) {
        let all = self;
        all.jobs += did.jobs;
        all.tables_moved += did.tables_moved;
        // Of some tables it is what a manifest says.
        all.bytes_read = all.bytes_read.saturating_add(did.bytes_read);
        all.bytes_in = all.bytes_in.saturating_add(did.bytes_in);
        all.bytes_written += did.bytes_written;
        all.entries_dropped += did.entries_dropped;
    }
}
