//! Snapshots: one moment of the store, held for as long as somebody looks at it.
//!
//! A snapshot is a registered seqno and the view of that moment. Registering keeps, of each key,
//! the version that the snapshot sees, whoever writes meanwhile (see `readers`); the view keeps the
//! generations that hold it, whichever are sealed or added meanwhile. Nothing is copied: taking one
//! costs a few counters.
//!
//! The view is loaded after the seqno was registered. So it has every generation with a record up
//! to that seqno: a generation joins the view before its first record becomes visible.

use thermocline_base::counter::thread_number;
use thermocline_base::{CfId, Kind, Result, SeqNo};
use thermocline_memtable::{Lookup, Memtable, RecordRef};
use thermocline_sst::Pinned;

use crate::cursor::Cursor;
use crate::families::Family;
use crate::latency::Latencies;
use crate::metrics::Count;
use crate::partitions::PartitionRates;
use crate::readers::Registration;
use crate::store::{Engine, Inner};
use crate::sync::Arc;
use crate::tables::{TableValue, Tables};
use crate::value::Value;
use crate::view::View;

/// One moment of a store. A clone is another hold on the same moment.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) inner: Arc<Inner>,
    pub(crate) view: Arc<View>,
    held: Arc<Held>,
    /// How many families had been dropped (`families`, invariant 4).
    drops: u64,
}

/// The registration that all clones of a snapshot share. Registering once more at a moment that is past
/// could not be made safe: a writer that looks for readers might find the new slot still free, and the
/// old one free already.
#[derive(Debug)]
struct Held {
    inner: Arc<Inner>,
    registration: Registration,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.inner.readers.leave(&self.registration);
    }
}

impl Engine {
    /// What is visible now, held.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::now(&self.inner)
    }
}

impl Snapshot {
    pub(crate) fn now(inner: &Arc<Inner>) -> Snapshot {
        let inner = inner.clone();
        let mark = inner.ring.visible_mark();
        let registration = inner.readers.register(mark, thread_number());
        inner.readers.count_hold();
        let view = inner.view.load_full();
        let drops = inner.families.moment();
        Snapshot {
            held: Arc::new(Held {
                inner: inner.clone(),
                registration,
            }),
            inner,
            view,
            drops,
        }
    }

    /// Lets go of generations that were retired: nothing in them is needed at this moment, so the view
    /// of today shows the same. Not so for a family that has been dropped, whose records count as dead:
    /// whoever reads it reads the view that he has. Returns whether the view is another one now.
    pub(crate) fn renew(&mut self, cf: CfId) -> bool {
        if !self.view.memtables.iter().any(|m| m.is_retired()) {
            return false;
        }
        let view = self.inner.view.load_full();
        // In this order: a family that is dropped later was not dead for this view.
        let families = &self.inner.families;
        let exists = families.check(cf, families.moment()).is_ok();
        if exists {
            self.view = view;
        }
        exists
    }

    /// The last seqno that it sees.
    pub fn seqno(&self) -> SeqNo {
        self.held.registration.seqno
    }

    /// Whether it is of the store that `engine` is a handle of.
    pub fn is_of(&self, engine: &Engine) -> bool {
        Arc::ptr_eq(&self.inner, &engine.inner)
    }

    /// Calls `found` with the value that `key` had at this moment; `None` if it had none.
    ///
    /// # Errors
    /// As [`Engine::get`], for a family that had been dropped.
    pub fn get<T>(
        &self,
        cf: CfId,
        key: &[u8],
        found: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.check(cf)?;
        let verify = self.inner.options.read.verify_checksums != 0;
        let seqno = self.seqno();
        self.inner.find(
            &self.view,
            (cf, key),
            |memtable| memtable.get(cf, key, seqno, verify),
            |tables| tables.get(cf, key, seqno),
            |hit| found(hit.bytes()),
        )
    }

    /// As [`Snapshot::get`], with the value copied or pinned.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn value(&self, cf: CfId, key: &[u8]) -> Result<Option<Value>> {
        self.check(cf)?;
        let verify = self.inner.options.read.verify_checksums != 0;
        let seqno = self.seqno();
        self.inner.find(
            &self.view,
            (cf, key),
            |memtable| memtable.get(cf, key, seqno, verify),
            |tables| tables.get(cf, key, seqno),
            |hit| self.inner.value(hit),
        )
    }

    /// Calls `found` with the metadata that family `cf` had at this moment; `None` if it had none.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn metadata<T>(&self, cf: CfId, found: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        self.check(cf)?;
        self.get(CfId::METADATA, &cf.metadata_key(), found)
    }

    /// Where reads are counted.
    pub(crate) fn rates(&self) -> &PartitionRates {
        &self.inner.rates
    }

    /// Where the times of operations go.
    #[inline]
    pub fn latencies(&self) -> &Latencies {
        &self.inner.latencies
    }

    /// A cursor over `family` at this moment, not yet at any key.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] for a family that had been dropped.
    pub fn cursor(&self, family: Family) -> Result<Cursor> {
        self.clone().into_cursor(family)
    }

    /// As [`Snapshot::cursor`], without another hold on the moment.
    ///
    /// # Errors
    /// As [`Snapshot::cursor`].
    pub fn into_cursor(self, family: Family) -> Result<Cursor> {
        self.check(family.id)?;
        Ok(Cursor::new(self, family))
    }

    /// Whether `cf` had not been dropped.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] naming the family.
    pub fn check(&self, cf: CfId) -> Result<()> {
        self.inner.families.check(cf, self.drops)
    }
}

/// Where a value was found.
pub(crate) enum Hit<'a> {
    /// In a generation.
    Record(&'a Arc<Memtable>, &'a RecordRef<'a>),
    /// In a block of a table.
    Block(&'a Pinned),
    /// In a table in persistent memory.
    Pm(thermocline_level0::Pinned),
    /// In a blob file, from which it was read.
    Blob(Vec<u8>),
}

impl Hit<'_> {
    /// The value.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Hit::Record(_, record) => record.value,
            Hit::Block(value) => value,
            Hit::Pm(value) => value,
            Hit::Blob(value) => value,
        }
    }
}

impl Inner {
    /// Asks the generations of a view by `lookup` for a key of family `cf`, newest first, then its tables by `below`, and
    /// calls `found` with what the first that knows the key has, if that is a value.
    pub fn find<T>(
        &self,
        view: &View,
        (cf, key): (CfId, &[u8]),
        lookup: impl for<'m> Fn(&'m Memtable) -> Result<Lookup<'m>>,
        below: impl FnOnce(&Tables) -> Result<Option<Option<TableValue>>>,
        found: impl FnOnce(Hit<'_>) -> T,
    ) -> Result<Option<T>> {
        self.counted.add(Count::Gets, 1);
        self.rates.read(view, cf, key);
        let memtables = view.asked_for(cf, key);
        for (asked, memtable) in memtables.iter().enumerate() {
            let record = match lookup(memtable)? {
                Lookup::Absent => continue,
                Lookup::Record(record) => record,
                // Whatever lies below is older.
                Lookup::Covered => return Ok(None),
            };
            if asked > 1 {
                self.asked(asked as u64 - 1);
            }
            let value = match record.kind {
                Kind::Put => Some(found(Hit::Record(memtable, &record))),
                Kind::PutBlob => Some(found(self.hit_in_blob(cf, &record)?)),
                _ => None,
            };
            // What was copied is believed only if its pages could be read.
            self.space.region().check_media()?;
            let found = u64::from(value.is_some());
            self.counted.add(Count::Found, found);
            if memtable.is_merged() {
                self.counted.add(Count::FoundMerged, found);
            }
            return Ok(value);
        }
        if memtables.len() > 2 {
            self.asked(memtables.len() as u64 - 2);
        }
        if view.tables.is_empty() {
            return Ok(None);
        }
        let value = below(&view.tables)?.flatten();
        self.compact_for_reads();
        self.counted.add(Count::Found, u64::from(value.is_some()));
        let Some(value) = value else {
            return Ok(None);
        };
        Ok(Some(match value {
            TableValue::Block(value) => found(Hit::Block(&value)),
            TableValue::Pm(value) => {
                let found = found(Hit::Pm(value));
                self.space.region().check_media()?;
                found
            }
            TableValue::Blob(value) => found(Hit::Blob(value)),
        }))
    }

    #[cold]
    fn hit_in_blob(&self, cf: CfId, record: &RecordRef<'_>) -> Result<Hit<'static>> {
        // Before the reference is believed.
        self.space.region().check_media()?;
        // One whose value has another length was refused when it was read (`memtable::home`).
        let blob = record
            .blob()
            .expect("a record of this kind has a reference");
        Ok(Hit::Blob(self.table_files.read_blob(cf, record.key, blob)?))
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Snapshot {
        self.inner.readers.count_hold();
        Snapshot {
            held: self.held.clone(),
            inner: self.inner.clone(),
            view: self.view.clone(),
            drops: self.drops,
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.inner.readers.count_release();
    }
}

#[cfg(test)]
mod tests;
