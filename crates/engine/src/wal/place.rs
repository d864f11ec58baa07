//! Where logs lie, and what they are called.
//!
//! # Moving
//! `wal_path` names another folder, NEW, than the manifest remembers, OLD (the database's own, if it remembers none). An open
//! for writing then
//! 1. copies the logs of all chains that the manifest names to NEW, durably, names included (`Wal::gather`);
//! 2. makes the manifest remember NEW, by the edit that seals (recovery, 4);
//! 3. removes what was copied, once that edit is durable (`Wal::let_go`): a disk that is full may hold it back, up to the next
//!    chain that is named.
//!
//! So *where the manifest says* is, at each instant, the log of each chain that it names, whether or not an open is told of
//! another folder. A log is therefore looked for there first, then in the database's own folder, and last where it is to go.
//!
//! A crash before 2 is durable leaves OLD whole and copies in NEW. Whoever opens with NEW again begins anew: it loads from
//! OLD, and copies over the copies. Whoever opens without it goes on in OLD and does not know of NEW. Then logs may get stale
//! there: copies, which have all frames of their chains, as nothing is appended to the log of a chain that an open finds;
//! and the log, without frames, of the chain that was about to be named, whose id another chain got since, with another
//! nonce. That one must not be taken for the log of its name, and is not, as NEW is looked into last. Should NEW be given
//! again, what is named is copied over them, and the rest is swept.
//!
//! A crash between 2 and 3 leaves NEW whole and copies in OLD. In the database's own folder the next open for writing removes
//! them. Elsewhere they take room until that folder is given again: nobody reads them before, and then they count for
//! nothing, for the same reason. So it is with what there was no room to remove in OLD.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use thermocline_base::options::Options;
use thermocline_base::{Error, Result};
use thermocline_env::{OpenMode, Storage};
use thermocline_version::State;
use thermocline_wal::may_be_log_of;

use crate::layout::is_probe;

/// How the name of a log ends,
const LOG: &str = ".log";
/// and that of a copy of one that is being made.
const COPY: &str = ".log-copy";

/// A folder with logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogDir {
    pub dir: PathBuf,
    /// Whether it is the database's own: elsewhere other databases may have theirs.
    own: bool,
}

impl LogDir {
    fn prefix(&self, db_id: &[u8; 16]) -> String {
        if self.own {
            return String::new();
        }
        let id: String = db_id.iter().map(|b| format!("{b:02x}")).collect();
        format!("thermocline-{id}-")
    }

    /// Whether it is the database's own folder.
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// The file that is locked while the database is open (`claim`).
    pub fn lock(&self, db_id: &[u8; 16]) -> PathBuf {
        self.dir.join(format!("{}LOCK", self.prefix(db_id)))
    }

    /// The file that says whose the database's logs there are (`claim`).
    pub fn owner(&self, db_id: &[u8; 16]) -> PathBuf {
        self.dir.join(format!("{}OWNER", self.prefix(db_id)))
    }

    /// A file that is made, and removed at once, to see that one can be made.
    fn probe(&self, db_id: &[u8; 16]) -> PathBuf {
        self.dir.join(format!("{}PROBE", self.prefix(db_id)))
    }

    /// The path of a chain's log there.
    pub fn path(&self, db_id: &[u8; 16], chain: u64) -> PathBuf {
        self.ending_in(LOG, db_id, chain)
    }

    /// The path of a copy of it that is being made there.
    pub fn copy(&self, db_id: &[u8; 16], chain: u64) -> PathBuf {
        self.ending_in(COPY, db_id, chain)
    }

    fn ending_in(&self, ending: &str, db_id: &[u8; 16], chain: u64) -> PathBuf {
        let prefix = self.prefix(db_id);
        self.dir.join(format!("{prefix}{chain:06}{ending}"))
    }

    /// The chain whose log has this name there, with this ending; none for a stranger's.
    fn parse(&self, db_id: &[u8; 16], name: &str, ending: &str) -> Option<u64> {
        let number = name.strip_prefix(&self.prefix(db_id))?;
        let chain = number.strip_suffix(ending)?.parse().ok()?;
        (format!("{chain:06}{ending}") == number).then_some(chain)
    }
}

/// Makes the folder `wal_path`, and sees whether files can be made there. A database that remembered another one would not open
/// by itself. Nothing but the folder stays.
///
/// # Errors
/// Those of the file system.
pub(crate) fn check_place(
    storage: &dyn Storage,
    options: &Options,
    db_id: &[u8; 16],
) -> Result<()> {
    let Some(dir) = &options.wal_path else {
        return Ok(());
    };
    storage.create_dir_all(dir)?;
    let place = LogDir {
        dir: dir.clone(),
        own: false,
    };
    let probe = place.probe(db_id);
    forget_probes(storage, dir)
        .and_then(|()| storage.open(&probe, OpenMode::CreateNew).map(drop))
        .and_then(|()| match storage.remove(&probe) {
            // Who makes another database here has taken it for one that was left.
            Err(_) if matches!(storage.exists(&probe), Ok(false)) => Ok(()),
            removed => removed,
        })
        .map_err(|error| match error {
            Error::Io { source, .. } => Error::io("make logs, as wal_path says, in", dir, source),
            other => other,
        })
}

/// Removes what processes have left that were killed before they removed it. They had made no database, so nobody else knows
/// of it.
fn forget_probes(storage: &dyn Storage, dir: &Path) -> Result<()> {
    for name in storage.list(dir)?.iter().filter(|name| is_probe(name)) {
        let path = dir.join(name);
        let file = storage.open(&path, OpenMode::Read);
        // Anything else of that name is somebody's.
        if matches!(file.and_then(|file| file.is_empty()), Ok(true)) {
            let _ = storage.remove(&path);
        }
    }
    Ok(())
}

/// Whether a file has the name of a log and is none of the database's, not even one that was only begun.
pub(super) fn is_somebodys(storage: &dyn Storage, path: &Path, db_id: &[u8; 16]) -> Result<bool> {
    if !storage.exists(path)? {
        return Ok(false);
    }
    match storage.open(path, OpenMode::Read) {
        // A folder, a link, a device, or what we may not read: all that we make is its owner's.
        Err(Error::Io { source, .. })
            if matches!(
                source.kind(),
                ErrorKind::InvalidInput | ErrorKind::PermissionDenied
            ) =>
        {
            Ok(true)
        }
        opened => Ok(!may_be_log_of(&*opened?, db_id)?),
    }
}

/// The folders in which logs may lie, each once.
#[derive(Debug, Clone)]
pub(crate) struct LogDirs {
    /// New ones are made in the first.
    all: Vec<LogDir>,
    /// Whether the manifest remembers another one than the first.
    moves: bool,
}

impl LogDirs {
    /// Those of the database in `dir`.
    pub fn of(dir: &Path, options: &Options, state: &State) -> LogDirs {
        let own = LogDir {
            dir: dir.to_path_buf(),
            own: true,
        };
        let elsewhere = |dir: &Path| LogDir {
            dir: dir.to_path_buf(),
            own: false,
        };
        let remembered = state.options().iter().find(|(name, _)| name == "wal_path");
        let remembered = remembered.map(|(_, path)| elsewhere(Path::new(path)));
        let given = options.wal_path.as_deref().map(elsewhere);
        let moves = given != remembered;
        // What is given comes first; else what is remembered, by whoever settled the options.
        let mut all: Vec<LogDir> = given.into_iter().chain([own]).collect();
        all.extend(remembered.filter(|dir| !all.contains(dir)));
        LogDirs { all, moves }
    }

    /// Where new logs are made.
    pub fn newest(&self) -> &LogDir {
        &self.all[0]
    }

    /// Where none are made.
    pub fn others(&self) -> &[LogDir] {
        &self.all[1..]
    }

    /// Those outside of the database's folder.
    pub fn elsewhere(&self) -> impl Iterator<Item = &LogDir> {
        self.all.iter().filter(|dir| !dir.own)
    }

    /// Those alone.
    pub fn shared(&self) -> LogDirs {
        LogDirs {
            all: self.elsewhere().cloned().collect(),
            moves: false,
        }
    }

    /// Where the log of a chain lies, if it is there: what the manifest remembers comes first.
    pub fn find(
        &self,
        storage: &dyn Storage,
        db_id: &[u8; 16],
        chain: u64,
    ) -> Result<Option<PathBuf>> {
        let (newest, others) = self.all.split_at(1);
        let order: Vec<&LogDir> = match self.moves {
            true => others.iter().rev().chain(newest).collect(),
            false => self.all.iter().collect(),
        };
        for dir in order {
            let path = dir.path(db_id, chain);
            if storage.exists(&path)? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// The logs of the database, with their chains.
    pub fn list(&self, storage: &dyn Storage, db_id: &[u8; 16]) -> Result<Vec<(u64, PathBuf)>> {
        self.ending_in(LOG, storage, db_id)
    }

    /// The copies of logs that are being made, with their chains: all of them are left by processes that were killed, unless
    /// this one is making them.
    pub fn copies(&self, storage: &dyn Storage, db_id: &[u8; 16]) -> Result<Vec<(u64, PathBuf)>> {
        self.ending_in(COPY, storage, db_id)
    }

    fn ending_in(
        &self,
        ending: &str,
        storage: &dyn Storage,
        db_id: &[u8; 16],
    ) -> Result<Vec<(u64, PathBuf)>> {
        let mut all = Vec::new();
        for dir in &self.all {
            if !storage.is_dir(&dir.dir)? {
                continue;
            }
            for name in storage.list(&dir.dir)? {
                let chain = dir.parse(db_id, &name, ending);
                all.extend(chain.map(|chain| (chain, dir.dir.join(name))));
            }
        }
        Ok(all)
    }

    /// The error for a log that is missing.
    pub fn missing(&self, db_id: &[u8; 16], chain: u64) -> Error {
        let places = self.all.iter().map(|dir| dir.path(db_id, chain));
        let places: Vec<String> = places.map(|path| path.display().to_string()).collect();
        Error::corruption(
            "a log that the manifest names is missing (if it lies elsewhere, give its folder as wal_path)",
            places.join(" or "),
            0,
            "a log",
            "no such file",
        )
    }
}
