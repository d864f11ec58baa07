//! Wiring: opening, recovery, writing and reading.
//!
//! # What an open database is
//! A folder with a manifest, a region of persistent memory, and in DRAM a [`View`]: the memtables,
//! newest first. Writers are granted room in the newest memtable's chain one at a time, and fill it
//! side by side. A reader takes the view, and looks from the newest memtable to the oldest.
//!
//! # Rooms (`store`, decision 119)
//! The state of a store lies in rooms. Each room has its own fields, the methods that change them, and the rooms that
//! it may use. `open::wired::rooms` makes the rooms one after the other, and gives each only some of those before it.
//! All rooms have `Common`: the parts below the engine, and plain fields.
//!
//! | room | what it does | in |
//! |---|---|---|
//! | `Pressure` | how much writers are held back; room on a full disk | `pressure` |
//! | `Level0Costs`, `Picker` | what level 0 costs; which compaction is next, and what it holds | `compact::{costs, due, beside, internal}` |
//! | `FlushDue` | whether a flush is due | `flush::due` |
//! | `Memtables` | where writes go: writer, next memtable, logs, promised DRAM | `write`, `next_memtable`, `dram`, `wal` |
//! | `Reads` | lookups, and the list of readers | `snapshot`, `value`, `holds`, `approximate` |
//! | `Sweeper` | removes unneeded files, blob files and PM tables | `sweep`, `blobs::remove`, `pm_tables::release` |
//! | `Feeds` | what change feeds read and keep | `feed` |
//! | `Making` | makes tables | `compact::outputs` |
//! | `Partitioner` | how keys are divided | `partitions` |
//! | `Reclaimer` | drops dead memtables; gives space back to the disk | `reclaim` |
//! | `Merger` | merges indexes of sealed memtables, and divides them | `merge` |
//! | `Upkeep` | what a writer does under its lock when it lacks something | `upkeep` |
//! | `Compactor` | compactions | `compact::{job, manual, internal}` |
//! | `FlushWriter`, `Evacuator`, `Flusher` | flushes: one table, range by range, from beginning to end | `flush` |
//! | `Admission` | what a write meets before it gets its place | `pressure`, `room` |
//! | `Stager` | batches too large for one item; long values | `stage`, `blobs::write` |
//! | `FamilyChanges`, `Ingester`, `Reporter` | families; ingested tables; reports | `families`, `relics`; `ingest`; `metrics`, `plan`, `map` |
//!
//! `Inner` has all rooms, and opens and closes the store. The threads of a runtime and `commit` know a store as its
//! `Inner`. A room asks a later room for work by a task or a job. There is one exception: a writer that has sealed a
//! memtable, or lacks room, has the later rooms act under its lock (`store::Above`). An [`Engine`] is
//! a handle. Its methods stand in `open`, `read`, `work` and `write::submit`.
//!
//! # The write journey (`commit`, `write`)
//! Writes that meet in a bucket become one group. Under the writer's lock:
//!
//! 1. Check limits, poison and both budgets; nothing has happened yet.
//! 2. Make room: seal the memtable if it is full, attach a zone if the item does not fit.
//! 3. *Grant*: the group gets its seqnos, its place in the chain and a ticket.
//!
//! Beside all other groups:
//!
//! 4. Build the item in DRAM, store it once, fence. The item is persisted. (A buffered one is stored
//!    through the cache and written back later.)
//! 5. Put the records into the index.
//! 6. *Finish*, in any order. `visible` and `durable` move over groups in the order of their tickets.
//!
//! 7. The write is acknowledged when `durable` (buffered: `visible`) has passed it.
//!
//! From 3 on nothing is allowed to fail. A failure poisons the store, because the next open may find other data
//! than this process would answer with.
//!
//! # Recovery (`recover`; its rules are in `docs/durability.md`)
//! Map, check the region's id, replay the manifest, free the zones that the manifest does not name, walk the chains
//! of each incarnation, rebuild the indexes. Then, before any write, in this order:
//!
//! 1. *Re-persist* (rule 3): the items kept that are not known to be durable, and the headers of the
//!    zones they lie in, are stored again and persisted. Bytes that can be read need not be durable, and syncing them
//!    alone would not make them so (`recover::keep` says why, and what else an open stores again).
//! 2. *Seal* (rule 4): one edit cuts every chain of the last incarnation and opens the chain of the
//!    new one, whose base exceeds every seqno seen plus all that the unsealed space could have held
//!    (rule 5).
//!
//! A crash before 2 repeats the walk with the same result: 1 only makes more durable what was kept
//! anyway. A crash after 2 finds the old chains complete at their cuts.
//!
//! A clean close cuts its chain itself; then an open finds nothing to seal, and the new incarnation's
//! chain is recorded when the first write needs it. That keeps opening for reading cheap.
//!
//! # Dropping dead memtables (`reclaim`)
//! A sealed memtable without any needed version leaves the view. Once no reader holds an older view with it, one
//! edit drops it, and its zones are free.
//!
//! # Merging indexes (`merge`)
//! Several sealed memtables get one index, so that reads ask few indexes. The records stay where they are. An index that
//! leads to more than a flush takes is divided by age when one comes near.
//!
//! # Flushing (`flush`, `tables`)
//! Sealed memtables are written into tables of level 0. One edit names the tables. One view brings the tables in
//! and leaves the memtables out: they are dead then. Readers ask memtables first, then tables. With shape `tiered` a
//! flush goes range by range of keys, each with an edit and a view of its own (`flush::evacuate`).
//!
//! # Compaction (`compact`)
//! Tables sink from level to level. They are merged with the tables that they overlap there, and versions that are not
//! needed are left out. Each job makes one edit. Readers see the same before and after.
//!
//! # Time to live (`expiry`)
//! The manifest has pairs of a seqno and a time by which everything up to that seqno was written. So the expired
//! part of a family is everything up to some seqno. Compactions leave it out, and tables with nothing else are
//! dropped as they are.
//!
//! # Long values (`blobs`)
//! A long value goes into a blob file before its write is granted. The record has a reference to the value, which
//! flushes and compactions pass on. A blob file goes when nothing refers to it.
//!
//! # Transactions (`watch`, a crate of its own)
//! While a transaction watches a moment, all changes granted since are noted. Its batch is written only if none of
//! them touches its footprint. Notes and the deciding check are made under the writer's lock. The crate for
//! transactions builds isolation on that.
//!
//! # Copies, ingestion, change feeds (`copies`, a crate of its own)
//! The store captures a moment for a copy, and writes the data that is in no file yet into tables (`capture`).
//! It installs tables that are written for it, behind a flush of everything older, with one edit (`ingest`). It keeps
//! memtables that an open feed has not read, within a bound (`feed`).
//!
//! # In the background (`runtime`, `maintain`)
//! Stores share the worker threads and the DRAM budget of a [`Runtime`]. The tasks of a store run in its *strand*, one
//! at a time: work ahead of need, work when the store falls idle, and writing back buffered commits. Callbacks and
//! events (`events`) are its calls. Calls have a strand and threads of their own, so tasks and jobs go on whatever
//! users do in a call. A store whose [`World`] has no background has no tasks, and makes its calls at the end of
//! the operation that caused them. Closing ends the tasks before it cuts the chain. It makes the calls that are left
//! after it has given up the folder. From then on nothing of the store touches the chain or the folder.
//!
//! # Records in DRAM (`wal`)
//! With presets `leveled` (the baseline) and `trident` the region is plain memory, and a log makes items durable. All else is as
//! described here.
//!
//! # Lock order
//! `stages` (shared by all threads that stage a batch), `ahead` (working ahead of need), `ingesting`, then `flushing`
//! and the turn of `merges`, or the `gate` of compactions (shared by each job); the `gate` of blob files (shared by
//! threads that make blob files, or remove files of tables, blob files or PM tables); `writer`; `next`; then `manifest` or
//! the `jobs` of compactions, `versions`, then `reclaim`, then the locks inside `halloc`, then a node of the tree or
//! the range tombstones of a family in a memtable, then the registry of `readers`. A thread that waits for groups in
//! flight holds nothing behind `next`. A bucket's queue, and `syncing` with the ring's list and the log behind it,
//! stand on their own. Readers of data take none of these locks, with one exception. A cursor that has stepped through
//! a gap takes the writer's lock if it is free (`cursor::gaps`), and behind it the lock of a family's gaps in a
//! memtable.
//!
//! Last of all, under any of them, come the leaves: a strand's queue; not under that queue, the workers'
//! state; and the account of DRAM, under a tree's size class and pool. Events may be emitted and tasks
//! requested under any lock. Callbacks and listeners run under none; observers of progress under what their call holds.
//!
//! # Invariants of the store that are defended here
//! 1 (acknowledged is durable), 2 (batches are whole), 4 (nothing returns), 5 and 6 (damage is an
//! error): see `ARCHITECTURE.md` for the tests.
#![forbid(unsafe_code)]

mod approximate;
mod awaited;
mod blobs;
mod busy;
mod capture;
mod close;
mod common;
mod compact;
mod copies;
mod create;
mod cursor;
mod destroy;
mod dram;
mod expiry;
mod families;
mod feed;
mod find;
mod flush;
mod holds;
mod ingest;
mod layout;
mod maintain;
mod map;
mod merge;
mod metrics;
mod next_memtable;
mod open;
mod operands;
mod partitions;
mod plan;
mod pm_tables;
mod prepared;
mod pressure;
mod read;
mod reclaim;
mod recover;
mod relics;
mod replay;
mod report;
mod room;
mod snapshot;
mod stage;
mod start;
mod store;
mod sweep;
mod sync;
mod turns;
mod upkeep;
mod value;
mod verify;
mod wal;
mod watch;
mod work;
mod world;
mod write;

pub use awaited::{Elsewhere, PendingRead};
pub use cursor::Cursor;
pub use destroy::destroy;
pub use families::table::Family;
pub use layout::REGION_NAME;
pub use map::{FamilyMap, TableState};
pub use partitions::{PartitionSize, PartitionsPlan};
pub use plan::{CompactionPlan, FamilyPlan, LevelPlan, Plan, TtlPlan};
pub use prepared::claims::{Claims, RangeClaim};
pub use prepared::{CLAIMED_KEYS_TOLD, ClaimedKey, PreparedState, Resolution};
pub use report::{
    BlobState, CacheState, CompactionUse, CostUse, DeliveryUse, DramUse, EngineMetrics, FeedUse,
    FilterUse, HitCounts, LevelUse, LogUse, MemtableState, PartitionUse, PmTier, ReaderKind,
    ReaderState, Recovery, SsdBytes, WriteTimesUse,
};
pub use snapshot::Snapshot;
pub use store::Engine;
pub use thermocline_base::bounds::KeyBounds;
pub use thermocline_base::progress::Progress;
pub use thermocline_base::report::{Fault, Report};
pub use thermocline_base::stages::Stages;
pub use thermocline_catalog::View;
pub use thermocline_commit::recent::{Changed, Footprint, key_hash};
pub use thermocline_commit::{Callback, Durability, Entries, WriteOptions};
pub use thermocline_copies::{
    BackupInfo, Backups, Change, ChangeFeed, ChangeGroup, ChangeOp, Changes, Exported,
    IngestWriter, Ingested, check_tables,
};
pub use thermocline_memtable::Direction;
pub use thermocline_observe::cause::StallCause;
pub use thermocline_observe::event::{Event, EventListener};
pub use thermocline_observe::latency::{Begun, Latencies, Latency, Operation};
pub use thermocline_observe::stall::StallUse;
pub use thermocline_policy::cost::{
    Decision as CostDecision, Equation as CostEquation, Form as CostForm,
    Internal as CostDecisions, Thresholds as CostThresholds, UnitCosts,
};
pub use thermocline_policy::flush::FlushPlan;
pub use thermocline_policy::level0::{Level0Plan, PartitionRate, SlicePlan};
pub use thermocline_policy::pick::Reason as CompactionReason;
pub use thermocline_policy::pressure::{Cause as PressureCause, Delay};
pub use thermocline_policy::rewrite::RewritePlan;
pub use thermocline_runtime::{
    AsyncUse, Job, JobIoUse, Piece, Refused, Runtime, RuntimeMetrics, RuntimeOptions, is_calling,
};
pub use thermocline_tables::{LevelState, RangeSize, TableIndexes};
pub use thermocline_version::JobDone;
pub use thermocline_version::LOCK_NAME;
pub use value::Value;
pub use verify::{verify, verify_observed};
pub use watch::Watch;
pub use world::{Setup, World};
pub use write::submit::InFlight;

/// Every durability site of copies apart from tables and manifests, for tests that must reach them all.
pub fn copy_sites() -> &'static [thermocline_base::Site] {
    thermocline_copies::SITES
}

/// Every durability site below the engine, for tests that must reach them all.
pub fn sites() -> Vec<thermocline_base::Site> {
    [
        thermocline_pm::SITES,
        thermocline_halloc::SITES,
        thermocline_memtable::SITES,
        thermocline_level0::SITES,
        thermocline_sst::sites::ALL,
        thermocline_version::sites::ALL,
        thermocline_wal::SITES,
    ]
    .concat()
}

/// The allocator of these tests: they take a sixth less time with it.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(test)]
mod tests;
