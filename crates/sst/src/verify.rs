//! Checking a table as a whole: every byte, and every rule that readers rely on.

use std::sync::Arc;

use thermocline_base::{Error, Kind, Result, SeqNo};
use thermocline_env::File;

use crate::block::Block;
use crate::block::cursor::BlockCursor;
use crate::format::PAGE_BYTES;
use crate::format::coding::damaged;
use crate::handle::BlockHandle;
use crate::identity::Identity;
use crate::key::{InternalKey, KeyRef};
use crate::sync::{BlockSource, FileSource, open_table};
use crate::table::Table;

/// What a check found.
#[derive(Debug, Default)]
pub struct Verified {
    /// Data blocks, or records of a blob file, that were read.
    pub blocks: u64,
    /// Entries, or values, that were read.
    pub entries: u64,
    /// Every fault, with file and offset; none if all is well.
    pub faults: Vec<Error>,
}

/// Reads the whole table in `file`, which should be `identity`, and checks every checksum and rule.
/// Errors of reading are faults too; it goes on behind a fault where it can.
pub fn verify_table(file: &Arc<dyn File>, identity: Identity) -> Verified {
    let mut verified = Verified::default();
    match open_table(&**file, identity) {
        Ok(table) => {
            let mut check = Check {
                source: FileSource(Arc::clone(file)),
                table: &table,
                verified: &mut verified,
                last: None,
                last_user_key: None,
                spans: Vec::new(),
                counted: Counted::default(),
            };
            check.index(&table.root);
            check.gaps();
            check.counts();
        }
        Err(e) => verified.faults.push(e),
    }
    verified
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    entries: u64,
    deletes: u64,
    merges: u64,
    user_keys: u64,
    data_blocks: u64,
    data_bytes: u64,
}

struct Check<'a> {
    source: FileSource,
    table: &'a Arc<Table>,
    verified: &'a mut Verified,
    /// The last entry, or the separator behind it.
    last: Option<InternalKey>,
    /// The user key of the last entry.
    last_user_key: Option<Vec<u8>>,
    /// Where data and index blocks lie.
    spans: Vec<BlockHandle>,
    counted: Counted,
}

impl Check<'_> {
    fn fault(&mut self, at: u64, what: &str) {
        let e = damaged(what, 0, "right", "wrong");
        self.verified
            .faults
            .push(e.into_error(self.table.name(), at));
    }

    fn noted<T>(&mut self, answer: Result<T>) -> Option<T> {
        answer.map_err(|e| self.verified.faults.push(e)).ok()
    }

    /// Everything below an index block.
    fn index(&mut self, index: &Arc<Block>) {
        let mut cursor = BlockCursor::new(Arc::clone(index));
        let mut more = cursor.first();
        while more {
            let handle = cursor.handle();
            self.spans.push(handle);
            let block = self.source.block(self.table, handle);
            if let Some(block) = self.noted(block) {
                match index.level() {
                    0 => self.data(&block, handle, cursor.key()),
                    _ => self.leaf(&block, handle, cursor.key()),
                }
            }
            more = cursor.next();
        }
    }

    fn leaf(&mut self, block: &Arc<Block>, handle: BlockHandle, separator: KeyRef<'_>) {
        let mut last = BlockCursor::new(Arc::clone(block));
        let right = block.level() == 0 && last.last() && last.key() == separator;
        match right {
            true => self.index(block),
            false => self.fault(handle.offset, "an index block below the root"),
        }
    }

    fn data(&mut self, block: &Arc<Block>, handle: BlockHandle, separator: KeyRef<'_>) {
        self.verified.blocks += 1;
        self.counted.data_blocks += 1;
        self.counted.data_bytes += u64::from(handle.len);
        let mut cursor = BlockCursor::new(Arc::clone(block));
        let mut more = cursor.first();
        while more {
            self.entry(&cursor, handle);
            more = cursor.next();
        }
        if self
            .last
            .as_ref()
            .is_some_and(|last| last.as_ref() > separator)
        {
            self.fault(handle.offset, "the key in the index above a data block");
        }
        // What follows must lie behind the separator.
        self.last = Some(separator.to_owned());
    }

    fn entry(&mut self, cursor: &BlockCursor, handle: BlockHandle) {
        let key = cursor.key();
        let (kind, _) = cursor.value();
        self.verified.entries += 1;
        self.counted.entries += 1;
        self.counted.deletes += u64::from(kind == Kind::Delete);
        self.counted.merges += u64::from(kind == Kind::Merge);
        if self.last.as_ref().is_some_and(|last| last.as_ref() >= key) {
            self.fault(handle.offset, "the order of entries");
        }
        if !self.table.may_contain(key.user_key) {
            self.fault(handle.offset, "a filter that denies a key");
        }
        let p = self.table.properties();
        let within = |(low, high): (SeqNo, SeqNo)| (low..=high).contains(&key.seqno);
        let bounded = p.smallest.as_ref().is_some_and(|s| s.as_ref() <= key)
            && p.largest.as_ref().is_some_and(|l| key <= l.as_ref());
        if !p.seqnos.is_some_and(within) || !bounded {
            self.fault(handle.offset, "an entry outside of the table's bounds");
        }
        if self.last_user_key.as_deref() != Some(key.user_key) {
            self.counted.user_keys += 1;
            self.last_user_key = Some(key.user_key.to_vec());
        }
        self.last = Some(key.to_owned());
    }

    /// Between blocks there are zeros, less than a page of them.
    fn gaps(&mut self) {
        self.spans.sort_by_key(|handle| handle.offset);
        let mut ends = vec![0];
        ends.extend(self.spans.iter().map(BlockHandle::end));
        let mut begins: Vec<u64> = self.spans.iter().map(|handle| handle.offset).collect();
        begins.push(self.table.data_end);
        for (end, begin) in ends.into_iter().zip(begins) {
            let len = begin
                .checked_sub(end)
                .and_then(|len| usize::try_from(len).ok());
            match len {
                Some(0) => {}
                Some(len) if len < PAGE_BYTES => {
                    let mut gap = vec![0; len];
                    let read = self.source.0.read_exact_at(&mut gap, end);
                    if self.noted(read).is_some() && gap.iter().any(|&b| b != 0) {
                        self.fault(end, "zeros between blocks");
                    }
                }
                _ => self.fault(end, "blocks that lie side by side"),
            }
        }
    }

    fn counts(&mut self) {
        // A block that could not be read is a fault already, and its entries are missing here.
        if !self.verified.faults.is_empty() {
            return;
        }
        let p = self.table.properties();
        let claimed = Counted {
            entries: p.entries,
            deletes: p.deletes,
            merges: p.merges,
            user_keys: p.user_keys,
            data_blocks: p.data_blocks,
            data_bytes: p.data_bytes,
        };
        if claimed != self.counted {
            self.fault(self.table.data_end, "the counts in the properties");
        }
    }
}
