//! The entries of tables that do not overlap.

use std::cell::RefCell;
use std::sync::Arc;

use thermocline_base::{CfId, Error, RangeTombstone, Result, SeqNo};
use thermocline_compaction::Head;
use thermocline_env::File;
use thermocline_env::meter::Meter;
use thermocline_level0::PmPart;
use thermocline_sst::{
    Block, BlockHandle, BlockKind, BlockSource, KeyRef, Move, SyncCursor, Table, TablePart, Value,
    open_table,
};
use thermocline_tables::{AnyCursor, AnyPart, TableFile, TableFiles};
use thermocline_version::TableRef;

/// Bytes of a table's data that are read at once. Data blocks are asked for in the order in which they lie.
const AHEAD_BYTES: usize = 256 << 10;

/// Tables that do not overlap, one after the other. Each is read from its beginning to its end, past
/// the cache: what a job reads nobody will read again.
pub struct RunInput<'a> {
    files: &'a TableFiles,
    cf: CfId,
    /// In key order.
    tables: Vec<Arc<TableRef>>,
    /// Which of them the cursor is in.
    at: usize,
    cursor: Option<AnyCursor<Sequential<'a>>>,
    meter: &'a Meter,
}

impl<'a> RunInput<'a> {
    /// These tables of a family; `meter` counts what is read of files.
    pub fn new(
        files: &'a TableFiles,
        cf: CfId,
        mut tables: Vec<Arc<TableRef>>,
        meter: &'a Meter,
    ) -> RunInput<'a> {
        tables.sort_by(|a, b| a.range.first.cmp(&b.range.first));
        RunInput {
            files,
            cf,
            tables,
            at: 0,
            cursor: None,
            meter,
        }
    }

    /// The range tombstones of all its tables, within the limits of each.
    ///
    /// # Errors
    /// Those of reading.
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

    pub(super) fn value(&self) -> Result<Value<'_>> {
        self.here().map_or(Ok(Value::Inline(b"")), AnyCursor::value)
    }

    pub(super) fn head(&self) -> Option<Head<'_>> {
        let cursor = self.here()?;
        let KeyRef { user_key, seqno } = cursor.key();
        let kind = cursor.kind();
        Some(Head {
            user_key,
            seqno,
            kind,
        })
    }

    pub(super) fn advance(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.cursor {
            cursor.go(Move::Next)?;
        }
        self.go_on()
    }

    pub(super) fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<()> {
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
            meter: self.meter,
        };
        let part = TablePart::limited(opened, lower, upper);
        let cursor = AnyCursor::file(SyncCursor::new(part.clone(), source));
        Ok((AnyPart::File(part), cursor))
    }
}

/// A table that is read from its beginning to its end: data in large pieces.
struct Sequential<'a> {
    file: Arc<TableFile>,
    /// The last piece, and where it begins.
    ahead: RefCell<(u64, Vec<u8>)>,
    meter: &'a Meter,
}

impl Sequential<'_> {
    /// Reads as many bytes at `offset` as there is room for, and `least` of them.
    fn fill(&self, bytes: &mut Vec<u8>, offset: u64, least: usize) -> Result<()> {
        let got = self.meter.reading(|| self.file.read_at(bytes, offset))?;
        if got < least {
            let short = std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                format!("asked for {least} bytes, got {got}"),
            );
            return Err(Error::io_at("read", self.file.path(), offset, short));
        }
        bytes.truncate(got);
        self.meter.has_read(got as u64);
        Ok(())
    }
}

impl BlockSource for Sequential<'_> {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        let len = usize::try_from(handle.len).expect("addresses have 32 bits or more");
        if handle.kind != BlockKind::Data {
            // Index blocks lie behind the data that they lead to, and are asked for before it: a piece there would be read in
            // place of the one at hand, and both again.
            let mut stored = vec![0; len];
            self.fill(&mut stored, handle.offset, len)?;
            return table.decode(handle, stored);
        }
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
        let left = table.data_end().saturating_sub(handle.offset);
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(AHEAD_BYTES);
        next.resize(most.max(len), 0);
        self.fill(&mut next, handle.offset, len)?;
        (*begin, *piece) = (handle.offset, next);
        table.decode(handle, piece[..len].to_vec())
    }
}
