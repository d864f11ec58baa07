//! What background work comes next, and the numbers on which that is decided.
//!
//! Nothing here decides: it is what `policy::next` returns, and the numbers that it is given, asked at one moment.

use std::collections::BTreeSet;
use std::time::Duration;

use thermocline_base::{CfId, SeqNo};
use thermocline_policy::flush::FlushPlan;
use thermocline_policy::level0::Level0Plan;
use thermocline_policy::pick::{Held, PickOptions, Reason, Scores, State, Table};
use thermocline_policy::pressure::Delay;
use thermocline_policy::rewrite::RewritePlan;
use thermocline_policy::work::{Decision, Work};
use thermocline_version::Version;

use crate::compact::shape::Levels;
use crate::partitions::PartitionsPlan;
use crate::store::Reporter;
use crate::sync::Arc;

/// What a store would do next.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// About flushing.
    pub flush: FlushPlan,
    /// Whether the next flush rewrites; `None` if none does, there is nothing to flush, or it cannot be told.
    pub rewrite: Option<RewritePlan>,
    /// Of each column family that has tables or several partitions, by its id.
    pub families: Vec<FamilyPlan>,
    /// What costs say of level 0 in persistent memory; `None` unless they decide.
    pub level0: Option<Level0Plan>,
    /// How much writers are held back now, and why.
    pub delay: Option<Delay>,
    /// Percent of their time that compactions work now, if they give way to clients.
    pub percent_worked: Option<u64>,
}

/// The levels of a family and what is to be done about them.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyPlan {
    /// The family.
    pub family: CfId,
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

/// What of a family has expired, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlPlan {
    /// The TTL.
    pub ttl: Duration,
    /// Everything with this seqno or a smaller one has expired; `None` if nothing has.
    pub expired: Option<SeqNo>,
    /// Bytes of tables of which everything has expired, and which somebody may still read.
    pub expired_bytes: u64,
    /// Bytes of tables of which something has expired, those among them.
    pub expiring_bytes: u64,
}

/// How full a level is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelPlan {
    /// Its tables.
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Tables that a read may have to ask, at most.
    pub runs: usize,
    /// Bytes from which on it is compacted; `None` of the last one, and of those that data passes by.
    pub bytes_due: Option<u64>,
    /// Of level 0: runs from which on it is compacted.
    pub runs_due: Option<usize>,
    /// How far it is on its way to being compacted: from 1 on it is due. What running jobs take does
    /// not count.
    pub score: f64,
}

/// A compaction that would begin now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionPlan {
    /// Why.
    pub reason: Reason,
    /// Why, with the numbers that decided.
    pub because: String,
    /// From which level.
    pub from: usize,
    /// Into which.
    pub to: usize,
    /// Tables that it takes from both.
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Whether they are moved unread.
    pub moved: bool,
}

impl CompactionPlan {
    /// The job that was decided, if it is one.
    fn of(decision: Decision) -> Option<CompactionPlan> {
        let because = decision.because.to_string();
        let job = match decision.work {
            Work::Compact { job, .. } | Work::CompactInternal { job, .. } => job,
            _ => return None,
        };
        Some(CompactionPlan {
            reason: job.reason,
            because,
            from: job.from,
            to: job.to,
            tables: job.inputs.len() + job.overlapped.len(),
            bytes: job.bytes,
            moved: job.trivial,
        })
    }
}

/// How far what level 0 has in files, or what it has in persistent memory, is on its way to being compacted.
fn level0_score(tables: &[Table<'_>], running: &[Held], options: &PickOptions) -> f64 {
    let levels = [tables.to_vec()];
    let alone = State {
        levels: &levels,
        running,
    };
    Scores::new(&alone, options).score(0)
}

impl Reporter {
    fn plan_of(
        &self,
        family: CfId,
        version: &Arc<Version>,
        levels: &Levels<'_>,
        next: Option<Decision>,
    ) -> FamilyPlan {
        let (running, _) = self.common.compactions.of_family(family);
        let options = self.common.compactions.shape.pick_options(levels);
        let state = levels.state(&running);
        let scores = Scores::new(&state, &options);
        let (depth, depth_in_pm) = levels.depths();
        let of_level0 = |in_pm: bool, runs: usize, (bytes_due, runs_due): (u64, usize)| {
            let tables = state.level0().iter();
            let tables = tables.filter(|table| table.in_pm == in_pm);
            let tables: Vec<Table<'_>> = tables.copied().collect();
            LevelPlan {
                tables: tables.len(),
                bytes: tables.iter().map(|table| table.bytes).sum(),
                runs,
                bytes_due: Some(bytes_due),
                runs_due: Some(runs_due),
                score: level0_score(&tables, &running, &options),
            }
        };
        let due = (options.level0_bytes, options.level0_tables);
        let due_in_pm = (options.level0_pm_bytes, options.level0_pm_tables);
        let level = |level: usize| match level {
            0 => of_level0(false, depth, due),
            _ => LevelPlan {
                tables: state.level(level).len(),
                bytes: state.level(level).bytes(),
                runs: state.level(level).len().min(1),
                bytes_due: scores.target(level),
                runs_due: None,
                score: scores.score(level),
            },
        };
        FamilyPlan {
            family,
            name: self.common.families.name_of(family),
            levels: (0..levels.count()).map(level).collect(),
            level0_pm: of_level0(true, depth_in_pm, due_in_pm),
            partitions: self.partitioner.partitions_plan(version, family),
            running: running.len(),
            next: next.and_then(CompactionPlan::of),
            ttl: self.ttl_plan(family, &state),
        }
    }

    fn ttl_plan(&self, family: CfId, state: &State<'_>) -> Option<TtlPlan> {
        let ttl = self.common.ttl(family)?;
        let expired = self.common.expired_for(family);
        let bytes = expired.map(|expired| expired.bytes(state));
        let (expired_bytes, expiring_bytes) = bytes.unwrap_or_default();
        Some(TtlPlan {
            ttl: Duration::from_secs(ttl),
            expired: expired.map(|expired| expired.up_to),
            expired_bytes,
            expiring_bytes,
        })
    }

    /// As [`Engine::plan`](crate::Engine::plan).
    pub fn plan(&self) -> Plan {
        if self.common.compactions.costs.decide() {
            self.picker.level0_costs.sample_level0();
        }
        let version = self.common.catalog.version();
        let level0 = self
            .picker
            .level0_costs
            .level0_plan(&version, |cf| self.common.compactions.of_family(cf).0);
        let mut next = self.picker.next_compactions(&version);
        let family = |cf| {
            let levels = Levels::of(&version, cf, None);
            self.plan_of(cf, &version, &levels, next.remove(&cf))
        };
        let divided = version.divided().map(|(cf, _)| cf);
        let families: BTreeSet<CfId> = version.families().chain(divided).collect();
        Plan {
            flush: self.flush_due.flush_plan(),
            // A record that cannot be read is for its reader to hear of.
            rewrite: self.evacuator.rewrite_plan().unwrap_or(None),
            families: families.into_iter().map(family).collect(),
            level0,
            delay: self.pressure.pressing(),
            percent_worked: self
                .common
                .compactions
                .percent_worked(&self.common.catalog.table_files),
        }
    }
}
