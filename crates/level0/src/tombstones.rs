//! Range tombstones of a table: kept in DRAM while it is open, asked for the newest that covers a key.
//!
//! They may overlap in any way. Those of a family are sorted by start, and are the nodes of a balanced tree
//! in that order: of each subtree the furthest end and the newest seqno are known, so that a look passes
//! over what ends before the key or is older than what it has found. Memory is linear in what was written,
//! whatever the overlaps, where cutting them into disjoint pieces could square it.

use std::ops::Range;

use thermocline_base::numbers::u16_at;
use thermocline_base::varint::{put_varint, varint, varlen};
use thermocline_base::{CfId, Error, Result, SeqNo};

use crate::format::TOMBSTONES_LEN_MAX;
use crate::format::coding::take;

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
        self.start <= key && key < self.end
    }
}

/// Range tombstones on their way into a table.
#[derive(Debug, Default)]
pub(crate) struct TombstonesBuilder {
    bytes: Vec<u8>,
    count: u64,
    last: Option<(CfId, SeqNo)>,
    last_start: Vec<u8>,
    last_end: Vec<u8>,
}

impl TombstonesBuilder {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.last_start.capacity() + self.last_end.capacity()
    }

    /// The bytes of all that was added.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    pub fn add(&mut self, cf: CfId, start: &[u8], end: &[u8], seqno: SeqNo) -> Result<()> {
        let refused = |why: String| Err(Error::InvalidArgument(why));
        if let Some((last_cf, last_seqno)) = self.last {
            // Of one start the newest comes first.
            let last = (last_cf, &self.last_start[..], SeqNo(!last_seqno.0));
            if last >= (cf, start, SeqNo(!seqno.0)) {
                return refused(format!(
                    "a range tombstone at {seqno} of family {} must not be written after one at \
                     {last_seqno} of family {}: they come by start, then newest first",
                    cf.0, last_cf.0
                ));
            }
        }
        let before = self.bytes.len();
        let same_start = self.last.is_some() && self.last_start == start;
        let same_end = self.last.is_some() && self.last_end == end;
        let out = &mut self.bytes;
        out.extend_from_slice(&cf.0.to_le_bytes());
        put_varint(
            out,
            if same_start {
                0
            } else {
                start.len() as u64 + 1
            },
        );
        put_varint(out, if same_end { 0 } else { end.len() as u64 + 1 });
        put_varint(out, seqno.0);
        if !same_start {
            out.extend_from_slice(start);
        }
        if !same_end {
            out.extend_from_slice(end);
        }
        if out.len() > TOMBSTONES_LEN_MAX {
            out.truncate(before);
            return refused(format!(
                "the range tombstones of a PM table take at most {TOMBSTONES_LEN_MAX} bytes"
            ));
        }
        self.count += 1;
        self.last = Some((cf, seqno));
        self.last_start.clear();
        self.last_start.extend_from_slice(start);
        self.last_end.clear();
        self.last_end.extend_from_slice(end);
        Ok(())
    }
}

/// One of them: where its keys lie in the bytes.
#[derive(Debug, Clone)]
struct Spot {
    cf: CfId,
    seqno: SeqNo,
    start: Range<u32>,
    end: Range<u32>,
    /// In the subtree of which it is the middle: which has the furthest end, and the newest seqno.
    furthest: u32,
    newest: SeqNo,
}

/// The range tombstones of a table.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    bytes: Box<[u8]>,
    spots: Box<[Spot]>,
}

impl Tombstones {
    /// Checks what a table has of them; `Err` is where they are wrong. Allocates a small multiple.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Tombstones, usize> {
        let mut spots: Vec<Spot> = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let begin = at;
            let spot = spot_at(bytes, &mut at, spots.last()).ok_or(begin)?;
            let place = |spot: &Spot| (spot.cf, spot.start.clone(), SeqNo(!spot.seqno.0));
            if let Some(last) = spots.last() {
                let ((cf, start, seqno), (last_cf, last_start, last_seqno)) =
                    (place(&spot), place(last));
                let key = |range: Range<u32>| bytes_of(bytes, &range);
                if (last_cf, key(last_start), last_seqno) >= (cf, key(start), seqno) {
                    return Err(begin);
                }
            }
            if bytes_of(bytes, &spot.start) >= bytes_of(bytes, &spot.end) {
                return Err(begin);
            }
            spots.push(spot);
        }
        let mut set = Tombstones {
            bytes: bytes.into(),
            spots: spots.into(),
        };
        let mut from = 0;
        while from < set.spots.len() {
            let cf = set.spots[from].cf;
            let range = set.of(cf);
            from = range.end;
            set.fill(range);
        }
        Ok(set)
    }

    fn of(&self, cf: CfId) -> Range<usize> {
        let from = self.spots.partition_point(|spot| spot.cf < cf);
        let len = self.spots[from..].partition_point(|spot| spot.cf == cf);
        from..from + len
    }

    fn get(&self, n: usize) -> RangeTombstone<'_> {
        let spot = &self.spots[n];
        RangeTombstone {
            start: bytes_of(&self.bytes, &spot.start),
            end: bytes_of(&self.bytes, &spot.end),
            seqno: spot.seqno,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.spots.len()
    }

    /// Bytes of memory.
    pub fn charge(&self) -> usize {
        self.bytes.len() + self.spots.len() * size_of::<Spot>()
    }

    /// Those of a family, by start, then newest first.
    pub fn iter(&self, cf: CfId) -> impl ExactSizeIterator<Item = RangeTombstone<'_>> {
        self.of(cf).map(|n| self.get(n))
    }

    /// The newest of a family, at or below `at`, that covers `key`.
    pub fn newest_over(&self, cf: CfId, key: &[u8], at: SeqNo) -> Option<RangeTombstone<'_>> {
        if self.spots.is_empty() {
            return None;
        }
        let mut newest = None;
        self.visit(key, at, self.of(cf), &mut newest);
        newest.map(|n| self.get(n))
    }

    fn visit(&self, key: &[u8], at: SeqNo, range: Range<usize>, newest: &mut Option<usize>) {
        if range.is_empty() {
            return;
        }
        let middle = range.start.midpoint(range.end);
        let spot = &self.spots[middle];
        let so_far = newest.map(|n| self.spots[n].seqno);
        let furthest = self.get(thermocline_base::size::index(spot.furthest.into()));
        if so_far >= Some(spot.newest) || furthest.end <= key {
            return;
        }
        let tombstone = self.get(middle);
        if tombstone.covers(key) && tombstone.seqno <= at && so_far < Some(tombstone.seqno) {
            *newest = Some(middle);
        }
        // Behind the middle are the later starts: nested tombstones are mostly newer there.
        if tombstone.start <= key {
            self.visit(key, at, middle + 1..range.end, newest);
        }
        self.visit(key, at, range.start..middle, newest);
    }

    /// Fills in what each subtree has; returns that of the whole.
    fn fill(&mut self, range: Range<usize>) -> Option<(u32, SeqNo)> {
        if range.is_empty() {
            return None;
        }
        let middle = range.start.midpoint(range.end);
        let below = [
            self.fill(range.start..middle),
            self.fill(middle + 1..range.end),
        ];
        let own = u32::try_from(middle).expect("each takes four bytes at least");
        let mut best = (own, self.spots[middle].seqno);
        let end = |n: u32| self.get(thermocline_base::size::index(n.into())).end;
        for (furthest, newest) in below.into_iter().flatten() {
            if end(furthest) > end(best.0) {
                best.0 = furthest;
            }
            best.1 = best.1.max(newest);
        }
        (self.spots[middle].furthest, self.spots[middle].newest) = best;
        Some(best)
    }
}

fn bytes_of<'a>(bytes: &'a [u8], range: &Range<u32>) -> &'a [u8] {
    let at = |n: u32| thermocline_base::size::index(n.into());
    &bytes[at(range.start)..at(range.end)]
}

/// The one at `at`, behind the one `before`, if one can be there; moves behind it.
fn spot_at(bytes: &[u8], at: &mut usize, before: Option<&Spot>) -> Option<Spot> {
    let cf = CfId(u16_at(take(bytes, at, 2)?, 0));
    let start_len = varlen(bytes, at)?;
    let end_len = varlen(bytes, at)?;
    let seqno = SeqNo(varint(bytes, at)?);
    let mut key = |len: usize, before: Option<&Range<u32>>| match len {
        0 => before.cloned(),
        len => {
            let begin = u32::try_from(*at).ok()?;
            let len = u16::try_from(len - 1).ok()?;
            take(bytes, at, usize::from(len))?;
            Some(begin..begin + u32::from(len))
        }
    };
    let start = key(start_len, before.map(|spot| &spot.start))?;
    let end = key(end_len, before.map(|spot| &spot.end))?;
    (seqno != SeqNo::MAX).then_some(Spot {
        cf,
        seqno,
        start,
        end,
        furthest: 0,
        newest: seqno,
    })
}
