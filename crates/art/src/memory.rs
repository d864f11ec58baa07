//! The memory of nodes and version lists, behind a trait: the default is [`crate::Slab`]; huge
//! pages or persistent memory could stand in its place.

use std::ptr::NonNull;

use thermocline_base::Result;

/// What a [`NodeMemory`] has given out and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes of the blocks that are given out, each rounded as by [`NodeMemory::block_bytes`].
    pub used_bytes: u64,
    /// Bytes taken from the system, all overhead included; never less than `used_bytes`.
    pub reserved_bytes: u64,
}

/// Gives out blocks of memory and counts them. One memory may serve many trees.
///
/// # Safety
/// A block is valid for reads and writes of its size, aligned to 16 bytes, lies below 2^48, and
/// overlaps no other block until it is released or the memory is dropped.
pub unsafe trait NodeMemory: Send + Sync {
    /// A block of at least `bytes` bytes with any contents.
    ///
    /// # Errors
    /// [`thermocline_base::Error::OutOfSpace`] if there is no memory.
    fn allocate(&self, bytes: usize) -> Result<NonNull<u8>>;

    /// Takes a block back.
    ///
    /// # Safety
    /// `block` came from `allocate(bytes)` of this memory, and nobody uses it any more.
    unsafe fn release(&self, block: NonNull<u8>, bytes: usize);

    /// What a block of `bytes` bytes really occupies.
    fn block_bytes(&self, bytes: usize) -> usize;

    /// The most by which `reserved_bytes` can grow beyond 8/7 of what is given out anew, because
    /// memory is taken from the system in pieces, when blocks of `sizes` different sizes are
    /// wanted, of up to `bytes` bytes together, be they of one tree or of several; one block at most
    /// if `sizes` is 1. Part of [`crate::Tree::reserve_bound`].
    fn slack_bytes(&self, sizes: usize, bytes: u64) -> u64;

    /// Whether dropping the memory now would free every block that is given out. A tree that is
    /// the memory's only user then need not give its blocks back one by one.
    fn frees_all_on_drop(&self) -> bool {
        false
    }

    /// The present usage. Cheap; exact when no other thread allocates or releases.
    fn usage(&self) -> Usage;
}
