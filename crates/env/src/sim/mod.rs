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
//!    were never written are zeros. A write of several pages may leave a file that ends before its last
//!    one, as a kernel makes files longer page by page.
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
mod disk;
mod file;
mod image;
mod lock;
mod names;
mod state;

pub use content::FailedSync;
pub use image::{Choice, Pending, Undecided};

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::{Error, Result, Site, Steps, When};

use content::Inode;
use disk::Disk;
use file::SimFile;
use lock::{SharedLock, SimHold, SimLock};
use names::{Change, FileNo, Names};
use state::{State, clean, no};

use crate::direct::{DeviceBytes, Transfers};
use crate::file::{File, OpenMode};
use crate::sites;
use crate::spares::Spares;
use crate::storage::{DiskRoom, FsKind, LockGuard, Storage};

/// The simulated file system. Cloning shares it. See the module's documentation.
#[derive(Clone)]
pub struct SimFs {
    disk: Arc<Disk>,
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
            disk: Arc::new(Disk::new(state, steps)),
        }
    }

    /// The step counter to which this file system reports.
    pub fn steps(&self) -> &Steps {
        &self.disk.steps
    }

    /// Makes the next sync, of a file or a folder, fail with EIO and leave behind what `how` says.
    /// Names are never dropped from memory.
    pub fn fail_next_sync(&self, how: FailedSync) {
        self.disk.state().fail_sync = Some(how);
    }

    /// All files together take no more than so many bytes from now on; then ENOSPC. A write that crosses the limit writes up to it
    /// first, as kernels do, who go from page to page. The disk of an image of a crash is as large as that of its original.
    pub fn limit(&self, bytes: u64) {
        self.disk.state().capacity = Some(bytes);
    }

    /// A simulated region takes so many bytes of the disk from now on, in place of those that it had before. `false`
    /// if there is no room for them.
    pub fn take_for_region(&self, bytes: u64) -> bool {
        let mut state = self.disk.state();
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
        self.disk.state().used()
    }

    /// No more than so many descriptors from now on: files, folders, locks; then EMFILE. An image of a crash does as
    /// its original.
    pub fn limit_descriptors(&self, most: usize) {
        self.disk.state().descriptors = Some(most);
    }

    /// Most files that were open at a time since this was last asked for.
    pub fn take_most_open(&self) -> usize {
        std::mem::take(&mut self.disk.state().most_open)
    }

    /// How often there was no room.
    pub fn refusals(&self) -> u64 {
        self.disk.state().refusals
    }

    /// Whether files that are opened from now on are refused [direct I/O](crate::direct). An image
    /// of a crash does as its original.
    pub fn refuse_direct(&self, refuse: bool) {
        self.disk.state().refuses_direct = refuse;
    }

    /// Whether folders cannot be held from now on, as on file systems without locks of folders: nobody holds one then, and nobody is
    /// found to. An image of a crash does as its original.
    pub fn refuse_holds(&self, refuse: bool) {
        self.disk.state().refuses_holds = refuse;
    }

    /// Puts a file in place, durably and without a crash point, replacing one of that name. For
    /// tests that lay out or damage a folder.
    ///
    /// # Panics
    /// If the folder does not exist.
    pub fn install(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.disk.state();
        let (dir, name) = state.locate("install", path).expect("the folder exists");
        let file = state.add_inode(Inode::from_bytes(bytes));
        state.dir_mut(&dir).install(name, file);
    }

    /// What readers see in a file, or `None` if there is none.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.disk.state();
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
            disk: Arc::clone(&self.disk),
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
        let mut state = self.disk.state();
        state.check_no_folder("open", path)?;
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
        self.disk.steps.point(site, When::Before);
        let answer = change(&mut self.disk.state());
        self.disk.steps.point(site, When::After);
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
        let state = self.disk.state();
        Ok(state.dirs.contains_key(&clean(path)) || state.find(path).is_some())
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        Ok(self.disk.state().dirs.contains_key(&clean(path)))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let state = self.disk.state();
        let dir = clean(dir);
        state.check_folder("list", &dir)?;
        state.check_descriptors("list", &dir)?;
        let names = &state.dirs[&dir];
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
        // The names of its folders are synced.
        self.disk.state().check_descriptors("create folder", &dir)?;
        let levels: Vec<PathBuf> = dir.ancestors().map(Path::to_path_buf).collect();
        for level in levels.into_iter().rev() {
            if self.disk.state().dirs.contains_key(&level) {
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
        self.change_name(sites::NAME_CHANGED, |state| state.rename(from, to))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        self.change_name(sites::NAME_CHANGED, |state| {
            if state.find(to).is_some() || state.dirs.contains_key(&clean(to)) {
                return Err(no(io::ErrorKind::AlreadyExists, "rename", to));
            }
            state.rename(from, to)
        })
    }

    fn rename_and_sync(&self, from: &Path, to: &Path, dir: &Path, site: Site) -> Result<()> {
        self.disk.state().check_descriptors("open folder", dir)?;
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
        self.disk.steps.point(site, When::Before);
        let answer = {
            let mut state = self.disk.state();
            let is_there = state.check_folder("open folder", &dir);
            let opened = is_there.and_then(|()| state.check_descriptors("open folder", &dir));
            if opened.is_err() {
                opened
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
        self.disk.steps.point(site, When::After);
        answer
    }

    /// The lock file stays empty: a process id in it would make images differ from run to run.
    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        self.disk.state().check_no_folder("open", path)?;
        if !self.exists(path)? {
            return Ok(None);
        }
        let path = clean(path);
        self.disk.state().check_descriptors("open", &path)?;
        if self.disk.state().locks.contains(&path) {
            return Err(Error::Locked {
                path: path.parent().unwrap_or(Path::new("")).to_path_buf(),
                pid: std::process::id(),
            });
        }
        Ok(Some(Box::new(SharedLock)))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>> {
        self.disk.state().check_no_folder("create", path)?;
        if !self.exists(path)? {
            self.create(path, None)?;
        }
        let path = clean(path);
        self.disk.state().check_descriptors("open", &path)?;
        if !self.disk.state().locks.insert(path.clone()) {
            return Err(Error::Locked {
                path: path.parent().unwrap_or(Path::new("")).to_path_buf(),
                pid: std::process::id(),
            });
        }
        Ok(Box::new(SimLock {
            disk: Arc::clone(&self.disk),
            path,
        }))
    }

    fn hold_folder(&self, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        let path = clean(dir);
        let mut state = self.disk.state();
        state.check_folder("open", &path)?;
        state.check_descriptors("open folder", &path)?;
        if state.refuses_holds {
            return Ok(None);
        }
        *state.holds.entry(path.clone()).or_default() += 1;
        drop(state);
        let disk = Arc::clone(&self.disk);
        Ok(Some(Box::new(SimHold { disk, path })))
    }

    fn is_folder_held(&self, dir: &Path) -> Result<bool> {
        let (dir, state) = (clean(dir), self.disk.state());
        state.check_folder("open", &dir)?;
        state.check_descriptors("open", &dir)?;
        Ok(!state.refuses_holds && state.holds.contains_key(&dir))
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

    fn is_within(&self, dir: &Path, outer: &Path) -> Result<bool> {
        Ok(clean(dir).starts_with(clean(outer)))
    }

    fn same_disk(&self, _one: &Path, _other: &Path) -> Result<bool> {
        Ok(true)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.disk.state().descriptors.map(|most| most as u64)
    }

    fn spares(&self) -> &Spares {
        &self.disk.spares
    }

    fn room(&self, _path: &Path) -> Result<Option<DiskRoom>> {
        let state = self.disk.state();
        Ok(state.capacity.map(|total| DiskRoom {
            free: total.saturating_sub(state.used()),
            total,
        }))
    }
}

#[cfg(test)]
mod tests;
