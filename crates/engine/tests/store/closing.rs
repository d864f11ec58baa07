//! A store that is closed while a sync of one of its new files stands still: closing does not wait for that.
//!
//! The sync waits at a door, which opens only when the store is closed, opened again and looked at. What would wait for it would
//! hang here.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use thermocline_base::options::{Options, Scheduler, Shape};
use thermocline_base::{CfId, Error, ErrorKind, Result, Site, Steps, WriteBatch};
use thermocline_engine::{Durability, Engine, World};
use thermocline_env::hooks::{Hooked, Hooks};
use thermocline_env::sim::SimFs;
use thermocline_env::{Env, File, Storage};
use thermocline_pm::SimPm;
use thermocline_sst::{FileName, sites};

const CF: CfId = CfId::DEFAULT;
const PM: u64 = 1 << 20;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Where the first sync at a site waits.
#[derive(Debug, Default)]
struct Door {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The next sync at this site stands still.
    shut_at: Option<Site>,
    stands: bool,
    open: bool,
    /// The one that stood has ended, and was none that failed.
    ended: Option<bool>,
}

impl Door {
    fn shut(&self, site: Site) {
        self.state.lock().unwrap().shut_at = Some(site);
    }

    fn wait(&self, until: impl Fn(&State) -> bool) {
        let state = self.state.lock().unwrap();
        drop(
            self.changed
                .wait_while(state, |state| !until(state))
                .unwrap(),
        );
    }

    fn open(&self) {
        self.state.lock().unwrap().open = true;
        self.changed.notify_all();
    }
}

impl Hooks for Door {
    /// Makes a sync, before or behind the door.
    fn sync(&self, file: &dyn File, site: Site) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        if state.shut_at != Some(site) {
            drop(state);
            return file.sync(site);
        }
        (state.shut_at, state.stands) = (None, true);
        drop(state);
        self.changed.notify_all();
        self.wait(|state| state.open);
        let synced = file.sync(site);
        self.state.lock().unwrap().ended = Some(synced.is_ok());
        self.changed.notify_all();
        synced
    }
}

/// Whose sync stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// That of a flush which a caller wants.
    Flush,
    /// That of a flush by the store's own thread, or by a writer who finds no room behind it.
    Job,
    /// That of a compaction.
    Compaction,
    /// That of a write, of whose value the sync makes the bytes durable.
    LongValue,
}

impl Work {
    fn site(self) -> Site {
        match self {
            Work::LongValue => sites::BLOBS_WRITTEN,
            _ => sites::TABLE_WRITTEN,
        }
    }

    /// Does it until it fails, and says why. What is acknowledged meanwhile comes into the model.
    fn go(self, engine: &Engine, model: &mut Model) -> Error {
        match self {
            Work::Flush => engine.flush().unwrap_err(),
            Work::Compaction => engine.compact(CF, (Unbounded, Unbounded)).unwrap_err(),
            Work::LongValue => put(engine, b"long", &[1; 10_000]).unwrap_err(),
            Work::Job => {
                let mut n = 0;
                loop {
                    let (key, value) = pair(1000 + n, 2);
                    if let Err(error) = put(engine, &key, &value) {
                        return error;
                    }
                    model.insert(key, value);
                    n += 1;
                }
            }
        }
    }
}

fn pair(n: u32, version: u8) -> (Vec<u8>, Vec<u8>) {
    (n.to_be_bytes().to_vec(), vec![version; 2000])
}

fn put(engine: &Engine, key: &[u8], value: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(CF, key, value).unwrap();
    engine.write(batch.iter(), Durability::Immediate)
}

fn options(scheduler: Scheduler, automatic: bool) -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    // Flushes write files.
    options.level0.shape = Some(Shape::GlobalIndex);
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 20_000;
    options.blob.inline_bytes_max = 4096;
    options.flush.automatic = automatic;
    options.compaction.scheduler = scheduler;
    options
}

fn check(engine: &Engine, model: &Model) {
    for (key, value) in model {
        let found = engine.get(CF, key, <[u8]>::to_vec).unwrap();
        assert!(found.as_ref() == Some(value), "{key:?}");
    }
}

fn closed_meanwhile(scheduler: Scheduler, work: Work) {
    let dir = Path::new("/db");
    let (disk, door) = (SimFs::new(Steps::new()), Arc::new(Door::default()));
    let world = World {
        env: Env {
            storage: Hooked::new(Arc::new(disk.clone()), door.clone()),
            ..Env::simulated(disk.clone(), 7)
        },
        shadow: None,
        sim: Some(SimPm::new(PM, Steps::new())),
        background: true,
    };
    // Tables and blob files in the folder, finished or not.
    let files = || {
        let mut names = disk.list(dir).unwrap();
        names.retain(|name| FileName::parse(name).is_some());
        names
    };
    let engine = Engine::open(world.clone(), dir, options(scheduler, work == Work::Job)).unwrap();
    let mut model = Model::new();
    let versions = match work {
        // The store's own thread might begin before the door is shut.
        Work::Job => 0,
        // It has tables to merge.
        Work::Compaction => 3,
        Work::Flush | Work::LongValue => 1,
    };
    for version in 0..versions {
        for n in 0..40 {
            let (key, value) = pair(n, version);
            put(&engine, &key, &value).unwrap();
            model.insert(key, value);
        }
        if work == Work::Compaction {
            engine.flush().unwrap();
        }
    }
    let before = files();
    door.shut(work.site());
    let (store, acknowledged) = (&engine, &mut model);
    std::thread::scope(|scope| {
        let works = scope.spawn(move || work.go(store, acknowledged));
        door.wait(|state| state.stands);
        store.close().unwrap();
        let error = works.join().unwrap();
        // A writer may have been about to say that there is no room.
        let no_room = work == Work::Job && error.kind() == ErrorKind::OutOfSpace;
        assert!(error.kind() == ErrorKind::Closed || no_room, "{error}");
    });
    drop(engine);
    assert_eq!(files(), before, "{work:?}");
    // The sync still stands when the store is opened again, which finds nothing to remove.
    let again = Engine::open(world, dir, options(scheduler, false)).unwrap();
    assert_eq!(files(), before, "{work:?}");
    check(&again, &model);
    assert!(again.get(CF, b"long", |_| ()).unwrap().is_none());
    again.flush().unwrap();
    again.compact(CF, (Unbounded, Unbounded)).unwrap();
    check(&again, &model);
    again.close().unwrap();
    let before = files();
    door.open();
    door.wait(|state| state.ended.is_some());
    let ended = door.state.lock().unwrap().ended;
    assert_eq!(
        ended,
        Some(true),
        "it goes on, whatever has become of its file"
    );
    assert_eq!(files(), before, "{work:?}");
}

#[test]
fn closing_waits_for_no_sync_of_a_new_file() {
    for scheduler in Scheduler::ALL {
        for work in [Work::Flush, Work::Job, Work::Compaction, Work::LongValue] {
            closed_meanwhile(scheduler, work);
        }
    }
}
