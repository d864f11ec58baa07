//! What is to be done, and why.

use std::fmt;

use thermocline_base::CfId;
use thermocline_base::size::format_size;

use crate::pick::{Job, Reason};
use crate::{flush, indexes, level0, seal};

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Nothing is due.
    Nothing,
    /// Flush what was deleted: the disk is full.
    Relief,
    /// Seal the active memtable.
    Seal,
    /// Make merged indexes anew that keep dead memtables; then ask again.
    RemakeIndexes,
    /// Divide indexes that lead to more than a flush takes; then ask again.
    DivideIndexes,
    /// Flush sealed memtables: all, or the oldest ([`Sealed::takes_bytes`](crate::flush::Sealed::takes_bytes)).
    Flush,
    /// Flush them into persistent memory, which rewrites what lives.
    Rewrite,
    /// Grow the region, ask for its pages, or name the next memtable.
    Prepare {
        /// Whether it is to grow.
        grow: bool,
        /// Whether pages are to be asked for.
        populate: bool,
        /// Whether a memtable is to be named.
        name: bool,
    },
    /// Merge these indexes: into one, or into parts of so many memtables, of those that live, oldest first.
    MergeIndexes(indexes::Choice, Vec<usize>),
    /// Divide this index by age.
    DivideIndex(indexes::Division),
    /// A partition begins at this key.
    SplitPartition {
        /// In this family.
        family: CfId,
        /// The key.
        key: Vec<u8>,
    },
    /// The partitions that begin there go to those before them.
    MergePartitions {
        /// Of this family.
        family: CfId,
        /// Their first keys.
        starts: Vec<Vec<u8>>,
    },
    /// Merge a slice inside persistent memory. If there is no room for that, it is refused: ask again.
    CompactInternal {
        /// The family.
        family: CfId,
        /// The slice's place.
        place: usize,
        /// The job.
        job: Box<Job>,
        /// The updates that it is expected to have, and among how many records, where costs have asked for it.
        expects: Option<(u64, u64)>,
    },
    /// Compact tables.
    Compact {
        /// The family.
        family: CfId,
        /// The job.
        job: Box<Job>,
    },
    /// Nothing else is due: look which table reads have charged, and ask again.
    LookAtReads,
}

impl Work {
    /// In a word or two.
    pub fn name(&self) -> &'static str {
        match self {
            Work::Nothing => "nothing",
            Work::Relief => "flush deletes",
            Work::Seal => "seal",
            Work::RemakeIndexes => "make indexes anew",
            Work::DivideIndexes => "divide indexes",
            Work::Flush => "flush",
            Work::Rewrite => "rewrite",
            Work::Prepare { .. } => "prepare",
            Work::MergeIndexes(..) => "merge indexes",
            Work::DivideIndex(_) => "divide index",
            Work::SplitPartition { .. } => "split partition",
            Work::MergePartitions { .. } => "merge partitions",
            Work::CompactInternal { .. } => "compact in persistent memory",
            Work::Compact { .. } => "compact",
            Work::LookAtReads => "look at reads",
        }
    }
}

/// Why, with the numbers that decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Because {
    /// No part that is known asks for anything.
    NothingIsDue,
    /// Deletes wait, and the disk is full.
    Deletes,
    /// A memtable is full.
    Seal(seal::Because),
    /// Other stores wait for DRAM, and the active index has more than its share.
    Crowded {
        /// Its bytes.
        index_bytes: u64,
        /// So many stores share the budget.
        stores: usize,
    },
    /// Sealed memtables are due.
    Flush(flush::Because),
    /// Somebody found no room.
    RoomWanted,
    /// Much of what waits is dead, and merged indexes keep it.
    DeadInMerged {
        /// Bytes that are dead.
        dead: u64,
        /// Of so many that wait.
        sealed: u64,
    },
    /// An index leads to more than a flush takes, and one is near.
    Wide {
        /// Bytes of its memtables.
        bytes: u64,
        /// What a flush takes at least.
        takes: u64,
    },
    /// Little of what waits lives.
    Lives {
        /// Bytes that live.
        live: u64,
        /// Of so many.
        bytes: u64,
    },
    /// Something will be needed soon.
    Ahead {
        /// Bytes of the active memtable.
        active_bytes: u64,
    },
    /// Reads have paid for a merge of indexes.
    Asked {
        /// Indexes that they have asked.
        asked: u64,
        /// From which on it pays.
        pays_at: u64,
    },
    /// A partition is too large.
    Large {
        /// About the bytes of the largest one. Where that cannot be split now, the one that is has fewer.
        bytes: u64,
        /// Past which one is split.
        limit: u64,
    },
    /// Partitions have shrunk.
    Small {
        /// How many are merged with those before them.
        partitions: usize,
        /// Past which one would be split.
        limit: u64,
    },
    /// Level 0 in persistent memory.
    Level0(level0::Because),
    /// A merge frees blob files, and the disk is full.
    BlobRoom,
    /// A picker has chosen.
    Picked {
        /// Why.
        reason: Reason,
        /// From which level.
        from: usize,
        /// What that level's size is to its target; 0 where size has not decided.
        score: f64,
        /// Bytes that the job takes.
        bytes: u64,
    },
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Because::NothingIsDue => write!(f, "nothing is due"),
            Because::Deletes => write!(f, "relief: the disk is full, and deletes wait"),
            Because::Seal(because) => because.fmt(f),
            Because::Crowded {
                index_bytes,
                stores,
            } => write!(
                f,
                "seal: {stores} stores share DRAM, and the index has {}",
                format_size(*index_bytes)
            ),
            Because::Flush(because) => because.fmt(f),
            Because::RoomWanted => write!(f, "flush: a write found no room"),
            Because::DeadInMerged { dead, sealed } => {
                write!(f, "indexes: {dead} of {sealed} sealed bytes are dead")
            }
            Because::Wide { bytes, takes } => {
                write!(
                    f,
                    "indexes: {bytes} bytes share one, and a flush takes {takes}"
                )
            }
            Because::Lives { live, bytes } => write!(f, "rewrite: {live} of {bytes} bytes live"),
            Because::Ahead { active_bytes } => {
                write!(f, "ahead: the active memtable has {active_bytes} bytes")
            }
            Because::Asked { asked, pays_at } => {
                write!(f, "indexes: reads have asked {asked}, from {pays_at} on")
            }
            Because::Large { bytes, limit } => write!(
                f,
                "split: the largest partition has about {bytes} bytes, more than {limit} bytes"
            ),
            Because::Small { partitions, limit } => {
                let are = match partitions {
                    1 => "partition is",
                    _ => "partitions are",
                };
                write!(
                    f,
                    "merge: {partitions} {are} small beside the limit of {limit} bytes"
                )
            }
            Because::Level0(because) => because.fmt(f),
            Because::BlobRoom => write!(f, "internal: the disk is full, and blob files would go"),
            Because::Picked {
                reason,
                from,
                score,
                bytes,
            } => {
                let name = reason.name();
                let bytes = format_size(*bytes);
                match *score > 0.0 {
                    true => write!(f, "{name}: level {from} is at {score:.2}, {bytes}"),
                    false => write!(f, "{name}: level {from}, {bytes}"),
                }
            }
        }
    }
}

/// What is to be done, why, and what others only compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What.
    pub work: Work,
    /// Why.
    pub because: Because,
    /// Indexes that reads have asked from which on a merge of indexes may pay: they compare this number. `None` if that was not
    /// known here.
    pub merges_pay_at: Option<u64>,
}

impl Decision {
    /// This, for that reason.
    pub fn of(work: Work, because: Because) -> Decision {
        Decision {
            work,
            because,
            merges_pay_at: None,
        }
    }

    /// Nothing.
    pub fn nothing() -> Decision {
        Decision::of(Work::Nothing, Because::NothingIsDue)
    }

    /// Whether the active memtable is to be sealed before.
    pub fn seals(&self) -> bool {
        matches!(
            self.because,
            Because::Flush(flush::Because::Scans { seals: true, .. })
        )
    }

    /// Whether something is to be done.
    pub fn is_something(&self) -> bool {
        self.work != Work::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_partitions_are_split_or_merged_for_is_said_in_bytes() {
        let large = Because::Large {
            bytes: 300,
            limit: 256,
        };
        assert_eq!(
            large.to_string(),
            "split: the largest partition has about 300 bytes, more than 256 bytes"
        );
        for (partitions, says) in [
            (
                1,
                "merge: 1 partition is small beside the limit of 256 bytes",
            ),
            (
                3,
                "merge: 3 partitions are small beside the limit of 256 bytes",
            ),
        ] {
            let small = Because::Small {
                partitions,
                limit: 256,
            };
            assert_eq!(small.to_string(), says);
        }
    }
}
