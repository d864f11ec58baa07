//! Where the tables of a store lie, and the way to their bytes.
//!
//! Table files are written once and read at random, and blocks have a cache of ours: so they are
//! transferred past the page cache, where the file system allows and `ssd.direct` does not forbid it.
//! Either way every byte is counted where it is transferred (`env::direct`).

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use thermocline_base::FileId;
use thermocline_base::options::Options;
use thermocline_env::Storage;
use thermocline_env::direct::DeviceBytes;
use thermocline_exec::{BufPool, DirectStorage};
use thermocline_sst::{BlockCache, Identity, StoreCache, table_name};

use crate::sync::Arc;

/// The share of DRAM that blocks may take.
const CACHE_SHARE: u64 = 8;

/// The cache of a runtime, once there is one.
pub(crate) type SharedCache = Arc<OnceLock<Arc<BlockCache>>>;

/// See the [module](self).
pub(crate) struct TableFiles {
    /// Of tables only: it copies what does not lie aligned.
    pub storage: DirectStorage,
    pub dir: PathBuf,
    pub db_id: [u8; 16],
    /// Of the runtime.
    shared: SharedCache,
    /// Bytes of DRAM of which the cache takes its share.
    dram: u64,
    /// The store's own way to the cache.
    cache: OnceLock<StoreCache>,
}

/// What the tables of a store get from its runtime.
pub(crate) struct Lent<'a> {
    pub cache: &'a SharedCache,
    /// For what is copied on its way.
    pub bufs: &'a BufPool,
    /// Bytes of DRAM that the runtime may use.
    pub dram: u64,
}

impl TableFiles {
    pub fn new(
        storage: &Arc<dyn Storage>,
        dir: &Path,
        db_id: [u8; 16],
        options: &Options,
        lent: &Lent<'_>,
    ) -> TableFiles {
        let counter = Arc::new(DeviceBytes::default());
        let storage = storage.clone();
        TableFiles {
            storage: match options.ssd.direct {
                0 => DirectStorage::buffered(storage, counter),
                _ => DirectStorage::new(storage, lent.bufs.clone(), counter),
            },
            dir: dir.to_path_buf(),
            db_id,
            shared: lent.cache.clone(),
            dram: lent.dram.min(options.dram),
            cache: OnceLock::new(),
        }
    }

    pub fn path(&self, file: FileId) -> PathBuf {
        self.dir.join(table_name(file))
    }

    pub fn identity(&self, file: FileId) -> Identity {
        Identity::new(self.db_id, file)
    }

    /// What was transferred.
    pub fn bytes(&self) -> &DeviceBytes {
        self.storage.counter()
    }

    pub fn cache(&self) -> &StoreCache {
        self.cache.get_or_init(|| {
            let bytes = self.dram / CACHE_SHARE;
            self.shared.get_or_init(|| BlockCache::new(bytes)).store()
        })
    }
}

impl std::fmt::Debug for TableFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableFiles")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}
