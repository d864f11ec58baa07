//! Reading: a cursor that merges the memtables of a view.
//!
//! A cursor sees one moment of the store for as long as it lives. While it stands still its view
//! may be taken from it (`seat`, `holds`). If that happened, or if a part of the view was retired, the next move seeks
//! the key anew in the newest view. Each memtable is scanned in chunks (no epoch guard outlives a call). Of equal keys
//! the newest memtable's record wins. A tombstone hides a key, or a range of keys (`hidden`). Stretches of deleted keys
//! are stepped through once, and then passed (`gaps`); a worker is mostly the first (`explore`). A record's checksum is verified before the record is used.
//!
//! An entry that is shown is gone past with the next move: what lies behind it is not read before somebody asks for it.
//!
//! A move may have a bound. Of what lies behind it no value is read or folded, no deleted key is stepped over, and no other table is
//! opened. Each source looks at the next record, or the next block of its table, at most, and that is verified: so the end of a
//! range costs little, whatever lies behind it, but rot in the very next record or block may show. A source that meets a key
//! behind the bound before one that it may show waits there. The bound belongs to the move: the next one may have another, with
//! which sources that wait go on, or go back.
//!
//! All moves are in the order of the cursor's family. Indexes always ascend. For a family whose keys descend the cursor
//! goes through them the other way, and nothing else differs.

pub use seat::Cursor;

mod covering;
pub(crate) mod explore;
mod gaps;
mod hidden;
mod place;
mod seat;
mod source;
pub(crate) mod walk;

#[cfg(test)]
mod tests;
