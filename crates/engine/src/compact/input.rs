//! What a merge reads: the records of a sealed generation, or a run of tables.

use std::cell::{Cell, RefCell};
use std::ops::Bound;

use thermocline_base::{CfId, Error, Kind, Result, SeqNo};
use thermocline_compaction::merge::Source;
use thermocline_compaction::{Head, RangeTombstone};
use thermocline_env::File;
use thermocline_level0::PmPart;
use thermocline_memtable::{Direction, Memtable, RecordRef, ScanEntry};
use thermocline_sst::{
    Block, BlockHandle, BlockSource, KeyRef, Move, SyncCursor, Table, TablePart, Value, open_table,
};
use thermocline_tables::{AnyCursor, AnyPart};
use thermocline_tables::{TableFile, TableFiles};
use thermocline_version::TableRef;

use crate::flush::LastDeletes;
use crate::sync::Arc;

/// Keys that are collected under one epoch guard.
const CHUNK: usize = 256;

/// Bytes of a table that are read at once. Blocks are asked for in the order in which they lie.
const AHEAD_BYTES: usize = 256 << 10;

/// A source with values.
pub(crate) enum Input<'a> {
    Generation(GenerationInput<'a>),
    Run(Box<RunInput<'a>>),
    /// What range tombstones without an end come to for the greatest key.
    Last(LastDeletes),
}

impl Input<'_> {
    /// The value of the entry at which it stands.
    pub fn value(&self) -> Result<Value<'_>> {
        let nothing = Value::Inline(b"");
        Ok(match self {
            Input::Generation(generation) => generation.head.map_or(nothing, |record| {
                let blob = record.blob().map(Value::Blob);
                blob.unwrap_or(Value::Inline(record.value))
            }),
            Input::Run(run) => match run.here() {
                Some(cursor) => cursor.value()?,
                None => nothing,
            },
            Input::Last(_) => nothing,
        })
    }
}

impl Source for Input<'_> {
    fn head(&self) -> Option<Head<'_>> {
        match self {
            Input::Generation(generation) => generation.head.as_ref().map(head_of),
            Input::Run(run) => run.head(),
            Input::Last(deletes) => deletes.head(),
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Input::Generation(generation) => generation.advance(),
            Input::Run(run) => run.advance(),
            Input::Last(deletes) => {
                deletes.advance();
                Ok(())
            }
        }
    }

    fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<()> {
        match self {
            Input::Generation(generation) => generation.seek(user_key, seqno),
            Input::Run(run) => run.seek(user_key, seqno),
            Input::Last(deletes) => {
                deletes.seek(user_key, seqno);
                Ok(())
            }
        }
    }
}

fn head_of<'r>(record: &RecordRef<'r>) -> Head<'r> {
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

/// The records of one family in a sealed generation; or in any one, of each key that which a registered
/// reader sees.
pub(crate) struct GenerationInput<'a> {
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
    head: Option<RecordRef<'a>>,
}

impl<'a> GenerationInput<'a> {
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

    fn advance(&mut self) -> Result<()> {
        let last = self.head.take().map(|record| record.key);
        self.at += 1;
        self.find(last.map_or(Bound::Unbounded, Bound::Excluded))
    }

    fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<()> {
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

/// Tables that do not overlap, one after the other. Each is read from its beginning to its end, past
/// the cache: what a job reads nobody will read again.
pub(crate) struct RunInput<'a> {
    files: &'a TableFiles,
    cf: CfId,
    /// In key order.
    tables: Vec<Arc<TableRef>>,
    /// Which of them the cursor is in.
    at: usize,
    cursor: Option<AnyCursor<Sequential<'a>>>,
    /// Counts bytes that were read.
    read: &'a Cell<u64>,
}

impl<'a> RunInput<'a> {
    pub fn new(
        files: &'a TableFiles,
        cf: CfId,
        mut tables: Vec<Arc<TableRef>>,
        read: &'a Cell<u64>,
    ) -> RunInput<'a> {
        tables.sort_by(|a, b| a.range.smallest().cmp(b.range.smallest()));
        RunInput {
            files,
            cf,
            tables,
            at: 0,
            cursor: None,
            read,
        }
    }

    /// The range tombstones of all its tables, within the limits of each.
    pub fn tombstones(&self) -> Result<Vec<RangeTombstone>> {
        let mut all = Vec::new();
        // They count among the deletes.
        for table in self.tables.iter().filter(|table| table.deletes > 0) {
            let (part, _) = self.open(table)?;
            part.add_ranges(&mut all);
        }
        Ok(all)
    }

    fn here(&self) -> Option<&AnyCursor<Sequential<'a>>> {
        self.cursor.as_ref().filter(|cursor| cursor.is_at_entry())
    }

    fn head(&self) -> Option<Head<'_>> {
        let cursor = self.here()?;
        let KeyRef { user_key, seqno } = cursor.key();
        let kind = cursor.kind();
        Some(Head {
            user_key,
            seqno,
            kind,
        })
    }

    fn advance(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.cursor {
            cursor.go(Move::Next)?;
        }
        self.go_on()
    }

    fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<()> {
        let before = |table: &Arc<TableRef>| table.range.ends_before(user_key);
        self.enter(self.tables.partition_point(before))?;
        if let Some(cursor) = &mut self.cursor {
            cursor.go(Move::Seek(KeyRef::new(user_key, seqno)))?;
        }
        self.go_on()
    }

    /// From the end of a table to the first entry behind it.
    fn go_on(&mut self) -> Result<()> {
        while self.cursor.is_some() && self.here().is_none() {
            self.enter(self.at + 1)?;
            if let Some(cursor) = &mut self.cursor {
                cursor.go(Move::First)?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, at: usize) -> Result<()> {
        (self.at, self.cursor) = (at, None);
        if let Some(table) = self.tables.get(at) {
            self.cursor = Some(self.open(table)?.1);
        }
        Ok(())
    }

    fn open(&self, table: &TableRef) -> Result<(AnyPart, AnyCursor<Sequential<'a>>)> {
        let (lower, upper) = table.limits();
        if let Some(found) = self.files.pm.get(table.file) {
            let part = PmPart::limited(found, self.cf, lower, upper);
            // Verified, whatever readers do: what is written anew gets a checksum that is right.
            let cursor = AnyCursor::pm(part.clone(), true);
            return Ok((AnyPart::Pm(part), cursor));
        }
        let file = self.files.open_file(table.file)?;
        let opened = open_table(&*file, self.files.identity(table.file))?;
        let source = Sequential {
            file,
            ahead: RefCell::default(),
            read: self.read,
        };
        let part = TablePart::limited(opened, lower, upper);
        let cursor = AnyCursor::file(SyncCursor::new(part.clone(), source));
        Ok((AnyPart::File(part), cursor))
    }
}

/// A file that is read from its beginning to its end, in large pieces.
struct Sequential<'a> {
    file: Arc<TableFile>,
    /// The last piece, and where it begins.
    ahead: RefCell<(u64, Vec<u8>)>,
    read: &'a Cell<u64>,
}

impl BlockSource for Sequential<'_> {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        let len = usize::try_from(handle.len).expect("addresses have 32 bits or more");
        let mut ahead = self.ahead.borrow_mut();
        let (begin, piece) = &mut *ahead;
        let within = |begin: u64, piece: &[u8]| {
            let skip = usize::try_from(handle.offset.checked_sub(begin)?).ok()?;
            Some(piece.get(skip..skip.checked_add(len)?)?.to_vec())
        };
        if let Some(stored) = within(*begin, piece) {
            return table.decode(handle, stored);
        }
        // Nothing is known of it if the call fails.
        let mut next = std::mem::take(piece);
        next.resize(AHEAD_BYTES.max(len), 0);
        let got = self.file.read_at(&mut next, handle.offset)?;
        if got < len {
            let path = self.file.path();
            let short = std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                format!("asked for {len} bytes, got {got}"),
            );
            return Err(Error::io_at("read", path, handle.offset, short));
        }
        next.truncate(got);
        self.read.set(self.read.get() + got as u64);
        (*begin, *piece) = (handle.offset, next);
        table.decode(handle, piece[..len].to_vec())
    }
}
