//! I/O faults at every call: what was acknowledged survives, or an error says that it did not.

use thermocline_base::planted::{self, Bug};
use thermocline_base::{Error, ErrorKind, Result, Steps};
use thermocline_env::Storage;
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SeededRandom;
use thermocline_version::{Manifest, State};

use crate::common::{created, dir, fresh, next_edit, storage};

/// What a run got acknowledged, oldest first, and what was in flight when it ended.
#[derive(Default)]
struct Run {
    acknowledged: Vec<State>,
    in_flight: Option<State>,
    /// A reopening in the middle found something else than the last acknowledged state.
    found_other: Option<State>,
    /// Appends that found no room.
    undone: u64,
}

impl Run {
    fn last(&self) -> Option<&State> {
        self.acknowledged.last()
    }
}

/// Creates, appends over several switches, reopens in between.
fn work(disk: &FaultStorage, run: &mut Run) -> Result<()> {
    let disk: std::sync::Arc<dyn Storage> = std::sync::Arc::new(disk.clone());
    let mut state = State::default();
    state.apply(&created())?;
    run.in_flight = Some(state);
    let mut manifest = Manifest::create(disk.clone(), dir(), &created())?;
    let random = SeededRandom::new(11);
    for n in 0..14 {
        manifest.set_bytes_max(700);
        run.acknowledged.push(manifest.state().clone());
        run.in_flight = None;
        let edit = next_edit(manifest.state(), &random);
        let mut next = manifest.state().clone();
        next.apply(&edit)?;
        run.in_flight = Some(next);
        let mut appended = manifest.append(&edit);
        for _ in 0..2 {
            if matches!(appended, Err(Error::OutOfSpace(_))) {
                // Nothing has happened, and the next attempt may succeed.
                assert_eq!(Some(manifest.state()), run.last());
                assert!(!manifest.is_poisoned());
                run.undone += 1;
                appended = manifest.append(&edit);
            }
        }
        if let Err(e @ Error::OutOfSpace(_)) = appended {
            // Not even in flight.
            run.in_flight = None;
            return Err(e);
        }
        if let Err(e) = appended {
            // Whatever else failed: from now on nothing is written.
            assert_eq!(e.kind(), ErrorKind::Io);
            assert_eq!(Some(manifest.state()), run.last());
            let calls = disk_calls(&disk);
            for _ in 0..2 {
                let again = manifest.append(&edit).unwrap_err();
                assert_eq!(again.kind(), ErrorKind::Poisoned, "{again}");
                let cause = e.to_string();
                assert!(again.to_string().contains(&cause), "{again}");
            }
            assert_eq!(disk_calls(&disk), calls, "a poisoned append did something");
            assert!(manifest.is_poisoned());
            return Err(e);
        }
        if n % 4 == 3 {
            run.acknowledged.push(manifest.state().clone());
            run.in_flight = None;
            drop(manifest);
            let opened = Manifest::open(disk.clone(), dir(), false)?;
            if Some(&opened.1) != run.last() {
                run.found_other = Some(opened.1);
                return Ok(());
            }
            manifest = opened.0;
        }
    }
    run.acknowledged.push(manifest.state().clone());
    run.in_flight = None;
    Ok(())
}

/// The storage prints its counters; no call has happened if they print the same.
fn disk_calls(disk: &std::sync::Arc<dyn Storage>) -> String {
    format!("{disk:?}")
}

fn opened(fs: &SimFs, read_only: bool) -> Result<Option<State>> {
    let storage = storage(fs);
    if !Manifest::exists(&*storage, dir())? {
        return Ok(None);
    }
    Manifest::open(storage, dir(), read_only).map(|(_, state)| Some(state))
}

fn right(state: Option<&State>, run: &Run) -> bool {
    state == run.last() || (state.is_some() && state == run.in_flight.as_ref())
}

/// What is there after a failed run: after a power cut, and after a restart and then a power cut.
fn check_survival(fs: &SimFs, run: &Run, what: &str) {
    for choices in fs.pending().explore(64, 8, 5) {
        let image = fs.image(&choices, Steps::new());
        let state = opened(&image, false).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(right(state.as_ref(), run), "{what}: {state:?}");
    }
    let restarted = fs.image_killed(Steps::new());
    let state = opened(&restarted, false).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(right(state.as_ref(), run), "{what}: {state:?}");
    if state.is_none() {
        return;
    }
    for choices in restarted.pending().explore(64, 8, 6) {
        let image = restarted.image(&choices, Steps::new());
        let kept = opened(&image, true).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(kept, state, "{what}: accepted at open, lost after it");
    }
}

fn count(fault: Fault) -> u64 {
    let disk = FaultStorage::over_sim(fresh());
    work(&disk, &mut Run::default()).unwrap();
    disk.calls_for(fault, None)
}

/// Runs once for each call that `fault` can befall.
fn at_every_call(fault: Fault, mut check: impl FnMut(&SimFs, &Run, Result<()>, &str)) -> u64 {
    let calls = count(fault);
    assert!(calls > 0);
    for at in 0..calls {
        for repeat in [Repeat::Once, Repeat::Forever] {
            let what = format!("{fault:?} at call {at} {repeat:?}");
            let fs = fresh();
            let disk = FaultStorage::over_sim(fs.clone());
            let plan = Plan {
                fault,
                op: None,
                at,
                repeat,
            };
            disk.arm(plan);
            let mut run = Run::default();
            let answer = work(&disk, &mut run);
            assert!(disk.fired() > 0, "{what}");
            check(&fs, &run, answer, &what);
        }
    }
    calls * 2
}

#[test]
fn after_an_error_at_any_call_acknowledged_edits_survive() {
    let (mut runs, mut failed) = (0, 0);
    for fault in [
        Fault::Eio,
        Fault::NoSpace,
        Fault::ShortWrite(0),
        Fault::ShortWrite(13),
        Fault::SyncKept,
        Fault::SyncDropped,
        Fault::SyncNoSpace,
        Fault::ShortRead(0),
        Fault::ShortRead(5),
    ] {
        runs += at_every_call(fault, |fs, run, answer, what| {
            failed += u64::from(answer.is_err());
            assert_eq!(run.found_other, None, "{what}");
            check_survival(fs, run, what);
        });
    }
    println!("{runs} runs with a fault, {failed} of them ended in an error");
    assert!(failed > runs / 2);
}

/// A device that lies about writes cannot be caught at once; but what it leaves is an earlier
/// state or an error, never another state.
#[test]
fn lost_and_misdirected_writes_never_make_up_a_state() {
    let (mut errors, mut older) = (0, 0);
    let mut runs = 0;
    for fault in [
        Fault::LostWrite,
        Fault::Misdirected(8),
        Fault::Misdirected(512),
    ] {
        runs += at_every_call(fault, |fs, run, answer, what| {
            if let Err(e) = answer {
                assert_eq!(e.kind(), ErrorKind::Corruption, "{what}: {e}");
            }
            if let Some(state) = &run.found_other {
                assert!(run.acknowledged.contains(state), "{what}: {state:?}");
            }
            match opened(fs, true) {
                Ok(state) => {
                    let known = state.as_ref().is_none_or(|s| run.acknowledged.contains(s));
                    assert!(known || right(state.as_ref(), run), "{what}: {state:?}");
                    older += u64::from(state.as_ref() != run.last());
                }
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corruption, "{what}: {e}");
                    errors += 1;
                }
            }
        });
    }
    println!("{runs} runs: {errors} found damaged, {older} found an earlier state");
    assert!(errors > 0);
}

/// One bit read wrong, at every read and in many places.
#[test]
fn a_bit_read_wrong_is_an_error_or_changes_nothing_that_is_durable() {
    let fs = fresh();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
    let random = SeededRandom::new(3);
    for _ in 0..6 {
        let edit = next_edit(manifest.state(), &random);
        manifest.append(&edit).unwrap();
    }
    let truth = manifest.state().clone();
    let open = |fs: &SimFs, plan: Option<Plan>| {
        let disk = FaultStorage::over_sim(fs.clone());
        if let Some(plan) = plan {
            disk.arm(plan);
        }
        let answer = Manifest::open(std::sync::Arc::new(disk.clone()), dir(), false);
        (answer.map(|(_, state)| state), disk)
    };
    let (_, counted) = open(&fs.image_all(Steps::new()), None);
    let reads = counted.calls_for(Fault::FlipBit(0), None);
    let (mut errors, mut runs) = (0, 0);
    for at in 0..reads {
        for bit in (0..512).step_by(7) {
            let fs = fs.image_all(Steps::new());
            let plan = Plan {
                fault: Fault::FlipBit(bit),
                op: None,
                at,
                repeat: Repeat::Once,
            };
            runs += 1;
            match open(&fs, Some(plan)).0 {
                Ok(state) => assert_eq!(state, truth, "read {at} bit {bit}"),
                Err(Error::Corruption { .. }) => errors += 1,
                Err(e) => panic!("read {at} bit {bit}: {e}"),
            }
            let again = opened(&fs.image_none(Steps::new()), true).unwrap();
            assert_eq!(again.as_ref(), Some(&truth), "read {at} bit {bit}");
        }
    }
    println!("{runs} reads with a wrong bit, {errors} errors");
    assert!(errors > 0);
}

/// Where room can be reserved for edits, and where it cannot.
#[test]
fn a_full_disk_at_any_byte_is_an_error_and_loses_nothing() {
    for reserves in [false, true] {
        let (mut full, mut undone) = (0, 0);
        for bytes in 0..3000 {
            let fs = fresh();
            let disk = FaultStorage::over_sim(fs.clone());
            disk.limit_space(if reserves { 16 * bytes } else { bytes });
            if !reserves {
                disk.reserve_nothing();
            }
            let mut run = Run::default();
            if work(&disk, &mut run).is_err() {
                full += 1;
                undone += u64::from(run.undone > 0);
                let state = opened(&fs.image_none(Steps::new()), false).unwrap();
                assert!(right(state.as_ref(), &run), "{bytes}: {state:?}");
            }
        }
        println!("{full} of 3000 limits were hit, {undone} in an append");
        assert!(full > 1000);
        // What is reserved is there: who was created has room for all that is appended.
        assert!(if reserves { undone == 0 } else { undone > 1000 });
    }
}

/// Somebody else has every byte of the disk: a database that was written to is opened all the same, whether it was
/// closed right behind a switch or not, and many edits find the room that was kept for them.
#[test]
fn a_disk_without_a_byte_left_is_opened_and_takes_edits() {
    for appends in 1..40 {
        let fs = fresh();
        let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
        manifest.set_bytes_max(700);
        let random = SeededRandom::new(appends);
        for _ in 0..appends {
            let edit = next_edit(manifest.state(), &random);
            manifest.append(&edit).unwrap();
        }
        drop(manifest);
        fs.limit(1 << 30);
        let room = fs.room(dir()).unwrap().unwrap();
        fs.limit(room.total - room.free);
        for round in 0..3 {
            let opened = Manifest::open(storage(&fs), dir(), false);
            let (mut manifest, _) = opened.unwrap_or_else(|e| panic!("{appends}, {round}: {e}"));
            for n in 0..20 {
                let edit = next_edit(manifest.state(), &random);
                let appended = manifest.append(&edit);
                appended.unwrap_or_else(|e| panic!("{appends}, {round}, {n}: {e}"));
            }
        }
    }
}

/// A process ends, or the power goes, at any step, and then somebody else takes every byte: switches included.
#[test]
fn a_disk_that_fills_up_behind_a_crash_is_no_end() {
    let fs = fresh();
    let images: std::sync::Arc<std::sync::Mutex<Vec<_>>> = Default::default();
    let (log, world) = (images.clone(), fs.clone());
    let observer = move |point: thermocline_base::Point| {
        let random = world.image_random(point.step, Steps::new());
        let crashed = [
            world.image_none(Steps::new()),
            world.image_all(Steps::new()),
            random,
        ];
        let mut log = log.lock().unwrap();
        log.extend(crashed);
        log.push(world.image_killed(Steps::new()));
    };
    fs.steps().observe(Some(std::sync::Arc::new(observer)));
    let random = SeededRandom::new(1);
    let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
    manifest.set_bytes_max(700);
    let mut switches = 0;
    for _ in 0..60 {
        let before = manifest.path().to_path_buf();
        let edit = next_edit(manifest.state(), &random);
        manifest.append(&edit).unwrap();
        switches += u32::from(manifest.path() != before);
    }
    fs.steps().observe(None);
    assert!(switches > 3, "{switches}");
    let images = std::mem::take(&mut *images.lock().unwrap());
    let mut opened = 0;
    for (n, image) in images.into_iter().enumerate() {
        image.limit(image.used());
        if !Manifest::exists(&*storage(&image), dir()).unwrap() {
            continue;
        }
        for round in 0..2 {
            let found = Manifest::open(storage(&image), dir(), false);
            let (mut manifest, _) = found.unwrap_or_else(|e| panic!("{n}, {round}: {e}"));
            for _ in 0..10 {
                let edit = next_edit(manifest.state(), &random);
                let appended = manifest.append(&edit);
                appended.unwrap_or_else(|e| panic!("{n}, {round}: {e}"));
            }
        }
        opened += 1;
    }
    assert!(opened > 500, "{opened}");
}

/// As many descriptors as may be are open, or nothing can be made: edits go on in the log that there is.
#[test]
fn what_keeps_from_a_switch_keeps_from_no_edit() {
    for fault in [
        Fault::NoDescriptor,
        Fault::NoSpace,
        Fault::Quota,
        Fault::Eio,
    ] {
        let disk = FaultStorage::over_sim(fresh());
        let shared: std::sync::Arc<dyn Storage> = std::sync::Arc::new(disk.clone());
        let mut manifest = Manifest::create(shared.clone(), dir(), &created()).unwrap();
        manifest.set_bytes_max(700);
        disk.arm(Plan {
            fault,
            op: Some(Op::Create),
            at: disk.calls_for(fault, Some(Op::Create)),
            repeat: Repeat::Forever,
        });
        let random = SeededRandom::new(3);
        for _ in 0..40 {
            let edit = next_edit(manifest.state(), &random);
            manifest.append(&edit).unwrap();
        }
        assert!(disk.fired() > 0);
        disk.disarm();
        let state = manifest.state().clone();
        drop(manifest);
        let (_, found) = Manifest::open(shared, dir(), false).unwrap();
        assert!(found == state, "{fault:?}");
    }
}

/// Edits that find no room may wait for the next one, beside others that are refused: the file has those that were
/// taken up to one of them, and at least up to the last that was durable.
#[test]
fn what_is_held_back_comes_with_the_next_edit() {
    let mut waited = 0;
    for seed in 0..40 {
        let (fs, random) = (fresh(), SeededRandom::new(seed));
        let disk = FaultStorage::over_sim(fs.clone());
        let shared: std::sync::Arc<dyn Storage> = std::sync::Arc::new(disk.clone());
        let mut manifest = Manifest::create(shared, dir(), &created()).unwrap();
        manifest.set_bytes_max(700);
        let mut taken = vec![manifest.state().clone()];
        let mut durable = 0;
        for n in 0..30 {
            match random.below(4) {
                0 => disk.arm(Plan {
                    fault: Fault::NoSpace,
                    op: Some(Op::Write),
                    at: disk.calls_for(Fault::NoSpace, Some(Op::Write)) + random.below(2),
                    repeat: Repeat::Forever,
                }),
                1 => disk.disarm(),
                _ => {}
            }
            let edit = next_edit(manifest.state(), &random);
            let answer = match random.below(3) {
                0 => manifest.append(&edit).map(|()| true),
                _ => Ok(manifest.append_or_hold(&edit).unwrap()),
            };
            match answer {
                Ok(is_durable) => {
                    taken.push(manifest.state().clone());
                    if is_durable {
                        durable = taken.len() - 1;
                    }
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfSpace),
            }
            assert_eq!(taken.last(), Some(manifest.state()));
            let found = opened(&fs.image_killed(Steps::new()), true).unwrap();
            let up_to = taken
                .iter()
                .rposition(|state| Some(state) == found.as_ref());
            let up_to = up_to.unwrap_or_else(|| panic!("seed {seed}, {n}: never taken"));
            assert!(up_to >= durable, "seed {seed}, {n}: {up_to} of {durable}");
            waited += u64::from(up_to + 1 < taken.len());
        }
        disk.disarm();
        let edit = next_edit(manifest.state(), &random);
        manifest.append(&edit).unwrap();
        for choices in fs.pending().explore(64, 8, 5) {
            let found = opened(&fs.image(&choices, Steps::new()), false).unwrap();
            assert_eq!(found.as_ref(), Some(manifest.state()));
        }
    }
    assert!(waited > 20, "{waited}");
}

#[test]
fn trusting_the_cache_after_a_failed_sync_is_caught() {
    let caught = std::panic::catch_unwind(|| {
        let _bug = planted::plant(Bug::TrustCacheAfterFailedSync);
        at_every_call(Fault::SyncKept, |fs, run, _, what| {
            check_survival(fs, run, what);
        });
    });
    let why = caught.expect_err("the bug does harm");
    let why = why.downcast_ref::<String>().map_or("a panic", |why| why);
    assert!(
        why.contains("lost after it") || why.contains("corruption"),
        "{why}"
    );
}
