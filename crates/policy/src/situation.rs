//! What is known when a decision is asked for. Each part is known under some lock. A caller fills the parts of the
//! locks that it holds; the others are `None`.

use thermocline_base::{CfId, FileId};

use crate::collect::Refers;
use crate::level0::{Content, Level0Plan};
use crate::pick::{Cursors, DeletedRanges, Held, PickOptions, State};
use crate::{flush, indexes, partitions, rewrite, seal};

/// See the [module](self).
#[derive(Debug, Clone, Copy, Default)]
pub struct Situation<'a> {
    /// The clock, in nanoseconds.
    pub now_ns: u64,
    /// Deletes on a full disk.
    pub deletes: Option<Deletes>,
    /// The memtable that takes writes. Under the writer's lock.
    pub writer: Option<Writer>,
    /// Memtables that wait to be flushed. Under the lock of `reclaim`, with a view.
    pub sealed: Option<Sealed>,
    /// What the next flush would rewrite, if somebody has weighed it.
    pub rewriting: Option<rewrite::RewritePlan>,
    /// What is done ahead of need.
    pub ahead: Option<Ahead>,
    /// Indexes of sealed memtables, with a view.
    pub indexes: Option<Indexes<'a>>,
    /// How a family that is divided by size is. Under the lock for splits and merges.
    pub partitions: Option<Partitions<'a>>,
    /// The levels of all families. Under the lock of the list of running jobs.
    pub levels: Option<Levels<'a>>,
}

/// Deletes that wait in persistent memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletes {
    /// Whether somebody has asked for them to be flushed.
    pub wanted: bool,
    /// Whether the disk is full, or somebody waits for room there.
    pub relieving: bool,
}

/// The memtable that takes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer {
    /// Its numbers.
    pub active: seal::Active,
    /// What it may have.
    pub limits: seal::Limits,
    /// Bytes that are to be written.
    pub more: u64,
    /// Whether there is a zone for the next one.
    pub has_room: bool,
    /// The bytes of its index, where other stores may wait for DRAM; and how many stores there are.
    pub crowded: Option<(u64, usize)>,
    /// DRAM.
    pub dram: flush::Dram,
}

/// Memtables that wait to be flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Their numbers.
    pub sealed: flush::Sealed,
    /// Persistent memory of dead ones that merged indexes keep; `None` where those were made anew already.
    pub dead_in_merged: Option<u64>,
    /// Persistent memory of the memtables of an index that is to be divided; `None` if there is none, or that was tried already.
    pub wide: Option<u64>,
    /// Whether somebody found no room.
    pub room_wanted: bool,
}

/// What is done ahead of need, so that slow things do not fall on the put path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// Bytes of the active memtable.
    pub active_bytes: u64,
    /// What it may have.
    pub limits: seal::Limits,
    /// Whether the next one is not named.
    pub next_is_missing: bool,
    /// Whether a write needed the next one, and was refused since it would not wait for it.
    pub next_is_awaited: bool,
    /// Whether fewer zones than are kept ahead are free, and the region can grow.
    pub lacks_zones: bool,
    /// Whether zones that are kept ahead would meet page faults.
    pub lacks_pages: bool,
}

/// Indexes of sealed memtables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexes<'a> {
    /// All, newest first.
    pub newest_first: &'a [indexes::Index<'a>],
    /// How wide they may be.
    pub width: indexes::Width,
    /// Indexes beyond the first that reads have asked, ever.
    pub asked: u64,
    /// The same when indexes were last merged.
    pub paid: u64,
    /// How many for each key make a merge pay, in percent.
    pub merge_percent: u64,
    /// Whether one is to be merged though it does not pay. Then none is divided; what is merged comes in parts, if it would be wide.
    pub must: bool,
}

/// How a family is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partitions<'a> {
    /// Which family.
    pub family: CfId,
    /// Its partitions, in the order of keys.
    pub partitions: &'a [partitions::Partition<'a>],
    /// Bytes past which one is split.
    pub limit: u64,
    /// The key of a split that waits for jobs: it is not decided anew as long as it is due. Its key would move with each
    /// version, and what was kept free for it would be for nothing.
    pub waiting: Option<&'a [u8]>,
    /// Where the first of [`partitions::large`] that can be split would be.
    pub middle: Option<&'a [u8]>,
}

/// A family's levels, and what runs there.
#[derive(Debug, Clone, Copy)]
pub struct FamilyLevels<'a> {
    /// Which family.
    pub family: CfId,
    /// Its tables, and what jobs hold; so are, for a while, tables with which a job has failed.
    pub state: State<'a>,
    /// What jobs hold that run.
    pub running: &'a [Held],
    /// How its levels should be.
    pub options: PickOptions,
    /// Where its last jobs ended.
    pub cursors: &'a Cursors,
    /// Of each table of level 0 what it has.
    pub contents: &'a [Content],
    /// What of it is deleted in whole ranges.
    pub deleted: DeletedRanges<'a>,
}

impl<'a> FamilyLevels<'a> {
    /// Its tables, for jobs that may take what others have failed with: those that read nothing, and those that move values,
    /// which remember by themselves what cannot move.
    pub fn beside_failed(&self) -> State<'a> {
        State {
            running: self.running,
            ..self.state
        }
    }
}

/// The levels of all families.
#[derive(Debug, Clone, Copy)]
pub struct Levels<'a> {
    /// In their turn: the one that was served last comes last.
    pub families: &'a [FamilyLevels<'a>],
    /// What costs say of level 0 in persistent memory; `None` where they are not asked, as where nothing lies there.
    pub level0: Option<&'a Level0Plan>,
    /// Tables in persistent memory, where no costs decide about those; else nothing.
    pub pm_files: &'a [FileId],
    /// Whether those have more than their share.
    pub is_past_share: bool,
    /// Room that jobs have, where some is wanted on the disk.
    pub relief: Option<Relief>,
    /// Whether the disk is full.
    pub is_disk_full: bool,
    /// Whether somebody is having a range compacted, which frees what its deletes hide.
    pub is_by_hand: bool,
    /// Whether a merge inside level 0 has given up in this version.
    pub internal_gave_up: bool,
    /// Slices, by family and place, for whose merge persistent memory has no room.
    pub refused: &'a [(CfId, usize)],
    /// The table that reads have charged first.
    pub charged: Charged,
    /// What tables refer to in blob files that are collected.
    pub garbage: &'a [Refers],
    /// Whether a job may move those beside others that do ([`crate::collect::Copies`]).
    pub may_move: bool,
}

/// Where room is wanted on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relief {
    /// Bytes that jobs may use; `None` if the disk does not say.
    pub room: Option<u64>,
    /// Whether a job runs.
    pub is_any_running: bool,
    /// Tables with smaller numbers may be rewritten.
    pub rewrite_before: FileId,
}

/// A table that reads ask in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charged {
    /// Nobody has looked.
    Unknown,
    /// There is none.
    None,
    /// It stands there.
    Table {
        /// Its family.
        family: CfId,
        /// Its level.
        level: usize,
        /// Its place there.
        place: usize,
    },
}
