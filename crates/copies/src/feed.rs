//! Change feeds: changes committed since a seqno, in the order of commits.
//!
//! Records lie in persistent memory in the order in which they were committed, until their memtable goes. So a feed
//! needs no log of its own: it reads the chains (`memtable::trail`), memtable after memtable. Memtables must only
//! stay until the feed has read them.
//!
//! # What it gives
//! *Groups*: items of chains. Each item holds one batch, or several that were committed together. A batch lies in one
//! item; a staged batch is a memtable of its own, and one group. So no batch is ever divided. The bytes do not say
//! where a batch ends within a group, and no reader can have seen the store between two batches of a group.
//!
//! Records of dropped families are left out. Making and dropping families are no records. An ingestion (`ingest`)
//! comes with files, and is no record either: see invariant 3.
//!
//! # Invariants
//! 1. *Durable.* A group is given when `durable` and `visible` have both passed it. So no crash takes back what a
//!    feed has given. No seqno is ever given out twice (rule 5 of recovery, `docs/durability.md`), so nothing else is ever given under
//!    its seqnos, by this process or a later one.
//! 2. *Whole.* Both watermarks move over whole groups.
//! 3. *Without a gap.* A feed goes from one chain to the next only if no record can have been between them
//!    (`Trail::is_followed_by`). In one incarnation the seqnos are dense, except those that an ingestion takes. An
//!    opening falls into a memtable, which then has a chain on either side. What lies before the last gap is
//!    [`Error::ChangesGone`], which tells the smallest seqno that can be asked for. So the answer to "everything
//!    since n" is right or an error, whatever was flushed, dropped or ingested, before this opening or since. (If a
//!    memtable without records is gone, the error may come though nothing was lost.)
//! 4. *Kept.* An open feed keeps the memtables from its position on, as far as the store lets it ([`Chains::keep`]), until it is
//!    dropped or has ended with an error.
//!    If a memtable has to go that the feed has not read, the feed is cut off, and learns so when it goes on. It
//!    never keeps a writer waiting.
//! 5. *Held.* Between two calls a feed holds no memtable. In a call it holds the home of the one that it reads
//!    ([`Chains::home`]), and, since nobody who closes the store waits for the call, all that the next opening could give
//!    to others ([`Chains::hold`]). A group is a copy. Memtables go in order, so a kept group that held its memtable would stop
//!    all reclaiming behind it, without bound. The copy takes as much DRAM as the batches took in the hands of their
//!    writers. Of blob files, which have values of one batch each, it holds those that it refers to ([`LongValues`]).
//! 6. *What a follower has, the store has.* A follower that asks since a seqno has all changes up to it. Seqnos that
//!    were given out and lost in a crash lie between two chains of one memtable, or above everything. No change has
//!    such a seqno, and a feed never stands at one: it stands at a group's end, or right before a chain. So a
//!    follower that asks from within such a gap has more than the store, and is told so ([`ChangeFeed::since`]). Lost
//!    seqnos before the last gap of invariant 3 are gone like all others there. This holds of followers of this database
//!    alone. A copy gives out again what its original gives out behind the copy's moment, and once it has come as far as a follower of
//!    the original, that follower's seqno looks like one of its own. Only the database's id tells them apart, which the follower compares.
//! 7. *Known durable.* An open for reading makes nothing durable. So after a crash its feeds end where the walk knows
//!    everything to have been durable (`memtable::walk`). Other readable records may be gone after the next crash. An
//!    open for writing persists the records that it found (rule 3 of recovery, `docs/durability.md`).
//!
//! # Rejected
//! - *Reading from tables what is gone from persistent memory*: tables are in the order of keys, and have only
//!   versions that a reader may still be answered with.
//! - *A word in the manifest about dropped memtables*: the remaining chains tell it (invariant 3).
//! - *Holding up writers until a feed has read*: a feed whose subscriber has died would hold them for ever.

mod chains;
mod change;

use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::Arc;
use thermocline_base::{Error, Result};
use thermocline_memtable::{Home, ItemRef, Mark, Trail};

pub use chains::{Chains, FamilyNames, LongValues, Marks, oldest_position};
use chains::{begin, check_kept};
pub use change::{Change, ChangeGroup, ChangeOp, Changes};

/// Committed groups in the order of commits, from a seqno on. See [`ChangeFeed::since`].
///
/// The iterator ends where no more is durable, and goes on when it is asked again later. After an error it ends for
/// good.
#[derive(Debug)]
pub struct ChangeFeed {
    chains: Arc<dyn Chains>,
    /// The feed's number among those for which memtables are kept.
    id: u64,
    /// The lowest seqno that has not been given.
    next: u64,
    /// The place of that seqno, or of the one before.
    place: Option<(Trail, Mark)>,
    failed: bool,
}

impl ChangeFeed {
    /// The changes committed after `since`, the last seqno that the caller has; 0 is the beginning. If `since` lies
    /// within a group, that group is given whole.
    ///
    /// # Errors
    /// [`Error::ChangesGone`] with the smallest `since` that can be asked for. [`Error::InvalidArgument`] if this
    /// database has no such change, because it was lost in a crash, or is another database's: the caller has changes
    /// that the store does not have, and begins anew. [`Error::Closed`].
    pub fn since(chains: Arc<dyn Chains>, since: u64) -> Result<ChangeFeed> {
        let mut next = 0;
        let id = chains.keep(&mut |trails| {
            next = begin(trails, chains.marks(), since)?;
            Ok(next)
        })?;
        Ok(ChangeFeed {
            id,
            chains,
            next,
            place: None,
            failed: false,
        })
    }

    /// The last seqno that was given, or passed over because it has no record. A feed that is to be resumed begins
    /// from it.
    pub fn position(&self) -> u64 {
        self.next - 1
    }

    /// The next group, if one is durable.
    fn advance(&mut self) -> Result<Option<ChangeGroup>> {
        self.chains.check_open()?;
        let marks = self.chains.marks();
        let up_to = match active(Bug::FeedAheadOfDurable) {
            true => marks.visible,
            false => marks.durable.min(marks.visible),
        };
        let up_to = match active(Bug::FeedTrustsWhatIsRead) {
            true => up_to,
            false => up_to.min(marks.known_durable),
        };
        if self.next > up_to {
            return Ok(None);
        }
        let _held = self.chains.hold()?;
        let mut looked = false;
        loop {
            let there = self.place.as_ref();
            let there = there.filter(|(trail, _)| trail.last.is_none_or(|last| self.next <= last));
            let Some((memtable, staged)) = there.map(|(t, _)| (t.memtable, t.chain.staged)) else {
                self.find_place()?;
                // There may be only seqnos without records.
                if self.next > up_to {
                    return Ok(None);
                }
                continue;
            };
            let Some(home) = self.chains.home(self.id, memtable) else {
                // A store that was closed since shows no sealed memtable, and its places never change.
                self.chains.check_open()?;
                // The memtable has been read to its end, sealed and dropped since; or the feed is cut off, which is
                // found there.
                self.find_place()?;
                continue;
            };
            let found = match staged {
                false => self.one_item(&home)?,
                true => self.all_items(&home)?,
            };
            if let Some(items) = found {
                return self.give(home, &items).map(Some);
            }
            if std::mem::replace(&mut looked, true)
                && let Some((trail, mark)) = &self.place
            {
                return Err(trail.missing(home.region(), mark));
            }
            self.find_place()?;
        }
    }

    /// The item with the seqno `next`.
    fn one_item(&mut self, home: &Home) -> Result<Option<Vec<ItemRef>>> {
        let Some((trail, mark)) = &mut self.place else {
            return Ok(None);
        };
        let item = trail.find(home.region(), mark, self.next)?;
        Ok(item.map(|item| vec![item]))
    }

    /// All items of a chain that is one batch.
    fn all_items(&mut self, home: &Home) -> Result<Option<Vec<ItemRef>>> {
        let Some((trail, mark)) = &mut self.place else {
            return Ok(None);
        };
        *mark = Mark::default();
        let mut items = Vec::new();
        let mut next = trail.chain.base;
        while trail.last.is_some_and(|last| next <= last) {
            let Some(item) = trail.find(home.region(), mark, next)? else {
                return Ok(None);
            };
            next = item.next_seqno();
            items.push(item);
        }
        Ok(Some(items))
    }

    fn give(&mut self, home: Arc<Home>, items: &[ItemRef]) -> Result<ChangeGroup> {
        let copied = items.iter().map(|item| home.copy_item(item));
        let has_blobs = home.blobs().may_refer();
        let group = ChangeGroup::new(&*self.chains, copied.collect::<Result<_>>()?, has_blobs);
        // The home goes before anybody looks whether its memtable is read.
        drop(home);
        self.next = group.last() + 1;
        let ended = self.place.as_ref();
        let ended = ended.is_some_and(|(trail, _)| trail.last.is_some_and(|last| self.next > last));
        self.chains.has_read(self.id, self.next, ended);
        Ok(group)
    }

    /// Finds the trail with the seqno `next`, or the next trail. Raises `next` over seqnos without records.
    fn find_place(&mut self) -> Result<()> {
        let (chains, next) = (&*self.chains, self.next);
        let mut found = None;
        chains.move_on(self.id, &mut |trails, is_kept| {
            let (since, durable) = (next - 1, chains.marks().durable);
            if !is_kept {
                let oldest = oldest_position(trails, durable);
                return Err(Error::ChangesGone { since, oldest });
            }
            check_kept(trails, durable, since)?;
            let has = |trail: &&&Trail| trail.last.is_none_or(|last| last >= next);
            let trail = trails.iter().find(has);
            let trail = Trail::clone(trail.expect("the one that is written to has no end"));
            let next = next.max(trail.chain.base);
            found = Some((trail, next));
            Ok(next)
        })?;
        if let Some((trail, next)) = found {
            self.next = next;
            let before = self.place.take();
            let mark = before.filter(|(before, _)| before.chain.id == trail.chain.id);
            self.place = Some((trail, mark.map_or_else(Mark::default, |(_, mark)| mark)));
        }
        Ok(())
    }
}

impl Iterator for ChangeFeed {
    type Item = Result<ChangeGroup>;

    fn next(&mut self) -> Option<Result<ChangeGroup>> {
        if self.failed {
            return None;
        }
        let next = self.advance().transpose();
        self.failed = matches!(next, Some(Err(_)));
        if self.failed {
            // It reads no more, however long it is kept.
            self.chains.forget(self.id);
        }
        next
    }
}

impl Drop for ChangeFeed {
    fn drop(&mut self) {
        self.chains.forget(self.id);
    }
}
