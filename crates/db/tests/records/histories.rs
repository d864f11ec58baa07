//! Random transactions on a table whose schema changes, in a store that is closed, killed and loses its power; after each
//! step everything is compared with a model.
//!
//! The machine is simulated. A crash may take any state that the hardware could have: of persistent memory what was not
//! fenced, of files what was not synced. Each transaction is durable when it has been committed. So the model is what was
//! committed. That a transaction which is cut off in the middle leaves all or nothing is the store's promise, and
//! `engine/tests/crash` is where it is explored.

use thermocline::records::{Row, Table};
use thermocline::{Db, Error, Isolation, Options, Transaction, TxnOptions};
use thermocline_base::Steps;
use thermocline_base::planted::{Bug, plant};
use thermocline_engine::World;
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;
use thermocline_testkit::{Replay, Rng, explore, seeds};

use super::model::{INDEXES, Model, row, with_index};

const SIM_PM_BYTES: u64 = 8 << 20;
const NAME: &str = "--test records";

/// A machine that can lose its power.
struct Machine {
    fs: SimFs,
    pm: SimPm,
    env: Env,
}

impl Machine {
    fn of(fs: SimFs, pm: SimPm, seed: u64) -> Machine {
        let env = Env::simulated(fs.clone(), seed);
        Machine { fs, pm, env }
    }

    fn new(seed: u64) -> Machine {
        let fs = SimFs::new(Steps::new());
        let pm = SimPm::new(SIM_PM_BYTES, fs.steps().clone());
        Machine::of(fs, pm, seed)
    }

    fn open(&self) -> Db {
        let world = World {
            env: self.env.clone(),
            sim: Some(self.pm.clone()),
            shadow: None,
            background: false,
        };
        let mut options = Options {
            pm: SIM_PM_BYTES,
            ..Options::default()
        };
        options.pm_region.part_bytes_first = 256 << 10;
        options.memtable.bytes_max = 64 << 10;
        let db = Db::builder("/db").options(options);
        db.open_in_world(world).unwrap()
    }

    fn crashed(&self, rng: &mut Rng) -> Machine {
        let (steps, seed) = (Steps::new(), rng.next_u64());
        if rng.one_in(3) {
            return Machine::of(
                self.fs.image_killed(steps.clone()),
                self.pm.fork(steps),
                seed,
            );
        }
        let fs = self.fs.image_random(seed, steps.clone());
        let image = self.pm.crash();
        let pm = image.build(SIM_PM_BYTES, steps, |_, word| {
            rng.below(word.candidates.len())
        });
        Machine::of(fs, pm, seed)
    }
}

fn begin(db: &Db, rng: &mut Rng) -> Transaction {
    let kind = *rng.pick(&[TxnOptions::pessimistic(), TxnOptions::optimistic()]);
    let level = *rng.pick(&[Isolation::Snapshot, Isolation::Serializable]);
    db.transaction(kind.isolation(level)).unwrap()
}

/// A row with a key that is there, mostly.
fn aimed(rng: &mut Rng, model: &Model) -> Row {
    let mut new = row(rng, &model.schema);
    let there: Vec<&Row> = model.rows.values().collect();
    if !there.is_empty() && !rng.one_in(3) {
        let old = *rng.pick(&there);
        for name in &model.schema.primary_key {
            let column = model.schema.position(name).unwrap();
            new[column] = old[column].clone();
        }
    }
    new
}

/// One change of a row, in both.
fn change(rng: &mut Rng, table: &Table, txn: &mut Transaction, model: &mut Model) {
    let new = aimed(rng, model);
    let key = model.key(&new);
    let was_there = model.rows.contains_key(&key);
    match rng.below(5) {
        0 | 1 => {
            let answer = table.insert(txn, &new);
            match !was_there && model.put(new) {
                true => answer.unwrap(),
                false => assert!(matches!(answer, Err(Error::Duplicate(_))), "{answer:?}"),
            }
        }
        2 => {
            let answer = table.put(txn, &new);
            match model.put(new) {
                true => assert_eq!(answer.unwrap(), was_there),
                false => assert!(matches!(answer, Err(Error::Duplicate(_))), "{answer:?}"),
            }
        }
        3 => {
            let mut changed = model.rows.get(&key).cloned();
            let column = rng.below(new.len());
            let is_key = model
                .schema
                .primary_key
                .contains(&model.schema.columns[column].name);
            if let Some(row) = changed.as_mut().filter(|_| !is_key) {
                row[column] = new[column].clone();
            }
            let answer = table.update(txn, &key.0, |row| {
                if !is_key {
                    row[column] = new[column].clone();
                }
            });
            match changed.is_none_or(|row| model.put(row)) {
                true => assert_eq!(answer.unwrap(), was_there),
                false => assert!(matches!(answer, Err(Error::Duplicate(_))), "{answer:?}"),
            }
        }
        _ => {
            model.rows.remove(&key);
            assert_eq!(table.delete(txn, &key.0).unwrap(), was_there);
        }
    }
}

fn transaction(rng: &mut Rng, db: &Db, table: &Table, model: &mut Model) {
    let mut txn = begin(db, rng);
    let before = model.clone();
    for _ in 0..rng.below(8) {
        change(rng, table, &mut txn, model);
        if rng.one_in(8) {
            let (savepoint, then) = (txn.savepoint(), model.clone());
            change(rng, table, &mut txn, model);
            txn.rollback_to(savepoint).unwrap();
            *model = then;
        }
    }
    if rng.one_in(6) {
        model.compare(table, &txn, rng);
    }
    match rng.one_in(5) {
        true => *model = before,
        false => txn.commit().unwrap(),
    }
}

/// Adds an index or a column, or drops an index.
fn evolve(rng: &mut Rng, db: &Db, model: &mut Model) {
    let number = rng.below(INDEXES + 1);
    if number == INDEXES {
        let name = format!("extra {}", model.schema.columns.len());
        let schema = model.schema.clone();
        model.schema = schema.nullable(&name, thermocline::records::Type::Text);
        for row in model.rows.values_mut() {
            row.push(thermocline::records::Field::Null);
        }
        return;
    }
    let before = model.schema.clone();
    let added = with_index(before.clone(), number);
    let name = added.indexes.last().unwrap().name.clone();
    if before.indexes.iter().any(|index| index.name == name) {
        model.schema.indexes.retain(|index| index.name != name);
        assert!(Table::drop_index(db, "t", &name).unwrap());
        return;
    }
    model.schema = added;
    if !model.is_unique() {
        let answer = Table::open(db, model.schema.clone());
        assert!(matches!(answer, Err(Error::Duplicate(_))), "{answer:?}");
        model.schema = before;
    }
}

fn history(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut machine = Machine::new(seed);
    let mut model = Model::new();
    let mut db = machine.open();
    let mut table = Table::open(&db, model.schema.clone()).unwrap();
    for _ in 0..60 {
        match rng.below(12) {
            0 => {
                db.close().unwrap();
                db = machine.open();
                table = Table::open(&db, model.schema.clone()).unwrap();
            }
            1 => {
                machine = machine.crashed(&mut rng);
                db = machine.open();
                table = Table::open(&db, model.schema.clone()).unwrap();
            }
            2 => {
                evolve(&mut rng, &db, &mut model);
                table = Table::open(&db, model.schema.clone()).unwrap();
            }
            3 => db.flush().unwrap(),
            _ => transaction(&mut rng, &db, &table, &mut model),
        }
        if rng.one_in(4) {
            model.compare(&table, &db.snapshot(), &mut rng);
        }
    }
    model.compare(&table, &db.snapshot(), &mut rng);
}

#[test]
fn tables_are_what_a_model_says() {
    let count = explore::explored(12, 200);
    for seed in seeds(0..count) {
        let _replay = Replay::new(NAME, seed);
        history(seed);
    }
}

#[test]
fn histories_notice_what_is_planted() {
    for bug in [
        Bug::RowForgetsEntry,
        Bug::UniqueUnasked,
        Bug::ReadyBeforeBuilt,
    ] {
        let noticed = (0..20).any(|seed| {
            let planted = || {
                let _bug = plant(bug);
                history(seed);
            };
            std::panic::catch_unwind(planted).is_err()
        });
        assert!(noticed, "{bug:?}");
    }
}
