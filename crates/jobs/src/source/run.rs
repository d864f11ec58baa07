//! The entries of tables that do not overlap.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use thermocline_base::{CfId, RangeTombstone, Result, SeqNo};
use thermocline_compaction::Head;
use thermocline_env::meter::Meter;
use thermocline_level0::PmPart;
use thermocline_sst::{
    Block, BlockHandle, BlockKind, BlockSource, KeyRef, Move, SyncCursor, Table, TablePart, Value,
    open_table_to_scan,
};
use thermocline_tables::{AnyCursor, AnyPart, TableFiles};
use thermocline_version::TableRef;

use super::ahead::Ahead;

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
    /// What the cursor reads of a file.
    ahead: Option<Rc<Ahead<'a>>>,
    /// Bytes of DRAM that its table takes, if that lies in a file: it is open for this cursor alone.
    table_bytes: u64,
    /// Only keys from here on, and before there.
    from: Vec<u8>,
    to: Option<Vec<u8>>,
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
            ahead: None,
            table_bytes: 0,
            from: Vec::new(),
            to: None,
            meter,
        }
    }

    /// Only what it has of keys from `from` on and before `to`, range tombstones apart.
    pub fn within(self, from: &[u8], to: Option<&[u8]>) -> RunInput<'a> {
        RunInput {
            from: from.to_vec(),
            to: to.map(<[u8]>::to_vec),
            ..self
        }
    }

    /// The table at hand, for messages.
    pub(super) fn place(&self) -> String {
        let table = self.tables.get(self.at);
        let path = table.map(|table| self.files.path(table.file));
        path.map_or_else(String::new, |path| path.display().to_string())
    }

    /// Whether what was read for it is about to be used up, and there is more.
    pub(super) fn is_short(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.is_short())
    }

    /// Bytes of DRAM that it takes: the table at hand, and what is read of it.
    pub(super) fn memory(&self) -> u64 {
        let read = self.ahead.as_ref().map_or(0, |ahead| ahead.memory());
        self.table_bytes + read
    }

    /// As [`Ahead::poll_more`].
    pub(super) fn poll_more(&self, context: &mut Context<'_>) -> Poll<()> {
        match &self.ahead {
            Some(ahead) => ahead.poll_more(context),
            None => Poll::Ready(()),
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
            self.open(table)?.part.add_ranges(&mut all);
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
        if self.to.as_deref().is_some_and(|to| user_key >= to) {
            return None;
        }
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
        let (user_key, seqno) = match user_key < &self.from[..] {
            true => (&self.from.clone()[..], SeqNo::MAX),
            false => (user_key, seqno),
        };
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
        (self.at, self.cursor, self.ahead) = (at, None, None);
        self.table_bytes = 0;
        if let Some(table) = self.tables.get(at) {
            let Opened {
                part,
                cursor,
                ahead,
            } = self.open(table)?;
            self.table_bytes = match &part {
                AnyPart::File(part) => part.table().charge() as u64,
                // It is open for all, and counted there.
                AnyPart::Pm(_) => 0,
            };
            (self.cursor, self.ahead) = (Some(cursor), ahead);
        }
        Ok(())
    }

    fn open(&self, table: &TableRef) -> Result<Opened<'a>> {
        let (lower, upper) = table.limits();
        if let Some(found) = self.files.pm.get(table.file) {
            let part = PmPart::limited(found, self.cf, lower, upper);
            // Verified, whatever readers do: what is written anew gets a checksum that is right.
            let cursor = AnyCursor::pm(part.clone(), true);
            return Ok(Opened {
                part: AnyPart::Pm(part),
                cursor,
                ahead: None,
            });
        }
        let file = self.files.open_file(table.file)?;
        let opened = open_table_to_scan(&*file, self.files.identity(table.file))?;
        let ahead = Rc::new(Ahead::new(
            file,
            self.files.piece_bytes,
            self.files.staged(),
            self.meter,
        ));
        let part = TablePart::limited(opened, lower, upper);
        let source = Sequential {
            end: self.end_in(table, &part, &ahead)?,
            ahead: ahead.clone(),
        };
        let cursor = AnyCursor::file(SyncCursor::new(part.clone(), source));
        Ok(Opened {
            part: AnyPart::File(part),
            cursor,
            ahead: Some(ahead),
        })
    }
}

impl RunInput<'_> {
    /// Where the data ends that is read of a table.
    fn end_in(&self, table: &TableRef, part: &TablePart, ahead: &Ahead<'_>) -> Result<u64> {
        let end = part.table().data_end();
        let to = self.to.as_deref();
        let to = to.filter(|to| !table.range.ends_before(to));
        // Of a part of a long table; a short one comes with the first piece in any case.
        let (_, upper) = table.limits();
        let upper = upper.filter(|_| end > self.files.piece_bytes as u64);
        let Some(to) = to.into_iter().chain(upper).min() else {
            return Ok(end);
        };
        // With the block in which its first entry lies that is not read any more.
        let last = Cell::new(0);
        let source = Noting { ahead, last: &last };
        // What lies there need not be within the part's limits.
        let whole = TablePart::whole(part.table().clone());
        let mut cursor = SyncCursor::new(whole, source);
        cursor.go(Move::Seek(KeyRef::new(to, SeqNo::MAX)))?;
        Ok(if cursor.is_at_entry() {
            last.get()
        } else {
            end
        })
    }
}

/// A table of the run.
struct Opened<'a> {
    part: AnyPart,
    cursor: AnyCursor<Sequential<'a>>,
    /// What the cursor reads of a file.
    ahead: Option<Rc<Ahead<'a>>>,
}

/// A table that is read from its beginning to its end.
struct Sequential<'a> {
    ahead: Rc<Ahead<'a>>,
    /// No data is read from there on.
    end: u64,
}

impl BlockSource for Sequential<'_> {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        let len = usize::try_from(handle.len).expect("addresses have 32 bits or more");
        let bytes = match handle.kind {
            BlockKind::Data => self.ahead.read(handle.offset, len, self.end),
            // Index blocks lie behind the data that they lead to, and are asked for before it: a piece there would be read in
            // place of the one at hand, and both again.
            _ => self.ahead.read_alone(handle.offset, len),
        };
        table.decode(handle, bytes?)
    }
}

/// A table in which single blocks are read.
struct Noting<'s> {
    ahead: &'s Ahead<'s>,
    /// Where the last one ends.
    last: &'s Cell<u64>,
}

impl BlockSource for Noting<'_> {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        let len = usize::try_from(handle.len).expect("addresses have 32 bits or more");
        self.last.set(handle.offset + u64::from(handle.len));
        table.decode(handle, self.ahead.read_alone(handle.offset, len)?)
    }
}
