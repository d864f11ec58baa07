//! What is known of level 0, and what is decided of it.

use thermocline_base::CfId;

use crate::cost::{Form, Internal as Equations, Thresholds, UnitCosts};
use crate::pick::State;

/// What a table of level 0 has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Content {
    /// Its records.
    pub entries: u64,
    /// What a reference to it stands for of its zones; `None` if it does not lie in persistent memory.
    pub zone_bytes: Option<u64>,
    /// What it refers to in blob files, in bytes.
    pub blob_bytes: u64,
}

/// A partition, and what a second has there, lately.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionRate {
    /// Its first key.
    pub start: Vec<u8>,
    /// Reads a second.
    pub reads: f64,
    /// Records written a second.
    pub writes: f64,
    /// Records a second that something newer took the place of.
    pub updates: f64,
}

/// A column family, and the jobs that run there.
#[derive(Debug, Clone, Copy)]
pub struct Family<'a> {
    /// Which.
    pub family: CfId,
    /// Its tables, and what running jobs hold of them.
    pub state: State<'a>,
    /// Of each table of level 0 what it has, by place.
    pub contents: &'a [Content],
    /// Partitions that are read or written, and where each ends.
    pub rates: &'a [(PartitionRate, Option<Vec<u8>>)],
}

/// What level 0 in persistent memory may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Which form of the equations is used.
    pub form: Form,
    /// Its share, in bytes.
    pub bytes: u64,
    /// Most that all tables there may have while some are merged.
    pub bytes_while_merging: u64,
    /// What a merge writes at a time.
    pub part_bytes: u64,
    /// The usual size of a table.
    pub table_bytes: u64,
    /// What newer runs of a slice may refer to in blob files.
    pub blob_bytes_max: u64,
}

/// What level 0 in persistent memory costs, and what is to be done about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Level0Plan {
    /// Which form of the equations is used.
    pub form: Form,
    /// What steps cost here.
    pub units: UnitCosts,
    /// Sizes from which on decisions are due.
    pub thresholds: Thresholds,
    /// Persistent memory of its tables, without what leaves already.
    pub bytes: u64,
    /// Bytes of all tables in files, of whatever level.
    pub file_bytes: u64,
    /// Whether slices leave until the rest fits [`Thresholds::keep`].
    pub drains: bool,
    /// Whether level 0 will soon be full: what makes room is merged.
    pub is_filling: bool,
    /// From so many bytes on slices leave: [`Thresholds::major`]; or, while merges make room, which need some until they end,
    /// as much of the share as lets them begin.
    pub full_bytes: u64,
    /// Reads a second, and records that are written, by what was lately flushed and merged.
    pub rates: (f64, f64),
    /// All slices, by family and key.
    pub slices: Vec<SlicePlan>,
}

/// A slice of level 0, which is merged, or leaves, by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct SlicePlan {
    /// Its family.
    pub family: CfId,
    /// Its first key.
    pub first: Vec<u8>,
    /// Its tables.
    pub tables: usize,
    /// Tables that a read may have to ask.
    pub runs: usize,
    /// Persistent memory that it takes.
    pub bytes: u64,
    /// Reads a second.
    pub reads: f64,
    /// Its records.
    pub records: u64,
    /// Of those, records in its newer runs.
    pub writes: u64,
    /// Of these, records of keys that the older runs have, too; as far as it was looked.
    pub updates: u64,
    /// What equations 1 and 2 say; `None` of a slice of one run, and of one with files that are newer than some of it.
    pub decisions: Option<Equations>,
    /// Whether a merge would give back much of what it takes: where level 0 will soon be full it is merged.
    pub makes_room: bool,
    /// Whether its newer runs refer to so much in blob files that it is merged.
    pub holds_blobs: bool,
    /// What equation 3 says: whether it stays if level 0 has [`Thresholds::major`] bytes.
    pub stays: bool,
    /// Its place among the slices of its family.
    pub place: usize,
    /// Whether no running job takes anything of it, or all that is free lies above what one takes.
    pub free: bool,
}
