//! A process that the system gives no thread: a child, whose threads ask for stacks that no address space has.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use thermocline_base::options::Options;
use thermocline_base::{CfId, WriteBatch};
use thermocline_engine::{Callback, Durability, Engine, World};

const CF: CfId = CfId::DEFAULT;

/// Where the child finds a folder.
const HOME: &str = "THERMOCLINE_NO_THREADS";

/// What the standard library asks the system for.
const STACK: u64 = 1 << 62;

fn put(key: u8) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(CF, &[key], b"value").unwrap();
    batch
}

/// A commit that is told about is durable, and told about, though nobody else does anything in the store.
#[test]
#[ignore = "needs stacks that its parent asks for"]
fn child() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    let given = std::thread::Builder::new().spawn(|| ());
    assert!(given.is_err(), "there are threads");
    let options = Options {
        pm: 8 << 20,
        ..Options::default()
    };
    let dir = PathBuf::from(home).join("db");
    let engine = Engine::open(World::real(), &dir, options).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    for key in 0..10u8 {
        let tell = told.clone();
        let done: Callback = Box::new(move |result| {
            tell.lock().unwrap().push((key, result.is_ok()));
        });
        engine
            .write_with_callback(put(key).iter(), false, done)
            .unwrap();
        assert_eq!(engine.durable(), engine.visible());
        assert_eq!(told.lock().unwrap().last(), Some(&(key, true)));
    }
    // Others go on beside it.
    engine.write(put(10).iter(), Durability::Immediate).unwrap();
    assert_eq!(told.lock().unwrap().len(), 10);
    for key in 0..=10 {
        let found = engine.get(CF, &[key], |_| ()).unwrap();
        assert!(found.is_some(), "{key}");
    }
    engine.close().unwrap();
}

#[test]
fn a_lone_commit_is_told_where_no_thread_is_given() {
    let home = tempfile::tempdir().unwrap();
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "no_threads::child", "--ignored"])
        .args(["--nocapture", "--test-threads", "1"])
        .env(HOME, home.path())
        .env("RUST_MIN_STACK", STACK.to_string())
        .output()
        .unwrap();
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}
