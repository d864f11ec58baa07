//! Transactions, through the facade.
//!
//! [`anomalies`]: the published matrix, two or three transactions step by step. [`model`]: one transaction after the
//! other against a map. [`locks`]: waiting, deadlocks, expiration, limits. [`wrong`]: wrong use. [`random`]: many threads,
//! judged by two oracles. [`ways`]: every way into the store. [`next`]: what
//! one leaves for the next. [`prepared`]: two-phase commit, and
//! [`prepared_model`] histories of it.

mod anomalies;
mod limits;
mod locks;
mod model;
mod next;
mod prepared;
mod prepared_model;
mod random;
mod ways;
mod wrong;

use std::time::Duration;

use thermocline::{Db, Isolation, Options, Transaction, TxnOptions};

/// The allocator of these tests, which make and drop a great deal (decision 179).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A store, and the folder that it is in.
struct Store {
    db: Db,
    _home: tempfile::TempDir,
}

impl std::ops::Deref for Store {
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

fn open() -> Store {
    let home = home();
    let options = Options {
        pm: 64 << 20,
        ..Options::default()
    };
    let db = Db::open(home.path().join("db"), options).unwrap();
    Store { db, _home: home }
}

/// The four ways to run a transaction. Those that lock wait for nothing.
fn all_options() -> Vec<TxnOptions> {
    let kinds = [TxnOptions::pessimistic(), TxnOptions::optimistic()];
    let levels = [Isolation::Snapshot, Isolation::Serializable];
    let all = kinds
        .iter()
        .flat_map(|kind| levels.map(|level| kind.isolation(level)));
    all.map(|options| options.lock_timeout(Duration::ZERO))
        .collect()
}

fn value(txn: &Transaction, key: &str) -> Option<String> {
    text(txn.get(key).unwrap())
}

fn text(value: Option<thermocline::Value>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}
