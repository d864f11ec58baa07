//! Options: one declarative table per group, each in a file of its own (`options::groups`).

mod all;
mod check;
mod costs;
mod derived;
mod division;
mod flat;
mod group;
mod groups;
mod keys;
mod listed;
mod partition_by;
mod region;
mod row;
mod shape;
mod ungrouped;
mod word;

pub use crate::async_io::AsyncIo;
pub use crate::codec::Codec;
pub use crate::index_kind::IndexKind;
pub use crate::preset::Preset;
pub use crate::scheduler::Scheduler;
pub use all::Options;
pub use costs::Costs;
pub use derived::{DRAM_MAX, DRAM_MIN, PM_MAX, PM_MIN};
pub use division::Division;
pub use groups::{
    BlobOptions, CommitOptions, CompactionOptions, FeedOptions, FlushOptions, Level0Options,
    ManifestOptions, MemtableOptions, MetricsOptions, PartitionOptions, PmOptions, ReadOptions,
    SsdOptions,
};
pub use listed::ListedOption;
pub use partition_by::PartitionBy;
pub use region::{Emulation, RegionDemand};
pub use row::{ASYNC_IO, CODECS, COSTS, DIVISIONS, INDEXES, OptionRow, SCHEDULERS, SHAPES, Unit};
pub use shape::Shape;

#[cfg(test)]
mod tests;
