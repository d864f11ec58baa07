//! Stores that are opened with another folder for their logs, while the process or the machine fails.

use thermocline_base::CfOptions;
use thermocline_base::step::Observer;
use thermocline_testkit::explore::{one_in, side_by_side};

use super::*;
use crate::sync::{Arc, Mutex, lock};

const NEW: &str = "/new";

/// Where logs lie before: in the database's folder, or elsewhere.
const BEFORE: [Option<&str>; 2] = [None, Some("/old")];

fn with(dir: Option<&str>) -> Options {
    Options {
        wal_path: dir.map(PathBuf::from),
        ..options()
    }
}

/// Opens the store as the process of this number, which draws its own nonces.
fn open_as(fs: &SimFs, process: u64, dir: Option<&str>) -> Result<Engine> {
    let world = World {
        env: Env::simulated(fs.clone(), process),
        ..world(fs)
    };
    Engine::open(world, Path::new(DB), with(dir))
}

/// A store that was killed, with logs of more than one chain.
fn killed_with_chains(dir: Option<&str>) -> SimFs {
    let fs = SimFs::new(Steps::new());
    let engine = open_as(&fs, 7, dir).unwrap();
    (1..=3).for_each(|n| put(&engine, n));
    let fs = fs.image_killed(Steps::new());
    let engine = open_as(&fs, 8, dir).unwrap();
    (4..=5).for_each(|n| put(&engine, n));
    fs.image_killed(Steps::new())
}

/// The file system at each point of an open of it with the new folder.
fn points_of_the_move(fs: &SimFs) -> Vec<SimFs> {
    let steps = Steps::new();
    let fs = fs.image_killed(steps.clone());
    let taken: Arc<Mutex<Vec<SimFs>>> = Arc::default();
    let (sink, world) = (taken.clone(), fs.clone());
    let observer: Observer = Arc::new(move |_| {
        lock(&sink).push(world.image_killed(Steps::new()));
    });
    steps.observe(Some(observer));
    let engine = open_as(&fs, 9, Some(NEW)).unwrap();
    steps.observe(None);
    assert!(has(&engine, 5));
    drop(engine);
    std::mem::take(&mut *lock(&taken))
}

fn has_all(engine: &Engine, last: u8) {
    assert!((1..=9).all(|n| has(engine, n) == (n <= last)), "{last}");
}

/// Goes on without being told of the new folder, then with it, and so on. The processes are killed, or the power fails.
fn goes_on(fs: &SimFs) -> std::result::Result<(), String> {
    let mut fs = fs.image_killed(Steps::new());
    let lives = [None, Some(NEW), None, Some("/third"), Some(NEW)];
    for (life, dir) in (0u8..).zip(lives) {
        let engine = open_as(&fs, 10 + u64::from(life), dir)
            .map_err(|error| format!("life {life}, {dir:?}: {error}"))?;
        has_all(&engine, 5 + life);
        if life < 4 {
            put(&engine, 6 + life);
        }
        fs = match life % 2 {
            0 => fs.image_killed(Steps::new()),
            _ => fs.image_none(Steps::new()),
        };
    }
    Ok(())
}

/// Wherever the open ends that is told of another folder, the next one, which is not, finds all logs.
#[test]
fn a_move_that_is_cut_short_loses_no_log() {
    for before in BEFORE {
        let points = points_of_the_move(&killed_with_chains(before));
        assert!(points.len() > 10, "{}", points.len());
        let step = usize::try_from(one_in(3)).unwrap();
        let tried: Vec<(u64, &SimFs)> = (0u64..).zip(&points).step_by(step).collect();
        side_by_side(&tried, |&(n, point)| {
            let pending = point.pending();
            let random = [pending.random(n), pending.random(n + 1_000)];
            let crashes = [pending.none(), pending.all()].into_iter().chain(random);
            let crashed = crashes.map(|choices| point.image(&choices, Steps::new()));
            for left in crashed.chain([point.image_killed(Steps::new())]) {
                if let Err(why) = goes_on(&left) {
                    panic!("from {before:?}, point {n}: {why}");
                }
            }
        });
    }
}

/// Once the manifest remembers the new folder, nothing is left where logs were.
#[test]
fn what_was_copied_goes() {
    for before in BEFORE {
        let fs = killed_with_chains(before);
        let from = Path::new(before.unwrap_or(DB));
        assert!(logs(&fs, from) > 0);
        let engine = open_as(&fs, 9, Some(NEW)).unwrap();
        has_all(&engine, 5);
        assert_eq!(logs(&fs, from), 0);
        assert!(logs(&fs, Path::new(NEW)) > 0);
        engine.close().unwrap();
        has_all(&open_as(&fs, 10, None).unwrap(), 5);
    }
}

/// A process was killed while it copied a log. The next one goes on where that was, and flushes it: nobody copies it again.
#[test]
fn a_copy_of_a_log_that_was_not_completed_goes() {
    let copies = |fs: &SimFs| {
        let names = fs.list(Path::new(NEW)).unwrap_or_default();
        names.iter().filter(|n| n.ends_with(".log-copy")).count()
    };
    for before in BEFORE {
        let points = points_of_the_move(&killed_with_chains(before));
        let left: Vec<SimFs> = points.into_iter().filter(|fs| copies(fs) > 0).collect();
        assert!(!left.is_empty(), "{before:?}");
        for fs in left {
            let engine = open_as(&fs, 10, None).unwrap();
            engine.flush().unwrap();
            engine.close().unwrap();
            assert_eq!(copies(&fs), 1, "{before:?}");
            has_all(&open_as(&fs, 11, Some(NEW)).unwrap(), 5);
            assert_eq!(copies(&fs), 0, "{before:?}");
        }
    }
}

/// Where the disk has no room for the edit that remembers the new folder, the logs stay where they are.
#[test]
fn a_move_that_the_manifest_has_no_room_for_loses_no_log() {
    for before in BEFORE {
        let fs = killed_with_chains(before);
        let engine = open_as(&fs, 9, before).unwrap();
        fs.limit(fs.used());
        // What the manifest has left is used up.
        let name = |n: u32| format!("family {n}");
        let mut refused = (0..100_000).map(|n| engine.family(&name(n), &CfOptions::default()));
        let error = refused.find_map(Result::err).unwrap();
        assert!(error.is_no_room(), "{error}");
        let full = fs.image_killed(Steps::new());
        let mut opened = 0;
        let step = usize::try_from(4 * one_in(3)).unwrap();
        for more in (0..400u64).step_by(step) {
            let fs = full.image_killed(Steps::new());
            fs.limit(fs.used() + (more << 10));
            let engine = open_as(&fs, 10, Some(NEW));
            match &engine {
                Ok(engine) => {
                    has_all(engine, 5);
                    opened += 1;
                }
                Err(error) => assert!(error.is_no_room(), "{error}"),
            }
            for dir in [None, Some(NEW)] {
                let left = fs.image_killed(Steps::new());
                left.limit(u64::MAX);
                let again = open_as(&left, 11, dir);
                let again = again.unwrap_or_else(|why| panic!("{before:?}, {more} KiB: {why}"));
                has_all(&again, 5);
            }
        }
        assert!(opened > 0);
    }
}
