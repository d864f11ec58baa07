//! Where and how experiments run.

use std::path::PathBuf;

use thermocline_base::options::Emulation;

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
