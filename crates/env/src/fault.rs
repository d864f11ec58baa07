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
//! [`Choppy`], a [`Syscalls`] of its own.

mod file;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{Error, Result, Site};

use crate::direct::DeviceBytes;
use crate::real::{Kernel, Syscalls};
use crate::sim::{FailedSync, SimFs};
use crate::spares::Spares;
use crate::{DiskRoom, File, FsKind, LockGuard, OpenMode, Storage};
use file::FaultFile;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// [`Storage::open`] and [`Storage::open_direct`] of a file that exists.
    Open,
    /// The same with [`OpenMode::CreateNew`].
    Create,
    /// [`Storage::exists`], [`Storage::is_dir`], [`Storage::fs_kind`], [`Storage::room`] and [`File::len`].
    LookUp,
    /// [`Storage::list`].
    List,
    /// [`Storage::create_dir_all`].
    CreateDir,
    /// [`Storage::rename`].
    Rename,
    /// [`Storage::link`].
    Link,
    /// [`Storage::remove`].
    Remove,
    /// [`Storage::sync_dir`].
    SyncDir,
    /// [`Storage::lock`].
    Lock,
    /// [`File::read_at`].
    Read,
    /// [`File::write_at`] and [`File::write_tail`].
    Write,
    /// [`File::set_len`].
    SetLen,
    /// [`File::allocate`].
    Allocate,
    /// [`File::sync`].
    Sync,
}

impl Op {
    /// Every kind of call.
    pub const ALL: [Op; 15] = [
        Op::Open,
        Op::Create,
        Op::LookUp,
        Op::List,
        Op::CreateDir,
        Op::Rename,
        Op::Link,
        Op::Remove,
        Op::SyncDir,
        Op::Lock,
        Op::Read,
        Op::Write,
        Op::SetLen,
        Op::Allocate,
        Op::Sync,
    ];
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with EIO and does nothing. A sync makes nothing durable, but leaves its
    /// changes for the next one; see [`Fault::SyncKept`] for what kernels do.
    Eio,
    /// A write writes the given number of bytes and fails with EIO.
    ShortWrite(usize),
    /// A call that needs space fails with ENOSPC and does nothing.
    NoSpace,
    /// As [`Fault::NoSpace`], with EDQUOT: there is room, but not for us.
    Quota,
    /// A call that opens something fails with EMFILE and does nothing: the process has as many descriptors as it may.
    NoDescriptor,
    /// A link fails with EXDEV, as between two file systems.
    CrossesDevices,
    /// A read returns at most the given number of bytes, as if the file ended there.
    ShortRead(usize),
    /// A read returns, with one bit wrong, what lies there: the bit of this number, counted from
    /// the beginning of what was read, modulo its length.
    FlipBit(u64),
    /// A write reports success and does nothing.
    LostWrite,
    /// A write goes this many bytes behind its place.
    Misdirected(u64),
    /// A sync fails; over [`SimFs`] readers still see what will never be durable by itself.
    SyncKept,
    /// A sync fails; over [`SimFs`] readers see the durable content again.
    SyncDropped,
    /// A sync fails with ENOSPC (delayed allocation, thin volumes, quotas); else as [`Fault::SyncKept`].
    SyncNoSpace,
}

impl Fault {
    /// Whether this can befall `op`.
    pub fn befalls(self, op: Op) -> bool {
        match self {
            Fault::Eio => true,
            Fault::ShortWrite(_) | Fault::LostWrite | Fault::Misdirected(_) => op == Op::Write,
            Fault::NoDescriptor => matches!(
                op,
                Op::Open | Op::Create | Op::List | Op::SyncDir | Op::Lock
            ),
            Fault::NoSpace | Fault::Quota => matches!(
                op,
                Op::Create
                    | Op::CreateDir
                    | Op::Rename
                    | Op::Link
                    | Op::Lock
                    | Op::Write
                    | Op::SetLen
                    | Op::Allocate
            ),
            Fault::CrossesDevices => op == Op::Link,
            Fault::ShortRead(_) | Fault::FlipBit(_) => op == Op::Read,
            Fault::SyncKept | Fault::SyncDropped | Fault::SyncNoSpace => {
                matches!(op, Op::Sync | Op::SyncDir)
            }
        }
    }
}

/// How often a fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// At one call.
    Once,
    /// At that call and every later one that it can befall.
    Forever,
}

/// Which fault happens when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// What goes wrong.
    pub fault: Fault,
    /// Only at calls of this kind, or at all that the fault can befall.
    pub op: Option<Op>,
    /// At which of those calls, counted from 0 since the storage was made.
    pub at: u64,
    /// Once or from there on.
    pub repeat: Repeat,
}

#[derive(Debug, Default)]
struct Faults {
    plan: Option<Plan>,
    /// Bytes by which files may still grow, if that is limited.
    room: Option<u64>,
    /// Up to where a file has room behind its end.
    reserved: BTreeMap<PathBuf, u64>,
    /// No such room is given: the file system does not know it.
    reserves_nothing: bool,
    calls: [u64; Op::ALL.len()],
    fired: u64,
}

impl Faults {
    fn calls_for(&self, fault: Fault, op: Option<Op>) -> u64 {
        Op::ALL
            .into_iter()
            .filter(|o| fault.befalls(*o) && op.is_none_or(|op| op == *o))
            .map(|o| self.calls[o as usize])
            .sum()
    }

    /// Counts a call; the fault that befalls it.
    fn call(&mut self, op: Op) -> Option<Fault> {
        let fault = self.plan.and_then(|plan| {
            let meant = plan.fault.befalls(op) && plan.op.is_none_or(|o| o == op);
            let index = self.calls_for(plan.fault, plan.op);
            let now = match plan.repeat {
                Repeat::Once => index == plan.at,
                Repeat::Forever => index >= plan.at,
            };
            (meant && now).then_some(plan.fault)
        });
        self.calls[op as usize] += 1;
        self.fired += u64::from(fault.is_some());
        fault
    }
}

/// A [`Storage`] with faults. Cloning shares it. See the module's documentation.
#[derive(Debug, Clone)]
pub struct FaultStorage {
    inner: Arc<dyn Storage>,
    sim: Option<SimFs>,
    faults: Arc<Mutex<Faults>>,
}

impl FaultStorage {
    /// Over any storage. Failed syncs sync nothing.
    pub fn new(inner: Arc<dyn Storage>) -> FaultStorage {
        FaultStorage {
            inner,
            sim: None,
            faults: Arc::default(),
        }
    }

    /// Over a simulated file system, where failed syncs leave behind what kernels do.
    pub fn over_sim(sim: SimFs) -> FaultStorage {
        FaultStorage {
            sim: Some(sim.clone()),
            ..FaultStorage::new(Arc::new(sim))
        }
    }

    /// Sets the plan, in place of an earlier one.
    pub fn arm(&self, plan: Plan) {
        lock(&self.faults).plan = Some(plan);
    }

    /// From now on nothing goes wrong.
    pub fn disarm(&self) {
        let mut faults = lock(&self.faults);
        faults.plan = None;
        faults.room = None;
    }

    /// Lets files grow by `bytes` more in total; then ENOSPC. A write that crosses the limit writes
    /// up to it first. What was allocated can be written, since it does not grow the file.
    pub fn limit_space(&self, bytes: u64) {
        lock(&self.faults).room = Some(bytes);
    }

    /// From now on the file system does not know how to reserve room behind the end of a file.
    pub fn reserve_nothing(&self) {
        lock(&self.faults).reserves_nothing = true;
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        lock(&self.faults).calls.iter().sum()
    }

    /// Calls so far of one kind.
    pub fn calls_of(&self, op: Op) -> u64 {
        lock(&self.faults).calls[op as usize]
    }

    /// Calls so far at which a [`Plan`] of `fault` and `op` could strike.
    pub fn calls_for(&self, fault: Fault, op: Option<Op>) -> u64 {
        lock(&self.faults).calls_for(fault, op)
    }

    /// How often a fault has happened. A test that injects checks that this is not 0.
    pub fn fired(&self) -> u64 {
        lock(&self.faults).fired
    }

    fn call(&self, op: Op, what: &'static str, path: &Path) -> Result<Option<Fault>> {
        match lock(&self.faults).call(op) {
            Some(Fault::Eio) => Err(eio(what, path)),
            Some(Fault::NoSpace) => Err(no_space(what, path)),
            Some(Fault::Quota) => {
                let edquot = io::Error::from_raw_os_error(libc::EDQUOT);
                Err(Error::io(what, path, edquot))
            }
            Some(Fault::NoDescriptor) => {
                // Before anything is synced.
                let what = if op == Op::SyncDir {
                    "open folder"
                } else {
                    what
                };
                let emfile = io::Error::from_raw_os_error(libc::EMFILE);
                Err(Error::io(what, path, emfile))
            }
            Some(Fault::CrossesDevices) => {
                let exdev = io::Error::from_raw_os_error(libc::EXDEV);
                Err(Error::io(what, path, exdev))
            }
            other => Ok(other),
        }
    }

    fn call_open(&self, path: &Path, mode: OpenMode) -> Result<Option<Fault>> {
        match mode {
            OpenMode::CreateNew => self.call(Op::Create, "create", path),
            _ => self.call(Op::Open, "open", path),
        }
    }

    fn handle(&self, inner: Arc<dyn File>, path: &Path) -> Arc<dyn File> {
        Arc::new(FaultFile {
            inner,
            path: path.to_path_buf(),
            storage: self.clone(),
        })
    }

    /// A sync that may fail: `pass` does it.
    fn sync_with(
        &self,
        op: Op,
        what: &'static str,
        path: &Path,
        pass: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let fault = self.call(op, what, path)?;
        self.sync_as(fault, what, path, pass)
    }

    /// A sync that this befalls.
    fn sync_as(
        &self,
        fault: Option<Fault>,
        what: &'static str,
        path: &Path,
        pass: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (how, error) = match fault {
            Some(Fault::SyncKept) => (FailedSync::Kept, eio(what, path)),
            Some(Fault::SyncNoSpace) => (FailedSync::Kept, no_space(what, path)),
            Some(Fault::SyncDropped) => (FailedSync::Dropped, eio(what, path)),
            Some(Fault::Eio) => return Err(eio(what, path)),
            _ => return pass(),
        };
        if let Some(sim) = &self.sim {
            sim.fail_next_sync(how);
            let failed = pass();
            debug_assert!(failed.is_err(), "it was to fail");
        }
        Err(error)
    }

    /// How far a file of `len` bytes may grow towards `end`; takes that room.
    fn take_room(&self, path: &Path, len: u64, end: u64) -> u64 {
        let mut faults = lock(&self.faults);
        let Some(room) = faults.room else {
            return end;
        };
        let has = faults.reserved.get(path).copied().unwrap_or(0).max(len);
        let growth = end.saturating_sub(has);
        let granted = growth.min(room);
        faults.room = Some(room - granted);
        faults.fired += u64::from(granted < growth);
        end - (growth - granted)
    }

    /// Takes room behind the end of a file of `len` bytes, all up to `end` or none.
    fn reserve(&self, path: &Path, len: u64, end: u64) -> bool {
        let mut faults = lock(&self.faults);
        if faults.reserves_nothing {
            return true;
        }
        let has = faults.reserved.get(path).copied().unwrap_or(0).max(len);
        let growth = end.saturating_sub(has);
        let room = faults.room.unwrap_or(u64::MAX);
        if growth > room {
            faults.fired += 1;
            return false;
        }
        faults.room = faults.room.map(|room| room - growth);
        faults.reserved.insert(path.to_path_buf(), end.max(has));
        true
    }

    fn reserves_nothing(&self) -> bool {
        lock(&self.faults).reserves_nothing
    }

    /// A file that was cut gives back what it had behind its end.
    fn give_room_back(&self, path: &Path, before: u64, len: u64) {
        let mut faults = lock(&self.faults);
        let had = faults.reserved.remove(path).unwrap_or(0).max(before);
        if let Some(room) = &mut faults.room {
            *room += had.saturating_sub(len);
        }
    }
}

fn eio(what: &'static str, path: &Path) -> Error {
    Error::io(what, path, io::Error::from_raw_os_error(libc::EIO))
}

fn no_space(what: &'static str, path: &Path) -> Error {
    Error::io(what, path, io::Error::from_raw_os_error(libc::ENOSPC))
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
        self.call(Op::LookUp, "look up", path)?;
        self.inner.exists(path)
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        self.call(Op::LookUp, "look up", path)?;
        self.inner.is_dir(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.call(Op::List, "list", dir)?;
        self.inner.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.call(Op::CreateDir, "create folder", dir)?;
        self.inner.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(Op::Rename, "rename", from)?;
        self.inner.rename(from, to)
    }

    /// The folder is opened first: so a fault of that comes before the rename, and one of the sync behind it.
    fn rename_and_sync(&self, from: &Path, to: &Path, dir: &Path, site: Site) -> Result<()> {
        let fault = lock(&self.faults).call(Op::SyncDir);
        if fault == Some(Fault::NoDescriptor) {
            let emfile = io::Error::from_raw_os_error(libc::EMFILE);
            return Err(Error::io("open folder", dir, emfile));
        }
        self.rename(from, to)?;
        self.sync_as(fault, "sync folder", dir, || self.inner.sync_dir(dir, site))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(Op::Link, "link", to)?;
        self.inner.link(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.call(Op::Remove, "remove", path)?;
        // As if nobody had it open, or under another name.
        let file = self.inner.open(path, OpenMode::Read);
        let len = file.and_then(|file| file.len()).unwrap_or(0);
        self.inner.remove(path)?;
        self.give_room_back(path, len, 0);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.sync_with(Op::SyncDir, "sync folder", dir, || {
            self.inner.sync_dir(dir, site)
        })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>> {
        self.call(Op::Lock, "lock", path)?;
        self.inner.lock(path)
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        self.call(Op::Lock, "lock", path)?;
        self.inner.lock_shared(path)
    }

    fn hold_folder(&self, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        self.call(Op::Lock, "lock", dir)?;
        self.inner.hold_folder(dir)
    }

    fn is_folder_held(&self, dir: &Path) -> Result<bool> {
        self.call(Op::Lock, "lock", dir)?;
        self.inner.is_folder_held(dir)
    }

    fn is_same(&self, one: &Path, other: &Path) -> Result<bool> {
        self.call(Op::LookUp, "look up", other)?;
        self.inner.is_same(one, other)
    }

    fn fs_kind(&self, path: &Path) -> Result<FsKind> {
        self.call(Op::LookUp, "look up the file system of", path)?;
        self.inner.fs_kind(path)
    }

    fn room(&self, path: &Path) -> Result<Option<DiskRoom>> {
        self.call(Op::LookUp, "look up the room of", path)?;
        self.inner.room(path)
    }

    fn same_disk(&self, one: &Path, other: &Path) -> Result<bool> {
        self.call(Op::LookUp, "look up the file system of", one)?;
        self.inner.same_disk(one, other)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }

    fn spares(&self) -> &Spares {
        self.inner.spares()
    }
}

/// A kernel that is interrupted before every transfer and then transfers only a little.
#[derive(Debug)]
pub struct Choppy {
    bytes_max: usize,
    calls: AtomicU64,
}

impl Choppy {
    /// Transfers at most `bytes_max` bytes at a time.
    pub fn new(bytes_max: usize) -> Choppy {
        Choppy {
            bytes_max,
            calls: AtomicU64::new(0),
        }
    }

    /// Transfers attempted so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn interrupt(&self) -> io::Result<()> {
        match self.calls.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(()),
        }
    }
}

impl Syscalls for Choppy {
    fn pread(&self, file: &fs::File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.interrupt()?;
        let most = self.bytes_max.min(buf.len());
        Kernel.pread(file, &mut buf[..most], offset)
    }

    fn pwrite(&self, file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.interrupt()?;
        Kernel.pwrite(file, &bytes[..self.bytes_max.min(bytes.len())], offset)
    }

    fn fsync(&self, file: &fs::File) -> io::Result<()> {
        self.interrupt()?;
        Kernel.fsync(file)
    }
}

#[cfg(test)]
mod tests;
