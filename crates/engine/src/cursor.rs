//! Reading: a cursor that merges the memtables of a view.
//!
//! A cursor sees one moment of the store for as long as it lives. While it stands still its view
//! may be taken from it (`seat`, `holds`); then, and where what the view has was retired, it seeks
//! its key anew in the newest one when it moves. Each memtable is scanned in chunks (no epoch
//! guard outlives a call); of equal keys the newest memtable's record wins, and a tombstone hides
//! the key, or a range of them (`hidden`). Stretches of deleted keys are stepped through once, and then
//! passed (`gaps`). Checksums are verified before a record is believed, whatever it then leads to.
//!
//! All moves are in the order of the cursor's family. Indexes always ascend; for a family whose keys
//! descend the cursor goes through them the other way, and nothing else differs.

pub use seat::Cursor;

mod covering;
mod gaps;
mod hidden;
mod place;
mod seat;
mod source;
pub(crate) mod walk;

#[cfg(test)]
mod tests;
