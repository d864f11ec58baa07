//! Every number that decides something: name, unit, meaning, and where it comes from.
//!
//! An origin is one of:
//! - *derived*: it follows from what is written beside it,
//! - *paper*: with its section,
//! - *measured*: with the command that measured it, or the decision (`docs/decisions`) that has the command,
//! - *estimate*: reckoned from the figures of usual devices,
//! - *as in* another store, where it has the same measure,
//! - *chosen*: not measured. The commit that brought it is named.
//!
//! Tests run the same numbers as users. A fraction in an expression elsewhere is a defect, but for what divides by two
//! because a thing has two sides or halves. Sizes that options derive from `pm` and `dram` are in `base::options`: they are what
//! users set, or what stands for it.

mod blobs;
mod deletes;
mod disk;
mod dram;
mod flushes;
mod jobs;
mod level0;
mod levels;
mod memtables;
mod partitions;
mod reading;
mod waiting;

pub use blobs::*;
pub use deletes::*;
pub use disk::*;
pub use dram::*;
pub use flushes::*;
pub use jobs::*;
pub use level0::*;
pub use levels::*;
pub use memtables::*;
pub use partitions::*;
pub use reading::*;
pub use waiting::*;
