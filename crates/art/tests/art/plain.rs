//! A memory that gives every block out by itself and spoils it on release, so that a use after
//! release shows (at once under an address sanitizer), and that can run out.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_art::{NodeMemory, Usage};
use thermocline_base::{Error, Result};

pub struct Plain {
    used: AtomicU64,
    /// Blocks that may still be given out.
    pub left: AtomicU64,
}

impl Plain {
    pub fn new() -> Plain {
        Plain {
            used: AtomicU64::new(0),
            left: AtomicU64::new(u64::MAX),
        }
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.max(1), 16).unwrap()
}

// SAFETY: the system's allocator keeps the contract, and user space lies below 2^48.
unsafe impl NodeMemory for Plain {
    fn allocate(&self, bytes: usize) -> Result<NonNull<u8>> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.left.store(0, Ordering::Relaxed);
            return Err(Error::OutOfSpace("injected".into()));
        }
        self.used.fetch_add(bytes as u64, Ordering::Relaxed);
        // SAFETY: the layout is not empty.
        let block = NonNull::new(unsafe { alloc(layout(bytes)) }).unwrap();
        // SAFETY: the block has this size.
        unsafe { block.write_bytes(0xa5, bytes) };
        Ok(block)
    }

    unsafe fn release(&self, block: NonNull<u8>, bytes: usize) {
        self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
        // SAFETY: by contract the block came from `allocate` and is nobody's.
        unsafe {
            block.write_bytes(0xdb, bytes);
            dealloc(block.as_ptr(), layout(bytes));
        }
    }

    fn block_bytes(&self, bytes: usize) -> usize {
        bytes
    }

    fn slack_bytes(&self, _sizes: usize, _bytes: u64) -> u64 {
        0
    }

    fn usage(&self) -> Usage {
        let used_bytes = self.used.load(Ordering::Relaxed);
        Usage {
            used_bytes,
            reserved_bytes: used_bytes,
        }
    }
}
