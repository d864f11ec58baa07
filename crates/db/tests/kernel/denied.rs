//! A kernel that refuses `io_uring`, as that of many containers does: reads are made by threads, and a store has what it
//! has elsewhere.
//!
//! The child is started by a small program (`shim/denied.c`), which has the kernel refuse these calls to what it becomes.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use thermocline::options::{AsyncIo, Codec, Shape};
use thermocline::{Db, Durability, Options, Value};
use thermocline_base::checksum::hash64;
use thermocline_testkit::{Rng, block_on};

use crate::device::compile;

/// Where the child finds a folder. It leaves a word there of what came of the store.
const HOME: &str = "THERMOCLINE_DENIED";

/// What the small program ends with where the kernel takes no filter.
const NO_FILTER: i32 = 77;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What lies in tables on the device, and nothing of it in memory.
fn options() -> Options {
    let mut options = Options {
        pm: 8 << 20,
        ..Options::default()
    };
    options.level0.shape = Some(Shape::Immutables);
    options.read.cache_bytes = 1;
    // Jobs read ahead of tables that are larger than what they read at a time.
    options.compaction.table_bytes = 1 << 20;
    options.compaction.io_depth = 8;
    options.compaction.compression = Codec::None;
    options.compaction.compression_last = Codec::None;
    options
}

fn load(db: &Db) -> Model {
    let (mut rng, mut model) = (Rng::new(7), Model::new());
    for _ in 0..5 {
        let mut batch = db.batch();
        for _ in 0..500 {
            let key = format!("key {:04}", rng.below(1500)).into_bytes();
            if rng.one_in(8) {
                batch.delete(&key);
                model.remove(&key);
                continue;
            }
            let value = vec![rng.next_u64().to_le_bytes()[0]; 100 + rng.below(900)];
            batch.put(&key, &value);
            model.insert(key, value);
        }
        batch.commit(Durability::Buffered).unwrap();
        db.flush().unwrap();
        db.drain().unwrap();
    }
    db.compact::<&[u8]>(..).unwrap();
    model
}

/// Reads it in every way; what there is, as a number.
fn digest(db: &Db, model: &Model) -> u64 {
    let expected: Vec<(Vec<u8>, Vec<u8>)> = model.clone().into_iter().collect();
    let scanned = db.iter().map(|entry| {
        let (key, value) = entry.unwrap();
        (key, value.into_vec())
    });
    assert!(scanned.collect::<Vec<_>>() == expected);
    let awaited = block_on(async {
        let (mut all, mut scan) = (Vec::new(), db.iter().into_async());
        while let Some(entry) = scan.next().await {
            let (key, value) = entry.unwrap();
            all.push((key, value.into_vec()));
        }
        all
    });
    assert!(awaited == expected);
    let reads: Vec<_> = model.keys().map(|key| db.get_async(key)).collect();
    for ((key, value), read) in model.iter().zip(reads) {
        assert_eq!(block_on(read).unwrap().as_deref(), Some(&**value));
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&**value));
    }
    assert_eq!(block_on(db.get_async("none")).unwrap(), None);
    let some = || model.keys().step_by(7);
    let values: Vec<_> = some().map(|key| Some(model[key].clone())).collect();
    let copied = |read: Vec<Option<Value>>| -> Vec<Option<Vec<u8>>> {
        let values = read.into_iter();
        values.map(|value| value.map(Value::into_vec)).collect()
    };
    assert!(copied(db.multi_get(some()).unwrap()) == values);
    assert!(copied(block_on(db.multi_get_async(some())).unwrap()) == values);
    let bytes = awaited.iter().flat_map(|(key, value)| {
        let lens = [key.len(), value.len()].map(|len| (len as u64).to_le_bytes());
        [&lens.concat()[..], &key[..], &value[..]].concat()
    });
    hash64(&bytes.collect::<Vec<u8>>())
}

/// Not a test of its own: uses a store, and says what it has and how it was read.
#[test]
fn uses_a_store() {
    let Some(home) = std::env::var_os(HOME).map(PathBuf::from) else {
        return;
    };
    let db = Db::open(home.join("db"), options()).unwrap();
    let model = load(&db);
    let digest = digest(&db, &model);
    let runtime = db.metrics().runtime.expect("it is open");
    let ways = [runtime.async_reads.way, runtime.job_io.way];
    let [reads, jobs] = ways.map(|way| way.map_or("none", AsyncIo::name));
    let refused = runtime.async_reads.refused.map_or(0, |of| of.errno);
    db.close().unwrap();
    let said = format!("{digest:016x} {reads} {jobs} {refused}");
    std::fs::write(home.join("said"), said).unwrap();
}

/// Has a child use a store, started by this program if there is one: what it has, how futures and jobs have read, and what was refused. `None`
/// if the kernel takes no filter.
fn child(launcher: Option<&Path>, home: &Path) -> Option<[String; 4]> {
    std::fs::create_dir(home).unwrap();
    let own = std::env::current_exe().unwrap();
    let mut command = match launcher {
        Some(launcher) => {
            let mut command = Command::new(launcher);
            command.arg(own);
            command
        }
        None => Command::new(own),
    };
    let done = command
        .args(["--exact", "denied::uses_a_store", "--nocapture"])
        .args(["--test-threads", "1"])
        .env(HOME, home)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stderr);
    if launcher.is_some() && done.status.code() == Some(NO_FILTER) {
        let _ = writeln!(std::io::stderr(), "skipped: {text}");
        return None;
    }
    assert!(done.status.success(), "{text}");
    let said = std::fs::read_to_string(home.join("said")).unwrap();
    let words: Vec<String> = said.split(' ').map(String::from).collect();
    Some(words.try_into().expect("four words"))
}

#[test]
fn a_kernel_without_io_uring_makes_no_difference_to_what_is_read() {
    // On a disk, where reads are direct.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source = [("denied.c", include_str!("shim/denied.c"))];
    compile(home.path(), &source, &["-o", "denied", "denied.c"]);
    let launcher = home.path().join("denied");
    let Some(denied) = child(Some(&launcher), &home.path().join("refused")) else {
        return;
    };
    let plain = child(None, &home.path().join("plain")).expect("it is not filtered");
    assert_eq!(denied[0], plain[0], "{denied:?}, {plain:?}");
    let [_, reads, jobs, refused] = &denied;
    // EPERM is what the filter answers.
    assert_eq!((reads.as_str(), refused.as_str()), ("threads", "1"));
    assert!(["threads", "none"].contains(&jobs.as_str()), "{jobs}");
}
