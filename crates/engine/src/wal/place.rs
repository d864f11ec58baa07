//! Where logs lie, and what they are called.

use std::path::{Path, PathBuf};

use thermocline_base::options::Options;
use thermocline_base::{Error, Result};
use thermocline_env::Storage;
use thermocline_version::State;

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

    /// The path of a chain's log there.
    pub fn path(&self, db_id: &[u8; 16], chain: u64) -> PathBuf {
        self.dir
            .join(format!("{}{chain:06}.log", self.prefix(db_id)))
    }

    /// The chain whose log has this name there; none for a stranger's.
    fn parse(&self, db_id: &[u8; 16], name: &str) -> Option<u64> {
        let number = name.strip_prefix(&self.prefix(db_id))?;
        let chain = number.strip_suffix(".log")?.parse().ok()?;
        (format!("{chain:06}.log") == number).then_some(chain)
    }
}

/// The folders in which logs may lie, each once. New ones are made in the first.
#[derive(Debug, Clone)]
pub(crate) struct LogDirs(Vec<LogDir>);

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
        // What is given comes first; else what is remembered, by whoever settled the options.
        let mut all: Vec<LogDir> = given.into_iter().chain([own]).collect();
        all.extend(remembered.filter(|dir| !all.contains(dir)));
        LogDirs(all)
    }

    /// Where new logs are made.
    pub fn newest(&self) -> &LogDir {
        &self.0[0]
    }

    /// Those outside of the database's folder.
    pub fn elsewhere(&self) -> impl Iterator<Item = &LogDir> {
        self.0.iter().filter(|dir| !dir.own)
    }

    /// Where the log of a chain lies, if it is there.
    pub fn find(
        &self,
        storage: &dyn Storage,
        db_id: &[u8; 16],
        chain: u64,
    ) -> Result<Option<PathBuf>> {
        find_in(&self.0, storage, db_id, chain)
    }

    /// As [`LogDirs::find`], but not where new ones are made.
    pub fn find_older(
        &self,
        storage: &dyn Storage,
        db_id: &[u8; 16],
        chain: u64,
    ) -> Result<Option<PathBuf>> {
        find_in(&self.0[1..], storage, db_id, chain)
    }

    /// The logs of the database, with their chains.
    pub fn list(&self, storage: &dyn Storage, db_id: &[u8; 16]) -> Result<Vec<(u64, PathBuf)>> {
        let mut all = Vec::new();
        for dir in &self.0 {
            if !storage.is_dir(&dir.dir)? {
                continue;
            }
            let names = storage.list(&dir.dir)?;
            let chains = names.iter().filter_map(|name| dir.parse(db_id, name));
            all.extend(chains.map(|chain| (chain, dir.path(db_id, chain))));
        }
        Ok(all)
    }

    /// The error for a log that is missing.
    pub fn missing(&self, db_id: &[u8; 16], chain: u64) -> Error {
        let places = self.0.iter().map(|dir| dir.path(db_id, chain));
        let places: Vec<String> = places.map(|path| path.display().to_string()).collect();
        Error::corruption(
            "a log that the manifest names is missing (if it lies elsewhere, give its folder as wal_path)",
            "the manifest",
            0,
            places.join(" or "),
            "no such file",
        )
    }
}

fn find_in(
    dirs: &[LogDir],
    storage: &dyn Storage,
    db_id: &[u8; 16],
    chain: u64,
) -> Result<Option<PathBuf>> {
    for dir in dirs {
        let path = dir.path(db_id, chain);
        if storage.exists(&path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
