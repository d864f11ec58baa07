//! Making a new database.

use std::path::{Path, PathBuf};

use thermocline_base::options::Options;
use thermocline_base::size::index;
use thermocline_base::{Error, Result};
use thermocline_env::{OpenMode, Storage};
use thermocline_halloc::{Space, SpaceSpec};
use thermocline_memtable::Descriptor;
use thermocline_pm::{Place, Region, RegionSpec, SITE_CREATE, SimPm};
use thermocline_version::{Change, Manifest, NO_REGION, NextIds, State, VersionEdit};

use crate::layout::{self, Begun, REGION_NAME};
use crate::open::spec::{check_dram, region_spec, space_spec, stored};
use crate::wal::check_place;
use crate::world::World;

/// There was no database: makes its folder, or says why it cannot be made. Returns whether somebody else has made one
/// meanwhile: the folder is his then, and no stranger's.
pub(crate) fn prepare_or_find(
    storage: &dyn Storage,
    dir: &Path,
    options: &Options,
) -> Result<bool> {
    match refuse_or_prepare(storage, dir, options) {
        Ok(()) => Ok(false),
        Err(_) if storage.is_dir(dir)? && Manifest::exists(storage, dir)? => Ok(true),
        Err(refused) => Err(refused),
    }
}

fn refuse_or_prepare(storage: &dyn Storage, dir: &Path, options: &Options) -> Result<()> {
    if options.read_only || !options.create_if_missing {
        return Err(layout::no_database(storage, dir));
    }
    if storage.exists(dir)? {
        layout::check_folder(storage, dir, options)?;
    }
    // One that exists may have been made by a process that ended before its name was durable.
    storage.create_dir_all(dir)
}

/// Makes a new database: first the region, then the manifest that names it. The database exists
/// once the manifest does.
pub(crate) fn create(world: &World, dir: &Path, options: &Options) -> Result<()> {
    let storage = &world.env.storage;
    // Under the lock: another process may have made a database here meanwhile, and begun to destroy it.
    layout::refuse_half_destroyed(&**storage, dir)?;
    let mut db_id = [0; 16];
    let mut region_id = [0; 16];
    world.env.random.fill(&mut db_id)?;
    if options.in_dram() {
        // Before anything is made: the manifest remembers the options.
        check_dram(world, options)?;
        check_place(&**storage, options, &db_id)?;
        forget_region(world, dir, options)?;
        let first = first_edit(db_id, NO_REGION, options);
        Manifest::create(storage.clone(), dir, &first)?;
        return layout::forget_creation(&**storage, dir);
    }
    world.env.random.fill(&mut region_id)?;
    let options = make_region(world, dir, options, &region_id, (&db_id, 1))?;
    let first = first_edit(db_id, region_id, &options);
    Manifest::create(storage.clone(), dir, &first)?;
    layout::forget_creation(&**storage, dir)
}

/// What there is in a new database.
fn first_edit(db_id: [u8; 16], region_id: [u8; 16], options: &Options) -> VersionEdit {
    VersionEdit::new()
        .with(Change::Created { db_id, region_id })
        .with(Change::Options(stored(options)))
        .with(Change::ColumnFamilyCreated {
            id: 0,
            name: "default".into(),
        })
        .with(Change::MemtableCreated { id: 1 })
        // The first chain is recorded when the first write needs it.
        .with(Change::NextIds(NextIds {
            chain: 1,
            memtable: 2,
            cf: 1,
            incarnation: 1,
            file: 0,
        }))
}

/// Whether this is a copy that was never opened for writing: its region has yet to be made. Every other
/// database names a memtable.
pub(crate) fn lacks_region(state: &State) -> bool {
    state.memtables().is_empty()
}

/// Makes the region of a copy that is opened for writing for the first time. One edit says that it has
/// one; before it, the note of a creation lets the next open begin anew.
pub(crate) fn make_missing_region(
    world: &World,
    dir: &Path,
    options: &Options,
    manifest: &mut Manifest,
) -> Result<()> {
    let state = manifest.state();
    let (Some(db_id), Some(region_id)) = (state.db_id(), state.region_id()) else {
        return Ok(());
    };
    let id = state.next_ids().memtable;
    let options = match region_id {
        NO_REGION => {
            check_dram(world, options)?;
            check_place(&*world.env.storage, options, &db_id)?;
            options.clone()
        }
        _ => make_region(world, dir, options, &region_id, (&db_id, id))?,
    };
    let edit = VersionEdit::from(Change::Options(stored(&options)));
    manifest.append(&edit.with(Change::MemtableCreated { id }))
}

/// As [`make_missing_region`], in memory, for whoever only reads: nothing is written. Gives the world and the
/// state of a database that has this region.
pub(crate) fn region_in_memory(
    world: &World,
    dir: &Path,
    options: &Options,
    state: &State,
) -> Result<(World, State)> {
    let mut state = state.clone();
    let id = state.next_ids().memtable;
    state.apply(&Change::MemtableCreated { id }.into())?;
    if state.region_id() == Some(NO_REGION) {
        return Ok((world.clone(), state));
    }
    let capacity = options.pm_region.part_bytes_first.min(options.pm);
    let world = World {
        sim: Some(SimPm::standing_in(capacity.next_multiple_of(64))),
        ..world.clone()
    };
    let options = Options {
        read_only: false,
        ..options.clone()
    };
    if let (Some(db_id), Some(region_id)) = (state.db_id(), state.region_id()) {
        make_region(&world, dir, &options, &region_id, (&db_id, id))?;
    }
    Ok((world, state))
}

/// Makes a region with a descriptor for one memtable of the database. Gives the options, which say
/// where it lies unless that is the database's folder.
fn make_region(
    world: &World,
    dir: &Path,
    options: &Options,
    region_id: &[u8; 16],
    (db_id, memtable): (&[u8; 16], u64),
) -> Result<Options> {
    let storage = &world.env.storage;
    let spec = region_spec(world, dir, options, region_id)?;
    let mut options = options.clone();
    if let Some(path) = spec.place.path() {
        layout::check_new_region(path)?;
        let own = dir.join(REGION_NAME);
        let begun = layout::noted_creation(&**storage, dir)?;
        let begun_id = begun.as_ref().map(|begun| begun.id);
        for place in places(world, dir, (&options, path), begun.as_ref())? {
            if storage.exists(&place)? {
                let noted = match &begun {
                    Some(begun) => begun.counts_at(&**storage, &place, dir)?,
                    None => false,
                };
                remove_leftover(&**storage, &place, &spec, begun_id.filter(|_| noted))?;
                // Before the note changes: without it nobody knows whose the region was, should the power go.
                let folder = place.parent().unwrap_or(dir);
                storage.sync_dir(folder, SITE_CREATE)?;
            }
        }
        if let Some(begun) = &begun {
            remove_elsewhere(&**storage, &spec, begun)?;
        }
        let elsewhere = (path != own).then_some(path);
        layout::note_creation(&**storage, dir, region_id, elsewhere)?;
        options.pm_path = elsewhere.map(Path::to_path_buf);
    }
    let space_spec = space_spec(&options);
    let region = Region::create(&spec, Space::first_part_bytes(&space_spec))?;
    let space = Space::create(region, region_id, space_spec)?;
    Descriptor::create(&space, db_id, memtable)?;
    Ok(options)
}

/// Where a region may lie that is in the way of one at `path`, or that the creation noted in this folder has left, were it one of
/// an earlier version, whose note has no place.
fn places(
    world: &World,
    dir: &Path,
    (options, path): (&Options, &Path),
    begun: Option<&Begun>,
) -> Result<Vec<PathBuf>> {
    // An open looks into the folder first, so what lies there must not be another region.
    let mut places = vec![path.to_path_buf(), dir.join(REGION_NAME)];
    // What lies in a folder for regions may be the original's by now.
    if let Some(begun) = begun.filter(|begun| !begun.is_copied) {
        // In a folder for regions its name was another one: each has its id there.
        let storage = &*world.env.storage;
        places.push(layout::region_path(storage, dir, options, &begun.id)?);
    }
    Ok(places)
}

/// Of a database that is to have no region: removes the one that an earlier creation here has begun, with another preset.
/// Nobody would know afterwards whose it is.
fn forget_region(world: &World, dir: &Path, options: &Options) -> Result<()> {
    let storage = &*world.env.storage;
    let Some(begun) = layout::noted_creation(storage, dir)? else {
        return Ok(());
    };
    let id = begun.id;
    let spec = region_spec(world, dir, options, &id)?;
    let Some(path) = spec.place.path() else {
        return Ok(());
    };
    for place in places(world, dir, (options, path), Some(&begun))? {
        // What cannot be looked at stays, and is in nobody's way.
        if storage.exists(&place)? && is_leftover(storage, &place, &spec, id).unwrap_or(false) {
            storage.remove(&place)?;
            storage.sync_dir(place.parent().unwrap_or(dir), SITE_CREATE)?;
        }
    }
    remove_elsewhere(storage, &spec, &begun)
}

/// Removes the region that the noted creation has left at the place that its note has: the next one may lie at another place, and
/// nobody would know of the first. A note that was copied with its folder has none (`layout`). What cannot be looked at or removed
/// stays, and is in nobody's way.
fn remove_elsewhere(storage: &dyn Storage, spec: &RegionSpec, begun: &Begun) -> Result<()> {
    let Some(place) = &begun.place else {
        return Ok(());
    };
    let is_left = storage.exists(place).unwrap_or(false)
        && is_leftover(storage, place, spec, begun.id).unwrap_or(false);
    match place.parent() {
        Some(folder) if is_left && storage.remove(place).is_ok() => {
            storage.sync_dir(folder, SITE_CREATE)
        }
        _ => Ok(()),
    }
}

/// Removes the region that the creation noted in this folder left behind. Anything else is
/// somebody's, were it as empty: of another database, say, that has no data yet.
fn remove_leftover(
    storage: &dyn Storage,
    path: &Path,
    spec: &RegionSpec,
    begun: Option<[u8; 16]>,
) -> Result<()> {
    let is_blank = match begun {
        Some(id) => is_leftover(storage, path, spec, id)?,
        None => false,
    };
    if !is_blank {
        return Err(Error::InvalidArgument(format!(
            "{} exists, but no manifest names it: it is another program's file, or the region of a \
             database whose manifest is missing; move it away or choose another pm-path",
            path.display()
        )));
    }
    storage.remove(path)
}

/// Whether it is the region with this id, which was begun, and has no data.
pub(crate) fn is_leftover(
    storage: &dyn Storage,
    path: &Path,
    spec: &RegionSpec,
    id: [u8; 16],
) -> Result<bool> {
    let file = storage.open(path, OpenMode::Read)?;
    let len = file.len()?;
    // A region ends with a page; what is mapped does.
    let mut tail = vec![0; index(len % 4096)];
    file.read_exact_at(&mut tail, len - len % 4096)?;
    if tail.iter().any(|&b| b != 0) {
        return Ok(false);
    }
    let region = Region::open(&RegionSpec {
        place: Place::Path(path.to_path_buf()),
        read_only: true,
        ..spec.clone()
    })?;
    match Space::region_id(&region) {
        // Formatted, and no zone was ever attached.
        Ok(found) => Ok(found == id
            && Space::open(region, &id, space_spec_of(spec), |_| true)
                .is_ok_and(|(_, zones)| zones.is_empty())),
        // Its formatting was interrupted.
        Err(_) => Space::is_unformatted(&region),
    }
}

fn space_spec_of(spec: &RegionSpec) -> SpaceSpec {
    SpaceSpec {
        part_bytes_first: spec.capacity,
        pm: spec.capacity,
    }
}
