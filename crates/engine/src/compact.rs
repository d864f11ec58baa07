//! Compaction: tables sink from level to level, and what nobody needs goes on the way.
//!
//! | question | module |
//! |---|---|
//! | what does a merge read? | `jobs::source` |
//! | how are tables written, and what stays? | [`outputs`] |
//! | how should the levels be? | [`shape`] |
//! | which job is next? | [`due`] |
//! | how is one job run and installed? | [`job`] |
//! | what if its edit would be too long? | `job::named` |
//! | which tables does a range tombstone cover wholly? | [`deleted`] |
//! | what of a family with a compaction filter? | [`filters`] |
//! | how is a range compacted on demand? | [`manual`] |
//! | how is level 0 merged inside persistent memory? | [`internal`] |
//! | when is it, and what leaves? | [`costs`] |
//! | how much of that may it have? | [`share`] |
//! | what do splits and merges of partitions hold meanwhile? | [`beside`] |
//! | which tables do reads want compacted? | `observe::charged` |
//! | how fast may all that be? | [`pace`] |
//! | what becomes of a job that failed? | [`failures`] |
//! | what are jobs behind with? | [`debt`] |
//! | what do tables of a level come to, before each place and by chunks? | [`sums`] |
//! | what was done? | `report::levels` |
//!
//! Which tables a job takes is decided by `policy::pick`, which has the argument for levels and
//! age; here it is given what it asks for, and held to it.
//!
//! # Invariants
//! 1. *Jobs do not meet.* What a job holds is in the list of running jobs from before it is picked until
//!    after its edit is installed; whoever picks has that list's lock, and looks at the current version
//!    under it. So who does not see a job any more sees its outputs.
//! 2. *All or nothing.* One edit takes the inputs away and brings the outputs. Before it is appended,
//!    under the manifest's lock, the family and every input must still be where they were; if they are
//!    not, the outputs are thrown away.
//! 3. *Readers see no change.* The edit changes which tables there are, not what anybody reads. So the
//!    view may follow later: until then readers read the inputs, whose files a view keeps. Where a filter has changed
//!    something, nobody is registered who could tell, and the view follows before anybody registers ([`filters`]).
//! 4. *Nothing stays behind.* A job that fails lets go of its outputs, which nobody names, and of what it
//!    held. A failed append freezes the set of versions (`version_set`), and poisons.
//!
//! # What a crash leaves
//! | a crash | finds |
//! |---|---|
//! | before the edit | the inputs, and files that nobody names: removed |
//! | after the edit | the outputs, and perhaps the inputs' files: removed |
//!
//! A trivial move makes no file: its edit names the same one in another level.
//!
//! # Locks
//! `gate` is held shared by each job, so that closing can wait for all of them, and not by who waits for one; it comes before the
//! writer's lock. `jobs` comes before what is promised of persistent memory and before `versions`. Whoever picks a job
//! looks under it, one after the other, at the registry of readers and at leaves: what is known of costs ([`costs`]),
//! filters, deletes, failures and what they leave alone, at rates of partitions, sums of levels ([`sums`]), tables that
//! reads want compacted, and what single memtables note of blob files ([`collect`]).

mod beside;
mod collect;
mod costs;
mod counted;
mod debt;
mod deleted;
mod due;
mod ends;
pub(crate) mod failures;
mod filters;
pub(crate) mod internal;
pub(crate) mod job;
mod manual;
pub(crate) mod outputs;
mod pace;
pub(crate) mod shape;
mod share;
pub(crate) mod state;
mod sums;
#[cfg(test)]
mod tests;
mod told;

pub(crate) use ends::Ends;
pub(crate) use job::picked::{level_of, stand};
use state::{Compactions, Jobs, Running};
