//! Range tombstones of a table: kept in memory, asked for the newest that covers a key.
//!
//! They may overlap in any way. The set is a balanced tree laid out in an array sorted by start, each
//! node with the greatest end below it: memory stays linear in what was read, whatever the overlaps,
//! where cutting them into disjoint fragments could square it.

use thermocline_base::planted::{self, Bug};
use thermocline_base::{SeqNo, limits};

use crate::format::coding::{Unreadable, damaged, put_varint, varint, varlen};

/// All keys from `start` up to, and not with, `end` have no value older than `seqno`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The first key that it covers.
    pub start: Vec<u8>,
    /// The first key behind it.
    pub end: Vec<u8>,
    /// When it was written.
    pub seqno: SeqNo,
}

impl RangeTombstone {
    /// Whether it covers `key`.
    pub fn covers(&self, key: &[u8]) -> bool {
        let behind = match planted::active(Bug::TombstoneCoversEnd) {
            true => key > &self.end[..],
            false => key >= &self.end[..],
        };
        &self.start[..] <= key && !behind
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.start.len() as u64);
        put_varint(out, self.end.len() as u64);
        put_varint(out, self.seqno.0);
        out.extend_from_slice(&self.start);
        out.extend_from_slice(&self.end);
    }
}

/// The range tombstones of a table, by start, then newest first.
#[derive(Debug, Default)]
pub(crate) struct RangeTombstones {
    list: Vec<RangeTombstone>,
    /// For the middle of each subtree, which of its tombstones has the greatest end.
    furthest: Vec<u32>,
}

impl RangeTombstones {
    /// Reads the payload of their block.
    pub fn decode(bytes: &[u8]) -> Result<RangeTombstones, Unreadable> {
        let mut list: Vec<RangeTombstone> = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let begin = at;
            let wrong = || damaged("range tombstone", begin, "one", "none");
            let tombstone = decode_one(bytes, &mut at).ok_or_else(wrong)?;
            let ascends = list
                .last()
                .is_none_or(|last| (&last.start, tombstone.seqno) < (&tombstone.start, last.seqno));
            if !ascends {
                return Err(damaged(
                    "order of range tombstones",
                    begin,
                    "ascending",
                    "not",
                ));
            }
            list.push(tombstone);
        }
        Ok(RangeTombstones::new(list))
    }

    /// Of a list in order.
    pub fn new(list: Vec<RangeTombstone>) -> RangeTombstones {
        let mut furthest = vec![0; list.len()];
        fill(&list, &mut furthest, 0..list.len());
        RangeTombstones { list, furthest }
    }

    pub fn list(&self) -> &[RangeTombstone] {
        &self.list
    }

    /// Bytes of memory.
    pub fn charge(&self) -> usize {
        let each = |t: &RangeTombstone| t.start.capacity() + t.end.capacity();
        let list = self.list.capacity() * size_of::<RangeTombstone>();
        list + self.list.iter().map(each).sum::<usize>() + 4 * self.furthest.capacity()
    }

    /// The newest tombstone, at or below `at`, that covers `key`.
    pub fn newest_over(&self, key: &[u8], at: SeqNo) -> Option<SeqNo> {
        let mut newest = None;
        self.visit(key, 0..self.list.len(), &mut |seqno| {
            if seqno <= at && newest < Some(seqno) {
                newest = Some(seqno);
            }
        });
        newest
    }

    fn visit(&self, key: &[u8], range: std::ops::Range<usize>, see: &mut dyn FnMut(SeqNo)) {
        if range.is_empty() {
            return;
        }
        let middle = range.start.midpoint(range.end);
        let furthest = &self.list[self.furthest[middle] as usize];
        if &furthest.end[..] < key {
            return;
        }
        self.visit(key, range.start..middle, see);
        let tombstone = &self.list[middle];
        if tombstone.covers(key) {
            see(tombstone.seqno);
        }
        if &tombstone.start[..] <= key {
            self.visit(key, middle + 1..range.end, see);
        }
    }
}

fn decode_one(bytes: &[u8], at: &mut usize) -> Option<RangeTombstone> {
    let start_len = varlen(bytes, at)?;
    let end_len = varlen(bytes, at)?;
    let seqno = SeqNo(varint(bytes, at)?);
    if start_len > limits::KEY_LEN_MAX || end_len > limits::KEY_LEN_MAX || seqno == SeqNo::MAX {
        return None;
    }
    let start = bytes.get(*at..*at + start_len)?.to_vec();
    *at += start_len;
    let end = bytes.get(*at..*at + end_len)?.to_vec();
    *at += end_len;
    (start < end).then_some(RangeTombstone { start, end, seqno })
}

/// Fills in which tombstone of each subtree reaches furthest; returns that of the whole.
fn fill(
    list: &[RangeTombstone],
    furthest: &mut [u32],
    range: std::ops::Range<usize>,
) -> Option<u32> {
    if range.is_empty() {
        return None;
    }
    let middle = range.start.midpoint(range.end);
    let own = u32::try_from(middle).expect("the block's length bounds their number");
    let left = fill(list, furthest, range.start..middle);
    let right = fill(list, furthest, middle + 1..range.end);
    let all = [left, right].into_iter().flatten();
    let best = all.fold(own, |best, n| {
        if list[n as usize].end > list[best as usize].end {
            n
        } else {
            best
        }
    });
    furthest[middle] = best;
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_testkit::Rng;

    fn random(rng: &mut Rng, n: usize) -> Vec<RangeTombstone> {
        let key = |rng: &mut Rng| vec![b'a' + rng.next_u64().to_le_bytes()[0] % 9; rng.below(3)];
        let mut list = Vec::new();
        while list.len() < n {
            let (start, end) = (key(rng), key(rng));
            let seqno = SeqNo(rng.below(1000) as u64);
            if start < end {
                list.push(RangeTombstone { start, end, seqno });
            }
        }
        list.sort_by(|a, b| a.start.cmp(&b.start).then(b.seqno.cmp(&a.seqno)));
        list.dedup_by(|a, b| (&a.start, a.seqno) == (&b.start, b.seqno));
        list
    }

    #[test]
    fn the_newest_over_a_key_is_that_of_a_search_through_all() {
        let mut rng = Rng::new(5);
        let mut covered = 0;
        for n in (0..40).chain([300]) {
            let list = random(&mut rng, n);
            let mut bytes = Vec::new();
            list.iter().for_each(|t| t.encode(&mut bytes));
            let set = RangeTombstones::decode(&bytes).unwrap();
            assert_eq!(set.list(), list);
            for key in [
                "", "a", "aa", "b", "bb", "c", "d", "dd", "f", "h", "i", "ii", "j",
            ] {
                for at in [0, 1, 200, 500, 999, 1000] {
                    let (key, at) = (key.as_bytes(), SeqNo(at));
                    let seen = list
                        .iter()
                        .filter(|t| &t.start[..] <= key && key < &t.end[..] && t.seqno <= at);
                    let newest = seen.map(|t| t.seqno).max();
                    assert_eq!(set.newest_over(key, at), newest);
                    covered += u32::from(newest.is_some());
                }
            }
        }
        assert!(covered > 100);
    }

    #[test]
    fn cut_or_disordered_bytes_are_refused() {
        let list = random(&mut Rng::new(6), 5);
        let mut bytes = Vec::new();
        let ends: Vec<usize> = list
            .iter()
            .map(|t| (t.encode(&mut bytes), bytes.len()).1)
            .collect();
        for len in 1..bytes.len() {
            let whole = ends.contains(&len);
            assert_eq!(RangeTombstones::decode(&bytes[..len]).is_ok(), whole);
        }
        let mut twice = bytes.clone();
        twice.extend_from_slice(&bytes);
        assert!(RangeTombstones::decode(&twice).is_err());
    }
}
