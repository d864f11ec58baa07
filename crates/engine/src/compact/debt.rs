//! What compactions are behind with, family by family.
//!
//! Each edit asks for it, and changes few families. So what a family is behind with is kept for as long as its tables are the same
//! memory, and its levels should be as they were. How much persistent memory others leave it may change with each edit; of that it is
//! only asked whether the family has too much.

use std::collections::BTreeMap;
use std::sync::Weak;

use thermocline_base::CfId;
use thermocline_policy::geometry::{Geometry, Has};
use thermocline_policy::pick::{PickOptions, pending_bytes, pending_is_same};
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
    fn of(geometry: &Geometry, version: &Version, cf: CfId, tables: &Arc<FamilyTables>) -> Debt {
        let levels = Levels::of(version, cf, None);
        let ((files, pm), has) = (levels.depths(), levels.has());
        let options = geometry.pick_options(&has);
        Debt {
            tables: Arc::downgrade(tables),
            has,
            options,
            runs: geometry.runs_for_delay(files, pm),
            pending_bytes: pending_bytes(&levels.state(&[]), &options),
        }
    }

    /// Whether it is that of these tables, too, where all families have so many bytes in persistent memory.
    fn holds_for(&self, geometry: &Geometry, tables: &Arc<FamilyTables>, pm_bytes: u64) -> bool {
        let has = Has {
            pm_bytes,
            ..self.has
        };
        let is_same = std::ptr::eq(self.tables.as_ptr(), Arc::as_ptr(tables));
        let own = has.level0_pm_bytes;
        is_same && pending_is_same(&self.options, &geometry.pick_options(&has), own)
    }
}

impl Debts {
    /// How many tables of level 0 a read may have to ask, in the family where that are most, without those
    /// in persistent memory that may be there; and about how many bytes wait to be read and written, in all
    /// families.
    pub fn of(&self, shape: &Shape, version: &Version) -> (u64, u64) {
        let mut debts = lock(&self.0);
        renew(&mut debts, &shape.geometry(), version);
        let runs = debts.values().map(|debt| debt.runs).max();
        let pending = debts.values().map(|debt| debt.pending_bytes);
        let pending_bytes = pending.fold(0, u64::saturating_add);
        (runs.unwrap_or(0) as u64, pending_bytes)
    }
}

/// Makes them those of this version. Returns of how many families they did not hold.
fn renew(debts: &mut BTreeMap<CfId, Debt>, geometry: &Geometry, version: &Version) -> usize {
    let pm_bytes = pm_bytes(version);
    let (mut families, mut reckoned) = (0, 0);
    for cf in version.families() {
        let Some(tables) = version.family(cf) else {
            continue;
        };
        families += 1;
        let kept = debts.get(&cf);
        if kept.is_none_or(|debt| !debt.holds_for(geometry, tables, pm_bytes)) {
            debts.insert(cf, Debt::of(geometry, version, cf, tables));
            reckoned += 1;
        }
    }
    // Others have no tables any more.
    if debts.len() > families {
        debts.retain(|cf, _| version.family(*cf).is_some());
    }
    reckoned
}

#[cfg(test)]
mod tests;
