//! The background work that comes next, and the numbers that decide it.

mod level0;

use std::time::Duration;

use thermocline_engine::{CompactionPlan, Delay, LevelPlan, PartitionsPlan, RewritePlan};

pub use level0::{CostThresholds, Level0Plan, SlicePlan, UnitCosts};

/// What a database would do next: what [`Db::plan`](crate::Db::plan) returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// About flushing.
    pub flush: FlushPlan,
    /// Whether the next flush rewrites; `None` if none does, there is nothing to flush, or it cannot be told.
    pub rewrite: Option<RewritePlan>,
    /// Of each column family that has tables or several partitions, by its number.
    pub families: Vec<FamilyPlan>,
    /// What costs say of level 0 in persistent memory; `None` unless they decide.
    pub level0: Option<Level0Plan>,
    /// How much writers are held back now, and why.
    pub delay: Option<Delay>,
    /// Percent of their time that compactions work now, if they give way to clients.
    pub percent_worked: Option<u64>,
}

impl Plan {
    pub(crate) fn of(plan: thermocline_engine::Plan) -> Plan {
        let families = plan.families.into_iter();
        Plan {
            flush: FlushPlan::of(plan.flush),
            rewrite: plan.rewrite,
            families: families.map(FamilyPlan::of).collect(),
            level0: plan.level0.map(Level0Plan::of),
            delay: plan.delay,
            percent_worked: plan.percent_worked,
        }
    }
}

/// When sealed memtables are flushed: as soon as one of the numbers has come to its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlushPlan {
    /// Whether the database flushes by itself.
    pub automatic: bool,
    /// Whether a flush is due now.
    pub due: bool,
    /// Why, with the numbers that decided, if one is.
    pub because: Option<String>,
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
    /// DRAM that this database takes, in bytes.
    pub dram_bytes: u64,
    /// The same from which on they are flushed.
    pub dram_bytes_due: u64,
    /// Places for further memtables.
    pub memtables_free: usize,
    /// The same down to which they are flushed.
    pub memtables_free_due: usize,
}

impl FlushPlan {
    fn of(plan: thermocline_engine::FlushPlan) -> FlushPlan {
        FlushPlan {
            automatic: plan.automatic,
            due: plan.due,
            because: plan.because.map(|because| because.to_string()),
            sealed: plan.sealed,
            sealed_due: plan.sealed_due,
            sealed_bytes: plan.sealed_bytes,
            sealed_bytes_due: plan.sealed_bytes_due,
            sealed_blob_bytes: plan.sealed_blob_bytes,
            sealed_blob_bytes_due: plan.sealed_blob_bytes_due,
            dram_bytes: plan.dram_bytes,
            dram_bytes_due: plan.dram_bytes_due,
            memtables_free: plan.memtables_free,
            memtables_free_due: plan.memtables_free_due,
        }
    }
}

/// The levels of a column family and what is to be done about them.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyPlan {
    /// The number of the family, which tells it from a dropped family of the same name.
    pub family: u16,
    /// Its name; `None` of the one that keeps the metadata of batches.
    pub name: Option<String>,
    /// From level 0 to the deepest one that has tables: what lies in files.
    pub levels: Vec<LevelPlan>,
    /// What of level 0 lies in persistent memory. Its bytes are due when all families together have too many.
    pub level0_pm: LevelPlan,
    /// How its keys are divided.
    pub partitions: PartitionsPlan,
    /// Compactions that run.
    pub running: usize,
    /// The next one.
    pub next: Option<CompactionPlan>,
    /// What of it expires, if it has a TTL in this opening.
    pub ttl: Option<TtlPlan>,
}

impl FamilyPlan {
    fn of(plan: thermocline_engine::FamilyPlan) -> FamilyPlan {
        FamilyPlan {
            family: plan.family.0,
            name: plan.name,
            levels: plan.levels,
            level0_pm: plan.level0_pm,
            partitions: plan.partitions,
            running: plan.running,
            next: plan.next,
            ttl: plan.ttl.map(TtlPlan::of),
        }
    }
}

/// What of a family has expired, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlPlan {
    /// The TTL.
    pub ttl: Duration,
    /// Everything with this sequence number or a smaller one has expired; `None` if nothing has.
    pub expired: Option<u64>,
    /// Bytes of tables of which everything has expired, and which somebody may still read.
    pub expired_bytes: u64,
    /// Bytes of tables of which something has expired, those among them.
    pub expiring_bytes: u64,
}

impl TtlPlan {
    fn of(plan: thermocline_engine::TtlPlan) -> TtlPlan {
        TtlPlan {
            ttl: plan.ttl,
            expired: plan.expired.map(|seqno| seqno.0),
            expired_bytes: plan.expired_bytes,
            expiring_bytes: plan.expiring_bytes,
        }
    }
}
