//! Finding a key in a view: in its memtables, newest first, then in its tables.

use thermocline_base::{CfId, Kind, Result};
use thermocline_catalog::View;
use thermocline_memtable::{Lookup, Memtable, RecordRef};
use thermocline_observe::count::Count;
use thermocline_policy::tuning::READ_MEMTABLES;
use thermocline_tables::{TableValue, Tables};

use crate::snapshot::hit::Hit;
use crate::store::Reads;
use crate::sync::Arc;

impl Reads {
    /// Asks the memtables of a view by `lookup` for a key of family `cf`, newest first, then its tables by `below`, and
    /// calls `found` with what the first that knows the key has, if that is a value; or with what `folded` makes of it, if
    /// it is an operand.
    pub fn find<T>(
        &self,
        view: &View,
        (cf, key): (CfId, &[u8]),
        lookup: impl for<'m> Fn(&'m Memtable) -> Result<Lookup<'m>>,
        below: impl FnOnce(&Arc<Tables>) -> Result<Option<Option<TableValue>>>,
        folded: impl FnOnce() -> Result<Option<Vec<u8>>>,
        found: impl FnOnce(Hit<'_>) -> T,
    ) -> Result<Option<T>> {
        let memtables = self.memtables_for(view, (cf, key));
        for (before, memtable) in memtables.iter().enumerate() {
            let record = match lookup(memtable)? {
                Lookup::Absent => continue,
                Lookup::Covered => {
                    self.has_asked(before + 1);
                    return Ok(None);
                }
                Lookup::Record(record) => record,
            };
            self.has_asked(before + 1);
            let value = match record.kind {
                Kind::Put => Some(found(Hit::Record(memtable, &record))),
                Kind::PutBlob => Some(found(self.hit_in_blob(cf, &record)?)),
                Kind::Merge => folded()?.map(|value| found(Hit::Made(value))),
                _ => None,
            };
            self.settle(memtable, value.is_some())?;
            return Ok(value);
        }
        self.has_asked(memtables.len());
        if view.tables.is_empty() {
            return Ok(None);
        }
        let value = below(&view.tables)?.flatten();
        self.settle_below(value.is_some());
        let Some(value) = value else {
            return Ok(None);
        };
        Ok(Some(match value {
            TableValue::Block(value) => found(Hit::Block(&value)),
            TableValue::Pm(value) => {
                let found = found(Hit::Pm(value));
                self.common.space.region().check_media()?;
                found
            }
            TableValue::Blob(value) => found(Hit::Made(value)),
            TableValue::Operand => return Ok(folded()?.map(|value| found(Hit::Made(value)))),
        }))
    }

    /// The memtables of a view that a get of this key asks, newest first, until one has a record of it or a range
    /// tombstone over it.
    #[inline]
    pub fn memtables_for<'m>(
        &self,
        view: &'m View,
        (cf, key): (CfId, &[u8]),
    ) -> &'m [Arc<Memtable>] {
        self.common.counted.add(Count::Gets, 1);
        self.common.rates.read(view, cf, key);
        view.asked_for(cf, key)
    }

    /// A get has asked this many of them.
    #[inline]
    pub fn has_asked(&self, memtables: usize) {
        if memtables > READ_MEMTABLES {
            self.common.asked((memtables - READ_MEMTABLES) as u64);
        }
    }

    /// A record of this memtable has answered; `found` if it led to a value. What was copied is believed only if its
    /// pages could be read.
    #[inline]
    pub fn settle(&self, memtable: &Memtable, found: bool) -> Result<()> {
        self.common.space.region().check_media()?;
        let found = u64::from(found);
        self.common.counted.add(Count::Found, found);
        if memtable.is_merged() {
            self.common.counted.add(Count::FoundMerged, found);
        }
        Ok(())
    }

    /// The tables have answered.
    #[inline]
    pub fn settle_below(&self, found: bool) {
        self.common.compact_for_reads();
        let found = u64::from(found);
        self.common.counted.add(Count::Found, found);
        self.common.counted.add(Count::FoundInTables, found);
    }

    #[cold]
    fn hit_in_blob(&self, cf: CfId, record: &RecordRef<'_>) -> Result<Hit<'static>> {
        // Before the reference is believed.
        self.common.space.region().check_media()?;
        // One whose value has another length was refused when it was read (`memtable::home`).
        let blob = record
            .blob()
            .expect("a record of this kind has a reference");
        Ok(Hit::Made(
            self.common
                .catalog
                .table_files
                .read_blob(cf, record.key, blob)?,
        ))
    }
}
