//! What many threads did with one store and saw of it, recorded and judged by the oracles of
//! `thermocline_testkit::history`.
//!
//! Each round draws options (small memtables, so that they are sealed all the time; groups, ring and
//! buffers of all sizes), opens a store, lets 4 to 8 threads write and read it in every way that the
//! facade has, and checks the history; then the store is closed, verified, opened again and read as a
//! whole, as one more read of the same history. [`commits`] and [`lists`] are the two workloads.
//!
//! `THERMOCLINE_HISTORY_OPERATIONS` says how many operations to check in all. With `THERMOCLINE_SEED`
//! every round is that of the seed: threads meet differently each time.

mod commits;
mod lists;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline::{CfOptions, ColumnFamily, Commit, Db, Durability, Options};
use thermocline_testkit::explore::explored;
use thermocline_testkit::history::Report;
use thermocline_testkit::{Replay, Rng};

/// The allocator of these tests, which make and drop a great deal (decision 179).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The families; the keys of the last one descend.
const FAMILIES: [&str; 3] = ["default", "second", "third"];

fn descends(family: usize) -> bool {
    family == 2
}

/// What one round runs on.
struct Store {
    db: Db,
    families: Vec<ColumnFamily>,
    options: Options,
    dir: PathBuf,
    _home: tempfile::TempDir,
}

/// A history checked, with what the threads counted.
struct Round {
    report: Report,
    counts: Counts,
}

/// How writes were committed, and what lay underneath.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    immediate: u64,
    buffered: u64,
    asynchronous: u64,
    /// At the end of rounds, and dropped before.
    memtables: u64,
    dropped: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.immediate += other.immediate;
        self.buffered += other.buffered;
        self.asynchronous += other.asynchronous;
        self.memtables += other.memtables;
        self.dropped += other.dropped;
    }
}

fn options(rng: &mut Rng) -> Options {
    let mut options = Options {
        pm: 4 << 30,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 1 << 20;
    options.memtable.bytes_max = *rng.pick(&[128 << 10, 300_000, 1 << 20]);
    options.memtable.idle_ms = *rng.pick(&[1, 1000]);
    options.commit.buckets = *rng.pick(&[0, 1, 2, 16]);
    options.commit.group_bytes_max = *rng.pick(&[0, 2000, 1 << 20]);
    options.commit.group_wait_us = *rng.pick(&[0, 0, 20, 200]);
    options.commit.ring_slots = *rng.pick(&[1, 2, 5, 64]);
    options.commit.buffered_bytes = *rng.pick(&[0, 1, 20_000, 1 << 20]);
    options.commit.buffered_ms = *rng.pick(&[1, 30, 1000]);
    options.read.readahead = *rng.pick(&[1, 3, 64]);
    options.manifest.bytes_max = *rng.pick(&[512, 1 << 20]);
    options
}

impl Store {
    fn new(rng: &mut Rng) -> Store {
        let shm = Path::new("/dev/shm");
        let home = if shm.is_dir() {
            tempfile::tempdir_in(shm)
        } else {
            tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        };
        let home = home.unwrap();
        let dir = home.path().join("db");
        let options = options(rng);
        let db = Db::open(&dir, options.clone()).unwrap();
        Store {
            families: families(&db),
            db,
            options,
            dir,
            _home: home,
        }
    }

    /// Closes the store, verifies it and opens it again.
    fn reopen(&mut self) {
        self.families.clear();
        let db = self.db.clone();
        self.db.clone().close().unwrap();
        drop(db);
        let report = Db::verify(&self.dir, self.options.clone());
        // The closed handle in `self` holds no lock.
        assert_eq!(report.unwrap().faults, []);
        self.db = Db::open(&self.dir, self.options.clone()).unwrap();
        self.families = families(&self.db);
    }
}

fn families(db: &Db) -> Vec<ColumnFamily> {
    let family = |(i, name): (usize, &&str)| {
        let options = CfOptions::default().reverse(descends(i));
        db.column_family(name, options).unwrap()
    };
    FAMILIES.iter().enumerate().map(family).collect()
}

/// How a thread commits, drawn anew for each batch.
struct Committer {
    counts: Counts,
    /// Commits that go on.
    open: Vec<Commit>,
    /// One in so many writes is Immediate.
    immediate: usize,
}

impl Committer {
    /// For all of a round alike, so that in some most writes meet in groups.
    fn new(round: u64) -> Committer {
        Committer {
            counts: Counts::default(),
            open: Vec::new(),
            immediate: *Rng::new(round).pick(&[1, 2, 4]),
        }
    }

    fn durability(&mut self, rng: &mut Rng) -> Durability {
        if rng.one_in(self.immediate) {
            self.counts.immediate += 1;
            Durability::Immediate
        } else {
            self.counts.buffered += 1;
            Durability::Buffered
        }
    }

    fn commit(&mut self, batch: &mut thermocline::Batch, rng: &mut Rng) {
        if rng.one_in(3 * self.immediate) {
            self.counts.asynchronous += 1;
            self.open.push(batch.commit_async().unwrap());
            if self.open.len() > 4 {
                let one = rng.below(self.open.len());
                self.open.swap_remove(one).wait().unwrap();
            }
            return;
        }
        let durability = self.durability(rng);
        batch.commit(durability).unwrap();
    }

    fn finish(self) -> Counts {
        for commit in self.open {
            commit.wait().unwrap();
        }
        self.counts
    }
}

/// How many operations are checked in all, one test having half of them.
fn operations_wanted() -> u64 {
    let wanted = std::env::var("THERMOCLINE_HISTORY_OPERATIONS");
    wanted.map_or_else(
        |_| explored(150_000, 1_100_000),
        |n| {
            n.parse()
                .expect("THERMOCLINE_HISTORY_OPERATIONS is a number")
        },
    )
}

/// Rounds from `seed` on until `share` operations have been checked.
fn rounds(name: &str, seed: u64, share: u64, round: impl Fn(u64) -> Round) {
    static CHECKED: AtomicU64 = AtomicU64::new(0);
    let fixed = std::env::var("THERMOCLINE_SEED").ok();
    let fixed = fixed.map(|seed| seed.parse().expect("THERMOCLINE_SEED is a number"));
    let (mut operations, mut observations, mut edges) = (0, 0, 0);
    let mut counts = Counts::default();
    for next in seed.. {
        let seed = fixed.unwrap_or(next);
        let _replay = Replay::new("-p thermocline --test histories", seed);
        let round = round(seed);
        round.report.assert_sound();
        operations += round.report.operations;
        observations += round.report.observations;
        edges += round.report.edges;
        counts.add(round.counts);
        if operations >= share {
            break;
        }
    }
    let all = CHECKED.fetch_add(operations, Ordering::Relaxed) + operations;
    println!(
        "{name}: {operations} operations, {observations} observations, {edges} edges, 0 anomalies; \
         {counts:?}; {all} operations so far"
    );
    // A run of one seed may draw only some of them.
    let one = std::env::var_os("THERMOCLINE_SEED").is_some();
    let kinds = counts.immediate > 0 && counts.buffered > 0 && counts.asynchronous > 0;
    assert!(one || kinds, "{counts:?}");
    assert!(
        counts.memtables + counts.dropped > explored(6, 20),
        "memtables are sealed underneath"
    );
}

#[test]
fn an_order_of_all_commits_explains_what_was_seen() {
    rounds(
        "commits",
        1000,
        operations_wanted() * 6 / 10,
        commits::round,
    );
}

#[test]
fn lists_that_are_only_appended_to_show_no_anomaly() {
    rounds("lists", 2000, operations_wanted() * 4 / 10, lists::round);
}
