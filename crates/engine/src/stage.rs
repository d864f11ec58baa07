//! Oversized batches: written ahead, beside all other writers, and committed by one edit.
//!
//! A batch that takes more than [`item_bytes_max`] would hold up everybody behind it in the ring, and
//! one beyond the largest part of the region would not fit into an item at all. So it is written
//! into a chain of its own, which becomes a sealed memtable of its own (`memtable::stage`).
//! So is one that was refused as an item, since free zones that have room for it do not lie side by side ([`due`]): it
//! has waited for a flush before, as every write that finds no room.
//!
//! # Steps
//! 1. *Reserve* (under the writer's lock): both budgets are checked, DRAM is promised, and an edit
//!    reserves the chain's id, so that it is never another's.
//! 2. *Store* (no lock held): the records, numbered from 1, are stored, persisted and indexed, item after
//!    item, in zones of the chain. Nobody can see them: neither view nor manifest names them.
//! 3. *Commit* (under the writer's lock): the active memtable is sealed, which waits for all groups in
//!    flight and makes them durable. The batch gets the next seqnos. **One edit is the commit**: it
//!    cuts the chains before, makes the staged chain a memtable of its own, and opens a new active
//!    memtable behind it. The memtable that the seal has made active has no record yet and
//!    goes in the same edit: memtables are numbered in the order of their seqnos. (Where the active
//!    one has no record, as behind another staged batch, it goes itself and nothing is sealed.)
//! 4. *Publish*: the view with both memtables, then `visible` and `durable` move over the batch at
//!    once, as over any other group. Only then the lock is let go: who holds it finds every sealed memtable of the
//!    view visible and durable.
//!
//! # Invariants
//! 1. *Law of age.* What was granted before step 3 lies in older memtables, with lower seqnos; what is
//!    granted after it in the memtable behind, with higher ones. The lock is held throughout.
//! 2. *All or nothing for readers.* `visible` moves over the whole batch in one step, and the view has
//!    its memtable before. A reader of an earlier moment that finds the memtable in its view finds
//!    in it one version of each key, with a seqno above its own: none that it may see; it goes on
//!    to older memtables, which is why no index of theirs is touched.
//! 3. *`durable` is a prefix.* The edit is written when all that was granted before is durable, what was
//!    written `Buffered` included. So a staged batch is durable when its call returns, whatever was
//!    asked for; a callback is on the list before the group finishes, as any other's (`ack`).
//! 4. *Nothing fails halfway.* Between the edit and the end of step 4 only a persist may fail, which
//!    poisons the store, as a panic there does (`carry::Flying`). An edit that finds no room on the disk has not
//!    happened: the batch is given up, and what the seal has begun goes on.
//! 5. *DRAM.* What is promised in step 1 counts in every promise until the batch is committed or given
//!    up, whether it is in use by then or not (`dram`).
//! 6. *Closing* waits for batches that are being staged, before it gives the region up: each holds
//!    `Turns::stages` shared. One that finds the store closed between two records gives up.
//! 7. *Reclaiming* cannot meet the batch before it is in the view; from then on it is a sealed memtable
//!    like others. Between view and `visible` its versions are above what is settled, so that they make
//!    nothing dead (`memtable::needed`).
//! 8. *Families*: none of the batch has been dropped at the commit (`families`, invariant 2).
//!
//! # Crash argument
//! Before the edit the manifest does not name the staged chain: the next open finds its zones free, and no
//! seqno of its was ever given out. The edit is written when every item of the batch is durable,
//! and everything granted before it. After it recovery finds the chain complete at its cut, between the
//! chain before, complete at its own, and the new active chain, which has no zone. Descriptors that
//! the edit named and a crash kept from being made are made by the next open; a staged memtable needs
//! no floor, for its cut is in the manifest (`recover::is_sealed`). The witness lags behind one edit,
//! as with every edit that opens a chain. Replay is that of any memtable.
//!
//! # When something fails
//! Up to the edit nothing has happened: the zones are free again, the promise is taken back. If a persist
//! failed, or the edit, the store is poisoned; the zones are left alone then, since nobody knows
//! whether the manifest names them.
//!
//! # What bounds a batch
//! `limits::BATCH_BYTES_MAX`; what is free in persistent memory, in however many pieces, less the zone
//! that is kept back; DRAM for its index; and one free memtable descriptor, two where nothing is
//! prepared. Each is an error that says so, before anything is written where it can be known then.
//! What is kept back for deletes serves small ones only.
//! A single record is never staged: it could not be divided, and fits into an item.
//!
//! [`item_bytes_max`]: thermocline_base::options::MemtableOptions::item_bytes_max

pub(crate) mod due;

use std::collections::BTreeMap;

use thermocline_base::limits::MEMTABLES_MAX;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{BatchEntry, CfId, Error, Result, SeqNo};
use thermocline_commit::{Told, WriteOptions};
use thermocline_memtable::{Chain, ChainWriter, Descriptor, Memtable, Stage, Staged};
use thermocline_observe::event::Event;
use thermocline_version::{Change, NextIds, VersionEdit};

use crate::dram::asked::Asked;
use crate::next_memtable::prepared::Naming;
use crate::start::opened;
use crate::store::Stager;
use crate::sync::{Arc, Ordering};
use crate::watch::guard::{Guarded, step_of};
use crate::write::submit::kinds::{deletes_any, only_deletes};
use crate::write::writer::Writer;

/// A batch between its reservation and its commit.
struct Staging<'s, 'b> {
    inner: &'s Stager,
    /// Taken by the commit, right behind the edit. If that has failed and may have happened, the store is poisoned.
    stage: Option<Stage<'b>>,
    /// Of the chain.
    nonce: u64,
    /// DRAM promised for its index.
    promised: u64,
}

impl Drop for Staging<'_, '_> {
    fn drop(&mut self) {
        let inner = self.inner;
        // After a failed persist nobody knows what the manifest names.
        let is_sound = |_: &Stage<'_>| inner.common.poison.check().is_ok();
        if let Some(stage) = self.stage.take().filter(is_sound) {
            let (zones, chain) = (stage.zones().to_vec(), stage.chain().id);
            // And its index with it.
            drop(stage);
            inner.common.space.release(&zones);
            inner.memtables.retire_logs(&[chain]);
        }
        let staging = &inner.memtables.staging;
        // Release: behind what the batch has taken.
        staging.fetch_sub(self.promised, Ordering::Release);
        // What the batch did not use others may have, once this store is idle,
        inner.common.written();
        // and who writes here at once. Behind all that is given back.
        inner.common.room.note();
    }
}

/// What the edit has made of a batch.
struct Adoption {
    /// The memtable that had no record and is gone.
    unused: u64,
    /// The batch's memtable.
    own: u64,
    first: SeqNo,
    last: SeqNo,
    /// The memtable behind it, and its chain.
    next: u64,
    chain: Chain,
    nonce: u64,
}

impl Stager {
    /// Applies `entries`, whose items would take `bytes` bytes, as one. It is durable on return; `told`
    /// waits for that like other callbacks.
    ///
    /// # Errors
    /// As [`Engine::write`]; `told` is never called then.
    pub fn write<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        bytes: u64,
        mode: WriteOptions,
        told: Option<Told<'_>>,
    ) -> Result<SeqNo> {
        self.write_guarded(entries, (bytes, mode), (told, None))
    }

    /// As [`Stager::write`], unless the guard finds that it must not be when its turn has come.
    pub fn write_guarded<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        (bytes, mode): (u64, WriteOptions),
        (told, guard): (Option<Told<'_>>, Option<&Guarded<'_>>),
    ) -> Result<SeqNo> {
        self.check_waits(bytes, mode.no_slowdown)?;
        // Invariant 6.
        let _staging = self.common.turns.stages.enter();
        let is_told = told.is_some();
        let staged = self
            .admission
            .with_room(bytes, false, || self.reserve_stage(entries.clone(), bytes))
            .and_then(|staging| self.store_stage(staging, entries.clone()))
            .and_then(|(staging, staged)| {
                self.commit_stage(staging, staged, entries.clone(), (told, guard))
            });
        match &staged {
            // That deletes are taken says nothing of other writes.
            Ok(_) if only_deletes(entries.clone()) => {}
            Ok(_) => self.common.events.accepted(bytes),
            Err(error) => self.common.events.refused(bytes, error),
        }
        let last = staged?;
        self.common.count_entries(entries);
        // It is durable, unless the ring has failed.
        let commits = &self.common.commits;
        match commits.make_durable(&*self.memtables, last) {
            // Either the caller hears of it or the callback.
            Err(error) if is_told => commits.untold(last, error)?,
            durable => durable?,
        }
        Ok(last)
    }

    /// Step 1.
    fn reserve_stage<'b>(
        &self,
        entries: impl Iterator<Item = BatchEntry<'b>> + Clone,
        bytes: u64,
    ) -> Result<Staging<'_, 'b>> {
        let asked = Asked::of(entries.clone());
        let mut writer = self.memtables.lock_writer();
        let writer = &mut *writer;
        self.common.check_writable()?;
        self.common.families.check_write(entries)?;
        let next = self.memtables.next.begin_naming();
        self.find_descriptors(writer, &next)?;
        if !self.common.space.could_hold(bytes) {
            self.upkeep
                .reclaim_or(writer, self.common.space.full(bytes))?;
            if !self.common.space.could_hold(bytes) {
                return Err(self.common.space.full(bytes));
            }
        }
        self.memtables.record_chain(writer)?;
        let ids = self.common.catalog.edits().state().next_ids();
        let nonce = self.common.world.env.random_u64()?;
        let incarnation = writer.chain.chain().incarnation;
        // Its base is not known yet: 1 stands for 1.
        let chain = Chain::new(&self.common.db_id, ids.chain, incarnation, nonce, 1);
        let most = self.common.options.memtable.item_bytes_max;
        let stage = Stage::new(&self.common.space, chain, &self.common.account, most);
        let merges = |cf: CfId| self.common.families.has_operator(cf);
        let (merging, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            asked.updates.into_iter().partition(|(cf, _)| merges(*cf));
        let bound = stage.reserve_bound(merging, true)
            + stage.reserve_bound(others, false)
            + stage.tombstones_bound(asked.ranges, asked.range_bytes);
        let promised = self.memtables.reserve_staged_dram(writer, bound, true)?;
        let staging = Staging {
            inner: self,
            stage: Some(stage),
            nonce,
            promised,
        };
        self.reserve_chain(ids)?;
        // The region knows the newest chain, were it only reserved.
        self.memtables.witness(&chain, nonce)?;
        Ok(staging)
    }

    /// The chain of the batch is named by nothing yet: its number must not be given out again.
    fn reserve_chain(&self, seen: NextIds) -> Result<()> {
        let mut manifest = self.common.catalog.edits();
        // Under one lock: jobs reserve numbers of files meanwhile, and none may go back.
        let now = match active(Bug::StaleReservation) {
            true => seen,
            false => manifest.state().next_ids(),
        };
        let reserved = NextIds {
            chain: seen.chain + 1,
            ..now
        };
        manifest.append(&Change::NextIds(reserved).into())
    }

    /// Step 2.
    fn store_stage<'s, 'b>(
        &'s self,
        mut staging: Staging<'s, 'b>,
        entries: impl Iterator<Item = BatchEntry<'b>>,
    ) -> Result<(Staging<'s, 'b>, Staged)> {
        let Some(stage) = &mut staging.stage else {
            unreachable!("it is taken by the commit");
        };
        let mut last = None;
        let mut attempts = self.admission.begin_attempts();
        for entry in entries {
            // Whoever closes waits for this batch, and a poisoned store will not take it.
            self.common.check_writable()?;
            loop {
                match stage.push(entry) {
                    Err(full @ Error::OutOfSpace(_)) if stage.can_go_on() => {
                        let reclaimed = self.memtables.reclaim_or(full);
                        // One zone is what it looks for.
                        reclaimed.or_else(|full| {
                            self.admission.wait_for_room(&mut attempts, full, 0, false)
                        })?;
                    }
                    pushed => {
                        pushed.map_err(|error| self.common.poison.poison_unless_full(error))?;
                        break;
                    }
                }
            }
            // Another one, or the same, which has become wider.
            if stage.zones().last() != last.as_ref() {
                last = stage.zones().last().copied();
                self.memtables.note_growth();
                // A batch of many zones may have to wait for each of them.
                attempts = self.admission.begin_attempts();
            }
        }
        let staged = stage.complete();
        let staged = staged.map_err(|error| self.common.poison.poison_unless_full(error))?;
        if let Some(wal) = &self.memtables.wal {
            let region = self.common.space.region();
            let written = wal.write_whole(region, staged.chain, staging.nonce, stage.items());
            // Nobody names that log: it goes with the batch.
            written.map_err(|error| self.common.poison.poison_if_sync(error))?;
        }
        Ok((staging, staged))
    }

    /// Steps 3 and 4. Returns the batch's last seqno.
    fn commit_stage<'b>(
        &self,
        mut staging: Staging<'_, 'b>,
        staged: Staged,
        entries: impl Iterator<Item = BatchEntry<'b>> + Clone,
        (told, guard): (Option<Told<'_>>, Option<&Guarded<'_>>),
    ) -> Result<SeqNo> {
        let deletes = deletes_any(entries.clone());
        let (mut writer, mut next) = self.admission.with_room(0, false, || {
            let mut writer = self.memtables.lock_writer();
            // Again: both may have changed meanwhile.
            self.common.check_writable()?;
            self.common.families.check_write(entries.clone())?;
            if let Some(guard) = guard {
                guard.check(&self.common)?;
            }
            let prepared = &self.common.prepared;
            prepared.check(&self.common.families, entries.clone(), step_of(guard))?;
            // Until the edit has named what comes behind (`next_memtable`, invariant 2).
            let next = self.memtables.next.begin_naming();
            self.find_descriptors(&mut writer, &next)?;
            Ok((writer, next))
        })?;
        let writer = &mut *writer;
        let unused = self.memtables.begin_memtable(writer, &mut next)?;
        let nonce = self.common.world.env.random_u64()?;
        // If the edit has no room, nothing has happened. From there on nothing may fail but a persist.
        let flying = self.common.commits.flying(&*self.memtables);
        let adoption = match self.adopt(writer, staged, staging.nonce, unused, nonce) {
            Err(error) if self.common.poison.check().is_ok() => {
                flying.finished();
                return Err(error);
            }
            adopted => adopted?,
        };
        let Some(stage) = staging.stage.take() else {
            unreachable!("it is taken once");
        };
        let last = adoption.last;
        self.common.prepared.granted(step_of(guard), last);
        if writer.watched {
            writer.watched = self.common.note_recent(adoption.first, entries);
        }
        if deletes {
            self.pressure.deleted(last);
        }
        self.publish(writer, stage, adoption)?;
        if let Some(told) = told {
            told.granted(last);
        }
        // Before others get the lock: what is in the view, and sealed, counts as settled for them (`flush`, `capture`).
        let ring = &self.common.commits.ring;
        ring.grant_finished(last.0, staged.records);
        flying.finished();
        // With this one.
        self.flush_due.flush_if_due();
        Ok(last)
    }

    /// The edit.
    fn adopt(
        &self,
        writer: &mut Writer,
        staged: Staged,
        staged_nonce: u64,
        unused: u64,
        nonce: u64,
    ) -> Result<Adoption> {
        let first = SeqNo(writer.next_seqno());
        let last = SeqNo(first.0 + staged.records - 1);
        let ids = self.common.catalog.edits().state().next_ids();
        let (own, next) = (ids.memtable, ids.memtable + 1);
        let incarnation = writer.chain.chain().incarnation;
        // It follows on from the batch: base 0 in the manifest.
        let chain = Chain::new(&self.common.db_id, ids.chain, incarnation, nonce, 0);
        let log = self.memtables.begin_log(chain.id, nonce)?;
        let ended = writer.ended.take();
        let mut edit = VersionEdit {
            changes: ended.clone(),
        };
        edit.changes.extend([
            Change::MemtableDropped { id: unused },
            Change::MemtableCreated { id: own },
            Change::ChainAdopted {
                chain: staged.chain,
                memtable: own,
                incarnation,
                nonce: staged_nonce,
                base_seqno: first.0,
                last_seqno: last.0,
                end: staged.end.0,
            },
            Change::MemtableCreated { id: next },
            opened(&chain, next, nonce, None),
        ]);
        if let Err(error) = self.memtables.edit_with_log(edit, &log) {
            writer.ended.give_back(ended);
            return Err(error);
        }
        self.memtables.go_over_to_log(log);
        self.memtables.witness(&chain, nonce)?;
        let chain = Chain {
            base: last.0 + 1,
            ..chain
        };
        Ok(Adoption {
            unused,
            own,
            first,
            last,
            next,
            chain,
            nonce,
        })
    }

    /// Puts what the edit has named into descriptors, into the view and in the writer's hands.
    fn publish(&self, writer: &mut Writer, stage: Stage<'_>, adoption: Adoption) -> Result<()> {
        let Adoption {
            unused, own, next, ..
        } = adoption;
        self.common.give_descriptor_back(writer.descriptor.take())?;
        let describe = |memtable| {
            Descriptor::create(&self.common.space, &self.common.db_id, memtable)
                .map_err(|error| self.common.poison.poison(error))
        };
        let (descriptor, next_descriptor) = (describe(own)?, describe(next)?);
        let zones = stage.zones().to_vec();
        let trail = stage.trail(own, adoption.first, adoption.last);
        let memtable = Arc::new(stage.adopted(own, adoption.first));
        let region = self.common.space.region().clone();
        let active =
            Memtable::new(region, next, vec![adoption.chain]).charged_to(&self.common.account);
        let active = Arc::new(active);
        self.common
            .reclaim
            .adopted(unused, own, zones, descriptor, trail);
        let view = self.common.catalog.view();
        let older = view.memtables.iter().filter(|m| m.id() != unused);
        let memtables = [active.clone(), memtable.clone()];
        let memtables = memtables.into_iter().chain(older.cloned()).collect();
        self.common.catalog.show(view.with_memtables(memtables));
        let chain = ChainWriter::new(self.common.space.clone(), adoption.chain, None);
        writer.go_on(
            active,
            next_descriptor,
            chain,
            adoption.nonce,
            adoption.last,
        );
        self.common
            .events
            .emit(Event::MemtableDropped { id: unused });
        self.common
            .events
            .emit(Event::MemtablePrepared { id: next });
        self.common.events.emit(Event::MemtableSealed {
            id: own,
            records: memtable.len(),
            bytes: memtable.bytes(),
        });
        Ok(())
    }

    /// Sees to it that a commit finds descriptors for its memtables: for its own, and for the one
    /// that a seal makes active if none is prepared.
    fn find_descriptors(&self, writer: &mut Writer, next: &Naming<'_>) -> Result<()> {
        let descriptors = self.common.space.descriptors();
        let seals = !self.memtables.is_unused(writer, next) && !next.has_next();
        let wanted = 1 + usize::from(seals);
        if descriptors.free() < wanted {
            self.upkeep.reclaim_for(writer)?;
        }
        if descriptors.free() < wanted {
            return Err(Error::OutOfSpace(format!(
                "there are as many memtables as can be ({MEMTABLES_MAX}), and a batch over memtable.item_bytes_max, or in \
                 several pieces, becomes one of its own; write smaller batches, or delete"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
