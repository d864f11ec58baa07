//! Where the tables of a store lie, and the way to their bytes.
//!
//! Table files are written once and read at random, and blocks have a cache of ours: so they are
//! transferred past the page cache, where the file system allows and `ssd.direct` does not forbid it.
//! Either way every byte is counted where it is transferred (`env::direct`).
//!
//! # Memory
//! Blocks go through one cache for all stores of a runtime, which is made when the first table is opened.
//! What is in it, and what open tables take ([`super::open`]), is charged to the store's account, and
//! so to the runtime's budget; both give way to indexes ([`Evict`]).

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, Weak};

use thermocline_base::budget::{Account, Charge, Evict};
use thermocline_base::counter::Counters;
use thermocline_base::options::Options;
use thermocline_base::size::index;
use thermocline_base::sync::SCHEDULED;
use thermocline_base::sync::{Mutex, MutexGuard, lock};
use thermocline_base::{AsyncIo, BlobRef, CfId, Error, FileId, Result};
use thermocline_env::Storage;
use thermocline_env::direct::DeviceBytes;
use thermocline_exec::{AsyncReader, BatchReader, BufPool, DirectStorage, JobIo, PIECE_BYTES};
use thermocline_observe::charged::Reads;
use thermocline_policy::tuning::{CACHE_DRAM_PARTS, OPEN_DRAM_PARTS};
use thermocline_sst::{
    BlobFile, BlockCache, CacheUse, FileName, Identity, StoreCache, TableWriter, WriteOptions,
    blob_name, table_name,
};
use thermocline_version::{FileKind, Origins, Version};

use super::beside::FilesBeside;
use super::file::TableFile;
use super::found::FoundIn;
use super::habit::Habit;
use super::keys::Level0Keys;
use super::open::{OpenTables, OpenUse, tables_max};
use super::open_blobs::{BlobFiles, OpenBlobs};
use crate::pm::PmTables;
use crate::staged::{NewFiles, Staged};
use std::sync::Arc;

/// The cache of a runtime, once there is one.
#[derive(Debug, Clone, Default)]
pub struct SharedCache(Arc<OnceCache>);

#[derive(Debug, Default)]
struct OnceCache {
    cache: OnceLock<Arc<BlockCache>>,
    /// Held by whoever makes it, or a store's way to it. What is made takes steps of its own, over which
    /// nobody may wait for a `OnceLock`: that is not a scheduler's.
    making: Mutex<()>,
}

/// See the [module](self).
pub struct TableFiles {
    /// For tables only ([`DirectStorage`]).
    pub storage: Arc<dyn Storage>,
    /// What it has transferred.
    bytes: Arc<DeviceBytes>,
    /// As `storage`, for blob files.
    pub blob_storage: Arc<dyn Storage>,
    blob_bytes: Arc<DeviceBytes>,
    /// Held by whoever carries a long value.
    carrying: Mutex<()>,
    /// The blob files that were read from.
    open_blobs: BlobFiles,
    /// Those that stay open though somebody else removes them.
    pub beside: FilesBeside,
    /// The folder of the database.
    pub dir: PathBuf,
    /// Which database wrote each.
    origins: Origins,
    account: Arc<Account>,
    /// Of the runtime.
    shared: SharedCache,
    /// Most bytes of it, if this store makes it.
    cache_bytes: u64,
    /// The store's own way to the cache.
    cache: OnceLock<StoreCache>,
    open: OpenTables,
    found: Counters<3>,
    /// Which tables reads want compacted.
    pub reads: Reads,
    /// Bytes that a cursor reads ahead, at most.
    ahead_bytes: u64,
    /// Bytes that a job reads of a file at a time.
    pub piece_bytes: usize,
    habit: Habit,
    /// As `habit`, of values in blob files to which tables of a level refer.
    value_habit: Habit,
    reader: Arc<BatchReader>,
    async_reader: Arc<AsyncReader>,
    async_io: AsyncIo,
    /// How files are written that no edit names yet.
    pub new_files: NewFiles,
    /// The keys of tables of level 0.
    pub keys: Level0Keys,
    /// The tables that lie in persistent memory.
    pub pm: PmTables,
    /// Whether reads compare checksums of those.
    pub verify: bool,
}

/// What somebody who writes tables takes in DRAM, charged for as long as this is held. It cannot be
/// refused, since indexes become smaller by it: cached blocks give way.
#[derive(Debug)]
pub struct Work(Charge);

impl Work {
    /// What is being written takes so many bytes now.
    pub fn cover_bytes(&mut self, bytes: u64) {
        self.0.grow_over(bytes);
    }
}

/// A long value on its way ([`TableFiles::carry`]).
pub struct Carried<'a> {
    // It goes before the next one has its turn.
    _charge: Charge,
    _turn: MutexGuard<'a, ()>,
}

/// Bytes of DRAM that a table takes while it is written.
pub fn dram_of(table: &TableWriter) -> u64 {
    // Beside what it has collected, a piece is on its way.
    let piece = table.write_bytes().min(PIECE_BYTES);
    table.memory() + piece as u64
}

/// What the tables of a store get from its runtime.
pub struct Lent<'a> {
    /// The cache of blocks.
    pub cache: &'a SharedCache,
    /// For what is copied on its way.
    pub bufs: &'a BufPool,
    /// For several reads at once.
    pub reader: &'a Arc<BatchReader>,
    /// For reads of futures.
    pub async_reader: &'a Arc<AsyncReader>,
    /// For reads and writes of jobs.
    pub job_io: Arc<JobIo>,
    /// Coroutines of a job, at most.
    pub coroutines: usize,
    /// Bytes that a job reads of a file at a time.
    pub piece_bytes: usize,
}

impl TableFiles {
    /// Those of the store in `dir`, whose files `storage` has.
    pub fn new(
        storage: &Arc<dyn Storage>,
        dir: &Path,
        origins: Origins,
        (options, account): (&Options, &Arc<Account>),
        lent: &Lent<'_>,
    ) -> Arc<TableFiles> {
        let counted = || {
            let counter = Arc::new(DeviceBytes::default());
            let (inner, bytes) = (storage.clone(), counter.clone());
            let counted: Arc<dyn Storage> = Arc::new(match options.ssd.direct {
                false => DirectStorage::buffered(inner, counter),
                true => DirectStorage::new(inner, lent.bufs.clone(), counter),
            });
            (counted, bytes)
        };
        let [(table_storage, bytes), (blob_storage, blob_bytes)] = [counted(), counted()];
        let dram = account.budget().limit().min(options.dram);
        let cache_bytes = match options.read.cache_bytes {
            // The library's locks are not the scheduler's.
            _ if SCHEDULED => 0,
            0 => dram / CACHE_DRAM_PARTS,
            bytes => bytes.min(dram),
        };
        let tables_max = tables_max(options, table_storage.open_files_max());
        let files = Arc::new(TableFiles {
            storage: table_storage,
            bytes,
            blob_storage,
            blob_bytes,
            carrying: Mutex::default(),
            open_blobs: BlobFiles::new(index(options.read.open_tables)),
            beside: FilesBeside::default(),
            dir: dir.to_path_buf(),
            origins,
            account: account.clone(),
            shared: lent.cache.clone(),
            cache_bytes,
            cache: OnceLock::new(),
            open: OpenTables::new(tables_max, dram / OPEN_DRAM_PARTS),
            found: Counters::default(),
            reads: Reads::new(match options.read_only {
                true => 0,
                false => options.compaction.read_sample,
            }),
            ahead_bytes: options.read.ahead_bytes,
            piece_bytes: lent.piece_bytes,
            habit: Habit::default(),
            value_habit: Habit::default(),
            reader: lent.reader.by_way_of(options.read.async_io),
            async_reader: lent.async_reader.clone(),
            async_io: options.read.async_io,
            new_files: NewFiles::new(
                lent.job_io.clone(),
                options.compaction.scheduler,
                options.read.async_io,
                (index(options.compaction.io_depth), lent.coroutines),
            ),
            pm: PmTables::default(),
            keys: Level0Keys::new(match options.level0.key_index {
                true => dram / OPEN_DRAM_PARTS,
                false => 0,
            }),
            verify: options.read.verify_checksums,
        });
        let weak = Arc::downgrade(&files);
        account.add_evicting(weak.clone());
        account.budget().add_evicting(weak);
        files
    }

    /// Begins to charge for somebody who writes tables.
    pub fn work(&self) -> Work {
        Work(
            self.account
                .charge_over(WriteOptions::default().write_bytes as u64),
        )
    }

    /// The path of a table.
    pub fn path(&self, file: FileId) -> PathBuf {
        self.dir.join(table_name(file))
    }

    /// Where a table is written, until it gets its name by [`TableFiles::name`].
    pub fn unfinished_path(&self, file: FileId) -> PathBuf {
        let name = FileName::Unfinished(self.identity(file));
        self.dir.join(name.to_string())
    }

    /// Gives a table that was written, and is durable, its name.
    ///
    /// # Errors
    /// Those of the file system; of kind `AlreadyExists` if somebody has put something there while the table was written:
    /// it stays.
    pub fn name(&self, file: FileId) -> Result<()> {
        let (from, to) = (self.unfinished_path(file), self.path(file));
        if self.storage.exists(&to)? {
            return Err(Error::io("rename", &to, ErrorKind::AlreadyExists.into()));
        }
        self.storage.rename(&from, &to)
    }

    /// The path of a blob file.
    pub fn blob_path(&self, file: FileId) -> PathBuf {
        self.dir.join(blob_name(file))
    }

    /// Keeps the files of a version open, though somebody else removes them ([`super::beside`]), before one is read; once more those that
    /// were named meanwhile.
    ///
    /// # Errors
    /// [`Error::Busy`] if one has gone already.
    pub fn keep_open(&self, version: &Version) -> Result<()> {
        let way = |file, kind| match kind {
            FileKind::Table => (&self.storage, self.path(file)),
            FileKind::Blob => (&self.blob_storage, self.blob_path(file)),
        };
        let descriptors = (&self.storage, self.storage.open_files_max());
        self.beside.keep_open(version, descriptors, way)
    }

    /// The file of a table. The version names it.
    pub fn open_file(&self, file: FileId) -> Result<Arc<TableFile>> {
        match self.beside.find(file, (&self.storage, || self.path(file))) {
            Some(beside) => beside,
            None => TableFile::open(&self.storage, self.path(file)),
        }
    }

    /// What a file of that number must say that it is.
    pub fn identity(&self, file: FileId) -> Identity {
        Identity::new(self.origins.of(file), file)
    }

    /// What was transferred of tables.
    pub fn bytes(&self) -> &DeviceBytes {
        &self.bytes
    }

    /// What was transferred of blob files.
    pub fn blob_bytes(&self) -> &DeviceBytes {
        &self.blob_bytes
    }

    /// The value of `key` in `cf`, which lies there, checked. Who asks keeps the file (`blobs`, invariant 4).
    ///
    /// # Errors
    /// [`Error::Corruption`](thermocline_base::Error::Corruption) naming file and offset; those of reading.
    pub fn read_blob(&self, cf: CfId, key: &[u8], blob: BlobRef) -> Result<Vec<u8>> {
        Ok(self.find_or_read_blob(cf, key, blob)?.0)
    }

    /// As [`TableFiles::read_blob`], and whether it was read from the file.
    ///
    /// # Errors
    /// As there.
    pub fn find_or_read_blob(
        &self,
        cf: CfId,
        key: &[u8],
        blob: BlobRef,
    ) -> Result<(Vec<u8>, bool)> {
        if let Some(value) = self.cache().find_value((cf, key), blob) {
            return Ok((value, false));
        }
        let value = {
            let _under_way = self.reader.one_under_way();
            self.read_blob_past_cache(cf, key, blob)?
        };
        self.cache().keep_value((cf, key), blob, &value);
        Ok((value, true))
    }

    /// As [`TableFiles::read_blob`], for who reads it once: the cache is as it was.
    ///
    /// # Errors
    /// As there.
    pub fn read_blob_past_cache(&self, cf: CfId, key: &[u8], blob: BlobRef) -> Result<Vec<u8>> {
        let OpenBlobs { opened, file, .. } = &*self.open_blobs(blob.file)?;
        thermocline_sst::read_blob_of(opened, &*file.now()?, (cf, key), blob)
    }

    /// A blob file, open. Who asks keeps it until he is done, so none is opened that has gone from here
    /// ([`TableFiles::forget`]).
    pub(crate) fn open_blobs(&self, id: FileId) -> Result<Arc<OpenBlobs>> {
        if let Some(open) = self.open_blobs.find(id) {
            return Ok(open);
        }
        let (storage, path) = (&self.blob_storage, || self.blob_path(id));
        let file = match self.beside.find(id, (storage, path)) {
            Some(beside) => beside?,
            None => TableFile::open_blobs(storage, path())?,
        };
        let now = file.now()?;
        let opened = BlobFile::open(&*now, self.identity(id))?;
        let len = now.len()?;
        Ok(self.open_blobs.keep(id, OpenBlobs { opened, file, len }))
    }

    /// Takes DRAM for a long value of so many bytes, which is read whole to be written elsewhere. It is charged, as [`Work`] is,
    /// and whoever carries another one waits: so as many jobs as there are take no more than one value of DRAM.
    pub fn carry(&self, bytes: u64) -> Carried<'_> {
        let turn = lock(&self.carrying);
        Carried {
            _charge: self.account.charge_over(bytes),
            _turn: turn,
        }
    }

    /// The store's DRAM.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Bytes that a cursor reads ahead, at most.
    pub fn ahead_bytes(&self) -> u64 {
        self.ahead_bytes
    }

    /// How far cursors go.
    pub fn habit(&self) -> &Habit {
        &self.habit
    }

    /// How far they go through values in blob files.
    pub fn value_habit(&self) -> &Habit {
        &self.value_habit
    }

    /// What jobs read and write with, while they work.
    pub fn staged(&self) -> Option<&Staged> {
        self.new_files.staged()
    }

    /// What futures read with.
    pub fn async_reader(&self) -> &AsyncReader {
        &self.async_reader
    }

    /// In which way they are to.
    pub(crate) fn async_io(&self) -> AsyncIo {
        self.async_io
    }

    /// What reads ahead.
    pub fn reader(&self) -> &BatchReader {
        &self.reader
    }

    /// The store's way to the cache, which is made with the first table.
    pub fn cache(&self) -> &StoreCache {
        match self.cache.get() {
            Some(cache) => cache,
            None => self.make_cache(),
        }
    }

    #[cold]
    fn make_cache(&self) -> &StoreCache {
        let OnceCache { cache, making } = &*self.shared.0;
        let _one = lock(making);
        if let Some(own) = self.cache.get() {
            return own;
        }
        let cache = match cache.get() {
            Some(made) => made.clone(),
            None => {
                let made = BlockCache::new(self.cache_bytes);
                let weak: Weak<BlockCache> = Arc::downgrade(&made);
                self.account.budget().add_evicting_first(weak);
                cache.get_or_init(|| made).clone()
            }
        };
        let own = cache.store_of(&self.account);
        self.cache.get_or_init(|| own)
    }

    /// These files are not there any more.
    pub fn forget(&self, files: &BTreeSet<FileId>) {
        self.open_blobs.forget(files);
        self.keys.forget(files);
        if let Some(cache) = self.cache.get().filter(|_| !files.is_empty()) {
            cache.forget_files(files);
        }
    }

    /// The tables that are open.
    pub fn open_tables(&self) -> &OpenTables {
        &self.open
    }

    /// What is open.
    pub fn open_use(&self) -> &OpenUse {
        self.open.usage()
    }

    /// What the cache, of all stores of the runtime, did and holds.
    pub fn cache_use(&self) -> Option<CacheUse> {
        Some(self.shared.0.cache.get()?.usage())
    }

    /// A point read has found its value.
    pub fn count_found(&self, place: FoundIn) {
        self.found.add(place as usize, 1);
    }

    /// Point reads that found their value there.
    pub fn found(&self, place: FoundIn) -> u64 {
        self.found.get(place as usize)
    }
}

impl Evict for TableFiles {
    /// Blocks first: to open a table again takes more than to read a block, and keys do not come back.
    fn evict(&self, bytes: u64) {
        let before = self.account.charged();
        if let Some(cache) = self.cache.get() {
            cache.evict(bytes);
        }
        let left = || bytes.saturating_sub(before.saturating_sub(self.account.charged()));
        if left() > 0 {
            self.open.evict(left());
        }
        if left() > 0 {
            self.keys.evict(left());
        }
    }
}

impl Drop for TableFiles {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.get() {
            cache.forget();
        }
    }
}

impl std::fmt::Debug for TableFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableFiles")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}
