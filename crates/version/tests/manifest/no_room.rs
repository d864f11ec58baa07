//! Opens that can make no file: there is no inode left, and nothing was reserved, or somebody has taken it. They come
//! behind a crash at any step, and behind a sync that has failed.

use std::sync::{Arc, Mutex};

use thermocline_base::Steps;
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SeededRandom;
use thermocline_testkit::explore::{explored, is_tried, one_in};
use thermocline_version::{Manifest, State};

use crate::common::{created, dir, fresh, next_edit, storage};

/// What may be found: what was acknowledged last, and what was in flight.
#[derive(Default, Clone)]
struct Truth {
    acknowledged: Option<State>,
    in_flight: Option<State>,
    /// Beside the creation.
    edits: u64,
}

impl Truth {
    fn allows(&self, found: &State) -> bool {
        [&self.acknowledged, &self.in_flight].contains(&&Some(found.clone()))
    }
}

fn plan(fault: Fault, op: Op, at: u64, repeat: Repeat) -> Plan {
    Plan {
        fault,
        op: Some(op),
        at,
        repeat,
    }
}

/// The folder of `fs`, in which no file can be made.
fn no_inode(fs: &SimFs) -> FaultStorage {
    let disk = FaultStorage::over_sim(fs.clone());
    disk.arm(plan(Fault::NoSpace, Op::Create, 0, Repeat::Forever));
    disk
}

fn append(manifest: &mut Manifest, random: &SeededRandom, truth: &Mutex<Truth>) -> bool {
    let edit = next_edit(manifest.state(), random);
    let mut next = manifest.state().clone();
    next.apply(&edit).unwrap();
    truth.lock().unwrap().in_flight = Some(next.clone());
    let appended = manifest.append(&edit).is_ok();
    if appended {
        let mut truth = truth.lock().unwrap();
        truth.acknowledged = Some(next);
        truth.in_flight = None;
        truth.edits += 1;
    }
    appended
}

type Images = Vec<(SimFs, Truth)>;

/// Does `work` and gives what a crash, or a kill, may leave at each of its steps.
fn crashing(fs: &SimFs, truth: &Arc<Mutex<Truth>>, work: impl FnOnce()) -> Images {
    let images: Arc<Mutex<Images>> = Arc::default();
    let (log, world, known) = (images.clone(), fs.clone(), truth.clone());
    fs.steps()
        .observe(Some(Arc::new(move |point: thermocline_base::Point| {
            let known = known.lock().unwrap();
            if known.edits == 0 {
                return;
            }
            let left = [
                world.image_none(Steps::new()),
                world.image_all(Steps::new()),
                world.image_random(point.step, Steps::new()),
                world.image_killed(Steps::new()),
            ];
            let mut log = log.lock().unwrap();
            log.extend(left.map(|image| (image, known.clone())));
        })));
    work();
    fs.steps().observe(None);
    std::mem::take(&mut *images.lock().unwrap())
}

/// Opens what is left, where no file can be made, and appends; gives what a crash may leave of that.
fn open_without_room(image: &SimFs, truth: &Truth, what: &str) -> (Images, bool) {
    let truth = Arc::new(Mutex::new(truth.clone()));
    let mut reached = false;
    let images = crashing(image, &truth, || {
        let opened = Manifest::open(Arc::new(no_inode(image)), dir(), false);
        let (mut manifest, found) = opened.unwrap_or_else(|e| panic!("{what}: {e}"));
        {
            let mut truth = truth.lock().unwrap();
            assert!(truth.allows(&found), "{what}: {found:?}");
            truth.acknowledged = Some(found);
            truth.in_flight = None;
        }
        let manifests = storage(image).list(dir()).unwrap();
        let manifests = manifests.iter().filter(|name| name.starts_with("MANIFEST"));
        reached = manifests.count() > 1;
        manifest.set_bytes_max(700);
        for n in 0..6 {
            let appended = append(&mut manifest, &SeededRandom::new(n), &truth);
            assert!(appended, "{what}: edit {n}");
        }
    });
    (images, reached)
}

/// Where files can be made again one manifest is left, and nothing else of ours.
fn open_with_room(image: &SimFs, truth: &Truth, what: &str) {
    let opened = Manifest::open(storage(image), dir(), false);
    let (manifest, found) = opened.unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(truth.allows(&found), "{what}: {found:?}");
    let live = manifest.path().file_name().unwrap().to_string_lossy();
    assert_eq!(
        storage(image).list(dir()).unwrap(),
        ["CURRENT", &*live],
        "{what}"
    );
}

/// In a plain run one image in so many is opened.
const ONE_IN: u64 = 2;

/// Opens each of these, or in a plain run a share of them, and what crashes leave of that; gives how many opens this stands for,
/// and how many had more than one manifest by then. There are four of a step, and not the same are tried of the next one, which
/// is so among steps from `first` on.
fn open_all(first: usize, images: Images, what: &str) -> (u64, u64) {
    let (mut opened, mut more) = (0, 0);
    let one_in = one_in(ONE_IN);
    let is_tried = |n: usize| is_tried(first + n + n / 4, ONE_IN);
    let images = images.iter().enumerate().filter(|(n, _)| is_tried(*n));
    for (n, (image, truth)) in images {
        let what = format!("{what}, image {n}");
        let twice = n % 5 == 0;
        let (again, reached) = open_without_room(image, truth, &what);
        opened += one_in;
        more += one_in * u64::from(reached);
        for (m, (image, truth)) in again.iter().enumerate().filter(|_| twice) {
            let what = format!("{what}, then {m}");
            match m % 2 {
                0 => open_with_room(image, truth, &what),
                _ => drop(open_without_room(image, truth, &what)),
            }
            opened += one_in;
        }
    }
    (opened, more)
}

#[test]
fn an_open_behind_a_crash_makes_no_file() {
    let (mut opened, mut more) = (0, 0);
    let times = explored(1, 2);
    for seed in 0..times {
        let (fs, random) = (fresh(), SeededRandom::new(seed));
        let truth: Arc<Mutex<Truth>> = Arc::default();
        let images = crashing(&fs, &truth, || {
            let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
            truth.lock().unwrap().acknowledged = Some(manifest.state().clone());
            manifest.set_bytes_max(700);
            for _ in 0..40 {
                assert!(append(&mut manifest, &random, &truth));
            }
        });
        let counts = open_all(0, images, &format!("seed {seed}"));
        opened += counts.0;
        more += counts.1;
    }
    println!("{opened} opens, {more} of them with more than one manifest");
    assert!(
        opened > 2_200 * times && more > 40 * times,
        "{opened} {more}"
    );
}

/// What a failed sync of the folder leaves can be seen and may be lost, whatever later syncs say.
#[test]
fn an_open_behind_a_failed_sync_makes_no_file() {
    let (mut opened, mut failed) = (0, 0);
    for (fault, op) in [
        (Fault::SyncKept, Op::SyncDir),
        (Fault::SyncDropped, Op::SyncDir),
        (Fault::SyncKept, Op::Sync),
        (Fault::NoSpace, Op::Rename),
        (Fault::Eio, Op::Rename),
    ] {
        for at in 3..24 {
            let (fs, random) = (fresh(), SeededRandom::new(at));
            let disk = FaultStorage::over_sim(fs.clone());
            let truth: Arc<Mutex<Truth>> = Arc::default();
            let mut manifest = Manifest::create(Arc::new(disk.clone()), dir(), &created()).unwrap();
            truth.lock().unwrap().acknowledged = Some(manifest.state().clone());
            manifest.set_bytes_max(700);
            disk.arm(plan(fault, op, at, Repeat::Once));
            failed += u64::from(!(0..40).all(|_| append(&mut manifest, &random, &truth)));
            drop(manifest);
            let truth = truth.lock().unwrap().clone();
            let left = [
                fs.image_killed(Steps::new()),
                fs.image_none(Steps::new()),
                fs.image_all(Steps::new()),
            ];
            let images = left.map(|image| (image, truth.clone())).into();
            let first = usize::try_from(at).unwrap();
            opened += open_all(first, images, &format!("{fault:?} of {op:?} at {at}")).0;
        }
    }
    println!("{opened} opens behind {failed} failures");
    assert!(opened > 800 && failed > 25, "{opened} {failed}");
}
