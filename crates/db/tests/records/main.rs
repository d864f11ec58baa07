//! Tables of records, through the facade.
//!
//! [`ways`]: what tables do, step by step, and wrong use. [`histories`]: random transactions, schemas that change, crashes
//! and power cuts against a model, every index checked against the rows. [`building`]: indexes that are added beside
//! writers, cut short anywhere. [`kill`]: threads of a process that is killed.

mod building;
mod histories;
mod kill;
mod model;
mod ways;

use thermocline::records::{Schema, Table, Type};
use thermocline::{Db, Options, Transaction, TxnOptions};

/// A store, and the folder that it is in.
struct Home {
    db: Db,
    _home: tempfile::TempDir,
}

impl std::ops::Deref for Home {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}

/// A folder, in memory if there is a file system there: what is durable is not asked here.
fn home() -> tempfile::TempDir {
    let shm = std::path::Path::new("/dev/shm");
    let home = match shm.is_dir() {
        true => tempfile::tempdir_in(shm),
        false => tempfile::tempdir(),
    };
    home.unwrap()
}

fn options() -> Options {
    Options {
        pm: 64 << 20,
        ..Options::default()
    }
}

fn open() -> Home {
    let home = home();
    let db = Db::open(home.path().join("db"), options()).unwrap();
    Home { db, _home: home }
}

fn begin(db: &Db) -> Transaction {
    db.transaction(TxnOptions::pessimistic()).unwrap()
}

/// Parts with an id, a name, a shelf that may be missing, and a count.
fn parts() -> Schema {
    Schema::new("parts")
        .column("id", Type::U64)
        .column("name", Type::Text)
        .nullable("shelf", Type::I64)
        .column("count", Type::U64)
        .primary_key(["id"])
}

/// Whether rows and indexes agree.
#[track_caller]
fn check(db: &Db, table: &Table) {
    let report = table.verify(&db.snapshot()).unwrap();
    assert!(report.faults.is_empty(), "{:#?}", report.faults);
}
