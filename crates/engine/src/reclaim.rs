//! Dropping generations in which nothing is alive.
//!
//! A key that is written again and again leaves its old records behind in sealed generations. A
//! generation of which nobody needs a version (`memtable::needed` says what that means, and why it
//! stays so) is dropped as a whole, without moving a record.
//!
//! What change feeds have not read stays for a while (`feed`).
//!
//! # Steps
//! 1. *Check* (no lock held): each sealed generation, oldest first, from where the last check
//!    stopped up to the first key that is needed. So each key is passed once and probed a few times,
//!    and a generation that lives costs one probe.
//! 2. *Retire* (under the writer's lock): a view without the dead generations. Readers that come now
//!    do not see them. Those that hold an older view read on; they find there nothing that hides, or
//!    is hidden by, what it should not.
//! 3. *Edit*, once nobody holds the generation's memtable any more: cuts for all chains that this
//!    incarnation has sealed, and the drops. **The edit alone decides what exists**: before it a
//!    crash finds the generations whole, after it none of them.
//! 4. *Descriptor*: back to its pool. A crash before that leaves one that the manifest does not
//!    name; the next open gives it back.
//! 5. *Zones*: free again. Nothing is written. After a crash in 4 they are free at the next open.
//!
//! # Invariants
//! 1. Whatever anybody may read, the manifest names. So what an open finds unnamed is free, whoever
//!    still reads.
//! 2. Where a check took a tombstone for one that hides nothing, no older generation was named, and
//!    there was no table. (A generation that is retired and read may be named; then its younger ones
//!    wait. A table that comes later has records of younger generations.)
//! 3. A flushed generation is dropped while an older one is named, which somebody reads, only by an
//!    edit after which the manifest says that those are flushed, too (`flush`, invariant 4).
//!
//! # Why nothing is lost
//! Every dropped version has a newer one that is *durable* and visible (or is a tombstone with
//! nothing below it, or of a family whose drop is durable). Or its generation was flushed: then it is in
//! a table, as far as anybody needs it, which the same view brings in that lets the generation go, and
//! which a durable edit names (`flush`). So a crash after the edit finds the newer
//! one. A reader that is not registered, a `get`, loads the view first and then what is visible: if
//! its view lacks the generation, then what it finds visible includes what the check saw, hence the
//! newer version; if its view has the generation, it has that of the newer version too. One that
//! registers meanwhile gets what is visible then, and needs nothing (`memtable::needed`, 1). Whoever
//! reads a family that is dropped meanwhile asks, after it has loaded its view, whether it still
//! exists. Groups in flight write into the active generation, which is never checked.
//!
//! A generation's home is held by its memtable, by merged indexes that lead to its records, and by pinned
//! values; those indexes by views, and views by readers who are inside a call, or stand still and are
//! asked to leave here (`holds`). A retired generation is in no current view; when
//! its home has one holder, which is the list here, nobody is left who could read it.
//!
//! # Merged indexes
//! A generation in a merged index (`merge`) is checked like others, by itself. When it is dead it stays until
//! the index is merged anew, without it; or all of the index is dead.
//!
//! # Why recovery can cross the gap
//! A dropped generation may lie in the middle of this incarnation's chains. The edit cuts every chain
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
//! `hold_folder`), and while somebody does, no generation that was there at the
//! opening is dropped, nor are the zones or files freed of a table that was. What came since is. A
//! handle is no reader.

use std::collections::BTreeMap;
use std::sync::Weak;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, Error, FileId, Result, SeqNo};
use thermocline_catalog::View;
use thermocline_commit::readers::Moments;
use thermocline_halloc::{ZONE_HEADER_BYTES, Zone};
use thermocline_memtable::{
    Checked, Descriptor, Home, Memtable, NeededCheck, Neighbours, Position, Readers, Trail,
};
use thermocline_observe::count::Count;
use thermocline_observe::event::Event;
use thermocline_runtime::Task;
use thermocline_version::{Change, State, VersionEdit};

use crate::close::{Held, has_strangers};
use crate::feed::{Feeds, Keeping};
use crate::store::Inner;
use crate::sync::{Arc, lock, thread};
use crate::write::Writer;

/// Keys that are checked under one epoch guard.
const STEP: usize = 256;

/// A writer that finds no free descriptor looks for dead generations once in so many records.
const DESCRIPTORS_EVERY: u64 = 256;

/// How often a writer that found no room looks again whether readers have let go of what is
/// dead: a `get` does within microseconds.
const PATIENCE: u32 = 1000;

/// What generations own, and what became of those that are dead.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    /// By generation. Of the active one, what it owned when the store was opened.
    owned: BTreeMap<u64, Owned>,
    /// Dead generations that are in no current view and that somebody may read, oldest first.
    retired: Vec<Retired>,
    /// A flush has taken all sealed generations up to this one; 0 if there is none under way.
    pub taken: u64,
    /// Merging the indexes up to this generation has met a record that cannot be read; 0 if none has.
    pub unreadable: u64,
    /// Up to this generation all were there at the opening.
    found: u64,
    /// And all tables and blob files with smaller numbers.
    found_files: FileId,
    /// Whether strangers may read all of that.
    strangers: bool,
    /// The seqno at which a writer last looked for descriptors in vain.
    looked_at: u64,
    /// Who keeps generations to read their changes.
    pub feeds: Feeds,
}

/// A dead generation that is in no current view.
#[derive(Debug, Clone)]
pub(crate) struct Retired {
    pub home: Arc<Home>,
    /// The last index of the current view that led to it.
    pub index: Weak<Memtable>,
}

impl Retired {
    pub fn generation(&self) -> u64 {
        self.home.generation()
    }
}

/// Bytes of values in blob files that a dead generation refers to, as they count in what feeds may keep.
fn blob_bytes(retired: &Retired) -> u64 {
    match active(Bug::KeptBlobsUncounted) {
        true => 0,
        false => retired.home.blobs().bytes(),
    }
}

/// What a generation owns, and how far it was checked.
#[derive(Debug, Default)]
struct Owned {
    zones: Vec<Zone>,
    descriptor: Option<Descriptor>,
    /// Where its records lie; of the active generation those from before it was opened.
    trails: Vec<Trail>,
    checked: Position,
    dead: bool,
    /// Whether its records are in tables, as far as anybody needs them.
    flushed: bool,
}

impl Owned {
    /// The last seqno of a sealed generation.
    fn last_seqno(&self) -> u64 {
        self.trails.last().and_then(|trail| trail.last).unwrap_or(0)
    }
}

impl Reclaim {
    /// What `generations`, those that an open found, own. The newest of them takes the writes; its
    /// descriptor is the writer's until it is sealed. Their records lie in `trails`. With `strangers`,
    /// readers that nobody knows hold the folder.
    pub fn new(
        state: &State,
        zones: &[Zone],
        descriptors: &[Descriptor],
        generations: &[u64],
        trails: Vec<Trail>,
        strangers: bool,
    ) -> Reclaim {
        let newest = generations.last().copied().unwrap_or(0);
        let found = |(id, generation): (&u64, &thermocline_version::Generation)| {
            let owners: Vec<u64> = generation.chains.iter().map(|chain| chain.id).collect();
            let own = zones.iter().filter(|zone| owners.contains(&zone.owner));
            let descriptor = descriptors.iter().find(|d| d.generation == *id);
            let owned = Owned {
                zones: own.copied().collect(),
                descriptor: descriptor.copied().filter(|_| *id != newest),
                trails: trails
                    .iter()
                    .filter(|t| t.generation == *id)
                    .cloned()
                    .collect(),
                ..Owned::default()
            };
            (*id, owned)
        };
        let there = state.generations().iter();
        let there = there.filter(|(id, _)| generations.contains(id));
        Reclaim {
            owned: there.map(found).collect(),
            found: newest,
            found_files: FileId(state.next_ids().file),
            strangers,
            ..Reclaim::default()
        }
    }

    /// Takes what is dead and nobody reads, with what it owns, but for what is kept, or `held` by elders. The
    /// manifest `may_say` of a flushed generation that it and all older ones were flushed.
    fn take_free(
        &mut self,
        keeping: &Keeping,
        held: &Held,
        may_say: impl Fn(&Retired) -> bool,
    ) -> Vec<(Retired, Owned)> {
        let kept = self.kept_from(keeping);
        let mut free = Vec::new();
        // Oldest first, so that those go together that may.
        for retired in std::mem::take(&mut self.retired) {
            let id = retired.generation();
            let read = Arc::strong_count(&retired.home) > 1 || self.is_held(id, held);
            let stays = self.is_flushed(id) && self.has_older(id) && !may_say(&retired);
            if read || id >= kept || stays {
                self.retired.push(retired);
            } else {
                let owned = self.owned.remove(&id).unwrap_or_default();
                free.push((retired, owned));
            }
        }
        free
    }

    /// What was taken stays after all.
    fn give_back(&mut self, free: Vec<(Retired, Owned)>) {
        for (retired, owned) in free {
            self.owned.insert(retired.generation(), owned);
            self.retired.push(retired);
        }
        self.retired.sort_unstable_by_key(Retired::generation);
    }

    /// These generations were flushed: they are dead.
    pub fn flushed(&mut self, generations: impl Iterator<Item = u64>) {
        for id in generations {
            let owned = self.owned.entry(id).or_default();
            (owned.dead, owned.flushed) = (true, true);
        }
    }

    /// These generations, oldest first, were flushed before the store was opened; no view has them.
    pub fn found_flushed(&mut self, generations: Vec<Arc<Memtable>>) {
        self.flushed(generations.iter().map(|memtable| memtable.generation()));
        let retired = |memtable: &Arc<Memtable>| Retired {
            home: memtable.homes()[0].clone(),
            index: Arc::downgrade(memtable),
        };
        self.retired = generations.iter().map(retired).collect();
    }

    /// These generations were found dead.
    pub fn found_dead(&mut self, generations: impl Iterator<Item = u64>) {
        for id in generations {
            self.owned.entry(id).or_default().dead = true;
        }
    }

    /// Whether a generation is dead.
    pub fn is_dead(&self, id: u64) -> bool {
        self.owned.get(&id).is_some_and(|owned| owned.dead)
    }

    /// The zones that a sealed generation owns.
    pub fn zones(&self, id: u64) -> Vec<Zone> {
        let owned = self.owned.get(&id);
        owned.map(|owned| owned.zones.clone()).unwrap_or_default()
    }

    /// Whether no stranger reads a generation.
    pub fn is_ours(&self, id: u64) -> bool {
        !self.strangers || id > self.found
    }

    /// Whether a reader of an earlier opening may read a generation.
    fn is_held(&self, id: u64, held: &Held) -> bool {
        let everything = self.strangers || held.everything;
        id <= self.found && everything || held.generations.contains(&id)
    }

    /// Whether a generation was flushed.
    pub fn is_flushed(&self, id: u64) -> bool {
        self.owned.get(&id).is_some_and(|owned| owned.flushed)
    }

    /// Persistent memory that a generation owns, in bytes.
    pub fn zone_bytes(&self, id: u64) -> u64 {
        let zones = self.owned.get(&id).map_or(&[][..], |owned| &owned.zones);
        let bytes = |zone: &Zone| zone.end.0 - zone.data.0 + ZONE_HEADER_BYTES;
        zones.iter().map(bytes).sum()
    }

    /// How many generations are dead and stay because somebody reads them, whether
    /// or not they are kept for feeds, too; or are about to go. And the persistent memory that they own.
    pub fn held_bytes(&self, keeping: &Keeping) -> (usize, u64) {
        let kept = self.kept_from(keeping);
        let is_read = |retired: &Retired| Arc::strong_count(&retired.home) > 1;
        self.sum((self.retired.iter()).filter(|r| is_read(r) || r.generation() < kept))
    }

    /// How many generations are kept for feeds, and the persistent memory that they own.
    pub fn kept(&self, keeping: &Keeping) -> (usize, u64) {
        let kept = self.kept_from(keeping);
        self.sum(self.retired.iter().filter(|m| m.generation() >= kept))
    }

    /// Bytes of values in blob files that generations which are kept for feeds refer to.
    pub fn kept_blob_bytes(&self, keeping: &Keeping) -> u64 {
        let kept = self.kept_from(keeping);
        let retired = self.retired.iter().filter(|m| m.generation() >= kept);
        retired.map(|retired| retired.home.blobs().bytes()).sum()
    }

    fn sum<'r>(&self, generations: impl Iterator<Item = &'r Retired>) -> (usize, u64) {
        generations.fold((0, 0), |(count, bytes), retired| {
            (count + 1, bytes + self.zone_bytes(retired.generation()))
        })
    }

    /// The lowest dead generation that is kept for feeds: all later ones are, too (`feed`, invariant 1).
    fn kept_from(&self, keeping: &Keeping) -> u64 {
        let of = |retired: &Retired| {
            let id = retired.generation();
            let last = self.owned.get(&id).map_or(0, Owned::last_seqno);
            (id, self.zone_bytes(id) + blob_bytes(retired), last)
        };
        keeping.lowest(&self.feeds, self.retired.iter().rev().map(of))
    }

    /// Whether no generation is dead.
    pub fn is_nothing_retired(&self) -> bool {
        self.retired.is_empty()
    }

    /// The homes of dead generations.
    pub fn retired_homes(&self) -> impl Iterator<Item = &Arc<Home>> {
        self.retired.iter().map(|retired| &retired.home)
    }

    /// Where the records of all generations lie, oldest first; of the active one those from before it was opened.
    pub fn trails(&self) -> impl Iterator<Item = &Trail> {
        self.owned.values().flat_map(|owned| &owned.trails)
    }

    /// Leaves out the blob files to which a dead generation refers that is still named.
    pub fn retain_unnoted(&self, files: &mut Vec<FileId>) {
        let notes = |file: &FileId| self.retired.iter().any(|r| r.home.blobs().has(*file));
        files.retain(|file| !notes(file));
    }

    /// Whether readers that nobody knows may read what was there at the opening.
    pub fn has_strangers(&self) -> bool {
        self.strangers
    }

    /// Whether a reader of an earlier opening may read a table or a blob file.
    pub fn is_file_held(&self, file: FileId, held: &Held) -> bool {
        let everything = self.strangers || held.everything;
        file < self.found_files && everything || held.files.contains(&file)
    }

    /// Whether the manifest may name a generation older than `id`.
    fn has_older(&self, id: u64) -> bool {
        let retired = self.retired.iter().any(|m| m.generation() < id);
        retired || self.owned.keys().next().is_some_and(|&oldest| oldest < id)
    }
}

impl Inner {
    /// Drops what is dead and nobody reads, and returns how many generations those were. The caller does not
    /// hold the writer's lock.
    pub fn reclaim(&self) -> Result<usize> {
        self.forget_relics();
        // Readers may have let go of tables, too.
        self.unlink_obsolete();
        let mut all = 0;
        loop {
            let checked = self.find_dead();
            let dropped = {
                let mut writer = lock(&self.writer);
                // Again, since the store may have been closed meanwhile.
                self.check_writable()?;
                self.drop_dead(&mut writer)?
            };
            all += dropped;
            checked?;
            // What was not the oldest may be now.
            if dropped == 0 {
                self.discard_blobs();
                self.release_pm_tables();
                return Ok(all);
            }
        }
    }

    /// As [`Inner::reclaim`], for whoever writes and lacks something. What cannot be read stays, for its
    /// reader to hear of.
    pub fn reclaim_for(&self, writer: &mut Writer) -> Result<usize> {
        loop {
            let dropped = self.reclaim_inline(writer)?;
            // A flush makes more room, and not under the writer's lock.
            if dropped > 0 || self.flushes() || !self.merge_for_room(writer)? {
                return Ok(dropped);
            }
        }
    }

    fn reclaim_inline(&self, writer: &mut Writer) -> Result<usize> {
        let mut all = 0;
        loop {
            let _ = self.find_dead();
            if !self.world.background {
                self.merge_inline(writer)?;
            }
            let dropped = self.drop_dead(writer)?;
            all += dropped;
            if dropped == 0 {
                return Ok(all);
            }
        }
    }

    /// A generation was sealed: it owns `zones` and `descriptor`, and one that is older may be dead.
    pub fn sealed(
        &self,
        writer: &mut Writer,
        generation: u64,
        zones: &[Zone],
        descriptor: Option<Descriptor>,
        trail: Trail,
    ) -> Result<()> {
        {
            let mut reclaim = lock(&self.reclaim);
            let owned = reclaim.owned.entry(generation).or_default();
            owned.zones.extend_from_slice(zones);
            owned.descriptor = descriptor;
            owned.trails.push(trail);
        }
        self.merges.look_again();
        if self.world.background {
            self.background.request(Task::Ahead);
            return Ok(());
        }
        self.reclaim_inline(writer)?;
        self.flush_if_due();
        Ok(())
    }

    /// The unused generation `dropped` made way for `own`, which is complete and owns all this.
    pub fn adopted(
        &self,
        dropped: u64,
        own: u64,
        zones: Vec<Zone>,
        descriptor: Option<Descriptor>,
        trail: Trail,
    ) {
        let mut reclaim = lock(&self.reclaim);
        reclaim.owned.remove(&dropped);
        let owned = reclaim.owned.entry(own).or_default();
        (owned.zones, owned.descriptor) = (zones, descriptor);
        owned.trails = vec![trail];
    }

    /// A generation that was never used is gone, and owns nothing.
    pub fn forget_unused(&self, unused: u64) {
        lock(&self.reclaim).owned.remove(&unused);
    }

    /// There is no room, as `error` says: drops what is dead, or gives the error back.
    pub fn reclaim_or(&self, writer: &mut Writer, error: Error) -> Result<()> {
        if !matches!(error, Error::OutOfSpace(_)) {
            return Err(error);
        }
        for _ in 0..PATIENCE {
            if self.reclaim_for(writer)? > 0 || self.yield_kept_holding(writer)? {
                return Ok(());
            }
            if lock(&self.reclaim).retired.is_empty() {
                break;
            }
            thread::yield_now();
        }
        Err(error)
    }

    /// All descriptors are taken: drops what is dead, but not for every write anew.
    pub fn reclaim_descriptors(&self, writer: &mut Writer) -> Result<()> {
        if self.space.generations().free() > 0 {
            return Ok(());
        }
        let now = self.commits.ring.durable();
        let due = {
            let mut reclaim = lock(&self.reclaim);
            let due = now >= reclaim.looked_at + DESCRIPTORS_EVERY;
            if due {
                reclaim.looked_at = now;
            }
            due
        };
        if due {
            self.reclaim_for(writer)?;
        }
        Ok(())
    }

    /// Checks all sealed generations and notes which are dead.
    fn find_dead(&self) -> Result<()> {
        // Whether strangers still read, if there were any.
        if lock(&self.reclaim).strangers && !has_strangers(&*self.world.env.storage, &self.dir) {
            lock(&self.reclaim).strangers = false;
        }
        let sealed: Vec<u64> = {
            let view = self.catalog.view();
            let sealed = view.memtables[1..].iter().rev();
            let homes = sealed.flat_map(|m| m.homes());
            homes.map(|home| home.generation()).collect()
        };
        let mut result = Ok(());
        for id in sealed {
            result = result.and(self.check(id));
        }
        result
    }

    /// Goes on checking a sealed generation.
    fn check(&self, id: u64) -> Result<()> {
        loop {
            // Not longer than a step: a view holds what others may be waiting to drop.
            let view = self.catalog.view_to_keep();
            let mut newer: Vec<&Memtable> = view.memtables.iter().map(|m| &**m).collect();
            newer.reverse();
            let leads = |m: &&Memtable| m.homes().iter().any(|home| home.generation() == id);
            let Some(i) = newer.iter().position(leads) else {
                return Ok(());
            };
            let (from, is_oldest) = {
                let reclaim = lock(&self.reclaim);
                let from = match reclaim.owned.get(&id) {
                    Some(owned) if !owned.dead && reclaim.is_ours(id) => owned.checked.clone(),
                    // Dead, sealed a moment ago, or not ours to drop.
                    _ => return Ok(()),
                };
                (from, !reclaim.has_older(id) && view.tables.is_empty())
            };
            let memtable = newer[i];
            let around = Neighbours {
                newer: &newer[i + 1..],
                is_oldest,
            };
            // In this order: see `memtable::needed::Readers`.
            let settled = SeqNo(self.commits.ring.durable().min(self.commits.ring.visible()));
            let moments = Moments::copied(&self.commits.ring, &self.commits.readers);
            let exists = |cf: CfId, key: &[u8]| self.families.exists(cf, key);
            let readers = Readers {
                settled,
                moments: &moments,
                exists: &exists,
            };
            let check = NeededCheck::new(memtable, readers, around).only(id);
            let checked = check.keys(&from, STEP)?;
            drop(moments);
            let mut reclaim = lock(&self.reclaim);
            let Some(owned) = reclaim.owned.get_mut(&id) else {
                return Ok(());
            };
            match checked {
                // Somebody who checks at the same time may have come farther: then some is checked
                // twice.
                Checked::SoFar(at) => owned.checked = at,
                Checked::Needed(at) => {
                    owned.checked = at;
                    return Ok(());
                }
                Checked::Nothing => {
                    owned.dead = true;
                    return Ok(());
                }
            }
        }
    }

    /// Gives up the oldest generation that is kept for feeds, and returns whether there was one.
    pub fn yield_kept(&self) -> Result<bool> {
        let mut writer = lock(&self.writer);
        self.check_writable()?;
        self.yield_kept_holding(&mut writer)
    }

    fn yield_kept_holding(&self, writer: &mut Writer) -> Result<bool> {
        let keeping = self.keeping();
        if lock(&self.reclaim).kept(&keeping).0 == 0 {
            return Ok(false);
        }
        let yields = true;
        Ok(self.drop_unkept(writer, &Keeping { yields, ..keeping })? > 0)
    }

    /// Retires the generations that were found dead, and drops those that nobody reads.
    fn drop_dead(&self, writer: &mut Writer) -> Result<usize> {
        self.drop_unkept(writer, &self.keeping())
    }

    fn drop_unkept(&self, writer: &mut Writer, keeping: &Keeping) -> Result<usize> {
        self.retire();
        // What the manifest says: what tables tell is forgotten with them.
        let (said, evacuating) = {
            let manifest = self.catalog.edits();
            let state = manifest.state();
            let evacuation = state.evacuation();
            let said = evacuation.map_or(state.flushed_up_to(), |going| going.above);
            (said, evacuation.is_some())
        };
        if !lock(&self.reclaim).is_nothing_retired() {
            self.ask_readers_to_leave();
        }
        let base = |retired: &Retired| retired.home.base().0;
        let may_say = |retired: &Retired| base(retired) <= said || !evacuating;
        // Asked now: whoever holds something later held it before.
        let held = self.elders.held();
        let mut free = lock(&self.reclaim).take_free(keeping, &held, may_say);
        if free.is_empty() {
            return Ok(0);
        }
        if active(Bug::ReleaseBeforeEdit) {
            for (_, owned) in &mut free {
                self.give_descriptor_back(owned.descriptor.take())?;
            }
        }
        let dropped = |retired: &Retired| Change::GenerationDropped {
            id: retired.generation(),
        };
        // Older ones may stay named.
        let flushed = free.iter().filter(|(retired, owned)| {
            owned.flushed && lock(&self.reclaim).has_older(retired.generation())
        });
        let says = flushed.map(|(retired, _)| base(retired)).max();
        let says = says.filter(|says| *says > said && !active(Bug::DropFlushedFirst));
        let says = says.map(|seqno| Change::FlushedUpTo { seqno });
        let ended = writer.take_ended();
        let drops = free.iter().map(|(retired, _)| dropped(retired));
        let changes = ended.iter().cloned().chain(says).chain(drops).collect();
        // If it fails, but for want of room, the store is poisoned, and nothing is given back.
        if let Err(error) = self.catalog.edit(&VersionEdit { changes }) {
            writer.give_back_ended(ended);
            lock(&self.reclaim).give_back(free);
            return Err(error);
        }
        let dropped = free.len();
        self.counted.add(Count::Dropped, dropped as u64);
        for (retired, owned) in free {
            let id = retired.generation();
            lock(&self.reclaim).feeds.gone(owned.last_seqno());
            drop(retired);
            self.events.emit(Event::GenerationDropped { id });
            self.give_descriptor_back(owned.descriptor)?;
            self.space.release(&owned.zones);
        }
        self.room.note();
        self.press();
        Ok(dropped)
    }

    /// Takes the dead generations out of the view. The caller holds the writer's lock.
    pub fn retire(&self) {
        let view = self.catalog.view_to_keep();
        let is_dead = {
            let reclaim = lock(&self.reclaim);
            let homes =
                |m: &Arc<Memtable>| m.homes().iter().all(|h| reclaim.is_dead(h.generation()));
            view.memtables.iter().map(homes).collect::<Vec<bool>>()
        };
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
        let tables = self.catalog.tables_after(view);
        let mut reclaim = lock(&self.reclaim);
        for before in &view.memtables {
            if memtables.iter().any(|m| Arc::ptr_eq(m, before)) {
                continue;
            }
            before.retire();
            for home in before.homes() {
                let now = memtables.iter().flat_map(|m| m.homes());
                if !now.into_iter().any(|other| Arc::ptr_eq(other, home)) {
                    reclaim.retired.push(Retired {
                        home: home.clone(),
                        index: Arc::downgrade(before),
                    });
                }
            }
        }
        reclaim.retired.sort_unstable_by_key(Retired::generation);
        drop(reclaim);
        // Everybody who was loading the view has it when this returns, and counts.
        let view = view.with_memtables(memtables).over(tables);
        self.catalog.show(view);
    }

    pub fn give_descriptor_back(&self, descriptor: Option<Descriptor>) -> Result<()> {
        let released = descriptor.map_or(Ok(()), |descriptor| descriptor.release(&self.space));
        released.map_err(|error| self.poison.poison(error))
    }

    /// Generations that are dead and that somebody reads, oldest first.
    pub fn retired(&self) -> Vec<Retired> {
        lock(&self.reclaim).retired.clone()
    }
}

#[cfg(test)]
mod tests;
