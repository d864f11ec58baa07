//! The shared words of all layers of Thermocline: errors, sequence numbers, ranges of keys, record kinds, range
//! tombstones, write batches, options, limits, checksums, sequences that share memory, reports of checks, and how far a long
//! call has come. The seams through which tests see the engine are here, too: the `sync` facade, the step counter of the
//! simulators, planted bugs.
//!
//! Nothing here knows of files, persistent memory or threads. Every other crate may use it.
#![forbid(unsafe_code)]

pub mod asked;
mod async_io;
pub mod batch;
pub mod blob_ref;
pub mod bounds;
pub mod budget;
mod cf_options;
pub mod checksum;
pub mod chunked;
mod codec;
pub mod counter;
pub mod error;
mod file;
pub mod filter;
mod index_kind;
pub mod limits;
mod line;
pub mod merge;
pub mod numbers;
pub mod options;
pub mod planted;
mod pm_table;
mod preset;
pub mod progress;
mod range;
pub mod report;
mod scheduler;
pub mod seqno;
pub mod shown;
pub mod size;
pub mod stages;
pub mod step;
pub mod sync;
pub mod tombstones;
pub mod varint;

pub use async_io::AsyncIo;
pub use batch::{BatchEntry, WriteBatch};
pub use blob_ref::BlobRef;
pub use cf_options::CfOptions;
pub use codec::Codec;
pub use error::{Error, ErrorKind, Result};
pub use file::FileId;
pub use index_kind::IndexKind;
pub use line::Line;
pub use pm_table::{PmBlob, PmFamily, PmTableMeta};
pub use range::{KeyLimits, KeyRange};
pub use scheduler::Scheduler;
pub use seqno::{CfId, Kind, SeqNo};
pub use step::{Point, Site, Steps, When};
pub use tombstones::{RangeTombstone, RangeTombstones};
