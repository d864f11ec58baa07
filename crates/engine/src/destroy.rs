//! Removing a database: the files that it has made, and no others.
//!
//! # Steps, under the folder's lock
//! 1. *Look*: who may read or write it is refused, and so is what cannot be read. Nothing has been removed then.
//! 2. *Remove* tables and blob files (`catalog::files`), logs, the region, and notes of how it was made. Sync their folders.
//! 3. *Remove* the manifests and, last, `CURRENT` (`version::manifest::destroy`).
//!
//! # Whose a file is
//! What the manifest names is the database's. All else under a name such as ours is only if its bytes say so. A region has to
//! have the id that the manifest has, and outside of the folder know no chain that the manifest does not. Logs in a folder that
//! databases share are claimed as for an open, so those of a folder that this one is a copy of are refused and stay.
//!
//! # Crash argument
//! Up to the end of step 3 there is a `CURRENT`, so whoever calls again goes on; what is gone already is passed over. As soon
//! as one thing is gone that the manifest names no open succeeds: each looks for all of it. Nothing of step 2 comes back
//! once step 3 begins.
//!
//! # What stays
//! The folder, strangers' files in it, and `LOCK`: who waits to lock that would get the lock of a file without a name, and
//! somebody else that of the next one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use thermocline_base::options::{Options, PM_MIN, RegionDemand};
use thermocline_base::{Error, Result};
use thermocline_catalog::files;
use thermocline_env::frugal::Frugal;
use thermocline_env::{Env, Storage};
use thermocline_halloc::{Space, SpaceSpec};
use thermocline_pm::{Emulation, Place, Region, RegionSpec};
use thermocline_sst::{FileName, sites};
use thermocline_version::format::manifest_no;
use thermocline_version::{LOCK_NAME, Manifest, NO_REGION, State, manifest};

use crate::layout::{self, REGION_NAME};
use crate::recover::check_witness;
use crate::wal::logs::remove_all;
use crate::wal::{Claims, LogDirs};

/// Removes the database in `dir`: all that it has made there, its region and its logs, wherever those lie by what it remembers.
///
/// # Errors
/// [`Error::InvalidArgument`] if there is no database, or its logs are those of another folder, of which this one is a copy;
/// [`Error::Locked`] if it is open, or somebody reads on after it was closed; [`Error::Busy`] if another database has its region
/// open; [`Error::Corruption`] of the manifest, of a region that says no more whose it is, and of one elsewhere with which another
/// copy of the folder has gone on; those of the file system. Before the first file goes all of it is looked at; whoever gets an
/// error of removing may call again.
pub fn destroy(env: &Env, dir: &Path) -> Result<()> {
    let env = &Env {
        storage: Frugal::new(env.storage.clone()),
        ..env.clone()
    };
    let storage = &*env.storage;
    if !storage.is_dir(dir)? || !Manifest::exists(storage, dir)? {
        return Err(Error::InvalidArgument(format!(
            "there is no database in {}",
            dir.display()
        )));
    }
    let _lock = storage.lock(&dir.join(LOCK_NAME))?;
    // Of what they have yet to open nobody knows. Where it cannot be found out there is nobody.
    if storage.is_folder_held(dir).unwrap_or(false) {
        return Err(Error::Locked {
            path: dir.to_path_buf(),
            pid: 0,
        });
    }
    let state = match Manifest::open(env.storage.clone(), dir, true) {
        Ok((_, state)) => state,
        // Where an earlier call has ended.
        Err(_) if is_bare(storage, dir)? => return manifest::destroy(storage, dir),
        Err(error) => return Err(error),
    };
    remove(env, dir, &state)?;
    manifest::destroy(storage, dir)
}

/// Steps 1 and 2.
fn remove(env: &Env, dir: &Path, state: &State) -> Result<()> {
    let storage = &*env.storage;
    let ids = state.db_id().zip(state.region_id()).zip(state.origins());
    let Some(((db_id, region_id), origins)) = ids else {
        return Err(Error::corruption(
            "the manifest does not begin with a creation",
            dir.display().to_string(),
            0,
            "the ids of database and region",
            "none",
        ));
    };
    let dirs = LogDirs::of(dir, &Options::default(), state);
    let is_logged = region_id == NO_REGION;
    let _claims = match is_logged {
        true => Some(Claims::make(storage, dir, &dirs, state, false)?),
        false => None,
    };
    let regions = regions(env, dir, state, &region_id)?;
    files::remove_all(storage, dir, state.version(), &origins)?;
    if is_logged {
        remove_all(storage, &dirs, &db_id)?;
    }
    for (place, _region) in regions {
        storage.remove(&place)?;
        storage.sync_dir(place.parent().unwrap_or(dir), sites::FILE_NAMED)?;
    }
    layout::forget_creation(storage, dir)?;
    thermocline_copies::forget_note(storage, dir)?;
    storage.sync_dir(dir, sites::FILE_NAMED)
}

/// The regions of the database, each kept from others: in its folder, and where the manifest remembers one.
fn regions(
    env: &Env,
    dir: &Path,
    state: &State,
    region_id: &[u8; 16],
) -> Result<Vec<(PathBuf, Region)>> {
    let storage = &*env.storage;
    let mut found: Vec<(PathBuf, Region)> = Vec::new();
    if *region_id == NO_REGION {
        return Ok(found);
    }
    let remembered = state.options().iter().find(|(name, _)| name == "pm_path");
    let remembered = remembered.map(|(_, place)| PathBuf::from(place));
    for place in [dir.join(REGION_NAME)].into_iter().chain(remembered) {
        if !storage.exists(&place)? {
            continue;
        }
        if let Some((before, _)) = found.first()
            && storage.is_same(before, &place)?
        {
            continue;
        }
        // Elsewhere a folder that this one is a copy of may have it, too.
        let knows = (place != dir.join(REGION_NAME)).then_some(state);
        if let Some(region) = own_region(env, dir, (&place, region_id), knows)? {
            found.push((place, region));
        }
    }
    Ok(found)
}

/// The region at `place`, if it has this id, or the id is noted for it and its making was cut short. One that knows a chain
/// which the state of who `knows` it has not is refused: another copy has gone on with it.
fn own_region(
    env: &Env,
    dir: &Path,
    (place, region_id): (&Path, &[u8; 16]),
    knows: Option<&State>,
) -> Result<Option<Region>> {
    let opened = Region::open(&RegionSpec {
        env: env.clone(),
        place: Place::Path(place.to_path_buf()),
        demand: RegionDemand::Any,
        capacity: PM_MIN,
        emulation: Emulation::None,
        read_only: false,
    });
    let region = match opened {
        // A folder, a link, a device.
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::InvalidInput => {
            return Ok(None);
        }
        opened => opened?,
    };
    match Space::region_id(&region) {
        Ok(found) if found != *region_id => return Ok(None),
        Ok(_) => {
            if let Some(state) = knows {
                let spec = SpaceSpec {
                    part_bytes_first: PM_MIN,
                    pm: region.len(),
                };
                let (space, _) = Space::open(region.clone(), region_id, spec, |_| true)?;
                check_witness(&space, state)?;
            }
        }
        Err(error) => {
            let noted = layout::noted_creation(&*env.storage, dir)?;
            if noted != Some(*region_id) || !Space::is_unformatted(&region)? {
                return Err(error);
            }
        }
    }
    Ok(Some(region))
}

/// Whether of a database there is nothing in `dir` but `CURRENT`.
fn is_bare(storage: &dyn Storage, dir: &Path) -> Result<bool> {
    let is_left = |name: &String| {
        manifest_no(name).is_some()
            || FileName::parse(name).is_some()
            || name == REGION_NAME
            || name.ends_with(".log")
    };
    let names = storage.list(dir)?;
    Ok(Manifest::id(storage, dir).is_ok() && !names.iter().any(is_left))
}
