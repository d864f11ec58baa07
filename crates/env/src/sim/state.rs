//! What is in a simulated file system.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::{Error, Result};

use super::content::{FailedSync, Inode};
use super::names::{Change, FileNo, Names};

/// `a//b/./c/` and `a/b/c` are one path.
pub(super) fn clean(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| *part != std::path::Component::CurDir)
        .collect()
}

pub(super) fn no(kind: io::ErrorKind, op: &'static str, path: &Path) -> Error {
    Error::io(op, path, kind.into())
}

#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) dirs: BTreeMap<PathBuf, Arc<Names>>,
    pub(super) inodes: BTreeMap<FileNo, Arc<Inode>>,
    pub(super) next_file: FileNo,
    /// Handles per file: a file without names lives as long as it is open.
    pub(super) opens: BTreeMap<FileNo, usize>,
    /// Most handles that there were at a time.
    pub(super) most_open: usize,
    /// As many descriptors as the process may have.
    pub(super) descriptors: Option<usize>,
    pub(super) locks: BTreeSet<PathBuf>,
    /// How many hold each folder.
    pub(super) holds: BTreeMap<PathBuf, usize>,
    pub(super) fail_sync: Option<FailedSync>,
    pub(super) refuses_direct: bool,
    pub(super) refuses_holds: bool,
    /// Bytes that all files may have together.
    pub(super) capacity: Option<u64>,
    /// Up to where files have room behind their ends.
    pub(super) reserved: BTreeMap<FileNo, u64>,
    /// As far as a crash leaves it: what was synced.
    pub(super) reserved_durable: BTreeMap<FileNo, u64>,
    /// Of the capacity a simulated region has so many.
    pub(super) region: u64,
    /// How often that was too little.
    pub(super) refusals: u64,
}

impl State {
    /// The folder and the last name of `path`.
    pub(super) fn locate(&self, op: &'static str, path: &Path) -> Result<(PathBuf, String)> {
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
    pub(super) fn used(&self) -> u64 {
        let len = |(file, inode): (&FileNo, &Arc<Inode>)| {
            let reserved = self.reserved.get(file).copied().unwrap_or(0);
            inode.live().len.max(reserved)
        };
        self.inodes.iter().map(len).sum::<u64>() + self.region
    }

    /// How far a file gets that is to have bytes up to `end`: all the way, or as far as there is room.
    pub(super) fn reach(&self, file: FileNo, end: u64) -> u64 {
        let Some(capacity) = self.capacity else {
            return end;
        };
        let reserved = self.reserved.get(&file).copied().unwrap_or(0);
        let has = reserved.max(self.inodes[&file].live().len);
        let room = capacity.saturating_sub(self.used());
        end.min(has.saturating_add(room))
    }

    /// A crash leaves what this file has behind its end as it is now.
    pub(super) fn sync_reserved(&mut self, file: FileNo) {
        match self.reserved.get(&file) {
            Some(&end) => self.reserved_durable.insert(file, end),
            None => self.reserved_durable.remove(&file),
        };
    }

    /// Fails where opening something would take one descriptor too many. Locks and held folders are open files, too.
    pub(super) fn check_descriptors(&self, op: &'static str, path: &Path) -> Result<()> {
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

    /// Fails as opening this folder would, if it is none.
    pub(super) fn check_folder(&self, op: &'static str, dir: &Path) -> Result<()> {
        if self.dirs.contains_key(dir) {
            return Ok(());
        }
        let kind = match self.find(dir) {
            Some(_) => io::ErrorKind::NotADirectory,
            None => io::ErrorKind::NotFound,
        };
        Err(no(kind, op, dir))
    }

    /// Fails as opening this file would, if it is a folder.
    pub(super) fn check_no_folder(&self, op: &'static str, path: &Path) -> Result<()> {
        match self.dirs.contains_key(&clean(path)) {
            true => Err(no(io::ErrorKind::InvalidInput, op, path)),
            false => Ok(()),
        }
    }

    pub(super) fn find(&self, path: &Path) -> Option<FileNo> {
        let (dir, name) = self.locate("look up", path).ok()?;
        self.dirs[&dir].live.get(&name).copied()
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<()> {
        let (dir, from_name) = self.locate("rename", from)?;
        let (to_dir, to_name) = self.locate("rename", to)?;
        if to_dir != dir {
            return Err(no(io::ErrorKind::CrossesDevices, "rename", from));
        }
        let file = self
            .find(from)
            .ok_or_else(|| no(io::ErrorKind::NotFound, "rename", from))?;
        if self.dirs.contains_key(&clean(to)) {
            return Err(no(io::ErrorKind::IsADirectory, "rename", from));
        }
        if from_name != to_name {
            let change = Change::Rename(from_name, to_name, file);
            self.dir_mut(&dir).change(change);
        }
        Ok(())
    }

    pub(super) fn dir_mut(&mut self, dir: &Path) -> &mut Names {
        Arc::make_mut(self.dirs.get_mut(dir).expect("the folder was looked up"))
    }

    pub(super) fn inode_mut(&mut self, file: FileNo) -> &mut Inode {
        let inode = self.inodes.get_mut(&file);
        Arc::make_mut(inode.expect("a file stays while it is open or has a name"))
    }

    pub(super) fn add_inode(&mut self, inode: Inode) -> FileNo {
        let file = self.next_file;
        self.next_file += 1;
        self.inodes.insert(file, Arc::new(inode));
        file
    }

    /// Forgets files that have no name, can get none by a crash, and are not open.
    pub(super) fn forget_unnamed(&mut self) {
        let named: BTreeSet<FileNo> = self
            .dirs
            .values()
            .flat_map(|dir| dir.files())
            .chain(self.opens.keys().copied())
            .collect();
        self.inodes.retain(|file, _| named.contains(file));
    }
}
