//! Crashes of the manifest at every point, with every choice of what survives where that can be
//! enumerated.
//!
//! The oracle is a plain list of states kept outside the simulated file system: what survives a crash
//! is the state after the last acknowledged edit or the one in flight.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use thermocline_base::planted::{self, Bug};
use thermocline_base::{Point, Steps};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SeededRandom;
use thermocline_testkit::explore::explored;
use thermocline_version::{Change, Manifest, State, sites};

use crate::common::{created, dir, fresh, next_edit, storage};

/// Choices of one crash up to this many are tried exhaustively.
const EXHAUSTIVE_MAX: u64 = 256;
/// Beyond, so many random ones beside the systematic ones.
const RANDOM: u64 = 40;

#[derive(Default)]
struct Oracle {
    acknowledged: Option<State>,
    in_flight: Option<State>,
    version: u64,
}

impl Oracle {
    fn allows(&self, state: Option<&State>) -> bool {
        state == self.acknowledged.as_ref() || (state.is_some() && state == self.in_flight.as_ref())
    }
}

#[derive(Default)]
struct Found {
    images: u64,
    distinct: HashSet<(u64, u64)>,
    in_recovery: HashSet<(u64, u64)>,
    in_recovery_images: u64,
    sites: BTreeSet<&'static str>,
    violation: Option<String>,
}

/// Opens an image; `None` if there is no database in it.
fn open(fs: &SimFs, read_only: bool) -> Result<Option<(Manifest, State)>, String> {
    let storage = storage(fs);
    if !Manifest::exists(&*storage, dir()).map_err(|e| e.to_string())? {
        return Ok(None);
    }
    Manifest::open(storage, dir(), read_only)
        .map(Some)
        .map_err(|e| e.to_string())
}

/// Recovers one image and checks what it holds.
fn check(image: &SimFs, oracle: &Oracle, seed: u64) -> Result<(), String> {
    let before = image.digest();
    let read = open(image, true)?.map(|(_, state)| state);
    if image.digest() != before || image.pending().outcomes() != 1 {
        return Err("a read-only open wrote".into());
    }
    if !oracle.allows(read.as_ref()) {
        return Err(format!("recovered {read:?}"));
    }
    let written = open(image, false)?;
    if written.as_ref().map(|(_, state)| state) != read.as_ref() {
        return Err("opening to read and to write differ".into());
    }
    // What an open says is durable, whatever happens next.
    let cut = image.image_none(Steps::new());
    if open(&cut, true)?.map(|(_, state)| state) != read {
        return Err("an opened state was lost".into());
    }
    if open(&cut, false)?.map(|(_, state)| state) != read {
        return Err("opening twice differs".into());
    }
    // Life goes on: one more edit, then a power cut.
    if let Some((mut manifest, state)) = written {
        let len = image
            .contents(manifest.path())
            .map(|bytes| bytes.len() as u64);
        if len != Some(manifest.len()) {
            return Err("a torn tail was left".into());
        }
        let edit = next_edit(&state, &SeededRandom::new(seed));
        manifest.append(&edit).map_err(|e| e.to_string())?;
        let cut = image.image_none(Steps::new());
        let after = open(&cut, true)?.map(|(_, state)| state);
        if after.as_ref() != Some(manifest.state()) {
            return Err("an edit after recovery was lost".into());
        }
    }
    Ok(())
}

/// Crashes the recovery of `image` at each of its points.
fn crash_recovery(image: &SimFs, oracle: &Oracle, seed: u64, found: &mut Found) -> Option<String> {
    let states: Arc<Mutex<Vec<SimFs>>> = Arc::default();
    let (log, world) = (Arc::clone(&states), image.clone());
    image.steps().observe(Some(Arc::new(move |point: Point| {
        let choices = world.pending().explore(16, 4, seed ^ point.step);
        let images = choices.iter().map(|c| world.image(c, Steps::new()));
        log.lock().unwrap().extend(images);
    })));
    let opened = open(image, false);
    image.steps().observe(None);
    if let Err(e) = opened {
        return Some(e);
    }
    let states = std::mem::take(&mut *states.lock().unwrap());
    for state in states {
        found.in_recovery_images += 1;
        if found.in_recovery.insert((state.digest(), oracle.version))
            && let Err(e) = check(&state, oracle, seed)
        {
            return Some(format!("after a crash in recovery: {e}"));
        }
    }
    None
}

/// One point of a run: every image worth trying.
fn crash_here(fs: &SimFs, point: Point, oracle: &Oracle, seed: u64, found: &mut Found) {
    found.sites.insert(point.site.0);
    let seed = seed.wrapping_mul(1_000_003) ^ point.step;
    let pending = fs.pending();
    for (index, choices) in pending
        .explore(EXHAUSTIVE_MAX, RANDOM, seed)
        .iter()
        .enumerate()
    {
        if found.violation.is_some() {
            return;
        }
        let image = fs.image(choices, Steps::new());
        found.images += 1;
        if !found.distinct.insert((image.digest(), oracle.version)) {
            continue;
        }
        let inner = found
            .distinct
            .len()
            .is_multiple_of(4)
            .then(|| fs.image(choices, Steps::new()));
        let mut violation = check(&image, oracle, seed).err();
        if let (None, Some(inner)) = (&violation, inner) {
            violation = crash_recovery(&inner, oracle, seed, found);
        }
        found.violation = violation
            .map(|what| format!("{point:?} image {index} {choices:?} of {pending:?}: {what}"));
    }
    // A process that is killed here loses nothing; what its successor accepts it must keep.
    let killed = fs.image_killed(Steps::new());
    let state = match open(&killed, false) {
        Ok(opened) => opened.map(|(_, state)| state),
        Err(e) => {
            found.violation = Some(format!("{point:?} killed: {e}"));
            return;
        }
    };
    let kept = open(&killed.image_none(Steps::new()), true);
    let kept = kept.map(|opened| opened.map(|(_, state)| state));
    if kept.as_ref() != Ok(&state) && state.is_some() || !oracle.allows(state.as_ref()) {
        found.violation = Some(format!("{point:?} killed: {state:?}, then {kept:?}"));
    }
}

/// Creates a manifest and appends to it, switching often; crashes at every point.
fn explore(seed: u64, appends: u64) -> Found {
    let fs = fresh();
    let oracle: Arc<Mutex<Oracle>> = Arc::default();
    let found: Arc<Mutex<Found>> = Arc::default();
    let (world, truth, log) = (fs.clone(), Arc::clone(&oracle), Arc::clone(&found));
    fs.steps().observe(Some(Arc::new(move |point| {
        let mut found = log.lock().unwrap();
        if found.violation.is_none() {
            crash_here(&world, point, &truth.lock().unwrap(), seed, &mut found);
        }
    })));
    let begin = |state: &State| {
        let mut oracle = oracle.lock().unwrap();
        oracle.in_flight = Some(state.clone());
        oracle.version += 1;
    };
    let acknowledge = |state: &State| {
        let mut oracle = oracle.lock().unwrap();
        oracle.acknowledged = Some(state.clone());
        oracle.in_flight = None;
        oracle.version += 1;
    };
    let random = SeededRandom::new(seed);
    let mut first = State::default();
    first.apply(&created()).unwrap();
    begin(&first);
    let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
    acknowledge(manifest.state());
    manifest.set_bytes_max(700);
    for n in 0..appends {
        let edit = next_edit(manifest.state(), &random);
        let mut next = manifest.state().clone();
        next.apply(&edit).unwrap();
        begin(&next);
        manifest.append(&edit).unwrap();
        assert_eq!(*manifest.state(), next);
        acknowledge(&next);
        if n % 5 == 4 {
            // A new process goes on.
            drop(manifest);
            manifest = Manifest::open(storage(&fs), dir(), false).unwrap().0;
            manifest.set_bytes_max(700);
        }
    }
    fs.steps().observe(None);
    std::mem::take(&mut *found.lock().unwrap())
}

#[test]
fn every_crash_leaves_the_last_acknowledged_state_or_the_one_in_flight() {
    let (mut images, mut distinct, mut nested, mut nested_distinct) = (0, 0, 0, 0);
    let mut reached = BTreeSet::new();
    for seed in 0..explored(30, 60) {
        let found = explore(seed, 25);
        if let Some(violation) = found.violation {
            panic!("seed {seed}: {violation}");
        }
        images += found.images;
        distinct += found.distinct.len();
        nested += found.in_recovery_images;
        nested_distinct += found.in_recovery.len();
        reached.extend(found.sites);
    }
    println!(
        "{images} images, {distinct} distinct; in recovery {nested} images, {nested_distinct} \
         distinct"
    );
    for site in sites::ALL {
        assert!(reached.contains(site.0), "{site:?} was never reached");
    }
    let least = usize::try_from(explored(5_000, 10_000)).unwrap();
    assert!(distinct > least, "only {distinct} distinct images");
}

#[test]
fn the_exploration_catches_a_forgotten_folder_sync() {
    let _bug = planted::plant(Bug::ForgetDirFsync);
    let caught = (0..3).filter(|seed| explore(*seed, 25).violation.is_some());
    assert_eq!(caught.count(), 3);
}

/// A long record, so that an append spans pages and tears in many ways.
#[test]
fn a_torn_append_of_many_sectors_is_cut_and_the_next_one_goes_over_it() {
    let fs = fresh();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
    let before = manifest.state().clone();
    let long = Change::Options(vec![("x".into(), "y".repeat(20_000))]);
    let oracle = Oracle {
        acknowledged: Some(before.clone()),
        in_flight: {
            let mut next = before;
            next.apply(&long.clone().into()).unwrap();
            Some(next)
        },
        version: 0,
    };
    let world = fs.clone();
    let images: Arc<Mutex<Vec<SimFs>>> = Arc::default();
    let log = Arc::clone(&images);
    fs.steps().observe(Some(Arc::new(move |_| {
        for choices in world.pending().explore(64, 500, 1) {
            log.lock()
                .unwrap()
                .push(world.image(&choices, Steps::new()));
        }
    })));
    manifest.append(&long.into()).unwrap();
    fs.steps().observe(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    let mut kept = 0;
    for image in &images {
        check(image, &oracle, 3).unwrap();
        let state = open(image, true).unwrap().unwrap().1;
        kept += u64::from(state.options()[0].0 != "pm");
    }
    assert!(images.len() > 500 && kept > 1, "{} {kept}", images.len());
}
