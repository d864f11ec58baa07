//! Loom models of the index: every interleaving of a few threads, and every value that the memory
//! model lets a load return.
//!
//! **What is checked is what is shipped.** The sources are included by path. They reach atomics and
//! locks through `crate::sync`, and here that module is loom's; nothing in them knows of it. In the
//! slab's place stands a memory ([`slab`]) that notices who looks at a block too late.
//!
//! Every model runs to its end with at most three preemptions an execution and prints how many
//! executions that were. Each names the faults of the sources that it was seen to catch.
//!
//! What this leaves out: plain memory (version lists) has no weak orderings here, only the order in
//! which threads ran; and the kinds of node above 16 children are only looked at one by one
//! ([`nodes`]), since a tree of them would be too large. The slab's lists are under locks.

#[path = "../../src/epoch.rs"]
mod epoch;
#[path = "../../src/leaf.rs"]
mod leaf;
#[path = "../../src/lock.rs"]
mod lock;
#[path = "../../src/memory.rs"]
mod memory;
#[path = "../../src/node/mod.rs"]
mod node;
#[path = "../../src/scan.rs"]
mod scan;
#[path = "../../src/source.rs"]
mod source;
#[path = "../../src/splice.rs"]
mod splice;
#[expect(dead_code, reason = "the models use parts of the sources")]
#[path = "../../src/tree.rs"]
mod tree;
#[path = "../../src/update.rs"]
mod update;
#[expect(dead_code, reason = "the models use parts of the sources")]
#[path = "../../src/versions.rs"]
mod versions;
#[path = "../../src/word.rs"]
mod word;

mod slab;
mod sync;

// Tests run in the order of their names: the longest of all is here, and is not to be left over at the end.
mod added_nodes;
mod epochs;
mod growth;
mod keys;
mod lists;
mod locks;
mod nodes;

use thermocline_testkit::loom::SeqCst;

/// The allocator of these tests, which make and drop a great deal (decision 179).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Explores all executions of a model. Sequential consistency comes from fences alone.
fn check(name: &str, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    thermocline_testkit::loom::check(name, Some(preemptions), SeqCst::Weaker, model);
}
