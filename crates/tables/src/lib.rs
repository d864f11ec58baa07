//! The tables of a version, open for whoever reads.
//!
//! # Invariants
//! 1. *Held means kept.* [`Tables`] holds its [`Version`], so none of the files that it names is
//!    obsolete (`version::version_set`) while a view has it.
//! 2. *Opened when needed.* A table is opened by the first reader that needs it. Versions that follow
//!    each other share what is open ([`held`]). It is closed when the last of them that names it has gone, or when
//!    others are needed more ([`open`]).
//! 3. *No other file.* A table opens only as the file of this database that it is named as, whole.
//!    So who reads on after his store was closed, and finds another database in the folder, gets an
//!    error, not its data.
//!
//! A point read asks run after run ([`runs`]), in each at most one table, and reads at most one index
//! block and one data block there; through a learned index further data blocks, if versions of the key, or keys with its code,
//! go on in them. Of a table of level 0 it may know which data block that is, or that there is none
//! ([`keys`]). Cursors read ahead ([`ahead`]). Where the bytes come from, and what is kept in DRAM: [`files`].

#![forbid(unsafe_code)]

mod ahead;
mod any;
mod beside;
mod course;
mod drive;
mod file;
mod files;
mod found;
mod habit;
mod held;
mod in_order;
mod keys;
mod levels;
mod name;
mod open;
mod open_blobs;
mod operand;
mod pieces;
mod pm;
mod runs;
mod scan;
mod search;
mod size;
mod source;
mod staged;
mod together;
mod values;
mod window;

use std::sync::Arc;

use thermocline_base::bounds::KeyBounds;
use thermocline_base::{CfId, Kind, Result, SeqNo};
use thermocline_level0::PmPart;
use thermocline_memtable::Direction;
use thermocline_sst::{
    BlockSource, CachedSource, KeyRef, Move, Pinned, SyncCursor, TablePart, Value, Where,
};
use thermocline_version::{Level, TableRef, Version};

use ahead::TableBlocks;
pub use any::{AnyCursor, AnyPart};
pub use beside::FilesBeside;
pub use course::Course;
pub use file::TableFile;
pub use files::{Carried, Lent, SharedCache, TableFiles, Work, dram_of};
pub use found::FoundIn;
use held::Held;
pub use in_order::ValuesInOrder;
pub use keys::Level0Keys;
pub use levels::{LevelState, TableIndexes};
pub use name::file_name;
use open::{Handle, OpenTable};
pub use operand::TableOperand;
pub use pm::{PmTables, Promise, Promised};
use runs::Run;
pub use scan::read_level0_keys;
pub use search::{Answer, Search};
pub use size::RangeSize;
pub use source::{TableSource, place, sources};
pub use staged::{NewFiles, Staged, Writes};
pub use together::{LongValue, read_values, wait_for_all, wait_for_all_async};

/// A table for a cursor.
enum ToScan {
    /// With what it moves over, if the table has range tombstones. Else nobody asks for that: it costs counts that threads share.
    Open(AnyCursor<TableBlocks>, Option<AnyPart>),
    /// All that is asked for begins with this, and the table says nothing of it.
    Denied(Vec<u8>),
}

/// The tables of a version.
#[derive(Debug)]
pub struct Tables {
    files: Arc<TableFiles>,
    held: Held,
}

impl Tables {
    /// Those of `version`; what `before` has open stays open. It is made under the writer's lock, so the cost is that of what
    /// differs from `before`, and a step for each chunk of tables; or that of `version`, if that has less than half of the
    /// tables.
    pub fn new(
        version: Arc<Version>,
        files: Arc<TableFiles>,
        before: Option<&Tables>,
    ) -> Arc<Tables> {
        let of = (&files.pm, &files.keys);
        let held = Held::new(version, of, before.map(|before| &before.held));
        Arc::new(Tables { files, held })
    }

    /// The version whose tables they are.
    pub fn version(&self) -> &Arc<Version> {
        self.held.version()
    }

    /// Whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn handle(&self, table: &TableRef) -> &Arc<Handle> {
        let handle = self.held.handle(table.file);
        handle.expect("there is a handle for each table of the version")
    }

    /// Where in the file of `table` all entries of `key` are, as far as is known without reading.
    #[inline]
    fn known_place(&self, table: &TableRef, key: &[u8]) -> Where {
        let keys = self.held.keys(table.file);
        keys.map_or(Where::Ask, |keys| keys.find(key))
    }

    fn open(&self, table: &TableRef) -> Result<(TablePart, Arc<OpenTable>)> {
        let open = self.handle(table).open(&self.files)?;
        let (lower, upper) = table.limits();
        let part = TablePart::limited(open.table.clone(), lower, upper);
        Ok((part, open))
    }

    /// What `table` refers to of family `cf`, if it lies in persistent memory.
    fn pm_part(&self, cf: CfId, table: &TableRef) -> Option<PmPart> {
        let found = self.held.pm(table.file)?;
        let (lower, upper) = table.limits();
        Some(PmPart::limited(found.clone(), cf, lower, upper))
    }

    /// As [`Tables::open`], for a cursor that goes this way: to the keys of a range, or on from the table before.
    fn open_to_scan(
        &self,
        cf: CfId,
        table: &TableRef,
        level: Level,
        (direction, placed): (Direction, Option<KeyBounds<'_>>),
    ) -> Result<ToScan> {
        if let Some(part) = self.pm_part(cf, table) {
            let covers = AnyPart::pm_with_ranges(&part);
            return Ok(ToScan::Open(AnyCursor::pm(part, self.files.verify), covers));
        }
        let (part, open) = self.open(table)?;
        if let Some(prefix) = placed.and_then(|range| open.denied_prefix(range)) {
            return Ok(ToScan::Denied(prefix.to_vec()));
        }
        let way = (direction, placed.is_some());
        let blocks = TableBlocks::new(open, self.files.clone(), level, way);
        let covers = AnyPart::file_with_ranges(&part);
        let cursor = AnyCursor::file(SyncCursor::new(part, blocks));
        Ok(ToScan::Open(cursor, covers))
    }

    /// Appends to `operands`, newest first, those of `key` at or below `seqno`, down to the first entry or range
    /// tombstone that is none. Returns the value there, if it is one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn stack(
        &self,
        cf: CfId,
        key: &[u8],
        seqno: SeqNo,
        operands: &mut Vec<TableOperand>,
    ) -> Result<Option<Vec<u8>>> {
        for run in self.runs(cf) {
            let Some(table) = runs::may_have(run, key) else {
                continue;
            };
            let sought = (cf, KeyRef::new(key, seqno));
            let end = match self.pm_part(cf, table) {
                Some(part) => {
                    let cursor = AnyCursor::<&CachedSource>::pm(part.clone(), self.files.verify);
                    self.stack_in(&AnyPart::Pm(part), cursor, sought, operands)?
                }
                None => self.stack_in_file(table, sought, operands)?,
            };
            if let Some(base) = end {
                return Ok(base);
            }
        }
        Ok(None)
    }

    /// As [`Tables::stack`], in a table in a file. None of its blocks is read where its keys, or its filter, say that it has
    /// no entry: a search asks both as well. `None`: older tables are to be asked.
    fn stack_in_file(
        &self,
        table: &TableRef,
        (cf, key): (CfId, KeyRef<'_>),
        operands: &mut Vec<TableOperand>,
    ) -> Result<Option<Option<Vec<u8>>>> {
        let handle = self.handle(table);
        let open = match handle.opened_to_read() {
            Some(open) => open,
            // Of a table with range tombstones it does not say so.
            None if self.known_place(table, key.user_key) == Where::Not => return Ok(None),
            None => handle.open(&self.files)?,
        };
        let (lower, upper) = table.limits();
        let part = TablePart::limited(open.table.clone(), lower, upper);
        if !part.table().may_contain(key.user_key) {
            // The filter knows entries alone, and a range tombstone ends what there is as an entry does.
            let covered = part.covering(key.user_key, key.seqno);
            return Ok(covered.map(|_| None));
        }
        let cursor = AnyCursor::file(SyncCursor::new(part.clone(), &open.source));
        self.stack_in(&AnyPart::File(part), cursor, (cf, key), operands)
    }

    /// As [`Tables::stack`], in one table. `None`: older tables are to be asked.
    fn stack_in<S: BlockSource>(
        &self,
        part: &AnyPart,
        mut cursor: AnyCursor<S>,
        (cf, key): (CfId, KeyRef<'_>),
        operands: &mut Vec<TableOperand>,
    ) -> Result<Option<Option<Vec<u8>>>> {
        let covered = part.covering(key.user_key, key.seqno).map(|t| t.seqno);
        let mut there = cursor.go(Move::Seek(key))?;
        while there && cursor.key().user_key == key.user_key {
            let seqno = cursor.key().seqno;
            if covered.is_some_and(|covered| covered > seqno) {
                break;
            }
            let base = match (cursor.kind(), cursor.value()?) {
                (Kind::Put, Value::Inline(value)) => Some(value.to_vec()),
                (Kind::Put, Value::Blob(blob)) => {
                    Some(self.files.read_blob(cf, key.user_key, blob)?)
                }
                (Kind::Merge, operand) => {
                    let bytes = match operand {
                        Value::Inline(operand) => operand.to_vec(),
                        Value::Blob(blob) => self.files.read_blob(cf, key.user_key, blob)?,
                    };
                    operands.push(TableOperand { seqno, bytes });
                    there = cursor.go(Move::Next)?;
                    continue;
                }
                _ => None,
            };
            return Ok(Some(base));
        }
        Ok(covered.map(|_| None))
    }

    /// A cursor of family `cf` has gone to `key`: if two runs of files may have it, the newer one's table is asked beside the
    /// other. Of each run's [`TableSource`], whether it has passed over its table, which is not asked then.
    pub fn charge_seek(&self, cf: CfId, key: &[u8], passed_over: impl Iterator<Item = bool>) {
        let mut watch = Watch::new(self, cf);
        if watch.looks {
            let runs = self.runs(cf).iter().zip(passed_over);
            let runs = runs.filter(|(_, passed_over)| !passed_over);
            let asked = runs.filter_map(|(run, _)| runs::may_have(run, key));
            for table in asked.filter(|table| self.held.pm(table.file).is_none()) {
                watch.asked(table);
            }
        }
    }

    /// A cursor has stepped over many deletes in a table.
    pub fn charge_deletes(&self, cf: CfId, table: &TableRef) {
        if self.files.reads.looks() {
            self.charge(cf, table);
        }
    }

    fn charge(&self, cf: CfId, table: &TableRef) {
        if let Some(handle) = self.held.handle(table.file) {
            handle.charge(&self.files, cf, table);
        }
    }

    /// The runs of a family, newest first.
    #[inline]
    fn runs(&self, cf: CfId) -> &[Run] {
        self.held.runs(cf)
    }
}

/// What one read asks, if it is looked at (`observe::charged`): the first table that a second one is asked
/// behind is charged.
struct Watch<'a> {
    tables: &'a Tables,
    cf: CfId,
    looks: bool,
    first: Option<Arc<TableRef>>,
}

impl<'a> Watch<'a> {
    #[inline]
    fn new(tables: &'a Tables, cf: CfId) -> Watch<'a> {
        Watch {
            tables,
            cf,
            looks: tables.files.reads.looks(),
            first: None,
        }
    }

    /// `table` was asked, and its filter has not answered.
    fn asked(&mut self, table: &Arc<TableRef>) {
        if !self.looks {
            return;
        }
        match self.first.take() {
            None => self.first = Some(table.clone()),
            Some(first) => {
                self.tables.charge(self.cf, &first);
                self.looks = false;
            }
        }
    }
}

/// A value that was found.
#[derive(Debug)]
pub enum TableValue {
    /// In a block.
    Block(Pinned),
    /// In a table in persistent memory.
    Pm(thermocline_level0::Pinned),
    /// Read from a blob file.
    Blob(Vec<u8>),
    /// None yet: the newest entry is an operand, and [`Tables::stack`] has all that there is.
    Operand,
}
