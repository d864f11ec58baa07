//! Edits: what changes, in words. The bytes are in [`crate::format`].

use std::sync::Arc;

use thermocline_base::{CfId, FileId};

use crate::job_done::JobDone;
use crate::pm_table::PmTableInfo;
use crate::table::{PartitionId, Place, TableRef};
use crate::write_times::WriteTime;

/// One thing that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The database exists. The first change of all, and only that.
    Created {
        /// The database's id, which seeds its checksums.
        db_id: [u8; 16],
        /// The id of the persistent-memory region that belongs to it; zeros if it has none, and its
        /// records lie in DRAM and in logs.
        region_id: [u8; 16],
    },
    /// The effective options, in place of the earlier ones.
    Options(Vec<(String, String)>),
    /// A column family exists.
    ColumnFamilyCreated {
        /// Never used before.
        id: u16,
        /// Not the name of another family that exists.
        name: String,
    },
    /// A column family does not exist any more. Not the default one.
    ColumnFamilyDropped {
        /// Its id.
        id: u16,
    },
    /// The options of a column family, in place of the earlier ones. Only those that are not as by
    /// default, so a family without such options has no change of this kind.
    ColumnFamilyOptions {
        /// The family, which exists.
        id: u16,
        /// Names and values.
        options: Vec<(String, String)>,
    },
    /// A memtable exists, before its first grant.
    MemtableCreated {
        /// Larger than any before.
        id: u64,
    },
    /// A memtable is not needed any more, nor are its chains. Where a later chain
    /// follows one of them without a base seqno of its own, that one must have been cut: the cut
    /// becomes the later chain's base.
    MemtableDropped {
        /// Its id.
        id: u64,
    },
    /// A chain of zones begins.
    ChainOpened {
        /// Larger than any before; seeds the checksums of its items.
        chain: u64,
        /// The number of the memtable whose records it holds.
        memtable: u64,
        /// The life of the process that writes it; never below an earlier chain's.
        incarnation: u32,
        /// The random value of that incarnation, which seeds checksums too.
        nonce: u64,
        /// The seqno of its first record; 0: the one after the previous chain's last.
        base_seqno: u64,
        /// Where in the region it begins; `None`: at its own first zone.
        start: Option<u64>,
    },
    /// A chain ends here, by seal or by recovery; whatever lies behind is not part of it.
    ChainCut {
        /// The chain.
        chain: u64,
        /// The seqno of its last record.
        last_seqno: u64,
        /// The region's offset behind its last item.
        end: u64,
    },
    /// A chain that was written before it was named, and is complete, becomes the one chain of a
    /// memtable that has none. It follows all chains that the manifest names by now.
    ChainAdopted {
        /// Its id, which no other chain has; it was reserved by [`Change::NextIds`].
        chain: u64,
        /// The memtable's number.
        memtable: u64,
        /// The life of the process that wrote it; never below an earlier chain's.
        incarnation: u32,
        /// The random value that seeds its checksums.
        nonce: u64,
        /// The seqno of its first record, which the record itself calls 1.
        base_seqno: u64,
        /// The seqno of its last record.
        last_seqno: u64,
        /// The region's offset behind its last item.
        end: u64,
    },
    /// No id below these will be given out. Each is at least what it was.
    NextIds(NextIds),
    /// A table reference stands in a level. Where a reference moves, or becomes parts, its removal
    /// comes first, in the same edit.
    TableAdded {
        /// Where.
        place: Place,
        /// The reference. Its file has an id that was reserved by [`Change::NextIds`]; the blob
        /// files that it refers to exist.
        table: Arc<TableRef>,
    },
    /// A table reference does not stand there any more.
    TableRemoved {
        /// Where it stood.
        place: Place,
        /// Its file.
        file: FileId,
        /// The first key of its range, which tells it from other parts of the file.
        smallest: Box<[u8]>,
    },
    /// A blob file exists.
    BlobFileAdded {
        /// Its id, which was reserved by [`Change::NextIds`].
        file: FileId,
        /// Its bytes.
        bytes: u64,
    },
    /// So many bytes of a blob file are values: what tables do not refer to of them is garbage, unless records do. It
    /// comes with the file, behind [`Change::BlobFileAdded`]. Of files of older programs nobody knows it.
    BlobValues {
        /// The blob file, which exists.
        file: FileId,
        /// Bytes of values in it.
        bytes: u64,
    },
    /// The files with ids below `below` (of which none is named yet), but for those below the bound of an
    /// earlier change of this kind, were written by the database `db_id`, of which this one is a copy.
    FilesInherited {
        /// Larger than that of every earlier such change; these ids are reserved.
        below: u64,
        /// Another database than this one.
        db_id: [u8; 16],
    },
    /// Every memtable with a base at or below this seqno has been flushed, or nothing of it is
    /// needed, whatever becomes of its tables. (That tables have later seqnos says so, too, while
    /// they do.)
    FlushedUpTo {
        /// Not below that of an earlier such change.
        seqno: u64,
    },
    /// Memtables are evacuated by ranges of keys: of those with bases above `above` and up to `up_to` all
    /// records before a key are in tables. From the first such change on, until one of
    /// [`Change::FlushedUpTo`] says that all of it is done, tables with later seqnos do not say that a
    /// memtable with a base above `above` was flushed.
    Evacuated {
        /// Memtables with bases up to here were flushed before; not below that of an earlier change.
        above: u64,
        /// The largest base of those that are evacuated.
        up_to: u64,
        /// The records of families with smaller ids are in tables, and of this family those
        cf: CfId,
        /// with keys below this one. Behind what an earlier such change has said.
        key: Box<[u8]>,
    },
    /// A partition exists: from its start on it takes the keys of the one in which that lies.
    PartitionCreated {
        /// Its family, which exists.
        cf: CfId,
        /// Its id, which no other partition of the family has.
        partition: PartitionId,
        /// Its first key; not empty, and not that of another partition.
        start: Box<[u8]>,
    },
    /// A partition exists no more: its keys belong to the one before it.
    PartitionRemoved {
        /// Its family.
        cf: CfId,
        /// Its id; not the first one's.
        partition: PartitionId,
        /// Its first key.
        start: Box<[u8]>,
    },
    /// From here on records in persistent memory, or in logs, may refer to blob files. Who does not know such
    /// records would take one for the torn end of its chain, and cut what comes behind; so it comes before
    /// the first, stays for ever, and must be known.
    LongValues,
    /// From here on there may be prepared transactions, whose footprints nobody else may change. Who does not know them
    /// would write there; so it comes before the first, stays for ever, in copies too, and must be known.
    PreparedTransactions,
    /// What is known of when something was written, behind what was known before. Who does not know it would begin a copy with
    /// seqnos that it speaks of, and those would be thought to be older than they are; so it must be known.
    WriteTimes(Arc<[WriteTime]>),
    /// A blob file is not needed any more: no table refers to it.
    BlobFileRemoved {
        /// Its id.
        file: FileId,
    },
    /// How often some partitions were read and written when the store was closed, in place of what was known of
    /// any. Whoever does not know this change may pass it over.
    PartitionRates(Arc<[StoredRate]>),
    /// What ended with this edit. Whoever does not know this change may pass it over.
    JobDone(Arc<JobDone>),
    /// A table in persistent memory exists; nothing refers to it yet. Its number was reserved as one of a
    /// file, and its zones' owner as a chain.
    PmTableAdded {
        /// The table.
        table: Arc<PmTableInfo>,
    },
    /// A table in persistent memory is not needed any more: nothing refers to it, and nobody reads it. Its
    /// zones are free.
    PmTableRemoved {
        /// Its number.
        file: FileId,
    },
}

/// How often a partition was read and written, in operations in a thousand seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredRate {
    /// Its family.
    pub cf: CfId,
    /// Its id.
    pub partition: PartitionId,
    /// Reads.
    pub reads: u64,
    /// Records written.
    pub writes: u64,
    /// Records that something newer took the place of.
    pub updates: u64,
}

impl Change {
    /// The change that removes `table` from `place`.
    pub fn table_removed(place: Place, table: &TableRef) -> Change {
        Change::TableRemoved {
            place,
            file: table.file,
            smallest: table.range.first.clone(),
        }
    }
}

/// The smallest ids that were never used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NextIds {
    /// Of chains.
    pub chain: u64,
    /// Of memtables.
    pub memtable: u64,
    /// Of column families; 65,536 when all are used up.
    pub cf: u32,
    /// Of incarnations.
    pub incarnation: u32,
    /// Of tables and blob files. It rises before a file is made, so that no id is ever used twice.
    pub file: u64,
}

/// Changes that happen in order, all or none.
///
/// ```
/// use thermocline_version::{Change, VersionEdit};
/// let edit = VersionEdit::new()
///     .with(Change::MemtableCreated { id: 7 })
///     .with(Change::MemtableDropped { id: 6 });
/// assert_eq!(edit.changes.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionEdit {
    /// The changes, in order.
    pub changes: Vec<Change>,
}

impl VersionEdit {
    /// An edit that changes nothing.
    pub fn new() -> VersionEdit {
        VersionEdit::default()
    }

    /// This edit and `change` after it.
    #[must_use]
    pub fn with(mut self, change: Change) -> VersionEdit {
        self.changes.push(change);
        self
    }
}

impl From<Change> for VersionEdit {
    fn from(change: Change) -> VersionEdit {
        VersionEdit::new().with(change)
    }
}
