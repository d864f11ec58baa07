//! What a write asks of the indexes.

use std::collections::BTreeMap;

use thermocline_base::{BatchEntry, CfId, Kind};

/// What a write asks of the indexes.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// How many records are of each family.
    pub updates: BTreeMap<CfId, u64>,
    /// Range tombstones among them, and the bytes of their keys.
    pub ranges: u64,
    pub range_bytes: u64,
}

impl Asked {
    /// By a write of these.
    pub fn of<'a>(entries: impl Iterator<Item = BatchEntry<'a>>) -> Asked {
        let mut asked = Asked::default();
        // Neighbours are of one family, mostly: it is looked up once for all of them.
        let mut run: Option<(CfId, u64)> = None;
        for entry in entries {
            if entry.kind == Kind::RangeDelete {
                asked.ranges += 1;
                asked.range_bytes += (entry.key.len() + entry.value.len()) as u64;
            }
            match &mut run {
                Some((cf, records)) if *cf == entry.cf => *records += 1,
                _ => asked.count(run.replace((entry.cf, 1))),
            }
        }
        asked.count(run);
        asked
    }

    fn count(&mut self, run: Option<(CfId, u64)>) {
        if let Some((cf, records)) = run {
            *self.updates.entry(cf).or_default() += records;
        }
    }
}
