//! Dropping memtables in which nothing is alive.
//!
//! A key that is written again and again leaves its old records behind in sealed memtables. A
//! memtable of which nobody needs a version (`memtable::needed` says what that means, and why it
//! stays so) is dropped as a whole, without moving a record.
//!
//! What change feeds have not read stays for a while (`feed`).
//!
//! # Steps
//! 1. *Check* (no lock held): each sealed memtable, oldest first, from where the last check
//!    stopped up to the first key that is needed. So each key is passed once and probed a few times,
//!    and a memtable that lives costs one probe.
//! 2. *Retire* (under the writer's lock): a view without the dead memtables. Readers that come now
//!    do not see them. Those that hold an older view read on; they find there nothing that hides, or
//!    is hidden by, what it should not.
//! 3. *Edit*, once nobody else holds the memtable's home: cuts for all chains that this
//!    incarnation has sealed, and the drops. **The edit alone decides what exists**: before it a
//!    crash finds the memtables whole, after it none of them.
//! 4. *Descriptor*: back to its pool. A crash before that leaves one that the manifest does not
//!    name; the next open gives it back.
//! 5. *Zones*: free again. Nothing is written. After a crash in 4 they are free at the next open.
//!
//! # Invariants
//! 1. Whatever anybody may read, the manifest names. So what an open finds unnamed is free, whoever
//!    still reads.
//! 2. Where a check took a tombstone for one that hides nothing, no older memtable was named, and
//!    there was no table. (A memtable that is retired and read may be named; then its younger ones
//!    wait. A table that comes later has records of younger memtables.)
//! 3. A flushed memtable is dropped while an older one is named, which somebody reads, only by an
//!    edit after which the manifest says that those are flushed, too (`flush`, invariant 4). Of one without records
//!    nothing is said.
//!
//! # Why nothing is lost
//! Every dropped version has a newer one that is *durable* and visible (or is a tombstone with
//! nothing below it, or of a family whose drop is durable). Or its memtable was flushed: then it is in
//! a table, as far as anybody needs it, which the same view brings in that lets the memtable go, and
//! which a durable edit names (`flush`). So a crash after the edit finds the newer
//! one. A reader that is not registered, a `get`, loads the view first and then what is visible: if
//! its view lacks the memtable, then what it finds visible includes what the check saw, hence the
//! newer version; if its view has the memtable, it has that of the newer version too. One that
//! registers meanwhile gets what is visible then, and needs nothing (`memtable::needed`, 1). Whoever
//! reads a family that is dropped meanwhile asks, after it has loaded its view, whether it still
//! exists. Groups in flight write into the active memtable, which is never checked.
//!
//! A memtable's home is held by its own index, by merged indexes that lead to its records, and by pinned
//! values; those indexes by views, and views by readers who are inside a call, or stand still and are
//! asked to leave here (`holds`). A retired memtable is in no current view; when
//! its home has one holder, which is the list here, nobody is left who could read it.
//!
//! # Merged indexes
//! A memtable in a merged index (`merge`) is checked like others, by itself. When it is dead it stays until
//! the index is merged anew, without it; or all of the index is dead.
//!
//! # Why recovery can cross the gap
//! A dropped memtable may lie in the middle of this incarnation's chains. The edit cuts every chain
//! before it, and the manifest's state gives the chain that followed a dropped one the base that it
//! had (`version::state`). The walk demands both (`memtable::walk`). So every other check is as strong
//! as before: the chains before the gap must reach their cuts; all below the base counts as durable
//! (rule 2); the chain behind the gap has a base of its own, so that a missing floor before it is
//! noticed as ever (`recover::check_floors`), and no seqno is lost to rule 5. The newest chain, which
//! the witness vouches for, is never dropped. A manifest that loses this edit names zones that may be
//! somebody else's by now, and a floor that is gone: an error, not silence.
//!
//! # Stale bytes
//! A zone that was given back is attached again with a higher zone generation and to another chain;
//! items carry both, so those of the earlier life are never taken for records.
//!
//! # Readers that outlive their store
//! Snapshots, iterators and pinned values may be read after their store was closed. By invariant 1
//! all that they may read is named by the manifest then, and whoever opens the database next will
//! keep it, but for what *it* drops. If that is this process it knows who they are (`close`): moments are
//! registered like its own, and what they hold beside that ([`Held`]) is not dropped, and is asked for each time
//! before anything is. Otherwise they are *strangers*: they hold the database's folder (`env`'s
//! `hold_folder`), and while somebody does, no memtable that was there at the
//! opening is dropped, nor are the zones or files freed of a table that was. What came since is. A
//! handle is no reader.

use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, Error, Result};
use thermocline_catalog::View;
use thermocline_catalog::kept::Keeping;
use thermocline_catalog::owned::Retired;
use thermocline_commit::readers::Moments;
use thermocline_memtable::{Memtable, NeededCheck, Neighbours, Readers};
use thermocline_observe::count::Count;
use thermocline_observe::event::Event;
use thermocline_policy::tuning::RECLAIM_KEYS;
use thermocline_version::{Change, VersionEdit};

use crate::close::has_strangers;
use crate::store::Reclaimer;
use crate::sync::Arc;
use crate::write::writer::Ended;

impl Reclaimer {
    /// Drops what is dead and nobody reads, and returns how many memtables those were. The caller does not
    /// hold the writer's lock.
    ///
    /// # Errors
    /// [`Error::Corruption`] of a record that had to be read: all else is dropped.
    pub fn reclaim(&self) -> Result<usize> {
        self.forget_relics();
        // Readers may have let go of tables, too.
        self.sweeper.unlink_obsolete();
        let mut all = 0;
        loop {
            let checked = self.find_dead();
            let dropped = {
                let mut held_up = self.memtables.hold_writer_up();
                // Again, since the store may have been closed meanwhile.
                self.common.check_writable()?;
                self.drop_dead(held_up.ended())?
            };
            all += dropped;
            // What was not the oldest may be now.
            if dropped == 0 {
                self.sweeper.discard_blobs();
                self.sweeper.release_pm_tables();
                return checked.map(|()| all);
            }
        }
    }

    /// As [`Reclaimer::reclaim`], for whoever wants room. What cannot be read stays, for its reader to hear of.
    pub fn reclaim_readable(&self) -> Result<()> {
        match self.reclaim() {
            Ok(_) | Err(Error::Corruption { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Checks all sealed memtables and notes which are dead.
    pub fn find_dead(&self) -> Result<()> {
        // Whether strangers still read, if there were any.
        let had_strangers = self.common.reclaim.has_strangers();
        if had_strangers && !has_strangers(&*self.common.world.env.storage, &self.common.dir) {
            self.common.reclaim.strangers_have_gone();
        }
        let sealed: Vec<u64> = {
            let view = self.common.catalog.view();
            let sealed = view.memtables[1..].iter().rev();
            let homes = sealed.flat_map(|m| m.homes());
            homes.map(|home| home.id()).collect()
        };
        let mut result = Ok(());
        for id in sealed {
            result = result.and(self.check(id));
        }
        result
    }

    /// Goes on checking a sealed memtable.
    fn check(&self, id: u64) -> Result<()> {
        loop {
            // Closing waits for whoever checks.
            self.common.check_open()?;
            // Not longer than a step: a view holds what others may be waiting to drop.
            let view = self.common.catalog.view_to_keep();
            let mut newer: Vec<&Memtable> = view.memtables.iter().map(|m| &**m).collect();
            newer.reverse();
            let leads = |m: &&Memtable| m.homes().iter().any(|home| home.id() == id);
            let Some(i) = newer.iter().position(leads) else {
                return Ok(());
            };
            let Some((from, is_oldest)) = self.common.reclaim.to_check_from(id) else {
                return Ok(());
            };
            let is_oldest = is_oldest && view.tables.is_empty();
            let memtable = newer[i];
            let around = Neighbours {
                newer: &newer[i + 1..],
                is_oldest,
            };
            // In this order: see `memtable::needed::Readers`.
            let settled = self.common.settled();
            let moments = Moments::copied(&self.common.commits.ring, &self.common.commits.readers);
            let exists = |cf: CfId, key: &[u8]| self.common.families.exists(cf, key);
            let readers = Readers {
                settled,
                moments: &moments,
                exists: &exists,
            };
            let check = NeededCheck::new(memtable, readers, around).only(id);
            let checked = check.keys(&from, RECLAIM_KEYS)?;
            drop(moments);
            if !self.common.reclaim.checked(id, checked) {
                return Ok(());
            }
        }
    }

    /// Gives up the oldest memtable that is kept for feeds, and returns whether there was one.
    pub fn yield_kept(&self) -> Result<bool> {
        let mut held_up = self.memtables.hold_writer_up();
        self.common.check_writable()?;
        self.yield_kept_holding(held_up.ended())
    }

    /// As [`Reclaimer::yield_kept`], for whoever holds the writer's lock.
    pub fn yield_kept_holding(&self, ended: &mut Ended) -> Result<bool> {
        let keeping = self.common.keeping();
        if self.common.reclaim.kept(&keeping).memtables == 0 {
            return Ok(false);
        }
        let yields = true;
        Ok(self.drop_unkept(ended, &Keeping { yields, ..keeping })? > 0)
    }

    /// Retires the memtables that were found dead, and drops those that nobody reads. The caller holds the writer's lock, under
    /// which `ended` lies.
    pub fn drop_dead(&self, ended: &mut Ended) -> Result<usize> {
        self.drop_unkept(ended, &self.common.keeping())
    }

    fn drop_unkept(&self, ended: &mut Ended, keeping: &Keeping) -> Result<usize> {
        self.retire();
        // What the manifest says: what tables tell is forgotten with them.
        let (said, evacuating) = {
            let manifest = self.common.catalog.edits();
            let state = manifest.state();
            let evacuation = state.evacuation();
            let said = evacuation.map_or(state.flushed_up_to(), |going| going.above);
            (said, evacuation.is_some())
        };
        if !self.common.reclaim.is_nothing_retired() {
            self.reads.ask_readers_to_leave();
        }
        let base = |retired: &Retired| retired.home.base().0;
        let may_say = |retired: &Retired| base(retired) <= said || !evacuating;
        // Asked now: whoever holds something later held it before.
        let held = self.common.elders.held();
        let mut free = self.common.reclaim.take_free(keeping, &held, may_say);
        if free.is_empty() {
            return Ok(0);
        }
        if active(Bug::ReleaseBeforeEdit) {
            for (_, owned) in &mut free {
                self.common.give_descriptor_back(owned.descriptor.take())?;
            }
        }
        let dropped = |retired: &Retired| Change::MemtableDropped { id: retired.id() };
        // Older ones may stay named. One without records has the base of the memtable behind it, and hides nothing.
        let flushed = free.iter().filter(|(retired, owned)| {
            let counts = owned.flushed && !retired.home.is_empty();
            counts && self.common.reclaim.has_older(retired.id())
        });
        let says = flushed.map(|(retired, _)| base(retired)).max();
        let says = says.filter(|says| *says > said && !active(Bug::DropFlushedFirst));
        let says = says.map(|seqno| Change::FlushedUpTo { seqno });
        let cuts = ended.take();
        let drops = free.iter().map(|(retired, _)| dropped(retired));
        let changes = cuts.iter().cloned().chain(says).chain(drops).collect();
        // If it fails, but for want of room, the store is poisoned, and nothing is given back.
        if let Err(error) = self.common.catalog.edit(&VersionEdit { changes }) {
            ended.give_back(cuts);
            self.common.reclaim.give_back(free);
            return Err(error);
        }
        let dropped = free.len();
        self.common.counted.add(Count::Dropped, dropped as u64);
        for (retired, owned) in free {
            let id = retired.id();
            self.common.reclaim.gone_for_feeds(owned.last_seqno());
            drop(retired);
            self.common.events.emit(Event::MemtableDropped { id });
            self.common.give_descriptor_back(owned.descriptor)?;
            self.common.space.release(&owned.zones);
        }
        self.common.room.note();
        self.pressure.press();
        Ok(dropped)
    }

    /// Takes the dead memtables out of the view. The caller holds the writer's lock.
    pub fn retire(&self) {
        let view = self.common.catalog.view_to_keep();
        let is_dead = self.common.reclaim.are_dead(&view.memtables);
        if !is_dead.contains(&true) {
            return;
        }
        let live = view.memtables.iter().zip(is_dead);
        let live = live.filter(|(_, is_dead)| !is_dead);
        self.go_over_to(&view, live.map(|(m, _)| m.clone()).collect());
    }

    /// Lets readers see these memtables in place of those of `view`, which is the current one. What is in
    /// them no more is dead. The caller holds the writer's lock.
    pub fn go_over_to(&self, view: &View, memtables: Vec<Arc<Memtable>>) {
        let tables = self.common.catalog.tables_after(view);
        let mut retired = Vec::new();
        for before in &view.memtables {
            if memtables.iter().any(|m| Arc::ptr_eq(m, before)) {
                continue;
            }
            before.retire();
            for home in before.homes() {
                let now = memtables.iter().flat_map(|m| m.homes());
                if !now.into_iter().any(|other| Arc::ptr_eq(other, home)) {
                    retired.push(Retired {
                        home: home.clone(),
                        index: Arc::downgrade(before),
                    });
                }
            }
        }
        self.common.reclaim.retire(retired);
        // Everybody who was loading the view has it when this returns, and counts.
        let view = view.with_memtables(memtables).over(tables);
        self.common.catalog.show(view);
    }

    /// Forgets what was set aside for nobody who is still there.
    pub fn forget_relics(&self) {
        let reads = &self.reads;
        drop(reads.relics.take_unneeded(|| reads.holds.first_drops()));
    }
}

mod space;
#[cfg(test)]
mod tests;
