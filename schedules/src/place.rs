//! The simulated world of a store, and its end at some instant.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use shuttle::rand::{Rng, thread_rng};
use thermocline_base::filter::{CompactionFilter, Entry, Verdict};
use thermocline_base::options::{Options, Shape};
use thermocline_base::{CfOptions, Steps};
use thermocline_engine::{Engine, Event, Family, Runtime, RuntimeOptions, Setup, World};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;
use thermocline_pm::sim::CrashImage;

use crate::oracle::{Bounds, Oracle};
use crate::reached::Reached;

const PM: u64 = 512 << 10;
const DIR: &str = "/db";

const ITEM_BYTES_MAX: u64 = 4 << 10;

/// Bytes of each value of a batch that is too large for one item, or whose values go into a blob file.
pub const LONG: usize = 720;

/// How often a filter lets others go on before it looks at a value.
const YIELDS: usize = 30;

/// Persistent memory and files, and what a store in them is opened with.
#[derive(Debug, Clone)]
pub struct Place {
    pm: SimPm,
    fs: SimFs,
    options: Options,
    /// Whether the store has threads of its own.
    pub background: bool,
    /// Whether batches delete by ranges.
    pub ranges: bool,
    /// How often a batch has long values, in percent.
    pub long_percent: u32,
    /// Whether compactions filter: they add a space to values that end with none.
    pub filters: bool,
    /// What is counted.
    pub reached: Arc<Reached>,
}

/// Adds a space to values that end with none, which changes nothing of what they say.
#[derive(Debug)]
struct Marks;

impl CompactionFilter for Marks {
    fn name(&self) -> &str {
        "schedules.marks"
    }

    fn filter(&self, entry: &Entry<'_>) -> Result<Verdict, String> {
        // Readers come best while a job runs, and it takes them many steps.
        (0..YIELDS).for_each(|_| shuttle::thread::yield_now());
        let value = entry.value()?;
        Ok(match value.ends_with(b" ") {
            true => Verdict::Keep,
            false => Verdict::Change([&value[..], b" "].concat()),
        })
    }
}

/// A store that is open in its world.
#[derive(Debug, Clone)]
pub struct Open {
    /// The store.
    pub engine: Engine,
    /// Two families, of which the keys of one descend.
    pub families: [Family; 2],
    /// Whether compactions filter.
    pub filters: bool,
    env: Env,
    runtime: Runtime,
}

/// A world at one instant.
pub struct Instant {
    pm: CrashImage,
    fs: SimFs,
    /// What must have survived, and what may have.
    pub bounds: Bounds,
}

impl Place {
    /// A world without a store, for one that seals often and whose ring, buckets and deferred bytes are
    /// few.
    pub fn draw(reached: &Arc<Reached>) -> Place {
        let steps = Steps::new();
        let mut options = Options {
            pm: PM,
            ..Options::default()
        };
        let mut rng = thread_rng();
        options.pm_region.part_bytes_first = 256 << 10;
        options.memtable.bytes_max = 1 << rng.gen_range(9..13);
        options.memtable.replay_threads = 1; // threads of a scope are the system's
        options.memtable.item_bytes_max = ITEM_BYTES_MAX;
        options.blob.inline_bytes_max = [1 << 20, 1 << 20, 256][rng.gen_range(0..3)];
        let shapes = [
            Shape::GlobalIndex,
            Shape::GlobalIndex,
            Shape::Immutables,
            Shape::Ssd,
            Shape::PmTables,
            Shape::Tiered,
        ];
        options.level0.shape = Some(shapes[rng.gen_range(0..6)]);
        options.level0.pm_percent = [1, 10][rng.gen_range(0..2)];
        options.level0.merge_percent = [0, 0, 100][rng.gen_range(0..3)];
        options.flush.generations = [0, 0, 2][rng.gen_range(0..3)];
        options.compaction.level0_tables = rng.gen_range(1..4);
        options.commit.buckets = rng.gen_range(1..3);
        options.commit.ring_slots = rng.gen_range(1..4);
        options.commit.buffered_bytes = 1 << rng.gen_range(8..12);
        if options.level0.shape == Some(Shape::Tiered) {
            // Several ranges, of a few keys each.
            options.compaction.table_bytes = [0, 128][rng.gen_range(0..2)];
            options.level0.evacuation_threads = rng.gen_range(1..4);
        }
        // What a filter sees must not be covered by range deletes, table by table: such tables go unread.
        let filters = rng.gen_bool(0.5);
        let mut place = Place {
            pm: SimPm::new(PM, steps.clone()),
            fs: SimFs::new(steps),
            options,
            background: rng.gen_bool(0.5),
            ranges: rng.gen_bool(if filters { 0.2 } else { 0.5 }),
            long_percent: 20,
            filters,
            reached: reached.clone(),
        };
        // Range deletes beside readers, in memtables that stay in persistent memory.
        if rng.gen_bool(0.25) {
            place.options.level0.shape = Some(Shape::GlobalIndex);
            place.options.flush.generations = 0;
            (place.ranges, place.long_percent) = (true, 0);
        }
        place
    }

    /// What the values of a batch go into that are as long as [`LONG`].
    pub fn has_blobs(&self) -> bool {
        self.options.blob.inline_bytes_max < LONG as u64
    }

    /// Opens the store, making it if there is none.
    ///
    /// # Panics
    /// If that fails.
    pub fn open(&self) -> Open {
        let env = Env::simulated(self.fs.clone(), 7);
        let world = World {
            env: env.clone(),
            sim: Some(self.pm.clone()),
            shadow: None,
            background: self.background,
        };
        let options = RuntimeOptions {
            workers: 2,
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::with_clock(options, env.clock.clone()).unwrap();
        let reached = self.reached.clone();
        let filtered = if self.filters {
            &["default", "descends"][..]
        } else {
            &[]
        };
        let marks = |family: &&str| -> (String, Arc<dyn CompactionFilter>) {
            (family.to_string(), Arc::new(Marks))
        };
        let setup = Setup {
            runtime: Some(runtime.clone()),
            compaction_filters: filtered.iter().map(marks).collect(),
            listener: Some(Arc::new(move |event: &Event| reached.take(event))),
            ..Setup::default()
        };
        let dir = Path::new(DIR);
        let engine = Engine::open_with(world, dir, self.options.clone(), setup).unwrap();
        let descends = CfOptions::default().reverse(true);
        let families = [
            Family::DEFAULT,
            engine.family("descends", &descends).unwrap(),
        ];
        Open {
            engine,
            families,
            filters: self.filters,
            env,
            runtime,
        }
    }

    /// Takes the world at an instant to come: when, for the `n`-th time from now, something is about to
    /// become durable or has just become it.
    pub fn take_at(&self, n: u64, oracle: &Arc<Oracle>) -> Taken {
        let (place, oracle) = (self.clone(), oracle.clone());
        let instant: Arc<Mutex<Option<Instant>>> = Arc::default();
        let found = instant.clone();
        let at = self.steps().count() + n;
        self.steps().observe(Some(Arc::new(move |point| {
            if point.step == at {
                let now = place.now(&oracle);
                *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
            }
        })));
        Taken {
            steps: self.steps().clone(),
            instant,
        }
    }

    fn steps(&self) -> &Steps {
        self.fs.steps()
    }

    /// The world at one instant; other threads may run while it is looked at.
    fn now(&self, oracle: &Oracle) -> Instant {
        loop {
            let before = self.fs.digest();
            let durable = oracle.durable();
            let pm = self.pm.crash();
            let fs = self.fs.image_killed(Steps::new());
            if fs.digest() == before && self.fs.digest() == before {
                let bounds = Bounds {
                    least: durable,
                    most: oracle.started(),
                };
                return Instant { pm, fs, bounds };
            }
        }
    }

    /// The world after its end at that instant, in one of the states that it may be left in.
    pub fn after(&self, instant: &Instant) -> Place {
        let mut rng = thread_rng();
        let steps = Steps::new();
        let (words, seed) = (rng.gen_range(0..3u8), rng.r#gen());
        let pm = instant.pm.build(PM, steps.clone(), |_, word| match words {
            0 => 0,
            1 => word.candidates.len() - 1,
            _ => rng.gen_range(0..word.candidates.len()),
        });
        let fs = match rng.gen_range(0..3u8) {
            0 => instant.fs.image_none(steps),
            1 => instant.fs.image_all(steps),
            _ => instant.fs.image_random(seed, steps),
        };
        Place {
            pm,
            fs,
            options: self.options.clone(),
            background: self.background,
            ranges: self.ranges,
            long_percent: self.long_percent,
            filters: self.filters,
            reached: self.reached.clone(),
        }
    }
}

/// An instant that may be taken.
pub struct Taken {
    steps: Steps,
    /// The machine's own lock: nobody else runs while it is held.
    instant: Arc<Mutex<Option<Instant>>>,
}

impl Taken {
    /// The instant, if it came.
    pub fn get(self) -> Option<Instant> {
        // The observer holds the world, and this the observer.
        self.steps.observe(None);
        let mut instant = self.instant.lock().unwrap_or_else(PoisonError::into_inner);
        instant.take()
    }
}

impl Open {
    /// Lets time pass: what waits for its time is due.
    pub fn let_time_pass(&self) {
        self.env.clock.sleep_ms(2000);
        self.runtime.look_at_clock();
    }
}
