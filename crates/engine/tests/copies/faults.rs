//! A fault at every call of files, once or for ever: what is made is whole or is not there, what was there
//! is unharmed, and the next attempt succeeds.

use std::sync::Arc;

use thermocline_base::{CfId, ErrorKind, Result, Steps};
use thermocline_engine::{Backups, Engine, Family, destroy};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::{Storage, sim::SimFs};
use thermocline_testkit::Rng;
use thermocline_testkit::explore::{one_in, side_by_side};

use crate::backup::backups;
use crate::ingest::{ALL, writer};
use crate::machine::{Dump, Place, dump, options, path, put, write_some};

const FAULTS: &[(Fault, Option<Op>)] = &[
    (Fault::Eio, None),
    (Fault::NoSpace, None),
    (Fault::CrossesDevices, None),
    (Fault::SyncKept, None),
    (Fault::SyncDropped, None),
    (Fault::ShortWrite(7), None),
    (Fault::ShortRead(5), Some(Op::Read)),
];

/// A store with something in tables and something in persistent memory.
struct Bench {
    fs: SimFs,
    place: Place,
    faulty: FaultStorage,
    storage: Arc<dyn Storage>,
    engine: Engine,
}

impl Bench {
    fn new() -> Bench {
        let fs = SimFs::new(Steps::new());
        let faulty = FaultStorage::over_sim(fs.clone());
        let storage: Arc<dyn Storage> = Arc::new(faulty.clone());
        let place = Place::new(&storage, "/db");
        let engine = place.open();
        write_some(&engine, &mut Rng::new(1), 60);
        engine.flush().unwrap();
        write_some(&engine, &mut Rng::new(2), 20);
        Bench {
            fs,
            place,
            faulty,
            storage,
            engine,
        }
    }

    /// Does `work` with a fault, which may make it fail, and then goes on without.
    fn run(
        plan: Option<Plan>,
        prepare: &dyn Fn(&Bench),
        work: &dyn Fn(&Bench) -> Result<()>,
        check: &dyn Fn(&Bench, Option<Plan>, bool),
    ) -> Vec<u64> {
        let bench = Bench::new();
        prepare(&bench);
        let calls = |(fault, op): &(Fault, Option<Op>)| bench.faulty.calls_for(*fault, *op);
        let before: Vec<u64> = FAULTS.iter().map(calls).collect();
        if let Some(plan) = plan {
            let which = FAULTS.iter().position(|f| *f == (plan.fault, plan.op));
            let at = plan.at + before[which.unwrap()];
            bench.faulty.arm(Plan { at, ..plan });
        }
        let done = work(&bench);
        let fired = bench.faulty.fired();
        bench.faulty.disarm();
        let after = FAULTS
            .iter()
            .map(calls)
            .zip(before)
            .map(|(a, b)| a - b)
            .collect();
        if let Err(error) = &done {
            assert!(fired > 0, "{plan:?}: {error}");
        }
        check(&bench, plan, done.is_ok());
        after
    }

    /// For every fault, or in a plain run for a share of them. Returns how many this stands for.
    fn every(
        prepare: &(dyn Fn(&Bench) + Sync),
        work: &(dyn Fn(&Bench) -> Result<()> + Sync),
        check: &(dyn Fn(&Bench, Option<Plan>, bool) + Sync),
    ) -> u64 {
        let one_in = one_in(24);
        let mut plans: Vec<Plan> = Vec::new();
        for (&(fault, op), calls) in FAULTS.iter().zip(Bench::run(None, prepare, work, check)) {
            for at in (0..calls).step_by(usize::try_from(one_in).unwrap()) {
                plans.extend([Repeat::Once, Repeat::Forever].map(|repeat| Plan {
                    fault,
                    op,
                    at,
                    repeat,
                }));
            }
        }
        // These tests are the longest of the program, and the last of them would be alone.
        let runs = side_by_side(&plans, |&plan| {
            Bench::run(Some(plan), prepare, work, check);
        });
        runs.len() as u64 * one_in
    }

    /// Whether a database stands in `dir`. After a failure it may only where nothing could be undone
    /// any more.
    fn stands(&self, dir: &str, plan: Option<Plan>, done: bool) -> bool {
        let stands = self.storage.exists(&path(dir).join("CURRENT")).unwrap();
        let for_ever = plan.is_some_and(|plan| plan.repeat == Repeat::Forever);
        assert!(done || for_ever || !stands, "{plan:?}");
        assert!(stands || !done, "{plan:?}");
        stands
    }

    /// The store as a killed process leaves it.
    fn killed(&self) -> Place {
        Place {
            storage: Arc::new(self.fs.image_killed(Steps::new())),
            pm: self.place.pm.fork(Steps::new()),
            dir: self.place.dir.clone(),
        }
    }

    fn holds(&self, dir: &str, expected: &Dump) {
        let place = Place::new(&self.storage, dir);
        assert_eq!(dump(&place.open()), *expected);
        place.verify();
    }
}

#[test]
fn of_a_checkpoint_every_call_may_fail() {
    let checkpoint = |bench: &Bench| bench.engine.checkpoint(path("/copy")).map(drop);
    let runs = Bench::every(&|_| (), &checkpoint, &|bench, plan, done| {
        if !bench.stands("/copy", plan, done) {
            bench.engine.checkpoint(path("/copy")).unwrap();
        }
        bench.holds("/copy", &dump(&bench.engine));
        put(&bench.engine, CfId::DEFAULT, b"on", b"we go");
    });
    assert!(runs > 100, "{runs}");
}

fn stored(bench: &Bench) -> Backups {
    backups(&bench.storage, "/b")
}

#[test]
fn of_a_backup_every_call_may_fail() {
    let prepare = |bench: &Bench| {
        stored(bench).create(&bench.engine).unwrap();
        write_some(&bench.engine, &mut Rng::new(3), 30);
    };
    let create = |bench: &Bench| stored(bench).create(&bench.engine).map(drop);
    let runs = Bench::every(&prepare, &create, &|bench, plan, done| {
        let listed = stored(bench).list().unwrap();
        let ids: Vec<u64> = listed.iter().map(|info| info.id).collect();
        let for_ever = plan.is_some_and(|plan| plan.repeat == Repeat::Forever);
        assert!(ids == [1, 2] || ids == [1] && !done, "{plan:?}: {ids:?}");
        assert!(ids == [1] || done || for_ever, "{plan:?}: {ids:?}");
        let report = stored(bench).verify().unwrap();
        assert_eq!(report.faults, [], "{plan:?}");
        // A flush that failed to sync has poisoned the store.
        if let Ok(info) = stored(bench).create(&bench.engine) {
            stored(bench)
                .restore(Some(info.id), path("/restored"))
                .unwrap();
            bench.holds("/restored", &dump(&bench.engine));
        }
        stored(bench).restore(Some(1), path("/first")).unwrap();
    });
    assert!(runs > 100, "{runs}");
}

#[test]
fn of_a_restoration_and_a_deletion_every_call_may_fail() {
    let prepare = |bench: &Bench| {
        stored(bench).create(&bench.engine).unwrap();
        write_some(&bench.engine, &mut Rng::new(3), 30);
        stored(bench).create(&bench.engine).unwrap();
    };
    let restore = |bench: &Bench| stored(bench).restore(None, path("/restored")).map(drop);
    let runs = Bench::every(&prepare, &restore, &|bench, plan, done| {
        if !bench.stands("/restored", plan, done) {
            restore(bench).unwrap();
        }
        bench.holds("/restored", &dump(&bench.engine));
    });
    assert!(runs > 50, "{runs}");
    let delete = |bench: &Bench| stored(bench).delete(1);
    Bench::every(&prepare, &delete, &|bench, plan, done| {
        let ids: Vec<u64> = stored(bench).list().unwrap().iter().map(|i| i.id).collect();
        assert!(ids == [2] || ids == [1, 2] && !done, "{plan:?}: {ids:?}");
        if ids == [1, 2] {
            stored(bench).delete(1).unwrap();
        }
        // What only the deleted one had goes with the next deletion or backup at the latest.
        stored(bench).create(&bench.engine).unwrap();
        stored(bench).delete(3).unwrap();
        let report = stored(bench).verify().unwrap();
        assert_eq!(report.faults, [], "{plan:?}");
        let names = bench.storage.list(path("/b")).unwrap();
        let is_file = |name: &&String| name.ends_with(".sst") || name.ends_with(".blob");
        let files = names.iter().filter(is_file).count();
        assert_eq!(files as u64, report.records, "{plan:?}: {names:?}");
    });
}

#[test]
fn of_an_ingestion_every_call_may_fail() {
    let prepare = |bench: &Bench| {
        for (name, keys) in [("/a.sst", [b"a", b"b"]), ("/b.sst", [b"k", b"l"])] {
            let mut table = writer(&bench.storage, name);
            keys.iter()
                .for_each(|key| table.put(*key, b"ingested").unwrap());
            table.finish().unwrap();
        }
    };
    let ingest = |bench: &Bench| {
        let done = bench.engine.ingest(CfId::DEFAULT, &["/b.sst", "/a.sst"]);
        done.map(|ingested| assert_eq!(ingested.entries, 4))
    };
    let runs = Bench::every(&prepare, &ingest, &|bench, plan, done| {
        let found = |engine: &Engine| {
            let all = dump(engine).remove("default").unwrap().0;
            all.iter().filter(|(_, value)| value == b"ingested").count()
        };
        // Reads go on, were it poisoned.
        let there = found(&bench.engine);
        assert!(
            there == 4 && done || there == 0 && !done,
            "{plan:?}: {there}"
        );
        let killed = bench.killed();
        let engine = killed.open();
        let there = found(&engine);
        assert!(there == 4 || there == 0 && !done, "{plan:?}: {there}");
        engine.ingest(CfId::DEFAULT, &["/b.sst", "/a.sst"]).unwrap();
        assert_eq!(found(&engine), 4);
        write_some(&engine, &mut Rng::new(3), 10);
        let expected = dump(&engine);
        drop(engine);
        killed.verify();
        assert_eq!(dump(&killed.open()), expected);
    });
    assert!(runs > 100, "{runs}");
}

#[test]
fn of_an_export_every_call_may_fail() {
    let export = |bench: &Bench| {
        let all = bench.engine.export(Family::DEFAULT, ALL, path("/t.sst"));
        all.map(|exported| assert!(exported.entries > 10))
    };
    let runs = Bench::every(&|_| (), &export, &|bench, plan, done| {
        let there = bench.storage.exists(path("/t.sst")).unwrap();
        let for_ever = plan.is_some_and(|plan| plan.repeat == Repeat::Forever);
        assert!(there || !done);
        assert!(!there || done || for_ever, "{plan:?}");
        if !there {
            if for_ever && bench.storage.exists(path("/t.sst.part")).unwrap() {
                bench.storage.remove(path("/t.sst.part")).unwrap();
            }
            export(bench).unwrap();
        }
        let place = Place::new(&bench.storage, "/other");
        let other = place.open();
        other.ingest(CfId::DEFAULT, &["/t.sst"]).unwrap();
        assert_eq!(dump(&other)["default"].0, dump(&bench.engine)["default"].0);
    });
    assert!(runs > 20, "{runs}");
}

/// Whatever fails, and also if the power goes then, there is the database, or what another call removes, or nothing.
#[test]
fn of_a_destruction_every_call_may_fail() {
    let there = |place: &Place, name: &str| place.storage.exists(&place.dir.join(name)).unwrap();
    let is_left = |place: &Place| there(place, "CURRENT") || there(place, "DESTROYING");
    let try_destroy = |place: &Place| destroy(&place.dir, &place.world(), &options());
    let is_gone = |place: &Place| {
        if is_left(place) && !there(place, "CURRENT") {
            let refused = place.try_open(&options()).map(drop).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
            assert!(refused.to_string().contains("destroy"), "{refused}");
        }
        if is_left(place) {
            try_destroy(place).unwrap();
        }
        assert_eq!(place.storage.list(&place.dir).unwrap(), ["LOCK"]);
        let again = try_destroy(place).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::InvalidArgument, "{again}");
    };
    let close = |bench: &Bench| bench.engine.close().unwrap();
    let held = dump(&Bench::new().engine);
    let work = |bench: &Bench| try_destroy(&bench.place);
    let runs = Bench::every(&close, &work, &|bench, plan, done| {
        let fs = &bench.fs;
        let crashed = [fs.image_none(Steps::new()), fs.image_all(Steps::new())];
        let random = (0..4).map(|seed| fs.image_random(seed, Steps::new()));
        for image in crashed.into_iter().chain(random) {
            let place = Place {
                storage: Arc::new(image),
                ..bench.killed()
            };
            assert!(
                !is_left(&place) || !done,
                "{plan:?}: a crash brings it back"
            );
            // Until it is doomed, durably, nothing of it goes.
            if there(&place, "CURRENT") {
                let engine = place.open();
                assert_eq!(dump(&engine), held, "{plan:?}");
                engine.close().unwrap();
            }
            is_gone(&place);
        }
        is_gone(&bench.place);
    });
    assert!(runs > 60, "{runs}");
}
