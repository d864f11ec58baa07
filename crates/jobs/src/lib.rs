//! Carrying work out: the one way in which a store writes tables. Sources are merged, what nobody needs is left out, and
//! the rest goes into tables of a bounded size.
//!
//! | question | module |
//! |---|---|
//! | what is read? | [`source`] |
//! | where do entries go? | [`sink`] |
//! | where does one table end and the next begin? | [`writing`] |
//! | what do operands come to? | `folding` |
//! | what does the family's filter remove or change? | `filtering` |
//! | what has come of it? | [`outputs`] |
//!
//! A job does not know why it is done: no threshold is here. It is a machine of small steps ([`Job::step`]). Between
//! two of them, the code that drives it decides whether it goes on ([`run_parts`]).
//!
//! # Steps
//! 1. *Merge* the sources in the order of keys, and ask `compaction::retain` what stays.
//! 2. *Cut* between keys, by size (`compaction::output`) and where a table nears a limit of its format.
//!    A range tombstone lies in every table that has a part of it, cut to where that table begins and
//!    ends. Where not all is to be written at once, the end of a table is the end of it: everything below that
//!    key was decided, and nothing from it on.
//! 3. *Sync* each table's file as it is finished, and give it its name (`catalog::files`); then, once for all, sync the
//!    folder.
//!
//! The caller names the tables in an edit, and then ends the pins.
//!
//! # Invariants
//! 1. *No table without its name.* A file is named by an edit only when its bytes and its name are
//!    durable; what no edit names goes: now, as obsolete, or at the next open.
//! 2. *Tables of one job are apart.* A key, and a part of a range tombstone, is in one of them.
//! 3. *Order.* Moments are asked for after what is settled is known, and before anything is read.
//!
//! # What is left out
//! The argument is that of `compaction::retain`. Its horizon is what was visible when the moments were asked
//! for. A reader that registers later reads there or after (`readers`), and so does a `get`. A `get` loads
//! the view first and then what is visible: if its view has the outputs, what it finds visible is no older
//! than their horizon. "Below" are the tables of the version that the caller holds. Jobs that run meanwhile
//! move what lies there, only downwards, and add no key.
//!
//! Tables may forget a record, and later the write that hid it, while the record's memtable is still named,
//! and comes back after a crash. Then all younger memtables come back with it (`flush`, 4), and the write
//! that hid it is in one of them; or the memtable is known as flushed, and comes back into no view.
//!
//! # Failures
//! A failed persist of a PM table poisons the store (`pm::Region::fence`). So does a failed sync of the folder:
//! names that other code has made there may be lost, and no later sync would tell. (A folder that could not even be
//! opened was not synced.) Any other failure leaves files that nobody names, and nothing else.
#![forbid(unsafe_code)]

mod counting;
mod filtering;
mod folding;
mod job;
pub mod outputs;
mod parts;
mod prefixes;
pub mod sink;
pub mod source;
pub mod writing;

pub use counting::Counting;
pub use filtering::{Filter, ReadBlob};
pub use job::{Exists, Job, Recipe, Step, below};
pub use outputs::{Filtered, Outputs};
pub use parts::{Part, run_parts};
pub use prefixes::Prefixes;
