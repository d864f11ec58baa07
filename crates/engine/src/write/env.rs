//! What `commit` needs of a store (`commit::CommitEnv`): admission, a place for a group, storing and indexing it.

use std::cell::Cell;
use std::time::Duration;

use arc_swap::Guard;
use thermocline_base::options::Options;
use thermocline_base::size::index;
use thermocline_base::{BatchEntry, Error, Kind, Result, SeqNo};
use thermocline_catalog::View;
use thermocline_commit::readers::Moments;
use thermocline_commit::ring::Range;
use thermocline_commit::{CommitEnv, Entries, Group, Limits, Persists, Reserved, WriteOptions};
use thermocline_halloc::Reserve;
use thermocline_memtable::{Grant, ItemBuilder, OPERANDS_A_BLOCK, Operands, Persist, item_bytes};
use thermocline_observe::cause::StallCause;
use thermocline_observe::events::Courier;
use thermocline_pm::{PmOff, RegionKind};
use thermocline_policy::tuning::{BUCKETS, BUCKETS_SYNC, BUFFERED_BYTES, BUFFERED_BYTES_SYNC};
use thermocline_runtime::{Task, is_calling};

use crate::busy::busy;
use crate::stage::due::goes_in_pieces;
use crate::store::Inner;
use crate::sync::{Arc, MutexGuard};
use crate::watch::guard::{Guarded, step_of};
use crate::write::submit::kinds::{deletes_any, only_deletes};
use crate::write::writer::Writer;

/// Where a group goes.
pub(crate) struct Place {
    pub room: Grant,
    /// The view at the grant, whose first memtable is the group's.
    pub view: Guard<Arc<View>>,
    /// Bytes of DRAM that were promised to the group's range tombstones.
    pub tombstones: u64,
}

thread_local! {
    /// The buffer in which this thread builds items. Taken out during that, and put back.
    static BUILDER: Cell<ItemBuilder> = Cell::default();
}

/// Whether a persist in such a region takes so long that many writes should share it.
fn is_slow(kind: RegionKind) -> bool {
    matches!(kind, RegionKind::File | RegionKind::Dram)
}

/// The sizes and times by which `commit` forms groups, in a region of this kind that has at most `longest_run` bytes in one.
pub(crate) fn limits(options: &Options, kind: RegionKind, longest_run: u64) -> Limits {
    let commit = &options.commit;
    let slow = is_slow(kind);
    let buffered_bytes = match commit.buffered_bytes {
        0 if slow => BUFFERED_BYTES_SYNC,
        0 => BUFFERED_BYTES,
        bytes => bytes,
    };
    // A longer group would ask for a flush, in vain, before its members are written one by one.
    let group_bytes_most = options.memtable.item_bytes_max.min(longest_run);
    Limits {
        buckets: match commit.buckets {
            0 if slow => BUCKETS_SYNC,
            0 => BUCKETS,
            buckets => index(buckets),
        },
        ring_slots: index(commit.ring_slots),
        group_bytes: commit.group_bytes_max.min(group_bytes_most),
        group_wait: Duration::from_micros(commit.group_wait_us),
        buffered_bytes,
        buffered_time: Duration::from_millis(commit.buffered_ms),
        // Where a persist is a sync, those behind it would become visible no sooner than that has ended.
        alone_bytes: if slow { u64::MAX } else { buffered_bytes },
    }
}

impl Persists for Inner {
    fn check_poison(&self) -> Result<()> {
        self.memtables.check_poison()
    }

    fn write_back(&self, ranges: &[Range]) -> Result<()> {
        self.memtables.write_back(ranges)
    }

    fn poison(&self, cause: Error) -> Error {
        Persists::poison(&*self.memtables, cause)
    }
}

impl CommitEnv for Inner {
    type Place = Place;

    fn item_bytes<'a>(&self, entries: impl Iterator<Item = BatchEntry<'a>>) -> u64 {
        item_bytes(entries)
    }

    fn check(&self) -> Result<()> {
        self.common.check_writable()
    }

    #[inline]
    fn admit<'a>(&self, entries: impl Entries<'a>, bytes: u64, no_slowdown: bool) -> Result<()> {
        self.admission
            .hold_back(bytes, no_slowdown, || only_deletes(entries.clone()))
            .inspect_err(|error| {
                // As large as it is, though it may owe nothing.
                let bytes = item_bytes(entries.clone());
                self.common.events.refused(bytes, error);
            })
    }

    fn admit_together<'a>(&self, entries: impl Entries<'a>, bytes: u64) -> Result<()> {
        self.admission
            .hold_back(bytes, false, || only_deletes(entries))
    }

    fn reserve<'a>(
        &self,
        entries: impl Entries<'a>,
        bytes: u64,
        mode: WriteOptions,
    ) -> Result<Reserved<Place>> {
        self.reserve_guarded(entries, (bytes, mode), None)
    }

    fn reserve_together<'a>(
        &self,
        entries: impl Entries<'a>,
        bytes: u64,
    ) -> Result<Reserved<Place>> {
        self.find_place(entries, (bytes, WriteOptions::default()), None)
    }

    fn apply<'a>(
        &self,
        group: &Group<Place>,
        entries: impl Entries<'a>,
        deferred: bool,
    ) -> Result<()> {
        // A thread that ends may write when its thread-local memory is gone already.
        let mut builder = BUILDER.try_with(Cell::take).unwrap_or_default();
        let persist = match deferred {
            false => Persist::Now,
            true => Persist::Deferred,
        };
        let stored = builder.store(
            self.common.space.region(),
            &group.place.room,
            entries.clone(),
            group.first.0,
            self.common.commits.ring.durable(),
            persist,
        );
        // From here on the write may be durable: a failure leaves an index without it.
        let indexed = stored.and_then(|offsets| self.index(group, entries.clone(), offsets));
        builder.trim();
        let _ = BUILDER.try_with(|kept| kept.set(builder));
        indexed?;
        self.common.count_entries(entries);
        Ok(())
    }

    fn defers_all(&self) -> bool {
        self.memtables.is_logged()
    }

    fn sync_later(&self, delay: Duration) {
        self.common.background.request_after(Task::Sync, delay);
    }

    #[inline]
    fn wrote(&self, due: bool) {
        self.look_after_write(due);
    }

    fn call_later(&self) {
        // Held until then: if the last handle goes meanwhile, in a call of the user's, closing does not wait for this call,
        // and what it is to tell would go with the store. The store is closed all the same, and every call is made.
        let inner = self.me.upgrade();
        self.common.background.run(Box::new(move || {
            if let Some(inner) = inner {
                inner.common.commits.call_back(&*inner);
            }
        }));
    }

    fn settle(&self) {
        self.common.background.settle();
    }

    fn count_panic(&self) {
        self.common.background.count_panic();
    }

    fn now_ns(&self) -> u64 {
        self.common.world.env.clock.now_ns()
    }

    fn waited_for_callbacks(&self, begun: u64) {
        self.common.stalls.held_up(StallCause::Callbacks, begun);
    }

    fn is_in_call(&self) -> bool {
        is_calling()
    }
}

impl Inner {
    /// Applies `entries` as one, in a group of their own, unless the guard refuses.
    ///
    /// # Errors
    /// Those of the guard, and those of a write ([`crate::Engine::write`]): nothing was written.
    pub fn write_guarded<'a>(
        &self,
        entries: impl Entries<'a>,
        mode: WriteOptions,
        guard: &Guarded<'_>,
    ) -> Result<()> {
        let _settled = self.common.background.settled_after();
        // This check goes through most of the changes, and a write that it refuses takes no place.
        guard.check(&self.common)?;
        let bytes = item_bytes(entries.clone());
        let separated = self
            .stager
            .separate(entries.clone(), bytes, mode.no_slowdown)?;
        let Some(separated) = separated else {
            return self.write_group(entries, (bytes, mode), guard);
        };
        let written = {
            let (entries, bytes) = separated.entries(entries);
            self.write_group(entries.into_iter(), (bytes, mode), guard)
        };
        self.stager.end_separated(separated, &written);
        written
    }

    /// Writes a group of its own, without long values.
    fn write_group<'a>(
        &self,
        entries: impl Entries<'a>,
        (bytes, mode): (u64, WriteOptions),
        guard: &Guarded<'_>,
    ) -> Result<()> {
        let commits = &self.common.commits;
        if self.stager.is_oversized(entries.len(), bytes) {
            self.stager.check_waits(bytes, mode.no_slowdown)?;
        }
        self.admit(entries.clone(), bytes, mode.no_slowdown)?;
        let durability = commits.durability_of(mode.durability, bytes);
        let (last, due) = match self.reserve_in_one(entries.clone(), (bytes, mode), guard)? {
            None => {
                let stager = &self.stager;
                let staged = stager.write_guarded(entries, (bytes, mode), (None, Some(guard)))?;
                (staged, true)
            }
            Some(reserved) => {
                let last = reserved.group.last;
                commits.carry(self, reserved.group, entries, durability)?;
                (last, reserved.due)
            }
        };
        let acknowledged = commits.acknowledge(self, last, durability);
        self.wrote(due);
        acknowledged
    }

    /// As [`Inner::reserve_guarded`]; `None` for a batch that is staged.
    fn reserve_in_one<'a>(
        &self,
        entries: impl Entries<'a>,
        (bytes, mode): (u64, WriteOptions),
        guard: &Guarded<'_>,
    ) -> Result<Option<Reserved<Place>>> {
        if self.stager.is_oversized(entries.len(), bytes) {
            return Ok(None);
        }
        match self.reserve_guarded(entries, (bytes, mode), Some(guard)) {
            Err(error) if goes_in_pieces(&error) => Ok(None),
            reserved => reserved.map(Some),
        }
    }

    /// As [`CommitEnv::reserve`], unless the guard refuses under the writer's lock. The error says whether the batch is to be
    /// staged (`stage::due`).
    pub fn reserve_guarded<'a>(
        &self,
        entries: impl Entries<'a>,
        (bytes, mode): (u64, WriteOptions),
        guard: Option<&Guarded<'_>>,
    ) -> Result<Reserved<Place>> {
        let reserved = self.find_place(entries.clone(), (bytes, mode), guard);
        reserved.map_err(|error| {
            let error = self.stager.refused_as_item(error, entries, bytes);
            // One that goes in pieces is not refused.
            if !goes_in_pieces(&error) {
                self.common.events.refused(bytes, &error);
            }
            error
        })
    }

    /// As [`Inner::reserve_guarded`], but that it was refused is not told, and nobody looks whether it goes in pieces.
    fn find_place<'a>(
        &self,
        entries: impl Entries<'a>,
        (bytes, mode): (u64, WriteOptions),
        guard: Option<&Guarded<'_>>,
    ) -> Result<Reserved<Place>> {
        self.admission.with_room(bytes, mode.no_slowdown, || {
            self.try_reserve(entries.clone(), (bytes, mode), guard)
        })
    }

    fn try_reserve<'a>(
        &self,
        entries: impl Entries<'a>,
        (bytes, mode): (u64, WriteOptions),
        guard: Option<&Guarded<'_>>,
    ) -> Result<Reserved<Place>> {
        let records = entries.len() as u64;
        let deletes_only = only_deletes(entries.clone());
        let deletes = deletes_only || deletes_any(entries.clone());
        let writer = match mode.no_slowdown {
            true => self
                .memtables
                .writer
                .try_take()
                .ok_or_else(|| busy("for another writer"))?,
            false => self.memtables.writer.take_short(),
        };
        // Again: closing cuts the chain under this lock, and a write behind the cut would be lost. So would a write
        // after a failed persist.
        self.common.check_writable()?;
        self.common.families.check_write(entries.clone())?;
        let how = (mode.no_slowdown, deletes_only);
        let (mut writer, attached, tombstones) =
            self.make_place(writer, entries.clone(), bytes, how)?;
        if !deletes_only {
            self.common.events.accepted(bytes);
        }
        if !self.common.commits.ring.has_room() && !self.common.commits.ring.wait_for_room() {
            self.common.poison.check()?;
        }
        if let Some(guard) = guard {
            guard.check(&self.common)?;
        }
        let (prepared, step) = (&self.common.prepared, step_of(guard));
        prepared.check(&self.common.families, entries.clone(), step)?;
        if tombstones > 0 {
            // Promised by the memtable that the group goes into: making room may have sealed the one before.
            writer.active.promise_tombstones(tombstones)?;
        }
        let group = self
            .memtables
            .grant(&mut writer, records, bytes, tombstones);
        // Its ticket is given out: whoever is granted the next one waits for this group.
        let flying = self.common.commits.flying(self);
        prepared.granted(step, group.last);
        if writer.watched {
            writer.watched = self.common.note_recent(group.first, entries);
        }
        if deletes {
            self.pressure.deleted(group.last);
        }
        // Work ahead of need becomes due only when zones are taken.
        let due = attached && self.memtables.work_is_due(&writer);
        flying.finished();
        Ok(Reserved { group, due })
    }

    /// Makes sure that an item of `bytes` bytes can be appended, and its records indexed. Returns whether a zone was attached, and
    /// what was promised to range tombstones.
    fn make_place<'a, 'w>(
        &self,
        writer: MutexGuard<'w, Writer>,
        entries: impl Entries<'a>,
        bytes: u64,
        (no_slowdown, deletes_only): (bool, bool),
    ) -> Result<(MutexGuard<'w, Writer>, bool, u64)> {
        let memtables = &self.memtables;
        let reserve = match deletes_only {
            true => Reserve::Use,
            false => Reserve::Keep,
        };
        let check = |mut writer: MutexGuard<'w, Writer>| {
            if let Err(refused) = memtables.check_no_slowdown(&mut writer, bytes, reserve) {
                // A request may start a thread: other writers do not wait for that.
                drop(writer);
                // A worker does meanwhile what the write would have waited for.
                self.common.background.request(Task::Ahead);
                return Err(refused);
            }
            Ok(writer)
        };
        let mut writer = match no_slowdown {
            true => check(writer)?,
            false => writer,
        };
        let (was_heavy, records) = (writer.heavy, entries.len() as u64);
        let tombstones = memtables.reserve_dram(&mut writer, entries, records, deletes_only)?;
        if !no_slowdown {
            let attached = memtables.make_room(&mut writer, bytes, reserve)?;
            return Ok((writer, attached, tombstones));
        }
        // Only now it was found that the active memtable has to be sealed.
        if writer.heavy && !was_heavy {
            writer = check(writer)?;
        }
        let attached = memtables.find_room(&mut writer, bytes, reserve, false)?;
        Ok((writer, attached, tombstones))
    }

    fn index<'a>(
        &self,
        group: &Group<Place>,
        entries: impl Iterator<Item = BatchEntry<'a>>,
        offsets: &[PmOff],
    ) -> Result<()> {
        let memtable = &group.place.view.memtables[0];
        let commits = &self.common.commits;
        let moments = || Moments::now(&commits.ring, &commits.readers);
        // A large group may have many operands of a key, and another one newer ones that each would copy.
        let (is_large, mut operands) = (offsets.len() > OPERANDS_A_BLOCK, Operands::default());
        for ((entry, &at), seqno) in entries.zip(offsets).zip(group.first.0..) {
            if !(is_large && entry.kind == Kind::Merge) {
                memtable.insert_entry(entry, at, SeqNo(seqno), moments)?;
                continue;
            }
            operands.note(entry.cf, entry.key, at, SeqNo(seqno));
            if operands.is_full() {
                operands.insert(memtable, moments)?;
            }
        }
        operands.insert(memtable, moments)?;
        if group.place.tombstones > 0 {
            memtable.tombstones_added(group.place.tombstones);
        }
        Ok(())
    }
}
