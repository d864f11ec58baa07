//! What can happen to a store.

use std::path::PathBuf;
use std::time::Duration;

use thermocline_base::stages::Stages;
use thermocline_policy::pick::Reason as CompactionReason;

use crate::cause::StallCause;

/// Something that happened to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The store was opened.
    Opened {
        /// Records that were indexed again.
        records: u64,
        /// Readable records of unfinished writes that were cut off at the end.
        cut_records: u64,
        /// Whether the process before did not close the store.
        after_crash: bool,
        /// From the start of opening until the store took requests.
        took: Duration,
    },
    /// The manifest names the next memtable, ahead of need.
    MemtablePrepared {
        /// Its number.
        id: u64,
    },
    /// A memtable takes no more writes.
    MemtableSealed {
        /// Its number.
        id: u64,
        /// Records in it, older versions and tombstones included.
        records: u64,
        /// Persistent memory of its records and headers, in bytes.
        bytes: u64,
    },
    /// A memtable is gone.
    MemtableDropped {
        /// Its number.
        id: u64,
    },
    /// Work that is due was decided on, and begins: in the background, or since somebody asks for what is due. What is
    /// asked for by name, a flush or the compaction of a range, is not decided on.
    Decided {
        /// What: the name of a [`Work`](thermocline_policy::work::Work).
        work: &'static str,
        /// Why, with the numbers that decided: the words of `explain`.
        because: String,
    },
    /// Sealed memtables are being written into tables.
    FlushBegun {
        /// How many.
        memtables: usize,
        /// Persistent memory of their records and headers, in bytes.
        bytes: u64,
    },
    /// A flush has ended.
    FlushFinished {
        /// Why it was begun; if it was due, with the numbers that decided.
        because: String,
        /// Memtables that it took.
        memtables: usize,
        /// Persistent memory of their records and headers, in bytes: of all, also where an earlier flush has written a part.
        bytes_in: u64,
        /// Tables that it wrote.
        tables: usize,
        /// Bytes that it read of files, without those that it read for tables that failed.
        bytes_read: u64,
        /// Bytes of the tables, and of blob files beside them.
        bytes: u64,
        /// Whether they lie in persistent memory because little was alive in the memtables, and not because all of
        /// level 0 does.
        rewritten: bool,
        /// From its beginning to its end.
        took: Duration,
        /// What of that it waited for files, as far as that is known if it failed.
        stages: Stages,
        /// Why everything is as before, if it is.
        error: Option<String>,
    },
    /// Indexes of sealed memtables were merged into one.
    IndexesMerged {
        /// How many.
        indexes: usize,
        /// Their keys.
        keys: u64,
        /// Keys of what has come of them.
        keys_after: u64,
        /// From beginning to end.
        took: Duration,
    },
    /// The index of several sealed memtables was divided by age.
    IndexDivided {
        /// Into how many.
        parts: usize,
        /// Its keys.
        keys: u64,
        /// Keys of all parts together.
        keys_after: u64,
        /// From beginning to end.
        took: Duration,
    },
    /// The region of persistent memory has grown.
    RegionGrown {
        /// Its size before, in bytes.
        from_bytes: u64,
        /// Its size now, in bytes.
        to_bytes: u64,
    },
    /// The manifest was rewritten in a new file.
    ManifestSwitched {
        /// The new file.
        path: PathBuf,
        /// Its size, in bytes.
        bytes: u64,
    },
    /// A compaction has begun.
    CompactionBegun {
        /// Its number, from 1 in each opening of the store.
        id: u64,
        /// The number of the column family.
        family: u16,
        /// Why.
        reason: CompactionReason,
        /// The level that the tables leave.
        from: usize,
        /// The level that they go to.
        to: usize,
        /// Tables that it takes, of both levels.
        tables: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// A compaction has ended.
    CompactionFinished {
        /// Its number, from 1 in each opening of the store.
        id: u64,
        /// The number of the column family.
        family: u16,
        /// Why it was begun.
        reason: CompactionReason,
        /// The level that the tables left.
        from: usize,
        /// The level that they went to.
        to: usize,
        /// Tables that it took, of both levels.
        tables: usize,
        /// Whether they were moved unread.
        moved: bool,
        /// Tables that it wrote.
        tables_written: usize,
        /// Bytes that it read.
        bytes_read: u64,
        /// Bytes of the tables that it wrote.
        bytes_written: u64,
        /// Entries that it read and nobody needed.
        entries_dropped: u64,
        /// From its beginning to its end.
        took: Duration,
        /// What of that it waited for files, as far as that is known if it failed.
        stages: Stages,
        /// Why everything is as before, if it is.
        error: Option<String>,
    },
    /// A partition was divided.
    PartitionSplit {
        /// The number of the column family.
        family: u16,
        /// The first key of the new partition.
        start: Vec<u8>,
        /// Tables, or parts of tables, that reached over it and became two parts each.
        cut: usize,
    },
    /// Partitions were merged with those before them.
    PartitionsMerged {
        /// The number of the column family.
        family: u16,
        /// How many were merged, and are no more.
        merged: usize,
        /// Tables, or larger parts of tables, that parts became again.
        joined: usize,
    },
    /// A flush has made partitions of prefixes that it met first.
    PartitionsMade {
        /// How many, in all families.
        made: usize,
    },
    /// A column family was made.
    ColumnFamilyCreated {
        /// Its name.
        name: String,
    },
    /// A column family was dropped.
    ColumnFamilyDropped {
        /// Its name.
        name: String,
    },
    /// A write was held up by the store's own work.
    WriteStalled {
        /// By what.
        cause: StallCause,
        /// For how long.
        took: Duration,
    },
    /// A write was refused for lack of space, after all before it were taken. Further ones are not
    /// told, until one at least as large as the smallest that was refused is taken.
    WritesRefused {
        /// Which budget is used up, and the remedy.
        cause: String,
    },
    /// A write is taken again as large as one that was refused.
    WritesResumed,
    /// Events were dropped here, because 4,096 waited for whoever listens.
    EventsLost {
        /// How many.
        events: u64,
    },
    /// A persist failed: the store takes no writes until it is opened again.
    Poisoned {
        /// What failed.
        cause: String,
    },
    /// The store was closed. If no [`Event::Opened`] came before, its opening has failed at the last step.
    Closed {
        /// Why that was not orderly; the next open recovers.
        error: Option<String>,
    },
}

/// Listens to the events of a store.
///
/// It is called on a thread of the store's runtime that does nothing else, in the order of events, one at a
/// time, and under no lock: it may use the store, and close it. While it runs other events of the store
/// and its callbacks wait, and nothing else does. Up to 4,096 events wait; further ones are dropped, and
/// [`Event::EventsLost`] says how many. Closing the store waits for it, unless that is done in it.
/// It may commit, but not wait for the outcome of an asynchronous commit, which is told behind it.
/// A panic in it ends the delivery of that event only.
///
/// Functions and closures are listeners.
pub trait EventListener: Send + Sync {
    /// Takes an event.
    fn event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> EventListener for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}
