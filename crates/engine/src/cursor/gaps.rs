//! Gaps on a cursor's way: stretches of deleted keys, which one cursor steps through and later ones
//! pass (`memtable::gaps`).
//!
//! Between one key with a value and the next, a cursor counts the keys that it steps over, and keeps the
//! first of them. If they were many, the stretch from that key to the cursor's position is a gap: the cursor has found
//! nothing visible there. That holds for everything it passed on the way, range tombstones and other gaps included.
//! The active memtable keeps the gap, if the cursor's view has that memtable in front.
//!
//! An entry that comes first of all sources is passed if it lies in a gap of its own memtable or of a newer one: its
//! source goes on behind the gap. A gap counts as several keys, so that many small adjacent gaps become one.
//!
//! The cursor keeps the first bytes of the key at which the next gap on its way begins. So a gap costs one comparison
//! for each key that has a value.
//!
//! A cursor never waits for this: where the writer's lock is taken, the next cursor notes the gap.

pub(crate) mod passed;

use thermocline_base::numbers::first_bytes;
use thermocline_base::{Result, SeqNo};
use thermocline_memtable::Direction;
use thermocline_observe::count::Count;
use thermocline_policy::tuning::EMPTY_STEPS;

use super::covering::Edge;
use super::source::{First, Reader};
use super::walk::{Copied, Walk};
use passed::{GAP_COUNTS, NOTED_AFTER, behind};

impl Walk {
    /// Forgets the next gap: the cursor was moved, has turned round, or has loaded other gaps.
    pub(super) fn look_for_gaps(&mut self) {
        self.has_gaps = self.sources.iter().any(|source| source.gaps.is_some());
        self.passed.near = None;
    }

    /// Whether the entry that comes first lies before the next gap.
    #[inline]
    fn is_before_gaps(&self, first: First) -> bool {
        let begins = match first {
            First::Memtable(i) => self.sources[i].standing().prefix,
            First::Run(i) => self.runs[i].prefix().unwrap_or_default(),
        };
        self.passed.near.is_some_and(|near| match self.direction {
            Direction::Forward => begins < near,
            Direction::Reverse => begins > near,
        })
    }

    /// Where the next gap begins from `key` on. `None` if `key` lies in a gap: that of an older source, since the
    /// caller has not passed it.
    fn near_gap(&self, key: &[u8], reader: Reader<'_>) -> Option<u64> {
        let far = match reader.direction {
            Direction::Forward => u64::MAX,
            Direction::Reverse => 0,
        };
        let mut near = far;
        for gaps in self
            .sources
            .iter()
            .filter_map(|source| source.gaps.as_ref())
        {
            if gaps.over(key, reader.seqno).is_some() {
                return None;
            }
            let next = gaps.next(key, reader.direction, reader.seqno);
            let next = next.map_or(far, first_bytes);
            near = match reader.direction {
                Direction::Forward => near.min(next),
                Direction::Reverse => near.max(next),
            };
        }
        Some(near)
    }

    /// If the entry that comes first lies in a gap, moves its source on. Returns whether it did.
    pub(super) fn pass_gap(
        &mut self,
        copied: &mut Copied,
        first: First,
        reader: Reader<'_>,
    ) -> Result<bool> {
        if self.is_before_gaps(first) {
            return Ok(false);
        }
        let (key, newest) = match first {
            First::Memtable(i) => {
                let head = self.sources[i].standing();
                (head.key(&self.at.view.memtables[i])?, i + 1)
            }
            First::Run(i) => (self.runs[i].key().unwrap_or_default(), self.sources.len()),
        };
        let edge = self.sources[..newest].iter().find_map(|source| {
            if *key < *source.first {
                return None;
            }
            let (start, end) = source.gaps.as_ref()?.over(key, reader.seqno)?;
            Some(match reader.direction {
                Direction::Forward => end,
                Direction::Reverse => start.max(&source.first),
            })
        });
        let Some(edge) = edge else {
            self.passed.near = self.near_gap(key, reader);
            return Ok(false);
        };
        self.passed.near = None;
        let edge = edge.to_vec();
        copied.key.clear();
        copied.key.extend_from_slice(key);
        // Other sources may stand in the same gap.
        if edge != self.passed.edge {
            self.passed.count(&copied.key, GAP_COUNTS);
            self.passed.edge.clone_from(&edge);
        }
        self.go_past(first, &Edge::At(edge), reader)?;
        Ok(true)
    }

    /// Notes what the cursor has passed. It has come to the next key with a value, or to the end of what is asked for. `key` was copied
    /// last.
    #[inline]
    pub(super) fn end_of_passed(&self, key: &[u8]) {
        if self.passed.counts > 0 {
            self.note_passed(key);
        }
    }

    fn note_passed(&self, key: &[u8]) {
        let inner = self.at.inner();
        inner
            .common
            .counted
            .add(Count::SteppedOver, self.passed.stepped);
        if self.passed.counts < NOTED_AFTER {
            return;
        }
        let first = &self.passed.first;
        let (start, end) = match (self.direction, self.valid) {
            (Direction::Forward, true) => (first.clone(), key.to_vec()),
            (Direction::Forward, false) => (first.clone(), behind(key)),
            (Direction::Reverse, true) => (behind(key), behind(first)),
            (Direction::Reverse, false) => (key.to_vec(), behind(first)),
        };
        let Some(held_up) = inner.memtables.try_hold_writer_up() else {
            return;
        };
        // Of a family that was dropped there may be tables alone.
        let newest = self.at.view.memtables.first();
        let Some(newest) = newest.filter(|newest| held_up.is_active(newest)) else {
            return;
        };
        // If no write is in flight, `visible` is the last write. The writer's next seqno may be far above it, because
        // an open leaves a gap in the seqnos.
        let granted = match inner.common.commits.ring.at_most(0) {
            true => inner.common.commits.ring.visible(),
            false => held_up.next_seqno() - 1,
        };
        let (family, seen) = (self.family.id, self.at.seqno());
        newest.note_gap(family, (&start, &end), seen, SeqNo(granted));
        drop(held_up);
        if self.passed.stepped >= EMPTY_STEPS && !self.runs.is_empty() {
            // Whole tables may lie in it.
            inner.common.want_compaction();
        }
    }
}
