//! Opening a store.

use std::path::Path;
use std::sync::Weak;
use std::time::Duration;

use arc_swap::ArcSwap;
use thermocline_base::budget::Account;
use thermocline_base::options::Options;
use thermocline_base::size::index;
use thermocline_base::{Error, Line, Result};
use thermocline_env::LockGuard;
use thermocline_exec::DirectStorage;
use thermocline_halloc::{Space, SpaceSpec};
use thermocline_memtable::{ChainWriter, Memtable};
use thermocline_pm::{Place, Region, RegionKind, RegionSpec};
use thermocline_version::{Manifest, State, VersionSet};

use crate::approximate::Rulers;
use crate::close::Handle;
use crate::commit::ack::Acks;
use crate::commit::bucket::Buckets;
use crate::commit::ring::Ring;
use crate::compact::Compactions;
use crate::create::{
    create, lacks_region, make_missing_region, refuse_or_prepare, region_in_memory,
};
use crate::events::{Event, Events};
use crate::families::Families;
use crate::flush::{flushed_up_to, sweep_tables};
use crate::latency::Latencies;
use crate::layout::{self, LOCK_NAME, REGION_NAME};
use crate::metrics::{Counted, Recovery};
use crate::poison::Poison;
use crate::pressure::Pressure;
use crate::readers::Readers;
use crate::reclaim::{Reclaim, has_elders};
use crate::recover;
use crate::replay::Known;
use crate::room::Room;
use crate::runtime::{Background, Client, Runtime};
use crate::stall::Stalls;
use crate::start::{Start, sweep_descriptors};
use crate::store::{Engine, Inner, Setup, World};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, RwLock};
use crate::tables::{TableFiles, Tables};
use crate::view::View;
use crate::write::Writer;

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
    pub fn open_with(world: World, dir: &Path, options: Options, setup: Setup) -> Result<Engine> {
        options.validate()?;
        let options = layout::absolute(options)?;
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
        layout::forget_copying(&*storage, dir)?;
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
    let spec = region_spec(&world, dir, &options, &region_id)?;
    let region = Region::open(&spec)?;
    let live: Vec<u64> = state.chains().map(|(_, chain)| chain.id).collect();
    let (space, zones) = Space::open(region, &region_id, space_spec(&options), |owner| {
        live.contains(&owner)
    })?;
    let space = Arc::new(space);
    recover::check_witness(&space, &state)?;
    let mut descriptors = sweep_descriptors(&space, &db_id, &state)?;
    let threads = replay_threads(&options, &world);
    let found = recover::find(&db_id, &space, &zones, &state, &descriptors, threads)?;

    let runtime = setup.runtime;
    let runtime = runtime.unwrap_or_else(|| Runtime::private(options.dram));
    let account = Account::new(runtime.budget().clone(), options.dram);
    let start = Start::decide(&world, &state, &found, &descriptors, &db_id)?;
    let known = Known::of(&state);
    let memtables = found.memtables(
        &space,
        &start.generations,
        (start.active, start.chain),
        &known,
        &account,
        threads,
    )?;
    if !options.read_only {
        found.repersist(&space, &zones, &mut descriptors)?;
        start.record(&mut manifest, &found, &options)?;
        if start.recorded() {
            space.set_witness(start.witness())?;
        }
        start.release_dropped(&space, &descriptors)?;
    }
    let descriptor = descriptors
        .iter()
        .copied()
        .find(|d| d.generation == start.active);
    // Whoever reads on after its store was closed; nobody else holds the folder.
    let elders = !options.read_only && has_elders(&*storage, dir);
    let mut reclaim = Reclaim::new(&state, &zones, &descriptors, &start.generations, elders);
    let recovery = Recovery {
        records: found.records() - known.skipped(),
        chains: found.chains().count() as u64,
        cut_records: found.cut_records,
        sealed_by_recovery: found.unsealed(),
        nanos: world.env.clock.now_ns() - started,
    };
    let versions = VersionSet::new(manifest.state());
    let dram = (&options, &account);
    let table_files = TableFiles::new(&storage, dir, origins, dram, &runtime.lent());
    sweep_tables(&table_files, &versions, options.read_only || elders)?;
    let flushed = flushed_up_to(manifest.state());
    let is_flushed = |m: &Arc<Memtable>| m.generation() != start.active && m.base().0 <= flushed;
    let (retired, memtables): (Vec<_>, Vec<_>) = memtables.into_iter().partition(is_flushed);
    reclaim.found_flushed(retired);
    let last = found.last_seqno.max(flushed);
    let tables = Tables::new(versions.current().clone(), table_files.clone(), None);
    let view = View {
        memtables: memtables.into_iter().rev().collect(),
        tables,
    };
    let active = view.memtables[0].clone();
    let chain = ChainWriter::new(space.clone(), start.chain, start.segment);
    let writer = Writer::new(active, descriptor, chain, start.nonce, start.recorded());
    let buckets = match options.commit.buckets {
        0 if space.region().kind() == RegionKind::File => 1,
        0 => 16,
        buckets => index(buckets),
    };
    account.opened();
    let threads = world.background && !options.read_only;
    let region_bytes = space.region_bytes();
    let pressure = Pressure::new(space.usage().limit_bytes);
    let listener = setup.listener;
    let clock = world.env.clock.clone();
    let compactions = Compactions::new(&options, clock.clone(), versions.current());
    let inner = Arc::new_cyclic(|me: &Weak<Inner>| {
        let client = me.clone() as Weak<dyn Client>;
        let background = Arc::new(Background::new(runtime, client, threads));
        let events = Arc::new(Events::new(dir, listener, background.clone()));
        Inner {
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
            compactions,
            room: Room::default(),
            pressure,
            ingesting: Mutex::new(()),
            families,
            writer: Line(Mutex::new(writer)),
            next: Mutex::default(),
            view: ArcSwap::from_pointee(view),
            buckets: Buckets::new(buckets),
            ring: Ring::new(last, index(options.commit.ring_slots)),
            syncing: Mutex::new(()),
            acks: Acks::default(),
            pins: Arc::default(),
            readers: Readers::default(),
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
            stalls: Stalls::default(),
            latencies: Latencies::new(options.metrics.latency_every, clock),
            region_seen: AtomicU64::new(region_bytes),
            idle_seen: AtomicU64::new(last),
            ahead: Mutex::new(()),
            lock: Mutex::new(lock),
            options,
        }
    });
    inner.press();
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

pub(crate) fn space_spec(options: &Options) -> SpaceSpec {
    SpaceSpec {
        part_bytes_first: options.pm_region.part_bytes_first,
        pm: options.pm,
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
        0 => crate::runtime::cores().min(8),
        n => index(n),
    }
}
