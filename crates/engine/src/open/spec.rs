//! What an open asks of the region, and of what is stored.

use std::collections::BTreeSet;
use std::path::Path;

use thermocline_base::budget::{Account, Budget};
use thermocline_base::options::{Options, PM_MIN, Preset};
use thermocline_base::size::index;
use thermocline_base::{Error, Result};
use thermocline_halloc::{Space, SpaceSpec, Zone};
use thermocline_memtable::Descriptor;
use thermocline_pm::{Place, Region, RegionSpec};
use thermocline_policy::tuning::{LOADED_REGION_TIMES, REPLAY_THREADS_MAX};
use thermocline_version::{Manifest, NO_REGION, State, VersionEdit};

use crate::flush::flushed_up_to;
use crate::layout::{self, REGION_NAME};
use crate::sync::Arc;
use crate::wal::{Claimant, Claims, Loaded, LogDirs};
use crate::world::World;

/// The options for an existing database: `pm_path` says where its region really lies, or nothing
/// if that is the folder.
pub(crate) fn settled(
    world: &World,
    dir: &Path,
    options: Options,
    state: &State,
    region_id: &[u8; 16],
) -> Result<Options> {
    if *region_id == NO_REGION {
        let remembered = state.options().iter().find(|(name, _)| name == "wal_path");
        let remembered = remembered.map(|(_, path)| Path::new(path).to_path_buf());
        return Ok(Options {
            preset: preset_in_dram(&options, state),
            wal_path: options.wal_path.or(remembered),
            ..options
        });
    }
    if world.sim.is_some() {
        return Ok(options);
    }
    let remembered = state.options().iter().find(|(name, _)| name == "pm_path");
    let remembered = remembered.map(|(_, place)| Path::new(place));
    let path = layout::find_region(&*world.env.storage, dir, &options, remembered, region_id)?;
    Ok(Options {
        pm_path: (path != dir.join(REGION_NAME)).then_some(path),
        ..options
    })
}

/// The preset of a database without a region: what is asked for, if it has none either; else what it had last.
fn preset_in_dram(options: &Options, state: &State) -> Preset {
    if options.in_dram() {
        return options.preset;
    }
    match before(state) {
        before if before.in_dram() => before.preset,
        _ => Preset::Leveled,
    }
}

/// The options of the last opening, as far as this version has them.
pub(super) fn before(state: &State) -> Options {
    let mut before = Options::default();
    for (name, value) in state.options() {
        // An option that this version no longer has is no reason not to open.
        let _ = before.set(name, value);
    }
    before
}

pub(crate) fn region_spec(
    world: &World,
    dir: &Path,
    options: &Options,
    region_id: &[u8; 16],
) -> Result<RegionSpec> {
    let path = || layout::region_path(&*world.env.storage, dir, options, region_id);
    let place = match (&world.sim, world.shadow) {
        (Some(sim), _) => Place::Sim(sim.clone()),
        (None, Some(shadow)) => Place::Shadow {
            path: path()?,
            shadow,
        },
        (None, None) => Place::Path(path()?),
    };
    Ok(RegionSpec {
        env: world.env.clone(),
        place,
        demand: options.region,
        capacity: options.pm,
        emulation: options.emulate,
        read_only: options.read_only,
    })
}

/// What is asked of a region in DRAM, charged to `account`.
fn dram_spec(world: &World, options: &Options, account: &Arc<Account>) -> RegionSpec {
    RegionSpec {
        env: world.env.clone(),
        place: Place::Dram(account.clone()),
        demand: options.region,
        capacity: region_capacity(options),
        emulation: options.emulate,
        // It is loaded first, whoever opens it.
        read_only: false,
    }
}

/// Refuses options with which no region could be had in DRAM: a database that remembered them would not open by
/// itself. Nothing is written, and the addresses are given back.
///
/// # Errors
/// Those of the region.
pub(crate) fn check_dram(world: &World, options: &Options) -> Result<()> {
    // Nothing is charged before a region grows.
    let account = Account::new(Budget::new(options.dram), options.dram);
    Region::open(&dram_spec(world, options, &account)).map(drop)
}

/// How a store is had to which somebody else writes ([`super::beside`]).
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// A copy of its region, if it has one that is a file.
    pub region: Option<Region>,
    /// What has been named since the manifest was read, to which the copy may refer.
    pub since: VersionEdit,
}

/// A region, and what lies in it.
pub(crate) struct OpenedSpace {
    pub space: Arc<Space>,
    pub zones: Vec<Zone>,
    /// What was loaded from logs, and where those lie and what keeps others away, if the region is kept in DRAM.
    pub loaded: Option<Loaded>,
    pub logs: Option<(LogDirs, Claims)>,
}

/// Opens the region of a database, or makes one in DRAM, charged to `account`, and loads its logs into
/// it. If somebody else writes to it, from what is to be read `beside` that.
pub(crate) fn open_space(
    (world, dir, options): (&World, &Path, &Options),
    state: &State,
    account: &Arc<Account>,
    beside: Option<&Beside>,
) -> Result<OpenedSpace> {
    let (Some(db_id), Some(region_id)) = (state.db_id(), state.region_id()) else {
        unreachable!("the caller has seen them");
    };
    let space_spec = space_spec(options);
    if region_id == NO_REGION {
        let spec = dram_spec(world, options, account);
        let region = Region::create(&spec, Space::first_part_bytes(&space_spec))?;
        let space = Arc::new(Space::create(region, &region_id, space_spec)?);
        space.set_limit(options.region_bytes_max());
        let dirs = LogDirs::of(dir, options, state);
        let storage = &*world.env.storage;
        let claimant = match (beside, options.read_only) {
            (Some(_), _) => Claimant::Beside,
            (None, true) => Claimant::Reader,
            (None, false) => Claimant::Writer,
        };
        let claims = Claims::make(storage, dir, &dirs, state, claimant)?;
        let loaded = Loaded::load(storage, &dirs, &db_id, state, &space)?;
        space.set_limit(options.region_bytes_max());
        return Ok(OpenedSpace {
            zones: loaded.zones.clone(),
            space,
            loaded: Some(loaded),
            logs: Some((dirs, claims)),
        });
    }
    let spec = region_spec(world, dir, options, &region_id)?;
    let region = match beside.and_then(|beside| beside.region.clone()) {
        Some(copied) => copied,
        None => Region::open(&spec)?,
    };
    let live = live_owners(state);
    let is_live = |owner| live.contains(&owner);
    let (space, zones) = Space::open(region, &region_id, space_spec, is_live)?;
    Ok(OpenedSpace {
        space: Arc::new(space),
        zones,
        loaded: None,
        logs: None,
    })
}

/// Whose zones the manifest knows: chains, and tables in persistent memory.
pub(crate) fn live_owners(state: &State) -> BTreeSet<u64> {
    let chains = state.chains().map(|(_, chain)| chain.id);
    let tables = state
        .version()
        .pm_tables()
        .map(|(table, _)| table.meta.owner);
    chains.chain(tables).collect()
}

/// The descriptors of all memtables that the manifest names, with their floors.
pub(crate) fn described(
    space: &Space,
    db_id: &[u8; 16],
    state: &State,
    loaded: Option<&Loaded>,
) -> Result<Vec<Descriptor>> {
    let mut descriptors = sweep_descriptors(space, db_id, state)?;
    if let Some(loaded) = loaded {
        let flushed = flushed_up_to(state);
        loaded.find_floors(space, state, flushed, &mut descriptors)?;
    }
    Ok(descriptors)
}

/// Most bytes of a region: `pm`, or what memtables in DRAM may have. While logs are loaded those may have
/// more (`Loaded::load`): of what fitted, each memtable may leave more of its last zone unused, which
/// is twice as much as fitted at most (there are 64, and a zone is a 16th of a part), and each item may take
/// twice its size, where zones are smaller.
pub(super) fn region_capacity(options: &Options) -> u64 {
    match options.in_dram() {
        false => options.pm,
        true => options.region_bytes_max() * LOADED_REGION_TIMES,
    }
}

/// Most records that the memtables of the last opening could have held: the smallest takes 16 bytes.
pub(super) fn lost_records_max(state: &State) -> u64 {
    region_capacity(&before(state)) / 16
}

/// Whether records lie in DRAM is decided when a database is made.
pub(super) fn refuse_other_kind(options: &Options, dir: &Path, in_dram: bool) -> Result<()> {
    if options.in_dram() == in_dram {
        return Ok(());
    }
    let (has, asked) = match in_dram {
        true => (
            "its records in DRAM and in logs (presets 'leveled' and 'trident')",
            "persistent memory",
        ),
        false => (
            "persistent memory",
            "records in DRAM and logs (presets 'leveled' and 'trident')",
        ),
    };
    Err(Error::InvalidArgument(format!(
        "the database in {} has {has}, and the preset '{}' asks for {asked}; open it with the preset \
         that it was made with",
        dir.display(),
        options.preset.name()
    )))
}

pub(crate) fn space_spec(options: &Options) -> SpaceSpec {
    let pm = region_capacity(options);
    SpaceSpec {
        part_bytes_first: match options.in_dram() {
            false => options.pm_region.part_bytes_first,
            // There may be hundreds of stores that have little to keep.
            true => PM_MIN,
        },
        pm,
    }
}

/// The options as a manifest has them.
pub(crate) fn stored(options: &Options) -> Vec<(String, String)> {
    options
        .remembered()
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect()
}

pub(crate) fn replay_threads(options: &Options, world: &World) -> usize {
    if !world.background {
        return 1;
    }
    match options.memtable.replay_threads {
        0 => thermocline_runtime::cores().min(REPLAY_THREADS_MAX),
        n => index(n),
    }
}

/// An edit that can wait for the next open: nobody is kept from a store because its disk is full.
pub(super) fn append_if_room(manifest: &mut Manifest, edit: &VersionEdit) -> Result<()> {
    match manifest.append(edit) {
        Err(Error::OutOfSpace(_)) => Ok(()),
        appended => appended,
    }
}

/// Reads the descriptors, and unless read-only gives back those of memtables that the manifest
/// does not name and makes those that it names and a crash kept from being made.
pub(crate) fn sweep_descriptors(
    space: &Space,
    db_id: &[u8; 16],
    state: &State,
) -> Result<Vec<Descriptor>> {
    let (mut named, unnamed): (Vec<_>, Vec<_>) = Descriptor::read_all(space, db_id)?
        .into_iter()
        .partition(|d| state.memtables().contains_key(&d.memtable));
    if space.region().is_read_only() {
        return Ok(named);
    }
    for descriptor in unnamed {
        descriptor.release(space)?;
    }
    for &id in state.memtables().keys() {
        if !named.iter().any(|d| d.memtable == id) {
            named.extend(Descriptor::create(space, db_id, id)?);
        }
    }
    Ok(named)
}
