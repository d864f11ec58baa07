//! What memtables own, for whoever holds the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

use thermocline_base::FileId;
use thermocline_base::planted::{Bug, active};
use thermocline_halloc::{ZONE_HEADER_BYTES, Zone};
use thermocline_memtable::{Descriptor, Home, Memtable, Position, Trail};

use crate::kept::{Feeds, Keeping};

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

/// What is kept for change feeds.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// Feeds that are open.
    pub feeds: usize,
    /// Memtables that are kept.
    pub memtables: usize,
    /// Persistent memory that they own, in bytes.
    pub bytes: u64,
    /// Bytes of values in blob files that they refer to.
    pub blob_bytes: u64,
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

    /// Whether somebody of this opening may read it.
    pub fn is_read(&self) -> bool {
        let is_read = Arc::strong_count(&self.home) > 1;
        // The last reader's loads come before what is written next where its records were: this is the other half of the release with
        // which it let go. The count itself is loaded without any order.
        fence(Ordering::Acquire);
        is_read
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
    pub(super) trails: Vec<Trail>,
    pub(super) checked: Position,
    pub(super) dead: bool,
    /// Whether its records are in tables, as far as anybody needs them.
    pub flushed: bool,
}

impl Owned {
    /// The last seqno of a sealed memtable.
    pub fn last_seqno(&self) -> u64 {
        self.trails.last().and_then(|trail| trail.last).unwrap_or(0)
    }
}

/// What is behind the lock.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// By memtable. Of the active one, what it owned when the store was opened.
    pub owned: BTreeMap<u64, Owned>,
    /// Dead memtables that are in no current view and that somebody may read, oldest first.
    pub retired: Vec<Retired>,
    /// A flush has taken all sealed memtables up to this one; 0 if there is none under way.
    pub taken: u64,
    /// Merging the indexes up to this memtable has met a record that cannot be read; 0 if none has.
    pub unreadable: u64,
    /// Up to this memtable all were there at the opening.
    pub found: u64,
    /// And all tables and blob files with smaller numbers.
    pub found_files: FileId,
    /// Whether strangers may read all of that.
    pub strangers: bool,
    /// The seqno at which a writer last looked for descriptors in vain.
    pub looked_at: u64,
    /// Who keeps memtables to read their changes.
    pub feeds: Feeds,
}

/// Bytes of values in blob files that a dead memtable refers to, as they count in what feeds may keep.
fn blob_bytes(retired: &Retired) -> u64 {
    match active(Bug::KeptBlobsUncounted) {
        true => 0,
        false => retired.home.blobs().bytes(),
    }
}

impl Books {
    /// Takes what is dead and nobody reads, with what it owns, but for what is kept, or `held` by elders. The
    /// manifest `may_say` of a flushed memtable that it and all older ones were flushed.
    pub fn take_free(
        &mut self,
        keeping: &Keeping,
        held: &Held,
        may_say: impl Fn(&Retired) -> bool,
    ) -> Vec<(Retired, Owned)> {
        let kept = self.kept_from(keeping, |retired| !self.stays(retired, held, &may_say));
        let mut free = Vec::new();
        // Oldest first, so that those go together that may.
        for retired in std::mem::take(&mut self.retired) {
            let id = retired.id();
            if id >= kept || self.stays(&retired, held, &may_say) {
                self.retired.push(retired);
            } else {
                let owned = self.owned.remove(&id).unwrap_or_default();
                free.push((retired, owned));
            }
        }
        free
    }

    /// Whether a dead memtable stays, were it not kept: somebody reads it, or the manifest may not say that it is gone.
    fn stays(&self, retired: &Retired, held: &Held, may_say: &impl Fn(&Retired) -> bool) -> bool {
        let id = retired.id();
        let read = self.is_read(retired, held);
        read || self.is_flushed(id) && self.has_older(id) && !may_say(retired)
    }

    /// Whether somebody may read a dead memtable, of this opening or of an earlier one.
    fn is_read(&self, retired: &Retired, held: &Held) -> bool {
        retired.is_read() || self.is_held(retired.id(), held)
    }

    /// A dead memtable has left the current view.
    pub fn retire(&mut self, retired: Retired) {
        let id = retired.id();
        let at = self.retired.partition_point(|other| other.id() < id);
        self.retired.insert(at, retired);
    }

    /// These memtables were flushed: they are dead.
    pub fn flushed(&mut self, memtables: impl Iterator<Item = u64>) {
        for id in memtables {
            let owned = self.owned.entry(id).or_default();
            (owned.dead, owned.flushed) = (true, true);
        }
    }

    /// Whether a memtable is dead.
    pub fn is_dead(&self, id: u64) -> bool {
        self.owned.get(&id).is_some_and(|owned| owned.dead)
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

    /// Whether the manifest may name a memtable older than `id`.
    pub fn has_older(&self, id: u64) -> bool {
        let retired = self.retired.iter().any(|m| m.id() < id);
        retired || self.owned.keys().next().is_some_and(|&oldest| oldest < id)
    }

    pub fn sum<'r>(&self, memtables: impl Iterator<Item = &'r Retired>) -> (usize, u64) {
        memtables.fold((0, 0), |(count, bytes), retired| {
            (count + 1, bytes + self.zone_bytes(retired.id()))
        })
    }

    /// What is kept for feeds.
    pub fn kept(&self, keeping: &Keeping) -> Kept {
        let from = self.kept_from(keeping, |retired| !retired.is_read());
        let kept = || self.retired.iter().filter(|m| m.id() >= from);
        let (memtables, bytes) = self.sum(kept());
        Kept {
            feeds: self.feeds.count(),
            memtables,
            bytes,
            blob_bytes: kept().map(|m| m.home.blobs().bytes()).sum(),
        }
    }

    /// Whether one that is kept for feeds would go if it were not: nobody reads it, of this opening or of those whose readers have
    /// what is `held`.
    pub fn could_yield(&self, keeping: &Keeping, held: &Held) -> bool {
        let keeping = Keeping {
            yields: false,
            ..*keeping
        };
        let goes = |retired: &Retired| !self.is_read(retired, held);
        let kept = self.kept_from(&keeping, goes);
        (self.retired.iter()).any(|retired| retired.id() >= kept && goes(retired))
    }

    /// How many memtables are dead and stay because somebody reads them, whether or not they are kept, too; or are about to go.
    /// And the persistent memory that they own.
    pub fn held_bytes(&self, keeping: &Keeping, held: &Held) -> (usize, u64) {
        let is_read = |retired: &Retired| self.is_read(retired, held);
        let kept = self.kept_from(keeping, |retired| !is_read(retired));
        self.sum((self.retired.iter()).filter(|retired| is_read(retired) || retired.id() < kept))
    }

    /// The lowest dead memtable that is kept for feeds: all later ones are, too (`feed`, invariant 1). `goes` says which
    /// would go if they were not.
    pub fn kept_from(&self, keeping: &Keeping, goes: impl Fn(&Retired) -> bool) -> u64 {
        let of = |retired: &Retired| {
            let id = retired.id();
            let last = self.owned.get(&id).map_or(0, Owned::last_seqno);
            let bytes = self.zone_bytes(id) + blob_bytes(retired);
            (id, bytes, last, goes(retired))
        };
        keeping.lowest(&self.feeds, self.retired.iter().rev().map(of))
    }

    /// Where all records lie, oldest first: to `open` they are being written.
    pub fn trails<'t>(&'t self, open: &'t Trail) -> Vec<&'t Trail> {
        let all = self.owned.values().flat_map(|owned| &owned.trails);
        all.chain([open]).collect()
    }
}
