//! Where stores lie: on the machine that runs the test, or on a simulated one that can lose its power.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use thermocline::{Db, DbBuilder, Options, Result};
use thermocline_base::Steps;
use thermocline_engine::World;
use thermocline_env::Clock;
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SimClock;
use thermocline_pm::SimPm;
use thermocline_testkit::Rng;

/// As many files a process of some histories may have open.
const DESCRIPTORS: usize = 64;

/// Most bytes of a simulated region.
const SIM_PM_BYTES: u64 = 8 << 20;

pub enum Machine {
    /// Folders on a disk and in shared memory; threads work in the background, as for any user.
    Real { disk: TempDir, shm: TempDir },
    /// Files and regions in memory, on one thread. The regions are found by the name of their store.
    Simulated {
        fs: SimFs,
        regions: BTreeMap<String, SimPm>,
        env: Env,
        clock: Arc<SimClock>,
    },
}

/// How a life of a store ends without being closed.
#[derive(Debug, Clone, Copy)]
pub enum Crash {
    /// Everything that was written is readable afterwards.
    Kill,
    /// What was not made durable is old, new, or mixed.
    PowerCut,
}

impl Machine {
    pub fn real() -> Machine {
        let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let shm = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let shm = shm.unwrap();
        Machine::Real { disk, shm }
    }

    pub fn simulated(seed: u64) -> Machine {
        let fs = SimFs::new(Steps::new());
        if seed.is_multiple_of(3) {
            fs.limit_descriptors(DESCRIPTORS);
        }
        let (env, clock) = simulated(&fs, seed);
        Machine::Simulated {
            env,
            clock,
            regions: BTreeMap::new(),
            fs,
        }
    }

    /// Sets the calendar. Only a simulated machine's can be.
    pub fn set_calendar(&self, seconds: u64) {
        if let Machine::Simulated { clock, .. } = self {
            clock.set_unix_s(seconds);
        }
    }

    /// Leaves so many bytes free on the disk from now on, or any number. Only a simulated disk does that.
    pub fn leave_on_disk(&self, bytes: Option<u64>) -> bool {
        let Machine::Simulated { fs, .. } = self else {
            return false;
        };
        fs.limit(bytes.map_or(u64::MAX, |bytes| fs.used() + bytes));
        true
    }

    pub fn is_simulated(&self) -> bool {
        matches!(self, Machine::Simulated { .. })
    }

    pub fn env(&self) -> Env {
        match self {
            Machine::Real { .. } => Env::real(),
            Machine::Simulated { env, .. } => env.clone(),
        }
    }

    /// The path of a store or a file.
    pub fn path(&self, name: &str) -> PathBuf {
        match self {
            Machine::Real { disk, .. } => disk.path().join(name),
            Machine::Simulated { .. } => Path::new("/").join(name),
        }
    }

    /// A path in shared memory, if the machine has any.
    pub fn shm(&self, name: &str) -> Option<PathBuf> {
        match self {
            Machine::Real { shm, .. } => Some(shm.path().join(name)),
            Machine::Simulated { .. } => None,
        }
    }

    pub fn open(&mut self, name: &str, options: &Options) -> Result<Db> {
        self.open_with(name, options, |db| db)
    }

    /// As [`Machine::open`], with what `more` adds.
    pub fn open_with(
        &mut self,
        name: &str,
        options: &Options,
        more: impl FnOnce(DbBuilder) -> DbBuilder,
    ) -> Result<Db> {
        let env = self.env();
        let db = more(Db::builder(self.path(name)).options(options.clone()));
        let Machine::Simulated { fs, regions, .. } = self else {
            return db.open();
        };
        let region = regions.entry(name.into());
        let region = region.or_insert_with(|| SimPm::new(SIM_PM_BYTES, fs.steps().clone()));
        let world = World {
            env,
            sim: Some(region.clone()),
            shadow: None,
            background: false,
        };
        db.open_in_world(world)
    }

    pub fn verify(&self, name: &str, options: &Options) -> Vec<String> {
        let world = match self {
            Machine::Real { .. } => World::real(),
            Machine::Simulated { regions, .. } => World {
                env: self.env(),
                sim: regions.get(name).cloned(),
                shadow: None,
                background: false,
            },
        };
        let report = thermocline_engine::verify(&world, &self.path(name), options).unwrap();
        report.faults.iter().map(|f| format!("{f:?}")).collect()
    }

    /// Removes a store that is closed, to give its space back. Names are not used again.
    pub fn remove(&self, name: &str) {
        if let Machine::Real { .. } = self {
            std::fs::remove_dir_all(self.path(name)).unwrap();
        }
    }

    /// The machine afterwards; only a simulated one can crash.
    pub fn crashed(&self, how: Crash, rng: &mut Rng) -> Machine {
        let Machine::Simulated {
            fs, regions, clock, ..
        } = self
        else {
            panic!("a real machine does not crash here");
        };
        let calendar = clock.unix_s();
        let (steps, seed) = (Steps::new(), rng.next_u64());
        let fs = match how {
            Crash::Kill => fs.image_killed(steps.clone()),
            Crash::PowerCut => fs.image_random(seed, steps.clone()),
        };
        let region = |(name, pm): (&String, &SimPm)| {
            let pm = match how {
                Crash::Kill => pm.fork(steps.clone()),
                Crash::PowerCut => {
                    let image = pm.crash();
                    image.build(SIM_PM_BYTES, steps.clone(), |_, word| {
                        rng.below(word.candidates.len())
                    })
                }
            };
            (name.clone(), pm)
        };
        let regions = regions.iter().map(region).collect();
        let (env, clock) = simulated(&fs, seed);
        clock.set_unix_s(calendar);
        Machine::Simulated {
            env,
            clock,
            regions,
            fs,
        }
    }
}

/// An [`Env::simulated`] whose clock can be set.
fn simulated(fs: &SimFs, seed: u64) -> (Env, Arc<SimClock>) {
    let clock = Arc::new(SimClock::new());
    let env = Env {
        clock: clock.clone(),
        ..Env::simulated(fs.clone(), seed)
    };
    (env, clock)
}
