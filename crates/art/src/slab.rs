//! The default node memory: slabs.
//!
//! Blocks of one size class come from *chunks* of 16 KiB, which begin with a header and are
//! aligned to their size, so that a block finds its chunk by masking its address. Chunks come from
//! a *pool* common to all classes, and the pool takes *extents* of several chunks from the system.
//!
//! Why chunks change class: under uniform keys all nodes of one kind outgrow it at nearly the same
//! time (at five million random keys nearly every 48-child node has become a 128-child node). A
//! free list per class would then hold that memory for ever; here an empty chunk goes back to the
//! pool, and the pool returns extents to the system beyond a little hysteresis.
//!
//! The chunk size is a compromise: 16,320 bytes after the header are a multiple of the commonest
//! blocks (48, 160) and lose at most 11 % to the largest node, while a small store pays one chunk
//! per kind of node it has.
//!
//! # Invariants
//! - **S1** A chunk is owned either by one class (its header is protected by that class's lock) or
//!   by the pool (protected by the pool's lock). It changes hands under both.
//! - **S2** The `partial` list of a class holds exactly its chunks with at least one free block.
//! - **S3** In a chunk, the blocks below `bump` are given out or on the free list, those from
//!   `bump` on have never been given out; `live` counts those given out.
//! - **S4** An extent is returned to the system only when all its chunks are owned by the pool.
//! - **S5** The account, if there is one, has counted the bytes of all extents and of all blocks that
//!   come from the system directly: before they are taken, and until they have been given back.
//!
//! Lock order: class, then pool.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use thermocline_base::budget::Account;

use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use thermocline_base::{Error, Result};

use crate::memory::{NodeMemory, Usage};
use pool::{CHUNK, Chunk, ChunkPtr, Pool, refused};

mod pool;

/// Bytes of a chunk that its header takes.
const HEADER: usize = 64;

/// Block sizes. The node kinds have exact classes; the others serve version lists.
const CLASSES: [usize; 16] = [
    48, 64, 80, 96, 128, 160, 240, 320, 480, 656, 1024, 1296, 2080, 3264, 4080, BLOCK_MAX,
];

/// The largest block that comes from a chunk; larger ones come from the system directly.
const BLOCK_MAX: usize = (CHUNK - HEADER) / 2;

/// Alignment of every block.
const ALIGN: usize = 16;

/// The class of each size, by size in units of [`ALIGN`], rounded up.
const CLASS_OF: [u8; BLOCK_MAX / ALIGN + 1] = {
    let mut table = [0; BLOCK_MAX / ALIGN + 1];
    let (mut units, mut class) = (0, 0u8);
    while units < table.len() {
        if units * ALIGN > CLASSES[class as usize] {
            class += 1;
        }
        table[units] = class;
        units += 1;
    }
    table
};

const _: () = assert!(size_of::<Chunk>() <= HEADER);

/// The chunks of one size class.
struct Class {
    partial: Option<ChunkPtr>,
}

// SAFETY: S1: the pointers lead to chunks that only the holder of this class's lock touches.
unsafe impl Send for Class {}

/// See the module's text.
pub struct Slab {
    classes: [Mutex<Class>; CLASSES.len()],
    /// Bytes given out per class; written under the class's lock.
    used: [AtomicU64; CLASSES.len()],
    /// Bytes of blocks over [`BLOCK_MAX`].
    large: AtomicU64,
    pool: Mutex<Pool>,
    /// Bytes of all extents, and whether the pool has a free chunk; written under the pool's lock.
    extents: AtomicU64,
    has_free: AtomicBool,
    /// Who answers for the bytes (S5).
    account: Option<Arc<Account>>,
}

impl Default for Slab {
    fn default() -> Slab {
        Slab::new()
    }
}

impl std::fmt::Debug for Slab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slab")
            .field("usage", &self.usage())
            .finish_non_exhaustive()
    }
}

impl Slab {
    /// An empty memory; it takes nothing from the system until the first block.
    pub fn new() -> Slab {
        Slab::with_account(None)
    }

    /// An empty memory whose bytes count in `account` until they are given back.
    pub fn charged_to(account: Arc<Account>) -> Slab {
        Slab::with_account(Some(account))
    }

    fn with_account(account: Option<Arc<Account>>) -> Slab {
        Slab {
            classes: std::array::from_fn(|_| Mutex::new(Class { partial: None })),
            used: std::array::from_fn(|_| AtomicU64::new(0)),
            large: AtomicU64::new(0),
            pool: Mutex::new(Pool::new(account.clone())),
            extents: AtomicU64::new(0),
            has_free: AtomicBool::new(false),
            account,
        }
    }

    fn class_of(bytes: usize) -> Option<usize> {
        CLASS_OF.get(bytes.div_ceil(ALIGN)).map(|&c| usize::from(c))
    }

    fn large_layout(bytes: usize) -> Result<Layout> {
        Layout::from_size_align(bytes, ALIGN)
            .map_err(|_| Error::OutOfSpace(format!("no address space for {bytes} bytes of index")))
    }

    fn allocate_large(&self, bytes: usize) -> Result<NonNull<u8>> {
        let layout = Slab::large_layout(bytes)?;
        if let Some(account) = &self.account {
            account.take(bytes as u64)?;
        }
        // SAFETY: the layout is larger than BLOCK_MAX, so not empty.
        let Some(block) = NonNull::new(unsafe { alloc(layout) }) else {
            self.give(bytes as u64);
            return Err(refused(bytes));
        };
        self.large.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(block)
    }

    /// Counts bytes that were given back (S5).
    fn give(&self, bytes: u64) {
        if let Some(account) = &self.account {
            account.give(bytes);
        }
    }

    /// Runs `change` on the pool and notes what it holds then.
    fn with_pool<T>(&self, change: impl FnOnce(&mut Pool) -> T) -> T {
        let mut pool = lock(&self.pool);
        let result = change(&mut pool);
        self.extents.store(pool.bytes(), Ordering::Relaxed);
        self.has_free.store(pool.has_free(), Ordering::Relaxed);
        result
    }

    /// Adds to a class's count; the caller holds the class's lock, so no addition is lost.
    fn count(&self, class: usize, bytes: u64) {
        let used = self.used[class].load(Ordering::Relaxed);
        self.used[class].store(used.wrapping_add(bytes), Ordering::Relaxed);
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // Blocks of the system's that nobody released are lost, but not to the account. The pool gives
        // back its own.
        self.give(self.large.load(Ordering::Relaxed));
    }
}

impl Class {
    /// Gives out one block of the first chunk with room.
    fn take(&mut self, chunk: ChunkPtr, bytes: usize) -> NonNull<u8> {
        // SAFETY: S1: the chunk is this class's, and `&mut self` stands for its lock.
        let head = unsafe { chunk.header() };
        let offset = if head.free != 0 {
            let offset = head.free;
            // SAFETY: S3: the free list holds free blocks of this chunk, each of which begins
            // with the offset of the next; blocks are aligned to 16 bytes.
            head.free = unsafe { chunk.at(offset).cast::<usize>().read() };
            offset
        } else {
            let offset = head.bump;
            head.bump += bytes;
            offset
        };
        head.live += 1;
        if head.free == 0 && head.bump + bytes > CHUNK {
            self.unlink(chunk); // S2
        }
        chunk.at(offset)
    }

    fn link(&mut self, chunk: ChunkPtr) {
        // SAFETY: S1, as in `take`; the list's chunks are this class's too.
        unsafe {
            chunk.header().next = self.partial;
            chunk.header().prev = None;
            if let Some(next) = self.partial {
                next.header().prev = Some(chunk);
            }
        }
        self.partial = Some(chunk);
    }

    fn unlink(&mut self, chunk: ChunkPtr) {
        // SAFETY: S1, as in `take`; the neighbours are this class's too.
        unsafe {
            let (prev, next) = (chunk.header().prev, chunk.header().next);
            if let Some(next) = next {
                next.header().prev = prev;
            }
            match prev {
                Some(prev) => prev.header().next = next,
                None => self.partial = next,
            }
        }
    }
}

// SAFETY: S3: a block below `bump` that is not on the free list is given out exactly once, lies
// within its chunk behind the header, and blocks are multiples of 16 bytes from an aligned start.
// The pool checks that extents lie below 2^48.
unsafe impl NodeMemory for Slab {
    fn allocate(&self, bytes: usize) -> Result<NonNull<u8>> {
        let Some(index) = Slab::class_of(bytes) else {
            return self.allocate_large(bytes);
        };
        let size = CLASSES[index];
        let mut class = lock(&self.classes[index]);
        let chunk = match class.partial {
            Some(chunk) => chunk,
            None => {
                let chunk = self.with_pool(Pool::take)?;
                // SAFETY: S1: the pool has just handed the chunk over.
                let head = unsafe { chunk.header() };
                (head.free, head.bump, head.live) = (0, HEADER, 0);
                class.link(chunk);
                chunk
            }
        };
        self.count(index, size as u64);
        Ok(class.take(chunk, size))
    }

    unsafe fn release(&self, block: NonNull<u8>, bytes: usize) {
        let Some(index) = Slab::class_of(bytes) else {
            let layout = Slab::large_layout(bytes).expect("it was allocated with this layout");
            // SAFETY: by contract the block came from `allocate_large` with this layout.
            unsafe { dealloc(block.as_ptr(), layout) };
            self.large.fetch_sub(bytes as u64, Ordering::Relaxed);
            self.give(bytes as u64);
            return;
        };
        let size = CLASSES[index];
        let mut class = lock(&self.classes[index]);
        let (chunk, offset) = ChunkPtr::of_block(block);
        // SAFETY: S1: by contract the block is of this class, so its chunk is too.
        let head = unsafe { chunk.header() };
        let was_full = head.free == 0 && head.bump + size > CHUNK;
        // SAFETY: by contract nobody uses the block any more; it is aligned and large enough.
        unsafe { block.cast::<usize>().write(head.free) };
        head.free = offset;
        head.live -= 1;
        let empty = head.live == 0;
        if was_full {
            class.link(chunk); // S2
        }
        if empty {
            class.unlink(chunk);
            self.with_pool(|pool| pool.give(chunk));
        }
        self.count(index, (size as u64).wrapping_neg());
    }

    fn block_bytes(&self, bytes: usize) -> usize {
        Slab::class_of(bytes).map_or(bytes, |class| CLASSES[class])
    }

    fn slack_bytes(&self, sizes: usize, bytes: u64) -> u64 {
        let extents = self.extents.load(Ordering::Relaxed);
        if sizes == 1 {
            // One block needs one chunk, and the pool never returns its last free one. Near the limit of
            // a budget that decides whether a delete is let through.
            return match self.has_free.load(Ordering::Relaxed) {
                true => 0,
                false => Pool::extent_bytes(extents),
            };
        }
        // A new chunk per class, and the last extent they come from: those before it are used up, and
        // the more there is by then, the larger it is. The worst chunks, those of the largest node, lose
        // 1,824 of 16,384 bytes, which is less than an eighth.
        let chunks = (sizes.min(CLASSES.len()) * CHUNK) as u64;
        chunks + Pool::extent_bytes(extents + bytes + bytes / 7 + chunks)
    }

    fn frees_all_on_drop(&self) -> bool {
        self.large.load(Ordering::Relaxed) == 0
    }

    fn usage(&self) -> Usage {
        let large = self.large.load(Ordering::Relaxed);
        let used: u64 = self.used.iter().map(|u| u.load(Ordering::Relaxed)).sum();
        Usage {
            used_bytes: used + large,
            reserved_bytes: self.extents.load(Ordering::Relaxed) + large,
        }
    }
}

#[cfg(test)]
mod tests;
