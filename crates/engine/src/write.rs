//! What a grant needs: room in a chain, memory for the index, a generation that takes writes. All of
//! it under the writer's lock (see the crate documentation for the steps).

pub(crate) mod env;
pub(crate) mod submit;
#[cfg(test)]
mod tests;
pub(crate) mod writer;

use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::try_lock;
use thermocline_base::{BatchEntry, Error, Result, SeqNo};
use thermocline_commit::Group;
use thermocline_commit::ring::Range;
use thermocline_halloc::Reserve;
use thermocline_memtable::{ItemBuilder, Persist};
use thermocline_observe::cause::StallCause;
use thermocline_policy::seal;
use thermocline_policy::situation::{Ahead, Situation};
use thermocline_version::VersionEdit;
use thermocline_wal::LogWriter;

use crate::busy::busy;
use crate::start::opened;
use crate::store::Inner;
use crate::sync::{Ordering, lock};
use crate::write::env::Place;
use writer::{SPAN_MAX, Writer};

impl Inner {
    /// Cuts the chains of a store that is being closed.
    pub fn seal_chain(&self) -> Result<()> {
        let writer = lock(&self.writer);
        if self.options.read_only {
            return Ok(());
        }
        if !writer.is_recorded() {
            return self.remember_rates();
        }
        self.poison.check()?;
        self.commits.drain(self)?;
        let changes = writer.cuts(lock(&self.next).as_ref());
        let rates = self.rates_to_remember();
        let with_rates = changes.iter().cloned().chain(rates).collect();
        match self.catalog.edit(&VersionEdit {
            changes: with_rates,
        }) {
            // The cuts alone may find room.
            Err(Error::OutOfSpace(_)) => self.catalog.edit(&VersionEdit { changes }),
            noted => noted,
        }
    }

    /// Of a store that was only read.
    fn remember_rates(&self) -> Result<()> {
        self.poison.check()?;
        match self
            .rates_to_remember()
            .map(|change| self.catalog.edit(&change.into()))
        {
            None | Some(Err(Error::OutOfSpace(_))) => Ok(()),
            Some(noted) => noted,
        }
    }

    pub fn check_writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::InvalidArgument(
                "the database is open for reading only".into(),
            ));
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        self.poison.check()
    }

    /// Sees to it that an item of `bytes` bytes can be appended: nothing after this may fail but a
    /// persist. Where there is no room, generations in which nothing is alive make some.
    ///
    /// Returns whether a zone was attached.
    pub fn make_room(&self, writer: &mut Writer, bytes: u64, reserve: Reserve) -> Result<bool> {
        match self.find_room(writer, bytes, reserve, true) {
            Err(error) => {
                self.reclaim_or(writer, error)?;
                self.find_room(writer, bytes, reserve, true)
            }
            found => found,
        }
    }

    /// As [`Inner::make_room`]. Unless it `may_wait`, no file is synced for it, which
    /// [`Inner::check_no_slowdown`] has found possible: where there is no next generation, and cannot
    /// be one, the active one grows.
    pub fn find_room(
        &self,
        writer: &mut Writer,
        bytes: u64,
        reserve: Reserve,
        may_wait: bool,
    ) -> Result<bool> {
        self.record_chain(writer)?;
        let limits = self.seal_limits();
        let wide = |writer: &Writer| seal::is_wide(&writer.in_hand(), &limits);
        let in_hand = writer.in_hand();
        let seal = seal::is_due(&in_hand, &limits, bytes, || self.space.has_room(bytes));
        if (seal || wide(writer)) && (may_wait || !self.is_next_missing()) {
            match self.rotate(writer, &mut self.lock_next()) {
                // The active one grows instead, unless more has failed.
                Err(Error::OutOfSpace(_) | Error::Io { .. }) => self.poison.check()?,
                rotated => rotated?,
            }
        }
        if wide(writer) {
            return Err(Error::OutOfSpace(
                "the memtable generation spans too many sequence numbers, and there is no room for \
                 the descriptor of another one"
                    .to_string(),
            ));
        }
        if reserve == Reserve::Keep && writer.in_reserve {
            // The zone that was kept back is for deletes, though a put might still fit.
            writer.in_reserve = self.space.reserve_taken();
            if writer.in_reserve {
                return Err(self.space.full(bytes));
            }
        }
        if let Some(wal) = &self.wal {
            wal.reserve(bytes, reserve, may_wait)?;
        }
        if writer.chain.state().left >= bytes {
            return Ok(false);
        }
        let begun = self.now_ns();
        let attached = writer.chain.ensure(bytes, reserve);
        let attached = attached
            .map_err(|error| self.poison.poison_unless_full(error))?
            .is_some();
        if attached {
            self.press();
            writer.in_reserve = reserve == Reserve::Use;
            if self.note_growth() {
                self.stalls.held_up(StallCause::Growth, begun);
            }
        }
        Ok(attached)
    }

    /// What a generation may have.
    pub fn seal_limits(&self) -> seal::Limits {
        seal::Limits {
            bytes: self.options.memtable_bytes(),
            blob_bytes: self.options.blob.generation_bytes,
            span: SPAN_MAX,
        }
    }

    /// Whether something is to be done ahead of need.
    pub fn work_is_due(&self, writer: &Writer) -> bool {
        let zones = self.options.pm_region.zones_ahead;
        let ahead = Ahead {
            active_bytes: writer.active.bytes(),
            limits: self.seal_limits(),
            next_is_missing: self.is_next_missing(),
            lacks_zones: self.space.wants_growth(zones),
            lacks_pages: self.space.wants_presence(zones),
        };
        let situation = Situation {
            ahead: Some(ahead),
            ..Situation::default()
        };
        self.compactions.costs.next(&situation).is_something()
    }

    /// Whether a write of `bytes` bytes would have to wait for a file's sync, growth, or others.
    pub fn check_no_slowdown(&self, writer: &Writer, bytes: u64, reserve: Reserve) -> Result<()> {
        // As in `find_room`.
        let (in_hand, limits) = (writer.in_hand(), self.seal_limits());
        let seals = seal::is_due(&in_hand, &limits, bytes, || self.space.has_room(bytes));
        let can_seal = self.space.generations().free() > 0;
        let wide = seal::is_wide(&in_hand, &limits);
        let fits = writer.chain.state().left >= bytes || self.space.has_room_now(bytes, reserve);
        let next = seals.then(|| try_lock(&self.next));
        // Being named, or missing.
        let no_next = next.is_some_and(|next| next.is_none_or(|next| next.is_none()));
        if !writer.recorded || wide || no_next && can_seal {
            return Err(busy("for the manifest"));
        }
        if seals && !no_next && self.commits.ring.groups() > 0 || !self.commits.ring.has_room() {
            return Err(busy("for writes in flight"));
        }
        // A region that cannot grow is full: that is no reason to wait.
        if !fits && self.space.can_grow() {
            return Err(busy("for the region to grow"));
        }
        Ok(())
    }

    /// Names the chain of this incarnation in the manifest, before its first grant.
    pub fn record_chain(&self, writer: &mut Writer) -> Result<()> {
        if writer.recorded {
            return Ok(());
        }
        let generation = writer.active.generation();
        let late = active(Bug::LogAfterName);
        let mut log = match late {
            true => None,
            false => self.begin_log(writer.chain.chain().id, writer.nonce)?,
        };
        let change = opened(
            writer.chain.chain(),
            generation,
            writer.nonce,
            writer.chain.rest(),
        );
        self.edit_with_log(change.into(), &log)?;
        writer.recorded = true;
        if late {
            log = self.begin_log(writer.chain.chain().id, writer.nonce)?;
        }
        self.go_over_to_log(log);
        self.witness(writer.chain.chain(), writer.nonce)
    }

    /// Appends an edit that names a chain whose log has been begun. If nothing has happened, the log goes.
    pub fn edit_with_log(&self, edit: VersionEdit, log: &Option<LogWriter>) -> Result<()> {
        let edited = self.catalog.edit(&edit);
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
        // The room first: it is what could panic, and then no seqno is missing.
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
                // The view changes under the writer's lock only: its first generation is the active one.
                view: self.catalog.view(),
                tombstones,
            },
            range,
            ticket: self.commits.ring.grant(last.0, records),
            first,
            last,
        }
    }

    /// Covers the last write by a later `published`, if it is not covered yet.
    pub fn cover(&self, writer: &mut Writer) -> Result<()> {
        if writer.covered || self.poison.check().is_err() {
            return Ok(());
        }
        if writer.in_reserve && self.space.reserve_taken() {
            // As for lack of room below.
            return Ok(());
        }
        let log = self.wal.as_ref();
        if log.is_some_and(|wal| wal.reserve(64, Reserve::Keep, true).is_err()) {
            // As below.
            return Ok(());
        }
        if let Err(error) = writer.chain.ensure(64, Reserve::Keep) {
            return match self.poison.poison_unless_full(error) {
                // No room: the next write, or closing, covers it.
                Error::OutOfSpace(_) => Ok(()),
                other => Err(other),
            };
        }
        self.commits.drain(self)?;
        let room = writer.chain.grant(64);
        if let Some(wal) = log {
            wal.granted(64);
        }
        let published = self.commits.ring.durable();
        let nothing: [BatchEntry<'_>; 0] = [];
        let range = Range {
            at: room.at().0,
            bytes: room.bytes(),
        };
        ItemBuilder::default()
            .store(
                self.space.region(),
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
            .map_err(|error| self.poison.poison(error))?;
        writer.active.count_item(64, 0);
        writer.covered = true;
        Ok(())
    }
}
