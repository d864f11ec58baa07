//! Table references: what a version says about a table, without looking into it.

use std::fmt;

use thermocline_base::{CfId, FileId, KeyRange, SeqNo};

/// Bytes that an edit has of a table beside its keys and blob files, at most.
const BYTES_BESIDE_KEYS: usize = 128;

/// Bytes that it has of each blob file to which that refers.
const BYTES_OF_BLOB: usize = 16;

/// The number of a partition, which is a range of keys of a column family: see
/// [`crate::partitions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct PartitionId(pub u32);

impl PartitionId {
    /// The first one of every family: of all its keys, until others are made. In a [`Place`] it stands for
    /// all of them.
    pub const WHOLE: PartitionId = PartitionId(0);
}

/// The number of a level on SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Level(pub u8);

impl Level {
    /// The newest, whose tables may overlap.
    pub const ZERO: Level = Level(0);
    /// The deepest.
    pub const MAX: Level = Level(7);
}

/// Where a table stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Place {
    /// The column family.
    pub cf: CfId,
    /// [`PartitionId::WHOLE`]: the partitions of a family have their tables in common
    /// ([`crate::partitions`]).
    pub partition: PartitionId,
    /// The level there.
    pub level: Level,
}

impl Place {
    /// Where the tables of all partitions of a family stand.
    pub fn new(cf: CfId, level: Level) -> Place {
        Place {
            cf,
            partition: PartitionId::WHOLE,
            level,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cf, partition, level) = (self.cf, self.partition.0, self.level.0);
        write!(
            f,
            "family {cf}, partition {partition}, level {level}",
            cf = cf.0
        )
    }
}

/// What a table reference refers to in one blob file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlobBytes {
    /// The blob file.
    pub file: FileId,
    /// Bytes of values there.
    pub bytes: u64,
}

/// A table, or the part of it within limits.
///
/// ```
/// use thermocline_base::{FileId, KeyRange, SeqNo};
/// use thermocline_version::TableRef;
/// let table = TableRef {
///     file: FileId(7),
///     file_bytes: 4096,
///     bytes: 4096,
///     entries: 100,
///     deletes: 10,
///     range: KeyRange::inclusive("a", "m").owned(),
///     limited_below: false,
///     limited_above: false,
///     smallest_seqno: SeqNo(5),
///     largest_seqno: SeqNo(104),
///     blobs: vec![],
/// };
/// let part = table.part(None, Some(b"g")).unwrap();
/// assert_eq!(part.limits(), (None, Some(&b"g"[..])));
/// assert_eq!(part.range, KeyRange::until("a", "g").owned());
/// assert!(table.part(Some(b"x"), None).is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRef {
    /// The table's file.
    pub file: FileId,
    /// Bytes of the whole file.
    pub file_bytes: u64,
    /// Bytes that this reference stands for: of the whole file, or the estimated share of a part.
    pub bytes: u64,
    /// Entries, range tombstones among them; estimated for a part.
    pub entries: u64,
    /// Of those, deletes and range tombstones; 0 only if there are none.
    pub deletes: u64,
    /// No key of this reference lies outside.
    pub range: KeyRange,
    /// Whether the table may have keys below the range, which do not belong to this reference.
    pub limited_below: bool,
    /// Whether the table may have keys behind the range, which do not belong to this reference. The
    /// range is open then.
    pub limited_above: bool,
    /// No entry is older; of the whole table.
    pub smallest_seqno: SeqNo,
    /// No entry is newer; of the whole table.
    pub largest_seqno: SeqNo,
    /// What it refers to in blob files, by file; estimated for a part.
    pub blobs: Vec<BlobBytes>,
}

impl TableRef {
    /// Whether it is limited to a part of the table.
    pub fn is_part(&self) -> bool {
        self.limited_below || self.limited_above
    }

    /// Whether it refers to values of which it does not say how many bytes they have: parts of tables do.
    pub fn refers_to_unknown(&self) -> bool {
        self.blobs.iter().any(|blob| blob.bytes == 0)
    }

    /// Bytes of values in blob files to which it refers, as far as it says so. No more than fit the number: what a manifest
    /// says was compared with each blob file by itself.
    pub fn blob_bytes(&self) -> u64 {
        let bytes = self.blobs.iter().map(|blob| blob.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Bytes that an edit has of it where it is added, at most. Where it is removed, these are less.
    pub fn named_bytes(&self) -> u64 {
        let keys = self.range.first.len() + self.range.last.len();
        (keys + BYTES_BESIDE_KEYS + BYTES_OF_BLOB * self.blobs.len()) as u64
    }

    /// The first key of the part and the first key behind it, where it is limited.
    pub fn limits(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        let lower = self.limited_below.then_some(&*self.range.first);
        let upper = self.limited_above.then_some(&*self.range.last);
        (lower, upper)
    }

    /// The part of it from `lower` on and before `upper`; `None` if there is nothing. Sizes, counts
    /// and blob references are those of the whole: whoever cuts estimates the shares.
    pub fn part(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Option<TableRef> {
        let range = self.range.cut(lower, upper);
        let below = lower.is_some_and(|lower| *lower > *self.range.first);
        let above = upper.is_some_and(|upper| !self.range.ends_before(upper));
        (!range.is_empty()).then(|| TableRef {
            range,
            limited_below: self.limited_below || below,
            limited_above: self.limited_above || above,
            ..self.clone()
        })
    }

    /// The parts of it below `key` and from it on, if both have keys. About `below` in `of` of its bytes
    /// lie below; sizes and counts are divided like that, and no part says that it has no deletes where the
    /// whole has some. Both refer to the same blob files, to no bytes there as far as is known.
    pub fn cut_at(&self, key: &[u8], (below, of): (u64, u64)) -> Option<[TableRef; 2]> {
        let (mut low, mut high) = (self.part(None, Some(key))?, self.part(Some(key), None)?);
        let share = |n: u64| {
            let part = u128::from(n) * u128::from(below.min(of)) / u128::from(of.max(1));
            u64::try_from(part).expect("a part of a number")
        };
        low.bytes = share(self.bytes);
        high.bytes = self.bytes - low.bytes;
        let some = self.deletes.min(1);
        low.deletes = share(self.deletes).max(some);
        high.deletes = (self.deletes - share(self.deletes)).max(some);
        low.entries = share(self.entries).max(low.deletes);
        high.entries = (self.entries - share(self.entries)).max(high.deletes);
        // Who compacts one part says exactly what that has, so an estimate must not be too large: a blob file
        // has no more bytes than are referred to.
        for blob in low.blobs.iter_mut().chain(&mut high.blobs) {
            blob.bytes = 0;
        }
        Some([low, high])
    }

    /// This part and `other` of the same table as one, if `other` begins where this one ends. What cutting has
    /// forgotten of blob files only the table itself can tell.
    pub fn joined(&self, other: &TableRef) -> Option<TableRef> {
        let neighbours = self.file == other.file
            && self.limited_above
            && other.limited_below
            && self.range.last == other.range.first;
        if !neighbours {
            return None;
        }
        let first = self.range.first.clone();
        let mut both = TableRef {
            range: KeyRange {
                first,
                ..other.range.clone()
            },
            limited_above: other.limited_above,
            entries: self.entries.saturating_add(other.entries),
            deletes: self.deletes.saturating_add(other.deletes),
            ..self.clone()
        };
        both.bytes = match both.is_part() {
            true => self.bytes.saturating_add(other.bytes).min(self.file_bytes),
            false => self.file_bytes,
        };
        for (both, other) in both.blobs.iter_mut().zip(&other.blobs) {
            both.bytes = both.bytes.saturating_add(other.bytes);
        }
        Some(both)
    }

    /// Whether it is newer than `other` in all its entries.
    pub fn is_newer_than(&self, other: &TableRef) -> bool {
        self.smallest_seqno > other.largest_seqno
    }

    /// Whether `key` is one of the table's that this reference surely has: an end of its range that
    /// is not made by a limit or by a range tombstone.
    pub(crate) fn surely_has(&self, key: &[u8]) -> bool {
        let first = !self.limited_below && *self.range.first == *key;
        first || !self.range.open && *self.range.last == *key
    }
}

impl fmt::Display for TableRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = if self.is_part() { "part of " } else { "" };
        let (smallest, largest) = (self.smallest_seqno, self.largest_seqno);
        let (file, range) = (self.file, &self.range);
        write!(
            f,
            "{part}table {file}, {range}, seqnos {smallest} to {largest}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// Under a checksum that is right a manifest may say anything.
    #[test]
    fn bytes_in_blob_files_are_no_more_than_fit_the_number() {
        let blob = |file| BlobBytes {
            file: FileId(file),
            bytes: u64::MAX - 1,
        };
        let table = TableRef {
            blobs: vec![blob(1), blob(2)],
            ..fixture::table(3, ("a", "b"), (1, 2))
        };
        assert_eq!(table.blob_bytes(), u64::MAX);
    }
}
