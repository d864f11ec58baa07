//! Values: inline, or in a blob file; and values that were found, where they lie.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use thermocline_base::numbers::u32_at;
use thermocline_base::{BlobRef, Kind, Result, SeqNo};
use thermocline_pm::PmOff;

use crate::format::GROUP_HEAD;
use crate::format::group::stored_len;
use crate::table::PmTable;

/// The value of an entry, as it is written and as a cursor shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// The bytes themselves.
    Inline(&'a [u8]),
    /// Where the bytes lie.
    Blob(BlobRef),
}

/// Bytes where they lie in persistent memory. They stay there as long as this does: it holds the table, whose
/// zones are given back only when nobody holds it any more.
#[derive(Clone)]
pub struct Pinned {
    table: Arc<PmTable>,
    at: PmOff,
    len: usize,
    /// What its piece's checksums start from.
    seed: u64,
    checksum: Checksum,
}

/// Which checksum covers a value.
#[derive(Clone, Copy)]
pub(crate) enum Checksum {
    /// Its own.
    Own(u32),
    /// That of the group, which begins there.
    Group(PmOff),
}

impl Pinned {
    pub(crate) fn new(
        table: &Arc<PmTable>,
        run: usize,
        (at, len): (PmOff, usize),
        checksum: Checksum,
    ) -> Pinned {
        Pinned {
            table: table.clone(),
            at,
            len,
            seed: table.piece_of(run).seed,
            checksum,
        }
    }

    /// Compares the checksum that covers it, now, whether or not that was done when it was found.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] with region and offset.
    pub fn verify(&self) -> Result<()> {
        let (table, seed) = (&self.table, self.seed);
        match self.checksum {
            Checksum::Own(crc) => table.check(seed, self.at, self, crc, "a value")?,
            Checksum::Group(at) => {
                let len = stored_len(table.region().bytes(at, GROUP_HEAD)?);
                let within = at.plus(len as u64) >= self.at.plus(self.len as u64);
                // Its length may be what has rotted.
                let bytes = table.region().bytes(at, len);
                let bytes = bytes.ok().filter(|_| len > GROUP_HEAD && within);
                let bytes = bytes.ok_or_else(|| table.checksum("a group", at))?;
                table.check(seed, at, &bytes[4..], u32_at(bytes, 0), "a group")?;
            }
        }
        table.region().check_media()
    }

    /// The table that has them.
    pub fn table(&self) -> &Arc<PmTable> {
        &self.table
    }

    /// Where they lie in the region.
    pub fn at(&self) -> PmOff {
        self.at
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let bytes = self.table.region().bytes(self.at, self.len);
        bytes.unwrap_or_else(|_| unreachable!("it was read there, and stays while it is held"))
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} bytes at {})", self.len, self.at)
    }
}

/// The value of an entry that was found.
#[derive(Debug, Clone)]
pub enum FoundValue {
    /// The bytes themselves.
    Inline(Pinned),
    /// Where the bytes lie.
    Blob(BlobRef),
    /// There is none: the entry is a tombstone of its key or of a range.
    None,
}

/// The newest that a table says about a key.
#[derive(Debug, Clone)]
pub struct Found {
    /// When it was written.
    pub seqno: SeqNo,
    /// What it says. [`Kind::RangeDelete`] if the newest is a range tombstone that covers the key; of
    /// [`Kind::Merge`] there may be older entries, which a cursor finds.
    pub kind: Kind,
    /// The value of a put or merge.
    pub value: FoundValue,
}
