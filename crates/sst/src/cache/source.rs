//! Blocks of one table, from the cache or its file; and of several who miss one at once, who reads it.

use std::sync::Arc;

use quick_cache::sync::GuardResult;
use thermocline_base::Result;
use thermocline_env::File;

use super::own::Key;
use super::{Cached, Count, StoreCache};
use crate::block::Block;
use crate::handle::BlockHandle;
use crate::sync::{BlockSource, FileSource};
use crate::table::Table;

/// The file of one table with a cache in front.
#[derive(Debug, Clone)]
pub struct CachedSource {
    of: StoreCache,
    file: FileSource,
}

impl CachedSource {
    /// As [`BlockSource::block`], and whether the block was read from the file.
    ///
    /// # Errors
    /// Those of reading, and of [`Table::decode`].
    pub fn fetch(&self, table: &Table, handle: BlockHandle) -> Result<(Arc<Block>, bool)> {
        self.fetch_while(table, handle, || ())
    }

    /// The same; what `begins` gives is kept while the file is read, if it is.
    ///
    /// # Errors
    /// As [`CachedSource::fetch`].
    pub fn fetch_while<G>(
        &self,
        table: &Table,
        handle: BlockHandle,
        begins: impl FnOnce() -> G,
    ) -> Result<(Arc<Block>, bool)> {
        self.of.find_or_read(table, handle, || {
            let _kept = begins();
            self.file.block(table, handle)
        })
    }

    /// The store's way to the cache.
    pub fn cache(&self) -> &StoreCache {
        &self.of
    }

    /// The file.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file.0
    }
}

impl BlockSource for CachedSource {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        Ok(self.fetch(table, handle)?.0)
    }
}

impl StoreCache {
    /// The blocks of one table, whose file is `file`.
    pub fn source(&self, file: Arc<dyn File>) -> CachedSource {
        CachedSource {
            of: self.clone(),
            file: FileSource(file),
        }
    }

    /// The block of `table` at `handle`, by `read` if it is not in the cache, and whether it was read.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn find_or_read(
        &self,
        table: &Table,
        handle: BlockHandle,
        read: impl FnOnce() -> Result<Arc<Block>>,
    ) -> Result<(Arc<Block>, bool)> {
        if let Some(block) = self.find(table, handle) {
            return Ok((block, false));
        }
        if self.cache.bytes_max == 0 {
            self.count(Count::Misses);
            return Ok((read()?, true));
        }
        self.read_once(self.key(table, handle), read)
    }

    /// The block at `key`, by `read` unless another thread has read it or reads it just now, and whether it was read.
    pub(super) fn read_once(
        &self,
        key: Key,
        read: impl FnOnce() -> Result<Arc<Block>>,
    ) -> Result<(Arc<Block>, bool)> {
        let entry = match self.cache.blocks.get_value_or_guard(&key, None) {
            GuardResult::Value(entry) => entry,
            GuardResult::Guard(guard) => {
                self.count(Count::Misses);
                let block = read();
                // Handed to those who wait though it is not kept, or each would read it behind the one before.
                let entry = match &block {
                    Ok(block) => self.admit(Cached::Block(block.clone())),
                    Err(_) => Arc::new(self.unkept(Cached::Failed)),
                };
                let _ = guard.insert(entry.clone());
                if entry.is_kept {
                    self.has_come(key, &entry);
                }
                return Ok((block?, true));
            }
            // Nobody sets a time; who has waited too long would read for himself.
            GuardResult::Timeout => return self.read_beside(key, read),
        };
        let Some(block) = entry.what.block() else {
            return self.read_beside(key, read);
        };
        self.count(Count::Hits);
        Ok((block.clone(), false))
    }

    /// The block at `key`, by `read`, whoever else reads it.
    #[cold]
    pub(super) fn read_beside(
        &self,
        key: Key,
        read: impl FnOnce() -> Result<Arc<Block>>,
    ) -> Result<(Arc<Block>, bool)> {
        self.count(Count::Misses);
        Ok((self.keep_at(key, read()?), true))
    }
}
