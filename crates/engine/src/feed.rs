//! Change feeds: what was committed since a seqno, in the order of commits (design §16).
//!
//! Records lie in persistent memory in the order in which they were committed, until their generation goes. So a
//! feed needs no log of its own: it reads the chains (`memtable::trail`), generation after generation. What it
//! needs is that generations stay until it has read them.
//!
//! # What it gives
//! *Groups*: items of chains, each of which holds one batch or several that were committed together. A batch
//! lies in one item; one that was staged ([`stage`](crate::stage)) is a generation of its own, and one group.
//! So no batch is ever divided. Where a batch ends within a group the bytes do not say, and nobody could have seen
//! the store between two batches of a group.
//!
//! Records of families that have been dropped are left out; making and dropping families are no records. An
//! ingestion (`ingest`) comes with files, and is no record either: see invariant 3.
//!
//! # Invariants
//! 1. *Durable.* A group is given when `durable` and `visible` have both passed it. So what a feed has given no crash
//!    takes back; and since no seqno is ever given out twice (rule 5 of design §14), nothing else is ever given
//!    under its seqnos, by this process or a later one.
//! 2. *Whole.* Both watermarks move over whole groups.
//! 3. *Without a gap.* A feed goes from one chain to the next only where no record can have been between them
//!    (`Trail::is_followed_by`): in one incarnation the seqnos are dense, but for those that an ingestion takes;
//!    and an opening falls into a generation, which then has a chain of either side. What lies before the last
//!    gap is [`Error::ChangesGone`], which tells the smallest seqno that can be asked for. So the
//!    answer to "everything since n" is right or an error, whatever was flushed, dropped or ingested,
//!    before this opening or since. (Where a generation is gone that had no record, the error may come though
//!    nothing was lost.)
//! 4. *Kept.* A feed that is open keeps the generations from its position on (`Reclaim::kept_from`), at
//!    most `feed.pins_percent_max` of `pm`, and as long as writers find room: who finds none takes the oldest
//!    first (`room`), and so does who finds no room on the disk for a long value (`blobs`): a generation keeps the blob
//!    files that it refers to, and their values count like its records. Then the feed is cut off, which it learns when it goes on. It never keeps a writer waiting.
//! 5. *Held.* Between two calls a feed holds no generation; in a call it finds the generation's home under the lock
//!    of `reclaim`, under which generations are found free. A group is a copy: generations go in order, so
//!    that one of which somebody keeps a group would stop all reclaiming behind it, without bound. What the copy
//!    takes of DRAM is what the batches took in the hands of who wrote them. Of blob files, which have values
//!    of one batch each, it holds those that it refers to (`blobs`).
//! 6. *What a follower has, the store has.* Who asks since a seqno has all up to it. Seqnos that were given out
//!    and lost in a crash lie between two chains of one generation, or above all that there is; there is no change
//!    with such a one, and a feed stands there never: it stands at a group's end, or right before a chain. So
//!    who asks from within such a gap has more than the store, and is told ([`Engine::changes_since`]). What was lost
//!    and lies before the last gap of invariant 3 is gone like all there.
//! 7. *Known durable.* Who opens a store to read it makes nothing durable. So after a crash its feeds end
//!    where the walk knows all to have been durable (`memtable::walk`); what else could be read may be gone after the
//!    next one. An open that writes persists what it found (rule 3 of design §14).
//!
//! # After reopening
//! Flushed generations that are kept are named by the manifest, and found again by the next open (`flush`), like
//! those that readers hold. What was kept for a feed goes with the first reclaiming, unless
//! `feed.retain_bytes` keeps it or the feed has been asked for again by then.
//!
//! # Locks
//! To find its way from chain to chain a feed takes the writer's lock and that of `reclaim`, to go on in a zone the
//! latter. Writers do nothing for feeds.
//!
//! # Rejected
//! - *Reading from tables what is gone from persistent memory*: tables are in the order of keys, and have only what
//!   somebody may still be answered with.
//! - *A word in the manifest about what was dropped*: the chains that are left tell it (invariant 3).
//! - *Holding up writers until a feed has read*: one that has died with its subscriber would hold them for ever.

mod change;
mod kept;
#[cfg(test)]
mod tests;

use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::MutexGuard;
use thermocline_base::{Error, Result};
use thermocline_memtable::{Home, ItemRef, Mark, Trail};
use thermocline_runtime::Task;

use crate::reclaim::Reclaim;
use crate::store::{Engine, Inner};
use crate::sync::{Arc, Ordering, lock};
use crate::write::Writer;

pub use change::{Change, ChangeGroup, ChangeOp, Changes};
pub use kept::FeedUse;
pub(crate) use kept::{Feeds, Keeping};

/// Committed groups in the order of commits, from a seqno on. See [`Engine::changes_since`].
///
/// As an iterator it ends where nothing more is durable, and goes on when it is asked again later. After an
/// error it ends for good.
#[derive(Debug)]
pub struct ChangeFeed {
    inner: Arc<Inner>,
    /// Its number among those that are open.
    id: u64,
    /// The lowest seqno that has not been given.
    next: u64,
    /// Where that one lies, or the one before.
    place: Option<(Trail, Mark)>,
    failed: bool,
}

impl Engine {
    /// What was committed after `since`, the last seqno that the caller has; 0 is the beginning. A group that
    /// `since` lies within is given whole.
    ///
    /// # Errors
    /// [`Error::ChangesGone`] with the smallest `since` that can be asked for; [`Error::InvalidArgument`] if this database
    /// has no such change, because it was lost in a crash, or is another database's: then the caller has what the
    /// store has not, and begins anew; [`Error::Closed`].
    pub fn changes_since(&self, since: u64) -> Result<ChangeFeed> {
        let inner = &self.inner;
        let writer = lock(&inner.writer);
        if inner.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        let durable = inner.commits.ring.durable();
        let newest = inner.commits.ring.visible().max(durable);
        let mut reclaim = lock(&inner.reclaim);
        inner.check_known(&writer, &reclaim, since, newest)?;
        inner.check_kept(&writer, &reclaim, since)?;
        // Over seqnos that no record has.
        let next = match since >= durable {
            true => inner.first_kept(&writer, &reclaim).max(since + 1),
            false => since + 1,
        };
        Ok(ChangeFeed {
            id: reclaim.feeds.open(next),
            inner: inner.clone(),
            next,
            place: None,
            failed: false,
        })
    }
}

impl ChangeFeed {
    /// The last seqno that was given, or passed over because there is no such record: what to ask for when the
    /// feed is to be resumed.
    pub fn position(&self) -> u64 {
        self.next - 1
    }

    /// The next group, if one is durable.
    fn advance(&mut self) -> Result<Option<ChangeGroup>> {
        let inner = self.inner.clone();
        if inner.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        let up_to = match active(Bug::FeedAheadOfDurable) {
            true => inner.commits.ring.visible(),
            false => inner
                .commits
                .ring
                .durable()
                .min(inner.commits.ring.visible()),
        };
        let up_to = match active(Bug::FeedTrustsWhatIsRead) {
            true => up_to,
            false => up_to.min(inner.known_durable),
        };
        if self.next > up_to {
            return Ok(None);
        }
        let mut looked = false;
        loop {
            let there = self.place.as_ref();
            let there = there.filter(|(trail, _)| trail.last.is_none_or(|last| self.next <= last));
            let Some((generation, staged)) = there.map(|(t, _)| (t.generation, t.chain.staged))
            else {
                self.find_place()?;
                // There may be nothing but seqnos that no record has.
                if self.next > up_to {
                    return Ok(None);
                }
                continue;
            };
            let Some(home) = self.hold(generation)? else {
                // It has been read to its end, sealed and dropped since.
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

    /// The item that has `next`.
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
        let has_blobs = home.blobs().bytes() > 0;
        let group = ChangeGroup::new(&self.inner, copied.collect::<Result<_>>()?, has_blobs);
        // Before somebody looks whether its generation is read.
        drop(home);
        self.next = group.last() + 1;
        let ended = self.place.as_ref();
        let ended = ended.is_some_and(|(trail, _)| trail.last.is_some_and(|last| self.next > last));
        lock(&self.inner.reclaim).feeds.advance(self.id, self.next);
        if ended {
            self.inner.read_by_feed();
        }
        Ok(group)
    }

    /// The home of a generation, unless that is gone.
    fn hold(&self, generation: u64) -> Result<Option<Arc<Home>>> {
        let reclaim = lock(&self.inner.reclaim);
        if reclaim.feeds.is_open(self.id) {
            return Ok(self.inner.home_of(&reclaim, generation));
        }
        drop(reclaim);
        Err(self.cut_off())
    }

    /// Finds the trail that has `next`, or the next one that there is; raises `next` over seqnos that no record
    /// has.
    fn find_place(&mut self) -> Result<()> {
        let inner = &*self.inner;
        let writer = lock(&inner.writer);
        let mut reclaim = lock(&inner.reclaim);
        if !reclaim.feeds.is_open(self.id) {
            drop(reclaim);
            drop(writer);
            return Err(self.cut_off());
        }
        inner.check_kept(&writer, &reclaim, self.next - 1)?;
        let has = |trail: &&Trail| trail.last.is_none_or(|last| last >= self.next);
        // The last one is written to, and has no end.
        let there = reclaim.trails().find(has).cloned();
        let trail = there.unwrap_or_else(|| inner.open_trail(&writer));
        self.next = self.next.max(trail.chain.base);
        reclaim.feeds.advance(self.id, self.next);
        let before = self.place.take();
        let mark = before.filter(|(before, _)| before.chain.id == trail.chain.id);
        self.place = Some((trail, mark.map_or_else(Mark::default, |(_, mark)| mark)));
        Ok(())
    }

    #[cold]
    fn cut_off(&self) -> Error {
        let writer = lock(&self.inner.writer);
        let reclaim = lock(&self.inner.reclaim);
        Error::ChangesGone {
            since: self.next - 1,
            oldest: self.inner.oldest(&writer, &reclaim),
        }
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
        next
    }
}

impl Drop for ChangeFeed {
    fn drop(&mut self) {
        lock(&self.inner.reclaim).feeds.close(self.id);
        self.inner.read_by_feed();
    }
}

impl Inner {
    /// Where the records lie that are being written, behind those of `Reclaim::trails`.
    fn open_trail(&self, writer: &Writer) -> Trail {
        writer.chain.trail(writer.active.generation(), None)
    }

    /// The lowest seqno from which on nothing is missing.
    fn first_kept(&self, writer: &Writer, reclaim: &Reclaim) -> u64 {
        let open = self.open_trail(writer);
        let mut before: Option<&Trail> = None;
        let mut first = open.chain.base;
        for trail in reclaim.trails().chain([&open]) {
            if before.is_none_or(|before| !before.is_followed_by(trail)) {
                first = trail.chain.base;
            }
            before = Some(trail);
        }
        first
    }

    /// Whether whoever has everything up to `since` has nothing that this store has not (invariant 6).
    fn check_known(
        &self,
        writer: &Writer,
        reclaim: &Reclaim,
        since: u64,
        newest: u64,
    ) -> Result<()> {
        let open = self.open_trail(writer);
        let mut lost = since > newest && since + 1 != open.chain.base;
        let mut before: Option<&Trail> = None;
        for trail in reclaim.trails().chain([&open]) {
            let follows = before.filter(|before| before.is_followed_by(trail));
            let end = follows.and_then(|before| before.last);
            lost |= end.is_some_and(|end| since > end && since + 1 < trail.chain.base);
            before = Some(trail);
        }
        match lost && !active(Bug::FeedAcceptsLost) {
            false => Ok(()),
            true => Err(Error::InvalidArgument(format!(
                "changes since seqno {since} were asked for, and this database, whose newest one is {newest}, has \
                 no such change: it was lost when this one crashed or was restored, or is another \
                 database's; whoever has it has more than is here, and begins anew from a copy"
            ))),
        }
    }

    /// The smallest seqno since which nothing is missing: who has all that is durable misses nothing. (Then
    /// what is written from now on lies behind the last gap: nothing is in flight where a chain ends.)
    fn oldest(&self, writer: &Writer, reclaim: &Reclaim) -> u64 {
        (self.first_kept(writer, reclaim) - 1).min(self.commits.ring.durable())
    }

    fn check_kept(&self, writer: &Writer, reclaim: &Reclaim, since: u64) -> Result<()> {
        let oldest = self.oldest(writer, reclaim);
        match since < oldest {
            true => Err(Error::ChangesGone { since, oldest }),
            false => Ok(()),
        }
    }

    /// The home of a generation, unless that is gone. While the caller holds `reclaim`, none is found free.
    fn home_of(&self, reclaim: &MutexGuard<'_, Reclaim>, generation: u64) -> Option<Arc<Home>> {
        let is_it = |home: &&Arc<Home>| home.generation() == generation;
        let view = self.view.load();
        let homes = view.memtables.iter().flat_map(|m| m.homes());
        reclaim
            .retired_homes()
            .find(is_it)
            .or_else(|| homes.into_iter().find(is_it))
            .cloned()
    }

    /// A feed has read a generation to its end, or is there no more: something may go.
    fn read_by_feed(&self) {
        if !lock(&self.reclaim).is_nothing_retired() {
            self.background.request(Task::Ahead);
        }
    }

    /// Nobody reads some blob files any more: they may go.
    pub(super) fn let_go_of_blobs(&self) {
        self.background.request(Task::Ahead);
    }

    /// What feeds keep.
    pub fn feed_use(&self) -> FeedUse {
        let writer = lock(&self.writer);
        let reclaim = lock(&self.reclaim);
        let keeping = self.keeping();
        let (generations, bytes) = reclaim.kept(&keeping);
        FeedUse {
            open: reclaim.feeds.count(),
            kept_generations: generations,
            kept_bytes: bytes,
            kept_blob_bytes: reclaim.kept_blob_bytes(&keeping),
            oldest: self.oldest(&writer, &reclaim),
        }
    }
}
