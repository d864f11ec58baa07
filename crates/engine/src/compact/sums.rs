//! Bytes of the tables of levels before each place, for who asks for many ranges of a level. Those of a level are kept until
//! somebody asks for them of other tables: a flush changes level 0 alone, mostly.

use std::collections::BTreeMap;
use std::sync::Weak;

use thermocline_base::CfId;
use thermocline_version::LevelTables;

use crate::sync::{Arc, Mutex, lock};

/// How many may be kept at least before it is looked which of them nobody asks for any more.
const SWEEP_MIN: usize = 64;

/// Those of families and levels of which somebody has asked.
#[derive(Debug, Default)]
pub(super) struct LevelSums(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    sums: BTreeMap<(CfId, usize), Sums>,
    /// From so many on it is looked which of them nobody asks for any more.
    sweep_at: usize,
}

/// Those of a level.
#[derive(Debug)]
struct Sums {
    tables: Weak<LevelTables>,
    before: Arc<[u64]>,
}

impl LevelSums {
    /// Bytes of the tables of a family's level before each of its places, and of all.
    pub fn before(&self, of: (CfId, usize), tables: &Arc<LevelTables>) -> Arc<[u64]> {
        let found = lock(&self.0).find(of, tables);
        if let Some(before) = found {
            return before;
        }
        // Nobody waits meanwhile. Who asks for the same adds up the same.
        let bytes = tables.iter().scan(0, |sum, table| {
            *sum += table.bytes;
            Some(*sum)
        });
        let before: Arc<[u64]> = [0].into_iter().chain(bytes).collect();
        let sums = Sums {
            tables: Arc::downgrade(tables),
            before: before.clone(),
        };
        lock(&self.0).keep(of, sums);
        before
    }
}

impl Kept {
    fn find(&self, of: (CfId, usize), tables: &Arc<LevelTables>) -> Option<Arc<[u64]>> {
        let sums = self.sums.get(&of)?;
        let is_same = std::ptr::eq(sums.tables.as_ptr(), Arc::as_ptr(tables));
        is_same.then(|| sums.before.clone())
    }

    /// To look at all costs as much as to keep as many as there were when it was done last.
    fn keep(&mut self, of: (CfId, usize), sums: Sums) {
        if self.sums.len() >= self.sweep_at {
            // Of families that were dropped nobody asks any more.
            self.sums.retain(|_, sums| sums.tables.strong_count() > 0);
            self.sweep_at = 2 * self.sums.len().max(SWEEP_MIN);
        }
        self.sums.insert(of, sums);
    }
}

#[cfg(test)]
mod tests;
