//! Committing (design §5; LogFree §3.2): from the grant of a group to its acknowledgement.
//!
//! | module | what it has |
//! |---|---|
//! | `bucket` | durable writes that meet become one group: leader and followers |
//! | `ring` | the order in which groups finish, and the two watermarks |
//! | `carry` | a group's way: copy, persist, index, finish; writing back what was deferred |
//! | `submit` | how a write comes to its group |
//! | `ack` | acknowledging without a waiting thread: callbacks |
//!
//! # What acknowledges a write
//! `Immediate`: `durable` covers it, and so all before it (design §14, rule 6). `Buffered`: it is
//! visible. Its bytes lie in their place already, stored through the cache; only their write-back is
//! deferred, until there are [`buffered_bytes`] of them, or [`buffered_ms`] have passed, or something
//! durable comes behind: an `Immediate` write, though it may add nothing, a seal, a close. Whoever it is takes the whole list,
//! flushes and fences; `durable` then jumps over it. So what a crash takes is always a suffix of the
//! order of grants, never a hole: recovery keeps the items up to the first that is missing.
//!
//! Bytes that are to be written back by another thread must not be stored past the cache: a
//! non-temporal store may lie in a buffer of the storing core, and no flush by another one reaches it.
//! Through the cache a flush by any thread that has seen the store (here: through the ring) takes it
//! along.
//!
//! [`buffered_bytes`]: thermocline_base::options::CommitOptions::buffered_bytes
//! [`buffered_ms`]: thermocline_base::options::CommitOptions::buffered_ms

pub(crate) mod ack;
pub(crate) mod bucket;
pub(crate) mod carry;
pub(crate) mod ring;
pub(crate) mod submit;

// The units' tests are named here, not in the units: loom's models include those by path
// (`tests/loom`), and what tests them on the machine's own atomics cannot run there.
#[cfg(test)]
#[path = "bucket/tests.rs"]
mod bucket_tests;
#[cfg(test)]
#[path = "ring/tests.rs"]
mod ring_tests;
#[cfg(test)]
mod tests;
