//! What compactions are behind with, family by family.
//!
//! Each edit asks for it, and changes few families. So what a family is behind with is kept for as long as its tables are the same
//! memory, and its levels should be as they were.

use std::collections::BTreeMap;
use std::sync::Weak;

use thermocline_base::CfId;
use thermocline_policy::geometry::Has;
use thermocline_policy::pick::{PickOptions, pending_bytes};
use thermocline_version::{FamilyTables, Version};

use super::shape::{Levels, Shape, pm_bytes};
use crate::sync::{Arc, Mutex, lock};

/// What families are behind with, by their ids, as of the version that was asked for last.
#[derive(Debug, Default)]
pub(super) struct Debts(Mutex<BTreeMap<CfId, Debt>>);

/// What a family is behind with, and what that follows from.
#[derive(Debug)]
struct Debt {
    tables: Weak<FamilyTables>,
    has: Has,
    options: PickOptions,
    /// How many tables of level 0 a read may have to ask, without those in persistent memory that may be there.
    runs: usize,
    /// About how many bytes wait to be read and written.
    pending_bytes: u64,
}

impl Debt {
    fn of(shape: &Shape, version: &Version, cf: CfId, tables: &Arc<FamilyTables>) -> Debt {
        let levels = Levels::of(version, cf, None);
        let (files, pm) = levels.depths();
        let options = shape.pick_options(&levels);
        Debt {
            tables: Arc::downgrade(tables),
            has: levels.has(),
            options,
            runs: shape.geometry().runs_for_delay(files, pm),
            pending_bytes: pending_bytes(&levels.state(&[]), &options),
        }
    }

    /// Whether it is that of these tables, too, where all families have so many bytes in persistent memory.
    fn holds_for(&self, shape: &Shape, tables: &Arc<FamilyTables>, pm_bytes: u64) -> bool {
        let has = Has {
            pm_bytes,
            ..self.has
        };
        let is_same = std::ptr::eq(self.tables.as_ptr(), Arc::as_ptr(tables));
        is_same && shape.geometry().pick_options(&has) == self.options
    }
}

impl Debts {
    /// How many tables of level 0 a read may have to ask, in the family where that are most, without those
    /// in persistent memory that may be there; and about how many bytes wait to be read and written, in all
    /// families.
    pub fn of(&self, shape: &Shape, version: &Version) -> (u64, u64) {
        let mut debts = lock(&self.0);
        let mut before = std::mem::take(&mut *debts);
        let pm_bytes = pm_bytes(version);
        for cf in version.families() {
            let Some(tables) = version.family(cf) else {
                continue;
            };
            let kept = before.remove(&cf);
            let kept = kept.filter(|debt| debt.holds_for(shape, tables, pm_bytes));
            let debt = kept.unwrap_or_else(|| Debt::of(shape, version, cf, tables));
            debts.insert(cf, debt);
        }
        let runs = debts.values().map(|debt| debt.runs).max();
        let pending_bytes = debts.values().map(|debt| debt.pending_bytes).sum();
        (runs.unwrap_or(0) as u64, pending_bytes)
    }
}
