//! The records of several generations in the order of keys, of one key newest first.

use std::cmp::Ordering;
use std::ops::Bound;

use thermocline_base::{CfId, Result};
use thermocline_memtable::{Memtable, RecordRef, ScanEntry};

use crate::sync::Arc;

/// Keys that are collected under one epoch guard.
const CHUNK: usize = 256;

/// The records of one generation, from some place on.
struct Source<'a> {
    memtable: &'a Memtable,
    cf: CfId,
    chunk: Vec<ScanEntry>,
    at: usize,
    /// Whether there may be more behind the chunk.
    more: bool,
    head: Option<RecordRef<'a>>,
}

impl<'a> Source<'a> {
    fn new(memtable: &'a Memtable, cf: CfId) -> Result<Source<'a>> {
        let mut source = Source {
            memtable,
            cf,
            chunk: Vec::new(),
            at: 0,
            more: true,
            head: None,
        };
        source.find(Bound::Unbounded)?;
        Ok(source)
    }

    fn advance(&mut self) -> Result<()> {
        let last = self.head.take().map(|record| record.key);
        self.at += 1;
        self.find(last.map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// Reads the record at hand; where the chunk has ended, of the next one, which begins at `from`.
    fn find(&mut self, from: Bound<&[u8]>) -> Result<()> {
        if self.at == self.chunk.len() && self.more {
            self.chunk.clear();
            self.at = 0;
            self.more = self
                .memtable
                .scan_versions(self.cf, from, CHUNK, &mut self.chunk)?;
        }
        self.head = match self.chunk.get(self.at) {
            // Verified, whatever readers do: what is written anew gets a checksum that is right.
            Some(entry) => Some(self.memtable.record(entry.at, true)?),
            None => None,
        };
        Ok(())
    }
}

/// See the [module](self).
pub(crate) struct Merge<'a> {
    sources: Vec<Source<'a>>,
    first: Option<usize>,
}

impl<'a> Merge<'a> {
    pub fn new(generations: &'a [Arc<Memtable>], cf: CfId) -> Result<Merge<'a>> {
        let sources = generations.iter().map(|m| Source::new(m, cf));
        let mut merge = Merge {
            sources: sources.collect::<Result<_>>()?,
            first: None,
        };
        merge.choose();
        Ok(merge)
    }

    pub fn head(&self) -> Option<RecordRef<'a>> {
        self.sources[self.first?].head
    }

    pub fn advance(&mut self) -> Result<()> {
        if let Some(first) = self.first {
            self.sources[first].advance()?;
            self.choose();
        }
        Ok(())
    }

    fn choose(&mut self) {
        let heads = self.sources.iter().enumerate();
        let heads = heads.filter_map(|(i, source)| source.head.map(|head| (i, head)));
        self.first = heads.min_by(|(_, a), (_, b)| order(a, b)).map(|(i, _)| i);
    }
}

fn order(a: &RecordRef<'_>, b: &RecordRef<'_>) -> Ordering {
    a.key.cmp(b.key).then(b.seqno.cmp(&a.seqno))
}
