//! Filling the indexes of all memtables from the items that walks found.
//!
//! The items of all memtables are one stretch of work, from which threads take one step after the
//! other: so many small memtables keep as many threads busy as one large one. Beside the items
//! themselves that takes one number for each stretch.
//!
//! Of each key the newest record stays, in whatever order records come, and those that somebody needs who
//! reads at a given moment: nobody does but readers of an earlier opening in this process. As a rule there are none.
//! A record that comes late is trimmed against those beside it as any group's that is indexed late
//! (`art::versions`); what it leaves too much takes memory, and no more. Operands go in for each key together, at the end
//! of a step or as soon as there are many: one that comes late copies the newer ones, which others have
//! put in meanwhile (`operands`), and so a step does once, however many it has itself. Range tombstones are noted, and added when all are known, in the order of
//! seqnos, in which each is added in the time that a bisection takes. So the indexes are the same however
//! many threads there are.
//!
//! A thread that is interrupted while it looks at a tree keeps all nodes that others replace meanwhile. So
//! between steps threads wait for such a one: an index near the limit of DRAM must not become larger than
//! it was, or nothing could be deleted.
//!
//! The values of records that are known to be durable are not read here. That of a range tombstone is: it
//! decides what is hidden. So it is verified, and a range that ends before it begins is corruption. So is that
//! of a record whose value lies in a blob file: it decides which files stay. Where it cannot be read all of
//! them do, as long as its memtable does; who reads the key hears of it.
//!
//! # Memtables that no view has
//! One that was flushed and is kept for somebody who reads its chains (a change feed) may be named when a
//! store is opened. Nobody will look a key up in it: tables have what it had. So nothing of it is put
//! into an index, which would take DRAM for as much as the SSD's reserve of persistent memory may keep,
//! only to be given back when the open is done ([`Stretch::indexed`]). What is done all the same: its records
//! are counted, each family is asked for, and the blob files that it refers to are noted, since it keeps them.

use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, lock, thread};
use thermocline_base::{CfId, Error, Kind, Result, SeqNo};
use thermocline_pm::{LINE, PmOff};
use thermocline_policy::tuning::{REPLAY_AHEAD, REPLAY_ITEMS};

use crate::format::RECORD_HEADER;
use crate::operands::Operands;
use crate::table::Memtable;
use crate::walk::{ItemRef, each_record};

/// Valid items of one memtable, in the order in which they lie.
#[derive(Debug, Clone, Copy)]
pub struct Stretch<'a> {
    /// Whose they are.
    pub memtable: &'a Memtable,
    /// The items.
    pub items: &'a [ItemRef],
    /// Whether its records are put into the index. Otherwise it is only noted which blob files they refer
    /// to: the memtable was flushed, and no view has it.
    pub indexed: bool,
}

/// Whether a record is taken: its place, its family and its key.
pub type Admit<'a> = dyn Fn(PmOff, CfId, &[u8]) -> Result<bool> + Sync + 'a;

/// Puts the records of all stretches into the indexes, by `threads` threads: those that `admit`, given
/// the place, family and key of each, takes. Somebody may read at each of `moments`, ascending. Returns how
/// many those were.
///
/// # Errors
/// Corruption of a record whose key had to be read; those of `admit`. Of several the first in the
/// order of the stretches.
pub fn replay(
    stretches: &[Stretch<'_>],
    threads: usize,
    moments: &[SeqNo],
    admit: &Admit<'_>,
) -> Result<u64> {
    let mut behind = 0;
    let ends = stretches.iter().map(|stretch| {
        behind += stretch.items.len();
        behind
    });
    let ends = ends.collect();
    let total = behind;
    let threads = threads.min(total.div_ceil(REPLAY_ITEMS)).max(1);
    let replay = Replay {
        stretches,
        ends,
        moments,
        is_beside: threads > 1,
        found: Mutex::default(),
    };
    let next = AtomicUsize::new(0);
    // Relaxed: read when all threads have been joined.
    let indexed = AtomicU64::new(0);
    // Takes one step after the other; tells where one failed.
    let work = || {
        loop {
            let from = next.fetch_add(REPLAY_ITEMS, Ordering::Relaxed);
            if from >= total {
                return Ok(());
            }
            let to = (from + REPLAY_ITEMS).min(total);
            let records = replay.range(from..to, admit).map_err(|error| {
                // The others stop at their next step; those before this one have been taken.
                next.store(total, Ordering::Relaxed);
                (from, error)
            })?;
            indexed.fetch_add(records, Ordering::Relaxed);
        }
    };
    match threads {
        1 => work().map_err(|(_, error)| error)?,
        _ => work_beside(work, threads)?,
    }
    replay.cover_all()?;
    Ok(indexed.into_inner())
}

/// Has `threads` threads, of which this is one, do `work`, and returns the first error by the place that comes with it. Where the
/// system gives no further thread, those that there are do all of it.
fn work_beside(work: impl Fn() -> Result<(), (usize, Error)> + Sync, threads: usize) -> Result<()> {
    let failed = thread::scope(|scope| {
        let begin = |_| thread::spawn_scoped(scope, "thermocline-replay", &work);
        let others: Vec<_> = (1..threads).map_while(begin).collect();
        let own = work();
        let ended = others.into_iter().map(|other| other.join());
        let ended = ended.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let failed = ended.chain([own]).filter_map(Result::err);
        failed.min_by_key(|(at, _)| *at)
    });
    failed.map_or(Ok(()), |(_, error)| Err(error))
}

/// A range tombstone that was met: its seqno, the stretch, and where it lies.
type Found = (SeqNo, usize, PmOff);

/// One replay of all stretches.
struct Replay<'a> {
    stretches: &'a [Stretch<'a>],
    /// Where each stretch ends in the whole.
    ends: Vec<usize>,
    moments: &'a [SeqNo],
    /// Whether there are several threads.
    is_beside: bool,
    found: Mutex<Vec<Found>>,
}

impl<'a> Replay<'a> {
    /// Adds all range tombstones.
    fn cover_all(&self) -> Result<()> {
        let mut found = std::mem::take(&mut *lock(&self.found));
        found.sort_unstable();
        if active(Bug::ReplayForgetsTombstones) {
            found.clear();
        }
        for (seqno, stretch, at) in found {
            let memtable = self.stretches[stretch].memtable;
            let record = memtable.checked_record(at)?;
            let cf = memtable.records().family(at)?;
            memtable.cover_at(cf, (record.key, record.value), seqno, self.moments)?;
        }
        Ok(())
    }

    /// Replays a range of the whole. Returns how many records were put into indexes, or noted to be.
    fn range(&self, range: std::ops::Range<usize>, admit: &Admit<'_>) -> Result<u64> {
        let (mut records, mut operands) = (0, Operands::default());
        let mut at = range.start;
        let mut i = self.ends.partition_point(|&end| end <= at);
        while at < range.end {
            let stretch: &'a Stretch<'a> = &self.stretches[i];
            let Stretch {
                memtable, items, ..
            } = *stretch;
            let begin = self.ends[i] - items.len();
            let to = self.ends[i].min(range.end);
            for (j, item) in items[at - begin..to - begin].iter().enumerate() {
                if let Some(ahead) = items.get(at - begin + j + REPLAY_AHEAD) {
                    let region = memtable.region();
                    region.prefetch(ahead.at);
                    region.prefetch(ahead.at.plus(LINE));
                }
                let found = |seqno, at| lock(&self.found).push((seqno, i, at));
                let later = (&mut operands, found);
                records += stretch.replay_item(item, self.moments, admit, later)?;
                if operands.is_full() {
                    operands.insert(memtable, || self.moments)?;
                }
            }
            operands.insert(memtable, || self.moments)?;
            if self.is_beside {
                memtable.settle();
            }
            (at, i) = (to, i + 1);
        }
        Ok(records)
    }
}

impl<'a> Stretch<'a> {
    /// Returns how many records were put into the index, or will be: operands are noted, and range tombstones are `found`.
    fn replay_item(
        &self,
        item: &ItemRef,
        moments: &[SeqNo],
        admit: &Admit<'_>,
        (operands, found): (&mut Operands<'a>, impl Fn(SeqNo, PmOff)),
    ) -> Result<u64> {
        let (memtable, indexed): (&'a Memtable, bool) = (self.memtable, self.indexed);
        let region = memtable.region();
        let mut records = 0;
        memtable.count_item_beside(u64::from(item.bytes), u64::from(item.count));
        each_record(region, item, |at, head, seqno| {
            let key = &region.bytes(at, head.head_len())?[RECORD_HEADER..];
            if !admit(at, CfId(head.cf), key)? {
                return Ok(());
            }
            records += u64::from(indexed);
            if head.kind() == Some(Kind::RangeDelete) {
                if indexed {
                    found(SeqNo(seqno), at);
                }
                return Ok(());
            }
            if head.kind() == Some(Kind::PutBlob) {
                let blobs = memtable.homes()[0].blobs();
                match memtable
                    .records()
                    .read(at, true)
                    .map(|record| record.blob())
                {
                    Ok(Some(blob)) => blobs.refer(blob),
                    _ => blobs.refer_to_unknown(),
                }
            }
            let (cf, seqno) = (CfId(head.cf), SeqNo(seqno));
            let record = (head.kind().unwrap_or(Kind::Put), key);
            match (indexed, moments) {
                (false, _) => Ok(()),
                (true, _) if record.0 == Kind::Merge => {
                    operands.note(cf, key, at, seqno);
                    Ok(())
                }
                (true, []) => memtable.keep_newest(cf, record, at, seqno),
                (true, moments) => memtable.insert(cf, record, at, seqno, || moments),
            }
        })?;
        Ok(records)
    }
}

#[cfg(test)]
mod tests;
