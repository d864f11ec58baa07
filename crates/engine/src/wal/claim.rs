//! Claiming the logs that lie in a folder that databases share (invariant 6).
//!
//! In a database's own folder `LOCK` keeps others away, and a copy of the folder has copies of the logs.
//! Elsewhere the copy finds the original's: same id, same names. So there
//! 1. `thermocline-<id>-LOCK` is locked for as long as the store is open;
//! 2. `thermocline-<id>-OWNER` has the database's id, too, and names its folder. Another folder is refused while that one
//!    is there and has a database with this id: they are two. If it is not there any more, the database was moved;
//! 3. the same file knows the newest chain, as a region does (`recover::check_witness`): a manifest that
//!    does not know it has lost its last edit, or is a copy of a database that has gone on since. That tells
//!    copies apart where folders cannot be seen, as from another machine.
//!
//! All of it is asked before a log is read. Logs from before this was so have no such file: whoever opens
//! them first for writing makes it. The chain in it is one edit behind at most, and nothing was granted to
//! a chain that it does not know (`next_memtable`, invariant 1).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result};
use thermocline_env::{LockGuard, Storage};
use thermocline_version::{Manifest, State};
use thermocline_wal::{Owner, OwnerFile, SITE_LOG_NAMED};

use super::LogDirs;
use super::place::{LogDir, is_somebodys};

/// A folder with logs of an open store, outside of the store's own.
#[derive(Debug)]
struct Claim {
    dir: PathBuf,
    /// None if the store is only read and nobody made the file.
    _lock: Option<Box<dyn LockGuard>>,
    /// What was found there, with the number of that writing.
    found: Option<(Owner, u64)>,
}

/// What keeps others from the logs of a store.
#[derive(Debug)]
pub(crate) struct Claims {
    /// The database's folder, as it is noted.
    folder: PathBuf,
    db_id: [u8; 16],
    all: Vec<Claim>,
}

/// The file that says whose the logs are where new ones are made.
#[derive(Debug)]
pub(crate) struct Noted {
    file: OwnerFile,
    owner: Owner,
}

impl Noted {
    /// The manifest knows a chain.
    pub fn know(&mut self, chain: u64, nonce: u64) -> Result<()> {
        (self.owner.chain, self.owner.nonce) = (chain, nonce);
        self.file.write(&self.owner)
    }
}

/// Who claims logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claimant {
    /// Who makes lock files, and has them alone.
    Writer,
    /// Who shares them with others, and writes nothing.
    Reader,
    /// Who reads beside a writer that has them.
    Beside,
}

impl Claims {
    /// Claims the logs of the database in `folder`, wherever they lie.
    ///
    /// # Errors
    /// [`Error::Locked`] naming the database that has them; [`Error::InvalidArgument`] if they are another
    /// copy's; [`Error::Corruption`] if that copy has gone on, or the file says that they are another database's; those of
    /// the storage.
    pub fn make(
        storage: &dyn Storage,
        folder: &Path,
        dirs: &LogDirs,
        state: &State,
        by: Claimant,
    ) -> Result<Claims> {
        let absolute = std::path::absolute(folder);
        let folder =
            absolute.map_err(|source| Error::io("find the absolute path of", folder, source))?;
        let mut claims = Claims {
            folder,
            db_id: state.db_id().unwrap_or_default(),
            all: Vec::new(),
        };
        for dir in dirs.elsewhere() {
            if active(Bug::LogsUnclaimed) {
                break;
            }
            if storage.is_dir(&dir.dir)? && !claims.have(storage, &dir.dir)? {
                claims.claim(storage, dir, state, by)?;
            }
        }
        Ok(claims)
    }

    /// Whether a folder is claimed already, were it by another path.
    fn have(&self, storage: &dyn Storage, dir: &Path) -> Result<bool> {
        for claim in &self.all {
            if storage.is_same(&claim.dir, dir)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn claim(
        &mut self,
        storage: &dyn Storage,
        dir: &LogDir,
        state: &State,
        by: Claimant,
    ) -> Result<()> {
        let path = dir.owner(&self.db_id);
        let lock = match by {
            Claimant::Writer => storage.lock(&dir.lock(&self.db_id)).map(Some),
            Claimant::Reader => storage.lock_shared(&dir.lock(&self.db_id)),
            Claimant::Beside => Ok(None),
        };
        let lock = lock.map_err(|error| match error {
            Error::Locked { path: at, pid } => Error::Locked {
                path: holder(storage, &path).unwrap_or(at),
                pid,
            },
            other => other,
        })?;
        let found = OwnerFile::read(storage, &path)?;
        if let Some((owner, _)) = &found {
            self.check(storage, &path, owner, state)?;
        }
        self.all.push(Claim {
            dir: dir.dir.clone(),
            _lock: lock,
            found,
        });
        Ok(())
    }

    fn check(
        &self,
        storage: &dyn Storage,
        path: &Path,
        owner: &Owner,
        state: &State,
    ) -> Result<()> {
        if owner.db_id != self.db_id {
            let database = |id: [u8; 16]| format!("database {:032x}", u128::from_be_bytes(id));
            return Err(Error::corruption(
                "the file that says whose logs are has the name of one database and the content of another one",
                path.display().to_string(),
                16,
                database(self.db_id),
                database(owner.db_id),
            ));
        }
        let other = Path::new(OsStr::from_bytes(&owner.folder));
        if other != self.folder && self.is_there(storage, other)? {
            return Err(Error::InvalidArgument(format!(
                "the logs of {folder} belong to the database in {other}, and {folder} is a copy of its folder \
                 (or the other way round), so both have the same logs ({path} says so); open {other}, and make \
                 copies with checkpoint or backup. If {other} is not needed, move it away",
                folder = self.folder.display(),
                other = other.display(),
                path = path.display(),
            )));
        }
        let newest = state.next_ids().chain.saturating_sub(1);
        let known = state.chains().find(|(_, chain)| chain.id == owner.chain);
        let other = known.is_some_and(|(_, chain)| chain.nonce != owner.nonce && owner.nonce != 0);
        if owner.chain <= newest && !other {
            return Ok(());
        }
        Err(Error::corruption(
            "the logs know a chain that the manifest does not: the manifest lost its last edit, or is an \
             older or another copy of the database's",
            path.display().to_string(),
            40,
            format!("chain {newest} or one before it"),
            match other {
                true => "another one".into(),
                false => format!("chain {}", owner.chain),
            },
        ))
    }

    /// Refuses logs that are claimed and of which no file says that they are those of this very folder. Whoever opens them may
    /// take a folder that is not there for moved; whoever removes them must not, as it may be one that cannot be seen from here.
    /// If that `is_begun`, the database cannot be opened any more.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`]; those of the storage.
    pub fn check_noted(&self, storage: &dyn Storage, dirs: &LogDirs, is_begun: bool) -> Result<()> {
        let remedy = match is_begun {
            true => "if it is, move it back there, and destroy it there",
            false => "open it for writing once, which notes that it has, and close it",
        };
        let mut logs = Vec::new();
        for (_, path) in dirs.shared().list(storage, &self.db_id)? {
            // A call before may have removed ours, and what says whose they were. What stays has our names alone.
            if !is_somebodys(storage, &path, &self.db_id)? {
                logs.push(path);
            }
        }
        for claim in &self.all {
            let says = match &claim.found {
                Some((owner, _)) if self.is_noted(storage, owner)? => continue,
                Some((owner, _)) => {
                    let noted = Path::new(OsStr::from_bytes(&owner.folder));
                    format!("are noted as those of {}", noted.display())
                }
                None if logs.iter().any(|path| path.parent() == Some(&*claim.dir)) => {
                    "are of a version that did not note whose they are".into()
                }
                None => continue,
            };
            return Err(Error::InvalidArgument(format!(
                "the logs in {} {says}, and the database is in {}: nobody can tell whether it is the only one that \
                 has them; {remedy}",
                claim.dir.display(),
                self.folder.display()
            )));
        }
        Ok(())
    }

    fn is_noted(&self, storage: &dyn Storage, owner: &Owner) -> Result<bool> {
        let noted = Path::new(OsStr::from_bytes(&owner.folder));
        let is_ours = noted == self.folder;
        Ok(is_ours || storage.is_dir(noted)? && storage.is_same(noted, &self.folder)?)
    }

    /// Whether the folder `other` is another one than ours and has a database with our id.
    fn is_there(&self, storage: &dyn Storage, other: &Path) -> Result<bool> {
        let there = !other.as_os_str().is_empty()
            && storage.is_dir(other)?
            && Manifest::exists(storage, other)?
            && !storage.is_same(other, &self.folder)?;
        // One that cannot be read might be.
        Ok(there && Manifest::id(storage, other).map_or(true, |id| id == self.db_id))
    }

    /// Notes in the folder where new logs are made, which is there by now, that they are ours. Nothing, if that is
    /// the database's own.
    pub fn note(
        &mut self,
        storage: &dyn Storage,
        dirs: &LogDirs,
        state: &State,
    ) -> Result<Option<Noted>> {
        let newest = dirs.newest();
        if newest.is_own() || active(Bug::LogsUnclaimed) {
            return Ok(None);
        }
        if self.all.iter().all(|claim| claim.dir != newest.dir) {
            self.claim(storage, newest, state, Claimant::Writer)?;
        }
        let claim = self.all.iter().find(|claim| claim.dir == newest.dir);
        let found = claim.and_then(|claim| claim.found.clone());
        let folder = self.folder.as_os_str().as_bytes();
        let path = newest.owner(&self.db_id);
        let noted = match found {
            Some((owner, last)) => {
                let mut file = OwnerFile::open(storage, &path, (&owner, last))?;
                let moved = owner.folder != folder;
                let owner = Owner {
                    folder: folder.to_vec(),
                    ..owner
                };
                if moved {
                    file.write(&owner)?;
                }
                Noted { file, owner }
            }
            None => {
                let chain = state.next_ids().chain.saturating_sub(1);
                let named = state.chains().find(|(_, c)| c.id == chain);
                let owner = Owner {
                    db_id: self.db_id,
                    chain,
                    nonce: named.map_or(0, |(_, chain)| chain.nonce),
                    folder: folder.to_vec(),
                };
                let file = OwnerFile::make(storage, &path, &owner)?;
                Noted { file, owner }
            }
        };
        // Its name, were it one that an earlier process made.
        storage.sync_dir(&newest.dir, SITE_LOG_NAMED)?;
        Ok(Some(noted))
    }
}

/// The database that holds the lock, if that can be found out.
fn holder(storage: &dyn Storage, path: &Path) -> Option<PathBuf> {
    let (owner, _) = OwnerFile::read(storage, path).ok()??;
    let folder = PathBuf::from(OsStr::from_bytes(&owner.folder));
    (!owner.folder.is_empty()).then_some(folder)
}
