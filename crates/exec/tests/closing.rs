//! Files of a store that is closed meanwhile: whoever waits for a sync waits no longer than until then.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{ErrorKind, Result, Site, Steps};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::hooks::{Hooked, HookedFile, Hooks};
use thermocline_env::real::RealClock;
use thermocline_env::sim::SimFs;
use thermocline_env::{File, OpenMode, Storage};
use thermocline_exec::{BufPool, Closing, JobIo, Turn, UnderWay};

const SYNC: Site = Site("test");

fn with_threads() -> Arc<JobIo> {
    let clock = Arc::new(RealClock::new());
    let pool = BufPool::new(1 << 20);
    Arc::new(JobIo::new(pool, UnderWay::default(), clock))
}

fn inline() -> Arc<JobIo> {
    Arc::new(JobIo::inline(BufPool::new(1 << 20), 7))
}

fn created(disk: &dyn Storage, path: &str) -> Arc<dyn File> {
    disk.open(Path::new(path), OpenMode::CreateNew).unwrap()
}

/// Syncs say that they have begun, and stand still until they are told whether they panic.
#[derive(Debug)]
struct Gate {
    begins: Sender<()>,
    door: Mutex<Receiver<bool>>,
}

impl Hooks for Gate {
    fn sync(&self, file: &dyn File, site: Site) -> Result<()> {
        self.begins.send(()).unwrap();
        let panics = lock(&self.door).recv().unwrap();
        assert!(!panics, "as this test wants it");
        file.sync(site)
    }
}

/// A file behind a gate, what its syncs say, and the way to let them go.
fn gated(inner: Arc<dyn File>) -> (Arc<HookedFile<Gate>>, Receiver<()>, Sender<bool>) {
    let (begins, begun) = channel();
    let (key, door) = channel();
    let door = Mutex::new(door);
    let file = Hooked::new(inner, Arc::new(Gate { begins, door }));
    (file, begun, key)
}

#[test]
fn a_sync_is_waited_for_until_the_store_is_closed() {
    for behind in [false, true] {
        let sim = SimFs::new(Steps::new());
        let (io, closing) = (with_threads(), Arc::new(Closing::default()));
        let (gated, begun, key) = gated(created(&sim, "/file"));
        let file = io.until_closed(gated.clone(), &closing);
        let file: Arc<dyn File> = match behind {
            true => io.behind(file, Turn::Now),
            false => file,
        };
        file.write_at(&[1; 4096], 0).unwrap();
        thread::scope(|scope| {
            // To its end, as long as nobody closes the store.
            let syncs = scope.spawn(|| file.sync(SYNC));
            begun.recv().unwrap();
            key.send(false).unwrap();
            syncs.join().unwrap().unwrap();
            let syncs = scope.spawn(|| file.sync(SYNC));
            begun.recv().unwrap();
            closing.begin();
            // It still stands.
            let given_up = syncs.join().unwrap().unwrap_err();
            assert_eq!(given_up.kind(), ErrorKind::Closed, "{given_up}");
        });
        let refused = file.sync(SYNC).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
        if !behind {
            let refused = file.write_at(&[2; 4096], 4096).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
        }
        drop(file);
        sim.remove(Path::new("/file")).unwrap();
        // What has begun goes on, whatever has become of the name; then nobody holds the file.
        assert!(begun.try_recv().is_err());
        key.send(false).unwrap();
        while Arc::strong_count(&gated) > 1 {
            thread::yield_now();
        }
        assert!(begun.try_recv().is_err());
    }
}

#[test]
fn a_write_that_waits_behind_a_job_is_not_begun_once_the_store_is_closed() {
    for io in [inline(), with_threads()] {
        let sim = SimFs::new(Steps::new());
        let closing = Arc::new(Closing::default());
        let file = io.until_closed(created(&sim, "/file"), &closing);
        let file = io.behind(file, Turn::Now);
        closing.begin();
        let error = file
            .write_at(&[1; 4096], 0)
            .and_then(|()| file.sync(SYNC))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        drop(file);
        assert!(sim.contents(Path::new("/file")).unwrap().is_empty());
    }
}

#[test]
fn what_comes_of_a_sync_is_what_its_file_says() {
    for io in [inline(), with_threads()] {
        let disk = FaultStorage::over_sim(SimFs::new(Steps::new()));
        let closing = Arc::new(Closing::default());
        let own = created(&disk, "/file");
        let file = io.until_closed(own.clone(), &closing);
        file.write_at(&[1; 4096], 0).unwrap();
        file.sync(SYNC).unwrap();
        // Whoever has waited is the only one who holds it, beside this test.
        assert_eq!(Arc::strong_count(&own), 2);
        disk.arm(Plan {
            fault: Fault::Eio,
            op: Some(Op::Sync),
            at: disk.calls_for(Fault::Eio, Some(Op::Sync)),
            repeat: Repeat::Once,
        });
        let failed = file.sync(SYNC).unwrap_err().to_string();
        assert!(failed.contains("/file"), "{failed}");
        assert_eq!(disk.fired(), 1);
    }
}

#[test]
fn nobody_waits_for_a_sync_that_panics() {
    let sim = SimFs::new(Steps::new());
    let (gated, begun, key) = gated(created(&sim, "/file"));
    let (io, closing) = (with_threads(), Arc::new(Closing::default()));
    let file = io.until_closed(gated, &closing);
    key.send(true).unwrap();
    let error = file.sync(SYNC).unwrap_err().to_string();
    assert!(
        error.contains("has panicked") && error.contains("/file"),
        "{error}"
    );
    begun.recv().unwrap();
    // The next one is made on a thread that goes on.
    key.send(false).unwrap();
    file.sync(SYNC).unwrap();
}
