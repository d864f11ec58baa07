//! Files that are written behind whoever writes them, against a plain vector: with threads and by a seed, with faults at
//! every write, with writers that go, and beside reads that take all room.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{AsyncIo, Result, Site, Steps};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::hooks::{Hooked, HookedFile, Hooks};
use thermocline_env::real::{RealClock, RealStorage};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::{SeededRandom, SimClock};
use thermocline_env::{Clock, File, OpenMode, Storage};
use thermocline_exec::{BatchRead, BatchReader, BufPool, DirectStorage, JobIo, Turn, UnderWay};
use thermocline_testkit::block_on;

const SYNC: Site = Site("test");

fn below(random: &SeededRandom, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap()
}

fn any_turn(random: &SeededRandom) -> Turn {
    match below(random, 3) {
        0 => Turn::First,
        1 => Turn::Now,
        _ => Turn::Within(1 + below(random, 4)),
    }
}

fn with_threads() -> Arc<JobIo> {
    let clock = Arc::new(RealClock::new());
    let pool = BufPool::new(1 << 20);
    Arc::new(JobIo::new(pool, UnderWay::default(), clock))
}

fn inline(seed: u64) -> Arc<JobIo> {
    Arc::new(JobIo::inline(BufPool::new(1 << 20), seed))
}

fn created(disk: &dyn Storage, path: &Path) -> Arc<dyn File> {
    disk.open(path, OpenMode::CreateNew).unwrap()
}

/// Writes a file from beginning to end, in pieces of any length, and looks at it from time to time.
fn write_and_compare(io: &Arc<JobIo>, disk: &dyn Storage, path: &Path, seed: u64) {
    let random = SeededRandom::new(seed);
    let file = io.behind(created(disk, path), any_turn(&random));
    let mut model: Vec<u8> = Vec::new();
    for n in 0..60 {
        let pages = 1 + below(&random, 8);
        let byte = u8::try_from(n).unwrap();
        let piece = vec![byte; pages * 4096];
        file.write_at(&piece, model.len() as u64).unwrap();
        model.extend(piece);
        match random.below(8) {
            0 => file.sync(SYNC).unwrap(),
            1 => assert_eq!(file.len().unwrap(), model.len() as u64),
            2 => block_on(file.written(below(&random, 3))),
            _ => {}
        }
    }
    file.write_tail(&[9; 1000], model.len() as u64).unwrap();
    model.extend([9; 1000]);
    drop(file);
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut found = vec![0; model.len() + 1];
    assert_eq!(file.read_at(&mut found, 0).unwrap(), model.len());
    assert!(found[..model.len()] == model, "seed {seed}");
    let at = below(&random, model.len() - 5000);
    let way = AsyncIo::ALL[below(&random, 4)];
    let read = |at, len| io.read((way, 1), file.clone(), at, len).unwrap().wait();
    assert!(read(at as u64, 5000).unwrap()[..] == model[at..at + 5000]);
    assert!(read(model.len() as u64 - 5, 10).is_none());
    assert!(io.read((way, 0), file, 0, 1).is_none());
}

#[test]
fn what_is_written_behind_is_what_was_given() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let real: Arc<dyn Storage> = Arc::new(RealStorage::new());
    let counter = Arc::default();
    let direct = DirectStorage::new(real, BufPool::new(1 << 20), counter);
    let threads = with_threads();
    assert_eq!(threads.usage().way, None);
    for seed in 0..20 {
        let sim = SimFs::new(Steps::new());
        write_and_compare(&inline(seed), &sim, Path::new("/a"), seed);
        write_and_compare(&threads, &sim, Path::new("/b"), seed);
        write_and_compare(&threads, &direct, &dir.path().join(format!("{seed}")), seed);
    }
    assert!(threads.usage().writers > 0);
    assert_ne!(threads.usage().way, None);
}

/// What lies in the file, and the error, if the write `at` fails.
fn failing(io: &Arc<JobIo>, at: u64) -> (u64, Option<String>) {
    let sim = SimFs::new(Steps::new());
    let disk = FaultStorage::over_sim(sim.clone());
    let file = io.behind(created(&disk, Path::new("/file")), Turn::Now);
    disk.arm(Plan {
        fault: Fault::NoSpace,
        op: Some(Op::Write),
        at: disk.calls_for(Fault::NoSpace, Some(Op::Write)) + at,
        repeat: Repeat::Once,
    });
    let mut error = None;
    for n in 0..10 {
        if let Err(failed) = file.write_at(&[1; 4096], n * 4096) {
            assert!(failed.is_no_room(), "{failed}");
            error = Some(failed.to_string());
            break;
        }
    }
    let synced = file.sync(SYNC);
    match (&error, synced) {
        // Told by now: from here on every call says that there was one.
        (Some(_), synced) => {
            let again = synced.unwrap_err().to_string();
            assert!(again.contains("an earlier write of it failed"), "{again}");
        }
        (None, Err(failed)) => {
            assert!(failed.is_no_room(), "{failed}");
            error = Some(failed.to_string());
        }
        (None, Ok(())) => {}
    }
    if error.is_some() {
        assert!(file.write_at(&[1; 4096], 0).is_err());
        assert!(file.write_tail(&[1; 4], 0).is_err());
    }
    drop(file);
    (
        sim.contents(Path::new("/file")).unwrap().len() as u64,
        error,
    )
}

#[test]
fn a_write_that_fails_is_told_once_and_nothing_behind_it_is_begun() {
    let threads = with_threads();
    for at in 0..10 {
        for io in (0..20).map(inline).chain([threads.clone()]) {
            let (written, error) = failing(&io, at);
            assert_eq!(written, at * 4096);
            let error = error.unwrap();
            assert!(error.contains("/file"), "{error}");
        }
    }
    let (written, error) = failing(&threads, 10);
    assert_eq!((written, error), (10 * 4096, None));
}

#[test]
fn by_a_seed_writes_lag_behind_as_far_as_they_may_and_are_the_same_each_time() {
    let lags = |seed| {
        let sim = SimFs::new(Steps::new());
        let file = inline(seed).behind(created(&sim, Path::new("/file")), Turn::Now);
        let lag = |n: u64| {
            file.write_at(&[1; 4096], n * 4096).unwrap();
            (n + 1) - sim.contents(Path::new("/file")).unwrap().len() as u64 / 4096
        };
        (0..40).map(lag).collect::<Vec<_>>()
    };
    assert_eq!(lags(3), lags(3));
    assert_ne!(lags(3), lags(4));
    for lag in 0..=2 {
        assert!(lags(3).contains(&lag), "{lag}");
    }
    assert!(lags(3).iter().all(|lag| *lag <= 2));
}

#[test]
fn whoever_goes_leaves_nothing_under_way() {
    for io in [inline(1), with_threads()] {
        for n in 0..50 {
            let sim = SimFs::new(Steps::new());
            let inner = odd(created(&sim, Path::new("/file")), false);
            let file = io.behind(inner.clone(), Turn::Now);
            for at in 0..n % 5 {
                file.write_at(&[1; 4096], at * 4096).unwrap();
            }
            drop(file);
            let then = sim.contents(Path::new("/file")).unwrap().len();
            // Until whoever has come to write has gone.
            while Arc::strong_count(&inner) > 1 {
                std::thread::yield_now();
            }
            assert_eq!(sim.contents(Path::new("/file")).unwrap().len(), then);
        }
    }
}

#[test]
fn many_files_take_turns() {
    let sim = SimFs::new(Steps::new());
    let io = with_threads();
    std::thread::scope(|scope| {
        for n in 0..100 {
            let (io, sim) = (&io, &sim);
            scope.spawn(move || {
                let path = format!("/{n}");
                let file = io.behind(created(sim, Path::new(&path)), Turn::Now);
                for at in 0..50 {
                    file.write_at(&[n; 4096], at * 4096).unwrap();
                }
                file.sync(SYNC).unwrap();
                assert!(sim.contents(Path::new(&path)).unwrap() == vec![n; 50 * 4096]);
            });
        }
    });
    assert!((1..=32).contains(&io.usage().writers));
}

#[test]
fn nobody_waits_for_a_write_that_panics() {
    let sim = SimFs::new(Steps::new());
    let panicking = |name| odd(created(&sim, Path::new(name)), true);
    let file = with_threads().behind(panicking("/threads"), Turn::Now);
    file.write_at(&[1; 4096], 0).unwrap();
    let error = file.sync(SYNC).unwrap_err().to_string();
    assert!(
        error.contains("has panicked") && error.contains("/threads"),
        "{error}"
    );
    drop(file);
    let file = inline(1).behind(panicking("/inline"), Turn::Now);
    let write = || (0..10).try_for_each(|n| file.write_at(&[1; 4096], n * 4096));
    assert!(catch_unwind(AssertUnwindSafe(write)).is_err());
    assert!(file.sync(SYNC).is_err());
    drop(file);
}

/// Reads wait until they are let go, or writes panic.
#[derive(Debug)]
struct Odd {
    gate: Mutex<()>,
    panics: bool,
}

impl Hooks for Odd {
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        drop(lock(&self.gate));
        file.read_at(buf, offset)
    }

    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> Result<()> {
        assert!(!self.panics, "as this test wants it");
        file.write_at(bytes, offset)
    }
}

fn odd(inner: Arc<dyn File>, panics: bool) -> Arc<HookedFile<Odd>> {
    let gate = Mutex::new(());
    Hooked::new(inner, Arc::new(Odd { gate, panics }))
}

/// A clock that is five milliseconds ahead whenever somebody looks at it again.
#[derive(Debug, Default)]
struct Hasty(AtomicU64);

impl Hasty {
    fn looks(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Clock for Hasty {
    fn now_ns(&self) -> u64 {
        5_000_000 * self.0.fetch_add(1, Ordering::SeqCst)
    }
    fn sleep_ms(&self, _: u64) {}
    fn unix_s(&self) -> u64 {
        0
    }
}

#[test]
fn a_write_waits_for_room_but_not_for_ever() {
    let sim = SimFs::new(Steps::new());
    sim.install(Path::new("/read"), &[7; 4096]);
    let held = odd(sim.open(Path::new("/read"), OpenMode::Read).unwrap(), false);
    let clock = Arc::new(Hasty::default());
    let clients = UnderWay::default();
    let io = Arc::new(JobIo::new(
        BufPool::new(1 << 20),
        clients.clone(),
        clock.clone(),
    ));
    let reader = BatchReader::counted(BufPool::new(1 << 20), clients.clone());
    // How often it looks whether it has waited long enough.
    let write = |name: &str, turn| {
        let before = clock.looks();
        let file = io.behind(created(&sim, Path::new(name)), turn);
        file.write_at(&[1; 4096], 0).unwrap();
        file.sync(SYNC).unwrap();
        clock.looks() - before
    };
    assert_eq!(write("/idle", Turn::Within(1)), 0);
    let closed = lock(&held.hooks.gate);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let read = BatchRead {
                file: &*held,
                offset: 0,
                len: 10,
            };
            reader.read(&[read]).pop().unwrap().unwrap();
        });
        while clients.now() == 0 {
            std::thread::yield_now();
        }
        // A reader takes the only place, or one of two. It stays: what ends this wait is that ten milliseconds are over.
        assert_eq!(write("/full", Turn::Within(1)), 3);
        assert_eq!(write("/half", Turn::Within(2)), 0);
        for (name, turn) in [("/first", Turn::First), ("/now", Turn::Now)] {
            assert_eq!(write(name, turn), 0);
        }
        drop(closed);
    });
    assert_eq!(clients.now(), 0);
    assert_eq!(write("/idle again", Turn::Within(1)), 0);
}

/// Counts the reads and writes of its files that are under way. They wait for the gate.
#[derive(Debug, Default)]
struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
    gate: Mutex<()>,
}

impl Busy {
    fn begin(&self) -> Begun<'_> {
        let now = 1 + self.now.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(now, Ordering::SeqCst);
        drop(lock(&self.gate));
        // So that others begin meanwhile, if they may.
        std::thread::yield_now();
        Begun(self)
    }

    fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }
}

/// A read or write that is under way.
struct Begun<'a>(&'a Busy);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Hooks for Busy {
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        let _begun = self.begin();
        file.read_at(buf, offset)
    }

    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> Result<()> {
        let _begun = self.begin();
        file.write_at(bytes, offset)
    }
}

#[test]
fn no_more_is_under_way_than_there_is_room_for() {
    const DEPTH: usize = 4;
    let sim = SimFs::new(Steps::new());
    sim.install(Path::new("/read"), &[7; 4096]);
    // This clock stands still, so nobody is ever out of patience.
    let clock = Arc::new(SimClock::new());
    let io = Arc::new(JobIo::new(
        BufPool::new(1 << 20),
        UnderWay::default(),
        clock,
    ));
    let busy = Arc::new(Busy::default());
    let counting = |inner: Arc<dyn File>| -> Arc<dyn File> { Hooked::new(inner, busy.clone()) };
    let read_from = counting(sim.open(Path::new("/read"), OpenMode::Read).unwrap());
    let read = || io.read((AsyncIo::Threads, DEPTH), read_from.clone(), 5, 10);
    let closed = lock(&busy.gate);
    let files: Vec<_> = (0..24)
        .map(|n| {
            let file = counting(created(&sim, Path::new(&format!("/{n}"))));
            io.behind(file, Turn::Within(DEPTH))
        })
        .collect();
    for file in &files {
        file.write_at(&[1; 4096], 0).unwrap();
    }
    // Each has a thread that makes its write. Only some of them begin before one has ended.
    while busy.now() < DEPTH {
        std::thread::yield_now();
    }
    assert!(read().is_none());
    drop(closed);
    let read = &read;
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(move || {
                for at in 1..20 {
                    file.write_at(&[1; 4096], at * 4096).unwrap();
                    if let Some(coming) = read() {
                        assert_eq!(coming.wait().unwrap()[..], [7; 10]);
                    }
                }
                file.sync(SYNC).unwrap();
            });
        }
    });
    assert_eq!((busy.now(), busy.most.load(Ordering::SeqCst)), (0, DEPTH));
    for n in 0..24 {
        let contents = sim.contents(Path::new(&format!("/{n}"))).unwrap();
        assert!(contents == vec![1; 20 * 4096], "/{n}");
    }
}
