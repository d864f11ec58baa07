//! Random histories of transactions that are prepared, beside plain writes, with openings, flushes and copies, against a
//! map and a set of claims: what is refused is refused exactly because it meets a claim.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use thermocline::{Backups, Db, ErrorKind, Isolation, Prepared, TxnOptions};
use thermocline_testkit::{Replay, Rng, seeds};

use crate::prepared::{open, options};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A prepared transaction of the model: what it writes, and what it relies on.
#[derive(Clone)]
struct Part {
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    reads: BTreeSet<Vec<u8>>,
}

#[derive(Clone, Default)]
struct Model {
    map: Map,
    prepared: BTreeMap<String, Part>,
}

impl Model {
    fn claims(&self, key: &[u8]) -> bool {
        let mut all = self.prepared.values();
        all.any(|part| part.writes.contains_key(key) || part.reads.contains(key))
    }

    fn commit(&mut self, name: &str) {
        let part = self.prepared.remove(name).unwrap();
        for (key, value) in part.writes {
            match value {
                Some(value) => drop(self.map.insert(key, value)),
                None => drop(self.map.remove(&key)),
            }
        }
    }

    fn agrees(&self, db: &Db) {
        let found: Map =
            db.iter()
                .map(|entry| entry.unwrap())
                .fold(Map::new(), |mut map, (key, value)| {
                    map.insert(key, value.to_vec());
                    map
                });
        assert_eq!(found, self.map);
        let names: Vec<_> = db.prepared().unwrap().into_iter().map(|p| p.name).collect();
        let expected: Vec<_> = self
            .prepared
            .keys()
            .map(|n| n.clone().into_bytes())
            .collect();
        assert_eq!(names, expected);
    }

    /// Of a copy each is resolved, and the copy is thrown away.
    fn resolved(mut self, db: &Db, rng: &mut Rng) {
        self.agrees(db);
        for name in self.prepared.clone().into_keys() {
            if rng.one_in(2) {
                db.commit_prepared(&name).unwrap();
                self.commit(&name);
            } else {
                db.roll_back_prepared(&name).unwrap();
                self.prepared.remove(&name);
            }
        }
        self.agrees(db);
    }
}

fn key(rng: &mut Rng) -> Vec<u8> {
    vec![b'a' + u8::try_from(rng.below(20)).unwrap()]
}

fn value(rng: &mut Rng, step: usize) -> Vec<u8> {
    let len = if rng.one_in(20) { 3000 } else { 40 };
    let mut value = format!("{step} ").into_bytes();
    value.resize(rng.below(len) + 6, b'.');
    value
}

/// Prepares one of random keys; it is refused exactly if it meets another one.
fn prepare(db: &Db, model: &mut Model, rng: &mut Rng, step: usize) -> Option<Prepared> {
    let options = match rng.below(2) {
        0 => TxnOptions::pessimistic(),
        _ => TxnOptions::optimistic(),
    };
    let options = options.isolation(Isolation::Serializable);
    let mut txn = db
        .transaction(options.lock_timeout(Duration::ZERO))
        .unwrap();
    let mut part = Part {
        writes: BTreeMap::new(),
        reads: BTreeSet::new(),
    };
    let mut meets = false;
    for _ in 0..1 + rng.below(4) {
        let key = key(rng);
        let mut others = model.prepared.values();
        let done = if rng.one_in(3) {
            meets |= others.any(|other| other.writes.contains_key(&key));
            part.reads.insert(key.clone());
            txn.get(&key).map(drop)
        } else {
            meets |= model.claims(&key);
            let value = (!rng.one_in(4)).then(|| value(rng, step));
            part.writes.insert(key.clone(), value.clone());
            match value {
                Some(value) => txn.put(&key, value),
                None => txn.delete(&key),
            }
        };
        if let Err(error) = done {
            assert!(meets && error.kind() == ErrorKind::Busy, "{error}");
            return None;
        }
    }
    let name = format!("txn {step}");
    match txn.prepare(&name) {
        Ok(prepared) => {
            assert!(!meets, "{name}");
            model.prepared.insert(name, part);
            Some(prepared)
        }
        Err(error) => {
            let kinds = [ErrorKind::Busy, ErrorKind::Conflict];
            assert!(meets && kinds.contains(&error.kind()), "{error}");
            None
        }
    }
}

fn write_plainly(db: &Db, model: &mut Model, rng: &mut Rng, step: usize) {
    let (key, value) = (key(rng), value(rng, step));
    match db.put(&key, &value) {
        Ok(()) => {
            assert!(!model.claims(&key), "step {step}");
            model.map.insert(key, value);
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert!(model.claims(&key), "step {step}");
        }
    }
}

fn is_sound(dir: &Path) {
    let report = Db::verify(dir, options()).unwrap();
    assert!(report.faults.is_empty(), "{:?}", report.faults);
}

/// A copy of the store has the same, and goes its own way.
fn copied(db: &Db, model: &Model, rng: &mut Rng, dir: &Path) {
    let place = dir.join("copy");
    if rng.one_in(2) {
        db.checkpoint(&place).unwrap();
    } else {
        let backups = Backups::new(dir.join("backups"));
        backups.create(db).unwrap();
        backups.restore(None, &place).unwrap();
    }
    let copy = Db::open(&place, options()).unwrap();
    model.clone().resolved(&copy, rng);
    copy.close().unwrap();
    is_sound(&place);
}

#[test]
fn histories_with_openings_copies_and_flushes_are_those_of_a_model() {
    for seed in seeds(1..=2) {
        let _replay = Replay::new(
            "-p thermocline --test transactions -- histories_with_openings",
            seed,
        );
        let mut rng = Rng::new(seed);
        let home = crate::home();
        let (mut db, mut model) = (open(&home), Model::default());
        let mut handles: Vec<Prepared> = Vec::new();
        for step in 0..500 {
            match rng.below(100) {
                0..45 => write_plainly(&db, &mut model, &mut rng, step),
                45..70 => handles.extend(prepare(&db, &mut model, &mut rng, step)),
                70..92 if !model.prepared.is_empty() => {
                    let names: Vec<String> = model.prepared.keys().cloned().collect();
                    let name = rng.pick(&names);
                    let commits = !rng.one_in(3);
                    let at = handles.iter().position(|h| h.name() == name.as_bytes());
                    match (at.map(|at| handles.remove(at)), commits) {
                        (Some(prepared), true) if rng.one_in(2) => prepared.commit().unwrap(),
                        (Some(prepared), false) if rng.one_in(2) => prepared.rollback().unwrap(),
                        (_, true) => db.commit_prepared(name).unwrap(),
                        (_, false) => db.roll_back_prepared(name).unwrap(),
                    }
                    match commits {
                        true => model.commit(name),
                        false => drop(model.prepared.remove(name)),
                    }
                }
                92..95 => db.flush().unwrap(),
                95..97 => {
                    handles.clear();
                    db.close().unwrap();
                    db = open(&home);
                    model.agrees(&db);
                }
                97 => {
                    let dir = crate::home();
                    copied(&db, &model, &mut rng, dir.path());
                }
                _ => model.agrees(&db),
            }
        }
        handles.clear();
        model.resolved(&db, &mut rng);
        assert_eq!(db.transactions().memory_bytes, 0);
        db.close().unwrap();
        is_sound(&home.path().join("db"));
    }
}
