//! Wrong input: each kind gives the right error with the thing and the remedy named, loses nothing,
//! changes nothing on disk, and never panics.
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files from outside, and damage them"
)]

mod bytes;
mod destroyed;
mod faults;
mod folders;
mod limits;
mod links;
mod locks;
mod manifests;
mod neighbours;
mod permissions;
mod readonly;
mod regions;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use thermocline::{CfOptions, Db, Durability, Error, ErrorKind, Options};

/// A temporary folder where syncing costs nothing, if there is one.
fn home() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| file_home())
}

/// A temporary folder on an ordinary file system.
fn file_home() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn options() -> Options {
    let mut options = Options {
        pm: 64 << 20,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 64 << 10;
    // Nothing is written but what the test writes.
    options.memtable.idle_ms = 0;
    options
}

fn with_pm_path(path: &Path) -> Options {
    Options {
        pm_path: Some(path.to_path_buf()),
        ..options()
    }
}

/// The error, which must be of this kind and say all of this.
#[track_caller]
fn refused<T>(result: thermocline::Result<T>, kind: ErrorKind, says: &[&str]) -> Error {
    let error = match result {
        Ok(_) => panic!("not refused; expected {kind:?} with {says:?}"),
        Err(error) => error,
    };
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for part in says {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
    error
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Everything about a folder that a write would change.
type Snapshot = BTreeMap<PathBuf, (SystemTime, u32, Option<Vec<u8>>)>;

fn snapshot(path: &Path) -> Snapshot {
    use std::os::unix::fs::PermissionsExt;
    let mut all = Snapshot::new();
    let mut todo = vec![path.to_path_buf()];
    while let Some(path) = todo.pop() {
        let metadata = std::fs::metadata(&path).unwrap();
        let bytes = metadata.is_file().then(|| std::fs::read(&path).unwrap());
        if metadata.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
        let mode = metadata.permissions().mode();
        all.insert(path, (metadata.modified().unwrap(), mode, bytes));
    }
    all
}

#[track_caller]
fn assert_unchanged(path: &Path, before: &Snapshot) {
    let now = snapshot(path);
    let names = |s: &Snapshot| s.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&now), names(before), "files came or went");
    for (path, then) in before {
        let now = &now[path];
        assert!(now.2 == then.2, "the bytes of {} changed", path.display());
        assert_eq!((now.0, now.1), (then.0, then.1), "{}", path.display());
    }
}

/// As [`assert_unchanged`], but the lock may have been taken and names may have been renewed.
#[track_caller]
fn assert_same(path: &Path, before: &Snapshot) {
    let contents = |snapshot: Snapshot| -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let all = snapshot
            .into_iter()
            .map(|(path, (_, _, bytes))| (path, bytes));
        all.filter(|(path, _)| !path.ends_with("LOCK")).collect()
    };
    assert!(
        contents(snapshot(path)) == contents(before.clone()),
        "{}",
        path.display()
    );
}

/// What [`fill`] writes.
fn entries() -> BTreeMap<Vec<u8>, Vec<u8>> {
    (0..300u32)
        .map(|n| {
            let key = format!("key {n:04}").into_bytes();
            (key, n.to_be_bytes().repeat(1 + (n as usize * 7) % 200))
        })
        .collect()
}

/// Fills a new database over several memtables, with a second family.
fn fill(db: &Db) {
    let other = db.column_family("other", CfOptions::default()).unwrap();
    for (key, value) in entries() {
        db.put(&key, b"an older value").unwrap();
        let mut batch = db.batch();
        batch.put(&key, &value).put_cf(&other, &key, b"beside");
        batch.commit(Durability::Immediate).unwrap();
    }
    assert!(db.metrics().memtables.len() > 1);
}

#[track_caller]
fn assert_filled(db: &Db) {
    let found: BTreeMap<_, _> = db
        .iter()
        .map(|entry| entry.map(|(key, value)| (key, value.into_vec())).unwrap())
        .collect();
    assert!(found == entries(), "{} entries", found.len());
    let other = db.find_column_family("other").unwrap();
    assert_eq!(other.iter().count(), entries().len());
}

/// A closed database with [`entries`].
fn filled(dir: &Path, options: Options) {
    let db = Db::open(dir, options).unwrap();
    fill(&db);
    db.close().unwrap();
}

/// Copies files as they are now: of an open database, what a kill would leave.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
