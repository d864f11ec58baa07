//! A model of a store that has sizes and costs instead of bytes, driven by the same decisions: a day of a large store in a minute,
//! the same in every run (house.md, "Policy is a model, not only code").
//!
//! # The model
//! Keys lie in *cells*, ranges with as many keys each. A table has, of each of its cells, a number of records, which is a mean. Tables
//! that are merged have as many records as the union of random sets has on average: with n keys in a cell, sets of a and b records
//! have `n (1 - (1 - a/n) (1 - b/n))`. So nothing is drawn, and nothing depends on a seed. Cells differ in how often
//! they are written and read: the skew is that of a power law over them.
//!
//! Writers write at a rate, held back by the slope of [`pressure`](crate::pressure). A flush, and some jobs beside it, share the
//! device; what works in persistent memory takes processor time by the unit costs. Edits take effect when the work ends.
//!
//! # What it leaves out
//! Partitions, deletes, blob files, families, the disk's room, merges of indexes, and parts of internal compactions, which are
//! whole here. It is to be checked against real runs.

mod doing;
mod flush;
mod jobs;
mod keys;
mod merge;
mod record;
mod run;
mod setting;
mod state;
mod store;
mod weigh;
mod work;

#[cfg(test)]
mod tests;

pub use record::Record;
pub use run::run;
pub use setting::{Outcome, Setting, Spread};
