//! Names of files, and what may lie in a database's folder.

use std::path::{Path, PathBuf};

use thermocline_base::options::Options;
use thermocline_base::{Error, Result};
use thermocline_env::Storage;

/// The file that is locked while the database is open.
pub const LOCK_NAME: &str = "LOCK";

/// The region's file, unless `pm_path` says otherwise.
pub const REGION_NAME: &str = "region.pm";

/// Where the region with this id lies.
pub(crate) fn region_path(
    storage: &dyn Storage,
    dir: &Path,
    options: &Options,
    region_id: &[u8; 16],
) -> Result<PathBuf> {
    let Some(path) = &options.pm_path else {
        return Ok(dir.join(REGION_NAME));
    };
    if storage.exists(path)? && storage.is_dir(path)? {
        let id: String = region_id.iter().map(|b| format!("{b:02x}")).collect();
        return Ok(path.join(format!("thermocline-{id}.pm")));
    }
    Ok(path.clone())
}

/// Refuses a folder that is somebody else's: not empty, and without a database.
pub(crate) fn check_folder(storage: &dyn Storage, dir: &Path) -> Result<()> {
    if !storage.is_dir(dir)? {
        return Err(Error::InvalidArgument(format!(
            "{} is a file, not a folder; a database is a folder",
            dir.display()
        )));
    }
    if let Some(stranger) = storage.list(dir)?.into_iter().find(|name| !is_ours(name)) {
        return Err(Error::InvalidArgument(format!(
            "{} is not a Thermocline database and not empty (it has '{stranger}'); choose an empty \
             or new folder",
            dir.display()
        )));
    }
    Ok(())
}

/// What an interrupted creation can leave behind.
fn is_ours(name: &str) -> bool {
    name == LOCK_NAME
        || name == REGION_NAME
        || name.starts_with("CURRENT")
        || name.starts_with("MANIFEST-")
}
