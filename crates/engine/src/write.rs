//! What a grant needs: room in a chain, memory for the index, and a memtable that takes writes. All of this happens
//! under the writer's lock (see the crate documentation for the steps).

pub(crate) mod env;
pub(crate) mod held;
pub(crate) mod submit;
#[cfg(test)]
mod tests;
pub(crate) mod writer;

use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{BatchEntry, Error, Result, SeqNo};
use thermocline_commit::Group;
use thermocline_commit::ring::Range;
use thermocline_halloc::{Lacks, Reserve};
use thermocline_memtable::{ItemBuilder, Persist};
use thermocline_observe::cause::StallCause;
use thermocline_observe::event::Event;
use thermocline_policy::situation::{Ahead, Situation};
use thermocline_policy::{room, seal};
use thermocline_version::{Version, VersionEdit};
use thermocline_wal::LogWriter;

use crate::busy::busy;
use crate::next_memtable::prepared::Naming;
use crate::start::opened;
use crate::store::{Above, Memtables};
use crate::sync::{Arc, MutexGuard, Ordering};
use crate::write::env::Place;
use held::HeldUp;
use writer::{SPAN_MAX, Writer};

/// The limits of a memtable that takes writes from now on. They depend on whether `version` has PM tables.
pub(crate) fn seal_limits(options: &Options, version: &Version) -> seal::Limits {
    let tables = version.pm_table_count() > 0;
    seal::Limits {
        bytes: options.memtable_bytes_beside(tables),
        blob_bytes: options.blob.generation_bytes,
        span: SPAN_MAX,
    }
}

/// The error for a memtable that nothing may be written to any more, where the next one was `refused`.
#[cold]
fn too_wide(refused: Option<Error>) -> Error {
    let why = match refused {
        Some(Error::OutOfSpace(why)) => why,
        Some(error) => error.to_string(),
        None => "there is no room for the descriptor of another one".to_string(),
    };
    Error::OutOfSpace(format!(
        "the memtable spans too many sequence numbers: {why}"
    ))
}

impl Memtables {
    /// The writer, for whoever grants seqnos, and has writes go on in another chain.
    pub fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.take()
    }

    /// The writer stands still, for whoever looks at what there is, or changes the view.
    pub fn hold_writer_up(&self) -> HeldUp<'_> {
        HeldUp::of(self.writer.take())
    }

    /// As [`Memtables::hold_writer_up`], if nobody has the writer.
    pub fn try_hold_writer_up(&self) -> Option<HeldUp<'_>> {
        self.writer.try_take().map(HeldUp::of)
    }

    /// The view takes in the tables that there are.
    pub fn show_tables(&self) {
        let _held_up = self.hold_writer_up();
        self.common.catalog.show_tables();
    }

    /// The next seqno that is given out.
    pub fn next_seqno(&self) -> u64 {
        self.lock_writer().next_seqno()
    }

    /// Bytes of the active memtable.
    pub fn active_bytes(&self) -> u64 {
        self.lock_writer().active.bytes()
    }

    /// The rooms above, which take care of sealed memtables and make room.
    pub fn above(&self) -> Result<Arc<dyn Above>> {
        self.above.upgrade().ok_or(Error::Closed)
    }

    /// Makes sure that an item of `bytes` bytes can be appended: after this only a persist may fail. Where there is no
    /// room, dead memtables are dropped to make some.
    ///
    /// Returns whether a zone was attached.
    pub fn make_room(&self, writer: &mut Writer, bytes: u64, reserve: Reserve) -> Result<bool> {
        match self.find_room(writer, bytes, reserve, true) {
            Err(error) => {
                self.above()?.reclaim_or(writer, error)?;
                self.find_room(writer, bytes, reserve, true)
            }
            found => found,
        }
    }

    /// There is no room, as `error` says, for whoever does not have the writer: drops dead memtables, or gives the error back.
    pub fn reclaim_or(&self, error: Error) -> Result<()> {
        self.above()?.reclaim_or(&mut self.lock_writer(), error)
    }

    /// As [`Memtables::make_room`], but it fails where there is no room. Unless it `may_wait`, it syncs no file;
    /// [`Memtables::check_no_slowdown`] has found that possible. Where there is no next memtable, and cannot be one,
    /// the active one grows.
    pub fn find_room(
        &self,
        writer: &mut Writer,
        bytes: u64,
        reserve: Reserve,
        may_wait: bool,
    ) -> Result<bool> {
        self.record_chain(writer)?;
        let limits = writer.limits;
        let in_hand = writer.in_hand();
        let seal = seal::is_due(&in_hand, &limits, bytes, || {
            self.common.space.has_room(bytes)
        });
        let mut wide = seal::is_wide(&in_hand, &limits);
        let mut refused = None;
        if (seal || wide) && (may_wait || !self.next.is_missing()) {
            match self.rotate(writer, &mut self.lock_next()) {
                // The active memtable grows instead, unless the store is poisoned.
                Err(error @ (Error::OutOfSpace(_) | Error::Io { .. })) => {
                    self.common.poison.check()?;
                    refused = Some(error);
                }
                rotated => rotated?,
            }
            wide = seal::is_wide(&writer.in_hand(), &writer.limits);
        }
        if wide {
            return Err(too_wide(refused));
        }
        if reserve == Reserve::Keep && writer.in_reserve {
            // The zone that was kept back is for deletes, though a put might still fit.
            writer.in_reserve = self.common.space.reserve_taken();
            if writer.in_reserve {
                return Err(self.common.space.full(bytes));
            }
        }
        if let Some(wal) = &self.wal {
            wal.reserve(bytes, reserve, may_wait)?;
        }
        if writer.chain.state().left >= bytes {
            return Ok(false);
        }
        let (begun, had) = (self.common.now_ns(), self.common.space.region_bytes());
        let attached = writer.chain.ensure(bytes, reserve);
        let attached = attached
            .map_err(|error| self.common.poison.poison_unless_full(error))?
            .is_some();
        if attached {
            self.pressure.press();
            writer.in_reserve = reserve == Reserve::Use;
            // If somebody else made it grow meanwhile, he may have told of that before.
            if self.note_growth() || self.common.space.region_bytes() > had {
                self.common.stalls.held_up(StallCause::Growth, begun);
            }
        }
        Ok(attached)
    }

    /// The zones and pages that the region should have ready ahead of need, and lacks; so does it a run for which a write has
    /// not waited.
    pub fn lacks(&self) -> Lacks {
        self.common.space.lacks(room::zones_ahead)
    }

    /// Whether work ahead of need is due.
    pub fn work_is_due(&self, writer: &Writer) -> bool {
        let lacks = self.lacks();
        let ahead = Ahead {
            active_bytes: writer.active.bytes(),
            limits: writer.limits,
            next_is_missing: self.next.is_missing(),
            next_is_awaited: writer.wants_next,
            lacks_zones: lacks.zones,
            lacks_pages: lacks.pages,
        };
        let situation = Situation {
            ahead: Some(ahead),
            ..Situation::default()
        };
        self.common
            .compactions
            .costs
            .next(&situation)
            .is_something()
    }

    /// Refuses a write of `bytes` bytes that would have to wait for a file's sync, for growth, or for other writes. If it
    /// is the next memtable that it lacks, [`Inner::work_ahead`] names that, whatever it is needed for, and whether or
    /// not the region can grow.
    ///
    /// [`Inner::work_ahead`]: crate::store::Inner::work_ahead
    pub fn check_no_slowdown(
        &self,
        writer: &mut Writer,
        bytes: u64,
        reserve: Reserve,
    ) -> Result<()> {
        // Since that was found a flush may have given DRAM back.
        writer.heavy = writer.heavy && self.is_heavy(&writer.active);
        // As in `find_room`.
        let (in_hand, limits) = (writer.in_hand(), &writer.limits);
        let wide = seal::is_wide(&in_hand, limits);
        let due = seal::is_due(&in_hand, limits, bytes, || {
            self.common.space.has_room(bytes)
        });
        let seals = due || wide;
        // Without a descriptor the active memtable grows, unless it is too wide for that.
        let can_seal = wide || self.common.space.descriptors().free() > 0;
        // The next memtable is being named right now, or is missing.
        let no_next = seals && !self.next.is_ready();
        // The next memtable begins with a zone of its own, whatever the one at hand has left.
        let stays = !seals || no_next;
        let fits = stays && writer.chain.state().left >= bytes
            || self.common.space.has_room_now(bytes, reserve)
            || stays && writer.chain.can_widen(bytes, reserve);
        writer.wants_next |= no_next && can_seal;
        if !writer.recorded || no_next && can_seal {
            return Err(busy("for the manifest"));
        }
        if seals && !no_next && self.common.commits.ring.groups() > 0
            || !self.common.commits.ring.has_room()
        {
            return Err(busy("for writes in flight"));
        }
        // A region that cannot grow is full: waiting would not help. So is one that would not get such a run, and one whose
        // device has just refused it, until working ahead finds room there; a flush may help.
        if !fits && self.common.space.can_grow() {
            let comes = self.common.space.want_run(bytes);
            return Err(match comes && !self.common.space.is_growth_refused() {
                true => busy("for the region to grow"),
                false => self.common.space.full(bytes),
            });
        }
        Ok(())
    }

    /// Names the chain of this incarnation in the manifest, before its first grant.
    pub fn record_chain(&self, writer: &mut Writer) -> Result<()> {
        if writer.recorded {
            return Ok(());
        }
        let id = writer.active.id();
        let late = active(Bug::LogAfterName);
        let mut log = match late {
            true => None,
            false => self.begin_log(writer.chain.chain().id, writer.nonce)?,
        };
        let change = opened(writer.chain.chain(), id, writer.nonce, writer.chain.rest());
        self.edit_with_log(change.into(), &log)?;
        writer.recorded = true;
        if late {
            log = self.begin_log(writer.chain.chain().id, writer.nonce)?;
        }
        self.go_over_to_log(log);
        self.witness(writer.chain.chain(), writer.nonce)
    }

    /// Who holds what this returns names chains out of turn: all that were begun have names, and no write is granted meanwhile.
    ///
    /// # Errors
    /// Those of naming the chain that is written to.
    pub fn name_out_of_turn(&self) -> Result<(Naming<'_>, HeldUp<'_>)> {
        let mut writer = self.lock_writer();
        self.common.check_writable()?;
        self.record_chain(&mut writer)?;
        Ok((self.next.begin_naming(), HeldUp::of(writer)))
    }

    /// Names the chain that is written to, and the next memtable where that will be needed soon.
    pub fn name_ahead(&self) -> Result<()> {
        let mut writer = self.lock_writer();
        // Again, since the store may have been closed meanwhile, or growing has failed.
        self.common.check_writable()?;
        self.record_chain(&mut writer)?;
        let incarnation = writer.chain.chain().incarnation;
        let bytes = writer.active.bytes();
        let wants_next = seal::wants_next(bytes, &writer.limits, writer.wants_next);
        // Writers go on while the manifest is synced.
        drop(writer);
        if wants_next {
            self.prepare(&mut self.next.begin_naming(), incarnation)?;
        }
        Ok(())
    }

    /// Appends an edit that names a chain whose log has been begun. If the edit failed without effect, the log goes.
    pub fn edit_with_log(&self, edit: VersionEdit, log: &Option<LogWriter>) -> Result<()> {
        let edited = self.common.catalog.edit(&edit);
        edited.map_err(|error| self.without_edit(log, error))
    }

    /// Gives a group its seqnos and its place. From here on nothing may fail but a persist. `tombstones`
    /// bytes of DRAM were promised to its range tombstones.
    pub fn grant(
        &self,
        writer: &mut Writer,
        records: u64,
        bytes: u64,
        tombstones: u64,
    ) -> Group<Place> {
        let first = SeqNo(writer.next_seqno);
        let last = SeqNo(first.0 + records - 1);
        // The view changes under the writer's lock only: its first memtable is the active one. Loading it is an exchange, which
        // waits until all that was stored before has its line: so it comes before the stores to lines that other writers have.
        let view = self.common.catalog.view();
        // The room is granted first: if that panics, no seqno is missing.
        let room = writer.chain.grant(bytes);
        if let Some(wal) = &self.wal {
            wal.granted(bytes);
        }
        writer.next_seqno = last.0 + 1;
        writer.covered = false;
        writer.active.count_item(bytes, records);
        let range = Range {
            at: room.at().0,
            bytes: room.bytes(),
        };
        Group {
            place: Place {
                room,
                view,
                tombstones,
            },
            range,
            ticket: self.common.commits.ring.grant(last.0, records),
            first,
            last,
        }
    }

    /// Covers the last write, as [`Memtables::cover`] does, and gives up what was promised to writes to come.
    pub fn rest_now(&self) -> Result<()> {
        let mut writer = self.lock_writer();
        self.common.check_writable()?;
        self.cover(&mut writer)?;
        self.give_up_credit(&mut writer);
        Ok(())
    }

    /// Some time has passed since the first write after the last call of this. Only if nothing was
    /// written since that call the store is idle, and rests: a busy one is looked at once in that time.
    ///
    /// Returns whether it is idle.
    pub fn rest_if_idle(&self) -> bool {
        let mut writer = self.lock_writer();
        if self.common.check_writable().is_err() {
            return false;
        }
        let now = self.common.commits.ring.durable();
        if self.idle_seen.swap(now, Ordering::Relaxed) != now {
            self.common.written();
            return false;
        }
        if self.common.options.memtable.idle_ms > 0 {
            // Failures poison the store, and the next writer reports them.
            let _ = self.cover(&mut writer);
        }
        // Others may need the room.
        self.give_up_credit(&mut writer);
        true
    }

    /// As [`Memtables::reserve_staged_dram`], for a merge of indexes, which does not have the writer.
    pub fn reserve_index_dram(&self, bytes: u64) -> Result<u64> {
        self.reserve_staged_dram(&mut self.lock_writer(), bytes, false)
    }

    /// As [`Memtables::give_up_credit`], for whoever does not have the writer.
    pub fn give_credit_back(&self) {
        self.give_up_credit(&mut self.lock_writer());
    }

    /// Covers the last write by an item with a later `published`, if it is not covered yet.
    pub fn cover(&self, writer: &mut Writer) -> Result<()> {
        if writer.covered || self.common.poison.check().is_err() {
            return Ok(());
        }
        if writer.in_reserve && self.common.space.reserve_taken() {
            // As for lack of room below.
            return Ok(());
        }
        let log = self.wal.as_ref();
        if log.is_some_and(|wal| wal.reserve(64, Reserve::Keep, true).is_err()) {
            // As below.
            return Ok(());
        }
        if let Err(error) = writer.chain.ensure(64, Reserve::Keep) {
            return match self.common.poison.poison_unless_full(error) {
                // No room: the next write, or closing, covers it.
                Error::OutOfSpace(_) => Ok(()),
                other => Err(other),
            };
        }
        self.common.commits.drain(self)?;
        // It has no place in the ring, and yet a place in the chain, behind which nobody may write if it stays empty.
        let flying = self.common.commits.flying(self);
        let room = writer.chain.grant(64);
        if let Some(wal) = log {
            wal.granted(64);
        }
        let published = self.common.commits.ring.durable();
        let nothing: [BatchEntry<'_>; 0] = [];
        let range = Range {
            at: room.at().0,
            bytes: room.bytes(),
        };
        ItemBuilder::default()
            .store(
                self.common.space.region(),
                &room,
                nothing.into_iter(),
                writer.next_seqno,
                published,
                Persist::Now,
            )
            .and_then(|_| match self.is_logged() {
                true => self.persist_ranges(&[range]),
                false => Ok(()),
            })
            .map_err(|error| self.common.poison.poison(error))?;
        flying.finished();
        writer.active.count_item(64, 0);
        writer.covered = true;
        Ok(())
    }

    /// Reports growth of the region since the last call. Returns whether there was some.
    pub fn note_growth(&self) -> bool {
        let to_bytes = self.common.space.region_bytes();
        let from_bytes = self.region_seen.fetch_max(to_bytes, Ordering::Relaxed);
        let grown = to_bytes > from_bytes;
        if grown {
            self.common.events.emit(Event::RegionGrown {
                from_bytes,
                to_bytes,
            });
        }
        grown
    }

    /// Seals the active memtable, unless it is empty.
    pub fn seal_active(&self) -> Result<()> {
        let mut held_up = self.hold_writer_up();
        self.common.check_writable()?;
        self.seal_holding(&mut held_up)
    }

    /// As [`Memtables::seal_active`], for whoever has the writer stand still.
    pub fn seal_holding(&self, held_up: &mut HeldUp<'_>) -> Result<()> {
        let writer = held_up.writer();
        if writer.active.is_empty() {
            return Ok(());
        }
        self.record_chain(writer)?;
        self.rotate(writer, &mut self.lock_next())
    }

    /// Whether the active memtable has no record and no zone, and its one chain is the writer's.
    pub fn is_unused(&self, writer: &Writer, next: &Naming<'_>) -> bool {
        let chain = &writer.chain;
        let no_zone = chain.rest().is_none() && chain.zones().is_empty();
        if !no_zone || !writer.active.is_empty() || !writer.is_recorded() || next.has_next() {
            return false;
        }
        let manifest = self.common.catalog.edits();
        let memtable = manifest.state().memtables().get(&writer.active.id());
        memtable.is_some_and(|memtable| memtable.chains.len() == 1)
    }

    /// Begins a memtable without records, unless the active one has none, and makes everything before it durable.
    /// Returns its number.
    pub fn begin_memtable(&self, writer: &mut Writer, next: &mut Naming<'_>) -> Result<u64> {
        if self.is_unused(writer, next) {
            // Nothing is in flight, but deferred items of the memtable before may not be durable.
            self.common.commits.drain(self)?;
            return Ok(writer.active.id());
        }
        let before = writer.active.id();
        self.rotate(writer, next)?;
        let now = writer.active.id();
        assert!(now != before, "there was a descriptor for it");
        Ok(now)
    }
}
