//! A model of a store that has sizes and costs instead of bytes, driven by the same decisions: a day of a large store in a minute,
//! the same in every run (house.md, "Policy is a model, not only code").
//!
//! # The model
//! Keys lie in *cells*, ranges with as many keys each. Where hot keys lie everywhere, the keys of a cell are divided
//! into *classes*: each has half as many keys as the one before, and its keys are written more often. A table has, for
//! each class of its cells, a number of records, which is a mean. Tables that are merged have as many records as the
//! union of random sets has on average: with n keys in a class, sets of a and b records have `n (1 - (1 - a/n) (1 -
//! b/n))`. So nothing is drawn, and nothing depends on a seed. The skew is that of a power law: over keys that lie
//! anywhere, or over cells ([`Spread`]).
//!
//! Scans read all keys alike, and of each memtable as many entries as it has of those keys. That pays for tables
//! ([`scans`](crate::scans)), and takes no time.
//!
//! Writers write at a rate, held back by the slope of [`pressure`](crate::pressure). A flush, and some jobs beside it, share the
//! device with reads of clients, to which jobs may give way ([`pace`](crate::pace)); all take processor time by the unit costs. Edits take effect when the work ends. Every shape of level 0 is flushed, merged
//! and compacted by the decisions that a real store asks for.
//!
//! # What it leaves out
//! Deletes, range tombstones, blob files (of those, and of the room that they take while jobs run, [`overwrite`] is a model of its own), several families, the disk's room, merges of indexes, memtables that die whole, compactions
//! that reads charge, and compression.
//! Partitions are those that a store with its data would have, and stay. A zone is half full at the end of each table, and of each
//! memtable. Chance is left out: tables of few records are unlike each other in a real store, and it writes some percent more.
//!
//! # How right it is
//! `engine/tests/simulated` puts a real store through the same load, and compares bytes written. `docs/plan.md` has the figures.

mod apart;
mod doing;
mod flush;
mod forecast;
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

pub use apart::{Overwrites, RoomTaken, overwrite};
pub use forecast::{BATCH_BYTES, Bound, Demand, Forecast, forecast};
pub use record::Record;
pub use run::run;
pub use setting::{Outcome, Setting, Spread};
