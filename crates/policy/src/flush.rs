//! When sealed memtables are flushed.
//!
//! Below a share of persistent memory they stay where they are: reads find them in DRAM and persistent memory, and what is
//! overwritten there dies there, without ever having been written to the SSD. Where flushing is due all sealed memtables are
//! taken at once, as a rule: a few wide runs of level 0 are cheaper to read and to compact than many narrow ones. With shapes `ssd` and
//! `pm-tables` the share is nothing: flushing is due as soon as one is sealed.
//!
//! With `tiered` memtables have what tables in persistent memory leave of the share, and a small one at least. Nothing becomes a
//! table while there is room for it as it is. What is taken then is the oldest, about as much as the small share: what it becomes
//! must lie beside it until all of it is named, and so must what is written meanwhile. What it becomes frees only what was
//! overwritten; so tables grow and memtables shrink, until level 0 has its share and the coldest of it goes.
//! Where they are scanned much, the oldest become tables before that, and the active memtable, too ([`crate::scans`]).
//! Where there is no room for what is taken it leaves persistent memory as a whole, and then all is taken, as while flushes skip
//! level 0.
//!
//! With `immutables` flushes go to the base level, and rewrite what that has. What is taken then is the oldest, as much as makes little of
//! that. Where values are apart from their keys one memtable after the other goes, and the room of each is free as soon as it has gone;
//! where they are not all go together.

use std::fmt;

use crate::scans::Scans;
use crate::tuning::{
    CROWDED_INDEX_BYTES_MIN, CROWDED_PARTS, CROWDED_SHARE_PARTS, DESCRIPTORS_SHORT,
    INGEST_FLUSH_BYTES, INGEST_FLUSHES_MAX, KEPT_YIELD_TIMES, PM_SOFT_PERCENT, TAKES_ROOM,
};

/// DRAM of a store, and of all stores of its runtime, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dram {
    /// What this store takes.
    pub used: u64,
    /// What it may take.
    pub limit: u64,
    /// From which part of either on memory is short, in percent.
    pub percent: u64,
    /// What all stores have.
    pub held_by_all: u64,
    /// What they may have.
    pub budget: u64,
}

impl Dram {
    /// Bytes of this store from which on they are short.
    pub fn due(&self) -> u64 {
        self.limit / 100 * self.percent
    }

    /// Whether indexes take their share of DRAM, of this store's or of all stores'.
    pub fn is_short(&self) -> bool {
        self.used >= self.due() || self.held_by_all >= self.budget / 100 * self.percent
    }

    /// Whether a store, one of so many, may be short of DRAM because others have it.
    pub fn is_crowded(&self, stores: usize) -> bool {
        self.held_by_all >= self.budget / CROWDED_PARTS && stores > 1
    }

    /// Whether one of so many stores of a crowded runtime seals an active memtable with such an index: others may wait for
    /// what it has beyond its share.
    pub fn seals_for_others(&self, index_bytes: u64, stores: usize) -> bool {
        let stores = stores.max(1) as u64;
        let share = self.budget / stores / CROWDED_SHARE_PARTS;
        index_bytes > share.max(CROWDED_INDEX_BYTES_MIN)
    }
}

/// What waits to be flushed, and what decides about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Whether the store flushes by itself.
    pub automatic: bool,
    /// Sealed memtables that wait.
    pub memtables: usize,
    /// The same from which on they are flushed; 0: their number does not count.
    pub memtables_due: usize,
    /// Persistent memory that they own.
    pub bytes: u64,
    /// Of that what a running flush has taken.
    pub taken_bytes: u64,
    /// Bytes of values in blob files that they refer to.
    pub blob_bytes: u64,
    /// The same from which on they are flushed.
    pub blob_bytes_due: u64,
    /// Persistent memory of the store.
    pub pm_bytes: u64,
    /// What of it they may take where tables lie beside them, in percent.
    pub sealed_percent: u64,
    /// What of it they may take where none do, in percent.
    pub alone_percent: u64,
    /// Persistent memory of tables, where memtables may have what those leave.
    pub tables: Option<u64>,
    /// Whether flushes skip level 0 in persistent memory.
    pub skips: bool,
    /// Places for further memtables.
    pub descriptors_free: usize,
    /// DRAM.
    pub dram: Dram,
    /// What scans have to say.
    pub scans: Scans,
}

/// Why a flush is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// They own so much persistent memory.
    Bytes {
        /// Bytes that they own.
        bytes: u64,
        /// From which on they are flushed.
        due: u64,
    },
    /// They are so many.
    Number {
        /// Sealed memtables.
        memtables: usize,
        /// From which on they are flushed.
        due: usize,
    },
    /// They refer to so much in blob files.
    Blobs {
        /// Bytes that they refer to.
        bytes: u64,
        /// From which on they are flushed.
        due: u64,
    },
    /// There are few places for further memtables.
    Descriptors {
        /// Places.
        free: usize,
        /// Down to which they are flushed.
        due: usize,
    },
    /// DRAM is short.
    Dram {
        /// Bytes that the store takes.
        used: u64,
        /// From which on they are flushed; less is short where all stores together have too much.
        due: u64,
    },
    /// They are scanned much.
    Scans {
        /// Entries that scans have collected, beyond lookups.
        balance: u64,
        /// From which on they are flushed.
        due: u64,
        /// Whether the active memtable is sealed for that: it counts with them.
        seals: bool,
    },
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Because::Bytes { bytes, due } => write!(f, "flush: {bytes} bytes are sealed, of {due}"),
            Because::Number { memtables, due } => {
                write!(f, "flush: {memtables} memtables are sealed, of {due}")
            }
            Because::Blobs { bytes, due } => {
                write!(
                    f,
                    "flush: {bytes} bytes in blob files are referred to, of {due}"
                )
            }
            Because::Descriptors { free, due } => {
                write!(
                    f,
                    "flush: {free} places are left for memtables, down to {due}"
                )
            }
            Because::Dram { used, due } => {
                write!(f, "flush: DRAM is short, {used} bytes are used, of {due}")
            }
            Because::Scans {
                balance,
                due,
                seals,
            } => {
                write!(f, "flush: {balance} entries were scanned, of {due}")?;
                match seals {
                    true => write!(f, "; the active memtable is sealed for it"),
                    false => Ok(()),
                }
            }
        }
    }
}

/// When sealed memtables are flushed: as soon as one of the numbers has come to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushPlan {
    /// Whether the store flushes by itself.
    pub automatic: bool,
    /// Whether a flush is due now.
    pub due: bool,
    /// Why, if one is.
    pub because: Option<Because>,
    /// Sealed memtables that wait.
    pub sealed: usize,
    /// The same from which on they are flushed; 0: their number does not count.
    pub sealed_due: usize,
    /// Persistent memory of sealed memtables, in bytes.
    pub sealed_bytes: u64,
    /// The same from which on they are flushed.
    pub sealed_bytes_due: u64,
    /// Bytes of values in blob files that sealed memtables refer to.
    pub sealed_blob_bytes: u64,
    /// The same from which on they are flushed.
    pub sealed_blob_bytes_due: u64,
    /// DRAM that this store takes, in bytes.
    pub dram_bytes: u64,
    /// The same from which on they are flushed.
    pub dram_bytes_due: u64,
    /// Places for further memtables.
    pub memtables_free: usize,
    /// The same down to which they are flushed.
    pub memtables_free_due: usize,
}

impl Sealed {
    /// What a flush takes at least, where it need not be more.
    pub fn usual_bytes(&self) -> u64 {
        usual_bytes(self.pm_bytes, self.sealed_percent)
    }

    /// As the options say.
    fn bytes_due(&self) -> u64 {
        let usual = self.usual_bytes();
        let Some(tables) = self.tables else {
            return usual.max(1);
        };
        self.all_bytes().saturating_sub(tables).max(usual).max(1)
    }

    /// What memtables and tables may have together. While flushes take the oldest memtables alone, all of them need not be
    /// written at once, and may have more: up to a usual flush below what delays writers.
    fn all_bytes(&self) -> u64 {
        match self.skips {
            true => self.pm_bytes / 100 * self.alone_percent,
            false => self.all_bytes_while_flushed_by_parts(),
        }
    }

    fn all_bytes_while_flushed_by_parts(&self) -> u64 {
        let alone = self.pm_bytes / 100 * self.alone_percent;
        let soft = self.pm_bytes / 100 * PM_SOFT_PERCENT;
        alone.max(soft.saturating_sub(self.usual_bytes()))
    }

    /// What memtables leave for level 0 in persistent memory where scans have asked for what lies there, since when no flush was due
    /// to make room; `None` otherwise. `before` is what this was until now.
    pub fn lends(&self, before: Option<u64>) -> Option<u64> {
        self.tables?;
        // What a flush has taken, which may be more than usual, since it takes whole indexes, waits no more.
        let waits = Sealed {
            bytes: self.bytes.saturating_sub(self.taken_bytes),
            ..*self
        };
        let lent = match waits.plan().because {
            Some(because) => matches!(because, Because::Scans { .. }),
            None => before.is_some(),
        };
        let memtables = match self.taken_bytes {
            0 => self.bytes.saturating_sub(self.usual_bytes()),
            _ => waits.bytes,
        };
        let all = self.all_bytes_while_flushed_by_parts();
        lent.then(|| all.saturating_sub(memtables))
    }

    /// Bytes that a flush which is due takes at least, of the oldest memtables; `u64::MAX` if it takes all, as a flush
    /// by hand does.
    pub fn takes_bytes(&self) -> u64 {
        let usual = self.usual_bytes().max(1);
        match self.tables {
            // What would not stay leaves as a whole.
            Some(tables) if self.automatic && self.stays(tables) => match self.is_for_scans() {
                true => self.scanned_bytes(tables),
                false if self.skips => u64::MAX,
                false => usual,
            },
            _ => u64::MAX,
        }
    }

    /// Whether what a usual flush takes finds room beside everything, tables of so many bytes among it.
    fn stays(&self, tables: u64) -> bool {
        let usual = self.usual_bytes().max(1);
        // A manifest may say of tables what it likes.
        let there = self.bytes.saturating_add(tables);
        there.saturating_add(TAKES_ROOM * usual) <= self.pm_bytes
    }

    /// What of them becomes tables at once because they are scanned: as much as finds room, since few wide tables are cheaper to
    /// scan than many narrow ones.
    fn scanned_bytes(&self, tables: u64) -> u64 {
        let there = self.bytes.saturating_add(tables);
        let room = self.pm_bytes.saturating_sub(there);
        self.usual_bytes().max(room / TAKES_ROOM).max(1)
    }

    /// Whether the oldest become tables because they are scanned ([`crate::scans`]), with the active one or without.
    fn for_scans(&self) -> Option<Because> {
        let tables = self.tables?;
        let with_active = Sealed {
            memtables: self.memtables + 1,
            bytes: self.bytes.saturating_add(self.scans.active_bytes),
            ..*self
        };
        // The oldest are taken first, and may be enough.
        let reaches_it = self.bytes < with_active.scanned_bytes(tables);
        let seals = reaches_it && self.scans.seals(self.usual_bytes());
        let due = if seals {
            with_active.due_for_scans(tables)
        } else {
            None
        };
        let (due, seals) = match due {
            Some(due) => (due, true),
            None => (self.due_for_scans(tables)?, false),
        };
        let balance = self.scans.balance();
        (balance >= due).then_some(Because::Scans {
            balance,
            due,
            seals,
        })
    }

    /// The balance of scans from which on it pays to make tables of the oldest of them; `None` if there is nothing that would be wide
    /// enough, and fits.
    fn due_for_scans(&self, tables: u64) -> Option<u64> {
        let usual = self.usual_bytes();
        let taken = self.bytes.min(self.scanned_bytes(tables));
        let beside = (self.bytes - taken).saturating_sub(usual);
        let all = self.all_bytes_while_flushed_by_parts();
        let fits = self.stays(tables) && tables + taken + beside <= all;
        let due = self.scans.due(taken, usual)?;
        (fits && self.memtables > 0).then_some(due)
    }

    /// Whether a flush that is due is so for scans.
    pub fn is_for_scans(&self) -> bool {
        matches!(self.plan().because, Some(Because::Scans { .. }))
    }

    /// Whether a flush is due, why, and the numbers on which that is decided.
    ///
    /// ```
    /// use thermocline_policy::flush::{Because, Dram, Sealed};
    /// let dram = Dram { used: 10, limit: 1000, percent: 60, held_by_all: 10, budget: 10_000 };
    /// let mut sealed = Sealed {
    ///     automatic: true,
    ///     memtables: 3,
    ///     memtables_due: 0,
    ///     bytes: 149,
    ///     taken_bytes: 0,
    ///     blob_bytes: 0,
    ///     blob_bytes_due: 1000,
    ///     pm_bytes: 1000,
    ///     sealed_percent: 15,
    ///     alone_percent: 50,
    ///     tables: None,
    ///     skips: false,
    ///     descriptors_free: 60,
    ///     dram,
    ///     scans: Default::default(),
    /// };
    /// assert!(!sealed.plan().due);
    /// sealed.bytes = 150;
    /// let because = sealed.plan().because.unwrap();
    /// assert_eq!(because.to_string(), "flush: 150 bytes are sealed, of 150");
    /// assert_eq!(sealed.takes_bytes(), u64::MAX);
    /// // Where memtables have what tables leave, no more is taken than must be.
    /// sealed.tables = Some(100);
    /// assert_eq!(sealed.plan().sealed_bytes_due, 500);
    /// assert_eq!(sealed.takes_bytes(), 150);
    /// ```
    pub fn plan(&self) -> FlushPlan {
        let mut plan = FlushPlan {
            automatic: self.automatic,
            due: false,
            because: None,
            sealed: self.memtables,
            sealed_due: self.memtables_due,
            sealed_bytes: self.bytes,
            sealed_bytes_due: self.bytes_due(),
            sealed_blob_bytes: self.blob_bytes,
            sealed_blob_bytes_due: self.blob_bytes_due,
            dram_bytes: self.dram.used,
            dram_bytes_due: self.dram.due(),
            memtables_free: self.descriptors_free,
            memtables_free_due: DESCRIPTORS_SHORT,
        };
        plan.because = because(&plan, self.dram.is_short()).or_else(|| self.for_scans());
        plan.due = plan.because.is_some();
        plan
    }
}

/// Whether memtables that are only kept for change feeds yield, where so many descriptors are free.
pub fn yields_kept(descriptors_free: usize) -> bool {
    descriptors_free <= KEPT_YIELD_TIMES * DESCRIPTORS_SHORT
}

/// Whether one more flush is made before an ingestion holds writers up, after so many, where writers have brought so many bytes
/// meanwhile.
///
/// ```
/// use thermocline_policy::flush::once_more;
/// assert!(once_more(1, 1 << 20) && !once_more(1, 1 << 10) && !once_more(3, 1 << 20));
/// ```
pub fn once_more(flushes: u32, active_bytes: u64) -> bool {
    flushes < INGEST_FLUSHES_MAX && active_bytes >= INGEST_FLUSH_BYTES
}

/// What a flush takes at least, where it need not be more: this part of persistent memory.
pub fn usual_bytes(pm_bytes: u64, sealed_percent: u64) -> u64 {
    pm_bytes / 100 * sealed_percent
}

/// How many of the oldest memtables, or of the indexes that several share, have `least` bytes together; all, if they have less.
///
/// ```
/// use thermocline_policy::flush::taken;
/// assert_eq!(taken([40, 70, 90], 100), 2);
/// assert_eq!(taken([40, 70, 90], u64::MAX), 3);
/// ```
pub fn taken(oldest_first: impl IntoIterator<Item = u64>, least: u64) -> usize {
    let mut before = 0u64;
    let is_wanted = |bytes: &u64| {
        let wanted = before < least;
        before = before.saturating_add(*bytes);
        wanted
    };
    oldest_first.into_iter().take_while(is_wanted).count()
}

fn because(plan: &FlushPlan, dram_short: bool) -> Option<Because> {
    match plan {
        FlushPlan { sealed: 0, .. } => None,
        _ if plan.sealed_bytes >= plan.sealed_bytes_due => Some(Because::Bytes {
            bytes: plan.sealed_bytes,
            due: plan.sealed_bytes_due,
        }),
        _ if plan.sealed_due > 0 && plan.sealed >= plan.sealed_due => Some(Because::Number {
            memtables: plan.sealed,
            due: plan.sealed_due,
        }),
        _ if plan.sealed_blob_bytes >= plan.sealed_blob_bytes_due => Some(Because::Blobs {
            bytes: plan.sealed_blob_bytes,
            due: plan.sealed_blob_bytes_due,
        }),
        _ if plan.memtables_free <= plan.memtables_free_due => Some(Because::Descriptors {
            free: plan.memtables_free,
            due: plan.memtables_free_due,
        }),
        _ if dram_short => Some(Because::Dram {
            used: plan.dram_bytes,
            due: plan.dram_bytes_due,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
