//! Finding again what was committed (rules 1 and 2 of recovery, `docs/durability.md`).
//!
//! The walk takes the chains of one incarnation, in order, and answers: which items are there, where
//! is the cut, and is what is missing a torn tail or corruption?
//!
//! # How
//! Every segment is first scanned on its own, in parallel: from its start, item after item, as long
//! as headers and keys verify and each item follows the one before; a bad place is passed over only
//! where the next valid item has exactly the expected seqno, so that it held no record. Then the
//! scans are joined in order: a segment's items count only if its first one has exactly the expected
//! seqno (rule 1). What is not reached that way is cut.
//!
//! Where a complete chain has ended nothing is looked for. An opening that is killed before it has written
//! leaves a chain without a record, and all of these begin in the same rest of a zone.
//!
//! # Where memtables were dropped
//! Chains of memtables that nobody needed may be missing between two chains of one incarnation.
//! The edit that dropped them cut all chains before the gap and gave the chain behind it a base of
//! its own. So the walk steps over the gap only if the chain before it reaches exactly its cut, and
//! goes on with the base. Nothing is weaker for it: what was dropped had been durable, and with it
//! all before it, so everything below the base counts as known durable.
//!
//! # Cut or corruption
//! An item is *known durable* if its seqno is at or below the chain's recorded cut, its memtable's
//! floor, or the `published` of any valid item of the incarnation, wherever it lies: behind the
//! first gap every 64-byte line is tried, since a bad header gives no length (`search`). If the first missing
//! seqno is known durable, that is corruption, reported with its place. Otherwise it is the torn
//! tail. Of items that are there but not known durable also the values are verified; the first bad
//! one is the cut. (Rule 2; values of items known durable are verified when they are read.)

use std::sync::atomic::{AtomicUsize, Ordering};

use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::{Mutex, lock, thread};
use thermocline_base::{Error, Result};
use thermocline_pm::{LINE, PmOff, Region};

use crate::chain::{Chain, ChainPlan, Segment};
use crate::format::{ITEM_HEADER, RECORD_HEADER, RecordHeader, record_crc};

mod item;
mod search;

pub use item::ItemRef;
pub(crate) use item::{behind, item_at};
pub(crate) use search::next_item;
use search::valid_items;

/// How far a chain reaches.
#[derive(Debug, Clone, Default)]
pub struct ChainEnd {
    /// Its accepted items, in order, by segment.
    pub items: Vec<Vec<ItemRef>>,
    /// Its last seqno; the one before its first if it has no record.
    pub last_seqno: u64,
    /// Behind its last item, and the segment that this lies in; `None` if it has no item.
    pub end: Option<(usize, PmOff)>,
}

/// What the walk of an incarnation found.
#[derive(Debug, Clone, Default)]
pub struct WalkOutcome {
    /// One for each plan.
    pub chains: Vec<ChainEnd>,
    /// The last accepted seqno.
    pub last_seqno: u64,
    /// Every seqno up to this one is known to have been durable before the crash.
    pub known_durable: u64,
    /// The highest seqno that any valid item in the chains' space carries, accepted or not.
    pub seqno_seen: u64,
    /// Bytes behind the accepted items in zones of chains without a recorded cut.
    pub unsealed_bytes: u64,
}

/// One segment scanned on its own.
#[derive(Debug, Default)]
struct Scan {
    items: Vec<ItemRef>,
    published: u64,
    stop: PmOff,
}

/// Walks the chains of one incarnation. `base` is the seqno of its first record.
///
/// # Errors
/// [`Error::Corruption`] with region and offset of the first item that is missing although it is
/// known to have been durable.
pub fn walk_incarnation(
    region: &Region,
    plans: &[ChainPlan],
    base: u64,
    threads: usize,
) -> Result<WalkOutcome> {
    let scans = scan_all(region, plans, threads)?;
    region.check_media()?;
    let mut outcome = WalkOutcome {
        last_seqno: base - 1,
        ..WalkOutcome::default()
    };
    let mut gap = None;
    let mut before = None;
    for (plan, scans) in plans.iter().zip(scans) {
        if let Some(before) = before.filter(|_| plan.chain.base != 0) {
            cross(region, before, plan, &mut outcome, &mut gap)?;
        }
        before = Some(plan);
        join(region, plan, scans, &mut outcome, &mut gap)?;
    }
    outcome.seqno_seen = outcome.seqno_seen.max(outcome.last_seqno);
    if outcome.known_durable > outcome.last_seqno && !active(Bug::CutBelowPublished) {
        let last = plans.iter().flat_map(|plan| &plan.segments).next_back();
        let at = gap.or(last.map(|segment| segment.to)).unwrap_or_default();
        let lost = outcome.last_seqno + 1;
        return Err(missing(region, at, lost, outcome.known_durable));
    }
    verify_tail(region, plans, &mut outcome)?;
    Ok(outcome)
}

/// Steps over chains that the manifest does not name any more, to `plan`, whose base it gives.
fn cross(
    region: &Region,
    before: &ChainPlan,
    plan: &ChainPlan,
    outcome: &mut WalkOutcome,
    gap: &mut Option<PmOff>,
) -> Result<()> {
    // What was dropped was durable, and so was all before it.
    let durable = plan.chain.base - 1;
    let complete = before.cut == Some(outcome.last_seqno) && outcome.last_seqno <= durable;
    if !complete && !active(Bug::WalkAcceptsGap) {
        let at = gap.or(before.segments.last().map(|s| s.to));
        let lost = outcome.last_seqno + 1;
        return Err(missing(region, at.unwrap_or_default(), lost, durable));
    }
    outcome.last_seqno = durable;
    outcome.known_durable = outcome.known_durable.max(durable);
    *gap = None;
    Ok(())
}

/// Adds one chain to what was found so far.
fn join(
    region: &Region,
    plan: &ChainPlan,
    scans: Vec<Scan>,
    outcome: &mut WalkOutcome,
    gap: &mut Option<PmOff>,
) -> Result<()> {
    let mut end = ChainEnd {
        last_seqno: outcome.last_seqno,
        ..ChainEnd::default()
    };
    for (i, (mut scan, segment)) in scans.into_iter().zip(&plan.segments).enumerate() {
        let expected = outcome.last_seqno + 1;
        let first = scan.items.first().map(|item| item.first_seqno);
        if let Some(cut) = plan.cut {
            // What lies behind a recorded cut was cut by an earlier recovery.
            scan.items.retain(|item| item.next_seqno() - 1 <= cut);
        }
        let follows = first.is_some_and(|f| f == expected || active(Bug::WalkAcceptsGap));
        let mut behind = segment.from;
        if follows {
            outcome.known_durable = outcome.known_durable.max(scan.published);
            if let Some(last) = scan.items.last() {
                outcome.last_seqno = last.next_seqno() - 1;
                behind = last.at.plus(u64::from(last.bytes));
                end.end = Some((i, behind));
            }
        } else {
            scan.items.clear();
        }
        let rest = |at| (behind < segment.to).then_some(at);
        *gap = match follows {
            // Before what is here nothing is missing.
            true => rest(scan.stop),
            false => gap.or(rest(behind)),
        };
        if plan.cut.is_none() {
            outcome.unsealed_bytes += segment.to.0 - behind.0;
            let (published, seen) = try_every_line(region, &plan.chain, segment, behind)?;
            outcome.known_durable = outcome.known_durable.max(published);
            outcome.seqno_seen = outcome.seqno_seen.max(seen);
        }
        end.items.push(scan.items);
    }
    end.last_seqno = outcome.last_seqno;
    let due = plan.cut.into_iter().chain(plan.floor).max().unwrap_or(0);
    if due > outcome.last_seqno {
        let at = gap
            .or(plan.segments.last().map(|s| s.to))
            .unwrap_or_default();
        if !(active(Bug::CutBelowPublished) && plan.cut.is_none()) {
            return Err(missing(region, at, outcome.last_seqno + 1, due));
        }
    }
    // Everything up to a cut or floor was durable when that was written.
    outcome.known_durable = outcome.known_durable.max(due);
    outcome.chains.push(end);
    Ok(())
}

/// Verifies the values of items that are not known to be durable, and cuts at the first bad one.
fn verify_tail(region: &Region, plans: &[ChainPlan], outcome: &mut WalkOutcome) -> Result<()> {
    let mut cut = None;
    'search: for (c, (end, plan)) in outcome.chains.iter().zip(plans).enumerate() {
        for (s, items) in end.items.iter().enumerate() {
            let from = items.partition_point(|item| item.next_seqno() <= outcome.known_durable + 1);
            for (i, item) in items.iter().enumerate().skip(from) {
                if !values_hold(region, &plan.chain, item)? {
                    cut = Some((c, s, i));
                    break 'search;
                }
            }
        }
    }
    if let Some((c, s, i)) = cut {
        cut_at(outcome, c, s, i, &plans[c].segments);
    }
    Ok(())
}

/// Drops item `i` of segment `s` of chain `c` and everything after it.
fn cut_at(outcome: &mut WalkOutcome, c: usize, s: usize, i: usize, segments: &[Segment]) {
    let item = outcome.chains[c].items[s][i];
    outcome.last_seqno = item.first_seqno - 1;
    outcome.unsealed_bytes += segments[s].to.0 - item.at.0;
    for (later, chain) in outcome.chains.iter_mut().enumerate().skip(c) {
        for (segment, items) in chain.items.iter_mut().enumerate() {
            if later > c || segment > s {
                items.clear();
            } else if segment == s {
                items.truncate(i);
            }
        }
        chain.last_seqno = outcome.last_seqno;
        chain.end = chain.items.iter().enumerate().rev().find_map(|(s, items)| {
            items
                .last()
                .map(|last| (s, last.at.plus(u64::from(last.bytes))))
        });
    }
}

fn scan_all(region: &Region, plans: &[ChainPlan], threads: usize) -> Result<Vec<Vec<Scan>>> {
    let work: Vec<(usize, usize)> = plans
        .iter()
        .enumerate()
        .flat_map(|(p, plan)| (0..plan.segments.len()).map(move |s| (p, s)))
        .collect();
    let mut scans: Vec<Vec<Scan>> = plans
        .iter()
        .map(|p| p.segments.iter().map(|_| Scan::default()).collect())
        .collect();
    let scan = |&(p, s): &(usize, usize)| scan_segment(region, &plans[p], &plans[p].segments[s]);
    if threads <= 1 || work.len() <= 1 {
        for job in &work {
            scans[job.0][job.1] = scan(job)?;
        }
        return Ok(scans);
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(work.len()));
    let scan_some = || {
        while let Some(job) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = scan(job);
            lock(&done).push((*job, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(work.len()) {
            // Where the system gives no further thread, those that there are scan all.
            if thread::spawn_scoped(scope, "thermocline-walk", scan_some).is_none() {
                break;
            }
        }
        scan_some();
    });
    for ((p, s), result) in std::mem::take(&mut *lock(&done)) {
        scans[p][s] = result?;
    }
    Ok(scans)
}

/// A bad place is passed over if the next valid item has exactly the expected seqno. Then what is bad held no
/// record: it was an empty item, and losing it loses nothing. (Taking it for the end would cut the item behind it,
/// where nothing vouches for that one yet.)
fn scan_segment(region: &Region, plan: &ChainPlan, segment: &Segment) -> Result<Scan> {
    let chain = &plan.chain;
    region.populate(segment.from, segment.to.0 - segment.from.0, false);
    let mut scan = Scan {
        stop: segment.from,
        ..Scan::default()
    };
    // Behind the first bad place: the valid items there.
    let mut rest = None;
    loop {
        let expected = scan.items.last().map(ItemRef::next_seqno);
        let mut found = match rest {
            None => item_at(region, chain, segment, scan.stop)?,
            Some(_) => None,
        };
        // A complete chain has nothing behind its cut: nothing at all where that lies before its base.
        let next = expected.unwrap_or(chain.base);
        let ends = plan.cut.is_some_and(|cut| cut < next);
        if found.is_none() && !ends {
            if rest.is_none() {
                rest = Some(valid_items(region, chain, segment, scan.stop)?.into_iter());
            }
            // What lies in an item that was accepted is a part of that.
            let stop = scan.stop;
            found = rest.iter_mut().flatten().find(|(item, _)| item.at >= stop);
        }
        let Some((item, published)) = found else {
            return Ok(scan);
        };
        let follows = expected.is_none_or(|expected| expected == item.first_seqno);
        if !follows && !active(Bug::WalkAcceptsGap) {
            return Ok(scan);
        }
        scan.published = scan.published.max(published);
        scan.stop = item.at.plus(u64::from(item.bytes));
        scan.items.push(item);
        // Records are often alike in size: the one after the next is about as far again.
        let ahead = scan.stop.plus(2 * u64::from(item.bytes));
        region.prefetch(ahead);
        region.prefetch(ahead.plus(LINE));
    }
}

/// Tries every line of a segment from `from` on: the highest `published` and the highest seqno of
/// the valid items there, 0 if there is none.
fn try_every_line(
    region: &Region,
    chain: &Chain,
    segment: &Segment,
    from: PmOff,
) -> Result<(u64, u64)> {
    let items = valid_items(region, chain, segment, from)?;
    let published = items.iter().map(|(_, published)| *published).max();
    let seen = items.iter().map(|(item, _)| item.next_seqno() - 1).max();
    Ok((published.unwrap_or(0), seen.unwrap_or(0)))
}

/// Whether all records of an item verify, values included.
pub(crate) fn values_hold(region: &Region, chain: &Chain, item: &ItemRef) -> Result<bool> {
    let mut at = item.at.plus(ITEM_HEADER as u64);
    for _ in 0..item.count {
        let head = RecordHeader::decode(region.bytes(at, RECORD_HEADER)?);
        let bytes = region.bytes(at, head.len())?;
        if record_crc(chain.seed, at.0, bytes) != head.crc {
            return Ok(false);
        }
        at = at.plus(head.padded() as u64);
    }
    Ok(true)
}

/// Calls `visit` with the offset and header of each record of a valid item.
pub(crate) fn each_record(
    region: &Region,
    item: &ItemRef,
    mut visit: impl FnMut(PmOff, RecordHeader, u64) -> Result<()>,
) -> Result<()> {
    let mut at = item.at.plus(ITEM_HEADER as u64);
    for i in 0..u64::from(item.count) {
        let head = RecordHeader::decode(region.bytes(at, RECORD_HEADER)?);
        visit(at, head, item.first_seqno + i)?;
        at = at.plus(head.padded() as u64);
    }
    Ok(())
}

#[cold]
pub(crate) fn missing(region: &Region, at: PmOff, seqno: u64, durable: u64) -> Error {
    Error::corruption(
        format!("the item with seqno {seqno} is missing or damaged, though it was durable"),
        region.path().display().to_string(),
        at.0,
        format!("all items up to seqno {durable}"),
        format!("items up to seqno {}", seqno - 1),
    )
}

#[cfg(test)]
mod tests;
