//! Databases whose making is cut short, wherever their logs are to lie.

use thermocline_base::step::Observer;

use super::*;
use crate::sync::{Arc, Mutex, lock};

/// Opens the store as the process of this number, which draws its own ids.
fn open_as(fs: &SimFs, process: u64, dir: &str) -> Result<Engine> {
    let world = World {
        env: Env::simulated(fs.clone(), process),
        ..world(fs)
    };
    let options = Options {
        wal_path: Some(dir.into()),
        ..options()
    };
    Engine::open(world, Path::new(DB), options)
}

/// What a process leaves that is killed at any point of the making.
fn points_of_the_making(dir: &str) -> Vec<SimFs> {
    let steps = Steps::new();
    let fs = SimFs::new(steps.clone());
    let taken: Arc<Mutex<Vec<SimFs>>> = Arc::default();
    let (sink, world) = (taken.clone(), fs.clone());
    let observer: Observer = Arc::new(move |_| {
        lock(&sink).push(world.image_killed(Steps::new()));
    });
    steps.observe(Some(observer));
    let engine = open_as(&fs, 7, dir).unwrap();
    steps.observe(None);
    drop(engine);
    std::mem::take(&mut *lock(&taken))
}

/// What is there of it is known as ours, in the database's own folder, too. Nothing stays of how it was seen whether logs can be
/// made, though whoever begins again has another id.
#[test]
fn a_making_that_is_cut_short_is_begun_again() {
    for dir in ["/logs", "/db/logs", DB] {
        let points = points_of_the_making(dir);
        let names = |fs: &SimFs| fs.list(Path::new(dir)).unwrap_or_default();
        let has_probe = |fs: &SimFs| names(fs).iter().any(|name| name.ends_with("-PROBE"));
        assert!(points.iter().any(has_probe), "{dir}");
        for (n, point) in points.iter().enumerate() {
            let engine = open_as(point, 8, dir);
            let engine = engine.unwrap_or_else(|error| panic!("{dir}, point {n}: {error}"));
            put(&engine, 1);
            assert!(!has_probe(point), "{dir}, point {n}: {:?}", names(point));
        }
    }
}

/// What somebody else has called so is not ours.
#[test]
fn a_file_that_has_the_name_of_a_probe_stays_if_it_has_bytes() {
    let fs = SimFs::new(Steps::new());
    let path = Path::new("/logs").join(format!("thermocline-{}-PROBE", "0".repeat(32)));
    fs.create_dir_all(Path::new("/logs")).unwrap();
    fs.install(&path, b"precious");
    open_as(&fs, 7, "/logs").unwrap().close().unwrap();
    assert_eq!(fs.contents(&path).unwrap(), b"precious");
}
