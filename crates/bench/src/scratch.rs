//! A folder for one run that goes when the run ends.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use thermocline::{Error, Result};

/// A new, private folder in the system's place for temporary files. It is removed with all that
/// it holds when this is dropped, unless it is kept.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Beside it: a region, logs.
    elsewhere: Vec<PathBuf>,
    keep: bool,
}

impl Scratch {
    /// Makes a folder whose name begins with `name`.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be made.
    pub fn new(name: &str) -> Result<Scratch> {
        Scratch::new_in(&std::env::temp_dir(), name)
    }

    /// As [`Scratch::new`], in the folder `place`.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be made.
    pub fn new_in(place: &Path, name: &str) -> Result<Scratch> {
        Ok(Scratch {
            path: new_folder(place, name)?,
            elsewhere: Vec::new(),
            keep: false,
        })
    }

    /// Where the region of a database in this folder goes if the user wants it at `pm_path`: in a
    /// folder there, a new one inside it; a new file, that file. Either goes with this folder.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be made; [`Error::InvalidArgument`] if the file is there
    /// already, as it is not ours to remove.
    pub fn region(&mut self, pm_path: Option<&Path>) -> Result<Option<PathBuf>> {
        let Some(pm_path) = pm_path else {
            return Ok(None);
        };
        let region = if pm_path.is_dir() {
            new_folder(pm_path, "thermocline-scratch")?
        } else if is_there(pm_path) {
            return Err(Error::InvalidArgument(format!(
                "{} is there already; a temporary database needs a new file or a folder for its \
                 persistent memory",
                pm_path.display()
            )));
        } else {
            pm_path.to_path_buf()
        };
        self.elsewhere.push(region.clone());
        Ok(Some(region))
    }

    /// Where the logs of a database in this folder go if the user wants them in `wal_path`, as [`place_of_logs`] says.
    /// They go with this folder.
    ///
    /// # Errors
    /// As [`place_of_logs`]; nothing goes then.
    pub fn logs(&mut self, wal_path: Option<&Path>) -> Result<Option<PathBuf>> {
        let logs = wal_path.map(place_of_logs).transpose()?;
        self.elsewhere.extend(logs.clone());
        Ok(logs)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder where it is when this is dropped.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Removes the folder now and says whether that worked.
    ///
    /// # Errors
    /// [`Error::Io`] if something in it cannot be removed.
    pub fn remove(mut self) -> Result<()> {
        self.keep = true;
        self.clear()
    }

    /// Removes all that can be, and says what the first thing could not be removed for.
    fn clear(&self) -> Result<()> {
        let mut cleared = Ok(());
        for path in [&self.path].into_iter().chain(&self.elsewhere) {
            cleared = cleared.and(remove(path));
        }
        cleared
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // Nobody is left to tell; the folder lies where temporary files are cleaned up.
            let _ = self.clear();
        }
    }
}

/// Where the logs of a database that goes after the run lie if the user wants them in `wal_path`: in a new folder inside
/// it, or in itself if it is not there yet. All of that place may be removed then.
///
/// # Errors
/// [`Error::Io`] if the folder cannot be made; [`Error::InvalidArgument`] if something else is there, as it is not ours
/// to remove.
pub fn place_of_logs(wal_path: &Path) -> Result<PathBuf> {
    if wal_path.is_dir() {
        return new_folder(wal_path, "thermocline-scratch");
    }
    if is_there(wal_path) {
        return Err(Error::InvalidArgument(format!(
            "{} is there already, and is no folder; a temporary database needs a folder for its logs",
            wal_path.display()
        )));
    }
    Ok(wal_path.to_path_buf())
}

/// Whether something has this name, be it a link that leads nowhere.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Removes a folder with all that it holds, or a file; nothing there is no error.
///
/// # Errors
/// [`Error::Io`] if something cannot be removed.
#[expect(
    clippy::disallowed_methods,
    reason = "a run's own temporary files, outside the engine's simulated world"
)]
pub fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    match removed {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", path, source))
        }
        _ => Ok(()),
    }
}

/// Removes all that a folder holds, and not the folder, nor a link that leads to it; no folder there is no error.
///
/// # Errors
/// [`Error::Io`] if something cannot be removed.
pub fn empty(folder: &Path) -> Result<()> {
    let failed = |source| Error::io("empty", folder, source);
    let entries = match folder.read_dir() {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        remove(&entry.map_err(failed)?.path())?;
    }
    Ok(())
}

fn new_folder(place: &Path, name: &str) -> Result<PathBuf> {
    let process = std::process::id();
    let mut number = 0u32;
    loop {
        let path = place.join(format!("{name}-{process}-{number}"));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(Error::io("make the temporary folder", &path, e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_differ_and_go() {
        let (one, two) = (
            Scratch::new("scratch-of-two").unwrap(),
            Scratch::new("scratch-of-two").unwrap(),
        );
        assert_ne!(one.path(), two.path());
        let path = one.path().to_path_buf();
        // Names are used again, so no other test has this one.
        drop(one);
        assert!(!path.exists());
        let path = two.path().to_path_buf();
        two.remove().unwrap();
        assert!(!path.exists());
    }

    /// Who took one for his own would remove it at the end.
    #[test]
    fn a_file_or_a_link_of_somebody_else_is_refused_and_stays() {
        let elsewhere = Scratch::new("scratch-test").unwrap();
        let link = elsewhere.path().join("link");
        let file = std::env::current_exe().unwrap();
        for leads_to in [file, elsewhere.path().join("nowhere")] {
            std::os::unix::fs::symlink(leads_to, &link).unwrap();
            let mut home = Scratch::new("scratch-test").unwrap();
            for refused in [home.logs(Some(&link)), home.region(Some(&link))] {
                let error = refused.unwrap_err().to_string();
                assert!(error.contains("is there already"), "{error}");
            }
            drop(home);
            assert!(is_there(&link));
            remove(&link).unwrap();
        }
    }

    /// A region in shared memory takes the machine's memory for as long as it is there.
    #[test]
    fn what_cannot_be_removed_keeps_nothing_else() {
        let place = Scratch::new("scratch-test").unwrap();
        let region = new_folder(place.path(), "region").unwrap();
        let scratch = Scratch {
            // Below a file nothing can be, nor be removed.
            path: std::env::current_exe().unwrap().join("nothing"),
            elsewhere: vec![region.clone()],
            keep: false,
        };
        assert!(scratch.remove().is_err());
        assert!(!is_there(&region));
    }

    #[test]
    fn a_region_elsewhere_goes_too() {
        let mut home = Scratch::new("scratch-test").unwrap();
        let elsewhere = Scratch::new("scratch-test").unwrap();
        assert_eq!(home.region(None).unwrap(), None);
        let region = home.region(Some(elsewhere.path())).unwrap().unwrap();
        assert!(region.is_dir() && region.starts_with(elsewhere.path()));
        assert!(home.region(Some(&elsewhere.path().join("new"))).is_ok());
        assert_eq!(elsewhere.path().read_dir().unwrap().count(), 1);
        drop(home);
        let mut home = Scratch::new("scratch-test").unwrap();
        home.region(Some(elsewhere.path())).unwrap();
        let logs = home.logs(Some(elsewhere.path())).unwrap().unwrap();
        assert!(logs.is_dir() && logs.starts_with(elsewhere.path()));
        assert_eq!(elsewhere.path().read_dir().unwrap().count(), 2);
        drop(home);
        assert_eq!(elsewhere.path().read_dir().unwrap().count(), 0);
    }
}
