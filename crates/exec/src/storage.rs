//! Direct I/O for callers that know nothing of it.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::{Result, Site};
use thermocline_env::direct::DeviceBytes;
use thermocline_env::spares::Spares;
use thermocline_env::{DiskRoom, File, FsKind, LockGuard, OpenMode, RawReads, Storage};

use crate::pool::BufPool;
use crate::range::{read_into, write_range};

/// A storage whose files are transferred directly where the file system allows, from and to any
/// memory: what does not lie aligned is copied through a [`BufPool`]. Cloning shares it.
///
/// It is for files that are written once, from beginning to end, in pieces at multiples of the
/// [unit](thermocline_env::direct::DIRECT_UNIT), as tables are, and are read in any way.
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use thermocline_base::{Site, Steps};
/// use thermocline_env::{File, OpenMode, Storage, direct::DeviceBytes, sim::SimFs};
/// use thermocline_exec::{BufPool, DirectStorage};
///
/// let bytes = Arc::new(DeviceBytes::default());
/// let disk = Arc::new(SimFs::new(Steps::new()));
/// let tables = DirectStorage::new(disk, BufPool::new(1 << 20), Arc::clone(&bytes));
/// let file = tables.open(Path::new("/a"), OpenMode::CreateNew)?;
/// file.write_at(&[7; 10_000], 0)?;
/// file.sync(Site("example"))?;
/// assert_eq!((bytes.direct_written(), bytes.cached_written()), (8192, 4096));
/// let mut some = [0; 100];
/// tables.open(Path::new("/a"), OpenMode::Read)?.read_exact_at(&mut some, 5000)?;
/// assert_eq!((some, bytes.direct_read()), ([7; 100], 4096));
/// # Ok::<(), thermocline_base::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct DirectStorage {
    inner: Arc<dyn Storage>,
    /// For copies; `None` if everything goes through the page cache.
    pool: Option<BufPool>,
    counter: Arc<DeviceBytes>,
}

impl DirectStorage {
    /// Over `inner`, with copies in buffers of `pool`; transfers are added to `counter`.
    pub fn new(inner: Arc<dyn Storage>, pool: BufPool, counter: Arc<DeviceBytes>) -> DirectStorage {
        DirectStorage {
            inner,
            pool: Some(pool),
            counter,
        }
    }

    /// Over `inner`, with all transfers through the page cache, as [`Storage::open`] of `inner` makes
    /// them; they are added to `counter` all the same. For files of any kind.
    ///
    /// ```
    /// use std::{path::Path, sync::Arc};
    /// use thermocline_base::Steps;
    /// use thermocline_env::{OpenMode, Storage, direct::DeviceBytes, sim::SimFs};
    /// use thermocline_exec::DirectStorage;
    ///
    /// let bytes = Arc::new(DeviceBytes::default());
    /// let disk = Arc::new(SimFs::new(Steps::new()));
    /// let logs = DirectStorage::buffered(disk, Arc::clone(&bytes));
    /// let file = logs.open(Path::new("/log"), OpenMode::CreateNew)?;
    /// file.write_at(b"over the end of a page", 4090)?;
    /// assert_eq!((bytes.direct_written(), bytes.cached_written()), (0, 8192));
    /// # Ok::<(), thermocline_base::Error>(())
    /// ```
    pub fn buffered(inner: Arc<dyn Storage>, counter: Arc<DeviceBytes>) -> DirectStorage {
        DirectStorage {
            inner,
            pool: None,
            counter,
        }
    }

    /// The count of the files that [`Storage::open`] gives.
    pub fn counter(&self) -> &Arc<DeviceBytes> {
        &self.counter
    }
}

impl Storage for DirectStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        Ok(match &self.pool {
            Some(pool) => Arc::new(DirectFile {
                inner: self.inner.open_direct(path, mode, &self.counter)?,
                pool: pool.clone(),
            }),
            None => Arc::new(CountedFile {
                inner: self.inner.open(path, mode)?,
                counter: self.counter.clone(),
            }),
        })
    }

    /// For callers that do know: the file itself.
    fn open_direct(
        &self,
        path: &Path,
        mode: OpenMode,
        counter: &Arc<DeviceBytes>,
    ) -> Result<Arc<dyn File>> {
        self.inner.open_direct(path, mode, counter)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        self.inner.is_dir(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename_new(from, to)
    }

    fn rename_and_sync(&self, from: &Path, to: &Path, dir: &Path, site: Site) -> Result<()> {
        self.inner.rename_and_sync(from, to, dir, site)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.inner.sync_dir(dir, site)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>> {
        self.inner.lock(path)
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        self.inner.lock_shared(path)
    }

    fn hold_folder(&self, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        self.inner.hold_folder(dir)
    }

    fn is_folder_held(&self, dir: &Path) -> Result<bool> {
        self.inner.is_folder_held(dir)
    }

    fn is_same(&self, one: &Path, other: &Path) -> Result<bool> {
        self.inner.is_same(one, other)
    }

    fn is_within(&self, dir: &Path, outer: &Path) -> Result<bool> {
        self.inner.is_within(dir, outer)
    }

    fn fs_kind(&self, path: &Path) -> Result<FsKind> {
        self.inner.fs_kind(path)
    }

    fn room(&self, path: &Path) -> Result<Option<DiskRoom>> {
        self.inner.room(path)
    }

    fn same_disk(&self, one: &Path, other: &Path) -> Result<bool> {
        self.inner.same_disk(one, other)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }

    fn spares(&self) -> &Spares {
        self.inner.spares()
    }
}

/// An open file of a [`DirectStorage`]. It asks for no alignment, so it names no unit.
#[derive(Debug)]
struct DirectFile {
    inner: Arc<dyn File>,
    pool: BufPool,
}

impl File for DirectFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        read_into(&*self.inner, &self.pool, buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        write_range(&*self.inner, &self.pool, bytes, offset)
    }

    fn write_tail(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_tail(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.allocate(offset, len)
    }

    fn reserve_behind(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.reserve_behind(offset, len)
    }

    fn sync(&self, site: Site) -> Result<()> {
        self.inner.sync(site)
    }

    fn lock(&self, exclusive: bool) -> Result<()> {
        self.inner.lock(exclusive)
    }

    fn unlock(&self) {
        self.inner.unlock();
    }

    fn raw_fd(&self) -> Option<i32> {
        self.inner.raw_fd()
    }

    fn raw_reads(&self) -> Option<RawReads<'_>> {
        self.inner.raw_reads()
    }
}

/// An open file of a [`DirectStorage`] that goes through the page cache.
#[derive(Debug)]
struct CountedFile {
    inner: Arc<dyn File>,
    counter: Arc<DeviceBytes>,
}

impl File for CountedFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let n = self.inner.read_at(buf, offset)?;
        self.counter.has_read(n, offset);
        Ok(n)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(bytes, offset)?;
        self.counter.has_written(bytes.len(), offset);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.allocate(offset, len)
    }

    fn reserve_behind(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.reserve_behind(offset, len)
    }

    fn sync(&self, site: Site) -> Result<()> {
        self.inner.sync(site)
    }

    fn lock(&self, exclusive: bool) -> Result<()> {
        self.inner.lock(exclusive)
    }

    fn unlock(&self) {
        self.inner.unlock();
    }

    fn raw_fd(&self) -> Option<i32> {
        self.inner.raw_fd()
    }
}
