//! Snapshots: one moment of the store, held for as long as somebody looks at it.
//!
//! A snapshot is a registered seqno. Registering keeps, of each key, the version that the snapshot
//! sees, whatever is written meanwhile (see `readers`), and wherever that version is moved. All
//! code that leaves versions out (the trees of the memtables, merges of indexes, flushes,
//! compactions) first asks which readers are registered. So every view from then on shows the same
//! at that seqno, and a read takes the newest view (`holds`). Nothing is copied: taking a snapshot
//! costs a few counters.
//!
//! # Why no version is missed
//! 1. *The view is loaded after the seqno was registered.* So it has every memtable with a record
//!    up to that seqno: a memtable joins the view before its first record becomes visible. A later
//!    view still has every such record that some reader needs, if that reader was registered when
//!    the view was made (`reclaim`, `merge`, `flush`, `jobs`).
//! 2. *Jobs that did not know of the snapshot.* A job may ask for the readers before the snapshot
//!    is registered. It leaves out a record only if something newer follows it that was settled, or
//!    visible, at that time. The snapshot's seqno is no lower than that. So the snapshot needs none
//!    of the records that are left out, in whichever view it finds the job's outputs.
//! 3. *A view is held for a call.* Everything that it leads to stays for that long, whatever is
//!    retired meanwhile.
//! 4. *Dropped families* count as dead for everybody else. A reader at an earlier moment reads what
//!    was set aside for it (`relics`). It loads the view before it asks whether the family was
//!    dropped: a view that lacks a family is newer than its drop.
//! 5. *When the store is closed*, its last view stays for the registered readers until the store is
//!    opened again. The next opening registers their seqnos before it does anything, and they read
//!    in its views (`close`).

use thermocline_base::{CfId, Result, SeqNo};
use thermocline_observe::latency::Latencies;
use thermocline_tables::Search;

use crate::awaited::{self, Begun, PendingRead};
use crate::cursor::Cursor;
use crate::families::table::Family;
use crate::holds::Reading;
use crate::holds::registry::HoldId;
use crate::operands;
use crate::report::ReaderKind;
use crate::store::{Engine, Inner, Moment};
use crate::sync::Arc;
use crate::value::Value;
use hit::Hit;

/// One moment of a store. A clone is another hold on the same moment.
#[derive(Debug)]
pub struct Snapshot {
    moment: Moment,
    hold: HoldId,
}

impl Snapshot {
    pub(crate) fn of(moment: Moment, kind: ReaderKind) -> Snapshot {
        let hold = moment.inner().reads.holds.enter(moment.hold(kind));
        Snapshot { moment, hold }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        self.moment.inner()
    }

    /// The last seqno that it sees.
    pub fn seqno(&self) -> SeqNo {
        self.moment.seqno()
    }

    /// Whether it is of the store that `engine` is a handle of.
    pub fn is_of(&self, engine: &Engine) -> bool {
        Arc::ptr_eq(self.inner(), &engine.inner)
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
        let view = self.moment.view(cf)?;
        self.find(&view, (cf, key), |hit| found(hit.bytes()))
    }

    /// As [`Snapshot::get`], with the value copied or pinned.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn value(&self, cf: CfId, key: &[u8]) -> Result<Option<Value>> {
        self.check(cf)?;
        let view = self.moment.view(cf)?;
        let pins = view.pins()?;
        let inner = self.inner_of(&view);
        self.find(&view, (cf, key), |hit| inner.reads.value(pins, hit))
    }

    /// As [`Snapshot::value`], while nobody waits: see [`PendingRead`].
    pub fn value_async(&self, cf: CfId, key: &[u8]) -> PendingRead<Option<Value>> {
        PendingRead::one(Begun::at(&self.moment, (cf, key)), key)
    }

    /// The values that `keys` of families had at this moment, in their order, each as [`Snapshot::value`] has it. What
    /// lies on the device is read together.
    pub fn values(&self, keys: &[(CfId, &[u8])]) -> Vec<Result<Option<Value>>> {
        awaited::values(&self.moment, keys)
    }

    /// As [`Snapshot::values`], while nobody waits; the first error, in the order of the keys, is the answer.
    pub fn values_async(&self, keys: Vec<(CfId, Vec<u8>)>) -> PendingRead<Vec<Option<Value>>> {
        awaited::values_async(&self.moment, keys)
    }

    /// The store that has this view.
    fn inner_of<'a>(&'a self, reading: &'a Reading) -> &'a Arc<Inner> {
        reading.inner_for(&self.moment)
    }

    fn find<T>(
        &self,
        reading: &Reading,
        (cf, key): (CfId, &[u8]),
        found: impl FnOnce(Hit<'_>) -> T,
    ) -> Result<Option<T>> {
        let verify = self.inner().common.options.read.verify_checksums;
        let seqno = self.seqno();
        self.inner_of(reading).reads.find(
            reading,
            (cf, key),
            |memtable| memtable.get(cf, key, seqno, verify),
            |tables| Search::at_once((cf, key), seqno, tables),
            || operands::folded(&self.inner_of(reading).common, reading, (cf, key), seqno),
            found,
        )
    }

    /// Calls `found` with the metadata that family `cf` had at this moment; `None` if it had none.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn metadata<T>(&self, cf: CfId, found: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        self.check(cf)?;
        let view = self.moment.view(cf)?;
        let key = cf.metadata_key();
        self.find(&view, (CfId::METADATA, &key), |hit| found(hit.bytes()))
    }

    /// Where the times of operations go.
    #[inline]
    pub fn latencies(&self) -> &Latencies {
        &self.inner().common.latencies
    }

    /// A cursor over `family` at this moment, not yet at any key.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] for a family that had been dropped.
    pub fn cursor(&self, family: Family) -> Result<Cursor> {
        self.check(family.id)?;
        Ok(Cursor::new(self.moment.clone(), family))
    }

    /// As [`Snapshot::cursor`], without another hold on the moment.
    ///
    /// # Errors
    /// As [`Snapshot::cursor`].
    pub fn into_cursor(self, family: Family) -> Result<Cursor> {
        self.cursor(family)
    }

    /// Whether `cf` had not been dropped.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] naming the family.
    pub fn check(&self, cf: CfId) -> Result<()> {
        self.moment.check(cf)
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Snapshot {
        Snapshot::of(self.moment.clone(), ReaderKind::Snapshot)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.inner().reads.holds.remove(self.hold);
    }
}

pub(crate) mod hit;
#[cfg(test)]
mod tests;
