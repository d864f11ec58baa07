//! A small disk that is full, whose room the region takes, too.
//!
//! A store fills the disk, is closed or killed and opened again there, deletes all it has, and writes again, as
//! much as before or nearly so, though nobody makes room for it. On a simulated disk, which is everywhere; on a
//! quota, which says nothing of its room; and on real file systems of 64 MiB, where such can be mounted. Where they
//! cannot, that is said on the standard error, whether or not tests show what they print. There most of the time that
//! writers are held back is not waited for but skipped.
//!
//! A mount lives in a mount namespace of a child process, this test binary once more, and goes with it.

use std::io::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_base::options::{Options, Preset};
use thermocline_base::{CfId, Error, ErrorKind, Steps, WriteBatch};
use thermocline_engine::{Durability, Engine, World};
use thermocline_env::fault::FaultStorage;
use thermocline_env::real::{RealClock, RealStorage};
use thermocline_env::sim::SimFs;
use thermocline_env::{Clock, Env, Storage};
use thermocline_pm::SimPm;
use thermocline_testkit::Rng;
use thermocline_testkit::explore::{explored, is_tried};

const CF: CfId = CfId::DEFAULT;
const VALUE: usize = 4000;

/// Where the child finds the disk.
const HOME: &str = "THERMOCLINE_SMALL_DISK";

/// And which preset it tries.
const PRESET: &str = "THERMOCLINE_SMALL_DISK_PRESET";

/// What the child's shell says where it cannot mount.
const REFUSED: u8 = 77;

/// Tries for one write. Between two of them threads of the store have a moment.
const TRIES: u32 = 5000;

/// A machine with a store.
struct Machine {
    world: World,
    dir: PathBuf,
    options: Options,
    rng: Rng,
    /// How often it is filled again.
    rounds: u32,
}

impl Machine {
    fn new(world: World, dir: PathBuf, options: Options) -> Machine {
        let rng = Rng::new(16);
        Machine {
            world,
            dir,
            options,
            rng,
            rounds: 2,
        }
    }

    fn open(&self) -> Engine {
        Engine::open(self.world.clone(), &self.dir, self.options.clone()).unwrap()
    }

    fn put(&mut self, engine: &Engine, key: u64) -> Result<(), Error> {
        let words = (0..VALUE / 8).flat_map(|_| self.rng.next_u64().to_le_bytes());
        let value: Vec<u8> = words.collect();
        let mut batch = WriteBatch::new();
        batch.put(CF, &key.to_be_bytes(), &value)?;
        // Each durable write takes its time on a device.
        let durability = match key % 64 {
            0 => Durability::Immediate,
            _ => Durability::Buffered,
        };
        engine.write(batch.iter(), durability)
    }

    /// Puts until that is refused, and says how many there were and why.
    fn fill(&mut self, engine: &Engine) -> (u64, Error) {
        for key in 0.. {
            if let Err(error) = self.put(engine, key) {
                assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
                return (key, error);
            }
        }
        unreachable!("the disk is small");
    }

    /// Puts so many keys, each as often as it takes.
    fn put_again(&mut self, engine: &Engine, keys: u64) {
        for key in 0..keys {
            let mut tries = 0;
            while let Err(error) = self.put(engine, key) {
                assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
                tries += 1;
                let space = engine.metrics().space;
                assert!(
                    tries < TRIES,
                    "key {key} of {keys}: {error}\n{space:?} {:?}",
                    self.world.env.storage.room(&self.dir)
                );
                self.world.env.clock.sleep_ms(1);
            }
        }
    }

    /// Fills, deletes all, and goes on, several times; `between` is called when the store is not open.
    fn run(&mut self, at_least: u64, kills: bool, mut between: impl FnMut(u32)) {
        let engine = self.open();
        let (first, error) = self.fill(&engine);
        assert!(
            first * VALUE as u64 > at_least,
            "{first} keys: {error} {:?}",
            engine.metrics().space
        );
        let mut engine = Some(engine);
        for round in 0..self.rounds {
            let last = engine.take().unwrap();
            if !kills {
                last.close().unwrap();
            }
            drop(last);
            between(round);
            let now = self.open();
            delete_all(&now);
            let all = (Bound::Unbounded, Bound::Unbounded);
            if let Err(error) = now.compact(CF, all) {
                // There may be no room for it yet; what it was to make comes by itself.
                assert!(error.is_no_room(), "{error}");
            }
            self.put_again(&now, first / 2);
            self.fill(&now);
            engine = Some(now);
        }
        engine.unwrap().close().unwrap();
    }
}

fn delete_all(engine: &Engine) {
    let mut batch = WriteBatch::new();
    batch.delete_range(CF, b"", None).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    let found = engine.get(CF, &0u64.to_be_bytes(), <[u8]>::len).unwrap();
    assert_eq!(found, None);
}

const DISK: u64 = 12 << 20;

fn simulated(shape: &str) -> (SimFs, Machine) {
    let steps = Steps::new();
    let (fs, sim) = (SimFs::new(steps.clone()), SimPm::new(2 * DISK, steps));
    sim.lie_on(&fs);
    fs.limit(DISK);
    let world = World {
        env: Env::simulated(fs.clone(), 7),
        sim: Some(sim),
        shadow: None,
        background: false,
    };
    let mut options = Options {
        pm: 2 * DISK,
        ..Options::default()
    };
    options.set("level0.shape", shape).unwrap();
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 256 << 10;
    (fs, Machine::new(world, PathBuf::from("/db"), options))
}

#[test]
fn a_store_with_all_deleted_writes_again() {
    for shape in ["global-index", "tiered", "pm-tables"] {
        for kills in [false, true] {
            let (_fs, mut machine) = simulated(shape);
            machine.rounds = u32::try_from(explored(1, 2)).unwrap();
            machine.run(DISK / 4, kills, |_| {});
        }
    }
}

/// Somebody else takes all that is left while the store is closed, and does not give it back: it opens, and
/// deletes, and has what it needs from its own region.
#[test]
fn a_disk_without_a_byte_left_is_opened_and_deleted_from() {
    for shape in ["global-index", "tiered"] {
        for kills in [false, true] {
            let (fs, mut machine) = simulated(shape);
            let disk = fs.clone();
            machine.run(DISK / 4, kills, |round| {
                if round == 1 {
                    let room = disk.room(Path::new("/db")).unwrap().unwrap();
                    disk.limit(room.total - room.free);
                }
            });
        }
    }
}

/// A call that is under way holds the tables that it reads. Once it has returned, and the store is closed, they are gone: who
/// frees a disk by hand need not open the store again.
#[test]
fn what_a_call_has_held_is_gone_when_the_store_is_closed() {
    let (fs, machine) = simulated("global-index");
    let engine = machine.open();
    let key = 1u64.to_be_bytes();
    let tables = || {
        let names = fs.list(&machine.dir).unwrap();
        names.iter().filter(|name| name.ends_with(".sst")).count()
    };
    let mut batch = WriteBatch::new();
    batch.put(CF, &key, &[7; 1000]).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    engine.flush().unwrap();
    assert_eq!(tables(), 1);
    let held = engine.get(CF, &key, |value| {
        assert_eq!(value, [7; 1000]);
        delete_all(&engine);
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        engine.compact(CF, all).unwrap();
        tables()
    });
    assert_eq!(held.unwrap(), Some(1));
    engine.close().unwrap();
    assert_eq!(tables(), 0);
}

/// The file system says that there is room, and gives none.
#[test]
fn a_quota_says_nothing() {
    for background in [false, true] {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let disk = FaultStorage::new(Arc::new(RealStorage::new()));
        disk.limit_space(64 << 20);
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let world = World {
            env: Env {
                storage,
                ..Env::real()
            },
            background,
            ..World::real()
        };
        let mut options = Options::default();
        // Durable writes to an ordinary file take their time.
        options.memtable.bytes_max = 2 << 20;
        let dir = home.path().join("db");
        let mut machine = Machine::new(world, dir, options);
        machine.run(8 << 20, false, |_| {});
        assert!(disk.fired() > 0);
    }
}

/// A clock on which whoever sleeps wakes early, and finds that the time has passed all the same.
#[derive(Debug, Default)]
struct Skipping {
    real: RealClock,
    slept_ms: AtomicU64,
}

/// Of so many milliseconds one is slept through, so that others have their turn.
const SLEPT_PART: u64 = 16;

impl Clock for Skipping {
    fn now_ns(&self) -> u64 {
        // Relaxed: it orders nothing.
        self.real.now_ns() + self.slept_ms.load(Ordering::Relaxed) * 1_000_000
    }

    fn sleep_ms(&self, ms: u64) {
        let before = self.slept_ms.fetch_add(ms, Ordering::Relaxed);
        let really = (before + ms) / SLEPT_PART - before / SLEPT_PART;
        self.real.sleep_ms(really);
    }

    fn unix_s(&self) -> u64 {
        self.real.unix_s()
    }
}

/// The child's part.
#[test]
#[ignore = "needs a disk that its parent mounts"]
fn child() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    let preset = std::env::var(PRESET).unwrap();
    let options = Options::preset(Preset::parse(&preset).unwrap());
    let dir = PathBuf::from(home).join("db");
    let mut world = World::real();
    world.env.clock = Arc::new(Skipping::default());
    let mut machine = Machine::new(world, dir, options);
    machine.rounds = u32::try_from(explored(1, 2)).unwrap();
    machine.run(8 << 20, false, |_| {});
}

/// Has the child run where `mount`, a piece of shell, has mounted a disk on `$1`. `$2` is a place for a file.
fn on_disk(kind: &str, preset: &str, mount: &str) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("disk");
    Env::real().storage.create_dir_all(&home).unwrap();
    let script = format!("{{ {mount}; }} || exit {REFUSED}; shift 2; exec \"$@\"");
    let run = |own_users: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(own_users);
        command.args(["--mount", "sh", "-c", &script, "sh"]);
        command.args([&home, &folder.path().join("image")]);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", "disk_full::child", "--ignored", "--nocapture"]);
        command.env(HOME, &home).env(PRESET, preset).output()
    };
    let mut why = String::new();
    // As who may mount, or as one's own master.
    for own_users in [&[][..], &["--user", "--map-root-user"]] {
        match run(own_users) {
            Ok(done) if done.status.success() => return,
            Ok(done) => {
                why = String::from_utf8_lossy(&done.stderr).into_owned();
                let begun = String::from_utf8_lossy(&done.stdout).contains("running 1 test");
                assert!(!begun, "on {kind}, preset {preset}: {why}");
            }
            Err(error) => why = error.to_string(),
        }
    }
    let told = format!(
        "SKIPPED: a full {kind} of 64 MiB, preset {preset}: it cannot be mounted here: {why}\n"
    );
    // Past what keeps back the prints of tests.
    let _ = std::io::stderr().write_all(told.as_bytes());
}

const TMPFS: &str = "mount -t tmpfs -o size=64m none \"$1\"";
const EXT4: &str =
    "truncate -s 64M \"$2\" && mkfs.ext4 -q -F \"$2\" && mount -o loop \"$2\" \"$1\"";

/// All at once: what they take is mostly the time that writers are held back on a disk that is nearly full. Tests run in the
/// order of their names, and this one comes early enough that others run meanwhile.
#[test]
fn mounted_disks_of_each_kind() {
    let disks = [
        ("tmpfs", "thermocline", TMPFS),
        ("tmpfs", "leveled", TMPFS),
        ("ext4", "thermocline", EXT4),
        ("ext4", "leveled", EXT4),
    ];
    // A plain run tries each kind, and each preset.
    let tried = disks.into_iter().enumerate();
    let tried = tried.filter(|(nth, _)| is_tried(*nth, 3));
    std::thread::scope(|scope| {
        for (_, (kind, preset, mount)) in tried {
            scope.spawn(move || on_disk(kind, preset, mount));
        }
    });
}
