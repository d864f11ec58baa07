//! A memory that notices wrong uses of blocks, in the slab's place.
//!
//! A block that is released is filled with nonsense and never given out again, so whoever looks at
//! it afterwards fails (loom's atomics are numbers, and the nonsense is none). And whoever looked
//! at it *before* must have done so in an order that the releasing thread can know of, not just by
//! luck of this execution: loom checks that where a block holds atomics.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Mutex;

use thermocline_base::Result;

use crate::memory::{NodeMemory, Usage};
use crate::node::BYTES;
use crate::sync::AtomicU64;

/// What a released block is filled with.
pub(crate) const POISON: u8 = 0xee;

/// Bytes of a list before its versions: they are left alone, so that a late reader stays inside.
const LIST_HEADER: usize = 8;

struct Block {
    at: NonNull<u8>,
    layout: Layout,
    given_out: bool,
}

// SAFETY: the block belongs to the memory.
unsafe impl Send for Block {}

pub(crate) struct Slab(Mutex<Vec<Block>>);

impl Slab {
    pub(crate) fn new() -> Slab {
        Slab(Mutex::new(Vec::new()))
    }

    pub(crate) fn given_out(&self) -> usize {
        let blocks = self.0.lock().unwrap();
        blocks.iter().filter(|block| block.given_out).count()
    }
}

// SAFETY: blocks come from the system with the alignment promised, each is given out once, and none
// goes back to the system before the memory is dropped.
unsafe impl NodeMemory for Slab {
    fn allocate(&self, bytes: usize) -> Result<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, 16).unwrap();
        // SAFETY: no node or list is empty.
        let at = NonNull::new(unsafe { alloc(layout) }).unwrap();
        self.0.lock().unwrap().push(Block {
            at,
            layout,
            given_out: true,
        });
        Ok(at)
    }

    unsafe fn release(&self, block: NonNull<u8>, bytes: usize) {
        let mut blocks = self.0.lock().unwrap();
        let entry = blocks.iter_mut().find(|entry| entry.at == block);
        let entry = entry.expect("a block of this memory");
        assert!(entry.given_out && entry.layout.size() == bytes);
        entry.given_out = false;
        drop(blocks);
        let kept = if BYTES.contains(&bytes) {
            for word in 0..bytes / size_of::<AtomicU64>() {
                // SAFETY: a node is atomics and nothing else, and by contract nobody uses it any
                // more; where that is not so, loom's check of this access fails.
                let word = unsafe { &mut *block.cast::<AtomicU64>().add(word).as_ptr() };
                word.with_mut(|_| ());
            }
            0
        } else {
            LIST_HEADER
        };
        // SAFETY: within the block.
        unsafe { block.add(kept).write_bytes(POISON, bytes - kept) };
    }

    fn block_bytes(&self, bytes: usize) -> usize {
        bytes
    }

    fn slack_bytes(&self, _: usize, _: u64) -> u64 {
        0
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        for block in self.0.get_mut().unwrap() {
            // SAFETY: allocated with this layout, and the memory's users are gone.
            unsafe { dealloc(block.at.as_ptr(), block.layout) };
        }
    }
}
