//! The range tombstones of a memtable, in DRAM: for each family that has any, which of them is the
//! newest over a key, as of every moment at which somebody may read.
//!
//! # What a reader asks
//! Of a key in this memtable: the newest tombstone at or below its seqno that covers it. The key's
//! version, if there is one, counts only if it is newer; and all older memtables and tables are hidden
//! there whatever they hold, by the law of age. So nobody ever asks for all tombstones over a key.
//!
//! # How it is kept
//! A [`Cover`] is a map from boundaries to the newest tombstone from there on: disjoint *fragments*. A
//! new tombstone paints its range, and what it paints over is gone: n tombstones leave at most 2n + 1
//! fragments however they overlap. A cover is immutable and shares what did not change with the one
//! before, in O(log n) new nodes. The *versions* of a family are covers, each with the seqno of the
//! tombstone that it begins with: a reader at s takes the last that begins at or before s. Versions are
//! trimmed as those of a key are (`art::versions`): one stays if it is the newest, or if somebody may read
//! between its seqno and the next one's. All versions lie in one list, which is swapped as a whole.
//!
//! # Invariants
//! 1. *In before visible.* A tombstone enters after its item is stored and before its group finishes, as
//!    records enter the index. So whoever sees that `visible` is s, and loads the list after that, finds
//!    all tombstones up to s.
//! 2. *Of a moment everything stays.* Let a list L be made when `visible` was V. Whoever reads at s ≥ V,
//!    and loads L after it knows s, finds the right version: s is V, or the end of a group that was in
//!    flight (both are among the moments that the maker asked for), or the end of a group that was granted
//!    later, which lies above every tombstone in L. For a registered reader the argument is that of
//!    `engine::readers`: the maker asks under the lock of the family's tombstones, as writers of a key ask
//!    under the lock of its place.
//! 3. *A get finds both of one moment.* A reader that is not registered reads `visible`, the key's entry, then
//!    `visible` again, then looks whether the family has a list. If it has none, no tombstone up to that moment is in this
//!    memtable. If it has one, the reader begins anew: `visible`, the list, the entry, `visible` again. By 2 it takes
//!    the version of the second moment, and it takes its answer only if what decided it, record or tombstone, was
//!    visible at the first one: all of that was in the list and in the entry, so the answer is that of the first
//!    moment (`Memtable::get_latest`). What came since may be there in part: a batch may delete a range and then put a
//!    key of it.
//! 4. *Late ones are painted under.* Groups enter in any order. A tombstone that comes after a newer one
//!    gets a version of its own before that, and in all later versions takes what is older than it. No
//!    version that it needs was trimmed: its group was in flight, so its end was a moment.
//! 5. *Never more than promised.* Every node and key is counted in the memtable's [`Ledger`]; what a
//!    group may take is taken from the store's account before the group is granted.
//!
//! # Readers take no lock
//! A lookup is a load of the list, a bisection of its versions, and a descent: O(log n). A family without
//! range tombstones costs one branch. Writers of tombstones take turns, family by family.
//!
//! # Where keys lie
//! In DRAM, copied from the record when it enters, its checksum verified. In persistent memory, as keys of
//! the index lie, a rotten end would silently hide what it should not: nothing would compare it.
//!
//! # Rejected
//! - *The tombstones themselves, in a tree by start with the furthest end below* (`base::tombstones`, as tables have them): its
//!   lookups are not O(log n) for a reader of the past, and it never forgets.
//! - *Fragments that list all their tombstones*: n nested ones make n² entries.
//! - *The tree of records, with boundaries as keys*: a tombstone over n fragments would be n updates that
//!   come one by one.

use std::sync::Arc;

use arc_swap::ArcSwap;
use thermocline_art::Moments;
use thermocline_base::checksum::hash64_seeded;
use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{Result, SeqNo};

mod cover;
mod ledger;
#[cfg(test)]
mod tests;

use cover::{Boundary, NODE_BYTES};
pub use cover::{Cover, Fragment};
pub(crate) use ledger::Ledger;

/// Nodes that one tombstone makes at most, those included that are gone when it is in: two splits and two
/// joins, each along one path. A path is hardly ever longer than 64 nodes.
const PATH_BYTES: u64 = 4 * 64 * NODE_BYTES;

/// What a tombstone leaves at most, without its keys and the nodes that it copies: two boundaries.
const LEFT_BYTES: u64 = 2 * (NODE_BYTES + cover::BOUNDARY_BYTES);

/// A version: the cover from a seqno on.
type Version = (SeqNo, Cover);

/// The range tombstones of a family in a memtable. See the [module](self).
#[derive(Debug)]
pub(crate) struct Tombstones {
    list: ArcSwap<List>,
    writing: Mutex<()>,
    ledger: Arc<Ledger>,
    /// Of the priorities in covers, so that nobody can make them grow lopsided.
    seed: u64,
    /// What is to be added to all seqnos here: a staged chain numbers them from 1.
    shift: u64,
}

/// The versions, ascending.
#[derive(Debug)]
pub(crate) struct List {
    versions: Vec<Version>,
    ledger: Arc<Ledger>,
}

impl List {
    fn new(versions: Vec<Version>, ledger: Arc<Ledger>) -> List {
        ledger.keep(bytes_of_list(versions.len()));
        List { versions, ledger }
    }

    fn as_of(&self, seqno: SeqNo) -> Option<&Cover> {
        let behind = self.versions.partition_point(|(from, _)| *from <= seqno);
        let (_, cover) = self.versions.get(behind.checked_sub(1)?)?;
        Some(cover)
    }
}

impl Drop for List {
    fn drop(&mut self) {
        self.ledger.give(bytes_of_list(self.versions.len()));
    }
}

fn bytes_of_list(versions: usize) -> u64 {
    (versions * size_of::<Version>()) as u64
}

/// Most bytes of DRAM that `count` more tombstones, whose keys have `key_bytes` bytes together, may
/// take in a memtable, `readers` as for `Tree::reserve_bound`.
pub(crate) fn bound(ledger: &Ledger, count: u64, key_bytes: u64, readers: usize) -> u64 {
    if count == 0 {
        return 0;
    }
    // Readers of the past may keep every node that is copied, but no more than there are.
    let copied = (count * PATH_BYTES).min(PATH_BYTES + ledger.need());
    let lists = 2 * bytes_of_list(readers + 2);
    count * LEFT_BYTES + key_bytes + copied + lists
}

impl Tombstones {
    pub fn new(ledger: Arc<Ledger>, seed: u64) -> Tombstones {
        Tombstones {
            list: ArcSwap::from_pointee(List::new(Vec::new(), ledger.clone())),
            writing: Mutex::new(()),
            ledger,
            seed,
            shift: 0,
        }
    }

    /// Adds "from `start` up to `end`, or without end, as of `seqno`". `moments` is asked, under the lock
    /// of this family's tombstones, as by [`crate::Memtable::insert`].
    pub fn insert<M: Moments>(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        seqno: SeqNo,
        moments: impl FnOnce() -> M,
    ) -> Result<()> {
        let seqno = self.stored(seqno);
        let boundary = |key: &[u8]| {
            let priority = hash64_seeded(key, self.seed);
            Arc::new(Boundary::new(key, priority, self.ledger.clone()))
        };
        let (start, end) = (boundary(start), end.map(boundary));
        let _turn = lock(&self.writing);
        let old = self.list.load_full();
        let moments = moments();
        let at = old.versions.partition_point(|(from, _)| *from < seqno);
        let before = old.versions[..at].last().map(|(_, cover)| cover);
        let own = before.cloned().unwrap_or_default();
        let own = (seqno, own.painted(&start, end.as_ref(), seqno));
        let later = old.versions[at..].iter();
        let later = later
            .filter(|(from, _)| *from != seqno)
            .map(|(from, cover)| {
                let cover = cover.painted_under(&start, end.as_ref(), seqno);
                (*from, cover)
            });
        let mut all: Vec<Version> = old.versions[..at].to_vec();
        all.extend(std::iter::once(own).chain(later));
        let next: Vec<SeqNo> = all.iter().skip(1).map(|(from, _)| *from).collect();
        let mut next = next.into_iter();
        all.retain(|(from, _)| {
            let needed = |next| moments.any_in(self.real(*from), self.real(next));
            next.next().is_none_or(needed)
        });
        self.list
            .store(Arc::new(List::new(all, self.ledger.clone())));
        self.ledger.settle()
    }

    fn stored(&self, seqno: SeqNo) -> SeqNo {
        SeqNo(seqno.0.saturating_sub(self.shift))
    }

    fn real(&self, stored: SeqNo) -> SeqNo {
        stored.plus(self.shift)
    }

    /// From now on what was 1 is `base`.
    pub fn adopt(&mut self, base: SeqNo) {
        self.shift = base.0 - 1;
    }

    /// All versions of today.
    pub fn list(&self) -> arc_swap::Guard<Arc<List>> {
        self.list.load()
    }

    /// The newest tombstone over `key` that a reader at `seqno` sees.
    pub fn newest_over(&self, list: &List, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        let newest = list.as_of(self.stored(seqno))?.newest_over(key)?;
        Some(self.real(newest))
    }

    /// What a reader at `seqno` sees; `None` if that is no tombstone.
    pub fn as_of(&self, seqno: SeqNo) -> Option<Cover> {
        let cover = self.list.load().as_of(self.stored(seqno))?.clone();
        Some(cover.shifted(self.shift))
    }

    /// The newest of all.
    pub fn newest(&self) -> Option<SeqNo> {
        let list = self.list.load();
        list.versions.last().map(|(from, _)| self.real(*from))
    }

    /// The oldest tombstone over `key` that is kept and newer than `seqno`.
    pub fn oldest_over(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        let list = self.list.load();
        // What is over a key only gets newer.
        let covers = list.versions.iter().map(|(_, cover)| cover);
        let over = covers.filter_map(|cover| Some(self.real(cover.newest_over(key)?)));
        over.into_iter().find(|over| *over > seqno)
    }

    /// The cover of each version, from the oldest one on.
    pub fn versions(&self) -> Vec<Cover> {
        let list = self.list.load();
        let covers = list.versions.iter();
        covers
            .map(|(_, cover)| cover.clone().shifted(self.shift))
            .collect()
    }
}
