//! Range tombstones of a merge: which one covers an entry, and what of them stays.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use thermocline_base::{RangeTombstone, SeqNo};

use super::{Below, Moments};

/// The same tombstones, those of one seqno joined where they touch: tables have them in pieces. By
/// start, then newest first.
pub fn joined(mut tombstones: Vec<RangeTombstone>) -> Vec<RangeTombstone> {
    tombstones.retain(|t| t.start < t.end);
    tombstones.sort_unstable_by(|a, b| (a.seqno, &a.start).cmp(&(b.seqno, &b.start)));
    tombstones.dedup_by(|next, last| {
        let touch = next.seqno == last.seqno && next.start <= last.end;
        if touch && next.end > last.end {
            std::mem::swap(&mut last.end, &mut next.end);
        }
        touch
    });
    tombstones.sort_unstable_by(|a, b| a.start.cmp(&b.start).then(b.seqno.cmp(&a.seqno)));
    tombstones
}

/// Which tombstones cover a key that only moves forwards: all of them, since a merge asks for the oldest that is newer
/// than an entry, where readers ask [`RangeTombstones`](thermocline_base::RangeTombstones) for the newest.
#[derive(Debug)]
pub(super) struct Sweep {
    by_start: Vec<RangeTombstone>,
    by_end: Vec<usize>,
    /// How many have begun at or before the key.
    begun: usize,
    /// How many have ended at or before the key.
    ended: usize,
    /// Those that cover the key.
    over: BTreeSet<(SeqNo, usize)>,
}

impl Sweep {
    /// Of tombstones by start.
    pub fn new(by_start: Vec<RangeTombstone>) -> Sweep {
        let mut by_end: Vec<usize> = (0..by_start.len()).collect();
        by_end.sort_unstable_by(|a, b| by_start[*a].end.cmp(&by_start[*b].end));
        Sweep {
            by_start,
            by_end,
            begun: 0,
            ended: 0,
            over: BTreeSet::new(),
        }
    }

    /// Moves forwards to `key`.
    pub fn go_to(&mut self, key: &[u8]) {
        while let Some(t) = self.by_start.get(self.begun).filter(|t| *t.start <= *key) {
            self.over.insert((t.seqno, self.begun));
            self.begun += 1;
        }
        // What has ended has begun, since none is empty.
        while let Some(&n) = self.by_end.get(self.ended) {
            if *self.by_start[n].end > *key {
                break;
            }
            self.over.remove(&(self.by_start[n].seqno, n));
            self.ended += 1;
        }
    }

    /// The oldest tombstone over the key that is newer than `seqno`.
    pub fn oldest_after(&self, seqno: SeqNo) -> Option<SeqNo> {
        let newer = self.over.range((seqno, usize::MAX)..);
        newer.map(|(seqno, _)| *seqno).next()
    }
}

/// What of each tombstone stays (5 in the [module above](super)). Takes them, and gives what stays,
/// by start, then newest first.
pub(super) fn surviving(
    by_start: &[RangeTombstone],
    moments: &Moments,
    below: &mut dyn Below,
) -> Vec<RangeTombstone> {
    let mut by_moment: BTreeMap<SeqNo, Vec<&RangeTombstone>> = BTreeMap::new();
    for tombstone in by_start {
        by_moment
            .entry(moments.at_or_after(tombstone.seqno))
            .or_default()
            .push(tombstone);
    }
    let mut stay: BTreeMap<(SeqNo, &[u8]), RangeTombstone> = BTreeMap::new();
    for of_one_moment in by_moment.values() {
        for_each_uncovered(of_one_moment, &mut |tombstone, start, end| {
            let seqno = tombstone.seqno;
            let old = seqno <= moments.first() && seqno <= moments.written_since();
            let needed = match old {
                true => below.reach(start, end),
                false => Some((start.to_vec(), end.to_vec())),
            };
            let Some((start, end)) = needed else { return };
            // Pieces come from left to right: the first one has the start.
            let piece = stay
                .entry((seqno, &tombstone.start))
                .or_insert(RangeTombstone {
                    start,
                    end: Vec::new(),
                    seqno,
                });
            piece.end = end;
        });
    }
    let mut stay: Vec<_> = stay.into_values().collect();
    stay.sort_unstable_by(|a, b| a.start.cmp(&b.start).then(b.seqno.cmp(&a.seqno)));
    stay
}

/// Shows each piece of each tombstone that no newer one of them covers, pieces from left to right.
/// Twice as many as tombstones, at most: a piece begins where a tombstone begins or ends.
fn for_each_uncovered<'a>(
    by_start: &[&'a RangeTombstone],
    see: &mut dyn FnMut(&'a RangeTombstone, &'a [u8], &'a [u8]),
) {
    let ends = by_start.iter().flat_map(|t| [&t.start[..], &t.end[..]]);
    let places: BTreeSet<&[u8]> = ends.collect();
    let mut begin = by_start.iter().enumerate().peekable();
    let mut over = BinaryHeap::new();
    for (&place, &next) in places.iter().zip(places.iter().skip(1)) {
        while let Some((n, t)) = begin.next_if(|(_, t)| *t.start <= *place) {
            over.push((t.seqno, n));
        }
        while over
            .peek()
            .is_some_and(|&(_, n)| *by_start[n].end <= *place)
        {
            over.pop();
        }
        if let Some(&(_, newest)) = over.peek() {
            see(by_start[newest], place, next);
        }
    }
}
