//! What costs say of level 0 in persistent memory (PM-Blade §IV.C).

use thermocline_engine::{CostDecisions, CostForm};

/// What level 0 in persistent memory costs, and what is to be done about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Level0Plan {
    /// Which form of the equations is used.
    pub form: CostForm,
    /// What steps cost here.
    pub units: UnitCosts,
    /// Sizes from which on decisions are due.
    pub thresholds: CostThresholds,
    /// Persistent memory of its tables, without what leaves already.
    pub bytes: u64,
    /// Bytes of all tables in files, of whatever level.
    pub file_bytes: u64,
    /// Whether slices leave until the rest fits [`CostThresholds::keep`].
    pub drains: bool,
    /// Whether level 0 will soon be full: what makes room is merged.
    pub is_filling: bool,
    /// From so many bytes on slices leave: [`CostThresholds::major`]; or, while merges make room, which need some until
    /// they end, as much of the share as lets them begin.
    pub full_bytes: u64,
    /// Reads a second, and records that are written, by what was lately flushed and merged.
    pub rates: (f64, f64),
    /// All slices, by family and key.
    pub slices: Vec<SlicePlan>,
}

impl Level0Plan {
    pub(super) fn of(plan: thermocline_engine::Level0Plan) -> Level0Plan {
        Level0Plan {
            form: plan.form,
            units: UnitCosts::of(plan.units),
            thresholds: CostThresholds::of(plan.thresholds),
            bytes: plan.bytes,
            file_bytes: plan.file_bytes,
            drains: plan.drains,
            is_filling: plan.is_filling,
            full_bytes: plan.full_bytes,
            rates: plan.rates,
            slices: plan.slices.into_iter().map(SlicePlan::of).collect(),
        }
    }
}

/// A slice of level 0, which is merged, or leaves, by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct SlicePlan {
    /// The number of its family ([`FamilyPlan::family`](crate::FamilyPlan::family)).
    pub family: u16,
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
    pub decisions: Option<CostDecisions>,
    /// Whether a merge would give back much of what it takes: where level 0 will soon be full it is merged.
    pub makes_room: bool,
    /// Whether its newer runs refer to so much in blob files that it is merged.
    pub holds_blobs: bool,
    /// What equation 3 says: whether it stays if level 0 has [`CostThresholds::major`] bytes.
    pub stays: bool,
    /// Its place among the slices of its family.
    pub place: usize,
    /// Whether no running job takes anything of it, or all that is free lies above what one takes.
    pub free: bool,
}

impl SlicePlan {
    fn of(plan: thermocline_engine::SlicePlan) -> SlicePlan {
        SlicePlan {
            family: plan.family.0,
            first: plan.first,
            tables: plan.tables,
            runs: plan.runs,
            bytes: plan.bytes,
            reads: plan.reads,
            records: plan.records,
            writes: plan.writes,
            updates: plan.updates,
            decisions: plan.decisions,
            makes_room: plan.makes_room,
            holds_blobs: plan.holds_blobs,
            stays: plan.stays,
            place: plan.place,
            free: plan.free,
        }
    }
}

/// What steps cost on this machine, in nanoseconds, as far as it is known: I_b, I_p and I_s of the paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnitCosts {
    /// I_b: to look for a key in one table of persistent memory.
    pub search: f64,
    /// I_p: to merge one record inside persistent memory.
    pub internal: f64,
    /// I_s: to merge one record into tables of the SSD.
    pub major: f64,
}

impl UnitCosts {
    fn of(units: thermocline_engine::UnitCosts) -> UnitCosts {
        UnitCosts {
            search: units.search,
            internal: units.internal,
            major: units.major,
        }
    }
}

/// Sizes from which on decisions are due, in bytes (table II of the paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostThresholds {
    /// τw: a partition of this size is asked about equation 2.
    pub write: u64,
    /// τm: from this size on level 0 sends partitions to the SSD.
    pub major: u64,
    /// τt: what may stay then.
    pub keep: u64,
}

impl CostThresholds {
    fn of(thresholds: thermocline_engine::CostThresholds) -> CostThresholds {
        CostThresholds {
            write: thresholds.write,
            major: thresholds.major,
            keep: thresholds.keep,
        }
    }
}
