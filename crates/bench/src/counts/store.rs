//! A store without threads, in a simulated world or on the machine.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline::{Options, Result};
use thermocline_base::step::{Point, Steps, When};
use thermocline_base::{CfId, Site, WriteBatch};
use thermocline_engine::{
    Durability, Engine, EngineMetrics, Family, Runtime, Setup, World, WriteOptions,
};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::{SeededRandom, SimClock};
use thermocline_env::{Env, sites};
use thermocline_pm::SimPm;

const CF: CfId = CfId::DEFAULT;

/// What an operation takes by the clock.
const OPERATION_NS: u64 = 10_000;

/// The seed of what the store draws.
const SEED: u64 = 7;

/// Changes of names, which a sync of their folder makes durable.
const NAMES: [Site; 4] = [
    sites::NAME_CREATED,
    sites::NAME_LINKED,
    sites::NAME_CHANGED,
    sites::NAME_REMOVED,
];

/// See the module's documentation.
pub(super) struct Store {
    engine: Engine,
    runtime: Runtime,
    clock: Arc<SimClock>,
    syncs: Arc<AtomicU64>,
}

impl Store {
    /// Over simulated files and simulated persistent memory.
    pub fn simulated(options: Options) -> Result<Store> {
        let (files, syncs) = (Steps::new(), Arc::new(AtomicU64::new(0)));
        let counter = Arc::clone(&syncs);
        files.observe(Some(Arc::new(move |point: Point| {
            if point.when == When::After && !NAMES.contains(&point.site) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        })));
        let world = World {
            env: Env::simulated(SimFs::new(files), SEED),
            sim: Some(SimPm::new(2 * options.pm, Steps::new())),
            shadow: None,
            background: true,
        };
        Store::open(world, Path::new("/db"), options, syncs)
    }

    /// In this folder; syncs are not counted.
    pub fn on_the_machine(dir: &Path, options: Options) -> Result<Store> {
        Store::open(World::real(), dir, options, Arc::default())
    }

    fn open(
        mut world: World,
        dir: &Path,
        options: Options,
        syncs: Arc<AtomicU64>,
    ) -> Result<Store> {
        let clock = Arc::new(SimClock::new());
        world.env.clock = clock.clone();
        world.env.random = Arc::new(SeededRandom::new(SEED));
        let runtime = Runtime::scripted(clock.clone());
        let setup = Setup {
            runtime: Some(runtime.clone()),
            ..Setup::default()
        };
        Ok(Store {
            engine: Engine::open_with(world, dir, options, setup)?,
            runtime,
            clock,
            syncs,
        })
    }

    /// Writes what is in `batch`, durably.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        let mode = WriteOptions::from(Durability::Immediate);
        self.engine.write(batch.iter(), mode)
    }

    /// Whether there is a value of `key`, which is looked at.
    pub fn get(&self, key: &[u8]) -> Result<bool> {
        let found = self.engine.get(CF, key, |value| black_box(value.len()))?;
        Ok(found.is_some())
    }

    /// Reads up to so many entries from `key` on; how many there were.
    pub fn scan(&self, key: &[u8], entries: u64) -> Result<u64> {
        let mut cursor = self.engine.cursor(Family::DEFAULT)?;
        let mut there = cursor.seek(key)?;
        let mut read = 0;
        while there && read < entries {
            read += 1;
            there = read < entries && cursor.next()?;
        }
        Ok(read)
    }

    /// An operation is over: does what is due in the background.
    pub fn operated(&self) {
        self.clock.advance_ns(OPERATION_NS);
        while self.runtime.step().is_some() {}
    }

    pub fn drain(&self) -> Result<()> {
        self.engine.drain()
    }

    pub fn metrics(&self) -> EngineMetrics {
        self.engine.metrics()
    }

    /// Syncs of files and folders so far.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    pub fn close(self) -> Result<()> {
        self.engine.close()
    }
}

/// Adds a put to a batch.
pub(super) fn put(batch: &mut WriteBatch, key: &[u8], value: &[u8]) -> Result<()> {
    batch.put(CF, key, value)
}
