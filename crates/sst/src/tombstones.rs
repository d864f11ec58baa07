//! Range tombstones of a table: kept in memory, asked for the newest that covers a key.
//!
//! They may overlap in any way. The set is a balanced tree laid out in an array sorted by start, each
//! node with the greatest end and the newest below it, so that a look passes over what ends before the
//! key or is older than what it has found. (A reader of the past passes over little where nearly all
//! that covers the key is newer than it is: readers of the past are few.) Memory stays linear in what
//! was read, whatever the overlaps, where cutting them into disjoint fragments could square it.

use std::cmp::Ordering;
use std::ops::{Range, RangeInclusive};

use thermocline_base::numbers::{len_of, len32};
use thermocline_base::planted::{self, Bug};
use thermocline_base::varint::{put_varint, varint};
use thermocline_base::{SeqNo, limits};

use crate::format::coding::{Unreadable, damaged};
use crate::format::{END_AS_BEFORE, START_AS_BEFORE};
use crate::key::KeyRef;

/// All keys from `start` up to, and not with, `end` have no value older than `seqno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeTombstone<'a> {
    /// The first key that it covers.
    pub start: &'a [u8],
    /// The first key behind it.
    pub end: &'a [u8],
    /// When it was written.
    pub seqno: SeqNo,
}

impl RangeTombstone<'_> {
    /// Whether it covers `key`.
    pub fn covers(&self, key: &[u8]) -> bool {
        let behind = match planted::active(Bug::TombstoneCoversEnd) {
            true => key > self.end,
            false => key >= self.end,
        };
        self.start <= key && !behind
    }

    /// Appends it behind the one `before`, with which it may share keys.
    pub(crate) fn encode(&self, before: Option<&RangeTombstone<'_>>, out: &mut Vec<u8>) {
        // To say that a start is as before takes three bytes.
        let same_start = before.is_some_and(|b| b.start == self.start && b.start.len() > 2);
        let same_end = before.is_some_and(|b| b.end == self.end);
        let len = |same: bool, as_before: u64, key: &[u8]| match same {
            true => as_before,
            false => key.len() as u64,
        };
        put_varint(out, len(same_start, START_AS_BEFORE, self.start));
        put_varint(out, len(same_end, END_AS_BEFORE, self.end));
        put_varint(out, self.seqno.0);
        if !same_start {
            out.extend_from_slice(self.start);
        }
        if !same_end {
            out.extend_from_slice(self.end);
        }
    }
}

/// Where a tombstone lies in the payload.
#[derive(Debug, Clone, Copy)]
struct Spot {
    seqno: SeqNo,
    start: u32,
    end: u32,
    start_len: u16,
    end_len: u16,
}

/// The range tombstones of a table, by start, then newest first.
#[derive(Debug, Default)]
pub(crate) struct RangeTombstones {
    bytes: Vec<u8>,
    spots: Vec<Spot>,
    /// For the middle of each subtree, which of its tombstones has the greatest end.
    furthest: Vec<u32>,
    /// And which is the newest.
    newest: Vec<u32>,
}

impl RangeTombstones {
    /// Checks the payload of their block and keeps it. Allocates at most a small multiple of it.
    pub fn decode(bytes: Vec<u8>) -> Result<RangeTombstones, Unreadable> {
        let spots = Vec::with_capacity(count(&bytes));
        let mut set = RangeTombstones {
            bytes,
            spots,
            furthest: Vec::new(),
            newest: Vec::new(),
        };
        let mut at = 0;
        while at < set.bytes.len() {
            let wrong = |what| damaged(what, at, "one", "none");
            let (spot, end) = spot_at(&set.bytes, at, set.spots.last())
                .ok_or_else(|| wrong("range tombstone"))?;
            set.spots.push(spot);
            let last = set.spots.len() - 1;
            let new = set.get(last);
            let before = last.checked_sub(1).map(|n| set.get(n));
            let behind = |b: RangeTombstone<'_>| {
                let newer_first = || new.seqno.cmp(&b.seqno);
                order(b.start, new.start).then_with(newer_first).is_lt()
            };
            if !before.is_none_or(behind) {
                return Err(wrong("range tombstone behind the one before"));
            }
            let known = before.is_some_and(|b| same(b.start, new.start) && same(b.end, new.end));
            if !known && new.start >= new.end {
                return Err(wrong("range tombstone that covers something"));
            }
            at = end;
        }
        set.furthest = vec![0; set.spots.len()];
        set.newest = vec![0; set.spots.len()];
        set.fill(0..set.spots.len());
        Ok(set)
    }

    fn get(&self, n: usize) -> RangeTombstone<'_> {
        let spot = &self.spots[n];
        let key = |at, len| &self.bytes[len_of(at)..][..usize::from(len)];
        RangeTombstone {
            start: key(spot.start, spot.start_len),
            end: key(spot.end, spot.end_len),
            seqno: spot.seqno,
        }
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = RangeTombstone<'_>> {
        (0..self.spots.len()).map(|n| self.get(n))
    }

    /// The first of them, the furthest end, and the seqnos of all; none if there are none.
    pub fn bounds(&self) -> Option<(KeyRef<'_>, &[u8], RangeInclusive<SeqNo>)> {
        let first = self.iter().next()?;
        let furthest = self.furthest[self.spots.len() / 2];
        let oldest = self.spots.iter().map(|spot| spot.seqno).min()?;
        let newest = self.spots[len_of(self.newest[self.spots.len() / 2])].seqno;
        let first = KeyRef::new(first.start, first.seqno);
        Some((first, self.get(len_of(furthest)).end, oldest..=newest))
    }

    /// Bytes of memory.
    pub fn charge(&self) -> usize {
        let spots = self.spots.capacity() * size_of::<Spot>();
        self.bytes.capacity() + spots + 4 * (self.furthest.capacity() + self.newest.capacity())
    }

    /// The newest tombstone, at or below `at`, that covers `key`.
    pub fn newest_over(&self, key: &[u8], at: SeqNo) -> Option<RangeTombstone<'_>> {
        let mut newest = None;
        self.visit(key, at, 0..self.spots.len(), &mut newest);
        newest.map(|n| self.get(n))
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
        let so_far = newest.map(|n| self.spots[n].seqno);
        let newer = so_far < Some(self.spots[len_of(self.newest[middle])].seqno);
        if !newer || self.get(len_of(self.furthest[middle])).end < key {
            return 1;
        }
        let tombstone = self.get(middle);
        if tombstone.covers(key) && tombstone.seqno <= at && so_far < Some(tombstone.seqno) {
            *newest = Some(middle);
        }
        // Behind the middle are the later starts: nested tombstones are mostly newer there.
        let behind = match tombstone.start <= key {
            true => self.visit(key, at, middle + 1..range.end, newest),
            false => 0,
        };
        1 + behind + self.visit(key, at, range.start..middle, newest)
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
        [self.furthest[middle], self.newest[middle]] = best;
        Some(best)
    }
}

/// Whether these are the same bytes in memory: keys that stand before are.
fn same(a: &[u8], b: &[u8]) -> bool {
    std::ptr::eq(a, b)
}

/// How keys order, without reading them where they are the same: thousands may share long ones.
pub(crate) fn order(a: &[u8], b: &[u8]) -> Ordering {
    match same(a, b) {
        true => Ordering::Equal,
        false => a.cmp(b),
    }
}

/// How many there can be at most: so that their memory is taken once.
fn count(bytes: &[u8]) -> usize {
    let next = |(spot, at): &(Spot, usize)| spot_at(bytes, *at, Some(spot));
    std::iter::successors(spot_at(bytes, 0, None), next).count()
}

/// The tombstone at `at`, behind the one `before`, if one can be there, and where it ends.
fn spot_at(bytes: &[u8], mut at: usize, before: Option<&Spot>) -> Option<(Spot, usize)> {
    let start_len = varint(bytes, &mut at)?;
    let end_len = varint(bytes, &mut at)?;
    let seqno = SeqNo(varint(bytes, &mut at)?);
    let mut key = |len: u64| {
        let begin = u32::try_from(at).ok()?;
        let len = u16::try_from(len).ok()?;
        at += usize::from(len);
        Some((begin, len))
    };
    let (start, start_len) = match start_len {
        START_AS_BEFORE => before.map(|b| (b.start, b.start_len))?,
        len => key(len)?,
    };
    let (end, end_len) = match end_len {
        END_AS_BEFORE => before.map(|b| (b.end, b.end_len))?,
        len => key(len)?,
    };
    let spot = Spot {
        seqno,
        start,
        end,
        start_len,
        end_len,
    };
    (at <= bytes.len() && seqno != SeqNo::MAX).then_some((spot, at))
}

const _: () = assert!(limits::KEY_LEN_MAX == u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_testkit::Rng;

    type Owned = (Vec<u8>, Vec<u8>, SeqNo);

    fn random(rng: &mut Rng, n: usize) -> Vec<Owned> {
        let key = |rng: &mut Rng| vec![b'a' + rng.next_u64().to_le_bytes()[0] % 9; rng.below(3)];
        let mut list = Vec::new();
        while list.len() < n {
            let (start, end) = (key(rng), key(rng));
            let seqno = SeqNo(rng.below(1000) as u64);
            if start < end {
                list.push((start, end, seqno));
            }
        }
        list.sort_by(|a: &Owned, b| a.0.cmp(&b.0).then(b.2.cmp(&a.2)));
        list.dedup_by(|a, b| (&a.0, a.2) == (&b.0, b.2));
        list
    }

    fn encoded(list: &[Owned]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        let mut before = None;
        for (start, end, seqno) in list {
            let seqno = *seqno;
            let tombstone = RangeTombstone { start, end, seqno };
            tombstone.encode(before.as_ref(), &mut bytes);
            before = Some(tombstone);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn the_newest_over_a_key_is_that_of_a_search_through_all() {
        let mut rng = Rng::new(5);
        let mut covered = 0;
        for n in (0..40).chain([300]) {
            let list = random(&mut rng, n);
            let set = RangeTombstones::decode(encoded(&list).0).unwrap();
            let found = set
                .iter()
                .map(|t| (t.start.to_vec(), t.end.to_vec(), t.seqno));
            assert!(found.eq(list.iter().cloned()));
            for key in [
                "", "a", "aa", "b", "bb", "c", "d", "dd", "f", "h", "i", "ii", "j",
            ] {
                for at in [0, 1, 200, 500, 999, 1000] {
                    let (key, at) = (key.as_bytes(), SeqNo(at));
                    let seen = list.iter().filter(|(start, end, seqno)| {
                        &start[..] <= key && key < &end[..] && *seqno <= at
                    });
                    let newest = seen.map(|t| t.2).max();
                    let found = set.newest_over(key, at);
                    assert_eq!(found.map(|t| t.seqno), newest);
                    assert!(found.is_none_or(|t| t.covers(key)));
                    covered += u32::from(newest.is_some());
                }
            }
        }
        assert!(covered > 100);
    }

    /// However many cover a key, few are looked at; whether the inner ones are newer, or the outer ones.
    #[test]
    fn nested_tombstones_are_not_all_looked_at() {
        for inner_is_newer in [true, false] {
            let nested = |n: u64| {
                let seqno = if inner_is_newer { n } else { 20_000 - n };
                let (start, end) = (n.to_be_bytes(), (50_000 - n).to_be_bytes());
                (start.to_vec(), end.to_vec(), SeqNo(seqno))
            };
            let list: Vec<Owned> = (0..10_000).map(nested).collect();
            let set = RangeTombstones::decode(encoded(&list).0).unwrap();
            for key in [0, 1, 5000, 9999, 10_000, 30_000, 45_000, 49_999, 60_000] {
                let key = &u64::to_be_bytes(key)[..];
                let mut newest = None;
                let looked_at = set.visit(key, SeqNo(1 << 20), 0..list.len(), &mut newest);
                let covering = list.iter().filter(|t| &t.0[..] <= key && key < &t.1[..]);
                let newest = newest.map(|n| set.get(n).seqno);
                assert_eq!(newest, covering.map(|t| t.2).max());
                assert!(looked_at < 100, "{looked_at}");
            }
        }
    }

    /// What overlaps and is cut at the same places has its keys once.
    #[test]
    fn keys_that_stand_before_are_not_written_again() {
        let key = |n: u8| [&[n][..], &[b'x'; 1000]].concat();
        let (a, b) = (key(1), key(9));
        let cut: Vec<Owned> = (0..500)
            .map(|n| (a.clone(), b.clone(), SeqNo(1000 - n)))
            .collect();
        let (bytes, _) = encoded(&cut);
        assert!(bytes.len() < 2010 + 500 * 7, "{}", bytes.len());
        // Starts of their own, and one end; one start, and ends of their own.
        let starts: Vec<Owned> = (1..5).map(|n| (key(n), b.clone(), SeqNo(5))).collect();
        assert!(encoded(&starts).0.len() < 5 * 1010);
        let ends: Vec<Owned> = (2..6)
            .map(|n| (a.clone(), key(n), SeqNo(9 - u64::from(n))))
            .collect();
        assert!(encoded(&ends).0.len() < 5 * 1010);
        for list in [cut, starts, ends] {
            let set = RangeTombstones::decode(encoded(&list).0).unwrap();
            let found = set
                .iter()
                .map(|t| (t.start.to_vec(), t.end.to_vec(), t.seqno));
            assert!(found.eq(list));
        }
    }

    /// The bytes are those of tables that were written before keys could be as before.
    #[test]
    fn keys_that_are_written_again_are_read() {
        let plain = |start: &[u8], end: &[u8], seqno: u8| {
            let lens = [start.len(), end.len()].map(|len| u8::try_from(len).unwrap());
            [&lens[..], &[seqno], start, end].concat()
        };
        let bytes = [plain(b"aaaa", b"c", 9), plain(b"aaaa", b"c", 8)].concat();
        let set = RangeTombstones::decode(bytes).unwrap();
        assert!(set.iter().all(|t| (t.start, t.end) == (b"aaaa", b"c")));
        let over = set.newest_over(b"b", SeqNo(8)).map(|t| t.seqno);
        assert_eq!(over, Some(SeqNo(8)));
    }

    #[test]
    fn cut_or_disordered_bytes_are_refused() {
        let (bytes, ends) = encoded(&random(&mut Rng::new(6), 5));
        for len in 1..bytes.len() {
            let whole = ends.contains(&len);
            assert_eq!(
                RangeTombstones::decode(bytes[..len].to_vec()).is_ok(),
                whole
            );
        }
        assert!(RangeTombstones::decode(bytes.repeat(2)).is_err());
        // The first has nothing before it.
        assert!(RangeTombstones::decode(vec![1, 0, 5, b'a']).is_err());
        assert!(RangeTombstones::decode(vec![0x80, 0x80, 4, 1, 5, b'a']).is_err());
        let empty: Owned = (b"a".to_vec(), b"a".to_vec(), SeqNo(1));
        assert!(RangeTombstones::decode(encoded(&[empty]).0).is_err());
    }
}
