//! The writer's lock, which is taken here and nowhere else.
//!
//! Whoever grants seqnos, and has writes go on in another chain, is handed the writer itself ([`Memtables::lock_writer`]). All
//! others only keep it where it is, to look at what there is, to drop memtables or to change the view ([`HeldUp`]).
//!
//! [`Memtables::lock_writer`]: crate::store::Memtables::lock_writer

use thermocline_base::Line;
use thermocline_memtable::{Memtable, Trail};
use thermocline_version::Change;

use super::writer::{Ended, Writer};
use crate::next_memtable::prepared::Prepared;
use crate::sync::{Arc, Mutex, MutexGuard, lock, lock_short, try_lock};

/// The writer, which one thread at a time has.
pub(crate) struct WriterLock(Line<Mutex<Writer>>);

/// As long as this is held nobody else grants a write, seals a memtable, makes or drops a family, or changes the view.
#[must_use = "the writer goes on when it is dropped"]
pub(crate) struct HeldUp<'w>(MutexGuard<'w, Writer>);

/// Whoever has one of these holds the writer's lock.
pub(crate) trait HasWriter {}

impl HasWriter for Writer {}

impl HasWriter for HeldUp<'_> {}

impl WriterLock {
    pub fn new(writer: Writer) -> WriterLock {
        WriterLock(Line(Mutex::new(writer)))
    }

    /// Waits for the writer.
    #[inline]
    pub(super) fn take(&self) -> MutexGuard<'_, Writer> {
        lock(&self.0)
    }

    /// As [`WriterLock::take`], for a write: mostly it is held for less than a microsecond.
    #[inline]
    pub(super) fn take_short(&self) -> MutexGuard<'_, Writer> {
        lock_short(&self.0)
    }

    /// The writer, if nobody has it.
    #[inline]
    pub(super) fn try_take(&self) -> Option<MutexGuard<'_, Writer>> {
        try_lock(&self.0)
    }
}

impl<'w> HeldUp<'w> {
    pub(super) fn of(writer: MutexGuard<'w, Writer>) -> HeldUp<'w> {
        HeldUp(writer)
    }

    /// The writer, for the room that has its lock.
    pub(super) fn writer(&mut self) -> &mut Writer {
        &mut self.0
    }

    /// The next seqno that is given out.
    pub fn next_seqno(&self) -> u64 {
        self.0.next_seqno()
    }

    /// Whether this memtable takes the writes.
    pub fn is_active(&self, memtable: &Arc<Memtable>) -> bool {
        Arc::ptr_eq(&self.0.active, memtable)
    }

    /// Where the records lie that are being written, behind those of all other memtables.
    pub fn open_trail(&self) -> Trail {
        self.0.chain.trail(self.0.active.id(), None)
    }

    /// Whether the manifest names the chain that is written to.
    pub fn is_recorded(&self) -> bool {
        self.0.is_recorded()
    }

    /// As [`Writer::cuts`].
    pub fn cuts(&self, prepared: Option<&Prepared>) -> Vec<Change> {
        self.0.cuts(prepared)
    }

    /// What an edit takes along that drops memtables.
    pub fn ended(&mut self) -> &mut Ended {
        &mut self.0.ended
    }

    /// From here on changes are noted as they are granted (`commit::recent`).
    pub fn watch(&mut self) {
        self.0.watched = true;
    }

    /// The next write reckons anew what DRAM it may take.
    pub fn spend_credit(&mut self) {
        self.0.credit.spend();
    }
}
