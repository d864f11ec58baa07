//! A folder for one run that goes when the run ends.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use thermocline::{Error, Result};

/// A new, private folder in the system's place for temporary files. It is removed with all that
/// it holds when this is dropped, unless it is kept.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// Makes a folder whose name begins with `name`.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be made.
    pub fn new(name: &str) -> Result<Scratch> {
        let place = std::env::temp_dir();
        let process = std::process::id();
        let mut number = 0u32;
        loop {
            let path = place.join(format!("{name}-{process}-{number}"));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch { path, keep: false }),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(source) => {
                    return Err(Error::Io {
                        op: "make the temporary folder",
                        path,
                        offset: None,
                        source,
                    });
                }
            }
        }
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
        std::fs::remove_dir_all(&self.path).map_err(|source| Error::Io {
            op: "remove",
            path: self.path.clone(),
            offset: None,
            source,
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // Nobody is left to tell; the folder lies where temporary files are cleaned up.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_differ_and_go() {
        let (one, two) = (
            Scratch::new("scratch-test").unwrap(),
            Scratch::new("scratch-test").unwrap(),
        );
        assert_ne!(one.path(), two.path());
        let path = one.path().to_path_buf();
        drop(one);
        assert!(!path.exists());
        let path = two.path().to_path_buf();
        two.remove().unwrap();
        assert!(!path.exists());
    }
}
