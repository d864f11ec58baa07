//! Bugs planted on purpose. A layer of tests counts only after it has caught one.
//!
//! Code that could go wrong asks [`active`]. Without the feature `planted` (switched on by test targets only) that is
//! the constant `false` and vanishes. A test chooses the bug at run time for its own thread, so that tests can run
//! side by side. A process of its own may plant it in all threads.

macro_rules! bugs {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// A planted bug, named after what it leaves out.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Bug { $($(#[$meta])* $name,)* }

        impl Bug {
            /// Every planted bug.
            pub const ALL: &[Bug] = &[$(Bug::$name,)*];
        }
    };
}

bugs! {
    /// Write-back of an item is skipped before its fence.
    SkipFlush,
    /// The fence after an item is skipped.
    SkipFence,
    /// A write is finished, and so visible and acknowledged, before it is persisted.
    PublishBeforePersist,
    /// The folder is not synced after a manifest switch.
    ForgetDirFsync,
    /// Recovery begins to write under the incarnation of the previous process.
    KeepIncarnation,
    /// A zone header or item of an earlier life of the zone is accepted.
    StaleZoneGeneration,
    /// Rule 1: the walk accepts an item whose first seqno is not the expected one.
    WalkAcceptsGap,
    /// Rule 2: a bad item below `published` or `floor` is cut like a torn tail.
    CutBelowPublished,
    /// Rule 3: recovery does not persist again what it keeps.
    SkipRepersist,
    /// An open syncs again the bytes that it relies on, and does not store them again, though a sync may have failed.
    TrustCacheAfterFailedSync,
    /// A sync that fails for want of room only counts as a lack of room, and its bytes as durable.
    CleanAfterEnospc,
    /// Rule 4: writing starts before the manifest records the cut.
    AcceptBeforeSeal,
    /// Rule 5: the new incarnation begins right behind the cut.
    ReuseSeqnos,
    /// Rule 6: a write is acknowledged by its own persist, not by all before it.
    AckOutOfOrder,
    /// A durable write is acknowledged when it is visible, though one before it is not written back.
    AckAtVisible,
    /// A memtable is sealed while a group that was granted room in it has not finished.
    SealWhileOpen,
    /// A put does not look whether its key is in a gap.
    GapForgetsPut,
    /// A gap is taken for clean though groups are under way that its cursor has not seen.
    GapBesideWriters,
    /// Versions that a registered reader still sees are dropped.
    PurgePastReader,
    /// A column family is dropped without an edit that says so.
    DropUnrecorded,
    /// A column family is dropped while writes from before are not durable.
    DropBeforeDurable,
    /// A split leaves out what lies behind its key of the references that reach over it.
    SplitForgetsParts,
    /// A split does not wait for compactions that hold its key.
    SplitBesideJob,
    /// A merge joins parts that a compaction takes.
    MergeBesideJob,
    /// Replay indexes the records of dropped column families.
    ReplayForgetsDrops,
    /// Replay takes metadata for records of a family that does not exist.
    ReplayForgetsMetadata,
    /// An open does not look for prepared transactions: other writers may change what they claim.
    OpenForgetsPrepared,
    /// A transaction is acknowledged as prepared when it is visible.
    PreparedWhenVisible,
    /// Committing or rolling back a prepared transaction does not forget that it was prepared.
    ResolvedStaysPrepared,
    /// The descriptor of a dead memtable is given back before the manifest forgets the memtable.
    ReleaseBeforeEdit,
    /// A flushed memtable is dropped while an older one is named, and nothing says that this one was flushed.
    DropFlushedFirst,
    /// A cursor that stands still keeps its view, even if it is asked to let go.
    IdleKeepsView,
    /// Replay keeps only the newest version of a key, even if readers of an earlier opening go on.
    ReplayForgetsElders,
    /// An open frees values in place that readers of an earlier opening hold.
    ElderValueForgotten,
    /// A staged batch reserves its chain over numbers that it has read before it took the manifest's lock.
    StaleReservation,
    /// A staged batch is committed while its items are not written back.
    AdoptUnpersisted,
    /// A merge of indexes keeps only the newest version of a key.
    MergeForgetsReaders,
    /// Operands are folded across the moments of registered readers.
    FoldForgetsReaders,
    /// A compaction is installed though a registered reader sees what its filter has removed or changed.
    FilterForgetsReaders,
    /// Tables that a range tombstone covers go though a registered reader sees what they have.
    DeletedForgetsReaders,
    /// Tables that a range tombstone covers go before that is durable.
    DeletedBeforeDurable,
    /// A value that a compaction filter removes leaves no delete, whatever lies below.
    FilterUncovers,
    /// A write time speaks of seqnos that were not given out yet.
    TimesAhead,
    /// An operand is taken for a base: it hides what is below it in its memtable.
    OperandHides,
    /// A merge of indexes leaves out deletes, as if nothing lay below.
    MergeDropsDeletes,
    /// A compaction takes the level of its output for the last one, whatever lies below.
    CompactionForgetsBelow,
    /// The inputs of a compaction are unlinked before the edit that removes them.
    UnlinkBeforeEdit,
    /// An edit names tables whose names are not durable.
    NameBeforeSync,
    /// The checksum of a block or blob record is not compared.
    SkipBlockChecksum,
    /// The checksums of tables and blob files do not depend on where the bytes lie.
    ChecksumIgnoresPlace,
    /// A finished table or blob file is not synced.
    ForgetTableSync,
    /// The separator between two blocks that share a user key names only the user key.
    SeparatorForgetsSeqno,
    /// A search in a learned index does not go on to the next of several blocks.
    LearnedRunForgotten,
    /// A key that is below what a group begins with has the greatest code.
    CodeIgnoresOrder,
    /// The limits of a part of a table bind seeks, but not steps.
    PartLeaksBehindLimit,
    /// A file that is copied is not synced.
    CopyForgetsSync,
    /// A copy leaves out the range tombstones of what is in no table yet.
    CopyForgetsRanges,
    /// The names of a backup's files are not synced before its list is named.
    CopyForgetsNames,
    /// A range tombstone covers its end.
    TombstoneCoversEnd,
    /// A get believes a version that became visible after it had begun to read the key's versions.
    HalfSeen,
    /// Replay puts no range tombstones into indexes.
    ReplayForgetsTombstones,
    /// A memtable's range tombstones are never needed.
    TombstonesNeverNeeded,
    /// What was appended to a log is written and not synced.
    ForgetLogSync,
    /// The edit that names a chain is written before the chain's log is made.
    LogAfterName,
    /// The log of a dropped memtable is removed before the edit that drops it.
    RetireLogBeforeEdit,
    /// A memtable whose records tables have, and that has no later one, is taken for one that takes writes.
    FloorForgetsTables,
    /// Logs outside of a database's folder are used without asking whose they are.
    LogsUnclaimed,
    /// The checksum of what a frame of a log carries is not compared.
    SkipFrameChecksum,
    /// A change feed goes on behind a memtable that is gone.
    FeedAcceptsGap,
    /// A change feed gives what is visible, durable or not.
    FeedAheadOfDurable,
    /// Memtables go though a change feed has not read them.
    FeedForgetsPin,
    /// A change feed takes everything that could be read after a crash for durable.
    FeedTrustsWhatIsRead,
    /// A change feed takes no notice of seqnos that were lost in a crash.
    FeedAcceptsLost,
    /// A change group keeps no blob files.
    GroupForgetsBlobs,
    /// An open indexes memtables that were flushed and are kept.
    IndexKeptAtOpen,
    /// A PM table is named while its last piece is not fenced.
    NameTableUnpersisted,
    /// A PM table goes as soon as nothing refers to it, even if readers hold it.
    PmTableForgetsReaders,
    /// An internal compaction that has ended before its slice takes its inputs away as a whole.
    InternalForgetsRest,
    /// One edit takes the inputs of an internal compaction away, and another one brings its outputs.
    InternalInTwoEdits,
    /// The checksums of a PM table's groups, prefixes and values are not compared.
    SkipGroupChecksum,
    /// No edit names a blob file.
    BlobUnnamed,
    /// A collection of blob files writes tables anew, and leaves values where they are.
    CollectMovesNothing,
    /// A blob file goes although a memtable refers to it.
    BlobForgetsMemtables,
    /// A blob file goes although a write is about to refer to it.
    BlobForgetsWrites,
    /// A value from a blob file is not checked to be the right key's.
    BlobOfAnyKey,
    /// The manifest does not say that records may refer to blob files.
    LongValuesUntold,
    /// Bytes in blob files do not count in what feeds may keep.
    KeptBlobsUncounted,
    /// While memtables are evacuated they are taken for flushed, as far as tables have seqnos.
    EvacuatedIsFlushed,
    /// An open does not ask how far memtables are evacuated.
    FrontForgotten,
    /// A cursor passes over a table that has nothing of a prefix though the table has range tombstones.
    PrefixForgetsTombstones,
    /// A cursor that has passed over a table for a prefix does not come back when more is asked for.
    PassedOverForGood,
    /// Range tombstones of a memtable hide what was evacuated from it.
    FrontForgetsTombstones,
    /// Data that a range of a flush takes along is not looked for among what jobs hold.
    AlongBesideJob,
    /// A range of a flush that takes a table along drops the part outside of the range, too.
    AlongForgetsRest,
    /// A flush into the base level takes of level 0 only what lies where memtables have keys.
    SinkPassesLevel0,
    /// A flush that rewrites leaves the oldest memtable where it is.
    RewriteLeavesOlder,
    /// An open takes no names of blob files away.
    BlobForgottenAtOpen,
    /// An old index entry of a row stays when the row changes.
    RowForgetsEntry,
    /// While a unique index is built, a write takes away an entry that leads to another row.
    BuildTakesOthers,
    /// A unique index is not asked whether another row has the values.
    UniqueUnasked,
    /// A writer of a row does not keep the schema from changing.
    SchemaUnshared,
    /// An index can be read as soon as writes keep it.
    ReadyBeforeBuilt,
}

#[cfg(feature = "planted")]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

#[cfg(feature = "planted")]
static IN_PROCESS: std::sync::OnceLock<Bug> = std::sync::OnceLock::new();

/// Whether `bug` is planted on this thread.
#[inline]
#[cfg(feature = "planted")]
pub fn active(bug: Bug) -> bool {
    ACTIVE.get().or_else(|| IN_PROCESS.get().copied()) == Some(bug)
}

/// Plants `bug` on all threads of this process until it ends. The first one stays.
#[cfg(feature = "planted")]
pub fn plant_in_process(bug: Bug) {
    IN_PROCESS.get_or_init(|| bug);
}

/// Whether `bug` is planted: never, in this build.
#[inline]
#[cfg(not(feature = "planted"))]
pub fn active(_bug: Bug) -> bool {
    false
}

/// Plants `bug` on this thread until the guard is dropped, in place of the one that is planted there,
/// which then returns.
#[cfg(feature = "planted")]
#[must_use]
pub fn plant(bug: Bug) -> Planted {
    Planted(ACTIVE.replace(Some(bug)))
}

/// Keeps a bug planted; see [`plant`].
#[cfg(feature = "planted")]
#[derive(Debug)]
pub struct Planted(Option<Bug>);

#[cfg(feature = "planted")]
impl Drop for Planted {
    fn drop(&mut self) {
        ACTIVE.set(self.0);
    }
}
