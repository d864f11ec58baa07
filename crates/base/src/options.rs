//! Options: one declarative table per group, each in a file of its own (`options::groups`).

mod all;
mod check;
mod derived;
mod division;
mod group;
mod groups;
mod keys;
mod region;
mod row;
mod shape;

pub use crate::preset::Preset;
pub use all::Options;
pub use derived::{DRAM_MIN, PM_MIN};
pub use division::Division;
pub use groups::{
    BlobOptions, CommitOptions, CompactionOptions, Costs, FeedOptions, FlushOptions, Level0Options,
    ManifestOptions, MemtableOptions, MetricsOptions, PartitionBy, PartitionOptions, PmOptions,
    ReadOptions, SsdOptions,
};
pub use region::{Emulation, RegionDemand};
pub use row::{CODECS, COSTS, DIVISIONS, OptionRow, SHAPES, Unit};
pub use shape::Shape;

#[cfg(test)]
mod tests;
