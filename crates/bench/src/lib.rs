//! The workloads of db_bench and YCSB over the facade, as a library.
//!
//! A run is described by a [`Plan`], executed by [`run`], and answered by a [`Report`], which
//! serialises to the JSON object that the command line prints. A [`Watch`] lets another thread
//! follow the run and stop it, and a [`Timeline`] keeps how fast it went. [`plot`] draws that and the latencies, and [`page`]
//! has what pages with such pictures have in common.
//!
//! # What a run does
//! 1. It opens the store: a new one in a temporary folder, a new one in a named folder, or one
//!    that is there. It never empties a folder.
//! 2. A workload that works on keys that are there loads `num` distinct ones first, in random
//!    order, unless it is told to use what is there. The load is not counted.
//! 3. It reads the store's counters, runs the threads between two barriers, and reads the counters
//!    again. Every number in the report is a difference of the two, except those about memory, the longest delay of a writer,
//!    which the store is told to forget before, and room on the SSD, which another thread looks at meanwhile if the plan says so
//!    ([`Space`]).
//!
//! `deviceread` is no work of the store: with the store closed it reads blocks of the files that the store has made, in the
//! way in which a store would ([`DeviceReads`]).
//!
//! [`suite`] runs a set of such plans with several presets in turn, and says where the default stands; [`counts`] counts such
//! workloads instead of timing them.
//!
//! Workloads of transactions, `tpcc`, `orders` and `randomtransaction`, are in [`oltp`]; their plans and reports are their own.
//!
//! # Keys, values, order
//! A key is its index as 8 bytes, most significant first, padded with `0` to the key size. Random
//! order is a seeded bijection ([`keys::Permutation`]), so no table of keys lies in memory beside
//! the store. Values are slices of one buffer of pseudo-random bytes ([`values::Values`]).
//!
//! # Time
//! A thread reads the clock once for each operation: the end of one is the start of the next, so
//! an operation's latency includes making its key and value. The sequential reads take a few tens
//! of nanoseconds for each entry, less than the clock; they are timed in groups
//! ([`Report::latency_group`]). Where a workload has several kinds of operations, each kind has
//! latencies of its own ([`Latencies`]).
#![deny(unsafe_code)]

pub mod clock;
mod columns;
pub mod counts;
mod curve;
mod depth;
pub mod device;
mod device_read;
pub mod distribution;
mod held_back;
pub mod keys;
mod load;
mod mix;
mod numbers;
pub mod oltp;
mod oltp_run;
mod orders;
pub mod page;
mod plan;
pub mod plot;
mod reading;
mod report;
mod rng;
mod run;
pub mod scratch;
mod space;
pub mod suite;
mod sums;
mod threads;
mod timeline;
mod tpcc;
#[expect(
    unsafe_code,
    reason = "getrusage has no safe form in the standard library"
)]
pub mod usage;
pub mod values;
mod watch;
mod workload;
mod written_back;

pub use curve::{Curve, Point};
pub use device_read::DeviceReads;
pub use distribution::Distribution;
pub use held_back::Stall;
pub use numbers::{counted, grouped};
pub use oltp_run::run_oltp;
pub use plan::Plan;
pub use report::{Drained, HitCounts, Latencies, Latency, Report};
pub use run::run;
pub use space::{Space, SpaceSample};
pub use timeline::Timeline;
pub use watch::{Snapshot, Watch};
pub use workload::{Operation, Workload};
