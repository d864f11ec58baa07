//! The volatile ordered index.
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
#[expect(unsafe_code, reason = "dropping a tree releases its nodes")]
mod tree;
#[expect(unsafe_code, reason = "replaced nodes and lists are retired")]
mod update;
#[expect(unsafe_code, reason = "lists are reached through words")]
mod versions;
mod word;

pub use epoch::Guard;
pub use leaf::{Leaf, fingerprint};
pub use memory::{NodeMemory, Usage};
pub use node::Direction;
pub use slab::Slab;
pub use source::KeySource;
pub use tree::{MemoryUse, Tree};
pub use versions::{Entry, NewEntry, Version};
