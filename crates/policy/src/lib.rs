//! Every decision about background work, as pure functions of plain data (PM-Blade §IV).
//!
//! The crate knows no locks, files, clocks, threads or randomness. What varies is in its arguments.
//!
//! # The target, in ten lines
//! 1. A `Situation` has parts, one per concept: what the writer has in hand, what is sealed, the indexes that could be
//!    merged, level 0 in persistent memory, the levels of each family, the disk, the region. Each is plain data.
//! 2. Each part is an `Option`. The engine fills the parts that it knows under the lock that it holds: the writer's lock
//!    gives the active memtable, view and `reclaim` the sealed ones, the list of jobs the levels. No lock gives all of it.
//! 3. `next(&Situation, &mut Memory)` returns the most urgent `Decision { work, because }` of the parts that are given.
//! 4. `Memory` has what was learned: unit costs, what merges have dropped, who stayed, and flags with hysteresis.
//! 5. `because` has the numbers that decided. Its `Display` is what `explain`, `stat` and events print.
//! 6. The engine carries out `work`, and its edit checks again what must hold. So a decision on numbers that have changed
//!    meanwhile is at worst a poor one.
//! 7. Pickers (`pick`) run under the lock of the list of running jobs, as that list is part of what they are given.
//! 8. The put path asks nothing here but predicates over a few numbers that its lock protects, and compares
//!    one published atomic for delay.
//! 9. What costs reading (weighing what lives, drawing entries) is `None` until somebody has looked; policy may ask for it.
//! 10. All numbers are in [`tuning`], each with its unit and origin.
//!
//! # What speaks against it, and the answer
//! - *One snapshot under all locks* would stop writers for the time that it takes. So there is none: parts are asked apart.
//! - *A decision and its edit are two steps.* Between them others act. Jobs therefore enter the list of running ones under the
//!   lock under which they are picked, and edits have preconditions.
//! - *Rebuilding the levels of 100,000 tables for each question* takes milliseconds. `next` may take 100 µs
//!   (`examples/next_at_scale.rs`): so a level below level 0 says what its tables come to, and shows one when it is asked for
//!   ([`pick::Tables`]). What is asked for often is kept with the version, and changed by the edit that changes that.
//!
//! | question | module |
//! |---|---|
//! | when is a memtable sealed, and the next one named? | [`seal`] |
//! | which indexes are merged? | [`indexes`] |
//! | when are sealed memtables flushed? | [`flush`], [`scans`] |
//! | does a flush write what lives into persistent memory? | [`rewrite`] |
//! | what becomes of each range of keys of a flush? | [`ranges`] |
//! | which flushes train a learned index? | [`training`] |
//! | what do costs say of level 0 in persistent memory? | [`level0`] |
//! | what of it is merged next, or leaves? | [`internal`] |
//! | which tables are to be compacted next? | [`pick`] |
//! | which blob files are collected, and which are joined? | [`collect`], [`collect::small`] |
//! | which equations weigh that? | [`cost`] |
//! | how large should levels, tables and jobs be? | [`geometry`] |
//! | what does a job do in one step? | [`steps`] |
//! | which reads pay for a compaction? | [`reads`] |
//! | how far do cursors read ahead in memtables? | [`readahead`] |
//! | which jobs ask a compaction filter? | [`filters`] |
//! | which partitions are split or merged? | [`partitions`] |
//! | how much are writers to be held back? | [`pressure`] |
//! | how far do jobs give way to clients? | [`pace`] |
//! | for how many writes is DRAM promised at a time? | [`promise`] |
//! | what of the disk is kept, and how far may the region grow? | [`room`] |
//! | how is room made on a full disk? | [`relief`] |
//! | which number, in which unit, from where? | [`tuning`] |
//! | what is known, what is next, and why? | [`situation`], [`next()`], [`work`] |
//! | what would become of a store? | [`simulate`] |
#![forbid(unsafe_code)]

pub mod collect;
pub mod cost;
pub mod filters;
pub mod flush;
pub mod geometry;
pub mod indexes;
pub mod internal;
pub mod level0;
mod memory;
mod next;
pub mod pace;
pub mod partitions;
pub mod pick;
pub mod pressure;
pub mod promise;
pub mod ranges;
pub mod readahead;
pub mod reads;
pub mod relief;
pub mod rewrite;
pub mod room;
pub mod scans;
pub mod seal;
pub mod simulate;
pub mod situation;
pub mod split;
pub mod steps;
pub mod training;
pub mod tuning;
pub mod work;

pub use memory::Memory;
pub use next::{next, next_collection};

/// The allocator of these tests: they take a sixth less time with it.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
