//! A cache of blocks with a budget in bytes, in front of the files of as many stores as one likes. Values that lie in blob files are
//! in it, too ([`values`]), as data blocks are.
//!
//! # Invariants
//! 1. *A block is found only where it was read.* Its key is the store, the file and the offset. Ids of
//!    files are never used again in a database, so what a deleted file leaves behind is never found; whoever
//!    deletes it says so ([`StoreCache::forget_files`]), or it would take room for long. Stores are told apart by a number that the cache gives them, not by the database's id: a
//!    copied folder has the same one.
//! 2. *Nothing that does not verify is kept*: [`Table::decode`] comes first. An error goes to whoever
//!    met it. Those who waited for the same block read for themselves, side by side.
//! 3. *The budget is kept at every moment*, up to blocks that readers hold ([`Arc`]s, which they count
//!    themselves): a block that does not fit makes others go before it is in, and one that is larger
//!    than what a part of the cache may hold is not kept at all, so that nothing has to go for it.
//! 4. *Others win.* Blocks of a store that has an account (`thermocline_base::budget`) are charged to it
//!    as long as they are in. Where it has no room for a block, blocks go that were used least; whoever
//!    has the account's room for something else has them go ([`Evict`]). The cache grows again as there
//!    is room. A store that shares the cache with others makes room among its own blocks ([`own`]).
//!
//! 5. *Indexes stay.* An index block leads to hundreds of data blocks, and every read of a large table needs
//!    one. So they go after data blocks, as long as all of them take at most a quarter of what the cache may
//!    have just now, and each is small beside a part of it. Beyond that all are alike; and where nothing else is left they go as well, since 3 and 4 come first.
//!
//! Threads that miss the same block at once read it once. Where there is no room to keep it, it is theirs alone. Blocks that are
//! used once, as by a long scan, do not push out what is used often (S3-FIFO, in the library). A cache of 0 bytes keeps nothing.
//! A scheduler of threads that tests bring does not see the library's locks: none of ours is taken under them.

mod evict;
mod kept;
mod own;
pub(crate) mod source;
#[cfg(test)]
mod tests;
mod values;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::fast::FixedState;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use thermocline_base::FileId;
use thermocline_base::budget::{Account, Charge, Evict};
use thermocline_base::counter::Counters;
use thermocline_base::sync::{AtomicU64, Mutex, Ordering, lock};

use crate::block::Block;
use crate::handle::{BlockHandle, BlockKind};
use crate::table::Table;

use kept::CachedValue;
use own::{Key, Living, Own, Owned};

/// What an entry takes beside its block, about: key, pointers, its place in tables.
const ENTRY_BYTES: u64 = 96;

/// Bytes of a block, for the first guess at how many there will be.
const TYPICAL_BYTES: u64 = 4 << 10;

/// The part of the cache that index blocks may keep, and the part of a shard that one of them may be.
const INDEX_PARTS: u64 = 4;
const SMALL_PARTS: u64 = 8;

/// What is in.
#[derive(Debug)]
enum Cached {
    Block(Arc<Block>),
    /// A value in a blob file.
    Value(CachedValue),
    /// Nothing, for those who waited for a read that failed. It is never in.
    Failed,
}

impl Cached {
    /// Bytes that it takes, with what finds it.
    fn weight(&self) -> u64 {
        let bytes = match self {
            Cached::Block(block) => block.charge(),
            Cached::Value(value) => value.charge(),
            Cached::Failed => 0,
        };
        bytes as u64 + ENTRY_BYTES
    }

    fn block(&self) -> Option<&Arc<Block>> {
        match self {
            Cached::Block(block) => Some(block),
            Cached::Value(_) | Cached::Failed => None,
        }
    }
}

/// It, and what is counted for it.
#[derive(Debug)]
struct Entry {
    what: Cached,
    /// Whether it is to be in: otherwise it is only for those who wait for it.
    is_kept: bool,
    own: Owned,
    _charge: Option<Charge>,
    index: Option<IndexBytes>,
}

/// Bytes of an index block that is in, counted.
#[derive(Debug)]
struct IndexBytes {
    bytes: u64,
    of: Arc<Kept>,
}

/// What decides whether index blocks stay (invariant 5). Relaxed: it need not be exact.
#[derive(Debug)]
struct Kept {
    /// Bytes of index blocks.
    indexes: AtomicU64,
    /// Bytes that all blocks may take just now.
    capacity: AtomicU64,
    /// Into how many parts, by keys, the cache is cut.
    shards: AtomicU64,
}

impl IndexBytes {
    fn new(bytes: u64, of: &Arc<Kept>) -> IndexBytes {
        of.indexes.fetch_add(bytes, Ordering::Relaxed);
        let of = of.clone();
        IndexBytes { bytes, of }
    }
}

impl Drop for IndexBytes {
    fn drop(&mut self) {
        self.of.indexes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Says of each entry whether it must stay.
#[derive(Debug, Clone)]
struct Stays(Arc<Kept>);

impl Lifecycle<Key, Arc<Entry>> for Stays {
    /// What has gone, mostly one, for which no list is made: freed when the cache's locks have been given up.
    type RequestState = (Option<Arc<Entry>>, Vec<Arc<Entry>>);

    fn is_pinned(&self, _: &Key, entry: &Arc<Entry>) -> bool {
        let Some(index) = &entry.index else {
            return false;
        };
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let capacity = of(&self.0.capacity);
        index.bytes <= capacity / of(&self.0.shards) / SMALL_PARTS
            && of(&self.0.indexes) <= capacity / INDEX_PARTS
    }

    fn on_evict(&self, gone: &mut Self::RequestState, _: Key, entry: Arc<Entry>) {
        match gone.0.is_none() {
            true => gone.0 = Some(entry),
            false => gone.1.push(entry),
        }
    }
}

#[derive(Debug, Clone)]
struct Weight;

impl Weighter<Key, Arc<Entry>> for Weight {
    fn weight(&self, _: &Key, entry: &Arc<Entry>) -> u64 {
        match entry.is_kept {
            true => entry.what.weight(),
            // More than there is room for: the library hands it to those who wait, and has nothing go for it.
            false => u64::MAX,
        }
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
    blocks: Cache<Key, Arc<Entry>, Weight, FixedState, Stays>,
    kept: Arc<Kept>,
    bytes_max: u64,
    /// Held by whoever changes how many bytes there may be just now.
    resizing: Mutex<()>,
    /// Numbers given to stores.
    stores: AtomicU64,
    /// How many of them have a way to it.
    living: Arc<AtomicU64>,
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
        BlockCache::with(OptionsBuilder::new(), bytes_max)
    }

    /// As [`BlockCache::new`], cut into so many parts, or fewer if they were too small. Otherwise the machine has a say: there are four
    /// for each of its processors. So this is for those who count what is in it.
    pub fn in_parts(parts: usize, bytes_max: u64) -> Arc<BlockCache> {
        let mut options = OptionsBuilder::new();
        options.shards(parts);
        BlockCache::with(options, bytes_max)
    }

    fn with(mut options: OptionsBuilder, bytes_max: u64) -> Arc<BlockCache> {
        let blocks = usize::try_from(bytes_max / TYPICAL_BYTES).unwrap_or(usize::MAX);
        options.estimated_items_capacity(blocks);
        options.weight_capacity(bytes_max);
        let options = options.build().expect("it has both capacities");
        let kept = Arc::new(Kept {
            indexes: AtomicU64::new(0),
            capacity: AtomicU64::new(bytes_max),
            shards: AtomicU64::new(1),
        });
        // The same in every run, so that a schedule that is repeated finds the same blocks in it.
        let (hash, stays) = (FixedState::default(), Stays(kept.clone()));
        let blocks = Cache::with_options(options, Weight, hash, stays);
        let shards = blocks.num_shards().max(1) as u64;
        kept.shards.store(shards, Ordering::Relaxed);
        Arc::new(BlockCache {
            blocks,
            kept,
            bytes_max,
            resizing: Mutex::default(),
            stores: AtomicU64::new(0),
            living: Arc::default(),
            counted: Counters::default(),
        })
    }

    /// A store's way to it, under a number of its own.
    pub fn store(self: &Arc<BlockCache>) -> StoreCache {
        StoreCache {
            cache: self.clone(),
            // Only distinct numbers are asked for.
            store: self.stores.fetch_add(1, Ordering::Relaxed),
            account: None,
            own: Arc::default(),
            _living: Arc::new(Living::new(&self.living)),
        }
    }

    /// As [`BlockCache::store`]; the store's blocks are charged to `account`.
    pub fn store_of(self: &Arc<BlockCache>, account: &Arc<Account>) -> StoreCache {
        StoreCache {
            account: Some(account.clone()),
            ..self.store()
        }
    }

    /// Bytes that its blocks take now.
    pub fn bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// Most bytes that they may take.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes of the largest block that may be kept: none lies in several parts.
    fn block_bytes_max(&self) -> u64 {
        let parts = self.blocks.num_shards().max(1) as u64;
        self.bytes_max.div_ceil(parts)
    }

    /// Lets as many blocks go as take `bytes`, those that are used least.
    fn shrink(&self, bytes: u64) {
        let _one = lock(&self.resizing);
        let goal = self.blocks.weight().saturating_sub(bytes);
        if goal == 0 {
            return self.empty();
        }
        self.set_capacity(goal);
        if self.blocks.weight() > goal {
            // What stays does not lie evenly in the cache's parts: for a moment nothing does.
            self.kept.capacity.store(0, Ordering::Relaxed);
            self.blocks.set_capacity(goal);
            self.kept.capacity.store(goal, Ordering::Relaxed);
        }
    }

    /// Lets all blocks go. The library remembers some of those that have gone, so that it knows what comes back from what a scan
    /// brings once; were it to have room for none, it would remember none ever after.
    fn empty(&self) {
        let gone = RefCell::new(Vec::new());
        self.blocks.retain(|_, entry| {
            gone.borrow_mut().push(entry.clone());
            false
        });
        // They are freed when the cache's locks have been given up.
        drop(gone);
    }

    fn set_capacity(&self, bytes: u64) {
        // First, so that indexes may go if they have become too many.
        self.kept.capacity.store(bytes, Ordering::Relaxed);
        self.blocks.set_capacity(bytes);
    }

    /// Lets it grow again, if it was made to shrink, so that a block of `weight` pushes out no other.
    fn grow(&self, weight: u64) {
        // Mostly it has all that it may have. Every block that comes in asks, and the library would take the lock of each of its
        // parts to say it: four for each processor. It rounds up, so it has no less than was set.
        if self.kept.capacity.load(Ordering::Relaxed) >= self.bytes_max {
            return;
        }
        // The library's parts are not filled evenly, and one that is full lets blocks go.
        let slack = |now: u64| (weight * self.blocks.num_shards() as u64).max(now / 16);
        let needs = |now: u64| now < self.bytes_max && self.bytes() + slack(now) > now;
        if !needs(self.blocks.capacity()) {
            return;
        }
        let _one = lock(&self.resizing);
        let now = self.blocks.capacity();
        if needs(now) {
            let more = now + (self.bytes_max / 64).max(weight);
            self.set_capacity(more.min(self.bytes_max));
        }
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

impl Evict for BlockCache {
    fn evict(&self, bytes: u64) {
        self.shrink(bytes);
    }
}

/// A cache as one store sees it.
#[derive(Debug, Clone)]
pub struct StoreCache {
    cache: Arc<BlockCache>,
    store: u64,
    account: Option<Arc<Account>>,
    own: Arc<Own>,
    _living: Arc<Living>,
}

impl StoreCache {
    /// The cache.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// It as it is kept, charged for. If there is no room, or it is too large, it is only for those who wait for it; nothing goes for
    /// one that is too large.
    fn admit(&self, what: Cached) -> Arc<Entry> {
        let weight = what.weight();
        let is_small = weight <= self.cache.block_bytes_max();
        let charge = match &self.account {
            Some(account) if is_small => account.charge(weight).or_else(|| {
                // Not block by block, or each would have others go.
                match account.is_full(weight) {
                    true => self.evict(weight.max(self.own.bytes() / 64)),
                    false => self.cache.shrink(weight.max(self.cache.bytes() / 64)),
                }
                account.charge(weight)
            }),
            _ => None,
        };
        let is_kept = is_small && (self.account.is_none() || charge.is_some());
        if is_kept {
            self.cache.grow(weight);
        }
        let is_index = what.block().is_some_and(|b| b.kind() == BlockKind::Index);
        Arc::new(Entry {
            what,
            is_kept,
            own: Owned::new(if is_kept { weight } else { 0 }, &self.own),
            _charge: charge,
            index: (is_kept && is_index).then(|| IndexBytes::new(weight, &self.cache.kept)),
        })
    }

    /// An entry that is only for those who wait for it.
    fn unkept(&self, what: Cached) -> Entry {
        Entry {
            what,
            is_kept: false,
            own: Owned::new(0, &self.own),
            _charge: None,
            index: None,
        }
    }

    /// Has an entry in, to be found by `key`, if it is to be kept.
    fn insert(&self, key: Key, entry: Arc<Entry>) {
        if entry.is_kept {
            self.cache.blocks.insert(key, entry.clone());
            self.has_come(key, &entry);
        }
    }

    fn key(&self, table: &Table, handle: BlockHandle) -> Key {
        Key {
            store: self.store,
            file: table.properties().identity.file,
            offset: handle.offset,
        }
    }

    fn count(&self, what: Count) {
        self.cache.counted.add(what as usize, 1);
    }

    /// The block of `table` at `handle` if it is in the cache.
    pub fn find(&self, table: &Table, handle: BlockHandle) -> Option<Arc<Block>> {
        let entry = self.cache.blocks.get(&self.key(table, handle))?;
        let block = entry.what.block()?;
        entry.own.was_found();
        self.count(Count::Hits);
        Some(block.clone())
    }

    /// Keeps `block`, which was read, if there is room, and gives the one that is to be used: another one may have come
    /// first.
    pub fn keep(&self, table: &Table, handle: BlockHandle, block: Arc<Block>) -> Arc<Block> {
        self.count(Count::Misses);
        if self.cache.bytes_max == 0 {
            return block;
        }
        self.keep_at(self.key(table, handle), block)
    }

    fn keep_at(&self, key: Key, block: Arc<Block>) -> Arc<Block> {
        if let Some(entry) = self.cache.blocks.get(&key)
            && let Some(kept) = entry.what.block()
        {
            return kept.clone();
        }
        // Who is reading the same block just now is not waited for.
        self.insert(key, self.admit(Cached::Block(block.clone())));
        block
    }

    /// Whether the block of `table` at `handle` is in the cache. To ask is not to use it.
    pub fn has(&self, table: &Table, handle: BlockHandle) -> bool {
        let blocks = &self.cache.blocks;
        self.cache.bytes_max > 0 && blocks.contains_key(&self.key(table, handle))
    }

    /// Forgets all blocks of files that are not there any more. It goes over all of the cache once.
    pub fn forget_files(&self, files: &BTreeSet<FileId>) {
        let cache = &self.cache.blocks;
        cache.retain(|key, _| key.store != self.store || !files.contains(&key.file));
    }

    /// Forgets all blocks of this store. Whoever still reads brings them in again.
    pub fn forget(&self) {
        self.own.end_order();
        self.cache.blocks.retain(|key, _| key.store != self.store);
    }
}
