//! Databases that are destroyed: with a fault at every call of files, also where region and logs lie elsewhere, and with regions
//! that are not theirs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::options::{Emulation, Options, Preset, RegionDemand};
use thermocline_base::{CfId, Error, ErrorKind, Result, Steps};
use thermocline_engine::{Engine, World, destroy};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::real::RealStorage;
use thermocline_env::{Env, Storage, sim::SimFs};
use thermocline_halloc::{Reserve, Space, SpaceSpec};
use thermocline_memtable::Descriptor;
use thermocline_pm::{Place, Region, RegionSpec};
use thermocline_testkit::explore::one_in;
use thermocline_version::{Manifest, State};

use crate::machine::{options, path, put};

fn world(storage: &Arc<dyn Storage>) -> World {
    World {
        env: Env {
            storage: storage.clone(),
            ..Env::real()
        },
        sim: None,
        shadow: None,
        background: false,
    }
}

/// Makes a database with something in tables and in blob files, and something that is in no table yet.
fn fill(world: &World, dir: &Path, options: &Options) {
    let engine = Engine::open(world.clone(), dir, options.clone()).unwrap();
    put(&engine, CfId::DEFAULT, b"in a table", b"1");
    put(
        &engine,
        CfId::DEFAULT,
        b"in a blob file",
        &[7u8].repeat(100_000),
    );
    engine.flush().unwrap();
    put(&engine, CfId::DEFAULT, b"in no table", b"yet");
    engine.close().unwrap();
}

/// Destroys what a call that failed has left, if it has left something: nothing but strangers' files stays.
fn finish(world: &World, dir: &Path, options: &Options) {
    let storage = &world.env.storage;
    let there = |name: &str| storage.exists(&dir.join(name)).unwrap();
    if !there("CURRENT") && there("DESTROYING") {
        for read_only in [false, true] {
            let options = Options {
                read_only,
                ..options.clone()
            };
            let opened = Engine::open(world.clone(), dir, options);
            let refused = opened.map(drop).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
            assert!(refused.to_string().contains("destroy"), "{refused}");
        }
    }
    if there("CURRENT") || there("DESTROYING") {
        destroy(dir, world, options).unwrap();
    }
    let again = destroy(dir, world, options).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::InvalidArgument, "{again}");
}

fn logged() -> Options {
    Options {
        wal_path: Some("/logs".into()),
        ..Options::preset(Preset::Leveled)
    }
}

/// A database whose logs lie elsewhere, and strangers' files.
fn logged_database() -> SimFs {
    let fs = SimFs::new(Steps::new());
    let storage: Arc<dyn Storage> = Arc::new(fs.clone());
    fill(&world(&storage), path("/db"), &logged());
    fs.install(path("/db/000999.log"), b"somebody's");
    fs.install(path("/db/000999.sst"), b"somebody's");
    fs.install(path("/logs/notes.txt"), b"somebody's");
    // With the name of one of its logs, which stays when nothing is left that says whose those are.
    let names = fs.list(path("/logs")).unwrap();
    assert!(names.iter().any(|name| name.ends_with(".log")), "{names:?}");
    let owner = names.iter().find(|name| name.ends_with("-OWNER")).unwrap();
    let named = owner.replace("OWNER", "000999.log");
    fs.install(&path("/logs").join(named), b"somebody's");
    fs
}

/// Destroys it while files fail so. Returns at how many calls they could have failed.
fn destroy_logged(plan: Option<Plan>, fault: Fault) -> u64 {
    let fs = logged_database();
    let faulty = FaultStorage::over_sim(fs.clone());
    let storage: Arc<dyn Storage> = Arc::new(faulty.clone());
    if let Some(plan) = plan {
        faulty.arm(plan);
    }
    let done = destroy(path("/db"), &world(&storage), &logged());
    let (fired, calls) = (faulty.fired(), faulty.calls_for(fault, None));
    faulty.disarm();
    assert!(done.is_ok() || fired > 0, "{plan:?}: {done:?}");
    let crashed = [fs.image_none(Steps::new()), fs.image_all(Steps::new())];
    let random = (0..3).map(|seed| fs.image_random(seed, Steps::new()));
    for image in crashed.into_iter().chain(random).chain([fs.clone()]) {
        let storage: Arc<dyn Storage> = Arc::new(image);
        let there = |name: &str| storage.exists(&path("/db").join(name)).unwrap();
        let is_left = there("CURRENT") || there("DESTROYING");
        assert!(!is_left || done.is_err(), "{plan:?}: it comes back");
        finish(&world(&storage), path("/db"), &logged());
        let names = |dir| storage.list(path(dir)).unwrap();
        assert_eq!(
            names("/db"),
            ["000999.log", "000999.sst", "LOCK"],
            "{plan:?}"
        );
        let mut left = names("/logs");
        let named = left.pop().unwrap();
        assert!(named.ends_with("-000999.log"), "{plan:?}: {named}");
        assert_eq!(left, ["notes.txt"], "{plan:?}");
    }
    calls
}

#[test]
fn with_logs_elsewhere_every_call_may_fail() {
    for fault in [Fault::Eio, Fault::SyncKept, Fault::SyncDropped] {
        let calls = destroy_logged(None, fault);
        assert!(calls > 5, "{fault:?}: {calls}");
        let step = match fault {
            Fault::Eio => usize::try_from(one_in(5)).unwrap(),
            _ => 1,
        };
        for at in (0..calls).step_by(step) {
            for repeat in [Repeat::Once, Repeat::Forever] {
                let plan = Plan {
                    fault,
                    op: None,
                    at,
                    repeat,
                };
                destroy_logged(Some(plan), fault);
            }
        }
    }
}

/// A folder where syncing costs nothing, if there is one.
fn home() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// As [`destroy_logged`], with a region elsewhere, which is a file of the operating system: it knows no crashes.
fn destroy_mapped(plan: Option<Plan>) -> u64 {
    let home = home();
    let [dir, pm] = ["db", "pm"].map(|name| home.path().join(name));
    let faulty = FaultStorage::new(Arc::new(RealStorage::new()));
    let storage: Arc<dyn Storage> = Arc::new(faulty.clone());
    storage.create_dir_all(&pm).unwrap();
    let options = Options {
        pm_path: Some(pm.clone()),
        ..options()
    };
    fill(&world(&storage), &dir, &options);
    assert_eq!(storage.list(&pm).unwrap().len(), 1);
    let calls = || faulty.calls_for(Fault::Eio, None);
    let before = calls();
    if let Some(plan) = plan {
        let at = before + plan.at;
        faulty.arm(Plan { at, ..plan });
    }
    let done = destroy(&dir, &world(&storage), &options);
    let counted = calls() - before;
    faulty.disarm();
    assert!(done.is_ok() || plan.is_some(), "{done:?}");
    finish(&world(&storage), &dir, &options);
    assert_eq!(storage.list(&dir).unwrap(), ["LOCK"], "{plan:?}");
    assert_eq!(storage.list(&pm).unwrap(), Vec::<String>::new(), "{plan:?}");
    counted
}

#[test]
fn with_a_region_elsewhere_every_call_may_fail() {
    let calls = destroy_mapped(None);
    assert!(calls > 30, "{calls}");
    let step = usize::try_from(one_in(5)).unwrap();
    for at in (0..calls).step_by(step) {
        for repeat in [Repeat::Once, Repeat::Forever] {
            destroy_mapped(Some(Plan {
                fault: Fault::Eio,
                op: None,
                at,
                repeat,
            }));
        }
    }
}

/// A call removed the region and was cut short before that was durable. The next one finds nothing there, and has to sync the
/// folder all the same.
#[test]
fn a_repeated_call_syncs_folders_in_which_nothing_is_left() {
    let home = home();
    let [dir, pm] = ["db", "pm"].map(|name| home.path().join(name));
    let real: Arc<dyn Storage> = Arc::new(RealStorage::new());
    real.create_dir_all(&pm).unwrap();
    let options = Options {
        pm_path: Some(pm.join("region")),
        ..options()
    };
    let syncs = |has_region: bool, elsewhere: bool| {
        fill(&world(&real), &dir, &options);
        let [current, mark] = ["CURRENT", "DESTROYING"].map(|name| dir.join(name));
        real.rename_new(&current, &mark).unwrap();
        if !has_region {
            real.remove(&pm.join("region")).unwrap();
        }
        let faulty = FaultStorage::new(real.clone());
        let storage: Arc<dyn Storage> = Arc::new(faulty.clone());
        // The repeated call need not name a region that is gone: it is remembered where that was.
        let options = match elsewhere {
            true => options.clone(),
            false => Options {
                pm_path: None,
                ..options.clone()
            },
        };
        destroy(&dir, &world(&storage), &options).unwrap();
        faulty.calls_of(Op::SyncDir)
    };
    let all = syncs(true, true);
    assert_eq!(syncs(false, true), all);
    assert_eq!(syncs(false, false), all);
}

/// A folder may be written to that may not be opened: it cannot be synced. Whoever names the region hears of that, in each call,
/// and the database is not forgotten before. Of a place that is only remembered it is passed over.
#[test]
fn a_folder_that_may_not_be_synced_is_told_of_if_the_region_is_named() {
    let home = home();
    let [dir, pm] = ["db", "pm"].map(|name| home.path().join(name));
    let real: Arc<dyn Storage> = Arc::new(RealStorage::new());
    real.create_dir_all(&pm).unwrap();
    let named = Options {
        pm_path: Some(pm.join("region")),
        ..options()
    };
    let faulty = FaultStorage::new(real.clone());
    let storage: Arc<dyn Storage> = Arc::new(faulty.clone());
    // The first sync is that of the mark.
    let destroy_without = |sync: u64, options: &Options| {
        let (fault, op) = (Fault::NoAccess, Some(Op::SyncDir));
        faulty.arm(Plan {
            fault,
            op,
            at: faulty.calls_for(fault, op) + sync,
            repeat: Repeat::Once,
        });
        let before = faulty.fired();
        let done = destroy(&dir, &world(&storage), options);
        assert_eq!(faulty.fired(), before + 1);
        faulty.disarm();
        done
    };
    fill(&world(&real), &dir, &named);
    for call in ["the one that removes it", "the next one"] {
        match destroy_without(1, &named) {
            Err(Error::Io { path, .. }) => assert_eq!(path, pm, "{call}"),
            other => panic!("{call}: {other:?}"),
        }
        assert_eq!(real.list(&pm).unwrap(), Vec::<String>::new(), "{call}");
        assert!(real.exists(&dir.join("DESTROYING")).unwrap(), "{call}");
    }
    // Its own folder is synced first.
    destroy_without(2, &options()).unwrap();
    assert_eq!(real.list(&dir).unwrap(), ["LOCK"]);
    // Nor is it passed over of a folder within, from which the call has removed it, though nobody names that.
    let within = dir.join("within");
    real.create_dir_all(&within).unwrap();
    let lies_within = Options {
        pm_path: Some(within.join("region")),
        ..options()
    };
    fill(&world(&real), &dir, &lies_within);
    match destroy_without(1, &options()) {
        Err(Error::Io { path, .. }) => assert_eq!(path, within),
        other => panic!("{other:?}"),
    }
    assert_eq!(real.list(&within).unwrap(), Vec::<String>::new());
    assert!(real.exists(&dir.join("DESTROYING")).unwrap());
    destroy(&dir, &world(&real), &options()).unwrap();
    assert_eq!(real.list(&dir).unwrap(), ["LOCK", "within"]);
}

/// What is changed in a region that lies in the folder, by whoever has gone on with it.
type Change = fn(&Space, &State);

#[test]
fn a_region_that_knows_more_than_the_manifest_stays() {
    let changes: [(Change, &str); 2] = [
        (
            |space, state| {
                let chain = state.next_ids().chain + 7;
                space.attach(chain, 0, 1000, Reserve::Use).unwrap();
            },
            "a zone belongs to a chain",
        ),
        (
            |space, state| {
                let (db_id, memtable) = (state.db_id().unwrap(), state.next_ids().memtable);
                let made = Descriptor::create(space, &db_id, memtable).unwrap();
                assert!(made.is_some());
            },
            "has a memtable that the manifest does not know",
        ),
    ];
    for (change, says) in changes {
        let home = home();
        let dir = home.path().join("db");
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new());
        fill(&world(&storage), &dir, &options());
        change_region(&storage, &dir, change).unwrap();
        let before = storage.list(&dir).unwrap();
        let refused = destroy(&dir, &world(&storage), &options()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
        assert!(refused.to_string().contains(says), "{refused}");
        assert_eq!(storage.list(&dir).unwrap(), before);
    }
}

fn change_region(storage: &Arc<dyn Storage>, dir: &Path, change: Change) -> Result<()> {
    let (_, state) = Manifest::open(storage.clone(), dir, true)?;
    let region = Region::open(&RegionSpec {
        env: world(storage).env,
        place: Place::Path(dir.join("region.pm")),
        demand: RegionDemand::Any,
        capacity: 4 << 20,
        emulation: Emulation::None,
        read_only: false,
    })?;
    let spec = SpaceSpec {
        part_bytes_first: 256 << 10,
        pm: 4 << 20,
    };
    let region_id = state.region_id().unwrap();
    let (space, _) = Space::open(region, &region_id, spec, |_| true)?;
    change(&space, &state);
    Ok(())
}

/// Which folders are synced, by the paths that calls name which fail there.
#[test]
fn the_folder_of_a_region_is_synced_in_each_call() {
    for (has_region, names_it) in [(true, true), (false, true), (false, false)] {
        let mut synced = BTreeSet::new();
        for at in 0.. {
            let home = home();
            let [dir, pm] = ["db", "pm"].map(|name| home.path().join(name));
            let real: Arc<dyn Storage> = Arc::new(RealStorage::new());
            real.create_dir_all(&pm).unwrap();
            let region = pm.join("region");
            let options = Options {
                pm_path: Some(region.clone()),
                ..options()
            };
            fill(&world(&real), &dir, &options);
            let [current, mark] = ["CURRENT", "DESTROYING"].map(|name| dir.join(name));
            real.rename_new(&current, &mark).unwrap();
            if !has_region {
                real.remove(&region).unwrap();
            }
            let faulty = FaultStorage::new(real.clone());
            let storage: Arc<dyn Storage> = Arc::new(faulty.clone());
            let options = match names_it {
                true => options,
                false => Options {
                    pm_path: None,
                    ..options
                },
            };
            faulty.arm(Plan {
                fault: Fault::Eio,
                op: Some(Op::SyncDir),
                at,
                repeat: Repeat::Once,
            });
            match destroy(&dir, &world(&storage), &options) {
                Ok(()) => break,
                Err(Error::Io { path, .. }) => {
                    synced.insert(path.strip_prefix(home.path()).unwrap().to_path_buf());
                }
                Err(error) => panic!("{error}"),
            }
        }
        let both = ["db", "pm"].map(PathBuf::from);
        assert_eq!(synced, both.into(), "{has_region} {names_it}");
    }
}
