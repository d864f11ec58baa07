//! Entries that range tombstones hide from a cursor.
//!
//! The sources of a cursor are layers: memtables, then runs of tables, each older than all before it. The entry that
//! comes first of all sources is hidden in two cases.
//! 1. A range tombstone of a newer layer covers its key, whatever the seqnos (law of age). Then its source
//!    goes on behind the covered stretch. That costs a seek for each covered stretch and each source with keys in it,
//!    not a step for each key.
//! 2. A range tombstone of its own layer covers its key and is newer than the entry. Then its source takes a step:
//!    entries behind it may be newer. Steps count as those over deleted keys do, so that they are taken once (`gaps`).
//!
//! A hidden entry says nothing of its key in other sources. The same tombstone hides the key in older sources, and in
//! newer sources the key came first. While a cursor moves, no range tombstone appears or goes: it sees those up to
//! its seqno, all of which were there when it was made, and stay for it (`memtable::tombstones`, 2).

use std::ops::Bound;

use thermocline_base::Result;
use thermocline_memtable::Direction;
use thermocline_tables::TableSource;

use super::covering::Edge;
use super::source::{First, Reader};
use super::walk::{Copied, Walk};

impl Walk {
    /// Whether any source has range tombstones.
    #[inline]
    pub(super) fn has_covers(&self) -> bool {
        self.has_covering || self.runs.iter().any(TableSource::has_covers)
    }

    /// If a range tombstone hides the entry that comes first, moves its source on. Returns whether it did.
    pub(super) fn pass_covered(
        &mut self,
        copied: &mut Copied,
        first: First,
        reader: Reader<'_>,
    ) -> Result<bool> {
        // The cursor is at no key, so the buffer is free.
        let key = &mut copied.key;
        key.clear();
        match first {
            First::Memtable(i) => {
                let head = self.sources[i].standing();
                key.extend_from_slice(head.key(&self.at.view.memtables[i])?);
            }
            First::Run(i) => {
                key.extend_from_slice(self.runs[i].key().unwrap_or_default());
                // Newer runs forget as they are asked (`edge_over`). Nobody asks the oldest one.
                self.runs[i].forget_passed(key, reader.direction);
            }
        }
        match self.edge_over(first, key, reader) {
            Some(edge) => self.go_past(first, &edge, reader).map(|()| true),
            None => self.step_if_covered(first, key, reader).inspect(|stepped| {
                if *stepped {
                    self.passed.step(key);
                }
            }),
        }
    }

    /// The end of the stretch around `key` that the range tombstones of one layer above `first` cover; `None` if none
    /// does.
    fn edge_over(&mut self, first: First, key: &[u8], reader: Reader<'_>) -> Option<Edge> {
        let (memtables, runs) = match first {
            First::Memtable(i) => (i, 0),
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

    pub(super) fn go_past(&mut self, first: First, edge: &Edge, reader: Reader<'_>) -> Result<()> {
        let from = match (edge, reader.direction) {
            (Edge::Nowhere, _) => None,
            (Edge::At(key), Direction::Forward) => Some(Bound::Included(&key[..])),
            (Edge::At(key), Direction::Reverse) => Some(Bound::Excluded(&key[..])),
        };
        match (first, from) {
            (First::Memtable(i), Some(from)) => {
                self.sources[i].restart(&self.at.view.memtables[i], reader, from)
            }
            (First::Memtable(i), None) => {
                self.sources[i].end();
                Ok(())
            }
            (First::Run(i), Some(from)) => self.runs[i].restart(from, reader.course()),
            (First::Run(i), None) => {
                self.runs[i].end();
                Ok(())
            }
        }
    }

    /// If a range tombstone of the first entry's own layer covers it and is newer, moves its source on by a step.
    /// Returns whether it did.
    fn step_if_covered(&mut self, first: First, key: &[u8], reader: Reader<'_>) -> Result<bool> {
        match first {
            First::Memtable(i) => {
                let memtable = &self.at.view.memtables[i];
                let source = &mut self.sources[i];
                let at = source.standing().at;
                let over = source.covering.as_mut().and_then(|c| c.over(key));
                let covered = over > Some(memtable.record(at, false)?.seqno);
                if covered {
                    source.advance(memtable, reader)?;
                }
                Ok(covered)
            }
            First::Run(i) => {
                let run = &mut self.runs[i];
                let covered = run.is_covered(reader.seqno);
                if covered {
                    run.advance(reader.course())?;
                }
                Ok(covered)
            }
        }
    }
}
