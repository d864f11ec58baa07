//! A process that the system gives no thread, or no further one: a child, whose threads ask for stacks that no address space
//! has, or has some of.

use std::ffi::OsString;
use std::hint;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use thermocline_base::options::Options;
use thermocline_base::{CfId, WriteBatch};
use thermocline_engine::{Callback, Durability, Engine, World};

const CF: CfId = CfId::DEFAULT;

/// Where the child finds a folder.
const HOME: &str = "THERMOCLINE_NO_THREADS";

/// What the standard library asks the system for.
const STACK: u64 = 1 << 62;

/// What it asks for where a process of [`SPACE_KIB`] has a few.
const STACK_OF_FEW: u64 = 256 << 20;

/// The address space of that process, in KiB.
const SPACE_KIB: u64 = 4 << 20;

/// Bytes that it has left for other things than threads.
const REST: usize = 64 << 20;

/// Items that two threads would index, and that lie in several zones, which two threads would walk.
const ITEMS: u16 = 300;

const VALUE_BYTES: usize = 1000;

fn put(key: u8) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(CF, &[key], b"value").unwrap();
    batch
}

fn open(home: OsString) -> Engine {
    let mut options = Options {
        pm: 8 << 20,
        ..Options::default()
    };
    options.memtable.replay_threads = 2;
    let dir = PathBuf::from(home).join("db");
    Engine::open(World::real(), &dir, options).unwrap()
}

fn ask_for_a_thread() -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().spawn(|| ())
}

/// A commit that is told about is durable, and told about, though nobody else does anything in the store.
#[test]
#[ignore = "needs stacks that its parent asks for"]
fn child() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    assert!(ask_for_a_thread().is_err(), "there are threads");
    let engine = open(home);
    commit_alone(&engine);
    // Others go on beside it.
    engine.write(put(10).iter(), Durability::Immediate).unwrap();
    for key in 0..=10 {
        let found = engine.get(CF, &[key], |_| ()).unwrap();
        assert!(found.is_some(), "{key}");
    }
    engine.close().unwrap();
}

/// Each of ten commits is durable and told of when its call returns.
fn commit_alone(engine: &Engine) {
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
    assert_eq!(told.lock().unwrap().len(), 10);
}

/// What a store has is found again by the thread that opens it.
#[test]
#[ignore = "needs stacks that its parent asks for"]
fn child_that_finds() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    assert!(ask_for_a_thread().is_err(), "there are threads");
    let engine = open(home);
    for key in 0..ITEMS {
        let found = engine.get(CF, &key.to_be_bytes(), <[u8]>::len).unwrap();
        assert_eq!(found, Some(VALUE_BYTES), "{key}");
    }
    engine.close().unwrap();
}

/// The same with a worker, and nobody who would make its calls.
#[test]
#[ignore = "needs an address space that its parent limits"]
fn child_with_a_worker() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    let engine = open(home);
    engine.write(put(10).iter(), Durability::Buffered).unwrap();
    let threads = || {
        let runtime = engine.metrics().runtime.unwrap();
        (runtime.workers, runtime.couriers)
    };
    assert_eq!(threads(), (1, 0));
    // All further threads that there is room for, with some left for other things.
    let mut rest = Vec::<u8>::with_capacity(REST);
    hint::black_box(&mut rest);
    let stay = || -> () {
        loop {
            std::thread::park();
        }
    };
    while std::thread::Builder::new().spawn(stay).is_ok() {}
    drop(rest);
    let mut rest = Vec::<u8>::new();
    if let Ok(thread) = ask_for_a_thread() {
        // What is lacking for one is enough.
        thread.join().unwrap();
        rest.reserve_exact(REST);
        hint::black_box(&mut rest);
    }
    assert!(ask_for_a_thread().is_err(), "there are threads");
    commit_alone(&engine);
    assert_eq!(threads(), (1, 0));
    engine.close().unwrap();
}

/// Runs one of these tests in a process that the system gives no thread.
fn run_without_threads(child: &str, home: &Path) {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("no_threads::{child}"), "--ignored"])
        .args(["--nocapture", "--test-threads", "1"])
        .env(HOME, home)
        .env("RUST_MIN_STACK", STACK.to_string())
        .output()
        .unwrap();
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_lone_commit_is_told_where_no_thread_is_given() {
    let home = tempfile::tempdir().unwrap();
    run_without_threads("child", home.path());
}

#[test]
fn a_store_is_opened_where_no_thread_is_given() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path().into());
    for key in 0..ITEMS {
        let mut batch = WriteBatch::new();
        batch
            .put(CF, &key.to_be_bytes(), &[7; VALUE_BYTES])
            .unwrap();
        engine.write(batch.iter(), Durability::Buffered).unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    run_without_threads("child_that_finds", home.path());
}

#[test]
fn a_lone_commit_is_told_where_no_thread_is_given_but_a_worker() {
    let home = tempfile::tempdir().unwrap();
    let done = Command::new("sh")
        .args(["-c", "ulimit -v \"$1\"; shift; exec \"$@\"", "sh"])
        .arg(SPACE_KIB.to_string())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "no_threads::child_with_a_worker", "--ignored"])
        .args(["--nocapture", "--test-threads", "1"])
        .env(HOME, home.path())
        .env("RUST_MIN_STACK", STACK_OF_FEW.to_string())
        // Else the system's allocator takes address space for each thread.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap();
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}
