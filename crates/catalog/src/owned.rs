//! What memtables own, and what became of those that are dead. (`engine::reclaim` has the argument.)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use thermocline_base::FileId;
use thermocline_base::planted::{Bug, active};
use thermocline_halloc::{ZONE_HEADER_BYTES, Zone};
use thermocline_memtable::{Checked, Descriptor, Home, Memtable, Position, Trail};
use thermocline_version::State;

use crate::kept::{Feeds, Keeping};

/// A writer that finds no free descriptor looks for dead memtables once in so many records.
const DESCRIPTORS_EVERY: u64 = 256;

/// What elders hold beside moments.
#[derive(Debug, Default)]
pub struct Held {
    /// Somebody has a view: all that was there.
    pub everything: bool,
    /// These memtables.
    pub memtables: BTreeSet<u64>,
    /// These tables and blob files.
    pub files: BTreeSet<FileId>,
    /// Bytes of values that are read in place.
    pub bytes: u64,
}

/// What memtables own, and what became of those that are dead.
#[derive(Debug, Default)]
pub struct Reclaim {
    /// By memtable. Of the active one, what it owned when the store was opened.
    owned: BTreeMap<u64, Owned>,
    /// Dead memtables that are in no current view and that somebody may read, oldest first.
    retired: Vec<Retired>,
    /// A flush has taken all sealed memtables up to this one; 0 if there is none under way.
    pub taken: u64,
    /// Merging the indexes up to this memtable has met a record that cannot be read; 0 if none has.
    pub unreadable: u64,
    /// Up to this memtable all were there at the opening.
    found: u64,
    /// And all tables and blob files with smaller numbers.
    found_files: FileId,
    /// Whether strangers may read all of that.
    strangers: bool,
    /// The seqno at which a writer last looked for descriptors in vain.
    looked_at: u64,
    /// Who keeps memtables to read their changes.
    pub feeds: Feeds,
}

/// A dead memtable that is in no current view.
#[derive(Debug, Clone)]
pub struct Retired {
    /// Its records.
    pub home: Arc<Home>,
    /// The last index of the current view that led to it.
    pub index: Weak<Memtable>,
}

impl Retired {
    /// Its number.
    pub fn id(&self) -> u64 {
        self.home.id()
    }
}

/// Bytes of values in blob files that a dead memtable refers to, as they count in what feeds may keep.
fn blob_bytes(retired: &Retired) -> u64 {
    match active(Bug::KeptBlobsUncounted) {
        true => 0,
        false => retired.home.blobs().bytes(),
    }
}

/// What a memtable owns, and how far it was checked.
#[derive(Debug, Default)]
pub struct Owned {
    /// Zones that it owns.
    pub zones: Vec<Zone>,
    /// Its descriptor, if that is not the writer's.
    pub descriptor: Option<Descriptor>,
    /// Where its records lie; of the active memtable those from before it was opened.
    trails: Vec<Trail>,
    checked: Position,
    dead: bool,
    /// Whether its records are in tables, as far as anybody needs them.
    pub flushed: bool,
}

impl Owned {
    /// The last seqno of a sealed memtable.
    pub fn last_seqno(&self) -> u64 {
        self.trails.last().and_then(|trail| trail.last).unwrap_or(0)
    }
}

impl Reclaim {
    /// What `memtables`, those that an open found, own. The newest of them takes the writes; its
    /// descriptor is the writer's until it is sealed. Their records lie in `trails`. With `strangers`,
    /// readers that nobody knows hold the folder.
    pub fn new(
        state: &State,
        zones: &[Zone],
        descriptors: &[Descriptor],
        memtables: &[u64],
        trails: Vec<Trail>,
        strangers: bool,
    ) -> Reclaim {
        let newest = memtables.last().copied().unwrap_or(0);
        let found = |(id, memtable): (&u64, &thermocline_version::MemtableEntry)| {
            let owners: Vec<u64> = memtable.chains.iter().map(|chain| chain.id).collect();
            let own = zones.iter().filter(|zone| owners.contains(&zone.owner));
            let descriptor = descriptors.iter().find(|d| d.memtable == *id);
            let owned = Owned {
                zones: own.copied().collect(),
                descriptor: descriptor.copied().filter(|_| *id != newest),
                trails: trails
                    .iter()
                    .filter(|t| t.memtable == *id)
                    .cloned()
                    .collect(),
                ..Owned::default()
            };
            (*id, owned)
        };
        let there = state.memtables().iter();
        let there = there.filter(|(id, _)| memtables.contains(id));
        Reclaim {
            owned: there.map(found).collect(),
            found: newest,
            found_files: FileId(state.next_ids().file),
            strangers,
            ..Reclaim::default()
        }
    }

    /// Takes what is dead and nobody reads, with what it owns, but for what is kept, or `held` by elders. The
    /// manifest `may_say` of a flushed memtable that it and all older ones were flushed.
    pub fn take_free(
        &mut self,
        keeping: &Keeping,
        held: &Held,
        may_say: impl Fn(&Retired) -> bool,
    ) -> Vec<(Retired, Owned)> {
        let kept = self.kept_from(keeping);
        let mut free = Vec::new();
        // Oldest first, so that those go together that may.
        for retired in std::mem::take(&mut self.retired) {
            let id = retired.id();
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
    pub fn give_back(&mut self, free: Vec<(Retired, Owned)>) {
        for (retired, owned) in free {
            self.owned.insert(retired.id(), owned);
            self.retired.push(retired);
        }
        self.retired.sort_unstable_by_key(Retired::id);
    }

    /// A memtable was sealed: it owns `zones` and `descriptor`, too, and has records in `trail`.
    pub fn sealed(
        &mut self,
        memtable: u64,
        zones: &[Zone],
        descriptor: Option<Descriptor>,
        trail: Trail,
    ) {
        let owned = self.owned.entry(memtable).or_default();
        owned.zones.extend_from_slice(zones);
        owned.descriptor = descriptor;
        owned.trails.push(trail);
    }

    /// The unused memtable `dropped` made way for `own`, which is complete and owns all this.
    pub fn adopted(
        &mut self,
        dropped: u64,
        own: u64,
        zones: Vec<Zone>,
        descriptor: Option<Descriptor>,
        trail: Trail,
    ) {
        self.owned.remove(&dropped);
        let owned = self.owned.entry(own).or_default();
        (owned.zones, owned.descriptor) = (zones, descriptor);
        owned.trails = vec![trail];
    }

    /// A memtable that was never used is gone, and owns nothing.
    pub fn forget_unused(&mut self, unused: u64) {
        self.owned.remove(&unused);
    }

    /// Whether a writer who lacks a descriptor looks for dead memtables now that `durable` is: not for every write
    /// anew.
    pub fn looks_for_descriptors(&mut self, durable: u64) -> bool {
        let due = durable >= self.looked_at + DESCRIPTORS_EVERY;
        if due {
            self.looked_at = durable;
        }
        due
    }

    /// From where on a sealed memtable is to be checked; `None` if it is dead, was sealed a moment ago, or is not ours to
    /// drop.
    pub fn to_check_from(&self, id: u64) -> Option<Position> {
        let owned = self.owned.get(&id)?;
        (!owned.dead && self.is_ours(id)).then(|| owned.checked.clone())
    }

    /// A sealed memtable was checked; whether there is more to check. Somebody who checks at the same time may have
    /// come farther: then some is checked twice.
    pub fn checked(&mut self, id: u64, checked: Checked) -> bool {
        let Some(owned) = self.owned.get_mut(&id) else {
            return false;
        };
        let more = matches!(checked, Checked::SoFar(_));
        match checked {
            Checked::SoFar(at) | Checked::Needed(at) => owned.checked = at,
            Checked::Nothing => owned.dead = true,
        }
        more
    }

    /// A dead memtable has left the current view.
    pub fn retire(&mut self, retired: Retired) {
        let id = retired.id();
        let at = self.retired.partition_point(|other| other.id() < id);
        self.retired.insert(at, retired);
    }

    /// Dead memtables that are in no current view and that somebody may read, oldest first.
    pub fn retired(&self) -> &[Retired] {
        &self.retired
    }

    /// These memtables were flushed: they are dead.
    pub fn flushed(&mut self, memtables: impl Iterator<Item = u64>) {
        for id in memtables {
            let owned = self.owned.entry(id).or_default();
            (owned.dead, owned.flushed) = (true, true);
        }
    }

    /// These memtables, oldest first, were flushed before the store was opened; no view has them.
    pub fn found_flushed(&mut self, memtables: Vec<Arc<Memtable>>) {
        self.flushed(memtables.iter().map(|memtable| memtable.id()));
        let retired = |memtable: &Arc<Memtable>| Retired {
            home: memtable.homes()[0].clone(),
            index: Arc::downgrade(memtable),
        };
        self.retired = memtables.iter().map(retired).collect();
    }

    /// These memtables were found dead.
    pub fn found_dead(&mut self, memtables: impl Iterator<Item = u64>) {
        for id in memtables {
            self.owned.entry(id).or_default().dead = true;
        }
    }

    /// Whether a memtable is dead.
    pub fn is_dead(&self, id: u64) -> bool {
        self.owned.get(&id).is_some_and(|owned| owned.dead)
    }

    /// The zones that a sealed memtable owns.
    pub fn zones(&self, id: u64) -> Vec<Zone> {
        let owned = self.owned.get(&id);
        owned.map(|owned| owned.zones.clone()).unwrap_or_default()
    }

    /// Whether no stranger reads a memtable.
    pub fn is_ours(&self, id: u64) -> bool {
        !self.strangers || id > self.found
    }

    /// Whether a reader of an earlier opening may read a memtable.
    fn is_held(&self, id: u64, held: &Held) -> bool {
        let everything = self.strangers || held.everything;
        id <= self.found && everything || held.memtables.contains(&id)
    }

    /// Whether a memtable was flushed.
    pub fn is_flushed(&self, id: u64) -> bool {
        self.owned.get(&id).is_some_and(|owned| owned.flushed)
    }

    /// Persistent memory that a memtable owns, in bytes.
    pub fn zone_bytes(&self, id: u64) -> u64 {
        let zones = self.owned.get(&id).map_or(&[][..], |owned| &owned.zones);
        let bytes = |zone: &Zone| zone.end.0 - zone.data.0 + ZONE_HEADER_BYTES;
        zones.iter().map(bytes).sum()
    }

    /// How many memtables are dead and stay because somebody reads them, whether
    /// or not they are kept for feeds, too; or are about to go. And the persistent memory that they own.
    pub fn held_bytes(&self, keeping: &Keeping) -> (usize, u64) {
        let kept = self.kept_from(keeping);
        let is_read = |retired: &Retired| Arc::strong_count(&retired.home) > 1;
        self.sum((self.retired.iter()).filter(|r| is_read(r) || r.id() < kept))
    }

    /// How many memtables are kept for feeds, and the persistent memory that they own.
    pub fn kept(&self, keeping: &Keeping) -> (usize, u64) {
        let kept = self.kept_from(keeping);
        self.sum(self.retired.iter().filter(|m| m.id() >= kept))
    }

    /// Bytes of values in blob files that memtables which are kept for feeds refer to.
    pub fn kept_blob_bytes(&self, keeping: &Keeping) -> u64 {
        let kept = self.kept_from(keeping);
        let retired = self.retired.iter().filter(|m| m.id() >= kept);
        retired.map(|retired| retired.home.blobs().bytes()).sum()
    }

    fn sum<'r>(&self, memtables: impl Iterator<Item = &'r Retired>) -> (usize, u64) {
        memtables.fold((0, 0), |(count, bytes), retired| {
            (count + 1, bytes + self.zone_bytes(retired.id()))
        })
    }

    /// The lowest dead memtable that is kept for feeds: all later ones are, too (`feed`, invariant 1).
    fn kept_from(&self, keeping: &Keeping) -> u64 {
        let of = |retired: &Retired| {
            let id = retired.id();
            let last = self.owned.get(&id).map_or(0, Owned::last_seqno);
            (id, self.zone_bytes(id) + blob_bytes(retired), last)
        };
        keeping.lowest(&self.feeds, self.retired.iter().rev().map(of))
    }

    /// Whether no memtable is dead.
    pub fn is_nothing_retired(&self) -> bool {
        self.retired.is_empty()
    }

    /// The homes of dead memtables.
    pub fn retired_homes(&self) -> impl Iterator<Item = &Arc<Home>> {
        self.retired.iter().map(|retired| &retired.home)
    }

    /// Where the records of all memtables lie, oldest first; of the active one those from before it was opened.
    pub fn trails(&self) -> impl Iterator<Item = &Trail> {
        self.owned.values().flat_map(|owned| &owned.trails)
    }

    /// Leaves out the blob files to which a dead memtable refers that is still named.
    pub fn retain_unnoted(&self, files: &mut Vec<FileId>) {
        let notes = |file: &FileId| self.retired.iter().any(|r| r.home.blobs().has(*file));
        files.retain(|file| !notes(file));
    }

    /// Nobody reads any more who is not known.
    pub fn strangers_have_gone(&mut self) {
        self.strangers = false;
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

    /// Whether the manifest may name a memtable older than `id`.
    pub fn has_older(&self, id: u64) -> bool {
        let retired = self.retired.iter().any(|m| m.id() < id);
        retired || self.owned.keys().next().is_some_and(|&oldest| oldest < id)
    }
}
