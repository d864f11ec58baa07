//! A file system in memory that can crash.
//!
//! It keeps apart what readers see and what is durable. A crash test asks at any instant for an
//! *image*: an independent file system that holds the durable state and, of everything that was
//! not synced, whatever the test chose.
//!
//! What a crash decides, each independently of all others:
//!
//! 1. For each 512-byte sector written since the file's last sync: the durable content or any later
//!    one. So unsynced writes reorder and tear at will; a sector itself never tears.
//! 2. For each file: the durable size or any later one. Bytes behind the size are gone; bytes that
//!    were never written are zeros.
//! 3. For each change of a name since the folder's last sync: kept or lost. The kept ones apply in
//!    order; a rename is atomic and, kept without the creation before it, still names the file.
//!    A file's sync says nothing about its name, nor the other way round. A file with names in two
//!    folders is one file: each name is kept or lost on its own, the content is decided once.
//!
//! Folders are durable when [`crate::Storage::create_dir_all`] returns. A sync that a test makes
//! fail ([`SimFs::fail_next_sync`]) leaves the changes undecided for ever: the kernel takes them
//! for clean, so that a later sync that succeeds does not make them durable.
//!
//! Direct I/O ([`crate::direct`]) is held to its contract: a misaligned transfer is an error,
//! though memory would not mind. Its writes are lost and torn like others. Readers see them at once
//! in either way.
//!
//! Everything is deterministic. Before and after each sync and each change of a name the shared
//! [`Steps`] are told, with no lock held, so that an observer can take images.
//!
//! ```
//! use std::path::Path;
//! use thermocline_base::{Site, Steps};
//! use thermocline_env::{OpenMode, Storage, sim::SimFs};
//!
//! let fs = SimFs::new(Steps::new());
//! let file = fs.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
//! file.write_at(b"hello", 0).unwrap();
//! file.sync(Site("example")).unwrap();
//! // The data is durable, the name is not.
//! assert!(!fs.image_none(Steps::new()).exists(Path::new("/a")).unwrap());
//! fs.sync_dir(Path::new("/"), Site("example")).unwrap();
//! assert_eq!(fs.image_none(Steps::new()).contents(Path::new("/a")).unwrap(), b"hello");
//! ```

mod content;
mod file;
mod image;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::sync::{Mutex, MutexGuard, lock};
use thermocline_base::{Error, Result, Site, Steps, When};

pub use content::FailedSync;
use content::Inode;
use file::SimFile;
pub use image::{Choice, Pending, Undecided};
use names::{Change, FileNo, Names};

use crate::direct::{DeviceBytes, Transfers};
use crate::spares::Spares;
use crate::{DiskRoom, File, FsKind, LockGuard, OpenMode, Storage, sites};

/// The simulated file system. Cloning shares it. See the module's documentation.
#[derive(Clone)]
pub struct SimFs {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    steps: Steps,
    spares: Spares,
}

#[derive(Debug, Clone, Default)]
struct State {
    dirs: BTreeMap<PathBuf, Arc<Names>>,
    inodes: BTreeMap<FileNo, Arc<Inode>>,
    next_file: FileNo,
    /// Handles per file: a file without names lives as long as it is open.
    opens: BTreeMap<FileNo, usize>,
    /// Most handles that there were at a time.
    most_open: usize,
    /// As many descriptors as the process may have.
    descriptors: Option<usize>,
    locks: BTreeSet<PathBuf>,
    /// How many hold each folder.
    holds: BTreeMap<PathBuf, usize>,
    fail_sync: Option<FailedSync>,
    refuses_direct: bool,
    /// Bytes that all files may have together.
    capacity: Option<u64>,
    /// Up to where files have room behind their ends.
    reserved: BTreeMap<FileNo, u64>,
    /// As far as a crash leaves it: what was synced.
    reserved_durable: BTreeMap<FileNo, u64>,
    /// Of the capacity a simulated region has so many.
    region: u64,
    /// How often that was too little.
    refusals: u64,
}

/// `a//b/./c/` and `a/b/c` are one path.
fn clean(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| *part != std::path::Component::CurDir)
        .collect()
}

fn no(kind: io::ErrorKind, op: &'static str, path: &Path) -> Error {
    Error::io(op, path, kind.into())
}

impl State {
    /// The folder and the last name of `path`.
    fn locate(&self, op: &'static str, path: &Path) -> Result<(PathBuf, String)> {
        let path = clean(path);
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or_else(|| no(io::ErrorKind::InvalidInput, op, &path))?;
        let dir = path.parent().unwrap_or(Path::new(""));
        if !self.dirs.contains_key(dir) {
            return Err(no(io::ErrorKind::NotFound, op, &path));
        }
        Ok((dir.to_path_buf(), name.to_string()))
    }

    /// Bytes of all files, and of what lies beside them.
    fn used(&self) -> u64 {
        let len = |(file, inode): (&FileNo, &Arc<Inode>)| {
            let reserved = self.reserved.get(file).copied().unwrap_or(0);
            inode.live().len.max(reserved)
        };
        self.inodes.iter().map(len).sum::<u64>() + self.region
    }

    /// Fails where opening something would take one descriptor too many. Locks and held folders are open files, too.
    fn check_descriptors(&self, op: &'static str, path: &Path) -> Result<()> {
        let open = self.opens.values().sum::<usize>()
            + self.locks.len()
            + self.holds.values().sum::<usize>();
        match self.descriptors.is_some_and(|most| open >= most) {
            true => Err(Error::io(
                op,
                path,
                io::Error::from_raw_os_error(libc::EMFILE),
            )),
            false => Ok(()),
        }
    }

    fn find(&self, path: &Path) -> Option<FileNo> {
        let (dir, name) = self.locate("look up", path).ok()?;
        self.dirs[&dir].live.get(&name).copied()
    }

    fn dir_mut(&mut self, dir: &Path) -> &mut Names {
        Arc::make_mut(self.dirs.get_mut(dir).expect("the folder was looked up"))
    }

    fn inode_mut(&mut self, file: FileNo) -> &mut Inode {
        let inode = self.inodes.get_mut(&file);
        Arc::make_mut(inode.expect("a file stays while it is open or has a name"))
    }

    fn add_inode(&mut self, inode: Inode) -> FileNo {
        let file = self.next_file;
        self.next_file += 1;
        self.inodes.insert(file, Arc::new(inode));
        file
    }

    /// Forgets files that have no name, can get none by a crash, and are not open.
    fn forget_unnamed(&mut self) {
        let named: BTreeSet<FileNo> = self
            .dirs
            .values()
            .flat_map(|dir| dir.files())
            .chain(self.opens.keys().copied())
            .collect();
        self.inodes.retain(|file, _| named.contains(file));
    }
}

impl SimFs {
    /// An empty file system whose only folder is the root, `/` (also written as the empty path, so
    /// that relative paths work).
    pub fn new(steps: Steps) -> SimFs {
        let root = Arc::new(Names::default());
        let state = State {
            dirs: ["", "/"]
                .map(|path| (PathBuf::from(path), Arc::clone(&root)))
                .into(),
            ..State::default()
        };
        SimFs::with_state(state, steps)
    }

    fn with_state(state: State, steps: Steps) -> SimFs {
        SimFs {
            inner: Arc::new(Inner {
                state: Mutex::new(state),
                steps,
                spares: Spares::default(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }

    /// The step counter to which this file system reports.
    pub fn steps(&self) -> &Steps {
        &self.inner.steps
    }

    /// Makes the next sync, of a file or a folder, fail with EIO and leave behind what `how` says.
    /// Names are never dropped from memory.
    pub fn fail_next_sync(&self, how: FailedSync) {
        self.state().fail_sync = Some(how);
    }

    /// All files together take no more than so many bytes from now on; then ENOSPC, and what did not fit is
    /// not written at all. The disk of an image of a crash is as large as that of its original.
    pub fn limit(&self, bytes: u64) {
        self.state().capacity = Some(bytes);
    }

    /// A simulated region takes so many bytes of the disk from now on, in place of those that it had before. `false`
    /// if there is no room for them.
    pub fn take_for_region(&self, bytes: u64) -> bool {
        let mut state = self.state();
        let others = state.used() - state.region;
        let fits = state
            .capacity
            .is_none_or(|all| bytes <= state.region || others + bytes <= all);
        match fits {
            true => state.region = bytes,
            false => state.refusals += 1,
        }
        fits
    }

    /// Bytes of all files, and of a region that takes room beside them.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// No more than so many descriptors from now on: files, folders, locks; then EMFILE. An image of a crash does as
    /// its original.
    pub fn limit_descriptors(&self, most: usize) {
        self.state().descriptors = Some(most);
    }

    /// Most files that were open at a time since this was last asked for.
    pub fn take_most_open(&self) -> usize {
        std::mem::take(&mut self.state().most_open)
    }

    /// How often there was no room.
    pub fn refusals(&self) -> u64 {
        self.state().refusals
    }

    /// Whether files that are opened from now on are refused [direct I/O](crate::direct). An image
    /// of a crash does as its original.
    pub fn refuse_direct(&self, refuse: bool) {
        self.state().refuses_direct = refuse;
    }

    /// Puts a file in place, durably and without a crash point, replacing one of that name. For
    /// tests that lay out or damage a folder.
    ///
    /// # Panics
    /// If the folder does not exist.
    pub fn install(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        let (dir, name) = state.locate("install", path).expect("the folder exists");
        let file = state.add_inode(Inode::from_bytes(bytes));
        state.dir_mut(&dir).install(name, file);
    }

    /// What readers see in a file, or `None` if there is none.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        let content = state.inodes[&state.find(path)?].live();
        let len = usize::try_from(content.len).expect("it lies in memory");
        let mut bytes = vec![0; len];
        content.read(&mut bytes, 0);
        Some(bytes)
    }

    fn handle(
        &self,
        state: &mut State,
        path: &Path,
        file: FileNo,
        writes: bool,
        counter: Option<&Arc<DeviceBytes>>,
    ) -> Arc<dyn File> {
        *state.opens.entry(file).or_default() += 1;
        state.most_open = state.most_open.max(state.opens.values().sum());
        let transfers = counter.map(|counter| Transfers::new(!state.refuses_direct, counter));
        Arc::new(SimFile {
            fs: self.clone(),
            path: path.to_path_buf(),
            file,
            writes,
            transfers: transfers.unwrap_or_default(),
        })
    }

    /// With a counter: for direct I/O.
    fn open_with(
        &self,
        path: &Path,
        mode: OpenMode,
        counter: Option<&Arc<DeviceBytes>>,
    ) -> Result<Arc<dyn File>> {
        if mode == OpenMode::CreateNew {
            return self.create(path, counter);
        }
        let mut state = self.state();
        let file = state
            .find(path)
            .ok_or_else(|| no(io::ErrorKind::NotFound, "open", path))?;
        state.check_descriptors("open", path)?;
        let writes = mode == OpenMode::ReadWrite;
        Ok(self.handle(&mut state, path, file, writes, counter))
    }

    /// One change of a name, with its crash points around it.
    fn change_name<T>(
        &self,
        site: Site,
        change: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        self.inner.steps.point(site, When::Before);
        let answer = change(&mut self.state());
        self.inner.steps.point(site, When::After);
        answer
    }

    fn create(&self, path: &Path, counter: Option<&Arc<DeviceBytes>>) -> Result<Arc<dyn File>> {
        self.change_name(sites::NAME_CREATED, |state| {
            let (dir, name) = state.locate("create", path)?;
            if state.dirs[&dir].live.contains_key(&name) || state.dirs.contains_key(&clean(path)) {
                return Err(no(io::ErrorKind::AlreadyExists, "create", path));
            }
            state.check_descriptors("create", path)?;
            let file = state.add_inode(Inode::default());
            state.dir_mut(&dir).change(Change::Create(name, file));
            Ok(self.handle(state, path, file, true, counter))
        })
    }
}

impl fmt::Debug for SimFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFs").finish_non_exhaustive()
    }
}

impl Storage for SimFs {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.open_with(path, mode, None)
    }

    fn open_direct(
        &self,
        path: &Path,
        mode: OpenMode,
        counter: &Arc<DeviceBytes>,
    ) -> Result<Arc<dyn File>> {
        self.open_with(path, mode, Some(counter))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let state = self.state();
        Ok(state.dirs.contains_key(&clean(path)) || state.find(path).is_some())
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        Ok(self.state().dirs.contains_key(&clean(path)))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let state = self.state();
        let dir = clean(dir);
        let names = state
            .dirs
            .get(&dir)
            .ok_or_else(|| no(io::ErrorKind::NotFound, "list", &dir))?;
        let folders = state
            .dirs
            .keys()
            .filter(|path| path.parent() == Some(&*dir))
            .filter_map(|path| path.file_name()?.to_str());
        let mut all: Vec<String> = names.live.keys().cloned().collect();
        all.extend(folders.map(str::to_string));
        all.sort_unstable();
        Ok(all)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let dir = clean(dir);
        let levels: Vec<PathBuf> = dir.ancestors().map(Path::to_path_buf).collect();
        for level in levels.into_iter().rev() {
            if self.state().dirs.contains_key(&level) {
                continue;
            }
            self.change_name(sites::FOLDER_CREATED, |state| {
                if state.find(&level).is_some() {
                    return Err(no(io::ErrorKind::AlreadyExists, "create folder", &level));
                }
                state.dirs.insert(level.clone(), Arc::default());
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Within one folder only: no caller needs more, and a rename over two folders would be two
    /// changes that a crash could tear apart.
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.change_name(sites::NAME_CHANGED, |state| {
            let (dir, from_name) = state.locate("rename", from)?;
            let (to_dir, to_name) = state.locate("rename", to)?;
            if to_dir != dir {
                return Err(no(io::ErrorKind::CrossesDevices, "rename", from));
            }
            let file = state
                .find(from)
                .ok_or_else(|| no(io::ErrorKind::NotFound, "rename", from))?;
            if from_name != to_name {
                let change = Change::Rename(from_name, to_name, file);
                state.dir_mut(&dir).change(change);
            }
            Ok(())
        })
    }

    fn rename_and_sync(&self, from: &Path, to: &Path, dir: &Path, site: Site) -> Result<()> {
        self.state().check_descriptors("open folder", dir)?;
        self.rename(from, to)?;
        self.sync_dir(dir, site)
    }

    /// Between two folders only: in one folder a file has one name here.
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.change_name(sites::NAME_LINKED, |state| {
            let (dir, name) = state.locate("link", to)?;
            let file = state
                .find(from)
                .ok_or_else(|| no(io::ErrorKind::NotFound, "link", to))?;
            if state.find(to).is_some() || state.dirs.contains_key(&clean(to)) {
                return Err(no(io::ErrorKind::AlreadyExists, "link", to));
            }
            if state.dirs[&dir].live.values().any(|other| *other == file) {
                return Err(no(io::ErrorKind::InvalidInput, "link", to));
            }
            state.dir_mut(&dir).change(Change::Link(name, file));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.change_name(sites::NAME_REMOVED, |state| {
            let (dir, name) = state.locate("remove", path)?;
            let file = state
                .find(path)
                .ok_or_else(|| no(io::ErrorKind::NotFound, "remove", path))?;
            state.dir_mut(&dir).change(Change::Remove(name, file));
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        let dir = clean(dir);
        self.inner.steps.point(site, When::Before);
        let answer = {
            let mut state = self.state();
            if !state.dirs.contains_key(&dir) {
                Err(no(io::ErrorKind::NotFound, "sync folder", &dir))
            } else if let Err(short) = state.check_descriptors("open folder", &dir) {
                Err(short)
            } else if state.fail_sync.take().is_some() {
                state.dir_mut(&dir).fail_sync();
                let eio = io::Error::from_raw_os_error(libc::EIO);
                Err(Error::io("sync folder", &dir, eio))
            } else {
                state.dir_mut(&dir).sync();
                state.forget_unnamed();
                Ok(())
            }
        };
        self.inner.steps.point(site, When::After);
        answer
    }

    /// The lock file stays empty: a process id in it would make images differ from run to run.
    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        if !self.exists(path)? {
            return Ok(None);
        }
        let path = clean(path);
        if self.state().locks.contains(&path) {
            return Err(Error::Locked {
                path: path.parent().unwrap_or(Path::new("")).to_path_buf(),
                pid: std::process::id(),
            });
        }
        Ok(Some(Box::new(SharedLock)))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>> {
        if !self.exists(path)? {
            self.create(path, None)?;
        }
        let path = clean(path);
        self.state().check_descriptors("open", &path)?;
        if !self.state().locks.insert(path.clone()) {
            return Err(Error::Locked {
                path: path.parent().unwrap_or(Path::new("")).to_path_buf(),
                pid: std::process::id(),
            });
        }
        Ok(Box::new(SimLock {
            fs: self.clone(),
            path,
        }))
    }

    fn hold_folder(&self, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        let path = clean(dir);
        self.state().check_descriptors("open folder", &path)?;
        *self.state().holds.entry(path.clone()).or_default() += 1;
        let fs = self.clone();
        Ok(Some(Box::new(SimHold { fs, path })))
    }

    fn is_folder_held(&self, dir: &Path) -> Result<bool> {
        Ok(self.state().holds.contains_key(&clean(dir)))
    }

    fn fs_kind(&self, path: &Path) -> Result<FsKind> {
        if self.exists(path)? {
            Ok(FsKind::Ordinary)
        } else {
            let op = "look up the file system of";
            Err(no(io::ErrorKind::NotFound, op, path))
        }
    }

    fn is_same(&self, one: &Path, other: &Path) -> Result<bool> {
        Ok(clean(one) == clean(other))
    }

    fn same_disk(&self, _one: &Path, _other: &Path) -> Result<bool> {
        Ok(true)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.state().descriptors.map(|most| most as u64)
    }

    fn spares(&self) -> &Spares {
        &self.inner.spares
    }

    fn room(&self, _path: &Path) -> Result<Option<DiskRoom>> {
        let state = self.state();
        Ok(state.capacity.map(|total| DiskRoom {
            free: total.saturating_sub(state.used()),
            total,
        }))
    }
}

#[derive(Debug)]
struct SimLock {
    fs: SimFs,
    path: PathBuf,
}

/// A reader's lock: simulated writers do not wait for readers.
#[derive(Debug)]
struct SharedLock;

impl LockGuard for SharedLock {}

impl LockGuard for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.fs.state().locks.remove(&self.path);
    }
}

#[derive(Debug)]
struct SimHold {
    fs: SimFs,
    path: PathBuf,
}

impl LockGuard for SimHold {}

impl Drop for SimHold {
    fn drop(&mut self) {
        let mut state = self.fs.state();
        if let Some(holders) = state.holds.get_mut(&self.path) {
            *holders -= 1;
            if *holders == 0 {
                state.holds.remove(&self.path);
            }
        }
    }
}

#[cfg(test)]
mod tests;
