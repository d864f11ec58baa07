//! What users see of a store, as plain data, and the counters beside it.

pub(crate) mod levels;
pub(crate) mod partitions;
pub(crate) mod readers;
pub(crate) mod state;

pub use levels::{CompactionUse, CostUse, FilterUse, LevelUse};
pub use partitions::PartitionUse;
pub use readers::{ReaderKind, ReaderState};
pub use state::{
    BlobState, CacheState, DeliveryUse, DramUse, EngineMetrics, FeedUse, HitCounts, LogUse,
    MemtableState, PmTier, Recovery, SsdBytes, WriteTimesUse,
};
