//! Ranges in which everything is deleted, and the tables that go with them: unread, by an edit, as soon as nobody sees what they have.
//!
//! # Vocabulary
//! A *fact* is a range of a family's keys and a seqno q: some range tombstone of seqno q covers all of these keys, and
//! is durable and visible. Several tombstones may each cover a part of the range. Then q has two values. In what is
//! said of readers ("at q or later", "before q"), q is the seqno of the newest of these tombstones; in what is said of
//! the age of data ("older than q", "below q"), it is that of the oldest. Facts are taken from the range tombstones of
//! memtables, where `delete_range` puts them, and kept in DRAM. The tombstone is the truth. Where a fact was lost (with
//! the process, or because they were too many), its tables go the usual way: tombstone and tables meet in a compaction,
//! which leaves them out unread, too ([`pass_over`]).
//!
//! A table is *covered* by a fact if the whole range of its reference lies within, and all its seqnos are below q.
//!
//! # The argument: a covered table may go
//! 1. *A fact stays true.* It says that a reader at q or later finds nothing in the range that is older than q. No
//!    write changes that. It does not matter what becomes of the tombstone itself: see 4.
//! 2. *It survives crashes.* q was `settled`, durable and visible, before it became a fact. The edit that takes the table away may
//!    be durable before anything else is, and the tombstone is there when it is read. (A `Buffered` tombstone is visible earlier. If its
//!    tables went then, a crash could take it back, and what was written before it would be gone.)
//! 3. *Nobody reads what goes.* Let s be the least seqno of the table. A reader before s finds nothing there. A reader
//!    at q or later finds it covered. When the job is picked, no reader is registered between the two, or the table
//!    stays. None comes later: readers register at what is visible (`commit::readers`), and that had passed q before
//!    the job asked for the readers. A `get` does not register. It loads its view first and then what is visible: if
//!    its view lacks the table, then that was after q. If it has the table, then the view keeps that for as long as the
//!    call lasts.
//! 4. *Nothing returns.* The table may have hidden older data below itself, in its range and so in that of the fact. All of it is older than
//!    the tombstone, in layers below the tombstone's. So the tombstone hides it as long as it stays, and it stays for as long
//!    as there is something older below it: a memtable with it lives while an older memtable is named or a table is there
//!    (`memtable::needed`), a flush writes it down where something lies below, and a compaction keeps it likewise
//!    (`compaction::retain`). Where it was left out because nothing lay below, nothing older has come there since: data
//!    only sinks, and a job's range is held.
//! 5. *Memtables that were flushed.* If a crash brings back a memtable whose tables have gone, it counts as not flushed (`flush`,
//!    2), as it would after a compaction that left all of it out. It comes back below the tombstone's memtable, which is younger: while that
//!    was not flushed it hides all that the tables had, and when it was, a table or the manifest says so of both.
//! 6. *Older memtables and merged indexes* may have data that is covered, too. It stays there, hidden, until they die of it
//!    (`reclaim`), or a flush leaves it out. If a flush that had begun before writes it into tables, those are covered again.
//! 7. *Jobs that began before* keep their inputs: what a running job takes is not picked (`policy::pick::deleted`). Their outputs have seqnos
//!    below q, and are looked at when they have ended. To all other jobs it makes no difference: what they found below their outputs may
//!    become less, and nothing comes there.
//!
//! # Empty ranges
//! Where keys were deleted one by one, cursors note *gaps* (`memtable::gaps`): of the keys of a gap nobody who reads at s or later finds a
//! value in memtable M, or in anything older than M. So tables in a gap of M, which are older than M, have nothing for such a reader,
//! neither values nor deletes. An *empty range* is a gap that has whole tables, clean as of something settled. What is said above holds
//! but for 4: what hides the values may be the very table. So such a table goes only if nothing older lies below it (`policy::pick::deleted`), the deepest
//! first, as where all has expired (`policy::pick::expired`). Then its deletes hide nothing, and what lies above was never hidden by it.
//! The deletes that hide its values are durable, as of 2. An empty range is known for as long as its gap: who looks finds it anew, with the tables that
//! there are. Tables that came since are newer than M, or lie below its base.
//!
//! So a million deleted keys are stepped over by one cursor. Then their tables go unread, and with them the deletes in tables; those in
//! memtables have nothing left below, and no flush writes them (decision 40).
//!
//! # Who else might mind
//! - *Transactions* are registered as readers, and whether what they depend on has changed is asked of `commit::recent`, not of tables: that a
//!   delete goes with its table hides no conflict.
//! - *Earlier openings* of this process are registered before any job is picked (`close`). *Strangers* read by a view of their own, and no file or zone of
//!   it is free before they have gone (`reclaim`).
//! - *Copies and backups* have a version, which keeps its files. *Change feeds* read memtables, not tables.
//! - *Ingested tables* have one seqno, which lies above all that was granted before: only a tombstone that was written after them
//!   covers them. They come into no layer below a memtable that has gaps (`memtable::gaps`).
//! - *A dropped family* has no tables in the next version; an edit that comes after finds its inputs gone (`Job::is_valid`).
//! - *Partitions*: each part of a table that was cut is a reference with a range of its own, and stays or goes by itself.
//! - *Operands* hide nothing, and are covered as values are. A gap has none that someone finds a value by.
//! - *What has expired* is found by readers until a compaction leaves it out, so that no gap rests on a TTL.
//! - *Blob files*: what a table refers to is in its reference, and goes with that; a file that nothing refers to any more is removed as after any job (`blobs`).
//! - *A full disk*: if the manifest has no room the job fails as a move does, and is tried again some time later.
//!
//! # What a crash leaves
//! Before the edit the tables, after it none of them, and files that nobody names: removed. Persistent memory follows by an edit of its own when
//! nobody reads the tables any more (`pm_tables`), as after any job. Tables may go by several edits, in any order, by 4.
//!
//! # Who looks, and when
//! Each pick looks first (`due`). One is asked for after a write that deletes a range; if that is not durable then, after the write,
//! sync or idle moment behind which it is; after a flush and a job; when the store is opened; and when a reader ends who
//! reads before a fact, or is the first, where tables with many deletes wait for him ([`DeletedRanges::waits_for`]); and when
//! a cursor has noted a long gap.
//!
//! # What it costs
//! A write: one load. A pick: a look at each table for each memtable with range tombstones, as long as there are any. An
//! edit: its tables, whatever they hold.

use std::collections::BTreeMap;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, RangeTombstone, SeqNo};
use thermocline_catalog::View;
use thermocline_compaction::retain;
use thermocline_memtable::Cover;
use thermocline_policy::pick::Deleted;
use thermocline_policy::tuning::{DELETED_FRAGMENTS_MAX, DELETED_RANGES_MAX};
use thermocline_version::{TableRef, Version};

use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};

/// The facts of a store, and its empty ranges. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct DeletedRanges {
    known: Mutex<BTreeMap<CfId, OfFamily>>,
    /// 0, or from which seqno on, once it is settled, it is worth looking. Relaxed: who misses a change of it looks at the next
    /// write, and what it tells of is found under locks.
    look_at: AtomicU64,
    /// Of all facts and empty ranges the last seqno before which somebody may read what is to go, or 0.
    newest: AtomicU64,
    /// One more than the moment of the first reader, if tables with many deletes wait for him to go, or 0.
    held_up: AtomicU64,
}

/// Those of a family, each in key order, none over another.
#[derive(Debug, Clone, Default)]
pub(super) struct OfFamily {
    pub covered: Vec<Deleted>,
    /// As of the last look.
    pub empty: Vec<Deleted>,
}

impl DeletedRanges {
    /// A range tombstone is in the active memtable.
    pub fn written(&self) {
        self.look_at.fetch_max(1, Ordering::Relaxed);
    }

    /// Whether somebody is to look now, if this is settled. Says so once.
    #[inline]
    pub fn is_due(&self, settled: impl FnOnce() -> SeqNo) -> bool {
        let at = self.look_at.load(Ordering::Relaxed);
        at != 0 && settled().0 >= at && self.look_at.swap(0, Ordering::Relaxed) != 0
    }

    /// Whether tables may wait for a reader at this moment, who has just left.
    #[inline]
    pub fn waits_for(&self, reader: SeqNo) -> bool {
        // SeqCst, as who picks stores each before it looks at the slots of readers.
        let most = [&self.newest, &self.held_up].map(|most| most.load(Ordering::SeqCst));
        most.iter().any(|most| reader.0 < *most)
    }

    /// Tables with many deletes, which nobody but readers keeps from what they hide ([`thermocline_policy::pick::pick_tombstones`]),
    /// wait for the reader at this moment, the first; or none do. The caller looks behind this whether he is still there.
    pub fn wait_for(&self, first: Option<SeqNo>) {
        let held_up = first.map_or(0, |first| first.0.saturating_add(1));
        self.held_up.store(held_up, Ordering::SeqCst);
    }

    /// Takes in what range tombstones and gaps of these memtables say of these tables, and forgets facts that are of no use any
    /// more. All up to `settled` was durable and visible before the view was loaded.
    pub fn look(&self, view: &View, version: &Version, settled: SeqNo) {
        let settled = match active(Bug::DeletedBeforeDurable) {
            true => SeqNo(u64::MAX >> 1),
            false => settled,
        };
        let mut known = lock(&self.known);
        known.retain(|cf, _| version.family(*cf).is_some());
        for cf in version.families() {
            let of = known.entry(cf).or_default();
            self.look_at_tombstones(of, view, (version, cf), settled);
            of.empty = empty_ranges(view, version, cf, settled);
        }
        known.retain(|_, of| !of.covered.is_empty() || !of.empty.is_empty());
        let all = known
            .values()
            .flat_map(|of| of.covered.iter().chain(&of.empty));
        let newest = all.map(|range| range.unread_from.0).max();
        self.newest.store(newest.unwrap_or(0), Ordering::SeqCst);
    }

    fn look_at_tombstones(
        &self,
        of: &mut OfFamily,
        view: &View,
        (version, cf): (&Version, CfId),
        settled: SeqNo,
    ) {
        let newest = view
            .memtables
            .iter()
            .filter_map(|m| m.newest_tombstone(cf))
            .max();
        if newest.is_none() && of.covered.is_empty() {
            return;
        }
        if let Some(newest) = newest.filter(|newest| *newest > settled) {
            self.look_at.fetch_max(newest.0, Ordering::Relaxed);
        }
        let covers = view.memtables.iter().filter_map(|m| m.cover(cf, settled));
        let covers: Vec<Cover> = covers.collect();
        for (_, table) in version.tables_of(cf) {
            if over(&of.covered, table).is_none()
                && let Some(fact) = covers.iter().find_map(|cover| fact_of(cover, table))
            {
                add(&mut of.covered, fact);
            }
        }
        forget_useless(&mut of.covered, version, cf);
    }

    /// What is known of a family.
    pub(super) fn of(&self, cf: CfId) -> OfFamily {
        lock(&self.known).get(&cf).cloned().unwrap_or_default()
    }
}

/// The gaps of memtables in which whole tables lie.
fn empty_ranges(view: &View, version: &Version, cf: CfId, settled: SeqNo) -> Vec<Deleted> {
    let mut empty = Vec::new();
    for memtable in &view.memtables {
        let (Some(gaps), Some(first)) = (memtable.gaps(cf), view.first_of(memtable, cf)) else {
            continue;
        };
        for (_, table) in version.tables_of(cf) {
            let range = table.range.borrowed();
            // A gap speaks of the memtable and of what is older.
            let is_older = table.largest_seqno < memtable.base() && range.first >= first;
            if !is_older || over(&empty, table).is_some() {
                continue;
            }
            let gap = gaps.over(range.first, settled);
            let gap = gap.filter(|(_, end)| range.ends_before(end));
            if let (Some((start, end)), Some(from)) = (gap, gaps.passed_from(range.first)) {
                let range = Deleted {
                    start: start.to_vec(),
                    end: Some(end.to_vec()),
                    older_than: memtable.base(),
                    // Not what is settled now: readers that follow each other closely would keep the tables for ever.
                    unread_from: from,
                };
                add(&mut empty, range);
            }
        }
    }
    empty
}

/// The fact of these that covers a table.
fn over<'f>(facts: &'f [Deleted], table: &TableRef) -> Option<&'f Deleted> {
    let range = table.range.borrowed();
    let behind = facts.partition_point(|fact| *fact.start <= *range.first);
    let fact = &facts[behind.checked_sub(1)?];
    (table.largest_seqno < fact.older_than && fact.covers(&range)).then_some(fact)
}

/// The range tombstones of a memtable that cover a table, as one.
fn fact_of(cover: &Cover, table: &TableRef) -> Option<Deleted> {
    let range = table.range.borrowed();
    let mut fragment = cover.fragment(range.first);
    let (start, mut oldest, mut newest) = (fragment.start, SeqNo::MAX, SeqNo::ZERO);
    for _ in 0..DELETED_FRAGMENTS_MAX {
        let newer = fragment.over.filter(|over| *over > table.largest_seqno)?;
        (oldest, newest) = (oldest.min(newer), newest.max(newer));
        match fragment.end {
            Some(end) if !range.ends_before(end) => fragment = cover.fragment(end),
            end => {
                return Some(Deleted {
                    start: start.to_vec(),
                    end: end.map(<[u8]>::to_vec),
                    older_than: oldest,
                    unread_from: newest,
                });
            }
        }
    }
    None
}

/// The parts of a range that lie outside another.
fn without(range: Deleted, other: &Deleted) -> impl Iterator<Item = Deleted> {
    let before = Deleted {
        end: Some(match &range.end {
            Some(end) => end.clone().min(other.start.clone()),
            None => other.start.clone(),
        }),
        ..range.clone()
    };
    let behind = other.end.as_ref().map(|end| Deleted {
        start: end.clone().max(range.start.clone()),
        ..range
    });
    let has_keys = |part: &Deleted| part.end.as_ref().is_none_or(|end| part.start < *end);
    [Some(before), behind]
        .into_iter()
        .flatten()
        .filter(has_keys)
}

/// Adds a fact: over older ones, and under newer ones.
fn add(facts: &mut Vec<Deleted>, fact: Deleted) {
    let mut own = vec![fact.clone()];
    let mut all = Vec::new();
    for other in facts.drain(..) {
        if other.older_than >= fact.older_than {
            own = own
                .into_iter()
                .flat_map(|part| without(part, &other))
                .collect();
            all.push(other);
        } else {
            all.extend(without(other, &fact));
        }
    }
    all.append(&mut own);
    if all.len() > DELETED_RANGES_MAX {
        // The newest cover most.
        all.sort_by_key(|fact| std::cmp::Reverse(fact.older_than));
        all.truncate(DELETED_RANGES_MAX);
    }
    all.sort_by(|a, b| a.start.cmp(&b.start));
    *facts = all;
}

/// Forgets facts under which no table has something older.
fn forget_useless(facts: &mut Vec<Deleted>, version: &Version, cf: CfId) {
    if facts.is_empty() {
        return;
    }
    let mut is_useful = vec![false; facts.len()];
    for (_, table) in version.tables_of(cf) {
        let range = table.range.borrowed();
        let ends_before = |fact: &Deleted| fact.end.as_ref().is_some_and(|e| **e <= *range.first);
        let first = facts.partition_point(ends_before);
        for (n, fact) in facts.iter().enumerate().skip(first) {
            if range.ends_before(&fact.start) {
                break;
            }
            is_useful[n] |= table.smallest_seqno < fact.older_than;
        }
    }
    let mut is_useful = is_useful.into_iter();
    facts.retain(|_| is_useful.next() == Some(true));
}

/// Takes the references out of `runs` that one of `tombstones`, which are those of the same runs, covers wholly, and of which nobody
/// reads anything. A merge would read them and write nothing of them (`compaction::retain`). Returns how many entries they have; `None` if
/// there is no such one.
pub(super) fn pass_over(
    runs: &mut [Vec<Arc<TableRef>>],
    tombstones: &[RangeTombstone],
    moments: &retain::Moments,
) -> Option<u64> {
    let hides = |tombstone: &RangeTombstone, table: &TableRef| {
        let range = table.range.borrowed();
        let covers = *tombstone.start <= *range.first && range.ends_before(&tombstone.end);
        let is_unread = || moments.at_or_after(table.smallest_seqno) >= tombstone.seqno;
        covers && table.largest_seqno < tombstone.seqno && is_unread()
    };
    let mut passed = None;
    for run in runs {
        run.retain(|table| {
            let goes = tombstones.iter().any(|tombstone| hides(tombstone, table));
            if goes {
                passed = Some(passed.unwrap_or(0) + table.entries);
            }
            !goes
        });
    }
    passed
}

#[cfg(test)]
mod tests {
    use thermocline_base::{FileId, KeyRange};
    use thermocline_testkit::{Replay, Rng, seeds};

    use super::*;

    fn range(start: u8, end: Option<u8>, seqno: u64) -> Deleted {
        Deleted {
            start: vec![start],
            end: end.map(|end| vec![end]),
            older_than: SeqNo(seqno),
            unread_from: SeqNo(seqno),
        }
    }

    fn table(first: u8, last: u8, seqnos: (u64, u64)) -> Arc<TableRef> {
        Arc::new(TableRef {
            file: FileId(7),
            file_bytes: 100,
            bytes: 100,
            entries: 10,
            deletes: 0,
            range: KeyRange::inclusive([first], [last]).owned(),
            limited_below: false,
            limited_above: false,
            smallest_seqno: SeqNo(seqnos.0),
            largest_seqno: SeqNo(seqnos.1),
            blobs: vec![],
        })
    }

    /// A merge reads what is not covered wholly, what is newer, and what somebody sees.
    #[test]
    fn a_merge_passes_over_what_its_tombstones_cover() {
        let tombstone = RangeTombstone {
            start: vec![10],
            end: vec![20],
            seqno: SeqNo(50),
        };
        let passes = |table: &Arc<TableRef>, readers: Vec<SeqNo>| {
            let mut runs = [vec![table.clone()]];
            let moments = retain::Moments::new(readers, SeqNo(1000));
            let passed = pass_over(&mut runs, std::slice::from_ref(&tombstone), &moments);
            assert_eq!(passed, runs[0].is_empty().then_some(10));
            runs[0].is_empty()
        };
        let inside = table(10, 19, (5, 49));
        assert!(passes(&inside, vec![]) && passes(&inside, vec![SeqNo(4), SeqNo(50)]));
        assert!(!passes(&inside, vec![SeqNo(49)]) && !passes(&inside, vec![SeqNo(5)]));
        assert!(
            !passes(&table(9, 19, (5, 49)), vec![]) && !passes(&table(10, 20, (5, 49)), vec![])
        );
        assert!(!passes(&table(10, 19, (5, 50)), vec![]));
    }

    /// Whatever facts are added in whatever order, over each key the newest one is known.
    #[test]
    fn facts_are_painted() {
        for seed in seeds(0..500) {
            let _replay = Replay::new("-p thermocline-engine facts_are_painted", seed);
            let mut rng = Rng::new(seed);
            let byte = |rng: &mut Rng| u8::try_from(rng.below(40)).unwrap();
            let (mut facts, mut all) = (Vec::new(), Vec::new());
            for _ in 0..1 + rng.below(12) {
                let (start, len) = (byte(&mut rng), 1 + byte(&mut rng));
                let end = (!rng.one_in(6)).then_some(start + len);
                let fact = range(start, end, rng.below(20) as u64);
                all.push(fact.clone());
                add(&mut facts, fact);
            }
            for pair in facts.windows(2) {
                assert!(
                    pair[0]
                        .end
                        .as_ref()
                        .is_some_and(|end| *end <= pair[1].start)
                );
            }
            for key in 0..100u8 {
                let has = |fact: &&Deleted| {
                    fact.start[..] <= [key][..]
                        && fact.end.as_ref().is_none_or(|end| end[..] > [key][..])
                };
                let known = facts.iter().find(has).map(|fact| fact.older_than);
                assert_eq!(
                    known,
                    all.iter().filter(has).map(|f| f.older_than).max(),
                    "{key}"
                );
            }
        }
    }
}
