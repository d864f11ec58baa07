//! The volatile ordered index: from a key to the record that holds it.
//!
//! Records live in persistent memory and survive; this index lives in DRAM and is rebuilt. It is
//! an adaptive radix tree over arbitrary byte strings (Leis et al., *The Adaptive Radix Tree*,
//! ICDE 2013) with optimistic lock coupling (Leis et al., *The ART of Practical Synchronization*,
//! DaMoN 2016). **Keys are not stored**: a leaf is one word, a record's offset and 16 bits of the
//! key's hash, as in the semi-persistent memtable of the LogFree paper (§3.1). Whatever a reader
//! may see of one key is one word too: a leaf, or a list of versions that is replaced as a whole.
//!
//! ```
//! use std::ops::{Bound, ControlFlow};
//! use thermocline_art::{Direction, KeySource, Leaf, Tree};
//! use thermocline_base::Result;
//!
//! /// "Records" that are just keys; the offset is eight times the number.
//! struct Keys(Vec<&'static [u8]>);
//! impl KeySource for Keys {
//!     fn key(&self, leaf: Leaf) -> Result<&[u8]> {
//!         Ok(self.0[usize::try_from(leaf.offset() / 8).unwrap()])
//!     }
//!     fn check(&self, _: Leaf) -> Result<()> {
//!         Ok(())
//!     }
//! }
//!
//! let keys = Keys(vec![b"lake", b"", b"la"]);
//! let tree = Tree::new();
//! let guard = tree.pin();
//! for (i, key) in (0..).zip(&keys.0) {
//!     let leaf = Leaf::of(key, 8 * i);
//!     tree.update(&guard, key, &keys, |_present| Ok(Some(leaf.into())))?;
//! }
//! let found = tree.get(&guard, b"la", &keys)?;
//! assert_eq!(found.map(|entry| entry.leaf().offset()), Some(16));
//!
//! let mut order = Vec::new();
//! tree.scan(&guard, Bound::Unbounded, Direction::Forward, &keys, |entry| {
//!     order.push(entry.leaf().offset() / 8);
//!     Ok(ControlFlow::Continue(()))
//! })?;
//! assert_eq!(order, [1, 2, 0]);
//! # Ok::<(), thermocline_base::Error>(())
//! ```
//!
//! # Vocabulary
//! - *Word*: the 8 bytes in a child slot: nothing, leaf, list, or node (`word.rs`).
//! - *Depth* of a node: the index of the key byte by which its children differ. It is kept in the
//!   word that leads to the node.
//! - *Symbol*: what a key has at a depth, a byte or "the key ends here". A key that is a prefix of
//!   others hangs on the latter; nodes with few slots use their last slot for it.
//! - *Inline bytes*: the few bytes before its depth that a node knows. A longer compressed path is
//!   skipped on the way down and verified by the record at the end.
//! - *Obsolete*: replaced by a larger copy; frozen for ever.
//! - *Guard*, *retired*: see `epoch.rs`.
//!
//! # Invariants
//! The numbered ones stand where they are used: N1 to N4 (nodes) in `node/mod.rs`, E1 to E4
//! (epochs) in `epoch.rs`, V1 to V3 (lists) in `versions.rs`, S1 to S4 (memory) in `slab.rs`. The
//! two that carry the design:
//! - All keys below a node of depth d share their first d bytes, for ever (N4). There is no
//!   removal (a delete is a tombstone record), no node ever changes its depth, and splitting a
//!   path only puts a node above. So any key below a node tells its whole path, an obsolete node
//!   still leads to every key that it had, and scans never begin again.
//! - What was in the tree at any moment of a guard's life outlives the guard (E4).
//!
//! # Reading and writing
//! A reader notes a node's version, reads, and validates that the version is unchanged, handing
//! over from parent to child; nothing it read, "not found" included, is acted on before. It writes
//! no shared memory but its epoch slot. A writer descends in the same way, then upgrades the
//! version of the one node that changes, or of two when a node is replaced by a larger copy.
//!
//! | what an insert finds | locks | changes |
//! |---|---|---|
//! | an empty tree, or its key | the slot's node | the slot |
//! | a free slot | the node | the slot, then the count |
//! | another leaf, or a path that its key leaves | the slot's node | a new node above |
//! | a full node | parent and node | a larger copy; the node becomes obsolete and is retired |
//!
//! Everything that can fail (reading keys, memory) comes before the first change; then the
//! caller's function runs under the lock; then nothing can fail any more.
//!
//! # Lock order
//! Parent node, child node, garbage of the epochs, size class, pool. Nodes are locked by
//! compare-exchange on a noted version and never waited for while holding a lock, so nodes cannot
//! deadlock. The caller's function runs under node locks and must not use the tree.
//!
//! # Damage
//! The tree trusts the fingerprints that it keeps, not the keys that it reads. A lookup that ends
//! at its own fingerprint but other bytes asks [`KeySource::check`] before it says "absent". An
//! insert that lets another record's key shape the tree compares that key's fingerprint first.
//!
//! # Memory
//! At most 40 bytes per key, live and retained, for random and for decimal 16-byte keys
//! (`tests/art/memory.rs`, `examples/memory.rs`). What it rests on: a smallest node of 48 bytes,
//! since most nodes hold one pair; a kind between 48 and 256 children, since at five million random
//! keys nearly all nodes have 60 to 70; chunks that change their size class (`slab.rs`).
//!
//! # Alternatives rejected
//! - *Prefix and its length in the node* (the paper): a split then changes the node below, which
//!   must be locked too, and readers must validate once more; and 8 bytes more in every node.
//! - *Sorted key bytes*: faster to scan, but inserting moves children under readers' eyes. Nodes
//!   that only append make even unvalidated reads meaningful; scans sort up to 16 bytes instead.
//! - *A slot for the ending key in every node*: 8 bytes of 48 for what random keys never use.
//! - *Restarting scans at the last key*: needs that key, that is, persistent memory, at the worst
//!   moment. Frozen nodes make it needless.
//! - *B+-tree, skip list, Bw-tree*: all need the keys, or a cache miss in persistent memory for
//!   each comparison.
//! - *Hazard pointers*: a store and a fence per node instead of one per operation.
#![deny(unsafe_code)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the index keeps addresses and tags in 64-bit words");

#[expect(
    unsafe_code,
    reason = "epochs own retired blocks and the list of slot blocks"
)]
mod epoch;
mod leaf;
mod lock;
#[expect(unsafe_code, reason = "the contract of a memory is an unsafe trait")]
mod memory;
#[expect(unsafe_code, reason = "nodes are reached through words")]
mod node;
mod scan;
#[expect(unsafe_code, reason = "an allocator")]
mod slab;
mod source;
mod splice;
mod sync;
#[expect(unsafe_code, reason = "dropping a tree releases its nodes")]
mod tree;
#[expect(unsafe_code, reason = "replaced nodes and lists are retired")]
mod update;
#[expect(unsafe_code, reason = "lists are reached through words")]
mod versions;
mod word;

// The units' tests are named here, not in the units: the models of `tests/loom` include those by
// path, and what tests them on the machine's own atomics cannot run there.
#[cfg(test)]
#[expect(unsafe_code, reason = "retires blocks")]
#[path = "epoch/tests.rs"]
mod epoch_tests;
#[cfg(test)]
#[path = "lock/tests.rs"]
mod lock_tests;

pub use epoch::Guard;
pub use leaf::{Leaf, fingerprint};
pub use memory::{NodeMemory, Usage};
pub use node::Direction;
pub use slab::Slab;
pub use source::KeySource;
pub use splice::Moments;
pub use tree::{MemoryUse, Reckoning, Tree};
pub use versions::{Entry, NewEntry, OPERANDS_A_BLOCK, Version};
