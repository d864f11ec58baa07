//! Blocks of one table, from the cache or its file.

use std::sync::Arc;

use thermocline_base::Result;
use thermocline_env::File;

use super::StoreCache;
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
}
