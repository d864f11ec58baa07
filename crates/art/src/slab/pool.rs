//! The pool of chunks: what no class needs, and the extents it all comes from.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use thermocline_base::budget::Account;
use thermocline_base::{Error, Result};

/// Size and alignment of a chunk.
pub(super) const CHUNK: usize = 16 << 10;

/// Fewest and most chunks of an extent, and the share of all memory that one extent may be. Small
/// for small stores; large enough later that the system's bookkeeping does not matter.
///
/// A budget keeps its last sixteenth for deletes (`base::budget`). It should be several extents even of
/// the smallest budget: what is left over in it when there is room for no extent serves no delete.
const EXTENT_CHUNKS_MIN: u64 = 2;
const EXTENT_CHUNKS_MAX: u64 = 64;
const EXTENT_SHARE: u64 = 32;

/// The pool keeps at least this share of all memory free before it returns an extent.
const HYSTERESIS_SHARE: u64 = 64;

/// The header of a chunk (S1, S3). Offsets count from the chunk's start; 0 is none.
#[repr(C)]
pub(super) struct Chunk {
    pub(super) next: Option<ChunkPtr>,
    pub(super) prev: Option<ChunkPtr>,
    pub(super) extent: usize,
    pub(super) free: usize,
    pub(super) bump: usize,
    pub(super) live: usize,
}

/// A pointer to a chunk of a live extent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkPtr(NonNull<u8>);

impl ChunkPtr {
    /// The chunk that a block lies in, and the block's offset there.
    pub(super) fn of_block(block: NonNull<u8>) -> (ChunkPtr, usize) {
        let offset = block.addr().get() & (CHUNK - 1);
        let start = block.as_ptr().wrapping_sub(offset);
        let chunk = NonNull::new(start).expect("no chunk lies at address 0");
        (ChunkPtr(chunk), offset)
    }

    /// The chunk's header.
    ///
    /// # Safety
    /// S1: the caller holds the lock that protects the header, and no other reference to it.
    pub(super) unsafe fn header<'a>(self) -> &'a mut Chunk {
        // SAFETY: a chunk is aligned and begins with an initialised header (`Pool::grow`); the
        // rest is the caller's promise.
        unsafe { self.0.cast::<Chunk>().as_mut() }
    }

    /// The address `offset` bytes into the chunk.
    pub(super) fn at(self, offset: usize) -> NonNull<u8> {
        assert!(offset < CHUNK);
        // SAFETY: a chunk has CHUNK bytes.
        unsafe { self.0.add(offset) }
    }
}

#[cold]
pub(super) fn refused(bytes: usize) -> Error {
    Error::OutOfSpace(format!(
        "the system refused {bytes} bytes of memory for the index; lower `dram`"
    ))
}

struct Extent {
    base: NonNull<u8>,
    chunks: u64,
    free: u64,
}

/// See the module's text.
pub(super) struct Pool {
    free: Option<ChunkPtr>,
    free_chunks: u64,
    chunks: u64,
    extents: Vec<Option<Extent>>,
    /// Who answers for the extents (S5).
    account: Option<Arc<Account>>,
}

// SAFETY: S1: the pointers lead to extents that the pool owns and chunks that only the holder of
// its lock touches.
unsafe impl Send for Pool {}

impl Pool {
    /// An empty pool, whose extents count in `account`.
    pub(super) fn new(account: Option<Arc<Account>>) -> Pool {
        Pool {
            free: None,
            free_chunks: 0,
            chunks: 0,
            extents: Vec::new(),
            account,
        }
    }

    /// Bytes of all extents.
    pub(super) fn bytes(&self) -> u64 {
        self.chunks * CHUNK as u64
    }

    /// Whether a chunk can be taken without an extent.
    pub(super) fn has_free(&self) -> bool {
        self.free.is_some()
    }

    /// Bytes of the next extent when there are `bytes` already.
    pub(super) fn extent_bytes(bytes: u64) -> u64 {
        let chunks = bytes / EXTENT_SHARE / CHUNK as u64;
        chunks.clamp(EXTENT_CHUNKS_MIN, EXTENT_CHUNKS_MAX) * CHUNK as u64
    }

    /// Hands a chunk to a class, which must fill in the rest of the header.
    pub(super) fn take(&mut self) -> Result<ChunkPtr> {
        if self.free.is_none() {
            self.grow()?;
        }
        let chunk = self.free.expect("an extent has chunks");
        self.unlink(chunk);
        Ok(chunk)
    }

    /// Takes a chunk back from a class.
    pub(super) fn give(&mut self, chunk: ChunkPtr) {
        self.link(chunk);
        // SAFETY: S1: the chunk is the pool's again.
        let index = unsafe { chunk.header().extent };
        let extent = self.extents[index].as_ref().expect("a chunk's extent");
        if extent.free == extent.chunks {
            self.shrink();
        }
    }

    fn layout(chunks: u64) -> Layout {
        let bytes = crate::word::index(chunks) * CHUNK;
        Layout::from_size_align(bytes, CHUNK).expect("an extent is at most a mebibyte")
    }

    fn grow(&mut self) -> Result<()> {
        let chunks = Pool::extent_bytes(self.bytes()) / CHUNK as u64;
        let layout = Pool::layout(chunks);
        if let Some(account) = &self.account {
            account.take(layout.size() as u64)?;
        }
        // SAFETY: the layout is not empty.
        let Some(base) = NonNull::new(unsafe { alloc(layout) }) else {
            self.give_back(layout.size() as u64);
            return Err(refused(layout.size()));
        };
        let end = base.as_ptr().expose_provenance() as u64 + layout.size() as u64;
        assert!(end >> 48 == 0, "an address beyond 48 bits");
        let index = self.extents.iter().position(Option::is_none);
        let index = index.unwrap_or_else(|| {
            self.extents.push(None);
            self.extents.len() - 1
        });
        self.extents[index] = Some(Extent {
            base,
            chunks,
            free: 0,
        });
        self.chunks += chunks;
        // Backwards, so that chunks are taken in the order of their addresses.
        for offset in (0..layout.size()).step_by(CHUNK).rev() {
            // SAFETY: the offset lies within the extent just allocated.
            let chunk = ChunkPtr(unsafe { base.add(offset) });
            let head = Chunk {
                next: None,
                prev: None,
                extent: index,
                free: 0,
                bump: 0,
                live: 0,
            };
            // SAFETY: the extent is ours, and chunks are aligned to CHUNK.
            unsafe { chunk.0.cast::<Chunk>().write(head) };
            self.link(chunk);
        }
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        if let Some(account) = &self.account {
            account.give(bytes);
        }
    }

    /// Returns free extents to the system while enough stays free.
    fn shrink(&mut self) {
        for index in 0..self.extents.len() {
            let keep = self.bytes() / HYSTERESIS_SHARE / CHUNK as u64;
            let spare = self.free_chunks.saturating_sub(keep.max(1));
            let whole = |e: &Extent| e.free == e.chunks && e.chunks <= spare;
            if self.extents[index].as_ref().is_some_and(whole) {
                self.return_extent(index);
            }
        }
    }

    fn return_extent(&mut self, index: usize) {
        let extent = self.extents[index].as_ref().expect("checked by the caller");
        let (base, chunks) = (extent.base, extent.chunks);
        let layout = Pool::layout(chunks);
        for offset in (0..layout.size()).step_by(CHUNK) {
            // SAFETY: the offset lies within the extent.
            self.unlink(ChunkPtr(unsafe { base.add(offset) }));
        }
        self.extents[index] = None;
        self.chunks -= chunks;
        // SAFETY: S4: all chunks of the extent were in the pool, and now are on no list.
        unsafe { dealloc(base.as_ptr(), layout) };
        self.give_back(layout.size() as u64);
    }

    fn link(&mut self, chunk: ChunkPtr) {
        // SAFETY: S1: the chunks of the list, and this one, are the pool's.
        let head = unsafe { chunk.header() };
        (head.next, head.prev) = (self.free, None);
        if let Some(next) = self.free {
            // SAFETY: as above; `next` is another chunk.
            unsafe { next.header().prev = Some(chunk) };
        }
        self.free = Some(chunk);
        self.free_chunks += 1;
        self.extents[head.extent]
            .as_mut()
            .expect("a chunk's extent")
            .free += 1;
    }

    fn unlink(&mut self, chunk: ChunkPtr) {
        // SAFETY: S1, as in `link`.
        let head = unsafe { chunk.header() };
        let (prev, next) = (head.prev, head.next);
        if let Some(next) = next {
            // SAFETY: as in `link`.
            unsafe { next.header().prev = prev };
        }
        match prev {
            // SAFETY: as in `link`.
            Some(prev) => unsafe { prev.header().next = next },
            None => self.free = next,
        }
        self.free_chunks -= 1;
        self.extents[head.extent]
            .as_mut()
            .expect("a chunk's extent")
            .free -= 1;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for extent in self.extents.drain(..).flatten() {
            // SAFETY: dropping the memory ends the life of all its blocks (`NodeMemory`).
            unsafe { dealloc(extent.base.as_ptr(), Pool::layout(extent.chunks)) };
        }
        self.give_back(self.bytes());
    }
}
