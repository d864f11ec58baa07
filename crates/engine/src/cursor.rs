//! Reading: point lookups, and a cursor that merges the generations of a view.
//!
//! A cursor sees one moment of the store for as long as it lives. While it stands still its view
//! may be taken from it (`seat`, `holds`); then, and where what the view has was retired, it seeks
//! its key anew in the newest one when it moves. Each generation is scanned in chunks (no epoch
//! guard outlives a call); of equal keys the newest generation's record wins, and a tombstone hides
//! the key, or a range of them (`hidden`). Stretches of deleted keys are stepped through once, and then
//! passed (`gaps`). Checksums are verified before a record is believed, whatever it then leads to.
//!
//! All moves are in the order of the cursor's family. Indexes always ascend; for a family whose keys
//! descend the cursor goes through them the other way, and nothing else differs.

use thermocline_base::{CfId, Result, SeqNo};

use crate::families::table::Family;
use crate::store::{Engine, Moment};
use crate::sync::{Arc, Ordering as Atomic};
use crate::value::Value;
pub use seat::Cursor;

mod covering;
mod gaps;
mod hidden;
mod place;
mod seat;
mod source;
pub(crate) mod walk;

impl Engine {
    /// Calls `found` with the value of `key`, where it lies; `None` if there is none.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] naming region and offset;
    /// [`thermocline_base::Error::InvalidArgument`] for a family that was dropped.
    pub fn get<T>(
        &self,
        cf: CfId,
        key: &[u8],
        found: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let inner = &*self.inner;
        let verify = inner.common.options.read.verify_checksums;
        // A generation that comes after this holds only what was not visible when we began.
        let view = inner.common.catalog.view();
        view.pins()?;
        // Behind the view: what was dropped by now may be missing from it, or from a part of it.
        inner
            .common
            .families
            .check(cf, inner.common.families.moment())?;
        let visible = inner.common.commits.ring.visible_mark();
        inner.reads.find(
            &view,
            (cf, key),
            |memtable| memtable.get_latest(cf, key, visible, verify),
            // What was ingested may be there and not visible yet (`ingest`).
            |tables| tables.get(cf, key, SeqNo(visible.load(Atomic::SeqCst))),
            |hit| found(hit.bytes()),
        )
    }

    /// As [`Engine::get`], with the value copied or pinned.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn value(&self, cf: CfId, key: &[u8]) -> Result<Option<Value>> {
        let inner = &*self.inner;
        let verify = inner.common.options.read.verify_checksums;
        let view = inner.common.catalog.view();
        let pins = view.pins()?;
        // As above.
        inner
            .common
            .families
            .check(cf, inner.common.families.moment())?;
        let visible = inner.common.commits.ring.visible_mark();
        inner.reads.find(
            &view,
            (cf, key),
            |memtable| memtable.get_latest(cf, key, visible, verify),
            |tables| tables.get(cf, key, SeqNo(visible.load(Atomic::SeqCst))),
            |hit| inner.reads.value(pins, hit),
        )
    }

    /// A cursor over `family` at what is visible now, not yet at any key.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] for a family that was dropped.
    pub fn cursor(&self, family: Family) -> Result<Cursor> {
        let moment = Moment::now(&self.inner);
        moment.check(family.id)?;
        Ok(Cursor::new(moment, family))
    }
}

impl Engine {
    /// Whether both are handles of one open store.
    pub fn is_same(&self, other: &Engine) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The last seqno that survives a crash, together with all before it.
    pub fn durable(&self) -> SeqNo {
        SeqNo(self.inner.common.commits.ring.durable())
    }

    /// The last seqno that readers see.
    pub fn visible(&self) -> SeqNo {
        SeqNo(self.inner.common.commits.ring.visible())
    }
}

#[cfg(test)]
mod tests;
