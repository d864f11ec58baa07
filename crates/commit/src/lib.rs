//! Committing (LogFree §3.2): from the grant of a group to its acknowledgement.
//!
//! The crate knows no tables, levels or decisions, and no database: what it needs of one is a [`CommitEnv`]. So it can be
//! tested without one.
//!
//! | module | what it has |
//! |---|---|
//! | [`bucket`] | durable writes that meet become one group: leader and followers |
//! | [`ring`] | the order in which groups finish, and the two watermarks |
//! | [`readers`] | the moments at which somebody reads, which writers keep versions for |
//! | [`recent`] | what was written lately, against which transactions are checked |
//! | [`env`] | what committing is given |
//! | [`pipeline`] | a write's way to its group, and a group's way: reserve, apply, finish, acknowledge |
//! | [`ack`], `told` | acknowledging without a waiting thread: callbacks |
//!
//! # A write, step by step
//! 1. *Admission* is the environment's ([`CommitEnv::admit`]), once for each group: how long it is to be held back. Several
//!    writes that are refused as one group ask again, each for itself ([`CommitEnv::admit_together`]).
//! 2. *Gather*. A durable write leads its bucket, or leaves its changes to the one that does ([`bucket`]).
//! 3. *Reserve* ([`CommitEnv::reserve`]). Under the writer's lock the group gets room, seqnos and a ticket of the ring. From
//!    here on nothing may fail but a persist. A group of several writes that finds no place was nobody's write: each of
//!    them asks for its own, and only that may be refused ([`CommitEnv::reserve_together`]).
//! 4. *Apply* ([`CommitEnv::apply`]), beside other groups: the item is stored and persisted, or its write-back is
//!    deferred, and its records come into the index.
//! 5. *Finish*, in any order. `visible` and `durable` move over groups in the order of their tickets ([`ring`]).
//! 6. *Acknowledge*.
//!
//! # What acknowledges a write
//! `Immediate`: `durable` covers it, and so all before it (rule 6 of recovery, `docs/durability.md`). `Buffered`: it is visible. Its bytes
//! lie in their place already, stored through the cache; only their write-back is deferred, until there are
//! [`buffered_bytes`] of them, or [`buffered_ms`] have passed, or something durable comes behind: an `Immediate` write,
//! though it may add nothing, a seal, a close. The thread that then writes back takes the whole list, flushes and
//! fences; `durable` then jumps over it. So what a crash takes is always a suffix of the order of grants, never a hole:
//! recovery keeps the items up to the first that is missing.
//!
//! A buffered write that has [`alone_bytes`] by itself is written as if it were durable. Deferred, it would reach [`buffered_bytes`]
//! alone, and be written back before it returns all the same: one thread at a time, under `syncing`, which two threads with
//! such writes would hold by turns. Now each persists its own, beside the others, and as long as nothing is deferred `durable`
//! moves with `visible`. It returns no sooner than a durable write does, so what was deferred before it is durable by then, too.
//! Where a persist is a sync nothing is that large: those behind it would become visible no sooner than the sync has ended.
//! A commit with a callback goes the same way. But it returns when it is visible, and what was deferred before it
//! is left to whoever writes back next.
//!
//! Bytes that are to be written back by another thread must not be stored past the cache: a
//! non-temporal store may lie in a buffer of the storing core, and no flush by another one reaches it.
//! Through the cache a flush by any thread that has seen the store (here: through the ring) takes it
//! along.
//!
//! # Locks
//! A bucket's queue, and `syncing` with the ring's list behind it, stand on their own: under neither is a lock of
//! another room taken but by [`Persists::write_back`], which has the log's. The registry of [`readers`] is a leaf, and so is
//! what is [`recent`].
//!
//! [`alone_bytes`]: Limits::alone_bytes
//! [`buffered_bytes`]: thermocline_base::options::CommitOptions::buffered_bytes
//! [`buffered_ms`]: thermocline_base::options::CommitOptions::buffered_ms
#![forbid(unsafe_code)]

pub mod ack;
pub mod bucket;
pub mod env;
pub mod pipeline;
pub mod readers;
pub mod recent;
pub mod ring;
mod sync;
mod told;

pub use ack::{Callback, Told};
pub use env::{CommitEnv, Durability, Entries, Group, Persists, Reserved, WriteOptions};
pub use pipeline::{Commits, Flying, Limits};

// The units' tests are named here, not in the units: loom's models include those by path
// (`tests/loom`), and what tests them on the machine's own atomics cannot run there.
#[cfg(test)]
#[path = "bucket/tests.rs"]
mod bucket_tests;
#[cfg(test)]
#[path = "readers/tests.rs"]
mod readers_tests;
#[cfg(test)]
#[path = "ring/tests.rs"]
mod ring_tests;
