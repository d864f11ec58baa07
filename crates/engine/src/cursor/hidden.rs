//! What range tombstones hide from a cursor.
//!
//! Its sources are layers: memtables, then runs of tables, each older than all before it. What comes first
//! of all sources is hidden if
//! 1. a range tombstone of a newer layer covers its key, whatever the seqnos (law of age). Then its source
//!    goes on behind all that is covered there: a seek for each stretch of keys that is covered and each
//!    source that has keys in it, not a step for each key. Or if
//! 2. one of its own layer does that is newer than it. Then its source takes a step: behind it there may be
//!    newer entries.
//!
//! A hidden entry says nothing of its key in other sources: in older ones the same tombstone hides it, in
//! newer ones it came first. While a cursor moves no range tombstone appears or goes: it sees those up to
//! its seqno, all of which were there when it was made, and stay for it (`memtable::tombstones`, 2).

use std::ops::Bound;

use thermocline_base::Result;
use thermocline_memtable::Direction;
use thermocline_tables::TableSource;

use super::covering::Edge;
use super::source::{First, Reader};
use super::walk::Walk;

impl Walk {
    /// Whether any source has range tombstones.
    #[inline]
    pub(super) fn has_covers(&self) -> bool {
        self.sources.iter().any(|source| source.covering.is_some())
            || self.runs.iter().any(TableSource::has_covers)
    }

    /// If a range tombstone hides what comes first, moves its source on. Returns whether it did.
    pub(super) fn pass_covered(&mut self, first: First) -> Result<bool> {
        let reader = self.reader();
        // The cursor is at no key, so the buffer is free.
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        match first {
            First::Memtable(i, head) => {
                let record = self.at.view.memtables[i].record(head.at, false)?;
                key.extend_from_slice(record.key);
            }
            First::Run(i) => key.extend_from_slice(self.runs[i].key().unwrap_or_default()),
        }
        let passed = match self.edge_over(first, &key, reader) {
            Some(edge) => self.go_past(first, &edge, reader).map(|()| true),
            None => self.step_if_covered(first, &key, reader),
        };
        self.key = key;
        passed
    }

    /// Where the keys from `key` on that range tombstones of one layer above `first` cover end.
    fn edge_over(&mut self, first: First, key: &[u8], reader: Reader) -> Option<Edge> {
        let (memtables, runs) = match first {
            First::Memtable(i, _) => (i, 0),
            First::Run(i) => (self.sources.len(), i),
        };
        let layers = self.sources[..memtables].iter_mut();
        for covering in layers.filter_map(|source| source.covering.as_mut()) {
            if covering.over(key).is_none() {
                continue;
            }
            let edge = match reader.direction {
                Direction::Forward => covering.cover.covered_until(key),
                Direction::Reverse => Some(covering.covered_from(key)),
            };
            return Some(edge.map_or(Edge::Nowhere, |edge| Edge::At(edge.to_vec())));
        }
        let (direction, seqno) = (reader.direction, reader.seqno);
        let mut edges = self.runs[..runs].iter_mut();
        let edge = edges.find_map(|run| run.edge_of_covered(key, direction, seqno));
        edge.map(Edge::At)
    }

    pub(super) fn go_past(&mut self, first: First, edge: &Edge, reader: Reader) -> Result<()> {
        let from = match (edge, reader.direction) {
            (Edge::Nowhere, _) => None,
            (Edge::At(key), Direction::Forward) => Some(Bound::Included(&key[..])),
            (Edge::At(key), Direction::Reverse) => Some(Bound::Excluded(&key[..])),
        };
        match (first, from) {
            (First::Memtable(i, _), Some(from)) => {
                self.sources[i].restart(&self.at.view.memtables[i], reader, from)
            }
            (First::Memtable(i, _), None) => {
                self.sources[i].end();
                Ok(())
            }
            (First::Run(i), Some(from)) => {
                self.runs[i].restart(from, reader.direction, reader.seqno)
            }
            (First::Run(i), None) => {
                self.runs[i].end();
                Ok(())
            }
        }
    }

    /// If a range tombstone of its own layer is newer than what comes first, goes on by a step.
    fn step_if_covered(&mut self, first: First, key: &[u8], reader: Reader) -> Result<bool> {
        match first {
            First::Memtable(i, head) => {
                let memtable = &self.at.view.memtables[i];
                let source = &mut self.sources[i];
                let over = source.covering.as_mut().and_then(|c| c.over(key));
                let covered = over > Some(memtable.record(head.at, false)?.seqno);
                if covered {
                    source.advance(memtable, reader)?;
                }
                Ok(covered)
            }
            First::Run(i) => {
                let run = &mut self.runs[i];
                let covered = run.is_covered(reader.seqno);
                if covered {
                    run.advance(reader.direction, reader.seqno)?;
                }
                Ok(covered)
            }
        }
    }
}
