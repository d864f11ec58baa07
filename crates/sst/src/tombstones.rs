//! Range tombstones of a table: kept in memory, asked for the newest that covers a key.
//!
//! They may overlap in any way. The set is a balanced tree laid out in an array sorted by start, each
//! node with the greatest end and the newest below it, so that a look passes over what ends before the
//! key or is older than what it has found. (A reader of the past passes over little where nearly all
//! that covers the key is newer than it is: readers of the past are few.) Memory stays linear in what
//! was read, whatever the overlaps, where cutting them into disjoint fragments could square it.

use std::ops::Range;

use thermocline_base::planted::{self, Bug};
use thermocline_base::{SeqNo, limits};

use crate::format::coding::{Unreadable, damaged, len_of, len32, put_varint, varint};

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

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.start.len() as u64);
        put_varint(out, self.end.len() as u64);
        put_varint(out, self.seqno.0);
        out.extend_from_slice(self.start);
        out.extend_from_slice(self.end);
    }
}

/// Where a tombstone lies in the payload.
#[derive(Debug, Clone, Copy)]
struct Spot {
    seqno: SeqNo,
    /// Of the start; the end follows it.
    at: u32,
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
            let (spot, end) = spot_at(&set.bytes, at).ok_or_else(|| wrong("range tombstone"))?;
            set.spots.push(spot);
            let last = set.spots.len() - 1;
            let new = set.get(last);
            let before = last.checked_sub(1).map(|n| set.get(n));
            if before.is_some_and(|b| (b.start, new.seqno) >= (new.start, b.seqno)) {
                return Err(wrong("range tombstone behind the one before"));
            }
            if new.start >= new.end {
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
        let Spot {
            seqno,
            at,
            start_len,
            end_len,
        } = self.spots[n];
        let (_, keys) = self.bytes.split_at(len_of(at));
        let (start, rest) = keys.split_at(usize::from(start_len));
        RangeTombstone {
            start,
            end: &rest[..usize::from(end_len)],
            seqno,
        }
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = RangeTombstone<'_>> {
        (0..self.spots.len()).map(|n| self.get(n))
    }

    /// Bytes of memory.
    pub fn charge(&self) -> usize {
        let spots = self.spots.capacity() * size_of::<Spot>();
        self.bytes.capacity() + spots + 4 * (self.furthest.capacity() + self.newest.capacity())
    }

    /// The newest tombstone, at or below `at`, that covers `key`.
    pub fn newest_over(&self, key: &[u8], at: SeqNo) -> Option<SeqNo> {
        let mut newest = None;
        self.visit(key, at, 0..self.spots.len(), &mut newest);
        newest
    }

    /// Looks for something newer than `newest` in a subtree; returns how many tombstones it looked at.
    fn visit(
        &self,
        key: &[u8],
        at: SeqNo,
        range: Range<usize>,
        newest: &mut Option<SeqNo>,
    ) -> usize {
        if range.is_empty() {
            return 0;
        }
        let middle = range.start.midpoint(range.end);
        let newer = *newest < Some(self.spots[len_of(self.newest[middle])].seqno);
        if !newer || self.get(len_of(self.furthest[middle])).end < key {
            return 1;
        }
        let tombstone = self.get(middle);
        if tombstone.covers(key) && tombstone.seqno <= at {
            *newest = (*newest).max(Some(tombstone.seqno));
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
            best[0] = std::cmp::max_by_key(best[0], far, |&n| self.get(len_of(n)).end);
            best[1] = std::cmp::max_by_key(best[1], new, |&n| self.spots[len_of(n)].seqno);
        }
        [self.furthest[middle], self.newest[middle]] = best;
        Some(best)
    }
}

/// How many there can be at most: so that their memory is taken once.
fn count(bytes: &[u8]) -> usize {
    let next = |at: &usize| spot_at(bytes, *at).map(|(_, end)| end);
    std::iter::successors(Some(0), next).skip(1).count()
}

/// The tombstone at `at`, if one can be there, and where it ends.
fn spot_at(bytes: &[u8], mut at: usize) -> Option<(Spot, usize)> {
    let start_len = u16::try_from(varint(bytes, &mut at)?).ok()?;
    let end_len = u16::try_from(varint(bytes, &mut at)?).ok()?;
    let seqno = SeqNo(varint(bytes, &mut at)?);
    let end = at + usize::from(start_len) + usize::from(end_len);
    let fits = end <= bytes.len() && seqno != SeqNo::MAX;
    let spot = Spot {
        seqno,
        at: u32::try_from(at).ok()?,
        start_len,
        end_len,
    };
    fits.then_some((spot, end))
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
        for (start, end, seqno) in list {
            let seqno = *seqno;
            RangeTombstone { start, end, seqno }.encode(&mut bytes);
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
                    assert_eq!(set.newest_over(key, at), newest);
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
                assert_eq!(newest, covering.map(|t| t.2).max());
                assert!(looked_at < 100, "{looked_at}");
            }
        }
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
        let empty: Owned = (b"a".to_vec(), b"a".to_vec(), SeqNo(1));
        assert!(RangeTombstones::decode(encoded(&[empty]).0).is_err());
    }
}
