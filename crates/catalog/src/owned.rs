//! What memtables own, and what became of those that are dead. (`engine::reclaim` has the argument.)
//!
//! # Locks
//! All of it is behind one lock, which is held for moments and which nobody outside takes: a method that must see several
//! memtables at one moment takes them all. A few methods call what they are given under that lock; each says so.

mod books;

use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{FileId, Result};
use thermocline_halloc::Zone;
use thermocline_memtable::{Checked, Descriptor, Home, Memtable, Position, Trail};
use thermocline_version::State;

use self::books::Books;
pub use self::books::{Held, Kept, Owned, Retired};
use crate::kept::Keeping;
use crate::view::View;

/// A writer that finds no free descriptor looks for dead memtables once in so many records.
const DESCRIPTORS_EVERY: u64 = 256;

/// What memtables own, and what became of those that are dead.
#[derive(Debug, Default)]
pub struct Reclaim {
    books: Mutex<Books>,
}

/// A sealed memtable, as a merge of indexes asks for it.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Persistent memory that its memtables own, in bytes.
    pub bytes: u64,
    /// Those of its memtables that live, oldest first.
    pub lives: Vec<u64>,
    /// Persistent memory that each of these owns, in bytes.
    pub lives_bytes: Vec<u64>,
    /// Records of those of its memtables that are dead.
    pub dead: u64,
    /// Whether its records may come into another index: no flush has taken it, no stranger reads it, all of it is readable, and
    /// none of it was flushed.
    pub may_move: bool,
}

impl Reclaim {
    /// What `memtables`, those that an open found, own. The newest of them takes the writes; its
    /// descriptor is the writer's until it is sealed. Their records lie in `trails`. `zones` are by owner and ordinal. With
    /// `strangers`, readers that nobody knows hold the folder.
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
            let chains = memtable.chains.iter();
            let own = chains.flat_map(|chain| Zone::of_owner(zones, chain.id));
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
            books: Mutex::new(Books {
                owned: there.map(found).collect(),
                found: newest,
                found_files: FileId(state.next_ids().file),
                strangers,
                ..Books::default()
            }),
        }
    }

    /// Takes what is dead and nobody reads, with what it owns, but for what is kept, or `held` by elders. The
    /// manifest `may_say` of a flushed memtable that it and all older ones were flushed; that is asked under the lock.
    pub fn take_free(
        &self,
        keeping: &Keeping,
        held: &Held,
        may_say: impl Fn(&Retired) -> bool,
    ) -> Vec<(Retired, Owned)> {
        lock(&self.books).take_free(keeping, held, may_say)
    }

    /// What was taken stays after all.
    pub fn give_back(&self, free: Vec<(Retired, Owned)>) {
        let mut books = lock(&self.books);
        for (retired, owned) in free {
            books.owned.insert(retired.id(), owned);
            books.retire(retired);
        }
    }

    /// A memtable was sealed: it owns `zones` and `descriptor`, too, and has records in `trail`.
    pub fn sealed(
        &self,
        memtable: u64,
        zones: &[Zone],
        descriptor: Option<Descriptor>,
        trail: Trail,
    ) {
        let mut books = lock(&self.books);
        let owned = books.owned.entry(memtable).or_default();
        owned.zones.extend_from_slice(zones);
        owned.descriptor = descriptor;
        owned.trails.push(trail);
    }

    /// The unused memtable `dropped` made way for `own`, which is complete and owns all this.
    pub fn adopted(
        &self,
        dropped: u64,
        own: u64,
        zones: Vec<Zone>,
        descriptor: Option<Descriptor>,
        trail: Trail,
    ) {
        let mut books = lock(&self.books);
        books.owned.remove(&dropped);
        let owned = books.owned.entry(own).or_default();
        (owned.zones, owned.descriptor) = (zones, descriptor);
        owned.trails = vec![trail];
    }

    /// A memtable that was never used is gone, and owns nothing.
    pub fn forget_unused(&self, unused: u64) {
        lock(&self.books).owned.remove(&unused);
    }

    /// Whether a writer who lacks a descriptor looks for dead memtables now that `durable` is: not for every write
    /// anew.
    pub fn looks_for_descriptors(&self, durable: u64) -> bool {
        let mut books = lock(&self.books);
        let due = durable >= books.looked_at + DESCRIPTORS_EVERY;
        if due {
            books.looked_at = durable;
        }
        due
    }

    /// From where on a sealed memtable is to be checked, and whether the manifest names none that is older; `None` if it is
    /// dead, was sealed a moment ago, or is not ours to drop.
    pub fn to_check_from(&self, id: u64) -> Option<(Position, bool)> {
        let books = lock(&self.books);
        let owned = books.owned.get(&id)?;
        let is_due = !owned.dead && books.is_ours(id);
        is_due.then(|| (owned.checked.clone(), !books.has_older(id)))
    }

    /// A sealed memtable was checked; whether there is more to check. Somebody who checks at the same time may have
    /// come farther: then some is checked twice.
    pub fn checked(&self, id: u64, checked: Checked) -> bool {
        let mut books = lock(&self.books);
        let Some(owned) = books.owned.get_mut(&id) else {
            return false;
        };
        let more = matches!(checked, Checked::SoFar(_));
        match checked {
            Checked::SoFar(at) | Checked::Needed(at) => owned.checked = at,
            Checked::Nothing => owned.dead = true,
        }
        more
    }

    /// These dead memtables have left the current view.
    pub fn retire(&self, retired: Vec<Retired>) {
        let mut books = lock(&self.books);
        retired.into_iter().for_each(|one| books.retire(one));
    }

    /// Dead memtables that are in no current view and that somebody may read, oldest first.
    pub fn retired(&self) -> Vec<Retired> {
        lock(&self.books).retired.clone()
    }

    /// These memtables were flushed: they are dead.
    pub fn flushed(&self, memtables: impl Iterator<Item = u64>) {
        lock(&self.books).flushed(memtables);
    }

    /// These memtables, oldest first, were flushed before the store was opened; no view has them.
    pub fn found_flushed(&self, memtables: Vec<Arc<Memtable>>) {
        let mut books = lock(&self.books);
        books.flushed(memtables.iter().map(|memtable| memtable.id()));
        let retired = |memtable: &Arc<Memtable>| Retired {
            home: memtable.homes()[0].clone(),
            index: Arc::downgrade(memtable),
        };
        books.retired = memtables.iter().map(retired).collect();
    }

    /// These memtables were found dead.
    pub fn found_dead(&self, memtables: impl Iterator<Item = u64>) {
        let mut books = lock(&self.books);
        for id in memtables {
            books.owned.entry(id).or_default().dead = true;
        }
    }

    /// Of each index whether all memtables that it leads to are dead.
    pub fn are_dead(&self, indexes: &[Arc<Memtable>]) -> Vec<bool> {
        let books = lock(&self.books);
        let is_dead = |m: &Arc<Memtable>| m.homes().iter().all(|home| books.is_dead(home.id()));
        indexes.iter().map(is_dead).collect()
    }

    /// Those of `ids` that are dead.
    pub fn dead_of(&self, ids: impl Iterator<Item = u64>) -> BTreeSet<u64> {
        let books = lock(&self.books);
        ids.filter(|id| books.is_dead(*id)).collect()
    }

    /// Persistent memory of those of `ids` that are dead and were not flushed, in bytes.
    pub fn dead_bytes(&self, ids: impl Iterator<Item = u64>) -> u64 {
        let books = lock(&self.books);
        let dead = ids.filter(|id| books.is_dead(*id) && !books.is_flushed(*id));
        dead.map(|id| books.zone_bytes(id)).sum()
    }

    /// Those of `memtables` that were not flushed.
    pub fn unflushed<'m>(
        &self,
        memtables: impl Iterator<Item = &'m Arc<Memtable>>,
    ) -> Vec<Arc<Memtable>> {
        let books = lock(&self.books);
        let left = memtables.filter(|memtable| !books.is_flushed(memtable.id()));
        left.cloned().collect()
    }

    /// Calls `each` under the lock with each of `homes` that was not flushed, the persistent memory that it owns in bytes, and
    /// whether a flush has taken it.
    pub fn each_unflushed<'m>(
        &self,
        homes: impl Iterator<Item = &'m Arc<Home>>,
        mut each: impl FnMut(&Home, u64, bool),
    ) {
        let books = lock(&self.books);
        for home in homes.filter(|home| !books.is_flushed(home.id())) {
            let id = home.id();
            each(home, books.zone_bytes(id), id <= books.taken);
        }
    }

    /// What a merge of indexes asks of sealed memtables.
    pub fn standing(&self, sealed: &[Arc<Memtable>]) -> Vec<Standing> {
        let books = lock(&self.books);
        let ends = books.taken.max(books.unreadable);
        let standing = |m: &Arc<Memtable>| {
            let homes = || m.homes().iter();
            let dead = homes().filter(|home| books.is_dead(home.id()));
            let free = |id| books.is_ours(id) && !books.is_flushed(id);
            let lives = homes().map(|home| home.id());
            let lives: Vec<u64> = lives.filter(|id| !books.is_dead(*id)).collect();
            Standing {
                bytes: homes().map(|home| books.zone_bytes(home.id())).sum(),
                lives_bytes: lives.iter().map(|id| books.zone_bytes(*id)).collect(),
                lives,
                dead: dead.map(|home| home.len()).sum(),
                may_move: m.id() > ends && homes().all(|home| free(home.id())),
            }
        };
        sealed.iter().map(standing).collect()
    }

    /// A flush has taken all sealed memtables up to this one; 0 when it has ended.
    pub fn take_up_to(&self, memtable: u64) {
        lock(&self.books).taken = memtable;
    }

    /// Merging the indexes up to this memtable has met a record that cannot be read.
    pub fn note_unreadable(&self, memtable: u64) {
        lock(&self.books).unreadable = memtable;
    }

    /// The zones that a sealed memtable owns.
    pub fn zones(&self, id: u64) -> Vec<Zone> {
        let books = lock(&self.books);
        let owned = books.owned.get(&id);
        owned.map(|owned| owned.zones.clone()).unwrap_or_default()
    }

    /// Persistent memory that the memtables of an index own, in bytes.
    pub fn bytes_of(&self, index: &Memtable) -> u64 {
        let books = lock(&self.books);
        let homes = index.homes().iter();
        homes.map(|home| books.zone_bytes(home.id())).sum()
    }

    /// How many memtables are dead and stay because somebody reads them, of this opening or by what elders have `held`, whether
    /// or not they are kept for feeds, too; or are about to go. And the persistent memory that they own.
    pub fn held_bytes(&self, keeping: &Keeping, held: &Held) -> (usize, u64) {
        lock(&self.books).held_bytes(keeping, held)
    }

    /// Whether something that is kept for feeds would go if it were not, since nobody reads it, nor have elders `held` it.
    pub fn could_yield(&self, keeping: &Keeping, held: &Held) -> bool {
        lock(&self.books).could_yield(keeping, held)
    }

    /// What is kept for feeds.
    pub fn kept(&self, keeping: &Keeping) -> Kept {
        lock(&self.books).kept(keeping)
    }

    /// Whether no memtable is dead.
    pub fn is_nothing_retired(&self) -> bool {
        lock(&self.books).retired.is_empty()
    }

    /// How many hold retired memtables, beside the list of those: fewer when readers have let go.
    pub fn holders(&self) -> usize {
        let books = lock(&self.books);
        let others = |retired: &Retired| Arc::strong_count(&retired.home).saturating_sub(1);
        books.retired.iter().map(others).sum()
    }

    /// Leaves out the blob files to which a dead memtable refers that is still named.
    pub fn retain_unnoted(&self, files: &mut Vec<FileId>) {
        let books = lock(&self.books);
        let notes = |file: &FileId| books.retired.iter().any(|r| r.home.blobs().has(*file));
        files.retain(|file| !notes(file));
    }

    /// Nobody reads any more who is not known.
    pub fn strangers_have_gone(&self) {
        lock(&self.books).strangers = false;
    }

    /// Whether readers that nobody knows may read what was there at the opening.
    pub fn has_strangers(&self) -> bool {
        lock(&self.books).strangers
    }

    /// Whether a reader of an earlier opening may read a table or a blob file.
    pub fn is_file_held(&self, file: FileId, held: &Held) -> bool {
        let books = lock(&self.books);
        let everything = books.strangers || held.everything;
        file < books.found_files && everything || held.files.contains(&file)
    }

    /// Whether the manifest may name a memtable older than `id`.
    pub fn has_older(&self, id: u64) -> bool {
        lock(&self.books).has_older(id)
    }
}

/// Change feeds. What keeps memtables for them, and what they find there, is settled under the lock.
impl Reclaim {
    /// A new feed, which reads on from where `from` says, given where all records lie, oldest first: to `open` they are being
    /// written. Returns its number. `from` is called under the lock.
    ///
    /// # Errors
    /// Those of `from`.
    pub fn open_feed(
        &self,
        open: &Trail,
        from: &mut dyn FnMut(&[&Trail]) -> Result<u64>,
    ) -> Result<u64> {
        let mut books = lock(&self.books);
        let next = from(&books.trails(open))?;
        Ok(books.feeds.open(next))
    }

    /// A feed reads on from where `to` says, which is told whether the feed is still open, too, and is called under the lock.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn move_feed(
        &self,
        feed: u64,
        open: &Trail,
        to: &mut dyn FnMut(&[&Trail], bool) -> Result<u64>,
    ) -> Result<()> {
        let mut books = lock(&self.books);
        let next = to(&books.trails(open), books.feeds.is_open(feed))?;
        books.feeds.advance(feed, next);
        Ok(())
    }

    /// The home of a memtable for an open feed, unless it is gone: among the dead, or in what `view` gives, which is called
    /// under the lock. Meanwhile no memtable is found free.
    pub fn home_for_feed(
        &self,
        feed: u64,
        memtable: u64,
        view: impl FnOnce() -> Arc<View>,
    ) -> Option<Arc<Home>> {
        let books = lock(&self.books);
        if !books.feeds.is_open(feed) {
            return None;
        }
        let is_it = |home: &&Arc<Home>| home.id() == memtable;
        let mut retired = books.retired.iter().map(|retired| &retired.home);
        if let Some(home) = retired.find(is_it) {
            return Some(home.clone());
        }
        let view = view();
        let mut homes = view.memtables.iter().flat_map(|m| m.homes());
        homes.find(is_it).cloned()
    }

    /// A feed has read everything before `next`.
    pub fn advance_feed(&self, feed: u64, next: u64) {
        lock(&self.books).feeds.advance(feed, next);
    }

    /// A feed reads no more.
    pub fn close_feed(&self, feed: u64) {
        lock(&self.books).feeds.close(feed);
    }

    /// What reaches up to `last` is gone: feeds that have not read it are cut off.
    pub fn gone_for_feeds(&self, last: u64) {
        lock(&self.books).feeds.gone(last);
    }

    /// What is kept for feeds, and `oldest` of where all records lie, which is called under the lock.
    pub fn kept_and<T>(
        &self,
        keeping: &Keeping,
        open: &Trail,
        oldest: impl FnOnce(&[&Trail]) -> T,
    ) -> (Kept, T) {
        let books = lock(&self.books);
        (books.kept(keeping), oldest(&books.trails(open)))
    }
}
