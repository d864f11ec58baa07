//! Which tables are to be compacted next: a leveled picker as a function over metadata (the
//! levels of LevelDB, dynamic level sizes of RocksDB).
//!
//! # Vocabulary
//! - A job moves data from one level to a deeper one: its **inputs** there, and those tables of the
//!   deeper level that they overlap. It **holds** a range of keys in all levels from the one to the
//!   other.
//! - The **base level** is the one into which level 0 is compacted. With dynamic sizes it is the last one, or the first one whose
//!   part of the last one's bytes is as large as options say; or a level that was opened above it, where a job from level 0 met so
//!   much in the base level, for what it brought, that one between pays (`Scores::pays_between`). What has tables stays the
//!   base level.
//! - A level's **score** is its size over its target; from 1 on there is something to pick.
//!
//! # Invariants
//! Whatever the state, for each job that is picked:
//! 1. **Levels stay disjoint.** All tables of the output level that the inputs' hull overlaps are
//!    taken. The output lies within what the job holds.
//! 2. **The law of age.** A job that takes a table of level 0 down takes all older ones that overlap the
//!    job's hull. No table lies in a level that is skipped: level 0 goes to the base level or the first one
//!    that has tables, whichever comes first, or to the empty one above that, and others go one level down.
//! 3. **Jobs do not meet.** Two jobs that run at the same time do not hold the same key in the same level. So
//!    neither changes what the other takes, and what lies below an output stays below. But a job within level
//!    0 may take tables that lie there above everything that another job takes ([`Held::collides`]): wherever
//!    that other job writes, its outputs lie below as before.
//! 4. **It ends.** Each job moves data down, but for a rewrite (of tombstones, or out of blob files), a merge
//!    inside level 0 and a drop. None moves data up, nor out of files into persistent memory. Without new
//!    data a state is reached in which nothing is picked; if no job runs then, all scores are below 1.
//! 5. **Fair.** Within a level, jobs go round through the keys ([`Cursors`]), so no range is
//!    starved.
//!
//! A move is **trivial** if the table can be put one level down unread. Nothing there overlaps it, nor does
//! another input. It would not overlap more grandparents than allowed. It has no tombstones, if it goes to
//! the last level or a range is compacted by hand. In the latter case no filter is to see it either, and
//! nothing of it has expired. And it lies in a file: what lies in persistent memory is written anew.
//!
//! # Level 0 in persistent memory
//! Tables of level 0 may lie there, among others in files, in one order of age. They are cheaper to ask and
//! may stay longer, so the two kinds are counted apart, each against limits of its own: level 0 is compacted
//! when there is too much of either, and then what is taken is decided by age and keys alone, as ever.

mod deleted;
mod expired;
mod garbage;
mod jobs;
mod level0;
mod levels;
mod score;
mod slices;
mod state;
mod tombstones;

pub use deleted::{Deleted, DeletedRanges};
pub use garbage::pick_garbage;
pub use jobs::{Manual, pick, pick_range, pick_read, pick_room};
pub use level0::{
    Along, Sinking, Slice, level0_slices, pick_along, pick_internal, pick_sinking, pick_slices,
    pick_spill,
};
pub use levels::{Level, Stretch, Table, Tables};
pub use score::{
    Gaps, Scores, base_and_above, level0_cuts, level0_gaps, pending_bytes, pending_is_same,
};
pub use slices::{depth, runs};
pub use state::{Cursors, Expired, Held, Job, PickOptions, Reason, State};
pub use tombstones::pick_tombstones;

#[cfg(test)]
mod tests;
