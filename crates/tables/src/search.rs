//! Looking one key up in the tables of a version: a machine that says what it needs, and does no I/O.
//!
//! It asks run after run, newest first ([`runs`](crate::runs)). What lies in persistent memory it reads itself. For a
//! table in a file it needs, in this order and as far as they are not at hand, the table's filter and the top of its
//! index (they come with the open table), an index block of a large table, and a data block; then the long value to
//! which an entry may refer. Where the keys of a table are known ([`keys`](crate::keys)), it needs of it the data block
//! alone, or nothing. Drivers fetch what is needed, each in its own way, and hand it in (`drive`).

use std::sync::Arc;

use thermocline_base::{BlobRef, CfId, Kind, Result, SeqNo};
use thermocline_level0::PmTable;
use thermocline_sst::{Block, BlockHandle, Found, FoundValue, Get, Step, TablePart, Where};
use thermocline_version::TableRef;

use crate::found::FoundIn;
use crate::open::opening::Asked;
use crate::open::{Handle, OpenTable};
use crate::runs::{self, Run};
use crate::{TableValue, Tables, Watch};

/// What the newest entry of the key says: a value, or that there is none; `None` if there is no entry.
pub type Answer = Option<Option<TableValue>>;

/// What a search needs next, or has found.
#[derive(Debug)]
pub(crate) enum Next {
    /// A table, open: goes through [`Search::opened`].
    Table(Arc<Handle>),
    /// That block of the table [at which it is](Search::at): goes through [`Search::block`].
    Block(BlockHandle),
    /// A long value: goes through [`Search::blob`].
    Blob(BlobRef),
    /// The answer.
    Found(Answer),
}

/// See the [module](self).
pub struct Search<'a> {
    tables: &'a Arc<Tables>,
    pub(crate) cf: CfId,
    pub(crate) key: &'a [u8],
    seqno: SeqNo,
    runs: &'a [Run],
    /// The place of the run that comes next.
    next_run: usize,
    watch: Watch<'a>,
    at: Option<InTable<'a>>,
}

/// The table of a file that is being asked.
struct InTable<'a> {
    open: Arc<OpenTable>,
    get: Get<'a, TablePart>,
    /// Whether it needed a block: else the filter has answered.
    asked: bool,
    /// Whether one of its blocks was read, and not in the cache.
    read: bool,
}

impl<'a> Search<'a> {
    /// For the newest entry of `key` at or below `seqno` in these tables.
    pub fn new((cf, key): (CfId, &'a [u8]), seqno: SeqNo, tables: &'a Arc<Tables>) -> Search<'a> {
        Search {
            tables,
            cf,
            key,
            seqno,
            runs: tables.runs(cf),
            next_run: 0,
            watch: Watch::new(tables, cf),
            at: None,
        }
    }

    /// Where it searches.
    pub(crate) fn tables(&self) -> &'a Arc<Tables> {
        self.tables
    }

    /// The table in a file that it is at.
    ///
    /// # Panics
    /// If it has not asked for a block.
    #[inline]
    pub(crate) fn at(&self) -> &Arc<OpenTable> {
        let at = self.at.as_ref();
        &at.expect("a search that needs a block is at a table").open
    }

    /// Begins.
    ///
    /// # Errors
    /// Those of reading persistent memory, here and below; [`thermocline_base::Error::Corruption`] if blocks
    /// contradict each other.
    #[inline]
    pub(crate) fn start(&mut self) -> Result<Next> {
        self.next_table()
    }

    /// Goes on with the table that was needed.
    #[cold]
    pub(crate) fn opened(&mut self, open: Arc<OpenTable>) -> Result<Next> {
        let place = self.tables.known_place(self.last_table(), self.key);
        let entered = self.enter(open, |get| match place {
            Where::Block(handle) => get.start_in(handle),
            Where::Not | Where::Ask => get.start(),
        });
        match entered {
            Some(next) => Ok(next),
            None => self.next_table(),
        }
    }

    /// Goes on with the block that was needed; `read` if it was not in the cache.
    #[inline]
    pub(crate) fn block(&mut self, block: Arc<Block>, read: bool) -> Result<Next> {
        let at = self.at.as_mut();
        let at = at.expect("a search that needs a block is at a table");
        at.read |= read;
        let step = at.get.supply(block)?;
        match self.go(step) {
            Some(next) => Ok(next),
            None => self.next_table(),
        }
    }

    /// Goes on with the value in a blob file that was needed; `read` if it was not in the cache.
    #[cold]
    pub(crate) fn blob(&mut self, value: Vec<u8>, read: bool) -> Next {
        self.tables.files.count_found(FoundIn::of(read));
        Next::Found(Some(Some(TableValue::Blob(value))))
    }

    fn next_table(&mut self) -> Result<Next> {
        while let Some(run) = self.runs.get(self.next_run) {
            self.next_run += 1;
            let Some(table) = runs::may_have(run, self.key) else {
                continue;
            };
            if let Some(in_pm) = self.tables.held.pm(table.file) {
                match self.get_in_pm(in_pm)? {
                    None => continue,
                    Some(next) => return Ok(next),
                }
            }
            let handle = self.tables.handle(table);
            let (open, may_contain) = match handle.ask(self.key) {
                Asked::May(open, may_contain) => (open, may_contain),
                Asked::Nothing => continue,
                // Where the filter is at hand it tells sooner than all keys (decision 166).
                Asked::Closed if self.tables.known_place(table, self.key) == Where::Not => continue,
                Asked::Closed => return Ok(Next::Table(handle.clone())),
            };
            // The filter is not asked twice.
            if let Some(next) = self.enter(open, |get| get.start_asked(may_contain)) {
                return Ok(next);
            }
        }
        Ok(Next::Found(None))
    }

    /// The table that it has come to.
    #[cold]
    fn last_table(&self) -> &Arc<TableRef> {
        let run = self.next_run.checked_sub(1);
        let table = run.and_then(|run| runs::may_have(&self.runs[run], self.key));
        table.expect("the table of the run was asked for")
    }

    /// What a table in a file says, in which the lookup begins so; `None` if it has no entry.
    #[inline]
    fn enter(
        &mut self,
        open: Arc<OpenTable>,
        begin: impl FnOnce(&mut Get<'a, TablePart>) -> Step<Option<Found>>,
    ) -> Option<Next> {
        // The key lies in the range of the reference, and so within its limits. Of such a key the whole table says what the part
        // says: a cut leaves its entries, and the seqno of what covers it.
        let part = TablePart::whole(open.table.clone());
        let at = self.at.insert(InTable {
            open,
            get: Get::new(part, self.key, self.seqno),
            asked: false,
            read: false,
        });
        let step = begin(&mut at.get);
        self.go(step)
    }

    #[inline]
    fn go(&mut self, step: Step<Option<Found>>) -> Option<Next> {
        let at = self.at.as_mut()?;
        let found = match step {
            Step::Need(handle) => {
                at.asked = true;
                return Some(Next::Block(handle));
            }
            Step::Done(found) => found,
        };
        let (asked, read) = (at.asked, at.read);
        self.at = None;
        if asked && self.watch.looks {
            let table = self.last_table().clone();
            self.watch.asked(&table);
        }
        let found = found?;
        Some(match (found.kind, found.value) {
            (Kind::Put, FoundValue::Inline(value)) => {
                self.tables.files.count_found(FoundIn::of(read));
                Next::Found(Some(Some(TableValue::Block(value))))
            }
            (Kind::Put, FoundValue::Blob(blob)) => Next::Blob(blob),
            (Kind::Merge, _) => {
                self.tables.files.count_found(FoundIn::of(read));
                Next::Found(Some(Some(TableValue::Operand)))
            }
            _ => Next::Found(Some(None)),
        })
    }

    /// What a table in persistent memory says; `None` if it has no entry.
    fn get_in_pm(&self, table: &Arc<PmTable>) -> Result<Option<Next>> {
        let files = &self.tables.files;
        // Without limits, as above.
        let Some(found) = table.get(self.cf, self.key, self.seqno, files.verify)? else {
            return Ok(None);
        };
        Ok(Some(match (found.kind, found.value) {
            (Kind::Put, thermocline_level0::FoundValue::Inline(value)) => {
                files.count_found(FoundIn::Pm);
                Next::Found(Some(Some(TableValue::Pm(value))))
            }
            (Kind::Put, thermocline_level0::FoundValue::Blob(blob)) => Next::Blob(blob),
            (Kind::Merge, _) => {
                files.count_found(FoundIn::Pm);
                Next::Found(Some(Some(TableValue::Operand)))
            }
            _ => Next::Found(Some(None)),
        }))
    }
}
