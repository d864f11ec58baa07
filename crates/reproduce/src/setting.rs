//! Where and how experiments run.

use std::path::PathBuf;
use std::sync::Arc;

use thermocline_base::options::Emulation;
use thermocline_base::{Error, Result};
use thermocline_bench::Watch;

/// Where an experiment says how far it is.
pub type Tell<'a> = &'a mut dyn FnMut(&str);

/// Where and how experiments run.
#[derive(Debug, Clone)]
pub struct Setting {
    /// A folder on the SSD for what they write; they leave nothing there.
    pub dir: PathBuf,
    /// A folder for persistent memory; `None` for the same.
    pub pm_dir: Option<PathBuf>,
    /// How persistent memory is slowed down.
    pub emulate: Emulation,
    /// So small that numbers mean nothing: for tests.
    pub quick: bool,
    /// Whoever stops it ends experiments early: they fail soon, and have left nothing behind then.
    pub watch: Arc<Watch>,
}

impl Setting {
    /// Asked before each longer step.
    ///
    /// # Errors
    /// [`ended_early`] if the watch was stopped.
    pub(crate) fn goes_on(&self) -> Result<()> {
        match self.watch.is_stopped() {
            true => Err(ended_early()),
            false => Ok(()),
        }
    }
}

/// Whoever was ended early has no numbers that could be trusted.
pub(crate) fn ended_early() -> Error {
    Error::InvalidArgument("the experiment was ended early".to_string())
}

#[cfg(test)]
impl Setting {
    /// For tests, in this folder.
    pub(crate) fn quick(dir: &std::path::Path) -> Setting {
        Setting {
            dir: dir.to_path_buf(),
            pm_dir: None,
            emulate: Emulation::None,
            quick: true,
            watch: Arc::default(),
        }
    }
}

/// A folder for tests: on tmpfs where there is one, since what is measured means nothing there.
#[cfg(test)]
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    folder.expect("a temporary folder")
}
