//! Cutting what is written into tables, and range tombstones with it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::task::{Context, Poll};

use thermocline_base::limits::KEY_LEN_MAX;
use thermocline_base::{CfId, Kind, RangeTombstone, Result};
use thermocline_compaction::output::Cutter;
use thermocline_sst::{KeyRef, Value};

use crate::outputs::Outputs;
use crate::sink::TableSink;

/// Most bytes of a range tombstone in a table beside its keys.
const BESIDE_KEYS: usize = 20;

/// The tables that are written of one family, and the range tombstones that reach into the one at hand.
pub struct Writing<'a> {
    cf: CfId,
    cutter: Cutter<'a>,
    sink: &'a mut dyn TableSink,
    /// Where the table begins; at first everywhere.
    begin: Option<Vec<u8>>,
    /// Those that begin before the last key and end behind where the table begins.
    tombstones: Vec<RangeTombstone>,
    /// What they will take.
    tombstone_bytes: usize,
    /// Where they end, once they are many in the table at hand.
    ends: Option<Ends>,
}

/// Where the range tombstones of a table end, of which there are many: each key that comes asks.
#[derive(Debug, Default)]
struct Ends {
    /// Those behind all keys that came, and how many tombstones end there.
    ahead: BTreeMap<Vec<u8>, usize>,
    /// Bytes of those.
    ahead_bytes: usize,
    /// How many end before that, and bytes of their ends.
    passed: usize,
    passed_bytes: usize,
    /// What all of them take beside their ends, and beside the key at which the table begins.
    others: usize,
}

impl Ends {
    /// Of a table that begins at `begin`; `None` is everywhere.
    fn of(tombstones: &[RangeTombstone], begin: Option<&[u8]>) -> Ends {
        let mut ends = Ends::default();
        tombstones.iter().for_each(|t| ends.add(t, begin));
        ends
    }

    /// One more, which ends behind all keys that came.
    fn add(&mut self, tombstone: &RangeTombstone, begin: Option<&[u8]>) {
        self.others += BESIDE_KEYS;
        if begin.is_none_or(|begin| *tombstone.start > *begin) {
            self.others += tombstone.start.len();
        }
        self.ahead_bytes += tombstone.end.len();
        *self.ahead.entry(tombstone.end.clone()).or_default() += 1;
    }

    /// A key comes, which ascends.
    fn pass(&mut self, key: &[u8]) {
        while let Some(first) = self.ahead.first_entry().filter(|e| e.key()[..] <= *key) {
            let (end, count) = first.remove_entry();
            self.passed += count;
            self.passed_bytes += end.len() * count;
            self.ahead_bytes -= end.len() * count;
        }
    }

    /// Bytes of the table's range tombstones, if it ends before the key that came.
    fn bytes(&self) -> usize {
        self.others + self.passed_bytes + (2 + self.passed) * KEY_LEN_MAX
    }

    /// The first end behind `last`, and before `key`.
    fn next(&self, last: Option<&[u8]>, key: Option<&[u8]>) -> Option<&[u8]> {
        let behind = last.map_or(Unbounded, Excluded);
        let mut ahead = self.ahead.range::<[u8], _>((behind, Unbounded));
        let end = &ahead.next()?.0[..];
        key.is_none_or(|key| end < key).then_some(end)
    }
}

impl<'a> Writing<'a> {
    /// Tables of a family, into `sink`, that end where `cutter` says.
    pub fn new(cf: CfId, cutter: Cutter<'a>, sink: &'a mut dyn TableSink) -> Writing<'a> {
        Writing {
            cf,
            cutter,
            sink,
            begin: None,
            tombstones: Vec::new(),
            tombstone_bytes: 0,
            ends: None,
        }
    }

    /// Bytes of DRAM that it takes now.
    pub fn memory(&self) -> u64 {
        let ends = self.ends.as_ref().map_or(0, |ends| ends.ahead_bytes);
        self.sink.memory() + ends as u64
    }

    /// As [`TableSink::poll_written`].
    pub fn poll_written(&self, left: usize, context: &mut Context<'_>) -> Poll<()> {
        self.sink.poll_written(left, context)
    }

    /// Bytes of the table at hand.
    pub fn bytes(&self) -> u64 {
        self.sink.bytes() + self.tombstone_bytes as u64
    }

    /// Ends tables that end before `key`, which ascends; none behind the one with which the sink has enough.
    ///
    /// # Errors
    /// Those of writing.
    pub fn go_to(&mut self, key: &[u8], outputs: &mut Outputs) -> Result<()> {
        self.pass_ends(Some(key), outputs)?;
        self.end_before(key, outputs)
    }

    /// Whether range tombstones reach into the table that would be too much for it if it had both ends of each.
    fn has_many(&self) -> bool {
        // Mostly there is none, and each key asks.
        self.tombstone_bytes > 0 && self.tombstone_bytes > self.sink.tombstone_bytes_max()
    }

    /// Whether the table has to end before `key`, since the range tombstones may not fit into it if it goes on. Those that are cut where
    /// it begins and ends share these keys, of which each may be as long as keys are. What ends within it has a key of its own, and
    /// the one behind has the table's end once more (`sst::tombstone_cuts`).
    fn is_crowded(&mut self, key: &[u8]) -> bool {
        if !self.has_many() {
            return false;
        }
        let ends = self.ends();
        ends.pass(key);
        ends.bytes() > self.sink.tombstone_bytes_max()
    }

    fn ends(&mut self) -> &mut Ends {
        let (tombstones, begin) = (&self.tombstones, self.begin.as_deref());
        self.ends.get_or_insert_with(|| Ends::of(tombstones, begin))
    }

    /// Goes to each end of a range tombstone before `key`, or to all that are left, as long as there are many: where they lie over each
    /// other, and nothing is written from one end to the next, no entry would end the table in time.
    fn pass_ends(&mut self, key: Option<&[u8]>, outputs: &mut Outputs) -> Result<()> {
        while self.has_many()
            && !self.sink.has_enough()
            && let Some(end) = self.next_end(key)
        {
            self.end_before(&end, outputs)?;
        }
        Ok(())
    }

    /// The first end of a range tombstone behind all that the table has, and before `key`.
    fn next_end(&mut self, key: Option<&[u8]>) -> Option<Vec<u8>> {
        self.ends();
        let ends = self.ends.as_ref()?;
        ends.next(self.cutter.last(), key).map(<[u8]>::to_vec)
    }

    /// Ends tables where the cutter says that they end before `key`.
    fn end_before(&mut self, key: &[u8], outputs: &mut Outputs) -> Result<()> {
        loop {
            let full = self.sink.is_full() || self.is_crowded(key);
            let bytes = match full {
                true => u64::MAX,
                false => self.bytes(),
            };
            let Some(at) = self.cutter.cut_before(key, bytes) else {
                return Ok(());
            };
            self.end_table(Some(at), outputs)?;
            if self.sink.has_enough() {
                return Ok(());
            }
        }
    }

    /// Where the last table ended, if that is enough. Nothing behind that was written yet: range tombstones that reach
    /// there are cut when a table ends.
    pub(crate) fn ends_with(&self) -> Option<Vec<u8>> {
        let enough = self.sink.has_enough();
        enough.then(|| self.begin.clone().unwrap_or_default())
    }

    /// All entries and range tombstones have come: ends tables where there would be too many of these. Returns where the last one
    /// has ended, if that is enough and range tombstones reach behind it.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn go_to_end(&mut self, outputs: &mut Outputs) -> Result<Option<Vec<u8>>> {
        self.pass_ends(None, outputs)?;
        let is_left = !self.tombstones.is_empty();
        Ok(self.ends_with().filter(|_| is_left))
    }

    /// Nothing more is written behind the last table, which has ended.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn stop(&mut self, outputs: &mut Outputs) -> Result<()> {
        self.sink.end_family(outputs)
    }

    /// Adds a range tombstone, after all entries before its start.
    ///
    /// # Errors
    /// Those of writing.
    pub fn begin_tombstone(
        &mut self,
        tombstone: RangeTombstone,
        outputs: &mut Outputs,
    ) -> Result<()> {
        self.go_to(&tombstone.start, outputs)?;
        self.tombstone_bytes += bytes_of(&tombstone);
        if let Some(ends) = &mut self.ends {
            ends.add(&tombstone, self.begin.as_deref());
        }
        self.tombstones.push(tombstone);
        Ok(())
    }

    /// Adds an entry to the table at hand.
    ///
    /// # Errors
    /// Those of writing.
    pub fn add(
        &mut self,
        key: KeyRef<'_>,
        kind: Kind,
        value: Value<'_>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        self.sink.add(self.cf, key, kind, value, outputs)
    }

    /// Ends the table before `at`, or behind everything. If nothing lies there it is none.
    fn end_table(&mut self, at: Option<Vec<u8>>, outputs: &mut Outputs) -> Result<()> {
        let (begin, end) = (self.begin.as_deref(), at.as_deref());
        let pieces = self.tombstones.iter().map(RangeTombstone::borrowed);
        let mut pieces: Vec<_> = pieces.filter_map(|t| t.cut(begin, end)).collect();
        // Those that were cut where the table begins, begin together.
        pieces.sort_by(|a, b| (a.start, Reverse(a.seqno)).cmp(&(b.start, Reverse(b.seqno))));
        for piece in &pieces {
            let start = KeyRef::new(piece.start, piece.seqno);
            let end = Value::Inline(piece.end);
            let kind = Kind::RangeDelete;
            self.sink.add(self.cf, start, kind, end, outputs)?;
        }
        match at {
            Some(_) => self.sink.end_table(outputs)?,
            None => self.sink.end_family(outputs)?,
        }
        let reaches = |t: &RangeTombstone| at.as_ref().is_some_and(|at| t.end > *at);
        self.tombstones.retain(reaches);
        self.tombstone_bytes = self.tombstones.iter().map(bytes_of).sum();
        // What was cut where this one ends begins with the next one.
        self.ends = None;
        self.begin = at;
        Ok(())
    }

    /// Ends the last table, and those of range tombstones that reach over bounds behind it.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(&mut self, outputs: &mut Outputs) -> Result<()> {
        self.pass_ends(None, outputs)?;
        for bound in self.cutter.rest() {
            self.end_table(Some(bound), outputs)?;
        }
        self.end_table(None, outputs)
    }
}

/// About what a range tombstone takes in a table.
fn bytes_of(tombstone: &RangeTombstone) -> usize {
    tombstone.start.len() + tombstone.end.len() + 16
}

#[cfg(test)]
mod tests;
