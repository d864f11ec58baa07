//! Opening and creating a store.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, RwLock};

use arc_swap::ArcSwap;
use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, active};
use thermocline_base::size::{format_size, index};
use thermocline_base::sync::Mutex;
use thermocline_base::{CfId, Error, Result, SeqNo};
use thermocline_env::{Env, LockGuard, OpenMode, Storage};
use thermocline_halloc::{Space, SpaceSpec, Witness};
use thermocline_memtable::{Chain, ChainWriter, Descriptor, Segment};
use thermocline_pm::{Place, Region, RegionSpec, SimPm};
use thermocline_version::{Change, Manifest, NextIds, State, VersionEdit};

use crate::close::Handle;
use crate::flight::Flight;
use crate::layout::{self, LOCK_NAME, REGION_NAME};
use crate::maintain::Maintainer;
use crate::metrics::{Counted, Recovery};
use crate::poison::Poison;
use crate::readers::Readers;
use crate::recover::{self, Found};
use crate::view::View;
use crate::write::Writer;

/// The outside world of a store.
#[derive(Debug, Clone)]
pub struct World {
    /// Files, clock, randomness.
    pub env: Env,
    /// Simulated persistent memory in place of a mapped file.
    pub sim: Option<SimPm>,
    /// Whether a thread of the store's own works ahead (grows the region, names the next
    /// generation, covers the last write when idle). Without it that is done when it is due, by
    /// whoever needs it: tests that explore crashes want one thread.
    pub background: bool,
}

impl World {
    /// The real world.
    pub fn real() -> World {
        World {
            env: Env::real(),
            sim: None,
            background: true,
        }
    }
}

/// An open store. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    /// Closes the store when the last clone goes.
    _handle: Arc<Handle>,
}

pub(crate) struct Inner {
    pub dir: PathBuf,
    pub world: World,
    pub options: Options,
    pub db_id: [u8; 16],
    pub space: Arc<Space>,
    pub manifest: Mutex<Manifest>,
    pub families: RwLock<Vec<(String, CfId)>>,
    pub writer: Mutex<Writer>,
    pub view: ArcSwap<View>,
    /// The last seqno that readers see. Stored with release order after the index inserts of its
    /// group; partner of the acquire loads in `memtable::table` and `readers`.
    pub visible: AtomicU64,
    pub durable: AtomicU64,
    /// Groups between grant and finish.
    pub flight: Flight,
    pub readers: Readers,
    pub poison: Poison,
    pub counted: Counted,
    pub recovery: Recovery,
    pub closed: AtomicBool,
    pub maintainer: Maintainer,
    pub lock: Mutex<Option<Box<dyn LockGuard>>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the database in `dir`, making it if the options say so.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for options that make no sense, a folder that is not a database,
    /// or none at all; [`Error::Locked`]; [`Error::Corruption`] with file or region and offset;
    /// [`Error::OutOfSpace`]; those of the file system.
    pub fn open(world: World, dir: &Path, options: Options) -> Result<Engine> {
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
        } else if !options.read_only {
            layout::forget_creation(&*storage, dir)?;
        }
        let engine = open_existing(world, dir, options, lock, started)?;
        engine.start_maintenance();
        Ok(engine)
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

/// There is no database: says why it cannot be made, or makes its folder.
fn refuse_or_prepare(storage: &dyn Storage, dir: &Path, options: &Options) -> Result<()> {
    if options.read_only || !options.create_if_missing {
        return Err(Error::InvalidArgument(format!(
            "there is no database in {}",
            dir.display()
        )));
    }
    if storage.exists(dir)? {
        layout::check_folder(storage, dir)
    } else {
        storage.create_dir_all(dir)
    }
}

/// Makes a new database: first the region, then the manifest that names it. The database exists
/// once the manifest does.
fn create(world: &World, dir: &Path, options: &Options) -> Result<()> {
    let storage = &world.env.storage;
    let mut db_id = [0; 16];
    let mut region_id = [0; 16];
    world.env.random.fill(&mut db_id)?;
    world.env.random.fill(&mut region_id)?;
    let spec = region_spec(world, dir, options, &region_id)?;
    let mut options = options.clone();
    if let Place::Path(path) = &spec.place {
        let begun = layout::noted_creation(&**storage, dir)?;
        // An open looks into the folder first, so what lies there must not be another region.
        let own = dir.join(REGION_NAME);
        for path in [path, &own] {
            if storage.exists(path)? {
                remove_leftover(&**storage, path, &spec, begun)?;
            }
        }
        layout::note_creation(&**storage, dir, &region_id)?;
        options.pm_path = (*path != own).then(|| path.clone());
    }
    let space_spec = space_spec(&options);
    let region = Region::create(&spec, Space::first_part_bytes(&space_spec))?;
    let space = Space::create(region, &region_id, space_spec)?;
    Descriptor::create(&space, &db_id, 1)?;
    let first = VersionEdit::new()
        .with(Change::Created { db_id, region_id })
        .with(Change::Options(stored(&options)))
        .with(Change::ColumnFamilyCreated {
            id: 0,
            name: "default".into(),
        })
        .with(Change::GenerationCreated { id: 1 })
        // The first chain is recorded when the first write needs it.
        .with(Change::NextIds(NextIds {
            chain: 1,
            generation: 2,
            cf: 1,
            incarnation: 1,
        }));
    Manifest::create(storage.clone(), dir, &first)?;
    layout::forget_creation(&**storage, dir)
}

/// Removes the region that the creation noted in this folder left behind. Anything else is
/// somebody's, were it as empty: of another database, say, that has no data yet.
fn remove_leftover(
    storage: &dyn Storage,
    path: &Path,
    spec: &RegionSpec,
    begun: Option<[u8; 16]>,
) -> Result<()> {
    let file = storage.open(path, OpenMode::Read)?;
    let len = file.len()?;
    // A region ends with a page; what is mapped does.
    let mut tail = vec![0; index(len % 4096)];
    file.read_exact_at(&mut tail, len - len % 4096)?;
    let blank = begun.is_some() && tail.iter().all(|&b| b == 0) && {
        let region = Region::open(&RegionSpec {
            place: Place::Path(path.to_path_buf()),
            read_only: true,
            ..spec.clone()
        })?;
        match Space::region_id(&region) {
            // Formatted, and no zone was ever attached.
            Ok(id) => {
                begun == Some(id)
                    && Space::open(region, &id, space_spec_of(spec), |_| true)
                        .is_ok_and(|(_, zones)| zones.is_empty())
            }
            // Its formatting was interrupted.
            Err(_) => Space::is_unformatted(&region)?,
        }
    };
    if !blank {
        return Err(Error::InvalidArgument(format!(
            "{} exists, but no manifest names it: it is another program's file, or the region of a \
             database whose manifest is missing; move it away or choose another pm-path",
            path.display()
        )));
    }
    storage.remove(path)
}

fn open_existing(
    world: World,
    dir: &Path,
    options: Options,
    lock: Option<Box<dyn LockGuard>>,
    started: u64,
) -> Result<Engine> {
    let storage = world.env.storage.clone();
    let (mut manifest, state) = Manifest::open(storage.clone(), dir, options.read_only)?;
    manifest.set_bytes_max(options.manifest.bytes_max);
    let (Some(db_id), Some(region_id)) = (state.db_id(), state.region_id()) else {
        return Err(Error::corruption(
            "the manifest does not begin with a creation",
            manifest.path().display().to_string(),
            0,
            "the ids of database and region",
            "none",
        ));
    };
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

    let start = Start::decide(&world, &state, &found, &descriptors, &db_id)?;
    let memtables = found.memtables(
        &space,
        &start.generations,
        start.active,
        start.chain,
        state.next_ids().cf,
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
        .into_iter()
        .find(|d| d.generation == start.active);
    let recovery = Recovery {
        records: found.records(),
        chains: found.chains().count() as u64,
        cut_records: found.cut_records,
        sealed_by_recovery: found.unsealed(),
        nanos: world.env.clock.now_ns() - started,
    };
    let last = found.last_seqno;
    let families = state
        .families()
        .iter()
        .map(|(id, name)| (name.clone(), CfId(*id)))
        .collect();
    let view = View {
        memtables: memtables.into_iter().rev().collect(),
    };
    let active = view.memtables[0].clone();
    let chain = ChainWriter::new(space.clone(), start.chain, start.segment);
    let writer = Writer::new(active, descriptor, chain, start.nonce, start.recorded());
    let flight = Flight::new(SeqNo(last));
    if start.chain.base > last + 1 {
        // The seqnos between belonged to writes that were lost unacknowledged.
        flight.skip_to(SeqNo(start.chain.base));
    }
    let inner = Arc::new(Inner {
        dir: dir.to_path_buf(),
        world,
        db_id,
        space,
        manifest: Mutex::new(manifest),
        families: RwLock::new(families),
        writer: Mutex::new(writer),
        view: ArcSwap::from_pointee(view),
        visible: AtomicU64::new(last),
        durable: AtomicU64::new(last),
        flight,
        readers: Readers::default(),
        poison: Poison::default(),
        counted: Counted::default(),
        recovery,
        closed: AtomicBool::new(false),
        maintainer: Maintainer::default(),
        lock: Mutex::new(lock),
        options,
    });
    Ok(Engine {
        _handle: Arc::new(Handle(inner.clone())),
        inner,
    })
}

/// How the new incarnation begins.
struct Start {
    /// The generation that takes the writes.
    active: u64,
    /// Those that stay, oldest first.
    generations: Vec<u64>,
    /// Generations that were prepared and never used.
    dropped: Vec<u64>,
    chain: Chain,
    nonce: u64,
    segment: Option<Segment>,
    /// Whether the last process did not close: its chains must be cut before anything is written.
    unsealed: bool,
}

impl Start {
    fn decide(
        world: &World,
        state: &State,
        found: &Found,
        descriptors: &[Descriptor],
        db_id: &[u8; 16],
    ) -> Result<Start> {
        let floor = |id: u64| {
            descriptors
                .iter()
                .find(|d| d.generation == id)
                .and_then(|d| d.floor)
        };
        let mut generations: Vec<u64> = state.generations().keys().copied().collect();
        let mut dropped = Vec::new();
        // A generation behind one that was never sealed was prepared ahead and holds nothing.
        while let [.., before, _] = generations[..]
            && floor(before).is_none()
        {
            dropped.extend(generations.pop());
        }
        let active = *generations.last().ok_or_else(|| {
            Error::corruption("the manifest", "the manifest", 0, "a generation", "none")
        })?;
        let ids = state.next_ids();
        let last = found.incarnations.last().and_then(|i| i.plans.last());
        let unsealed = found.unsealed();
        let segment = found.rest_of(active);
        let (nonce, chain) = if active_bug_keeps_incarnation()
            && let Some(last) = last
        {
            (
                0,
                Chain {
                    base: found.last_seqno + 1,
                    ..last.chain
                },
            )
        } else {
            let nonce = world.env.random_u64()?;
            let base = found.next_base.max(found.last_seqno + 1);
            (
                nonce,
                Chain::new(db_id, ids.chain, ids.incarnation, nonce, base),
            )
        };
        Ok(Start {
            active,
            generations,
            dropped,
            chain,
            nonce,
            segment,
            unsealed,
        })
    }

    /// Whether the new chain is in the manifest once [`Start::record`] has run.
    fn recorded(&self) -> bool {
        self.unsealed
    }

    /// Rule 4: one edit cuts what was found and opens what will be written.
    fn record(&self, manifest: &mut Manifest, found: &Found, options: &Options) -> Result<()> {
        let mut edit = VersionEdit::new();
        if self.unsealed && !active(Bug::AcceptBeforeSeal) && !active_bug_keeps_incarnation() {
            edit.changes.extend(found.cuts(&self.dropped));
            edit.changes.push(self.opened());
        }
        edit.changes.extend(
            self.dropped
                .iter()
                .map(|&id| Change::GenerationDropped { id }),
        );
        let options = stored(options);
        if manifest.state().options() != options {
            edit.changes.push(Change::Options(options));
        }
        if edit.changes.is_empty() {
            return Ok(());
        }
        manifest.append(&edit)
    }

    fn witness(&self) -> Witness {
        Witness::of(self.chain.id, self.nonce)
    }

    fn opened(&self) -> Change {
        opened(&self.chain, self.active, self.nonce, self.segment)
    }

    fn release_dropped(&self, space: &Space, descriptors: &[Descriptor]) -> Result<()> {
        for descriptor in descriptors
            .iter()
            .filter(|d| self.dropped.contains(&d.generation))
        {
            descriptor.release(space)?;
        }
        Ok(())
    }
}

fn active_bug_keeps_incarnation() -> bool {
    active(Bug::KeepIncarnation)
}

/// The change that records a chain.
pub(crate) fn opened(
    chain: &Chain,
    generation: u64,
    nonce: u64,
    segment: Option<Segment>,
) -> Change {
    Change::ChainOpened {
        chain: chain.id,
        generation,
        incarnation: chain.incarnation,
        nonce,
        base_seqno: chain.base,
        start: segment.map(|s| s.from.0),
    }
}

/// Reads the descriptors, and unless read-only gives back those of generations that the manifest
/// does not name and makes those that it names and a crash kept from being made.
fn sweep_descriptors(space: &Space, db_id: &[u8; 16], state: &State) -> Result<Vec<Descriptor>> {
    let (mut named, unnamed): (Vec<_>, Vec<_>) = Descriptor::read_all(space, db_id)?
        .into_iter()
        .partition(|d| state.generations().contains_key(&d.generation));
    if space.region().is_read_only() {
        return Ok(named);
    }
    for descriptor in unnamed {
        descriptor.release(space)?;
    }
    for &id in state.generations().keys() {
        if !named.iter().any(|d| d.generation == id) {
            named.extend(Descriptor::create(space, db_id, id)?);
        }
    }
    Ok(named)
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
    let place = match &world.sim {
        Some(sim) => Place::Sim(sim.clone()),
        None => Place::Path(layout::region_path(
            &*world.env.storage,
            dir,
            options,
            region_id,
        )?),
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

fn space_spec_of(spec: &RegionSpec) -> SpaceSpec {
    SpaceSpec {
        part_bytes_first: spec.capacity,
        pm: spec.capacity,
    }
}

fn stored(options: &Options) -> Vec<(String, String)> {
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
        0 => std::thread::available_parallelism().map_or(1, |n| n.get().min(8)),
        n => index(n),
    }
}

/// The error for an index that would exceed the DRAM budget.
#[cold]
pub(crate) fn dram_full(used: u64, limit: u64) -> Error {
    Error::OutOfSpace(format!(
        "the index in DRAM has {} of the {} that dram allows, and one more write might exceed it; \
         raise dram",
        format_size(used),
        format_size(limit)
    ))
}
