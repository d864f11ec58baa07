//! Bytes of the tables of levels before each place, for who asks for many ranges of a level. They are kept for as long as the
//! tables are the same memory: a flush changes level 0 alone, mostly.

use std::collections::BTreeMap;
use std::sync::Weak;

use thermocline_base::CfId;
use thermocline_version::LevelTables;

use crate::sync::{Arc, Mutex, lock};

/// Those of families and levels of which somebody has asked.
#[derive(Debug, Default)]
pub(super) struct LevelSums(Mutex<BTreeMap<(CfId, usize), Sums>>);

/// Those of a level.
#[derive(Debug)]
struct Sums {
    tables: Weak<LevelTables>,
    before: Arc<[u64]>,
}

impl LevelSums {
    /// Bytes of the tables of a family's level before each of its places, and of all.
    pub fn before(&self, of: (CfId, usize), tables: &Arc<LevelTables>) -> Arc<[u64]> {
        let mut kept = lock(&self.0);
        let is_same = |sums: &&Sums| std::ptr::eq(sums.tables.as_ptr(), Arc::as_ptr(tables));
        if let Some(sums) = kept.get(&of).filter(is_same) {
            return sums.before.clone();
        }
        let bytes = tables.iter().scan(0, |sum, table| {
            *sum += table.bytes;
            Some(*sum)
        });
        let before: Arc<[u64]> = [0].into_iter().chain(bytes).collect();
        // Of families that were dropped nobody asks any more.
        kept.retain(|_, sums| sums.tables.strong_count() > 0);
        let sums = Sums {
            tables: Arc::downgrade(tables),
            before: before.clone(),
        };
        kept.insert(of, sums);
        before
    }
}
