//! Opening a store.

use std::path::Path;
use std::sync::Weak;
use std::time::Duration;

use arc_swap::ArcSwap;
use thermocline_base::budget::Account;
use thermocline_base::options::{Options, PM_MIN, Preset};
use thermocline_base::planted::{Bug, active};
use thermocline_base::size::index;
use thermocline_base::{Error, Line, Result, SeqNo};
use thermocline_commit::Commits;
use thermocline_env::LockGuard;
use thermocline_env::frugal::Frugal;
use thermocline_exec::DirectStorage;
use thermocline_halloc::{Space, SpaceSpec, Zone};
use thermocline_memtable::{ChainWriter, Descriptor};
use thermocline_observe::count::Counted;
use thermocline_observe::event::Event;
use thermocline_observe::events::Events;
use thermocline_observe::latency::Latencies;
use thermocline_observe::poison::Poison;
use thermocline_observe::stall::Stalls;
use thermocline_pm::{Place, Region, RegionKind, RegionSpec};
use thermocline_runtime::{Background, Client, Runtime};
use thermocline_tables::Lent;
use thermocline_tables::{TableFiles, Tables};
use thermocline_version::{LOCK_NAME, Manifest, NO_REGION, State, VersionEdit, VersionSet};

use crate::approximate::Rulers;
use crate::blobs::{Blobs, check_named, unreferenced};
use crate::close::Handle;
use crate::compact::Compactions;
use crate::create::{
    create, lacks_region, make_missing_region, refuse_or_prepare, region_in_memory,
};
use crate::families::Families;
use crate::flush::{flushed_up_to, newest_in_tables, sweep_tables};
use crate::holds::Holds;
use crate::layout::{self, REGION_NAME};
use crate::merge::Merges;
use crate::metrics::Recovery;
use crate::partitions::{self, PartitionRates};
use crate::pressure::Pressure;
use crate::reclaim::{Reclaim, has_elders};
use crate::recover::{self, Staying};
use crate::replay::Known;
use crate::room::Room;
use crate::start::{Start, sweep_descriptors};
use crate::store::{Engine, Inner, Setup, World};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, RwLock};
use crate::view::{Front, View};
use crate::wal::{Claims, Loaded, LogDirs, Wal};
use crate::write::Writer;
use crate::write::env::limits;

impl Engine {
    /// Opens the database in `dir`, making it if the options say so.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for options that make no sense, a folder that is not a database,
    /// or none at all; [`Error::Locked`]; [`Error::Corruption`] with file or region and offset;
    /// [`Error::OutOfSpace`]; those of the file system.
    pub fn open(world: World, dir: &Path, options: Options) -> Result<Engine> {
        Engine::open_with(world, dir, options, Setup::default())
    }

    /// As [`Engine::open`], with what is not kept with the database.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_with(
        mut world: World,
        dir: &Path,
        options: Options,
        setup: Setup,
    ) -> Result<Engine> {
        options.validate()?;
        world.env.storage = Frugal::new(world.env.storage.clone());
        let options = layout::absolute(options.settled())?;
        let started = world.env.clock.now_ns();
        let storage = world.env.storage.clone();
        let exists = storage.is_dir(dir)? && Manifest::exists(&*storage, dir)?;
        if !exists {
            refuse_or_prepare(&*storage, dir, &options)?;
        }
        let lock = if options.read_only {
            storage.lock_shared(&dir.join(LOCK_NAME))?
        } else {
            Some(storage.lock(&dir.join(LOCK_NAME))?)
        };
        if !exists && !Manifest::exists(&*storage, dir)? {
            create(&world, dir, &options)?;
        }
        open_existing(world, dir, options, setup, lock, started)
    }

    /// The options that the database in `dir` was last opened with for writing; `None` if there is
    /// no database. Their `pm_path` is where the region was then, unless it lies in the database's
    /// folder or is not there any more.
    ///
    /// # Errors
    /// Corruption of the manifest; those of the file system.
    pub fn stored_options(world: &World, dir: &Path) -> Result<Option<Options>> {
        let storage = &world.env.storage;
        if !storage.is_dir(dir)? || !Manifest::exists(&**storage, dir)? {
            return Ok(None);
        }
        let (_, state) = Manifest::open(storage.clone(), dir, true)?;
        let mut options = Options::default();
        for (name, value) in state.options() {
            // An option that this version no longer has is no reason not to open.
            let _ = options.set(name, value);
        }
        if let Some(place) = &options.pm_path
            && (storage.exists(&dir.join(REGION_NAME))? || !storage.exists(place)?)
        {
            options.pm_path = None;
        }
        Ok(Some(options))
    }
}

fn open_existing(
    mut world: World,
    dir: &Path,
    options: Options,
    setup: Setup,
    lock: Option<Box<dyn LockGuard>>,
    started: u64,
) -> Result<Engine> {
    let storage = world.env.storage.clone();
    let manifest_files = DirectStorage::buffered(storage.clone(), Arc::default());
    let manifest_bytes = manifest_files.counter().clone();
    let files = Arc::new(manifest_files);
    let (mut manifest, mut state) = Manifest::open(files, dir, options.read_only)?;
    manifest.set_bytes_max(options.manifest.bytes_max);
    if let Some(region_id) = state.region_id() {
        refuse_other_kind(&options, dir, region_id == NO_REGION)?;
    }
    if lacks_region(&state) && state.db_id().is_some() {
        if options.read_only {
            (world, state) = region_in_memory(&world, dir, &options, &state)?;
        } else {
            make_missing_region(&world, dir, &options, &mut manifest)?;
            state = manifest.state().clone();
        }
    }
    if !options.read_only {
        layout::forget_creation(&*storage, dir)?;
        thermocline_copies::forget_note(&*storage, dir)?;
    }
    let ids = state.db_id().zip(state.region_id()).zip(state.origins());
    let Some(((db_id, region_id), origins)) = ids else {
        return Err(Error::corruption(
            "the manifest does not begin with a creation",
            manifest.path().display().to_string(),
            0,
            "the ids of database and region",
            "none",
        ));
    };
    let families = Families::of(&state)?;
    let options = settled(&world, dir, options, &state, &region_id)?;
    let runtime = setup.runtime;
    let runtime = runtime.unwrap_or_else(|| Runtime::private(options.dram));
    let account = Account::new(runtime.budget().clone(), options.dram);
    let OpenedSpace {
        space,
        zones,
        loaded,
        logs,
    } = open_space(&world, dir, &options, &state, &account)?;
    let kind = space.region().kind();
    let options = options.on_region(kind != RegionKind::File);
    recover::check_witness(&space, &state)?;
    let mut descriptors = described(&space, &db_id, &state, loaded.as_ref())?;
    let threads = replay_threads(&options, &world);
    let loaded = loaded.as_ref();
    let mut found = recover::find(
        &db_id,
        &space,
        &zones,
        &state,
        &descriptors,
        loaded,
        threads,
    )?;
    if loaded.is_some() && found.unsealed() {
        // Rule 5: what was granted and never logged.
        found.next_base += lost_records_max(&state);
    }
    let wal = logs.map(|logs| Wal::new(storage.clone(), logs, db_id));
    let mut start = Start::decide(&world, &state, &found, &descriptors, &db_id)?;
    let known = Known::of(&state);
    let in_tables = newest_in_tables(&state);
    let staying = Staying {
        generations: &start.generations,
        active: (start.active, start.chain),
        flushed: flushed_up_to(&state),
    };
    let rebuilt = found.memtables(&space, staying, &known, &account, threads)?;
    // Whoever reads on after its store was closed; nobody else holds the folder.
    let elders = !options.read_only && has_elders(&*storage, dir);
    let version = manifest.state().version().clone();
    check_named(&version, rebuilt.all())?;
    if !options.read_only {
        found.repersist(&space, &zones, &mut descriptors)?;
        if let (Some(loaded), Some(wal)) = (loaded, &wal) {
            wal.take_over(&state)?;
            loaded.keep(&*storage, &found)?;
            wal.gather(&state)?;
            // What an earlier process was about to begin with the id that is next.
            wal.sweep(&state)?;
        }
        let mut log = None;
        if let Some(wal) = wal.as_ref().filter(|_| start.recorded()) {
            log = wal.begin_if_room(start.chain.id, start.nonce)?;
            if log.is_none() {
                start.name_later();
            }
        }
        let durable = start.record(&mut manifest, &found, &options)?;
        if start.recorded() {
            space.set_witness(start.witness())?;
        }
        if let Some((wal, log)) = wal.as_ref().zip(log) {
            wal.take_begun(log, start.recorded())?;
        }
        if durable {
            start.release_dropped(&space, &descriptors)?;
        }
        // What elders may read goes later, like all that is not needed any more.
        if let Some(edit) = unreferenced(&version, rebuilt.all())
            && !elders
            && !active(Bug::BlobForgottenAtOpen)
        {
            append_if_room(&mut manifest, &edit)?;
        }
        if let Some(wal) = wal.as_ref().filter(|_| durable) {
            wal.sweep(manifest.state())?;
        }
        for edit in partitions::missing(manifest.state(), &options)? {
            append_if_room(&mut manifest, &edit)?;
        }
    }
    let descriptor = descriptors
        .iter()
        .copied()
        .find(|d| d.generation == start.active);
    let mut reclaim = Reclaim::new(
        &state,
        &zones,
        &descriptors,
        &start.generations,
        found.trails(),
        elders,
    );
    let recovery = Recovery {
        records: rebuilt.records,
        kept_records: rebuilt.flushed.iter().map(|m| m.len()).sum(),
        chains: found.chains().count() as u64,
        cut_records: found.cut_records,
        sealed_by_recovery: found.unsealed(),
        nanos: world.env.clock.now_ns() - started,
    };
    let known_durable = match options.read_only {
        // It has persisted what it found.
        false => u64::MAX,
        true => found.known_durable().max(in_tables),
    };
    let mut versions = VersionSet::new(manifest.state());
    let dram = (&options, &account);
    let lent = Lent {
        cache: &runtime.common(),
        bufs: runtime.bufs(),
        reader: runtime.reader(),
    };
    let table_files = TableFiles::new(&storage, dir, origins, dram, &lent);
    sweep_tables(&table_files, &mut versions, (options.read_only, elders))?;
    let named = (&**versions.current(), db_id);
    let pm = &table_files.pm;
    pm.open_all(&space, &zones, named, &account)?;
    reclaim.found_flushed(rebuilt.flushed);
    let last = found.last_seqno.max(in_tables);
    let tables = Tables::new(versions.current().clone(), table_files.clone(), None);
    let memtables = rebuilt.live.into_iter().rev().collect();
    let front = state.evacuation().map(Front::of);
    let front = front.filter(|_| !active(Bug::FrontForgotten));
    let pins = Arc::default();
    let view = View::new(
        memtables,
        tables,
        front.map(Arc::new),
        Some(Arc::clone(&pins)),
    );
    let active = view.memtables[0].clone();
    let chain = ChainWriter::new(space.clone(), start.chain, start.segment);
    let writer = Writer::new(active, descriptor, chain, start.nonce, start.recorded());
    let commits = Commits::new(limits(&options, space.region().kind()), last);
    account.opened();
    let threads = world.background && !options.read_only;
    let region_bytes = space.region_bytes();
    // If the disk does not say, the region grows as if it lay elsewhere.
    let region_on_disk = space.region().takes_room_of(dir).unwrap_or(false);
    let pressure = Pressure::new(space.usage().limit_bytes).with_region_on_disk(region_on_disk);
    let listener = setup.listener;
    let clock = world.env.clock.clone();
    let compactions = Compactions::new(&options, clock.clone(), versions.current());
    let rate_sample = options.partition.rate_sample;
    let rates = PartitionRates::new(rate_sample, manifest.state().rates(), clock.now_ns());
    let blobs = Blobs::new(version.blob_files().next().is_some());
    let inner = Arc::new_cyclic(|me: &Weak<Inner>| {
        let client = me.clone() as Weak<dyn Client>;
        let background = Arc::new(Background::new(runtime, client, threads));
        let events = Arc::new(Events::new(dir, listener, background.clone()));
        Inner {
            stalls: Stalls::new(clock.clone(), events.clone()),
            me: me.clone(),
            dir: dir.to_path_buf(),
            world,
            db_id,
            space,
            manifest: Mutex::new(manifest),
            manifest_bytes,
            versions: Mutex::new(versions),
            table_files,
            rulers: Rulers::default(),
            flushing: Mutex::new(()),
            merges: Merges::default(),
            compactions,
            blobs,
            room: Room::default(),
            pressure,
            ingesting: Mutex::new(()),
            families: Arc::new(families),
            writer: Line(Mutex::new(writer)),
            next: Mutex::default(),
            view: ArcSwap::from_pointee(view),
            commits,
            known_durable,
            wal,
            pins: Arc::downgrade(&pins),
            holds: Holds::default(),
            relics: Mutex::default(),
            left: Mutex::default(),
            reclaim: Mutex::new(reclaim),
            stages: RwLock::default(),
            staging: AtomicU64::new(0),
            poison: Poison::telling(events.clone()),
            counted: Counted::default(),
            recovery,
            closed: AtomicBool::new(false),
            account,
            background,
            events,
            rates,
            latencies: Latencies::new(options.metrics.latency_every, clock),
            region_seen: AtomicU64::new(region_bytes),
            idle_seen: AtomicU64::new(last),
            ahead: Mutex::new(()),
            lock: Mutex::new(lock),
            options,
        }
    });
    // Which of it are deletes nobody knows.
    inner.deleted(SeqNo(last));
    inner.press();
    // To which the process before removed the last reference.
    inner.release_pm_tables();
    if inner.is_logged() {
        // What was sealed when the process before ended.
        inner.flush_if_due();
    }
    if !inner.view.load().tables.is_empty() {
        // The process before may have left some.
        inner.want_compaction();
    }
    inner.tell_opened(start.dropped());
    Ok(Engine {
        _handle: Arc::new(Handle(inner.clone())),
        inner,
    })
}

impl Inner {
    /// Tells that the store was opened, and which generations that did away with.
    fn tell_opened(&self, dropped: &[u64]) {
        let recovery = self.recovery;
        self.events.emit(Event::Opened {
            records: recovery.records,
            cut_records: recovery.cut_records,
            after_crash: recovery.sealed_by_recovery,
            took: Duration::from_nanos(recovery.nanos),
        });
        if !self.options.read_only {
            for &id in dropped {
                self.events.emit(Event::GenerationDropped { id });
            }
        }
        self.background.settle();
    }
}

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
            preset: Preset::Leveled,
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

/// A region, and what lies in it.
pub(crate) struct OpenedSpace {
    pub space: Arc<Space>,
    pub zones: Vec<Zone>,
    /// What was loaded from logs, and where those lie and what keeps others away, if the region is kept in DRAM.
    pub loaded: Option<Loaded>,
    pub logs: Option<(LogDirs, Claims)>,
}

/// Opens the region of a database, or makes one in DRAM, charged to `account`, and loads its logs into
/// it.
pub(crate) fn open_space(
    world: &World,
    dir: &Path,
    options: &Options,
    state: &State,
    account: &Arc<Account>,
) -> Result<OpenedSpace> {
    let (Some(db_id), Some(region_id)) = (state.db_id(), state.region_id()) else {
        unreachable!("the caller has seen them");
    };
    let space_spec = space_spec(options);
    if region_id == NO_REGION {
        let spec = RegionSpec {
            env: world.env.clone(),
            place: Place::Dram(account.clone()),
            demand: options.region,
            capacity: space_spec.pm,
            emulation: options.emulate,
            // It is loaded first, whoever opens it.
            read_only: false,
        };
        let region = Region::create(&spec, Space::first_part_bytes(&space_spec))?;
        let space = Arc::new(Space::create(region, &region_id, space_spec)?);
        space.set_limit(options.region_bytes_max());
        let dirs = LogDirs::of(dir, options, state);
        let storage = &*world.env.storage;
        let claims = Claims::make(storage, dir, &dirs, state, options.read_only)?;
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
    let region = Region::open(&spec)?;
    let chains = state.chains().map(|(_, chain)| chain.id);
    let tables = state
        .version()
        .pm_tables()
        .map(|(table, _)| table.meta.owner);
    let live: Vec<u64> = chains.chain(tables).collect();
    let is_live = |owner| live.contains(&owner);
    let (space, zones) = Space::open(region, &region_id, space_spec, is_live)?;
    Ok(OpenedSpace {
        space: Arc::new(space),
        zones,
        loaded: None,
        logs: None,
    })
}

/// The descriptors of all generations that the manifest names, with their floors.
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
/// more (`Loaded::load`): of what fitted, each generation may leave more of its last zone unused, which
/// is twice as much as fitted at most (there are 64, and a zone is a 16th of a part), and each item may take
/// twice its size, where zones are smaller.
fn region_capacity(options: &Options) -> u64 {
    match options.in_dram() {
        false => options.pm,
        true => options.region_bytes_max() * 4,
    }
}

/// Most records that the memtables of the last opening could have held: the smallest takes 16 bytes.
fn lost_records_max(state: &State) -> u64 {
    let mut before = Options::default();
    for (name, value) in state.options() {
        // An option that this version no longer has is no reason not to open.
        let _ = before.set(name, value);
    }
    region_capacity(&before) / 16
}

/// Whether records lie in DRAM is decided when a database is made.
fn refuse_other_kind(options: &Options, dir: &Path, in_dram: bool) -> Result<()> {
    if options.in_dram() == in_dram {
        return Ok(());
    }
    let (has, asked) = match in_dram {
        true => (
            "its records in DRAM and in logs (preset 'leveled')",
            "persistent memory",
        ),
        false => (
            "persistent memory",
            "records in DRAM and logs (preset 'leveled')",
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

pub(crate) fn stored(options: &Options) -> Vec<(String, String)> {
    options
        .effective()
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect()
}

pub(crate) fn replay_threads(options: &Options, world: &World) -> usize {
    if !world.background {
        return 1;
    }
    match options.memtable.replay_threads {
        0 => thermocline_runtime::cores().min(8),
        n => index(n),
    }
}

/// An edit that can wait for the next open: nobody is kept from a store because its disk is full.
fn append_if_room(manifest: &mut Manifest, edit: &VersionEdit) -> Result<()> {
    match manifest.append(edit) {
        Err(Error::OutOfSpace(_)) => Ok(()),
        appended => appended,
    }
}
