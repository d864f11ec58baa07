//! Level 0 in persistent memory: what costs say of it, what of it leaves, and whether flushes skip it (PM-Blade §IV.C,
//! algorithm 1). The equations are in [`cost`](crate::cost); here they are asked.
//!
//! The paper decides about partitions. Here it is slices of level 0 ([`pick::Slice`](crate::pick::Slice)): what can be merged, or
//! leave, by itself. Of a slice is known:
//!
//! | | from |
//! |---|---|
//! | n, unsorted tables | its runs but the oldest one, which counts as the sorted run, whichever job has written it |
//! | R, records | its references |
//! | w, writes since the last merge | the references of its newer runs |
//! | u, updates among them | entries that are drawn there and sought in the older runs: no counter tells whether something lies below a write, and none survives an opening |
//! | r, reads a second | those of the partitions that it overlaps, each divided among its slices by the bytes of all that lies in their ranges, in whatever level |
//! | s, bytes | the zones of its tables. One to which several references lead counts for each as one part: together they are what level 0 takes |
//!
//! # When it is asked
//! Equations 1 and 2 with each compaction that is asked for: after a flush, and after reads, since what is read often is
//! worth a merge though nobody writes any more. Equation 3 when level 0 has τm bytes; from then on level 0 *drains*: slices
//! leave until those that stay fit τt. What stays is decided anew with each job, and what has stayed counts for more.
//!
//! Before level 0 is full (from [`FILLING_PERCENT`](crate::tuning::FILLING_PERCENT) of τm on), a slice whose merge
//! would give back much ([`ROOM_SHARE`](crate::tuning::ROOM_SHARE)) is merged before anything leaves, whatever equation
//! 2 says. That equation weighs times. But what leaves for want of room is written to the SSD now, and once more for
//! each level, and what is merged may never be. Merges of parts hold inputs and outputs. So while they go on, level 0
//! is full only when it has its share, or when a merge could not begin.
//!
//! A slice is merged, too, if its newer runs refer to as much in blob files as a memtable may: a reference is short, so
//! no equation would see what it keeps on the SSD.
//!
//! Flushes ask, too ([`ranges`](crate::ranges)). They ask which slices of level 0 would not stay if theirs came to it;
//! those leave with them. Where level 0 is full, they also ask whether what they bring is worth writing there at all
//! ([`Memory::skips`]): equation 2, with the part of it that will be superseded. While it is not they *skip* level 0 in
//! persistent memory, and it empties.
//!
//! If the share is exceeded though everything that is left may stay, the picker decides, as without any model
//! (`level0.internal=off`).

mod memory;
mod plan;
mod state;
mod weigh;

#[cfg(test)]
mod tests;

pub use memory::{Because, Memory, Sampled};
pub use plan::{draws, plan, wants_samples};
pub use state::{Budget, Content, Family, Level0Plan, PartitionRate, SlicePlan};
pub use weigh::newer_blob_bytes;
