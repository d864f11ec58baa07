//! The records of a memtable, in the order of keys.

use std::ops::Bound;

use thermocline_base::{CfId, Kind, Result, SeqNo};
use thermocline_compaction::Head;
use thermocline_memtable::{Direction, Memtable, RecordRef, ScanEntry};

/// Keys that are collected under one epoch guard.
const CHUNK: usize = 256;

/// The records of one family in a sealed generation; or in any one, of each key that which a registered
/// reader sees.
pub struct GenerationInput<'a> {
    memtable: &'a Memtable,
    cf: CfId,
    /// Where the reader reads.
    as_of: Option<SeqNo>,
    /// Of which keys: from this one on, and below the other.
    from: &'a [u8],
    to: Option<&'a [u8]>,
    chunk: Vec<ScanEntry>,
    at: usize,
    /// Whether there may be more behind the chunk.
    more: bool,
    pub(super) head: Option<RecordRef<'a>>,
}

impl<'a> GenerationInput<'a> {
    /// All of it.
    pub fn new(memtable: &'a Memtable, cf: CfId) -> GenerationInput<'a> {
        GenerationInput {
            memtable,
            cf,
            as_of: None,
            from: &[],
            to: None,
            chunk: Vec::new(),
            at: 0,
            more: true,
            head: None,
        }
    }

    /// What a reader who is registered at `seqno` sees of it. Writers may go on meanwhile.
    pub fn as_of(memtable: &'a Memtable, cf: CfId, seqno: SeqNo) -> GenerationInput<'a> {
        GenerationInput {
            as_of: Some(seqno),
            ..GenerationInput::new(memtable, cf)
        }
    }

    /// Only those of its keys that lie there.
    pub fn within(self, from: &'a [u8], to: Option<&'a [u8]>) -> GenerationInput<'a> {
        GenerationInput { from, to, ..self }
    }

    pub(super) fn advance(&mut self) -> Result<()> {
        let last = self.head.take().map(|record| record.key);
        self.at += 1;
        self.find(last.map_or(Bound::Unbounded, Bound::Excluded))
    }

    pub(super) fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<()> {
        self.chunk.clear();
        (self.at, self.more) = (0, true);
        self.find(Bound::Included(user_key.max(self.from)))?;
        let wanted = Head {
            user_key,
            seqno,
            kind: Kind::Put,
        };
        while let Some(record) = &self.head
            && head_of(record).order(&wanted).is_lt()
        {
            self.advance()?;
        }
        Ok(())
    }

    /// Reads the record at hand; where the chunk has ended, of the next one, which begins at `from`.
    fn find<'k>(&mut self, mut from: Bound<&'k [u8]>) -> Result<()>
    where
        'a: 'k,
    {
        self.head = None;
        loop {
            if self.at == self.chunk.len() && self.more {
                self.chunk.clear();
                self.at = 0;
                self.more = self.scan(from)?;
            }
            let Some(entry) = self.chunk.get(self.at) else {
                return Ok(());
            };
            // Verified, whatever readers do: what is written anew gets a checksum that is right.
            let record = self.memtable.record(entry.at, true)?;
            if self.to.is_some_and(|to| record.key >= to) {
                self.chunk.clear();
                (self.at, self.more) = (0, false);
                return Ok(());
            }
            if self.as_of.is_none_or(|seqno| record.seqno <= seqno) {
                self.head = Some(record);
                return Ok(());
            }
            from = Bound::Excluded(record.key);
            self.at += 1;
        }
    }

    /// Fills the chunk. Returns whether there may be more.
    fn scan(&mut self, from: Bound<&[u8]>) -> Result<bool> {
        let (memtable, cf, chunk) = (self.memtable, self.cf, &mut self.chunk);
        match self.as_of {
            None => memtable.scan_versions(cf, from, CHUNK, chunk),
            Some(seqno) => memtable.scan(cf, from, Direction::Forward, seqno, CHUNK, chunk),
        }
    }
}

pub(super) fn head_of<'r>(record: &RecordRef<'r>) -> Head<'r> {
    Head {
        user_key: record.key,
        seqno: record.seqno,
        kind: match record.kind {
            // Where a value lies is the value's business.
            Kind::PutBlob => Kind::Put,
            kind => kind,
        },
    }
}
