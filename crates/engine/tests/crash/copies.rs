//! Crashes while a store is copied, backed up or restored, while a copy is opened for the first time, and
//! while tables are ingested.
//!
//! At every point of the work every state (or a drawn sample) that the machine could be left in is looked
//! at: the copy is whole or is none, what was there before is unharmed, and the work can be done again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use thermocline_base::planted::{Bug, plant};
use thermocline_base::{CfId, CfOptions, Site, Steps, WriteBatch};
use thermocline_engine::{Backups, Durability, Engine, IngestWriter, World, verify};
use thermocline_env::{Env, Storage};
use thermocline_pm::SimPm;
use thermocline_version::Manifest;

use crate::check::caught;
use crate::life::{Life, PM, dir, options};
use crate::oracle::Expect;
use crate::raw::HERE;
use crate::snapshot::{Budget, Snapshot};

const BUDGET: Budget = Budget {
    exhaustive: 24,
    single: 3,
    random: 3,
};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
type Dump = BTreeMap<String, (Pairs, Option<Vec<u8>>)>;

fn dump(engine: &Engine) -> Dump {
    let family = |name: String| {
        let family = engine.find_family(&name).unwrap();
        let mut cursor = engine.cursor(family).unwrap();
        let mut pairs = Pairs::new();
        let mut more = cursor.seek_to_first().unwrap();
        while more {
            pairs.push((cursor.key().to_vec(), cursor.value().to_vec()));
            more = cursor.next().unwrap();
        }
        let metadata = engine.metadata(family.id, <[u8]>::to_vec).unwrap();
        (name, (pairs, metadata))
    };
    engine.families().into_iter().map(family).collect()
}

fn put(engine: &Engine, cf: CfId, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(cf, key, value).unwrap();
    batch.set_metadata(cf, key).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

/// Something in tables, something in memory, in two families; tombstones over a table, of a key and of a
/// range.
fn fill(engine: &Engine) {
    let mut reverse = CfOptions::default();
    reverse.reverse = Some(true);
    let down = engine.family("down", &reverse).unwrap().id;
    for i in 0..6 {
        put(engine, CfId::DEFAULT, &[i], &[i; 40]);
        put(engine, down, &[i], &[i; 30]);
    }
    engine.flush().unwrap();
    let mut batch = WriteBatch::new();
    batch.delete(CfId::DEFAULT, &[1]).unwrap();
    batch.delete_range(CfId::DEFAULT, &[3], Some(&[5])).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    put(engine, down, b"late", b"in memory");
}

/// One state that a crash may leave.
struct Left {
    life: Life,
    /// Whether the work had returned.
    done: bool,
}

impl Left {
    fn storage(&self) -> Arc<dyn Storage> {
        self.life.world().env.storage
    }

    fn original(&self) -> Engine {
        Engine::open(self.life.world(), dir(), self.life.options().clone()).unwrap()
    }

    /// Another store in this state, whose region was never made.
    fn open(&self, at: &Path) -> Engine {
        let world = World {
            sim: Some(SimPm::new(PM, Steps::new())),
            ..self.life.world()
        };
        let engine = Engine::open(world, at, options()).unwrap();
        self.is_tidy(at);
        engine
    }

    /// Nothing lies there that nobody names.
    fn is_tidy(&self, at: &Path) {
        let storage = self.storage();
        let (_, state) = Manifest::open(storage.clone(), at, true).unwrap();
        let mut names = storage.list(at).unwrap();
        names.retain(|name| name.ends_with(".sst"));
        assert_eq!(names.len(), state.version().file_count(), "{names:?}");
        assert!(!storage.exists(&at.join("COPYING")).unwrap());
        assert!(!storage.exists(&at.join("CREATING")).unwrap());
    }

    fn stands(&self, at: &Path) -> bool {
        let stands = self.storage().exists(&at.join("CURRENT")).unwrap();
        assert!(stands || !self.done, "what was acknowledged is gone");
        stands
    }

    fn backups(&self) -> Backups {
        backups(&self.life)
    }
}

fn backups(life: &Life) -> Backups {
    let env = Env {
        storage: life.world().env.storage,
        ..Env::real()
    };
    Backups::new(env, Path::new("/backups"))
}

/// Does `work` on what `prepare` has left, and has `check` look at every state.
fn explore<T>(
    life: &mut Life,
    bug: Option<Bug>,
    prepare: impl FnOnce(&mut Life) -> T,
    work: impl FnOnce(&mut Life),
    check: impl Fn(&Left, &T),
) -> Result<(usize, BTreeSet<Site>), String> {
    let expected = prepare(life);
    let taken: Arc<Mutex<Vec<Snapshot>>> = Arc::default();
    let sink = taken.clone();
    let observer = Snapshot::observer(life, false, move |snapshot| {
        sink.lock().unwrap().push(snapshot);
    });
    life.observe(Some(observer));
    let planted = bug.map(plant);
    work(life);
    drop(planted);
    life.observe(None);
    let mut snapshots = std::mem::take(&mut *taken.lock().unwrap());
    let last = snapshots.len();
    snapshots.push(Snapshot::take(
        &life.pm,
        &life.fs,
        HERE,
        Expect::default(),
        false,
    ));
    let mut seen = BTreeSet::new();
    for (n, snapshot) in snapshots.iter().enumerate() {
        let done = n == last;
        for state in snapshot.states(BUDGET, None, n as u64) {
            if !seen.insert((done, snapshot.digest(&state))) {
                continue;
            }
            let life = snapshot.life(&state, life.options(), 1000 + n as u64);
            let left = Left { life, done };
            let checked = caught(|| {
                check(&left, &expected);
                Ok(())
            });
            checked.map_err(|why| format!("step {n} of {last}, {:?}: {why}", snapshot.point))?;
        }
    }
    let sites = snapshots.iter().map(|snapshot| snapshot.point.site);
    Ok((seen.len(), sites.collect()))
}

fn fresh() -> Life {
    Life::fresh(&options(), 5)
}

fn open_and_fill(life: &mut Life) -> Dump {
    life.open().unwrap();
    fill(life.engine());
    dump(life.engine())
}

fn copy() -> PathBuf {
    PathBuf::from("/copy")
}

type Explored = Result<(usize, BTreeSet<Site>), String>;

fn checkpoint(bug: Option<Bug>) -> Explored {
    let work = |life: &mut Life| {
        life.engine().checkpoint(&copy()).unwrap();
    };
    explore(&mut fresh(), bug, open_and_fill, work, |left, expected| {
        let engine = left.original();
        assert_eq!(dump(&engine), *expected);
        if !left.stands(&copy()) {
            engine.checkpoint(&copy()).unwrap();
        }
        assert_eq!(dump(&left.open(&copy())), *expected);
    })
}

#[test]
fn a_checkpoint_is_whole_or_none_after_every_crash() {
    let (states, sites) = checkpoint(None).unwrap();
    assert!(states > 50, "{states}");
    let of_copies = [
        "copy: noted",
        "env: name linked",
        "sst: table written",
        "manifest: switch durable",
    ];
    for site in of_copies {
        assert!(sites.contains(&Site(site)), "{site} was never reached");
    }
}

/// Its manifest names no memtable until its region is there.
#[test]
fn a_copy_is_opened_for_the_first_time_over_every_crash() {
    let prepare = |life: &mut Life| {
        let steps = life.pm.steps().clone();
        let world = World {
            sim: Some(SimPm::new(PM, steps)),
            ..life.world()
        };
        let engine = Engine::open(world, Path::new("/original"), options()).unwrap();
        fill(&engine);
        engine.checkpoint(dir()).unwrap();
        dump(&engine)
    };
    let work = |life: &mut Life| {
        life.open().unwrap();
        put(life.engine(), CfId::DEFAULT, b"new", b"of the copy");
    };
    let check = |left: &Left, expected: &Dump| {
        let engine = left.original();
        left.is_tidy(dir());
        let mut found = dump(&engine);
        let (pairs, metadata) = found.get_mut("default").unwrap();
        let new = pairs.pop_if(|(key, _)| key == b"new");
        assert_eq!(new.is_some(), metadata.as_deref() == Some(b"new"));
        assert!(new.is_some() || !left.done);
        let (before, of_before) = &expected["default"];
        assert_eq!(pairs, before);
        assert!(new.is_some() || metadata == of_before);
        assert_eq!(found["down"], expected["down"]);
        put(&engine, CfId::DEFAULT, b"on", b"it goes");
        drop(engine);
        let report = verify(&left.life.world(), dir(), &options()).unwrap();
        assert_eq!(report.faults, []);
    };
    let (states, _) = explore(&mut fresh(), None, prepare, work, check).unwrap();
    assert!(states > 100, "{states}");
}

fn backup(bug: Option<Bug>) -> Explored {
    let prepare = |life: &mut Life| {
        let first = open_and_fill(life);
        backups(life).create(life.engine()).unwrap();
        put(life.engine(), CfId::DEFAULT, b"second", b"backup");
        (first, dump(life.engine()))
    };
    let work = |life: &mut Life| {
        backups(life).create(life.engine()).unwrap();
    };
    explore(&mut fresh(), bug, prepare, work, |left, (first, second)| {
        let engine = left.original();
        assert_eq!(dump(&engine), *second);
        let listed = left.backups().list().unwrap();
        let ids: Vec<u64> = listed.iter().map(|info| info.id).collect();
        assert!(ids == [1, 2] || ids == [1] && !left.done, "{ids:?}");
        assert_eq!(left.backups().verify().unwrap().faults, []);
        let restored = |id: u64, expected: &Dump| {
            let at = PathBuf::from(format!("/restored{id}"));
            left.backups().restore(Some(id), &at).unwrap();
            assert_eq!(dump(&left.open(&at)), *expected);
        };
        restored(1, first);
        if ids.contains(&2) {
            restored(2, second);
        }
        let again = left.backups().create(&engine).unwrap();
        if !ids.contains(&2) {
            restored(again.id, second);
        }
        no_file_is_unlisted(left);
    })
}

fn no_file_is_unlisted(left: &Left) {
    let report = left.backups().verify().unwrap();
    assert_eq!(report.faults, []);
    let mut names = left.storage().list(Path::new("/backups")).unwrap();
    names.retain(|name| !name.starts_with("BACKUP-") && name != "LOCK");
    assert_eq!(names.len() as u64, report.records, "{names:?}");
}

#[test]
fn a_backup_is_whole_or_none_after_every_crash() {
    let (states, sites) = backup(None).unwrap();
    assert!(states > 50, "{states}");
    for site in [
        "copy: file written",
        "copy: files named",
        "copy: backup named",
    ] {
        assert!(sites.contains(&Site(site)), "{site} was never reached");
    }
}

fn restoration(bug: Option<Bug>) -> Explored {
    let prepare = |life: &mut Life| {
        let expected = open_and_fill(life);
        backups(life).create(life.engine()).unwrap();
        life.engine = None;
        expected
    };
    let work = |life: &mut Life| {
        backups(life).restore(None, &copy()).unwrap();
    };
    explore(&mut fresh(), bug, prepare, work, |left, expected| {
        if !left.stands(&copy()) {
            left.backups().restore(Some(1), &copy()).unwrap();
        }
        assert_eq!(dump(&left.open(&copy())), *expected);
        assert_eq!(left.backups().verify().unwrap().faults, []);
    })
}

#[test]
fn a_restored_database_is_whole_or_none_after_every_crash() {
    let (states, _) = restoration(None).unwrap();
    assert!(states > 60, "{states}");
}

#[test]
fn a_deletion_harms_no_other_backup_at_any_crash() {
    let prepare = |life: &mut Life| {
        open_and_fill(life);
        backups(life).create(life.engine()).unwrap();
        put(life.engine(), CfId::DEFAULT, b"second", b"backup");
        backups(life).create(life.engine()).unwrap();
        dump(life.engine())
    };
    let work = |life: &mut Life| backups(life).delete(1).unwrap();
    let check = |left: &Left, expected: &Dump| {
        let listed = left.backups().list().unwrap();
        let ids: Vec<u64> = listed.iter().map(|info| info.id).collect();
        assert!(ids == [2] || ids == [1, 2] && !left.done, "{ids:?}");
        assert_eq!(left.backups().verify().unwrap().faults, []);
        left.backups().restore(Some(2), &copy()).unwrap();
        assert_eq!(dump(&left.open(&copy())), *expected);
        let engine = left.original();
        left.backups().create(&engine).unwrap();
        no_file_is_unlisted(left);
    };
    let (states, sites) = explore(&mut fresh(), None, prepare, work, check).unwrap();
    assert!(states >= 3, "{states}");
    assert!(sites.contains(&Site("copy: withdrawn")));
}

/// Tables from outside, into a store of which a snapshot keeps the memtables that are flushed on the way.
fn ingestion(life: &mut Life, bug: Option<Bug>) -> Explored {
    let prepare = |life: &mut Life| {
        let before = open_and_fill(life);
        let mut after = before.clone();
        let pairs = &mut after.get_mut("default").unwrap().0;
        for (name, keys) in [("/one.sst", 0..3u8), ("/two.sst", 3..9)] {
            let env = life.world().env;
            let mut table = IngestWriter::create(&env, Path::new(name)).unwrap();
            for key in keys {
                pairs.retain(|(other, _)| *other != [key]);
                if key % 3 == 0 {
                    table.delete(&[key]).unwrap();
                } else {
                    table.put(&[key], b"ingested").unwrap();
                    pairs.push((vec![key], b"ingested".to_vec()));
                }
            }
            table.finish().unwrap();
        }
        pairs.sort();
        (before, after)
    };
    let work = |life: &mut Life| {
        let _held = life.engine().snapshot();
        // The memtable that the ingestion ends has no record then.
        life.engine().flush().unwrap();
        life.engine().cover_idle().unwrap();
        let tables = ["/two.sst", "/one.sst"];
        life.engine().ingest(CfId::DEFAULT, &tables).unwrap();
    };
    explore(life, bug, prepare, work, |left, (before, after)| {
        for round in 0..2 {
            let engine = left.original();
            left.is_tidy(dir());
            let found = dump(&engine);
            let done = left.done || round > 0;
            assert!(found == *after || found == *before && !done);
            engine.flush().unwrap();
            assert_eq!(dump(&engine), found);
            // Again, over what is there.
            let tables = ["/one.sst", "/two.sst"];
            engine.ingest(CfId::DEFAULT, &tables).unwrap();
            assert_eq!(dump(&engine), *after);
        }
        let report = verify(&left.life.world(), dir(), left.life.options()).unwrap();
        assert_eq!(report.faults, []);
    })
}

#[test]
fn what_is_ingested_is_there_or_not_after_every_crash() {
    let (states, _) = ingestion(&mut fresh(), None).unwrap();
    assert!(states > 50, "{states}");
}

#[test]
fn what_is_ingested_into_a_store_with_logs_is_there_or_not_after_every_crash() {
    let mut options = options();
    crate::logged::in_dram(&mut options);
    let (states, _) = ingestion(&mut Life::fresh(&options, 5), None).unwrap();
    assert!(states > 50, "{states}");
}

/// Each bug is noticed. (The names of a copy's files become durable with its manifest's.)
#[test]
fn what_copies_leave_out_is_noticed() {
    checkpoint(Some(Bug::ForgetTableSync)).expect_err("a table that is streamed");
    checkpoint(Some(Bug::CopyForgetsRanges)).expect_err("a range tombstone in memory");
    backup(Some(Bug::CopyForgetsNames)).expect_err("the names in a backup");
    backup(Some(Bug::CopyForgetsSync)).expect_err("a table in a backup");
    restoration(Some(Bug::CopyForgetsSync)).expect_err("a table that is restored");
    ingestion(&mut fresh(), Some(Bug::ForgetTableSync)).expect_err("a table that is ingested");
}
