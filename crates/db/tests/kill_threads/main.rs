//! A child process with eight writing threads, on one store or on three at once, is killed with SIGKILL
//! at some moment, over and over on the same stores; each time what is left must be explained.
//!
//! The threads write numbered operations that follow from a seed ([`plan`]): single puts and deletes,
//! batches over two column families, Immediate, Buffered or without waiting, on keys of their own and
//! on keys that all share. Each notes in a file of its own ([`board`]) when an operation began, when it
//! was acknowledged, and whether it was durable then. Those files are ordinary ones, which a killed
//! process does not take along, whatever becomes of the region.
//!
//! The parent then opens the stores and takes what it finds as one read of a history whose commits are
//! the child's operations (`thermocline_testkit::history::commits`). The read must see, of every thread,
//! its first operations without a gap and with all that was durable; whole batches; and over all
//! threads a prefix of one order that fits the times: where one operation returned before another
//! began and the other is there, it is there too. Every value carries its stamp, and stamps are never
//! used again, so a value from before the last crash that was overwritten or deleted since, or one
//! that an earlier crash had taken, is recognised. From what was found the next child goes on.
//!
//! `THERMOCLINE_KILLS` says how often each test kills.

#![expect(
    clippy::disallowed_methods,
    reason = "what the threads note lies outside of the stores"
)]

mod board;
mod child;
mod parent;
mod plan;

use std::path::Path;

use thermocline::options::RegionDemand;
use thermocline::{Db, Options};
use thermocline_engine::World;
use thermocline_pm::Shadow;
use thermocline_testkit::{Replay, Rng, seeds};

use parent::Parent;

/// What the region is, and so what a kill takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// A file on a disk: a kill takes nothing that was stored.
    File,
    /// A file in memory: the same.
    Shm,
    /// A file behind a model of the processor's caches: a kill takes all that was not persisted, but
    /// for what happened to be evicted.
    Shadow,
}

impl Where {
    const ALL: [Where; 3] = [Where::File, Where::Shm, Where::Shadow];

    fn of(name: &str) -> Where {
        let found = Where::ALL
            .into_iter()
            .find(|place| format!("{place:?}") == name);
        found.expect("the parent names a place")
    }

    fn open(self, dir: &Path, options: &Options, rng: &mut Rng) -> Db {
        let region = match self {
            Where::File => RegionDemand::File,
            Where::Shm => RegionDemand::Shm,
            Where::Shadow => RegionDemand::Any,
        };
        let options = Options {
            region,
            ..options.clone()
        };
        let shadow = Shadow {
            seed: rng.next_u64(),
            evictions_per_ms: *rng.pick(&[0, 1, 30, 500]),
        };
        let world = World {
            shadow: (self == Where::Shadow).then_some(shadow),
            ..World::real()
        };
        let db = Db::builder(dir).options(options);
        db.open_in_world(world).unwrap()
    }

    /// A folder for stores like that; `None` if the machine has no place for them.
    fn home(self) -> Option<tempfile::TempDir> {
        let shm = Path::new("/dev/shm");
        let in_memory = shm.is_dir().then(|| tempfile::tempdir_in(shm).ok());
        match self {
            Where::File => Some(disk()),
            Where::Shm => in_memory.flatten(),
            Where::Shadow => in_memory.flatten().or_else(|| Some(disk())),
        }
    }
}

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn kills_wanted(usual: usize) -> usize {
    let wanted = std::env::var("THERMOCLINE_KILLS");
    wanted.map_or(usual, |n| n.parse().expect("THERMOCLINE_KILLS is a number"))
}

/// How often in a row the same stores are crashed.
const KILLS_PER_HOME: usize = 8;

/// Kills `usual` times unless told otherwise, on `stores` stores at a time.
fn kill_loop(place: Where, stores: usize, usual: usize, first_seed: u64) {
    let mut left = kills_wanted(usual);
    let mut counts = parent::Counts::default();
    let homes = left.div_ceil(KILLS_PER_HOME) as u64;
    for seed in seeds(first_seed..first_seed + homes) {
        let _replay = Replay::new("-p thermocline --test kill_threads", seed);
        let Some(home) = place.home() else {
            eprintln!("no place for a region of kind {place:?} here: not tested");
            return;
        };
        // What the threads note must survive the process, and only that.
        let boards = disk();
        let mut parent = Parent::new(seed, place, home.path(), boards.path(), stores);
        for _ in 0..KILLS_PER_HOME.min(left) {
            parent.round();
            left -= 1;
        }
        counts.add(parent.counts);
    }
    println!("{place:?}, {stores} stores: {counts:?}");
    counts.check();
}

#[test]
fn eight_threads_on_a_file_are_killed() {
    kill_loop(Where::File, 1, 12, 100);
}

#[test]
fn eight_threads_on_shared_memory_are_killed() {
    kill_loop(Where::Shm, 1, 22, 200);
}

#[test]
fn eight_threads_on_a_shadowed_region_are_killed() {
    kill_loop(Where::Shadow, 1, 30, 500);
}

#[test]
fn three_stores_on_shadowed_regions_are_killed() {
    kill_loop(Where::Shadow, 3, 16, 600);
}

#[test]
fn three_stores_on_files_are_killed() {
    kill_loop(Where::File, 3, 5, 300);
}

#[test]
fn three_stores_on_shared_memory_are_killed() {
    kill_loop(Where::Shm, 3, 10, 400);
}

/// Not a test of its own: what the child does when a parent has started it.
#[test]
fn child() {
    if let Ok(task) = std::env::var(child::TASK) {
        child::run(&child::Task::parse(&task));
    }
}

/// Options of both processes, small, so that memtables, parts of the region and manifests change all
/// the time.
fn options(rng: &mut Rng) -> Options {
    let mut options = Options {
        pm: 256 << 20,
        dram: 256 << 20,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = *rng.pick(&[64 << 10, 300_000, 1 << 20]);
    options.memtable.idle_ms = *rng.pick(&[0, 1, 20]);
    options.memtable.replay_threads = *rng.pick(&[0, 1, 3]);
    options.manifest.bytes_max = *rng.pick(&[512, 4096, 1 << 20]);
    options.commit.buckets = *rng.pick(&[0, 1, 16]);
    options.commit.group_bytes_max = *rng.pick(&[0, 2000, 1 << 20]);
    options.commit.ring_slots = *rng.pick(&[1, 3, 64]);
    options.commit.buffered_bytes = *rng.pick(&[0, 20_000, 1 << 20]);
    options.commit.buffered_ms = *rng.pick(&[1, 30, 1000]);
    options
}
