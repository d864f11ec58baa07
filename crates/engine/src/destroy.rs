//! Destroying a database: the files that it has made go, and no others.
//!
//! # Steps, under the folder's lock
//! 1. *Look*. Whoever may write or read the database is refused, and so is what cannot be read, or may be another database's.
//!    Nothing goes before all of it was looked at. What a crash has left half done in a region is mended, as by any open.
//! 2. *Doom* (`version::manifest::destroy`). `CURRENT` gets another name, durably. From now on there is no database.
//! 3. *Remove* tables and blob files, logs, the region, and notes of how the database was made. Sync all their folders.
//! 4. *Finish*. The manifests go, and the mark last.
//!
//! # Whose a file is
//! Only ordinary files that lie in the folder itself are looked at: copies and backups lie in folders of their own, and those
//! are not entered. What somebody else has there stays, also what may not be read, unless the manifest names it.
//! - *Tables, blob files and manifests*: the manifest names them, or their bytes say whose they are (`catalog::files`).
//! - *Logs*: their bytes say whose they are. In the database's own folder they are its own. Elsewhere a copy of the folder finds
//!   the same ones, so they are claimed as for an open, and a file beside them must name this very folder
//!   (`wal::Claims::check_noted`).
//! - *The region*: it has the id that the manifest names. A copy of the folder has that id, too. So a region that lies outside of
//!   the folder goes only if the caller names it (`pm_path`): what is remembered of it is no reason to remove it, as whoever
//!   copies a folder may not know of it. If the folder has a region of its own, and no other is named, no other is looked at. And
//!   wherever it lies, it goes only if an open would take it: it knows no chain that the manifest does not (`recover`), and no
//!   memtable. So one with which another copy of the folder has gone on stays, and both can still be opened.
//!
//! So a folder that is a copy of another one takes nothing along that the other needs, unless the caller names a region that
//! both of them have in common, and neither has written to it since. Then it belongs to both, and an open of the one for writing
//! would take it from the other, too.
//!
//! # Why an open database is refused
//! The folder's lock is that of an open for writing, so it is given to nobody while the database is open, be it for reading. Who
//! reads without that lock, or reads on after a close, holds the folder (`layout::lock_to_read`, `close`), and that is asked for
//! under the lock. Region and logs elsewhere have locks of their own, which are taken and kept.
//!
//! # Crash argument
//! A crash within step 1 or 2 leaves the database as it was, or doomed with all its files. Behind it the mark and the manifest
//! say what there was, and where. Whoever calls again with the same options looks at the same places; what is gone is passed
//! over. If he names another place for the region, where there is none, and it still lies in the folder or where it was last,
//! he is refused: with the manifest gone nobody would know of it. What was removed by a call before, and perhaps not durably,
//! is made durable by the syncs of step 3, which are done in each call, also in folders in which nothing is left. Only then the
//! manifest goes, without which nobody would know of them. What is mended in a region says nothing of whose it is, so it is
//! known as ours or not, as before.
//!
//! An open of what a call has left says that the database is being destroyed, and writes nothing (`layout`), whether it would
//! make a new one or not.
//!
//! # What stays
//! The folder, strangers' files in it, and `LOCK`: whoever waits to lock that would get the lock of a file without a name, and
//! somebody else that of the next one. A region or a folder of logs that is not found stays where it is.

use std::io::ErrorKind::{InvalidInput, PermissionDenied};
use std::path::{Path, PathBuf};

use thermocline_base::options::{Options, PM_MIN, Preset, RegionDemand};
use thermocline_base::{Error, Result};
use thermocline_catalog::files;
use thermocline_env::Storage;
use thermocline_env::frugal::Frugal;
use thermocline_halloc::{Space, SpaceSpec};
use thermocline_memtable::Descriptor;
use thermocline_pm::{Emulation, Place, Region, RegionSpec};
use thermocline_sst::sites;
use thermocline_version::{Doomed, LOCK_NAME, Manifest, NO_REGION, Origins, State};

use crate::create::{is_leftover, lacks_region};
use crate::layout::{self, Begun, REGION_NAME};
use crate::open::spec::live_owners;
use crate::recover;
use crate::wal::{Claimant, Claims, LogDirs, logs};
use crate::world::World;

/// Removes the database in `dir` for good: all that it has made there, its logs, wherever they lie, and its region, if that lies
/// in the folder or where `options` say (`pm_path`).
///
/// # Errors
/// [`Error::InvalidArgument`] if there is no database, if its region lies elsewhere and `options` do not name it, if there is
/// none where they say, and if its logs may be those of another folder; [`Error::Locked`] if it is open, or somebody reads on
/// after it was closed; [`Error::Busy`] if another database has its region open; [`Error::Corruption`] of the manifest, and of a
/// region that does not say whose it is, is another database's, or is one with which another copy of the folder has gone on.
/// Nothing is removed then. Those of the file system, after which the call may be made again.
pub fn destroy(dir: &Path, world: &World, options: &Options) -> Result<()> {
    let options = places(options)?;
    layout::check_path(dir)?;
    let mut world = world.clone();
    world.env.storage = Frugal::new(world.env.storage.clone());
    let storage = &*world.env.storage;
    // Before anything is made in somebody's folder.
    let is_there = storage.is_dir(dir)?
        && (Manifest::exists(storage, dir)? || Doomed::was_begun(storage, dir)?);
    if !is_there {
        return Err(layout::no_database(storage, dir));
    }
    let lasting = layout::lasting(storage, dir);
    let dir = lasting.as_path();
    let _lock = storage.lock(&dir.join(LOCK_NAME))?;
    // What readers have yet to open nobody knows.
    if storage.is_folder_held(dir)? {
        return Err(Error::Locked {
            path: dir.to_path_buf(),
            pid: 0,
        });
    }
    let doomed = Doomed::find(storage, dir)?;
    let doomed = doomed.ok_or_else(|| layout::no_database(storage, dir))?;
    let found = match &doomed.state {
        Some(state) => Some(Look::new(&world, dir, &options, &doomed, state)?.look()?),
        None => None,
    };
    doomed.begin(storage, dir)?;
    if let Some(found) = &found {
        found.remove(storage, dir)?;
    }
    doomed.finish(storage, dir)
}

/// What counts of the options: where region and logs may lie. Whoever destroys a database need not know what else it was opened
/// with, so a preset that has no region, or no logs, refuses neither place.
///
/// # Errors
/// [`Error::InvalidArgument`] for an empty path; that of the system if there is no working folder.
fn places(options: &Options) -> Result<Options> {
    let region = Options {
        pm_path: options.pm_path.clone(),
        // Nothing is to be remembered.
        read_only: true,
        ..Options::default()
    };
    region.validate()?;
    let logs = Options {
        wal_path: options.wal_path.clone(),
        ..Options::preset(Preset::Leveled)
    };
    logs.validate()?;
    layout::absolute(Options {
        wal_path: logs.wal_path,
        ..region
    })
}

/// What there is of a database beside its manifest. Others are kept from it.
struct Found<'s> {
    state: &'s State,
    db_id: [u8; 16],
    origins: Origins,
    logs: Option<(LogDirs, Claims)>,
    region: Option<(PathBuf, Option<Region>)>,
    /// In these it may have been.
    folders: Vec<PathBuf>,
    /// That of them which the caller names: he can see to it that it can be synced.
    named: Option<PathBuf>,
}

impl Found<'_> {
    /// Step 3.
    fn remove(&self, storage: &dyn Storage, dir: &Path) -> Result<()> {
        files::remove_all(storage, dir, self.state.version(), &self.origins)?;
        if let Some((dirs, _claims)) = &self.logs {
            logs::remove_all(storage, dirs, &self.db_id)?;
        }
        if let Some((place, _held)) = &self.region {
            storage.remove(place)?;
        }
        for folder in &self.folders {
            self.sync(storage, folder)?;
        }
        // By the note a region is known that was never completed, so it goes behind that.
        pass_over(layout::forget_creation(storage, dir))?;
        pass_over(thermocline_copies::forget_note(storage, dir))?;
        storage.sync_dir(dir, sites::FILE_NAMED)
    }

    /// Makes durable what this call, or one before, has removed from a folder. The place that is only remembered may be where we
    /// may not look, or where a file lies by now: then there is nothing of ours, and nobody could repeat the call else. That is
    /// not passed over of a folder from which this call has removed something, nor of one that the caller names.
    fn sync(&self, storage: &dyn Storage, folder: &Path) -> Result<()> {
        let synced = match storage.is_dir(folder) {
            Ok(true) => storage.sync_dir(folder, sites::FILE_NAMED),
            looked => looked.map(drop),
        };
        let removed_from = self.region.as_ref().and_then(|(place, _)| place.parent());
        match [removed_from, self.named.as_deref()].contains(&Some(folder)) {
            true => synced,
            false => pass_over(synced),
        }
    }
}

/// Step 1: what it is done with.
struct Look<'s> {
    world: &'s World,
    dir: &'s Path,
    options: &'s Options,
    state: &'s State,
    db_id: [u8; 16],
    region_id: [u8; 16],
    origins: Origins,
    /// Whether an earlier call may have removed some.
    is_begun: bool,
}

impl<'s> Look<'s> {
    fn new(
        world: &'s World,
        dir: &'s Path,
        options: &'s Options,
        doomed: &Doomed,
        state: &'s State,
    ) -> Result<Look<'s>> {
        let ids = state.region_id().zip(state.origins());
        let Some((region_id, origins)) = ids else {
            return Err(Error::corruption(
                "the manifest does not begin with a creation",
                dir.display().to_string(),
                0,
                "the ids of database and region",
                "none",
            ));
        };
        Ok(Look {
            world,
            dir,
            options,
            state,
            db_id: doomed.db_id,
            region_id,
            origins,
            is_begun: doomed.is_begun,
        })
    }

    fn storage(&self) -> &'s dyn Storage {
        &*self.world.env.storage
    }

    fn look(&self) -> Result<Found<'s>> {
        let storage = self.storage();
        let mut found = Found {
            state: self.state,
            db_id: self.db_id,
            origins: self.origins.clone(),
            logs: None,
            region: None,
            folders: Vec::new(),
            named: None,
        };
        if self.region_id == NO_REGION {
            let dirs = LogDirs::of(self.dir, self.options, self.state);
            let claims = Claims::make(storage, self.dir, &dirs, self.state, Claimant::Writer)?;
            claims.check_noted(storage, &dirs, self.is_begun)?;
            found.logs = Some((dirs, claims));
        } else if self.world.sim.is_none() {
            let (place, remembered) = (self.place()?, self.remembered());
            let places = [Some(&place), remembered.as_ref()];
            let folders = places.into_iter().flatten().filter_map(|at| at.parent());
            found.folders = folders.map(Path::to_path_buf).collect();
            let is_named = self.options.pm_path.is_some();
            found.named = place.parent().filter(|_| is_named).map(Path::to_path_buf);
            found.region = self.region(place)?;
        }
        Ok(found)
    }

    /// Where the region was when the database was last opened for writing, if that was not in its folder.
    fn remembered(&self) -> Option<PathBuf> {
        // Of a copy that has none yet it is where its original had one.
        if lacks_region(self.state) {
            return None;
        }
        let mut options = self.state.options().iter();
        let remembered = options.find(|(name, _)| name == "pm_path");
        remembered.map(|(_, place)| PathBuf::from(place))
    }

    /// Where the region is, or was, that goes.
    fn place(&self) -> Result<PathBuf> {
        let storage = self.storage();
        if self.options.pm_path.is_some() {
            let given = layout::region_path(storage, self.dir, self.options, &self.region_id)?;
            if storage.exists(&given)? || lacks_region(self.state) {
                return Ok(given);
            }
            let elsewhere = self.elsewhere()?;
            // An earlier call has removed it, if it is nowhere else.
            if self.is_begun && elsewhere.is_none() {
                return Ok(given);
            }
            let but = match elsewhere {
                Some(place) => {
                    let folder = place.parent().unwrap_or(self.dir);
                    let whose = match storage.is_within(folder, self.dir)? {
                        true => "",
                        false => {
                            " (if the folder was copied, that is its original's: leave it alone, and remove the copy as \
                             any folder)"
                        }
                    };
                    format!(", but one with its id at {}{whose}", place.display())
                }
                None => String::new(),
            };
            return Err(Error::InvalidArgument(format!(
                "the database in {} has no persistent memory region at {}, where pm-path says{}; give the right \
                 place, or none if it lies in the folder or is lost",
                self.dir.display(),
                given.display(),
                but
            )));
        }
        let own = self.dir.join(REGION_NAME);
        // Another one's hides it from an open, which tells of that; it must not be lost sight of here.
        if storage.exists(&own)? && self.has_our_id(&own)? {
            return Ok(own);
        }
        match self.remembered() {
            Some(place) if is_there(storage, &place)? && self.has_our_id(&place)? => {
                let folder = place.parent().unwrap_or(self.dir);
                match storage.is_within(folder, self.dir)? {
                    true => Ok(place),
                    false => Err(Error::InvalidArgument(format!(
                        "the persistent memory region of the database in {0} lies outside of that folder, at {1}: give \
                         {1} as pm-path to remove it, too. If the folder was copied, its original has that region, and \
                         the copy is removed as any folder is",
                        self.dir.display(),
                        place.display()
                    ))),
                }
            }
            _ => Ok(own),
        }
    }

    /// Where a region with the id lies, if that is in the folder, or where it was last.
    fn elsewhere(&self) -> Result<Option<PathBuf>> {
        let own = self.dir.join(REGION_NAME);
        for place in [Some(own), self.remembered()].into_iter().flatten() {
            if !is_there(self.storage(), &place)? {
                continue;
            }
            match self.has_our_id(&place) {
                // Whoever has it open has another folder: ours is locked.
                Ok(false) | Err(Error::Busy(_)) => {}
                looked => return looked.map(|_| Some(place)),
            }
        }
        Ok(None)
    }

    /// Whether the file at `place` is a region that has the id which the manifest names.
    fn has_our_id(&self, place: &Path) -> Result<bool> {
        let region = match Region::open(&self.spec(place, true)) {
            Err(error) if is_of_a_stranger(&error) => return Ok(false),
            opened => opened?,
        };
        Ok(Space::region_id(&region).is_ok_and(|id| id == self.region_id))
    }

    /// The region at `place`, if it is there and goes, and what keeps others from it.
    fn region(&self, place: PathBuf) -> Result<Option<(PathBuf, Option<Region>)>> {
        let storage = self.storage();
        if !storage.exists(&place)? {
            return Ok(None);
        }
        if lacks_region(self.state) {
            // Of a copy whose first open was interrupted. What cannot be looked at stays.
            let noted = layout::noted_creation(storage, self.dir).ok().flatten();
            let counts = |noted: Begun| noted.counts_at(storage, &place, self.dir).unwrap_or(false);
            let is_noted = noted
                .filter(|noted| noted.id == self.region_id)
                .is_some_and(counts);
            let is_ours = || is_leftover(storage, &place, &self.spec(&place, true), self.region_id);
            let goes = is_noted && is_ours().unwrap_or(false);
            return Ok(goes.then_some((place, None)));
        }
        let is_given = self.options.pm_path.is_some();
        let region = match Region::open(&self.spec(&place, false)) {
            // Ours may be one that may be read, and not written to.
            Err(error) if !is_given && is_of_a_stranger(&error) && !self.has_our_id(&place)? => {
                return Ok(None);
            }
            opened => opened?,
        };
        // If it is named and has another id, that is an error.
        if !is_given && Space::region_id(&region)? != self.region_id {
            return Ok(None);
        }
        self.check(&region)?;
        Ok(Some((place, Some(region))))
    }

    fn spec(&self, place: &Path, read_only: bool) -> RegionSpec {
        RegionSpec {
            env: self.world.env.clone(),
            place: Place::Path(place.to_path_buf()),
            demand: RegionDemand::Any,
            capacity: PM_MIN,
            emulation: Emulation::None,
            read_only,
        }
    }

    /// Refuses a region that an open would refuse, because another copy of the folder has gone on with it, and one that has a
    /// memtable which the manifest does not know: the manifest names it before that.
    fn check(&self, region: &Region) -> Result<()> {
        let spec = SpaceSpec {
            part_bytes_first: PM_MIN,
            pm: region.len(),
        };
        let live = live_owners(self.state);
        let is_live = |owner| live.contains(&owner);
        let (space, _) = Space::open(region.clone(), &self.region_id, spec, is_live)?;
        recover::check_witness(&space, self.state)?;
        recover::check_owners(&space, self.state)?;
        let next = self.state.next_ids().memtable;
        let found = Descriptor::read_all(&space, &self.db_id)?;
        match found.iter().map(|found| found.memtable).max() {
            Some(newest) if newest >= next => Err(Error::corruption(
                "the region has a memtable that the manifest does not know: the manifest lost its last edit, or is an \
                 older copy of the database's",
                region.path().display().to_string(),
                0,
                format!("memtables below {next}"),
                format!("memtable {newest}"),
            )),
            _ => Ok(()),
        }
    }
}

/// Whether something is at a place that is remembered. Where we may not look is nothing of ours.
fn is_there(storage: &dyn Storage, place: &Path) -> Result<bool> {
    match storage.exists(place) {
        Err(error) if is_of_a_stranger(&error) => Ok(false),
        looked => looked,
    }
}

/// Whether a file cannot be looked at because it is none of ours: a folder, a link, a device, or what we may not read.
fn is_of_a_stranger(error: &Error) -> bool {
    let kinds = [InvalidInput, PermissionDenied];
    matches!(error, Error::Io { source, .. } if kinds.contains(&source.kind()))
}

/// What may not be read or removed is a stranger's, whatever its name.
fn pass_over(done: Result<()>) -> Result<()> {
    match done {
        Err(error) if is_of_a_stranger(&error) => Ok(()),
        done => done,
    }
}
