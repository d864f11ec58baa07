//! How large a record is, wherever it lies.

/// Bytes of an item's header, of a record's, and of what they are filled up to. As in `FORMATS.md`.
const ITEM_HEADER: u64 = 48;
const RECORD_HEADER: u64 = 16;
const RECORD_PARTS: u64 = 8;
const LINE: u64 = 64;

/// Bytes of a data block, which takes whole pages.
const BLOCK: u64 = 4 << 10;

/// Bytes of an entry in a block beside its value: what is left of a key of 16 bytes once its neighbours' part is taken off, its
/// seqno and its lengths. Measured with values of 50 to 4000 bytes: within 5 % (`cargo test -p thermocline-engine --test simulated`).
const ENTRY_BYTES: u64 = 12;

/// Bytes of an entry in a table in persistent memory beside its key and value. Measured likewise, with values of 1000 bytes.
const PM_ENTRY_BYTES: u64 = 7;

/// Of a longer key one byte in so many is not its neighbours'. An estimate.
const KEY_PARTS: u64 = 4;

/// The key length that [`ENTRY_BYTES`] was measured with.
const KEY_USUAL: u64 = 16;

/// Bytes of DRAM that the index takes for a record. At most so many by the argument of the crate `art`, which has a test for it.
const INDEX_BYTES: u64 = 40;

/// A record, by the lengths of its key and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Bytes of the key.
    pub key_bytes: u64,
    /// Bytes of the value.
    pub value_bytes: u64,
}

impl Record {
    /// What the user writes.
    ///
    /// ```
    /// use thermocline_policy::simulate::Record;
    /// let record = Record { key_bytes: 16, value_bytes: 100 };
    /// assert_eq!((record.user(), record.in_memtable(), record.in_pm_table(), record.in_file()), (116, 192, 123, 114));
    /// ```
    pub fn user(&self) -> u64 {
        (self.key_bytes + self.value_bytes).max(1)
    }

    /// In a memtable, written alone.
    pub fn in_memtable(&self) -> u64 {
        let record = (RECORD_HEADER + self.user()).next_multiple_of(RECORD_PARTS);
        (ITEM_HEADER + record).next_multiple_of(LINE)
    }

    /// In a table in persistent memory.
    pub fn in_pm_table(&self) -> u64 {
        self.user() + PM_ENTRY_BYTES
    }

    /// In a file, uncompressed, with its part of what is unused in its block.
    pub fn in_file(&self) -> u64 {
        let longer = self.key_bytes.saturating_sub(KEY_USUAL) / KEY_PARTS;
        let shorter = KEY_USUAL
            .saturating_sub(self.key_bytes)
            .min(ENTRY_BYTES / 2);
        let entry = ENTRY_BYTES + longer - shorter + self.value_bytes;
        match BLOCK / entry {
            0 => entry,
            each => BLOCK.div_ceil(each.min(BLOCK / 2)).min(entry + BLOCK / 8),
        }
    }

    /// DRAM of the index of memtables.
    pub fn in_index(&self) -> u64 {
        INDEX_BYTES
    }
}
