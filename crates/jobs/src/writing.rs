//! Cutting what is written into tables, and range tombstones with it.

use std::cmp::Reverse;
use std::task::{Context, Poll};

use thermocline_base::{CfId, Kind, RangeTombstone, Result};
use thermocline_compaction::output::Cutter;
use thermocline_sst::{KeyRef, Value};

use crate::outputs::Outputs;
use crate::sink::TableSink;

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
        }
    }

    /// Bytes of DRAM that it takes now.
    pub fn memory(&self) -> u64 {
        self.sink.memory()
    }

    /// As [`TableSink::poll_written`].
    pub fn poll_written(&self, left: usize, context: &mut Context<'_>) -> Poll<()> {
        self.sink.poll_written(left, context)
    }

    /// Bytes of the table at hand.
    pub fn bytes(&self) -> u64 {
        self.sink.bytes() + self.tombstone_bytes as u64
    }

    /// Ends tables that end before `key`, which ascends.
    ///
    /// # Errors
    /// Those of writing.
    pub fn go_to(&mut self, key: &[u8], outputs: &mut Outputs) -> Result<()> {
        loop {
            let full =
                self.sink.is_full() || self.tombstone_bytes > self.sink.tombstone_bytes_max();
            let bytes = match full {
                true => u64::MAX,
                false => self.bytes(),
            };
            match self.cutter.cut_before(key, bytes) {
                Some(at) => self.end_table(Some(at), outputs)?,
                None => return Ok(()),
            }
        }
    }

    /// Where the last table ended, if that is enough. Nothing behind that was written yet: range tombstones that reach
    /// there are cut when a table ends.
    pub(crate) fn ends_with(&self) -> Option<Vec<u8>> {
        let enough = self.sink.has_enough();
        enough.then(|| self.begin.clone().unwrap_or_default())
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
        self.begin = at;
        Ok(())
    }

    /// Ends the last table, and those of range tombstones that reach over bounds behind it.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(&mut self, outputs: &mut Outputs) -> Result<()> {
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
