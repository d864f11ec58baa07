//! Faults on purpose, over any [`Storage`].
//!
//! A [`FaultStorage`] passes every call on and counts it. A [`Plan`] makes one fault happen at the
//! n-th call that the fault can befall, once or from there on. A test first runs without a plan,
//! asks [`FaultStorage::calls_for`] how many places there are, and then runs once for each:
//!
//! ```
//! use std::path::Path;
//! use thermocline_base::Steps;
//! use thermocline_env::fault::{Fault, FaultStorage, Plan, Repeat};
//! use thermocline_env::{OpenMode, Storage, sim::SimFs};
//!
//! let work = |disk: &FaultStorage| disk.open(Path::new("/a"), OpenMode::CreateNew).map(drop);
//! let counted = FaultStorage::over_sim(SimFs::new(Steps::new()));
//! work(&counted).unwrap();
//! for at in 0..counted.calls_for(Fault::Eio, None) {
//!     let disk = FaultStorage::over_sim(SimFs::new(Steps::new()));
//!     disk.arm(Plan { fault: Fault::Eio, op: None, at, repeat: Repeat::Once });
//!     assert!(work(&disk).is_err());
//! }
//! ```
//!
//! Of a file that is transferred [directly](crate::direct) whole units are written or not: the
//! bytes of [`Fault::ShortWrite`] and [`Fault::Misdirected`], and the limit of space, are rounded
//! down to them.
//!
//! Interrupted and partial transfers belong below the loops of [`crate::real`]: that is
//! [`Choppy`], a [`Syscalls`](crate::real::Syscalls) of its own.

mod choppy;
mod file;
mod injector;
mod plan;

pub use choppy::Choppy;
pub use plan::{Fault, Op, Plan, Repeat};

use std::path::Path;
use std::sync::Arc;

use thermocline_base::{Error, Result, Site};

use crate::direct::DeviceBytes;
use crate::file::{File, OpenMode};
use crate::sim::SimFs;
use crate::spares::Spares;
use crate::storage::{DiskRoom, FsKind, LockGuard, Storage};
use file::FaultFile;
use injector::{Injector, unopened};

/// A [`Storage`] with faults. Cloning shares it. See the module's documentation.
#[derive(Debug, Clone)]
pub struct FaultStorage {
    inner: Arc<dyn Storage>,
    injector: Arc<Injector>,
}

impl FaultStorage {
    /// Over any storage. Failed syncs sync nothing.
    pub fn new(inner: Arc<dyn Storage>) -> FaultStorage {
        FaultStorage {
            inner,
            injector: Arc::new(Injector::new(None)),
        }
    }

    /// Over a simulated file system, where failed syncs leave behind what kernels do.
    pub fn over_sim(sim: SimFs) -> FaultStorage {
        FaultStorage {
            injector: Arc::new(Injector::new(Some(sim.clone()))),
            inner: Arc::new(sim),
        }
    }

    /// Sets the plan, in place of an earlier one.
    pub fn arm(&self, plan: Plan) {
        self.injector.faults().plan = Some(plan);
    }

    /// From now on nothing goes wrong.
    pub fn disarm(&self) {
        let mut faults = self.injector.faults();
        faults.plan = None;
        faults.room = None;
    }

    /// Lets files grow by `bytes` more in total; then ENOSPC. A write that crosses the limit writes
    /// up to it first; who allocates or reserves finds all or takes nothing. What was allocated can be written, since it does
    /// not grow the file.
    pub fn limit_space(&self, bytes: u64) {
        self.injector.faults().room = Some(bytes);
    }

    /// From now on the file system does not know how to reserve room behind the end of a file.
    pub fn reserve_nothing(&self) {
        self.injector.faults().reserves_nothing = true;
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.injector.faults().calls.iter().sum()
    }

    /// Calls so far of one kind.
    pub fn calls_of(&self, op: Op) -> u64 {
        self.injector.faults().calls[op as usize]
    }

    /// Calls so far at which a [`Plan`] of `fault` and `op` could strike.
    pub fn calls_for(&self, fault: Fault, op: Option<Op>) -> u64 {
        self.injector.faults().calls_for(fault, op)
    }

    /// How often a fault has happened. A test that injects checks that this is not 0.
    pub fn fired(&self) -> u64 {
        self.injector.faults().fired
    }

    fn call_open(&self, path: &Path, mode: OpenMode) -> Result<Option<Fault>> {
        match mode {
            OpenMode::CreateNew => self.injector.call(Op::Create, "create", path),
            _ => self.injector.call(Op::Open, "open", path),
        }
    }

    fn handle(&self, inner: Arc<dyn File>, path: &Path) -> Arc<dyn File> {
        Arc::new(FaultFile {
            inner,
            path: path.to_path_buf(),
            injector: Arc::clone(&self.injector),
        })
    }
}

impl Storage for FaultStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.call_open(path, mode)?;
        Ok(self.handle(self.inner.open(path, mode)?, path))
    }

    fn open_direct(
        &self,
        path: &Path,
        mode: OpenMode,
        counter: &Arc<DeviceBytes>,
    ) -> Result<Arc<dyn File>> {
        self.call_open(path, mode)?;
        Ok(self.handle(self.inner.open_direct(path, mode, counter)?, path))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.injector.call(Op::LookUp, "look up", path)?;
        self.inner.exists(path)
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        self.injector.call(Op::LookUp, "look up", path)?;
        self.inner.is_dir(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.injector.call(Op::List, "list", dir)?;
        self.inner.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.injector.call(Op::CreateDir, "create folder", dir)?;
        self.inner.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.injector.call(Op::Rename, "rename", from)?;
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        self.injector.call(Op::Rename, "rename", from)?;
        self.inner.rename_new(from, to)
    }

    /// The folder is opened first: so a fault of that comes before the rename, and one of the sync behind it.
    fn rename_and_sync(&self, from: &Path, to: &Path, dir: &Path, site: Site) -> Result<()> {
        let fault = self.injector.faults().call(Op::SyncDir);
        if let Some(refused) = fault.and_then(unopened) {
            return Err(Error::io("open folder", dir, refused));
        }
        if fault.is_none() {
            // Below, the folder is opened before the name is changed, too.
            self.injector.call(Op::Rename, "rename", from)?;
            return self.inner.rename_and_sync(from, to, dir, site);
        }
        self.rename(from, to)?;
        self.injector
            .sync_as(fault, "sync folder", dir, || self.inner.sync_dir(dir, site))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.injector.call(Op::Link, "link", to)?;
        self.inner.link(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.injector.call(Op::Remove, "remove", path)?;
        // As if nobody had it open, or under another name.
        let file = self.inner.open(path, OpenMode::Read);
        let len = file.and_then(|file| file.len()).unwrap_or(0);
        self.inner.remove(path)?;
        self.injector.give_room_back(path, len, 0);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.injector
            .sync_with(Op::SyncDir, "sync folder", dir, || {
                self.inner.sync_dir(dir, site)
            })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>> {
        self.injector.call(Op::Lock, "lock", path)?;
        self.inner.lock(path)
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        self.injector.call(Op::Lock, "lock", path)?;
        self.inner.lock_shared(path)
    }

    fn hold_folder(&self, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        self.injector.call(Op::Lock, "lock", dir)?;
        self.inner.hold_folder(dir)
    }

    fn is_folder_held(&self, dir: &Path) -> Result<bool> {
        self.injector.call(Op::Lock, "lock", dir)?;
        self.inner.is_folder_held(dir)
    }

    fn is_same(&self, one: &Path, other: &Path) -> Result<bool> {
        self.injector.call(Op::LookUp, "look up", other)?;
        self.inner.is_same(one, other)
    }

    fn is_within(&self, dir: &Path, outer: &Path) -> Result<bool> {
        self.injector.call(Op::LookUp, "look up", dir)?;
        self.inner.is_within(dir, outer)
    }

    fn fs_kind(&self, path: &Path) -> Result<FsKind> {
        self.injector
            .call(Op::LookUp, "look up the file system of", path)?;
        self.inner.fs_kind(path)
    }

    fn room(&self, path: &Path) -> Result<Option<DiskRoom>> {
        self.injector
            .call(Op::LookUp, "look up the room of", path)?;
        self.inner.room(path)
    }

    fn same_disk(&self, one: &Path, other: &Path) -> Result<bool> {
        self.injector
            .call(Op::LookUp, "look up the file system of", one)?;
        self.inner.same_disk(one, other)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }

    fn spares(&self) -> &Spares {
        self.inner.spares()
    }
}

#[cfg(test)]
mod tests;
