//! What is left of families that were dropped, for those who read them at a moment before.
//!
//! A family that is dropped counts as dead, for flushes, merges and compactions, and the next
//! version has none of its tables. Who was registered before goes on seeing it. So where somebody
//! is, the drop *sets aside* a view of that family, and of metadata: a version that has its tables
//! alone, which keeps their files and zones like any version that somebody reads, and the
//! memtables that have records of it. Before, all of them are flushed, so that there are none,
//! and nothing of other families is kept; only where flushing fails, or is not automatic, whole
//! memtables stay.
//!
//! 1. It is set aside before the drop is known, under the writer's lock. So who finds that the family
//!    was dropped finds it.
//! 2. It goes when nobody is left who had begun before ([`Holds`](crate::holds::Holds) say when
//!    that was, and are asked under the lock under which it is set aside: what comes later is for somebody whom that look
//!    may have missed). Who began before and leaves has a worker look: perhaps nobody writes any more, and nothing else would.
//!    Whoever is entered later, but has looked before how many families there were, is told that the family was dropped:
//!    it came beside the drop.
//!
//! # Known limit
//! Tables that were set aside in persistent memory stay there, since no job takes them down. Where such readers stand still and the
//! tables fill most of the region, writes are refused until the readers go; the error names them.

pub(crate) mod list;

use thermocline_base::CfId;
use thermocline_memtable::Memtable;
use thermocline_tables::Tables;

use crate::flush::Extent;
use crate::store::FamilyChanges;
use crate::sync::Arc;
use crate::turns::HasTurn;
use crate::write::held::HeldUp;
use list::Relic;

impl FamilyChanges {
    /// Moves what there is into tables, if a family `is_named` that is to be dropped, and somebody
    /// may read it. Gives the turn to flush what comes meanwhile; none if this flush failed: under the
    /// writer's lock another one would only have all writers wait until it fails, too. What is not flushed is
    /// kept as it is.
    pub fn flush_for_readers(&self, is_named: bool) -> Option<HasTurn<'_>> {
        if !is_named || self.reads.holds.count() == 0 || !self.common.flushes() {
            return None;
        }
        let flushing = self.common.turns.flushing.take();
        let sealed = self.memtables.seal_active();
        let flushed = sealed.and_then(|()| self.flusher.flush_holding(&flushing, Extent::All));
        flushed.is_ok().then_some(flushing)
    }

    /// Sets a family aside that is about to be dropped, if anybody is there who may read it. The
    /// caller has the writer stand still, and the turn to flush if that is what it says.
    pub fn set_aside(&self, held_up: &mut HeldUp<'_>, cf: CfId, turn: Option<&HasTurn<'_>>) {
        if self.reads.holds.count() == 0 {
            return;
        }
        if turn.is_some() {
            self.flush_rest(held_up);
        }
        let view = self.common.catalog.view_to_keep();
        let families = [cf, CfId::METADATA];
        let has = |m: &&Arc<Memtable>| m.families().any(|of| families.contains(&of));
        let memtables = view.memtables.iter().filter(has).cloned().collect();
        let version = self.common.catalog.set_aside(&families);
        let tables = Tables::new(
            version,
            self.common.catalog.table_files.clone(),
            Some(&view.tables),
        );
        self.reads.relics.add(Relic {
            cf,
            number: self.common.families.moment() + 1,
            view: Arc::new(view.relic(memtables, tables)),
        });
    }

    /// The family is not dropped after all.
    pub fn keep_after_all(&self, cf: CfId) {
        self.reads.relics.forget(cf);
    }

    /// Flushes what is left, so that nothing of other families is kept. What cannot be flushed is kept
    /// as it is.
    fn flush_rest(&self, held_up: &mut HeldUp<'_>) {
        let sealed = self.memtables.seal_holding(held_up);
        let _ = sealed.and_then(|()| self.flusher.flush_exclusive(held_up));
    }
}
