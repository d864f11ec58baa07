//! Range tombstones, and the set of those of a table.
//!
//! [`RangeTombstones`] never change: an open table keeps them in memory, and is asked for the newest one that covers
//! a key. They may overlap in any way. The set is a balanced tree laid out in an array sorted by start. The furthest
//! end and the newest seqno of each subtree are known, so that a look passes over subtrees that end before the key or
//! are older than what it has found. (A reader of the past passes over little if nearly all tombstones over the key
//! are newer than the reader. Such readers are few.) Memory stays linear in the bytes that were read, whatever the
//! overlaps. Cutting them into disjoint fragments could square it.
//!
//! Two other structures look alike and are not. A memtable's tombstones grow while they are read, and every reader
//! has the state of its moment: a persistent map of fragments (`memtable::tombstones`). A merge asks for keys in
//! their order, and for the *oldest* tombstone over an entry that is newer than the entry (`compaction::retain`).

use std::cmp::Ordering;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::numbers::{len_of, len32};
use crate::planted::{self, Bug};
use crate::{CfId, KeyLimits, SeqNo, limits};

/// All keys from `start` to before `end` have no value older than `seqno`. It has keys of its own, or borrowed ones:
/// `RangeTombstone<&[u8]>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeTombstone<K = Vec<u8>> {
    /// The first key that it covers.
    pub start: K,
    /// The first key behind it.
    pub end: K,
    /// When it was written.
    pub seqno: SeqNo,
}

impl RangeTombstone {
    /// The same tombstone, borrowed.
    pub fn borrowed(&self) -> RangeTombstone<&[u8]> {
        RangeTombstone {
            start: &self.start,
            end: &self.end,
            seqno: self.seqno,
        }
    }
}

impl<'a> RangeTombstone<&'a [u8]> {
    /// The same tombstone, with keys of its own.
    pub fn owned(self) -> RangeTombstone {
        RangeTombstone {
            start: self.start.to_vec(),
            end: self.end.to_vec(),
            seqno: self.seqno,
        }
    }

    /// Whether it covers `key`.
    pub fn covers(self, key: &[u8]) -> bool {
        let behind = match planted::active(Bug::TombstoneCoversEnd) {
            true => key > self.end,
            false => key >= self.end,
        };
        self.start <= key && !behind
    }

    /// The part from `lower` on and before `upper`, if there is any.
    pub fn cut(self, lower: Option<&'a [u8]>, upper: Option<&'a [u8]>) -> Option<Self> {
        let start = lower.map_or(self.start, |lower| lower.max(self.start));
        let end = upper.map_or(self.end, |upper| upper.min(self.end));
        (start < end).then_some(RangeTombstone { start, end, ..self })
    }
}

/// The bytes of a table before the keys of a range tombstone.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    /// The family.
    pub cf: CfId,
    /// Bytes of the start; `None` if the start is that of the tombstone before.
    pub start: Option<u64>,
    /// Bytes of the end; `None` if the end is that of the tombstone before.
    pub end: Option<u64>,
    /// When it was written.
    pub seqno: SeqNo,
}

/// One tombstone: where its keys lie in the bytes.
#[derive(Debug, Clone, Copy)]
struct Spot {
    seqno: SeqNo,
    start: u32,
    end: u32,
    start_len: u16,
    end_len: u16,
    /// In the subtree whose middle this is: the tombstone that reaches furthest, and the newest one.
    furthest: u32,
    newest: u32,
}

const _: () = assert!(limits::KEY_LEN_MAX == u16::MAX as usize);

/// The range tombstones of a table, or of a family in one: by start, then newest first. See the [module](self).
#[derive(Debug, Clone, Default)]
pub struct RangeTombstones {
    bytes: Arc<[u8]>,
    spots: Box<[Spot]>,
}

impl RangeTombstones {
    /// Decodes those that a table has as `bytes`, by family. Each has a head, which `head` reads and moves behind,
    /// then its start and its end if they differ from those before. Allocates a small multiple of the bytes. `Err` is
    /// the place where they are wrong.
    pub fn decode(
        bytes: &[u8],
        head: fn(&[u8], &mut usize) -> Option<Head>,
    ) -> Result<Vec<(CfId, RangeTombstones)>, usize> {
        let mut families: Vec<(CfId, Vec<Spot>)> = Vec::new();
        let (mut at, mut last) = (0, None);
        while at < bytes.len() {
            let begin = at;
            let head = head(bytes, &mut at).ok_or(begin)?;
            let spot = Spot::read(bytes, &mut at, &head, last.as_ref()).ok_or(begin)?;
            let (family, before) = match families.last_mut() {
                Some((cf, list)) if *cf == head.cf => (list, last.as_ref()),
                other if other.as_ref().is_none_or(|(cf, _)| *cf < head.cf) => {
                    families.push((head.cf, Vec::new()));
                    (&mut families.last_mut().expect("it was pushed").1, None)
                }
                _ => return Err(begin),
            };
            if !spot.is_sound(bytes, before) {
                return Err(begin);
            }
            family.push(spot);
            last = Some(spot);
        }
        let bytes: Arc<[u8]> = bytes.into();
        let set = |(cf, spots): (CfId, Vec<Spot>)| {
            let (bytes, spots) = (Arc::clone(&bytes), spots.into());
            let mut set = RangeTombstones { bytes, spots };
            set.fill(0..set.spots.len());
            (cf, set)
        };
        Ok(families.into_iter().map(set).collect())
    }

    fn get(&self, n: usize) -> RangeTombstone<&[u8]> {
        self.spots[n].of(&self.bytes)
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RangeTombstone<&[u8]>> {
        self.spots.iter().map(|spot| spot.of(&self.bytes))
    }

    /// The furthest end, and the oldest and the newest seqno; `None` if there are none.
    pub fn reach(&self) -> Option<(&[u8], RangeInclusive<SeqNo>)> {
        let top = self.spots.get(self.spots.len() / 2)?;
        let oldest = self.spots.iter().map(|spot| spot.seqno).min()?;
        let newest = self.spots[len_of(top.newest)].seqno;
        let end = self.get(len_of(top.furthest)).end;
        Some((end, oldest..=newest))
    }

    /// Bytes of memory, without [`RangeTombstones::key_bytes`].
    pub fn charge(&self) -> usize {
        size_of_val(&*self.spots)
    }

    /// Bytes of memory of the decoded bytes, which the families of a table share.
    pub fn key_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The newest tombstone, at or below `at`, that covers `key`.
    pub fn newest_over(&self, key: &[u8], at: SeqNo) -> Option<RangeTombstone<&[u8]>> {
        let mut newest = None;
        self.visit(key, at, 0..self.spots.len(), &mut newest);
        newest.map(|n| self.get(n))
    }

    /// The newest tombstone within `limits`, at or below `at`, that covers `key`, as the limits cut it.
    pub fn covering<'a>(
        &'a self,
        limits: &'a KeyLimits,
        key: &[u8],
        at: SeqNo,
    ) -> Option<RangeTombstone<&'a [u8]>> {
        let newest = limits.hold(key).then(|| self.newest_over(key, at))?;
        newest?.cut(limits.lower(), limits.upper())
    }

    /// Of the tombstones within `limits`, at or below `at`, that begin before `key` and end there or behind it: the one that begins
    /// first, as the limits cut it. So what is covered from `key` on is covered from its start on.
    pub fn reaching<'a>(
        &'a self,
        limits: &'a KeyLimits,
        key: &[u8],
        at: SeqNo,
    ) -> Option<RangeTombstone<&'a [u8]>> {
        let begins = limits.lower().is_none_or(|lower| lower < key);
        let ends = limits.upper().is_some_and(|upper| upper < key);
        if !begins || ends {
            return None;
        }
        let first = self.first_reaching(key, at, 0..self.spots.len())?;
        self.get(first).cut(limits.lower(), limits.upper())
    }

    /// All tombstones as `limits` cut them, by start, then newest first, as the writers of tables take them. Of
    /// tombstones that begin together and are equally new, only the one that reaches furthest.
    pub fn within<'a>(
        &'a self,
        limits: &'a KeyLimits,
    ) -> impl Iterator<Item = RangeTombstone<&'a [u8]>> {
        let cut = |t: RangeTombstone<&'a [u8]>| t.cut(limits.lower(), limits.upper());
        let mut cut: Vec<_> = self.iter().filter_map(cut).collect();
        // Tombstones that were cut at the lower limit begin together now.
        cut.sort_by(|a, b| {
            let newer_first = || (b.seqno, b.end).cmp(&(a.seqno, a.end));
            order(a.start, b.start).then_with(newer_first)
        });
        cut.dedup_by_key(|t| (t.start, t.seqno));
        cut.into_iter()
    }

    /// Looks for something newer than `newest` in a subtree; returns how many tombstones it looked at.
    fn visit(
        &self,
        key: &[u8],
        at: SeqNo,
        range: Range<usize>,
        newest: &mut Option<usize>,
    ) -> usize {
        if range.is_empty() {
            return 0;
        }
        let middle = range.start.midpoint(range.end);
        let spot = &self.spots[middle];
        let so_far = newest.map(|n| self.spots[n].seqno);
        let newer = so_far < Some(self.spots[len_of(spot.newest)].seqno);
        if !newer || self.get(len_of(spot.furthest)).end < key {
            return 1;
        }
        let tombstone = spot.of(&self.bytes);
        if tombstone.covers(key) && tombstone.seqno <= at && so_far < Some(tombstone.seqno) {
            *newest = Some(middle);
        }
        // The later starts come after the middle: nested tombstones are mostly newer there.
        let behind = match tombstone.start <= key {
            true => self.visit(key, at, middle + 1..range.end, newest),
            false => 0,
        };
        1 + behind + self.visit(key, at, range.start..middle, newest)
    }

    /// As [`RangeTombstones::reaching`], in a subtree and without limits. It goes down where something reaches the key: mostly that
    /// begins before it, and is what is looked for.
    fn first_reaching(&self, key: &[u8], at: SeqNo, range: Range<usize>) -> Option<usize> {
        if range.is_empty() {
            return None;
        }
        let middle = range.start.midpoint(range.end);
        let spot = &self.spots[middle];
        if self.get(len_of(spot.furthest)).end < key {
            return None;
        }
        if let Some(before) = self.first_reaching(key, at, range.start..middle) {
            return Some(before);
        }
        let tombstone = spot.of(&self.bytes);
        if tombstone.start >= key {
            return None;
        }
        match tombstone.end >= key && tombstone.seqno <= at {
            true => Some(middle),
            false => self.first_reaching(key, at, middle + 1..range.end),
        }
    }

    /// Fills in which tombstone of each subtree reaches furthest, and which is the newest; returns those
    /// of the whole.
    fn fill(&mut self, range: Range<usize>) -> Option<[u32; 2]> {
        if range.is_empty() {
            return None;
        }
        let middle = range.start.midpoint(range.end);
        let below = [
            self.fill(range.start..middle),
            self.fill(middle + 1..range.end),
        ];
        let mut best = [len32(middle); 2];
        for [far, new] in below.into_iter().flatten() {
            let by_end =
                |a: &u32, b: &u32| order(self.get(len_of(*a)).end, self.get(len_of(*b)).end);
            best[0] = std::cmp::max_by(best[0], far, by_end);
            best[1] = std::cmp::max_by_key(best[1], new, |&n| self.spots[len_of(n)].seqno);
        }
        [self.spots[middle].furthest, self.spots[middle].newest] = best;
        Some(best)
    }
}

impl Spot {
    /// Reads the keys at `at` that `head` describes, after the tombstone `before`, and moves behind them.
    fn read(bytes: &[u8], at: &mut usize, head: &Head, before: Option<&Spot>) -> Option<Spot> {
        let mut key = |len: Option<u64>, as_before: Option<(u32, u16)>| {
            let Some(len) = len else { return as_before };
            let place = (u32::try_from(*at).ok()?, u16::try_from(len).ok()?);
            *at += usize::from(place.1);
            Some(place)
        };
        let (start, start_len) = key(head.start, before.map(|b| (b.start, b.start_len)))?;
        let (end, end_len) = key(head.end, before.map(|b| (b.end, b.end_len)))?;
        let spot = Spot {
            seqno: head.seqno,
            start,
            end,
            start_len,
            end_len,
            furthest: 0,
            newest: 0,
        };
        (*at <= bytes.len() && head.seqno != SeqNo::MAX).then_some(spot)
    }

    fn of<'a>(&self, bytes: &'a [u8]) -> RangeTombstone<&'a [u8]> {
        let key = |at, len| &bytes[len_of(at)..][..usize::from(len)];
        RangeTombstone {
            start: key(self.start, self.start_len),
            end: key(self.end, self.end_len),
            seqno: self.seqno,
        }
    }

    /// Whether it covers a key, and may come after the tombstone `before` of its family.
    fn is_sound(&self, bytes: &[u8], before: Option<&Spot>) -> bool {
        let own = self.of(bytes);
        let Some(before) = before.map(|spot| spot.of(bytes)) else {
            return own.start < own.end;
        };
        let newer_first = || own.seqno.cmp(&before.seqno);
        let known = same(before.start, own.start) && same(before.end, own.end);
        order(before.start, own.start)
            .then_with(newer_first)
            .is_lt()
            && (known || own.start < own.end)
    }
}

/// Whether these are the same bytes in memory, as keys are that repeat those before.
fn same(a: &[u8], b: &[u8]) -> bool {
    std::ptr::eq(a, b)
}

/// How keys order. Equal bytes in memory are not read: thousands of tombstones may share long keys.
fn order(a: &[u8], b: &[u8]) -> Ordering {
    match same(a, b) {
        true => Ordering::Equal,
        false => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of 8-byte keys, without a family.
    fn head(bytes: &[u8], at: &mut usize) -> Option<Head> {
        let seqno = crate::numbers::u64_at(bytes, *at);
        *at += 8;
        Some(Head {
            cf: CfId(0),
            start: Some(8),
            end: Some(8),
            seqno: SeqNo(seqno),
        })
    }

    /// It is what a look at all of them finds, within limits and for readers of the past, too.
    #[test]
    fn the_first_tombstone_that_reaches_a_key_is_found() {
        let mut state = 7_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005);
            state = state.wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let key = |n: u64| n.to_be_bytes();
        for _ in 0..300 {
            let mut list = Vec::new();
            for seqno in 1..=1 + below(12) {
                let start = below(20);
                list.push((start, std::cmp::Reverse(seqno), start + 1 + below(8)));
            }
            list.sort_unstable();
            let one = |&(start, seqno, end): &(u64, std::cmp::Reverse<u64>, u64)| {
                [seqno.0.to_le_bytes(), key(start), key(end)].concat()
            };
            let bytes: Vec<u8> = list.iter().flat_map(one).collect();
            let (_, set) = RangeTombstones::decode(&bytes, head).unwrap().remove(0);
            let (lower, upper) = (below(12), 12 + below(16));
            let limits = KeyLimits::new(Some(&key(lower)), Some(&key(upper)));
            let none = (KeyLimits::default(), 0, u64::MAX);
            for (limits, lower, upper) in [none, (limits, lower, upper)] {
                for (n, at) in (0..30).flat_map(|n| [(n, 3), (n, 6), (n, 100)]) {
                    let seen = list.iter().filter(|t| t.1.0 <= at);
                    let cut = seen.map(|t| (t.0.max(lower), t.2.min(upper)));
                    let reach = cut.filter(|&(start, end)| start < n && n <= end);
                    let wanted = reach.map(|(start, _)| key(start).to_vec()).min();
                    let found = set.reaching(&limits, &key(n), SeqNo(at));
                    assert_eq!(found.map(|t| t.start.to_vec()), wanted, "{list:?} {n} {at}");
                    assert!(found.is_none_or(|t| *t.end >= key(n)[..] && t.seqno.0 <= at));
                }
            }
        }
    }

    /// However many cover a key, few are looked at; whether the inner ones are newer, or the outer ones.
    #[test]
    fn nested_tombstones_are_not_all_looked_at() {
        for inner_is_newer in [true, false] {
            let nested = |n: u64| {
                let seqno = if inner_is_newer { n } else { 20_000 - n };
                (n, 50_000 - n, seqno)
            };
            let list: Vec<(u64, u64, u64)> = (0..10_000).map(nested).collect();
            let one = |&(start, end, seqno): &(u64, u64, u64)| {
                [seqno.to_le_bytes(), start.to_be_bytes(), end.to_be_bytes()].concat()
            };
            let bytes: Vec<u8> = list.iter().flat_map(one).collect();
            let (_, set) = RangeTombstones::decode(&bytes, head).unwrap().remove(0);
            for key in [0, 1, 5000, 9999, 10_000, 30_000, 45_000, 49_999, 60_000] {
                let mut newest = None;
                let bytes = u64::to_be_bytes(key);
                let looked_at = set.visit(&bytes, SeqNo(1 << 20), 0..list.len(), &mut newest);
                let covering = list.iter().filter(|t| t.0 <= key && key < t.1);
                let newest = newest.map(|n| set.get(n).seqno.0);
                assert_eq!(newest, covering.map(|t| t.2).max());
                assert!(looked_at < 100, "{looked_at}");
            }
        }
    }
}
