//! A cache of blocks with a budget in bytes, in front of the files of as many stores as one likes.
//!
//! # Invariants
//! 1. *A block is found only where it was read.* Its key is the store, the file and the offset. Ids of
//!    files are never used again in a database, so what a deleted file leaves behind is never found and
//!    ages out. Stores are told apart by a number that the cache gives them, not by the database's id: a
//!    copied folder has the same one.
//! 2. *Nothing that does not verify is kept*: [`Table::decode`] comes first. An error goes to whoever
//!    met it, and whoever waited for the same block reads for himself.
//! 3. *The budget is kept at every moment*, up to blocks that readers hold ([`Arc`]s, which they count
//!    themselves): a block that does not fit makes others go before it is in, and one that is larger
//!    than what a part of the cache may hold is not kept at all.
//!
//! Threads that miss the same block at once read it once. Blocks that are used once, as by a long scan,
//! do not push out what is used often (S3-FIFO, in the library).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use thermocline_base::counter::Counters;
use thermocline_base::{FileId, Result};
use thermocline_env::File;

use crate::block::Block;
use crate::handle::BlockHandle;
use crate::sync::{BlockSource, FileSource};
use crate::table::Table;

/// What an entry takes beside its block, about: key, pointers, its place in tables.
const ENTRY_BYTES: u64 = 96;

/// Bytes of a block, for the first guess at how many there will be.
const TYPICAL_BYTES: u64 = 4 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    store: u64,
    file: FileId,
    offset: u64,
}

#[derive(Debug, Clone)]
struct Charge;

impl Weighter<Key, Arc<Block>> for Charge {
    fn weight(&self, _: &Key, block: &Arc<Block>) -> u64 {
        block.charge() as u64 + ENTRY_BYTES
    }
}

/// What is counted.
enum Count {
    Hits,
    Misses,
}

/// See the module's text. Shared as an [`Arc`].
///
/// ```
/// let cache = thermocline_sst::BlockCache::new(64 << 20);
/// assert_eq!((cache.bytes(), cache.bytes_max()), (0, 64 << 20));
/// ```
#[derive(Debug)]
pub struct BlockCache {
    blocks: Cache<Key, Arc<Block>, Charge>,
    stores: AtomicU64,
    counted: Counters<2>,
}

/// What a cache did and holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheUse {
    /// Blocks that were found.
    pub hits: u64,
    /// Blocks that had to be read.
    pub misses: u64,
    /// Blocks in it.
    pub blocks: u64,
    /// Bytes that they take, what finds them included.
    pub bytes: u64,
    /// Most bytes that they may take.
    pub bytes_max: u64,
}

impl BlockCache {
    /// An empty cache of at most `bytes_max` bytes; of 0, it keeps nothing.
    pub fn new(bytes_max: u64) -> Arc<BlockCache> {
        let blocks = usize::try_from(bytes_max / TYPICAL_BYTES).unwrap_or(usize::MAX);
        Arc::new(BlockCache {
            blocks: Cache::with_weighter(blocks, bytes_max, Charge),
            stores: AtomicU64::new(0),
            counted: Counters::default(),
        })
    }

    /// A store's way to it, under a number of its own.
    pub fn store(self: &Arc<BlockCache>) -> StoreCache {
        StoreCache {
            cache: self.clone(),
            // Only distinct numbers are asked for.
            store: self.stores.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Bytes that its blocks take now.
    pub fn bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// Most bytes that they may take.
    pub fn bytes_max(&self) -> u64 {
        self.blocks.capacity()
    }

    /// What it did and holds. Approximate while others use it.
    pub fn usage(&self) -> CacheUse {
        CacheUse {
            hits: self.counted.get(Count::Hits as usize),
            misses: self.counted.get(Count::Misses as usize),
            blocks: self.blocks.len() as u64,
            bytes: self.bytes(),
            bytes_max: self.bytes_max(),
        }
    }
}

/// A cache as one store sees it.
#[derive(Debug, Clone)]
pub struct StoreCache {
    cache: Arc<BlockCache>,
    store: u64,
}

impl StoreCache {
    /// The blocks of one table, whose file is `file`.
    pub fn source(&self, file: Arc<dyn File>) -> CachedSource {
        CachedSource {
            of: self.clone(),
            file: FileSource(file),
        }
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }
}

/// The file of one table with a cache in front.
#[derive(Debug, Clone)]
pub struct CachedSource {
    of: StoreCache,
    file: FileSource,
}

impl BlockSource for CachedSource {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        let StoreCache { cache, store } = &self.of;
        let key = Key {
            store: *store,
            file: table.properties().identity.file,
            offset: handle.offset,
        };
        if let Some(block) = cache.blocks.get(&key) {
            cache.counted.add(Count::Hits as usize, 1);
            return Ok(block);
        }
        let mut read = false;
        let block = cache.blocks.get_or_insert_with(&key, || {
            read = true;
            self.file.block(table, handle)
        });
        let count = if read { Count::Misses } else { Count::Hits };
        cache.counted.add(count as usize, 1);
        block
    }
}
