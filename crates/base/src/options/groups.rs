//! The groups of options, each a table in a file of its own.

mod blob;
mod commit;
mod compaction;
mod feed;
mod flush;
mod level0;
mod manifest;
mod memtable;
mod metrics;
mod partition;
mod pm;
mod read;
mod ssd;

pub use blob::BlobOptions;
pub use commit::CommitOptions;
pub use compaction::CompactionOptions;
pub use feed::FeedOptions;
pub use flush::FlushOptions;
pub use level0::Level0Options;
pub use manifest::ManifestOptions;
pub use memtable::MemtableOptions;
pub use metrics::MetricsOptions;
pub use partition::PartitionOptions;
pub use pm::PmOptions;
pub use read::ReadOptions;
pub use ssd::SsdOptions;
