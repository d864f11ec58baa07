//! An embeddable, ordered key-value store over DRAM, persistent memory and SSD.
//!
//! This crate is the whole public interface. A [`Db`] is a folder; it holds column families, each
//! an ordered map from byte strings to byte strings. A write is acknowledged when it is durable.
//!
//! ```
//! use thermocline::{Db, Durability, Options};
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("orders.db");
//! let db = Db::open(&path, Options::default())?;
//! db.put(b"order:42", b"paid")?;
//! assert_eq!(db.get(b"order:42")?.as_deref(), Some(b"paid".as_slice()));
//!
//! let mut batch = db.batch();
//! batch.put(b"order:43", b"open");
//! batch.delete(b"order:42");
//! batch.commit(Durability::Immediate)?;
//!
//! for entry in db.prefix(b"order:") {
//!     let (key, value) = entry?;
//!     assert_eq!((key.as_slice(), &*value), (b"order:43".as_slice(), b"open".as_slice()));
//! }
//! db.close()?;
//! # Ok::<(), thermocline::Error>(())
//! ```
//!
//! # Types of other crates
//! Handles ([`Db`], [`Runtime`], [`Transaction`], [`ChangeFeed`] and so on) are types of this crate. So are the reports
//! whose parts would lead into the store otherwise ([`Plan`], [`FamilyMap`], [`Metrics`]). Four kinds of types are exported
//! from the crates below as they are:
//!
//! 1. *Plain data*: options, errors, counters, events, changes, parts of reports. Their fields are public, and their
//!    methods only compute from these.
//! 2. *Answers* whose insides are private: [`Value`], [`PendingRead`], [`ChangeGroup`], [`Savepoint`].
//! 3. *Traits that users implement*: [`EventListener`], [`merge::MergeOperator`], [`filter::CompactionFilter`].
//! 4. *Tables of records*, which use this crate as any user does ([`records`]).
//!
//! Nothing inside can be driven through any of them. Each type in a public signature or field has a name here. Tests on
//! simulated hardware take the crates below themselves.
#![forbid(unsafe_code)]

mod batch;
mod builder;
mod changes;
mod commit;
mod copies;
mod cursor;
mod database;
mod default_family;
mod family;
mod job_done;
mod keys;
mod map;
mod metrics;
mod plan;
mod prepared;
mod range;
pub mod records;
mod report;
mod runtime;
mod scan;
mod scan_async;
mod snapshot;
mod transaction;

pub use batch::Batch;
pub use builder::DbBuilder;
pub use changes::ChangeFeed;
pub use commit::Commit;
pub use copies::{Backups, IngestWriter};
pub use cursor::Cursor;
pub use database::Db;
pub use family::ColumnFamily;
pub use job_done::JobDone;
pub use map::FamilyMap;
pub use metrics::{
    BlobMetrics, CacheMetrics, Hits, LatencyMetrics, LevelMetrics, MemtableMetrics, Metrics,
    RecoveryMetrics, StallMetrics,
};
pub use plan::{
    CostThresholds, FamilyPlan, FlushPlan, Level0Plan, Plan, SlicePlan, TtlPlan, UnitCosts,
};
pub use prepared::Prepared;
pub use report::{Fault, VerifyReport};
pub use runtime::Runtime;
pub use scan::Scan;
pub use scan_async::AsyncScan;
pub use snapshot::Snapshot;
/// Compaction filters: user code that removes or changes values as compactions move them.
pub mod filter {
    pub use thermocline_base::filter::{CompactionFilter, Entry, ReadValue, Verdict};
}
/// Merge operators: how a value and an operand of [`Db::merge`] become a new value.
pub mod merge {
    pub use thermocline_base::merge::{Append, Counter, MergeName, MergeOperator};
}
pub use thermocline_base::options::{self, Options};
pub use thermocline_base::{CfOptions, Error, ErrorKind, Result, limits, size};
pub use thermocline_engine::{
    AsyncUse, BackupInfo, CLAIMED_KEYS_TOLD, Change, ChangeGroup, ChangeOp, Changes, ClaimedKey,
    CompactionPlan, CompactionReason, CompactionUse, CostDecision, CostDecisions, CostEquation,
    CostForm, CostUse, Delay, DeliveryUse, Durability, Event, EventListener, Exported, FeedUse,
    FilterUse, Ingested, JobIoUse, LevelPlan, LevelUse, PartitionRate, PartitionUse,
    PartitionsPlan, PendingRead, PreparedState, PressureCause, Progress, RangeSize, ReaderKind,
    ReaderState, Refused, RewritePlan, RuntimeMetrics, RuntimeOptions, Stages, StallCause,
    TableIndexes, TableState, Value, WriteOptions, WriteTimesUse,
};
pub use thermocline_txn::{
    Isolation, LockedKey, Locking, Savepoint, TransactionState, TransactionsReport, TxnOptions,
};
pub use transaction::{Transaction, TransactionScan};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
