//! Checking a table as a whole: every byte, and every rule that readers rely on.
//!
//! It takes one data block and one index block of memory beside what opening the table takes, whatever
//! its size and whatever is wrong with it, and reads no block twice (checksums of blocks are): data blocks must ascend in
//! the file, and one that does not is a fault and is not read.

use std::ops::Bound;
use std::sync::Arc;
use std::vec::IntoIter;

use thermocline_base::checksum::crc32c;
use thermocline_base::{BlobRef, CfId, Error, Kind, Result, SeqNo};
use thermocline_env::File;

use crate::block::Block;
use crate::block::cursor::BlockCursor;
use crate::format::coding::damaged;
use crate::format::footer::Footer;
use crate::format::trailer::TRAILER_CRC_LEN;
use crate::format::{FOOTER_LEN, PAGE_BYTES};
use crate::handle::BlockHandle;
use crate::identity::Identity;
use crate::key::{InternalKey, KeyRef};
use crate::learned::{Learned, leads_to};
use crate::properties::BlobUse;
use crate::root::Root;
use crate::sync::{BlockSource, FileSource, open_table};
use crate::table::Table;
use crate::value::Value;

/// Most faults that a check describes; it counts the others.
pub const FAULTS_MAX: usize = 100;

/// What a check found.
#[derive(Debug, Default)]
pub struct Verified {
    /// Data blocks, or records of a blob file, that were read.
    pub blocks: u64,
    /// Entries, or values, that were read.
    pub entries: u64,
    /// Bytes of values of a blob file that were read.
    pub value_bytes: u64,
    /// Faults, each with file and offset: the first [`FAULTS_MAX`]. None if all is well.
    pub faults: Vec<Error>,
    /// How many more there were.
    pub more_faults: u64,
}

impl Verified {
    pub(crate) fn note(&mut self, fault: Error) {
        match self.faults.len() < FAULTS_MAX {
            true => self.faults.push(fault),
            false => self.more_faults += 1,
        }
    }
}

/// Reads the whole table in `file`, which should be `identity`, and checks every checksum and rule.
/// Errors of reading are faults too; it goes on behind a fault where it can.
pub fn verify_table(file: &Arc<dyn File>, identity: Identity) -> Verified {
    verify_table_with(file, identity, &mut |_, _, _| Ok(()))
}

/// What a table refers to: the family and the key of an entry, and where its value lies.
pub type CheckBlob<'a> = &'a mut dyn FnMut(CfId, &[u8], BlobRef) -> Result<()>;

/// As [`verify_table`]; and of each entry whose value lies in a blob file it asks `blobs` whether it does.
pub fn verify_table_with(
    file: &Arc<dyn File>,
    identity: Identity,
    blobs: CheckBlob<'_>,
) -> Verified {
    let mut verified = Verified::default();
    match open_table(&**file, identity) {
        Ok(table) => {
            let mut check = Check {
                source: FileSource(Arc::clone(file)),
                table: &table,
                verified: &mut verified,
                last: None,
                last_user_key: None,
                leaves: Vec::new().into_iter(),
                end: 0,
                blocks_crc: 0,
                counted: Counted::of(&table),
                blobs,
            };
            match &table.root {
                Root::Binary(root) => check.index(root),
                Root::Learned(index) => check.learned(index),
            }
            check.behind_data();
            check.counts();
            check.blocks_crc();
        }
        Err(e) => verified.note(e),
    }
    verified
}

#[derive(Debug, PartialEq, Eq)]
struct Counted {
    entries: u64,
    deletes: u64,
    merges: u64,
    user_keys: u64,
    key_bytes: u64,
    value_bytes: u64,
    data_blocks: u64,
    data_bytes: u64,
    /// Of the files that the properties name.
    blobs: Vec<BlobUse>,
}

impl Counted {
    /// Nothing yet, of this table.
    fn of(table: &Table) -> Counted {
        let unused = |blob: &BlobUse| BlobUse {
            values: 0,
            bytes: 0,
            ..*blob
        };
        Counted {
            entries: 0,
            deletes: 0,
            merges: 0,
            user_keys: 0,
            key_bytes: 0,
            value_bytes: 0,
            data_blocks: 0,
            data_bytes: 0,
            blobs: table.properties.blobs.iter().map(unused).collect(),
        }
    }

    /// Counts a value in a blob file; false if the properties do not name the file.
    fn blob(&mut self, to: BlobRef) -> bool {
        let found = self.blobs.binary_search_by_key(&to.file, |blob| blob.file);
        if let Ok(n) = found {
            self.blobs[n].values += 1;
            self.blobs[n].bytes = self.blobs[n].bytes.saturating_add(u64::from(to.len));
        }
        found.is_ok()
    }
}

struct Check<'a> {
    source: FileSource,
    table: &'a Arc<Table>,
    verified: &'a mut Verified,
    /// The last entry, or the separator behind it.
    last: Option<InternalKey>,
    /// The user key of the last entry.
    last_user_key: Option<Vec<u8>>,
    /// The lower index blocks that lie behind all data blocks so far.
    leaves: IntoIter<BlockHandle>,
    /// Where the blocks so far end in the file.
    end: u64,
    /// The checksum of their checksums.
    blocks_crc: u32,
    counted: Counted,
    blobs: CheckBlob<'a>,
}

impl Check<'_> {
    fn fault(&mut self, at: u64, what: &str) {
        let e = damaged(what, 0, "right", "wrong");
        self.verified.note(e.into_error(self.table.name(), at));
    }

    fn noted<T>(&mut self, answer: Result<T>) -> Option<T> {
        answer.map_err(|e| self.verified.note(e)).ok()
    }

    /// Everything below an index block.
    fn index(&mut self, index: &Arc<Block>) {
        let mut cursor = BlockCursor::new(Arc::clone(index));
        if index.level() > 0 {
            self.leaves = handles(index).into_iter();
        }
        let mut more = cursor.first();
        while more {
            let handle = cursor.handle();
            if index.level() > 0 || self.is_next(handle) {
                let block = self.source.block(self.table, handle);
                if let Some(block) = self.noted(block) {
                    match index.level() {
                        0 => {
                            self.data(&block, handle);
                            self.separated(handle, cursor.key());
                        }
                        _ => self.leaf(&block, handle, cursor.key()),
                    }
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

    /// All data blocks, and whether the index leads to each key.
    fn learned(&mut self, index: &Learned) {
        for n in 0..index.blocks() {
            let handle = index.handle(n);
            if !self.is_next(handle) {
                continue;
            }
            let block = self.source.block(self.table, handle);
            let Some(block) = self.noted(block) else {
                continue;
            };
            self.data(&block, handle);
            let mut cursor = BlockCursor::new(block);
            let mut more = cursor.first();
            while more {
                if !leads_to(index, cursor.key().user_key, n) {
                    self.fault(handle.offset, "the index above a data block");
                    break;
                }
                more = cursor.next();
            }
        }
    }

    fn data(&mut self, block: &Arc<Block>, handle: BlockHandle) {
        self.verified.blocks += 1;
        self.counted.data_blocks += 1;
        self.counted.data_bytes += u64::from(handle.len);
        let mut cursor = BlockCursor::new(Arc::clone(block));
        let mut more = cursor.first();
        while more {
            self.entry(&cursor, handle);
            more = cursor.next();
        }
    }

    /// Whether a data block lies below its separator.
    fn separated(&mut self, handle: BlockHandle, separator: KeyRef<'_>) {
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
        let (kind, value) = cursor.value();
        self.verified.entries += 1;
        self.counted.entries += 1;
        self.counted.key_bytes += key.user_key.len() as u64;
        let named = match value {
            Value::Inline(bytes) => {
                self.counted.value_bytes += bytes.len() as u64;
                true
            }
            Value::Blob(to) => {
                let there = (self.blobs)(self.table.properties().cf, key.user_key, to);
                self.noted(there);
                self.counted.blob(to)
            }
        };
        if !named {
            self.fault(handle.offset, "a blob file that the properties do not name");
        }
        self.counted.deletes += u64::from(kind == Kind::Delete);
        self.counted.merges += u64::from(kind == Kind::Merge);
        if self.last.as_ref().is_some_and(|last| last.as_ref() >= key) {
            self.fault(handle.offset, "the order of entries");
        }
        if !self.table.may_contain(key.user_key) {
            self.fault(handle.offset, "a filter that denies a key");
        }
        let here = Bound::Included(key.user_key);
        if self.table.denied_prefix((here, here)).is_some() {
            self.fault(handle.offset, "a filter that denies a prefix");
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

    /// Whether this data block lies behind all before it. Lower index blocks may lie between.
    fn is_next(&mut self, data: BlockHandle) -> bool {
        let before = |leaf: &&BlockHandle| leaf.offset < data.offset;
        while let Some(leaf) = self.leaves.as_slice().first().filter(before).copied() {
            self.leaves.next();
            self.follows(leaf.offset, leaf.end());
        }
        self.follows(data.offset, data.end())
    }

    /// Behind the last data block there may be index blocks, and nothing else.
    fn behind_data(&mut self) {
        for leaf in std::mem::take(&mut self.leaves) {
            self.follows(leaf.offset, leaf.end());
        }
        self.follows(self.table.data_end, self.table.data_end);
    }

    /// Whether something from `begin` to `end` lies behind all before it. Between blocks there are
    /// zeros, less than a page of them.
    fn follows(&mut self, begin: u64, end: u64) -> bool {
        let last = self.end;
        self.end = last.max(end);
        let Some(len) = begin.checked_sub(last) else {
            self.fault(begin, "blocks that lie side by side");
            return false;
        };
        match usize::try_from(len) {
            Ok(0) => {}
            Ok(len) if len < PAGE_BYTES => {
                let mut gap = vec![0; len];
                let read = self.source.0.read_exact_at(&mut gap, last);
                if self.noted(read).is_some() && gap.iter().any(|&b| b != 0) {
                    self.fault(last, "zeros between blocks");
                }
            }
            _ => self.fault(last, "blocks that lie side by side"),
        }
        if end > begin && self.table.properties.blocks_crc.is_some() {
            let added = self.add_crc(end);
            self.noted(added);
        }
        true
    }

    /// Takes in the checksum of the block that ends there.
    fn add_crc(&mut self, end: u64) -> Result<()> {
        let mut crc = [0; TRAILER_CRC_LEN];
        let at = end.saturating_sub(crc.len() as u64);
        self.source.0.read_exact_at(&mut crc, at)?;
        self.blocks_crc = crc32c(self.blocks_crc, &crc);
        Ok(())
    }

    /// With the blocks from the filter on: whether the properties have the checksum of all.
    fn blocks_crc(&mut self) {
        let claimed = self.table.properties.blocks_crc;
        if claimed.is_none() || !self.verified.faults.is_empty() {
            return;
        }
        let rest = self.rest();
        let Some([filter, tombstones, index, own]) = self.noted(rest) else {
            return;
        };
        for block in [filter, tombstones, index].into_iter().flatten() {
            let added = self.add_crc(block.end());
            self.noted(added);
        }
        if claimed != Some(self.blocks_crc) {
            let at = own.map_or(self.table.data_end, |own| own.offset);
            self.fault(at, "the checksum of all blocks in the properties");
        }
    }

    /// The blocks that the footer names.
    fn rest(&self) -> Result<[Option<BlockHandle>; 4]> {
        let mut footer = [0; FOOTER_LEN];
        let at = self.table.bytes - FOOTER_LEN as u64;
        self.source.0.read_exact_at(&mut footer, at)?;
        let identity = &self.table.properties.identity;
        let footer = Footer::decode(&footer, identity, self.table.bytes);
        Ok(footer
            .map_err(|e| e.into_error(self.table.name(), at))?
            .blocks())
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
            key_bytes: p.key_bytes,
            value_bytes: p.value_bytes,
            data_blocks: p.data_blocks,
            data_bytes: p.data_bytes,
            blobs: p.blobs.clone(),
        };
        if claimed != self.counted {
            self.fault(self.table.data_end, "the counts in the properties");
        }
    }
}

/// Where the blocks lie that an index block points to.
fn handles(index: &Arc<Block>) -> Vec<BlockHandle> {
    let mut cursor = BlockCursor::new(Arc::clone(index));
    let mut all = Vec::new();
    let mut more = cursor.first();
    while more {
        all.push(cursor.handle());
        more = cursor.next();
    }
    all
}
