//! The beginning and the end of a node: blocks become nodes, nodes become blocks.

use std::ptr::NonNull;

use thermocline_base::Result;

use super::body::Body;
use super::{BYTES, N4, N16, N48, N128, N256, Node, inline_bytes};
use crate::epoch::Guard;
use crate::memory::NodeMemory;
use crate::word::{Kind, Word};

/// A node that is not part of the tree yet; given back to the memory unless published.
pub(crate) struct Fresh<'m> {
    word: Word,
    memory: &'m dyn NodeMemory,
}

impl<'m> Fresh<'m> {
    /// A node without children at `depth` on the path of `key`.
    pub(crate) fn new(
        memory: &'m dyn NodeMemory,
        kind: Kind,
        depth: usize,
        key: &[u8],
    ) -> Result<Fresh<'m>> {
        fn put<B: Body>(block: NonNull<u8>, key: &[u8], depth: usize) {
            let body = B::new(inline_bytes(key, depth, B::INLINE));
            // SAFETY: `NodeMemory`: the block is of the kind's size, aligned to 16, and ours.
            unsafe { block.cast::<B>().write(body) };
        }
        let block = memory.allocate(BYTES[kind as usize])?;
        match kind {
            Kind::N4 => put::<N4>(block, key, depth),
            Kind::N16 => put::<N16>(block, key, depth),
            Kind::N48 => put::<N48>(block, key, depth),
            Kind::N128 => put::<N128>(block, key, depth),
            Kind::N256 => put::<N256>(block, key, depth),
        }
        let depth = u16::try_from(depth).expect("a branch lies below the longest key's end");
        let word = Word::of_node(kind, depth, block.as_ptr().expose_provenance());
        Ok(Fresh { word, memory })
    }

    pub(crate) fn node(&self) -> Node<'_> {
        // SAFETY: N1 by `new`; the node lives until `self` is dropped or published.
        unsafe { Node::of(self.word) }
    }

    /// The word to put into a slot; from then on the node is the tree's.
    pub(crate) fn publish(self, guard: &Guard<'_>) -> Word {
        guard.count(|c| &c.nodes[self.word.kind() as usize], 1);
        let word = self.word;
        std::mem::forget(self);
        word
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        // SAFETY: the node was never published, so nobody else knows it.
        unsafe { release(self.word, self.memory) };
    }
}

fn block_of(word: Word) -> NonNull<u8> {
    let block = std::ptr::with_exposed_provenance_mut(word.node_address());
    NonNull::new(block).expect("a node's address is not 0")
}

/// Gives a node's block back at once.
///
/// # Safety
/// The word is a node of this memory, and nobody uses it any more.
pub(crate) unsafe fn release(word: Word, memory: &dyn NodeMemory) {
    // SAFETY: by contract, with the size that `Fresh::new` asked for.
    unsafe { memory.release(block_of(word), BYTES[word.kind() as usize]) };
}

/// Gives a node's block back once no guard can see it.
///
/// # Safety
/// The node has just been replaced in its slot by the caller (so this happens once), is marked
/// obsolete, and came from `memory`, the memory of the guard's tree.
pub(crate) unsafe fn retire(word: Word, guard: &Guard<'_>, memory: &dyn NodeMemory) {
    guard.count(|c| &c.nodes[word.kind() as usize], -1);
    let bytes = BYTES[word.kind() as usize];
    // SAFETY: by contract (E3).
    unsafe { guard.retire(block_of(word), bytes, memory) };
}
