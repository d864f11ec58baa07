//! Commits that wait, that do not, and that are told about later.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};

use thermocline::limits::KEY_LEN_MAX;
use thermocline::{
    CfOptions, Commit, Db, Durability, Error, ErrorKind, Event, Options, Result, WriteOptions,
};
use thermocline_testkit::explore::explored;

fn options() -> Options {
    let mut options = Options {
        pm: 8 << 20,
        ..Options::default()
    };
    options.memtable.bytes_max = 256 << 10;
    options
}

#[test]
fn callbacks_come_once_in_order_and_a_panic_stops_none() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(home.path().join("db"), options()).unwrap();
    let told: Arc<Mutex<Vec<u32>>> = Arc::default();
    let (last, done) = mpsc::channel();
    let mut batch = db.batch();
    for n in 0..2000u32 {
        batch.put(n.to_be_bytes(), "value");
        let (told, last) = (told.clone(), last.clone());
        batch
            .commit_with_callback(move |result| {
                result.unwrap();
                told.lock().unwrap().push(n);
                if n == 1999 {
                    last.send(()).unwrap();
                }
                assert_ne!(n % 100, 7, "a callback that panics");
            })
            .unwrap();
        assert!(batch.is_empty() && db.get(n.to_be_bytes()).unwrap().is_some());
    }
    done.recv().unwrap();
    assert_eq!(*told.lock().unwrap(), (0..2000).collect::<Vec<_>>());
    let metrics = db.metrics();
    assert_eq!(metrics.seqno_durable, metrics.seqno_visible);
}

#[test]
fn a_batch_says_how_many_changes_and_bytes_it_has() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(home.path().join("db"), options()).unwrap();
    let mut batch = db.batch();
    assert_eq!((batch.len(), batch.bytes()), (0, 0));
    batch.put("key", "value").delete("key").set_metadata("blob");
    let bytes = 8 + 3 + 6;
    assert_eq!((batch.len(), batch.bytes()), (3, bytes + 3 * 16));
    let none = "b";
    batch.delete_range("a".."bc").delete_range(none..none);
    let all = (4, bytes + 3 + 4 * 16);
    assert_eq!((batch.len(), batch.bytes()), all);
    // What breaks a limit is not added, and the batch stays as it was.
    batch.put(vec![7; KEY_LEN_MAX + 1], "value");
    batch.commit(Durability::Immediate).unwrap_err();
    assert_eq!((batch.len(), batch.bytes()), all);
    batch.clear();
    assert_eq!((batch.len(), batch.bytes()), (0, 0));
    assert!(batch.is_empty());
}

/// What is taken back is not written, whatever it is; what a batch has lost does not come back by that.
#[test]
fn changes_of_a_batch_are_taken_back_to_any_number() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("db"), options()).unwrap();
    let other = db.column_family("other", CfOptions::default()).unwrap();
    other.put("stays", "1").unwrap();
    let mut batch = db.batch();
    batch.put("a", "1").put_cf(&other, "b", "1");
    let (savepoint, bytes) = (batch.len(), batch.bytes());
    batch
        .put("a", "2")
        .delete_cf(&other, "b")
        .delete_range_cf::<&str>(&other, ..)
        .set_metadata("offset 2");
    batch.truncate(batch.len());
    assert_eq!(batch.len(), 6);
    batch.truncate(savepoint);
    batch.truncate(usize::MAX);
    assert_eq!((batch.len(), batch.bytes()), (savepoint, bytes));
    batch.put("c", "3");
    batch.commit(Durability::Immediate).unwrap();
    let keys: Vec<Vec<u8>> = db.iter().map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, [b"a", b"c"]);
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    let keys: Vec<Vec<u8>> = other.iter().map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, [&b"b"[..], b"stays"]);
    assert_eq!(db.metadata().unwrap(), None);

    batch.put("d", "4").put(vec![0; 65_536], "lost");
    batch.truncate(1);
    batch.commit(Durability::Immediate).unwrap_err();
    batch.truncate(0);
    batch.commit(Durability::Immediate).unwrap_err();
    batch.clear();
    batch.commit(Durability::Immediate).unwrap();
    assert_eq!(db.get("d").unwrap(), None);
}

#[test]
fn closing_tells_every_commit() {
    for round in 0..u32::try_from(explored(8, 20)).unwrap() {
        let home = tempfile::tempdir().unwrap();
        let roomy = Options {
            pm: 64 << 20,
            ..options()
        };
        let db = Db::open(home.path().join("db"), roomy).unwrap();
        let writers: Vec<_> = (0..3u32)
            .map(|thread| {
                let db = db.clone();
                std::thread::spawn(move || {
                    let mut commits: Vec<Commit> = Vec::new();
                    let mut batch = db.batch();
                    for n in 0..20_000 {
                        batch.put([thread.to_be_bytes(), u32::to_be_bytes(n)].concat(), "v");
                        match batch.commit_async() {
                            Ok(commit) => commits.push(commit),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                                break;
                            }
                        }
                    }
                    commits
                })
            })
            .collect();
        for n in 0..round * 5 {
            db.put(n.to_be_bytes(), "w").unwrap();
        }
        db.close().unwrap();
        let commits = writers.into_iter().flat_map(|w| w.join().unwrap());
        for commit in commits {
            commit.wait().unwrap();
        }
    }
}

#[test]
fn a_commit_can_be_awaited() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(home.path().join("db"), options()).unwrap();
    let mut batch = db.batch();
    batch.put("k", "v");
    let mut commit = batch.commit_async().unwrap();
    // A runtime of one future: polls, and sleeps until it is woken.
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        match std::future::Future::poll(std::pin::Pin::new(&mut commit), &mut context) {
            std::task::Poll::Ready(result) => break result.unwrap(),
            std::task::Poll::Pending => std::thread::park(),
        }
    }
    assert!(db.metrics().seqno_durable >= 1);
    let error = commit.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

/// A commit goes on whoever asks for its outcome: it may be dropped at once, or polled once and never again.
#[test]
fn commits_that_nobody_asks_about_hold_up_no_writer() {
    const EACH: u16 = 500;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let db = Db::open(&path, options()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let db = &db;
            scope.spawn(move || {
                let mut batch = db.batch();
                let mut polled = Vec::new();
                for n in 0..EACH {
                    batch.put([&[thread][..], &n.to_be_bytes()].concat(), "v");
                    if thread < 2 {
                        // Others wait, as leaders and followers of groups.
                        batch.commit(Durability::Immediate).unwrap();
                        continue;
                    }
                    let mut commit = batch.commit_async().unwrap();
                    if n % 2 == 0 {
                        let mut context = Context::from_waker(Waker::noop());
                        let _ = Pin::new(&mut commit).poll(&mut context);
                        polled.push(commit);
                    }
                }
                // Not even dropped.
                std::mem::forget(polled);
            });
        }
    });
    commit_and_wait(&db, "last").unwrap();
    let metrics = db.metrics();
    assert_eq!(metrics.seqno_durable, metrics.seqno_visible);
    db.close().unwrap();
    let db = Db::open(&path, options()).unwrap();
    assert_eq!(db.iter().count(), 4 * usize::from(EACH) + 1);
}

fn commit_and_wait(db: &Db, key: &str) -> Result<()> {
    let mut batch = db.batch();
    batch.put(key, "v");
    batch.commit_async()?.wait()
}

#[test]
fn who_waits_for_a_commit_in_a_callback_or_listener_is_told_that_it_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let (told, waited) = mpsc::channel();
    // For the first event after it is there.
    let lent: Arc<Mutex<Option<Db>>> = Arc::default();
    let listener = {
        let (lent, told) = (lent.clone(), told.clone());
        move |_: &Event| {
            let db = lent.lock().unwrap().take();
            if let Some(db) = db {
                told.send(commit_and_wait(&db, "listener")).unwrap();
            }
        }
    };
    let db = Db::builder(home.path().join("db"))
        .options(options())
        .listener(listener)
        .open()
        .unwrap();
    *lent.lock().unwrap() = Some(db.clone());
    db.put("first", "v").unwrap();
    db.flush().unwrap();
    let error = waited.recv().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("the commit goes on"), "{error}");
    let own = db.clone();
    let mut batch = db.batch();
    batch.put("second", "v");
    batch
        .commit_with_callback(move |result| {
            result.unwrap();
            told.send(commit_and_wait(&own, "callback")).unwrap();
        })
        .unwrap();
    let error = waited.recv().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    for key in ["listener", "callback"] {
        assert!(db.get(key).unwrap().is_some(), "{key}");
    }
    db.close().unwrap();
}

#[test]
fn a_write_that_will_not_wait_is_busy_only_while_there_is_something_to_wait_for() {
    let home = tempfile::tempdir().unwrap();
    let mut kept = options();
    // Otherwise the region never fills.
    kept.flush.automatic = false;
    let db = Db::open(home.path().join("db"), kept).unwrap();
    let options = WriteOptions {
        durability: Durability::Immediate,
        no_slowdown: true,
    };
    // Nobody has recorded the chain yet.
    let mut batch = db.batch();
    batch.put("first", "1");
    let error = batch.commit_async_with(options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert_eq!(batch.len(), 1, "it can be tried again");
    let mut busy = 0;
    let full = 'full: {
        for n in 0..100_000u32 {
            // The store's thread does what the write would have had to wait for.
            loop {
                match db.put_with(n.to_be_bytes(), [7; 1000], options) {
                    Ok(()) => break,
                    Err(Error::Busy(_)) => busy += 1,
                    Err(error) => break 'full error,
                }
                std::thread::yield_now();
            }
        }
        panic!("the region never filled");
    };
    assert_eq!(full.kind(), ErrorKind::OutOfSpace, "{full}");
    assert!(
        busy > 0,
        "the first write meets a chain that nobody has recorded"
    );
    // Deletes have their reserve.
    db.delete_with(0u32.to_be_bytes(), options).unwrap();
    assert_eq!(db.get(0u32.to_be_bytes()).unwrap(), None);
}

#[test]
fn buffered_writes_are_visible_at_once_and_durable_when_asked() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let mut options = options();
    options.commit.buffered_bytes = 1 << 20;
    options.commit.buffered_ms = 3_600_000;
    options.memtable.idle_ms = 0;
    let db = Db::open(&dir, options.clone()).unwrap();
    db.put("first", "durable").unwrap();
    let mut batch = db.batch();
    batch.put("ready", "at once");
    let commit = batch.commit_async_with(Durability::Buffered).unwrap();
    commit.wait().unwrap();
    assert_eq!(db.metrics().seqno_durable, 1);
    for n in 0..100u32 {
        db.put_with(n.to_be_bytes(), "v", Durability::Buffered)
            .unwrap();
        assert!(db.get(n.to_be_bytes()).unwrap().is_some());
    }
    let metrics = db.metrics();
    assert_eq!((metrics.seqno_visible, metrics.seqno_durable), (102, 1));
    db.sync().unwrap();
    assert_eq!(db.metrics().seqno_durable, 102);
    db.put_with("more", "v", Durability::Buffered).unwrap();
    assert_eq!(db.metrics().seqno_durable, 102);
    // What is durable takes all before it along.
    db.put("last", "durable").unwrap();
    assert_eq!(db.metrics().seqno_durable, 104);
    db.put_with("closing", "v", Durability::Buffered).unwrap();
    db.close().unwrap();
    let db = Db::open(&dir, options).unwrap();
    assert_eq!(db.iter().count(), 105);
}

type Write = fn(&Db, WriteOptions);

#[test]
fn what_adds_nothing_makes_durable_what_came_before_it() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.commit.buffered_bytes = 1 << 20;
    options.commit.buffered_ms = 3_600_000;
    options.memtable.idle_ms = 0;
    let db = Db::open(home.path().join("db"), options).unwrap();
    db.put("first", "durable").unwrap();
    let nothing: [(&str, Write); 4] = [
        ("a batch", |db, mode| db.batch().commit(mode).unwrap()),
        ("a commit that is waited for", |db, mode| {
            let commit = db.batch().commit_async_with(mode).unwrap();
            commit.wait().unwrap();
        }),
        ("a range", |db, mode| {
            db.delete_range_with("b".."b", mode).unwrap();
        }),
        ("a batch of a range", |db, mode| {
            db.batch().delete_range("b".."b").commit(mode).unwrap();
        }),
    ];
    for (what, write) in nothing {
        db.put_with("key", what, Durability::Buffered).unwrap();
        let durable = || {
            let metrics = db.metrics();
            metrics.seqno_durable == metrics.seqno_visible
        };
        write(&db, Durability::Buffered.into());
        assert!(!durable(), "{what}: nobody asked for it");
        write(&db, Durability::Immediate.into());
        assert!(durable(), "{what}");
    }
}

#[test]
fn a_deleted_prefix_is_as_durable_as_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.commit.buffered_bytes = 1 << 20;
    options.commit.buffered_ms = 3_600_000;
    options.memtable.idle_ms = 0;
    let db = Db::open(home.path().join("db"), options).unwrap();
    let down = CfOptions::default().reverse(true);
    let down = db.column_family("down", down).unwrap();
    for key in ["ka", "kb", "l"] {
        db.put(key, "1").unwrap();
        down.put(key, "1").unwrap();
    }
    let durable = || {
        let metrics = db.metrics();
        metrics.seqno_durable == metrics.seqno_visible
    };
    assert!(durable());
    db.delete_prefix_with("k", Durability::Buffered).unwrap();
    down.delete_prefix_with("k", Durability::Buffered).unwrap();
    assert!(!durable(), "nobody asked for it");
    assert_eq!((db.iter().count(), down.iter().count()), (1, 1));
    down.delete_prefix_with("l", Durability::Immediate).unwrap();
    assert!(durable());
    assert_eq!((db.iter().count(), down.iter().count()), (1, 0));
}

#[test]
fn writers_that_meet_become_groups() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.commit.buckets = 1;
    options.commit.group_wait_us = 200;
    let db = Db::open(home.path().join("db"), options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let db = &db;
            scope.spawn(move || {
                for n in 0..100u32 {
                    let key = [thread.to_be_bytes(), n.to_be_bytes()].concat();
                    db.put(&key, [3; 100]).unwrap();
                    assert!(db.get(&key).unwrap().is_some());
                }
            });
        }
    });
    assert_eq!(db.iter().count(), 800);
    let metrics = db.metrics();
    assert!(metrics.pm_fences < 800, "{} fences", metrics.pm_fences);
}
