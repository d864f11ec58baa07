//! Any storage or file, with calls at which a test does something of its own.
//!
//! A [`Hooked`] storage or file passes every call on. At some calls of files the test's [`Hooks`] come in between: they
//! note something, wait or panic, and make the call themselves. For calls that fail there is [`fault`](crate::fault).
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use thermocline_base::{Result, Site, Steps};
//! use thermocline_env::hooks::{Hooked, Hooks};
//! use thermocline_env::{File, OpenMode, Storage, sim::SimFs};
//!
//! #[derive(Debug, Default)]
//! struct Syncs(AtomicUsize);
//!
//! impl Hooks for Syncs {
//!     fn sync(&self, file: &dyn File, site: Site) -> Result<()> {
//!         self.0.fetch_add(1, Ordering::SeqCst);
//!         file.sync(site)
//!     }
//! }
//!
//! let disk = Hooked::new(Arc::new(SimFs::new(Steps::new())), Arc::new(Syncs::default()));
//! let file = disk.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
//! file.sync(Site("example")).unwrap();
//! assert_eq!(disk.hooks.0.load(Ordering::SeqCst), 1);
//! ```

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use thermocline_base::{Result, Site};

use crate::direct::DeviceBytes;
use crate::spares::Spares;
use crate::{DiskRoom, File, FsKind, LockGuard, OpenMode, RawReads, Storage};

/// What is done at calls of files, from any thread. Each method is given the file below and only passes the call on,
/// unless a test says otherwise.
pub trait Hooks: fmt::Debug + Send + Sync + 'static {
    /// In place of [`File::read_at`].
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        file.read_at(buf, offset)
    }

    /// In place of [`File::write_at`]. [`File::write_tail`] does not come by here.
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> Result<()> {
        file.write_at(bytes, offset)
    }

    /// In place of [`File::sync`].
    fn sync(&self, file: &dyn File, site: Site) -> Result<()> {
        file.sync(site)
    }
}

/// A storage whose files all have the same [`Hooks`], or such a file ([`HookedFile`]).
#[derive(Debug)]
pub struct Hooked<T: ?Sized, H> {
    inner: Arc<T>,
    /// Shared by all files of a storage.
    pub hooks: Arc<H>,
}

/// A file with [`Hooks`].
pub type HookedFile<H> = Hooked<dyn File, H>;

impl<T: ?Sized, H> Hooked<T, H> {
    /// One over `inner`.
    pub fn new(inner: Arc<T>, hooks: Arc<H>) -> Arc<Hooked<T, H>> {
        Arc::new(Hooked { inner, hooks })
    }
}

/// Methods that pass the call on.
macro_rules! forward {
    ($($name:ident($($given:ident: $of:ty),*) -> $gives:ty;)*) => {
        $(fn $name(&self, $($given: $of),*) -> $gives {
            self.inner.$name($($given),*)
        })*
    };
}

impl<H: Hooks> File for HookedFile<H> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.hooks.read_at(&*self.inner, buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.hooks.write_at(&*self.inner, bytes, offset)
    }

    fn sync(&self, site: Site) -> Result<()> {
        self.hooks.sync(&*self.inner, site)
    }

    fn unlock(&self) {
        self.inner.unlock();
    }

    forward! {
        path() -> &Path;
        direct_unit() -> Option<usize>;
        write_tail(bytes: &[u8], offset: u64) -> Result<()>;
        len() -> Result<u64>;
        set_len(len: u64) -> Result<()>;
        allocate(offset: u64, len: u64) -> Result<()>;
        reserve_behind(offset: u64, len: u64) -> Result<()>;
        lock(exclusive: bool) -> Result<()>;
        raw_fd() -> Option<i32>;
        raw_reads() -> Option<RawReads<'_>>;
    }
}

impl<T: Storage + ?Sized, H: Hooks> Storage for Hooked<T, H> {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.inner.open(path, mode)?;
        Ok(Hooked::new(file, self.hooks.clone()))
    }

    fn open_direct(
        &self,
        path: &Path,
        mode: OpenMode,
        counter: &Arc<DeviceBytes>,
    ) -> Result<Arc<dyn File>> {
        let file = self.inner.open_direct(path, mode, counter)?;
        Ok(Hooked::new(file, self.hooks.clone()))
    }

    forward! {
        exists(path: &Path) -> Result<bool>;
        is_dir(path: &Path) -> Result<bool>;
        list(dir: &Path) -> Result<Vec<String>>;
        create_dir_all(dir: &Path) -> Result<()>;
        rename(from: &Path, to: &Path) -> Result<()>;
        rename_new(from: &Path, to: &Path) -> Result<()>;
        rename_and_sync(from: &Path, to: &Path, dir: &Path, site: Site) -> Result<()>;
        link(from: &Path, to: &Path) -> Result<()>;
        remove(path: &Path) -> Result<()>;
        sync_dir(dir: &Path, site: Site) -> Result<()>;
        lock(path: &Path) -> Result<Box<dyn LockGuard>>;
        lock_shared(path: &Path) -> Result<Option<Box<dyn LockGuard>>>;
        hold_folder(dir: &Path) -> Result<Option<Box<dyn LockGuard>>>;
        is_folder_held(dir: &Path) -> Result<bool>;
        is_same(one: &Path, other: &Path) -> Result<bool>;
        is_within(dir: &Path, outer: &Path) -> Result<bool>;
        fs_kind(path: &Path) -> Result<FsKind>;
        room(path: &Path) -> Result<Option<DiskRoom>>;
        same_disk(one: &Path, other: &Path) -> Result<bool>;
        open_files_max() -> Option<u64>;
        spares() -> &Spares;
    }
}
