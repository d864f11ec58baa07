//! Faults at every call: of files, over simulated ones, and of the fences of persistent memory.
//!
//! One workload creates a store and writes to it over several openings, seals and
//! switches of the manifest. It runs once for each call that a fault can befall. Whatever happens,
//! an operation works or is an error; after a failed persist writes end and reads go on; and a
//! healthy open after that, of a killed process as well as after a power cut, has everything that
//! was acknowledged, and of what was not at most the operation that met the fault. So has one after a power cut
//! that hits the machine when the killed process was followed by another one, which opened what it read in caches,
//! or has written on (`check_again`). Another workload
//! does the same with flushes (`flush`), a third with long values (`blobs`).

mod blobs;
mod flush;
mod leveled;
mod once;
mod refused;
mod verify;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use thermocline_base::options::{Options, Preset, Shape};
use thermocline_base::{CfId, CfOptions, Error, ErrorKind, Result, Steps, WriteBatch};
use thermocline_engine::{Cursor, Durability, Engine, World};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::sim::SimFs;
use thermocline_env::{Env, real::RealStorage};
use thermocline_pm::SimPm;
use thermocline_testkit::Rng;
use thermocline_testkit::explore::{one_in, side_by_side};

use once::{Left, is_new};

/// The allocator of these tests: they take a sixth less time with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Map = BTreeMap<(String, Vec<u8>), Vec<u8>>;

const CAPACITY: u64 = 1 << 20;

/// Where a family's metadata stands in a [`Map`]; no key looks like it.
const METADATA: &[u8] = b"metadata";

fn dir() -> &'static Path {
    Path::new("/home/db")
}

thread_local! {
    /// Whether the tests of this thread are about records in DRAM, and logs.
    static LOGGED: Cell<bool> = const { Cell::new(false) };
    /// Whether they are about values in blob files.
    static LONG: Cell<bool> = const { Cell::new(false) };
}

fn options() -> Options {
    let mut options = Options {
        pm: CAPACITY,
        ..Options::default()
    };
    // Flushes write files.
    options.level0.shape = Some(Shape::GlobalIndex);
    if LOGGED.get() {
        options.preset = Preset::Leveled;
        options.level0.shape = Some(Shape::Ssd);
        options.dram = 4 * CAPACITY;
    }
    if LONG.get() {
        options.blob.inline_bytes_max = 100;
        options.blob.generation_bytes = 2000;
    }
    options.pm_region.part_bytes_first = 256 << 10;
    options.flush.automatic = false;
    options.memtable.bytes_max = 3000;
    options.memtable.item_bytes_max = 4 << 10;
    options.manifest.bytes_max = 512;
    // Decisions depend on how often is read: no number is drawn.
    options.partition.rate_sample = 1;
    options
}

fn world(storage: Arc<dyn thermocline_env::Storage>, pm: SimPm) -> World {
    let fs = SimFs::new(Steps::new());
    World {
        env: Env {
            storage,
            ..Env::simulated(fs, 7)
        },
        sim: Some(pm),
        shadow: None,
        background: false,
    }
}

/// What a run got acknowledged, and what was in flight when it ended.
#[derive(Default)]
struct Run {
    acknowledged: Map,
    in_flight: Option<Map>,
    /// Families whose creation was acknowledged, `default` not counted.
    families: Vec<String>,
    /// Families whose drop was acknowledged.
    dropped: Vec<String>,
}

/// A simulated machine with faults.
struct Machine {
    fs: SimFs,
    pm: SimPm,
    disk: FaultStorage,
}

impl Machine {
    fn new() -> Machine {
        let fs = SimFs::new(Steps::new());
        Machine {
            pm: SimPm::new(CAPACITY, Steps::new()),
            disk: FaultStorage::over_sim(fs.clone()),
            fs,
        }
    }

    fn world(&self) -> World {
        world(Arc::new(self.disk.clone()), self.pm.clone())
    }
}

fn entries(engine: &Engine) -> Result<Map> {
    let mut all = Map::new();
    for name in engine.families() {
        let family = engine.find_family(&name).expect("it is listed");
        if let Some(blob) = engine.metadata(family.id, <[u8]>::to_vec)? {
            all.insert((name.clone(), METADATA.to_vec()), blob);
        }
        let mut cursor: Cursor = engine.cursor(family)?;
        let mut more = cursor.seek_to_first()?;
        while more {
            let key = (name.clone(), cursor.key().to_vec());
            all.insert(key, cursor.value().to_vec());
            more = cursor.next()?;
        }
    }
    Ok(all)
}

/// The workload. Ends with the first error.
fn work(world: &World, run: &mut Run) -> Result<()> {
    let mut rng = Rng::new(11);
    for session in 0..4 {
        let engine = Engine::open(world.clone(), dir(), options())?;
        assert!(entries(&engine)? == run.acknowledged, "session {session}");
        let name = format!("family {session}");
        let order = CfOptions::default().reverse(session % 2 == 1);
        let family = match engine.family(&name, &order) {
            Ok(family) => family.id,
            Err(error) => {
                refuses_writes(&engine, run, &error);
                return Err(error);
            }
        };
        run.families.push(name.clone());
        if session % 2 == 1 {
            drop_first(&engine, run)?;
        }
        for n in 0..12 {
            // Two of them are larger than an item.
            let changes = match n {
                4 | 5 => 24,
                _ => 1 + rng.below(3),
            };
            let mut after = run.acknowledged.clone();
            let mut batch = WriteBatch::new();
            for _ in 0..changes {
                let key = format!("{:02}", rng.below(30)).into_bytes();
                let (cf, cf_name) = match rng.one_in(2) {
                    true => (family, name.clone()),
                    false => (CfId::DEFAULT, "default".to_string()),
                };
                if rng.one_in(8) {
                    let end = [&key[..], b"\xff"].concat();
                    batch.delete_range(cf, &key[..1], Some(&end))?;
                    after.retain(|(of, k), _| {
                        *of != cf_name || k[..] < key[..1] || k[..] >= end[..]
                    });
                } else if rng.one_in(4) {
                    batch.delete(cf, &key)?;
                    after.remove(&(cf_name, key));
                } else {
                    let value = vec![b'v'; rng.below(900)];
                    batch.put(cf, &key, &value)?;
                    after.insert((cf_name, key), value);
                }
            }
            if rng.one_in(3) {
                let blob = vec![b'm'; rng.below(50)];
                batch.set_metadata(family, &blob)?;
                after.insert((name.clone(), METADATA.to_vec()), blob);
            }
            if let Err(error) = engine.write(batch.iter(), Durability::Immediate) {
                run.in_flight = Some(after);
                refuses_writes(&engine, run, &error);
                return Err(error);
            }
            run.acknowledged = after;
        }
        if session % 2 == 0 {
            engine.close()?;
        }
        // Dropped otherwise, which closes it as well, without an answer.
    }
    Ok(())
}

/// Drops the family that was made first.
fn drop_first(engine: &Engine, run: &mut Run) -> Result<()> {
    let name = run.families.remove(0);
    let mut after = run.acknowledged.clone();
    after.retain(|(of, _), _| *of != name);
    if let Err(error) = engine.drop_family(&name) {
        run.in_flight = Some(after);
        refuses_writes(engine, run, &error);
        return Err(error);
    }
    run.acknowledged = after;
    run.dropped.push(name);
    Ok(())
}

/// Whether it may have happened in part, what failed with this. An open, and what only looks, has come before.
fn may_have_happened(cause: &Error) -> bool {
    match cause {
        Error::Io { op, .. } => !["open", "create", "list", "look up", "lock"]
            .iter()
            .any(|before| op.starts_with(before)),
        _ => true,
    }
}

/// After an error that is neither one of space nor one of what was not even begun: writes end, with the cause, and reads
/// go on.
fn refuses_writes(engine: &Engine, run: &mut Run, cause: &Error) {
    let found = entries(engine).unwrap();
    let in_flight = run.in_flight.as_ref();
    assert!(found == run.acknowledged || Some(&found) == in_flight);
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"after", b"the fault").unwrap();
    // That writing goes on then is for `refused`.
    if cause.kind() == ErrorKind::OutOfSpace || !may_have_happened(cause) {
        return;
    }
    let begins_log = matches!(cause, Error::Io { path, .. }
        if path.extension().is_some_and(|name| name == "log"));
    for _ in 0..2 {
        let again = match engine.write(batch.iter(), Durability::Immediate) {
            // Of a log that could not be begun nothing is left, and nobody knows it.
            Ok(()) if begins_log => {
                assert!(found == run.acknowledged, "{cause}");
                let key = ("default".to_string(), b"after".to_vec());
                run.acknowledged.insert(key, b"the fault".to_vec());
                run.in_flight = None;
                return;
            }
            Err(again)
                if begins_log && [ErrorKind::Io, ErrorKind::OutOfSpace].contains(&again.kind()) =>
            {
                return;
            }
            Ok(()) => panic!("a write is taken after {cause}"),
            Err(again) => again,
        };
        assert_eq!(again.kind(), ErrorKind::Poisoned, "{again} after {cause}");
        assert!(again.to_string().contains(&cause.to_string()), "{again}");
        let again = engine
            .family("after the fault", &CfOptions::default())
            .unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Poisoned, "{again}");
    }
    assert!(entries(engine).unwrap() == found);
    for _ in 0..2 {
        let error = engine.close().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    }
    assert!(entries(engine).unwrap() == found, "reading after closing");
}

/// Opens what is left, in health, twice. Gives what is acknowledged then.
fn check(fs: SimFs, pm: SimPm, run: &Run, what: &str) -> Map {
    let world = world(Arc::new(fs), pm);
    let mut first = None;
    for round in 0..2 {
        let engine = Engine::open(world.clone(), dir(), options())
            .unwrap_or_else(|error| panic!("{what}, open {round}: {error}"));
        let found = entries(&engine).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(
            found == run.acknowledged || Some(&found) == run.in_flight.as_ref(),
            "{what}: {} entries, {} acknowledged",
            found.len(),
            run.acknowledged.len()
        );
        for name in &run.families {
            assert!(engine.find_family(name).is_some(), "{what}: {name} is gone");
        }
        for name in &run.dropped {
            assert!(engine.find_family(name).is_none(), "{what}: {name} is back");
        }
        assert!(first.get_or_insert(found.clone()) == &found, "{what}");
        if round == 0 {
            drop(engine);
            let report = thermocline_engine::verify(&world, dir(), &options()).unwrap();
            assert_eq!(report.faults, [], "{what}");
            continue;
        }
        let names = world.env.storage.list(dir()).unwrap();
        let blobs = names.iter().filter(|name| name.ends_with(".blob"));
        assert_eq!(blobs.count() as u64, engine.metrics().blobs.files, "{what}");
        // It takes writes again.
        let mut batch = WriteBatch::new();
        batch.put(CfId::DEFAULT, b"again", b"well").unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        engine.close().unwrap();
    }
    let mut now = first.unwrap_or_default();
    now.insert(("default".into(), b"again".to_vec()), b"well".to_vec());
    now
}

/// Checks what a killed process leaves, and what a power cut does.
fn check_all(machine: &Machine, run: &Run, what: &str) {
    machine.disk.disarm();
    let (fs, pm) = (
        machine.fs.image_killed(Steps::new()),
        machine.pm.fork(Steps::new()),
    );
    if is_new(Left::Killed, &fs, &pm, run) {
        check(fs, pm, run, &format!("{what}, killed"));
    }
    check_power_cut(&machine.fs, &machine.pm, run, what);
}

/// Checks a machine that goes on without the process: what the next one reads may be in caches alone, and be held for
/// written where a sync has failed. It has to be durable once it was opened, and what is written on, too.
fn check_again(machine: &Machine, run: &Run, what: &str) {
    let (fs, pm) = (
        &machine.fs.image_killed(Steps::new()),
        &machine.pm.fork(Steps::new()),
    );
    let opened = (fs.image_killed(Steps::new()), pm.fork(Steps::new()));
    let engine = Engine::open(
        world(Arc::new(opened.0.clone()), opened.1.clone()),
        dir(),
        options(),
    )
    .unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = Run {
        acknowledged: entries(&engine).unwrap(),
        in_flight: None,
        families: run.families.clone(),
        dropped: run.dropped.clone(),
    };
    check_power_cut(&opened.0, &opened.1, &found, &format!("{what}, opened"));
    drop(engine);
    let written = Run {
        acknowledged: check(fs.clone(), pm.clone(), run, what),
        ..found
    };
    check_power_cut(fs, pm, &written, &format!("{what}, written on"));
}

/// Checks what a power cut leaves now.
fn check_power_cut(fs: &SimFs, pm: &SimPm, run: &Run, what: &str) {
    for (how, choose) in [("nothing", 0), ("everything", usize::MAX), ("some", 1)] {
        let fs = match choose {
            0 => fs.image_none(Steps::new()),
            1 => fs.image_random(3, Steps::new()),
            _ => fs.image_all(Steps::new()),
        };
        let mut rng = Rng::new(5);
        let image = pm.crash();
        let pm = image.build(CAPACITY, Steps::new(), |_, word| match choose {
            1 => rng.below(word.candidates.len()),
            _ => choose.min(word.candidates.len() - 1),
        });
        if is_new(Left::WithoutPower, &fs, &pm, run) {
            check(fs, pm, run, &format!("{what}, power cut with {how} kept"));
        }
    }
}

type Work = fn(&World, &mut Run) -> Result<()>;

/// The calls that a fault can befall, and how many of them may fail unnoticed.
fn count(work: Work, fault: Fault) -> (u64, u64) {
    let machine = Machine::new();
    work(&machine.world(), &mut Run::default()).unwrap();
    let removals = machine.disk.calls_of(Op::Remove);
    let unnoticed = match fault {
        // What is in nobody's way goes later.
        Fault::NoSpace => removals,
        _ => 0,
    };
    (machine.disk.calls_for(fault, None), unnoticed)
}

/// In a plain run one call in so many fails.
const ONE_IN: u64 = 24;

/// Whether enough of the runs failed: more than half, or, where few calls are tried, perhaps many that are survived, a third.
fn is_enough(failed: u64, runs: u64) -> bool {
    failed > runs / (1 + one_in(ONE_IN).min(2))
}

/// Runs once for each call that `fault` can befall, or in a plain run for a share of them; returns the calls that this
/// stands for, but for those that may fail unnoticed, and for how many calls it failed.
fn at_every_call(work: Work, fault: Fault) -> (u64, u64) {
    let (calls, unnoticed) = count(work, fault);
    let one_in = one_in(ONE_IN);
    assert!(calls > 0, "{fault:?}");
    let step = usize::try_from(one_in).unwrap();
    let of = |repeat| (0..calls).step_by(step).map(move |at| (at, repeat));
    let all: Vec<(u64, Repeat)> = of(Repeat::Once).chain(of(Repeat::Forever)).collect();
    // What the tests of this thread are about, those of its helpers are, too.
    let about = (LOGGED.get(), LONG.get());
    let outcomes = side_by_side(&all, |&(at, repeat)| {
        LOGGED.set(about.0);
        LONG.set(about.1);
        fails_at(work, fault, at, repeat)
    });
    let runs = outcomes.len() as u64;
    let failed = outcomes.into_iter().filter(|failed| *failed).count() as u64;
    println!("{fault:?}: {runs} runs, {failed} of them with an error");
    (
        (runs * one_in).saturating_sub(2 * unnoticed),
        failed * one_in,
    )
}

/// Runs once, with a fault at this call, and checks what that leaves. Whether it ended with an error.
fn fails_at(work: Work, fault: Fault, at: u64, repeat: Repeat) -> bool {
    let machine = Machine::new();
    machine.disk.arm(Plan {
        fault,
        op: None,
        at,
        repeat,
    });
    let mut run = Run::default();
    let result = work(&machine.world(), &mut run);
    let what = format!("{fault:?} at call {at}, {repeat:?}: {result:?}");
    assert!(machine.disk.fired() > 0, "{what}");
    if let Err(error) = &result {
        let kinds = [
            ErrorKind::Io,
            ErrorKind::Poisoned,
            ErrorKind::Corruption,
            ErrorKind::OutOfSpace,
        ];
        assert!(kinds.contains(&error.kind()), "{what}");
    }
    check_all(&machine, &run, &what);
    if let Fault::SyncKept | Fault::SyncDropped | Fault::SyncNoSpace = fault {
        check_again(&machine, &run, &what);
    }
    result.is_err()
}

#[test]
fn the_workload_is_worth_it() {
    let machine = Machine::new();
    let mut run = Run::default();
    work(&machine.world(), &mut run).unwrap();
    let engine = Engine::open(machine.world(), dir(), options()).unwrap();
    assert!(engine.metrics().memtables.len() > 5, "memtables changed");
    let switches = machine.disk.calls_of(Op::Rename);
    // Opens of what was written to do not rename.
    assert!(switches > 2, "{switches} switches of the manifest");
    assert!(run.acknowledged.len() > 20);
}

#[test]
fn an_io_error() {
    let (runs, failed) = at_every_call(work, Fault::Eio);
    assert!(runs > 400 && is_enough(failed, runs), "{runs} {failed}");
}

/// The same with records in DRAM: now the files of logs are what fails.
#[test]
fn faults_of_logs() {
    LOGGED.set(true);
    for (fault, least) in [
        (Fault::Eio, 500),
        (Fault::NoSpace, 200),
        (Fault::SyncKept, 200),
        (Fault::SyncDropped, 200),
        (Fault::SyncNoSpace, 200),
        (Fault::ShortWrite(0), 100),
        (Fault::ShortWrite(513), 100),
    ] {
        let (runs, failed) = at_every_call(work, fault);
        assert!(
            runs > least && is_enough(failed, runs),
            "{fault:?}: {runs} {failed}"
        );
    }
    for fault in [Fault::ShortRead(0), Fault::ShortRead(7)] {
        at_every_call(work, fault);
    }
}

#[test]
fn a_full_disk() {
    let (runs, failed) = at_every_call(work, Fault::NoSpace);
    assert!(runs > 100 && is_enough(failed, runs), "{runs} {failed}");
}

#[test]
fn a_failed_sync_that_keeps_what_it_had() {
    let (runs, failed) = at_every_call(work, Fault::SyncKept);
    assert!(runs > 100 && is_enough(failed, runs), "{runs} {failed}");
}

#[test]
fn a_failed_sync_that_drops_what_it_had() {
    let (runs, failed) = at_every_call(work, Fault::SyncDropped);
    assert!(runs > 100 && is_enough(failed, runs), "{runs} {failed}");
}

#[test]
fn a_sync_that_finds_no_room() {
    let (runs, failed) = at_every_call(work, Fault::SyncNoSpace);
    assert!(runs > 100 && is_enough(failed, runs), "{runs} {failed}");
}

#[test]
fn a_short_read() {
    for len in [0, 7] {
        at_every_call(work, Fault::ShortRead(len));
    }
}

#[test]
fn a_short_write() {
    for len in [0, 13] {
        at_every_call(work, Fault::ShortWrite(len));
    }
}

/// Every fence of the workload fails, and all after it.
#[test]
fn a_failed_persist() {
    let mut fences = 0;
    let one_in = one_in(ONE_IN);
    loop {
        let machine = Machine::new();
        machine.pm.fail_fence_in(fences);
        let mut run = Run::default();
        let result = work(&machine.world(), &mut run);
        let Err(error) = result else { break };
        assert!(
            matches!(error.kind(), ErrorKind::Io | ErrorKind::Poisoned),
            "fence {fences}: {error}"
        );
        let what = format!("fence {fences} failed: {error}");
        check_all(&machine, &run, &what);
        check_again(&machine, &run, &what);
        fences += one_in;
    }
    println!("{fences} fences");
    assert!(fences > 80, "{fences}");
}

/// The manifest is the first to notice that the disk is gone.
#[test]
fn a_failed_manifest_append_poisons() {
    let machine = Machine::new();
    let engine = Engine::open(machine.world(), dir(), options()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"before", b"the fault").unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    machine.disk.arm(Plan {
        fault: Fault::Eio,
        op: Some(Op::Write),
        at: machine.disk.calls_for(Fault::Eio, Some(Op::Write)),
        repeat: Repeat::Once,
    });
    let error = engine
        .family("never made", &CfOptions::default())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains("MANIFEST-"), "{error}");
    assert_eq!(machine.disk.fired(), 1);
    let mut run = Run::default();
    let key = ("default".to_string(), b"before".to_vec());
    run.acknowledged.insert(key, b"the fault".to_vec());
    refuses_writes(&engine, &mut run, &error);
    assert!(engine.find_family("never made").is_none());
    drop(engine);
    check_all(&machine, &run, "after a poisoned manifest");
}

/// A real region on a disk that is full: growing is refused, reading and deleting go on.
#[test]
fn a_full_disk_when_the_region_grows() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = home.path().join("db");
    let disk = FaultStorage::new(Arc::new(RealStorage::new()));
    let world = World {
        env: Env {
            storage: Arc::new(disk.clone()),
            ..Env::real()
        },
        sim: None,
        shadow: None,
        background: false,
    };
    let mut options = Options {
        pm: 64 << 20,
        ..options()
    };
    options.memtable.bytes_max = 1 << 30;
    let mut acknowledged = Map::new();
    let put = |engine: &Engine, n: u32, acknowledged: &mut Map| {
        let mut batch = WriteBatch::new();
        let (key, value) = (n.to_be_bytes().to_vec(), vec![1; 5000]);
        batch.put(CfId::DEFAULT, &key, &value)?;
        engine.write(batch.iter(), Durability::Immediate)?;
        acknowledged.insert(("default".into(), key), value);
        Ok::<(), Error>(())
    };
    for room in [0, 4096, 300_000] {
        let engine = Engine::open(world.clone(), &dir, options.clone()).unwrap();
        put(&engine, 0, &mut acknowledged).unwrap();
        disk.limit_space(room);
        let error = (1..10_000)
            .find_map(|n| put(&engine, n, &mut acknowledged).err())
            .expect("the disk is full");
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        for part in ["region.pm", "device", "full", "grow"] {
            assert!(error.to_string().contains(part), "no '{part}' in: {error}");
        }
        // Nothing is poisoned: reads and deletes go on, and the error stays one of space.
        assert!(entries(&engine).unwrap() == acknowledged);
        for n in 0..20u32 {
            let mut batch = WriteBatch::new();
            batch.delete(CfId::DEFAULT, &n.to_be_bytes()).unwrap();
            engine.write(batch.iter(), Durability::Immediate).unwrap();
            acknowledged.remove(&("default".into(), n.to_be_bytes().to_vec()));
        }
        let error = (0..20_000u32)
            .find_map(|n| put(&engine, 20_000 + n, &mut acknowledged).err())
            .expect("the disk is still full");
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        assert!(entries(&engine).unwrap() == acknowledged);
        // Once there is room again, so is the store.
        disk.disarm();
        put(&engine, 99_999, &mut acknowledged).unwrap();
        engine.close().unwrap();
        let report = thermocline_engine::verify(&world, &dir, &options).unwrap();
        assert_eq!(report.faults, []);
        let engine = Engine::open(world.clone(), &dir, options.clone()).unwrap();
        assert!(entries(&engine).unwrap() == acknowledged);
    }
}
