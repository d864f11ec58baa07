//! Futures of reads, on a disk and with threads, as an embedder has them.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use thermocline::options::{AsyncIo, Shape};
use thermocline::{AsyncScan, CfOptions, Db, ErrorKind, Options, Result, Scan, Value};
use thermocline_testkit::block_on;

const KEYS: u32 = 5000;

fn key(n: u32) -> Vec<u8> {
    format!("key {n:05}").into_bytes()
}

fn value(n: u32) -> Vec<u8> {
    let byte = u8::try_from(n % 251).unwrap();
    let len = if n.is_multiple_of(1000) { 9000 } else { 300 };
    vec![byte; len]
}

/// A store on a disk whose keys lie in tables, and no block in memory.
fn store(dir: &std::path::Path, way: AsyncIo) -> Db {
    let mut options = Options::default();
    options.level0.shape = Some(Shape::Immutables);
    options.blob.inline_bytes_max = 8000;
    options.read.cache_bytes = 1;
    options.read.async_io = way;
    let db = Db::open(dir, options).unwrap();
    let mut batch = db.batch();
    for n in 0..KEYS {
        batch.put(key(n), value(n));
    }
    batch.commit(thermocline::Durability::Immediate).unwrap();
    db.flush().unwrap();
    db
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// One that is free to move between threads.
fn assert_free<T: Future + Send + Unpin + 'static>(future: T) -> T {
    future
}

#[test]
fn every_way_gives_what_was_written() {
    for way in AsyncIo::ALL {
        let dir = folder();
        let db = store(&dir.path().join("db"), way);
        let reads = (0..KEYS).step_by(7);
        let reads = reads.map(|n| (n, assert_free(db.get_async(key(n)))));
        let reads: Vec<_> = reads.collect();
        for (n, read) in reads {
            assert_eq!(block_on(read).unwrap().as_deref(), Some(&*value(n)));
        }
        assert_eq!(block_on(db.get_async("none")).unwrap(), None);
        let used = db.metrics().runtime.unwrap().async_reads.way.unwrap();
        assert!([way, AsyncIo::Interrupt, AsyncIo::Threads].contains(&used));
        let numbers: Vec<u32> = (0..500).map(|n| n * 13 % (KEYS + 100)).collect();
        let right = numbers.iter().map(|n| (*n < KEYS).then(|| value(*n)));
        let right: Vec<Option<Vec<u8>>> = right.collect();
        let copied = |values: Result<Vec<Option<Value>>>| -> Vec<Option<Vec<u8>>> {
            values
                .unwrap()
                .into_iter()
                .map(|v| v.map(Value::into_vec))
                .collect()
        };
        let keys = || numbers.iter().map(|n| key(*n));
        assert_eq!(copied(db.multi_get(keys())), right);
        assert_eq!(copied(block_on(db.multi_get_async(keys()))), right);
    }
}

/// Tasks of one thread, each woken by its own waker.
struct Tasks {
    woken: Mutex<VecDeque<usize>>,
    thread: Thread,
}

struct Task(usize, Arc<Tasks>);

impl Wake for Task {
    fn wake(self: Arc<Task>) {
        self.1.woken.lock().unwrap().push_back(self.0);
        self.1.thread.unpark();
    }
}

/// Runs tasks on this thread, and adds up what they come to.
fn run_all<T: Future<Output = u32> + 'static>(tasks: impl IntoIterator<Item = T>) -> u32 {
    let boxed = |task: T| Some(Box::pin(task) as Pin<Box<dyn Future<Output = u32>>>);
    let mut running: Vec<_> = tasks.into_iter().map(boxed).collect();
    let tasks = Arc::new(Tasks {
        woken: Mutex::new((0..running.len()).collect()),
        thread: thread::current(),
    });
    let (mut left, mut found) = (running.len(), 0);
    while left > 0 {
        let Some(task) = tasks.woken.lock().unwrap().pop_front() else {
            thread::park();
            continue;
        };
        let waker = Waker::from(Arc::new(Task(task, tasks.clone())));
        let Some(work) = &mut running[task] else {
            continue;
        };
        if let Poll::Ready(n) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            (running[task], left, found) = (None, left - 1, found + n);
        }
    }
    found
}

#[test]
fn many_tasks_of_one_thread_read_at_once() {
    let dir = folder();
    let db = store(&dir.path().join("db"), AsyncIo::Interrupt);
    let found = run_all((0..100u32).map(|task| {
        let db = db.clone();
        async move {
            let mut found = 0;
            for step in 0..30 {
                let n = (task * 57 + step * 101) % (KEYS + 50);
                let read = db.get_async(key(n)).await.unwrap();
                assert_eq!(read.as_deref(), (n < KEYS).then(|| value(n)).as_deref());
                found += u32::from(read.is_some());
            }
            found
        }
    }));
    assert!(found > 2900, "{found}");
}

/// A task, and how often it was polled.
type Polled = (usize, u32);

/// Has a task go on, on the thread that receives it.
struct GoOn(Polled, Sender<Option<Polled>>);

impl Wake for GoOn {
    fn wake(self: Arc<GoOn>) {
        // Behind the last task nobody listens.
        let _ = self.1.send(Some(self.0));
    }
}

type Work = Pin<Box<dyn Future<Output = u32> + Send>>;

/// Runs tasks on so many threads, and adds up what they come to. Each goes on on another thread than before, as it may where a
/// runtime has several; and only if the waker of its last poll wakes it.
fn run_everywhere<T: Future<Output = u32> + Send + 'static>(
    tasks: impl IntoIterator<Item = T>,
    threads: usize,
) -> u32 {
    let boxed = |task: T| Mutex::new((0, Some(Box::pin(task) as Work)));
    let tasks: Vec<Mutex<(u32, Option<Work>)>> = tasks.into_iter().map(boxed).collect();
    let (to, of): (Vec<Sender<_>>, Vec<Receiver<_>>) =
        (0..threads).map(|_| mpsc::channel()).unzip();
    for task in 0..tasks.len() {
        to[task % threads].send(Some((task, 0))).unwrap();
    }
    let (left, found) = (AtomicUsize::new(tasks.len()), AtomicU32::new(0));
    let work = |thread: usize, woken: Receiver<Option<Polled>>| {
        // `None` is the end.
        while let Ok(Some((task, polls))) = woken.recv() {
            let mut slot = tasks[task].lock().unwrap();
            let (polled, Some(work)) = &mut *slot else {
                continue;
            };
            if *polled != polls {
                continue;
            }
            *polled += 1;
            let next = to[(thread + 1) % threads].clone();
            let waker = Waker::from(Arc::new(GoOn((task, *polled), next)));
            let Poll::Ready(n) = work.as_mut().poll(&mut Context::from_waker(&waker)) else {
                continue;
            };
            slot.1 = None;
            found.fetch_add(n, Ordering::Relaxed);
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                for to in &to {
                    let _ = to.send(None);
                }
            }
        }
    };
    thread::scope(|scope| {
        for (thread, woken) in of.into_iter().enumerate() {
            let work = &work;
            scope.spawn(move || work(thread, woken));
        }
    });
    found.into_inner()
}

/// Awaits a future. If it has no answer at once it is asked again elsewhere, though it has not woken anybody.
async fn moved<T: Future + Unpin>(mut future: T) -> T::Output {
    let mut moves = true;
    poll_fn(move |context| {
        let polled = Pin::new(&mut future).poll(context);
        if polled.is_pending() && std::mem::take(&mut moves) {
            context.waker().wake_by_ref();
        }
        polled
    })
    .await
}

/// As on tokio, which has several threads: whoever polls last is woken. No task panics, since the others would wait for it.
#[test]
fn tasks_that_go_on_elsewhere_read_as_others_do() {
    let dir = folder();
    let db = store(&dir.path().join("db"), AsyncIo::Interrupt);
    let found = run_everywhere(
        (0..40u32).map(|task| {
            let db = db.clone();
            async move {
                let mut found = 0;
                for step in 0..20 {
                    let n = (task * 57 + step * 101) % (KEYS - 2);
                    let one = moved(db.get_async(key(n))).await;
                    let is_right = |read: Option<Value>, n| read.as_deref() == Some(&*value(n));
                    found += u32::from(one.is_ok_and(|one| is_right(one, n)));
                    let two = moved(db.multi_get_async([key(n), key(n + 1)])).await;
                    for (read, n) in two.unwrap_or_default().into_iter().zip(n..) {
                        found += u32::from(is_right(read, n));
                    }
                    let mut scan = db.range(key(n)..key(n + 2)).into_async();
                    while let Some(entry) = moved(scan.next()).await {
                        found += u32::from(entry.is_ok_and(|(there, _)| there >= key(n)));
                    }
                }
                found
            }
        }),
        3,
    );
    assert_eq!(found, 40 * 20 * (1 + 2 + 2));
}

/// All that a scan gives to whoever awaits it.
async fn all_of(mut scan: AsyncScan) -> Vec<(Vec<u8>, Vec<u8>)> {
    fn assert_free<T: Send + Unpin + 'static>(_: &T) {}
    assert_free(&scan);
    let mut all = Vec::new();
    while let Some(entry) = scan.next().await {
        let (key, value) = entry.unwrap();
        all.push((key, value.into_vec()));
    }
    assert!(scan.next().await.is_none());
    all
}

#[test]
fn an_awaited_scan_gives_what_a_scan_gives() {
    let dir = folder();
    let db = store(&dir.path().join("db"), AsyncIo::Interrupt);
    // Some lies in memory.
    db.put(key(77), "new").unwrap();
    db.delete(key(78)).unwrap();
    let snapshot = db.snapshot();
    db.put(key(79), "later").unwrap();
    let reverse = CfOptions::default().reverse(true);
    let family = db.column_family("reverse", reverse).unwrap();
    for n in 0..300 {
        family.put(key(n), value(n)).unwrap();
    }
    // Each takes a batch.
    let large = db.column_family("large", CfOptions::default()).unwrap();
    for n in 0..100 {
        large.put(key(n), vec![1; 20_000]).unwrap();
    }
    let scans: [&dyn Fn() -> Scan; 8] = [
        &|| db.iter(),
        &|| db.range(key(70)..=key(2500)),
        &|| db.prefix("key 000"),
        &|| db.prefix("none"),
        &|| snapshot.iter(),
        &|| family.iter(),
        &|| family.range(key(200)..key(7)),
        &|| large.iter(),
    ];
    for (n, scan) in scans.into_iter().enumerate() {
        let entry = |entry: Result<(Vec<u8>, Value)>| {
            let (key, value) = entry.unwrap();
            (key, value.into_vec())
        };
        let all: Vec<_> = scan().map(entry).collect();
        assert!(n == 3 || all.len() > 90, "scan {n} has {}", all.len());
        assert!(block_on(all_of(scan().into_async())) == all, "scan {n}");
        let back: Vec<_> = all.into_iter().rev().collect();
        assert!(block_on(all_of(scan().into_async_rev())) == back, "{n}");
    }
}

#[test]
fn many_tasks_of_one_thread_scan_at_once() {
    let dir = folder();
    let db = store(&dir.path().join("db"), AsyncIo::Interrupt);
    // More than there are threads that read.
    let found = run_all((0..60u32).map(|task| {
        let db = db.clone();
        async move {
            let (from, to) = (task * 50, task * 50 + 2000);
            let all = all_of(db.range(key(from)..key(to)).into_async()).await;
            for ((found, _), n) in all.iter().zip(from..) {
                assert_eq!(*found, key(n));
            }
            u32::try_from(all.len()).unwrap()
        }
    }));
    assert_eq!(found, 60 * 2000);
}

#[test]
fn an_awaited_scan_that_is_dropped_leaves_nothing() {
    let dir = folder();
    let path = dir.path().join("db");
    let db = store(&path, AsyncIo::Interrupt);
    for taken in [0, 1, 5, 100] {
        let mut scan = db.iter().into_async();
        for n in 0..taken {
            assert_eq!(block_on(scan.next()).unwrap().unwrap().0, key(n));
        }
        // While a batch is collected, or not.
        let _ = scan.poll_next(&mut Context::from_waker(Waker::noop()));
    }
    // Those who collect leave when they have come to the end of their batches.
    while db.metrics().readers > 0 {
        thread::yield_now();
    }
    // One that is not dropped reads on at its moment when the database is closed.
    let mut scan = db.range(key(9)..).into_async();
    assert_eq!(block_on(scan.next()).unwrap().unwrap().0, key(9));
    db.delete_range(key(0)..).unwrap();
    db.close().unwrap();
    let again = Db::open(&path, Options::default()).unwrap();
    assert!(again.iter().next().is_none());
    let left = block_on(all_of(scan));
    assert_eq!(left.len(), KEYS as usize - 10);
}

#[test]
fn an_error_is_the_last_item_of_an_awaited_scan() {
    let dir = folder();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    db.put("k", "v").unwrap();
    let first = |mut scan: AsyncScan| {
        let first = block_on(scan.next());
        assert!(block_on(scan.next()).is_none());
        first
    };
    let refused = first(db.range("z".."a").into_async()).unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let family = db.column_family("f", CfOptions::default()).unwrap();
    let early = family.iter().into_async();
    db.drop_column_family("f").unwrap();
    let refused = first(family.iter().into_async()).unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(first(early).is_none());
}

#[test]
fn a_future_outlives_the_database_and_keeps_it_from_nobody() {
    let dir = folder();
    let path = dir.path().join("db");
    let db = store(&path, AsyncIo::Interrupt);
    let family = db.column_family("other", CfOptions::default()).unwrap();
    family.put("k", "v").unwrap();
    let snapshot = db.snapshot();
    db.put(key(1), "new").unwrap();
    let reads = [
        snapshot.get_async(key(1)),
        db.get_async(key(1)),
        db.get_async(key(2)),
    ];
    let of_family = family.get_async("k");
    let several = snapshot.multi_get_async([key(3), key(4)]);
    drop((db.get_async(key(5)), db.multi_get_async((0..100).map(key))));
    db.clone().close().unwrap();
    assert_eq!(
        block_on(db.get_async(key(6))).unwrap_err().kind(),
        ErrorKind::Closed
    );
    let [then, now, other] = reads.map(|read| block_on(read).unwrap().map(Value::into_vec));
    assert_eq!(then, Some(value(1)));
    assert_eq!(now, Some(b"new".to_vec()));
    assert_eq!(other, Some(value(2)));
    assert_eq!(block_on(of_family).unwrap().as_deref(), Some(&b"v"[..]));
    let several = block_on(several).unwrap().into_iter().flatten();
    let several: Vec<_> = several.map(Value::into_vec).collect();
    assert_eq!(several, [value(3), value(4)]);
    drop((snapshot, family, db));
    let again = Db::open(&path, Options::default()).unwrap();
    assert_eq!(
        block_on(again.get_async(key(7))).unwrap().as_deref(),
        Some(&*value(7))
    );
}

#[test]
fn arguments_are_checked_before_anything_is_read() {
    let dir = folder();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    let other = Db::open(dir.path().join("other"), Options::default()).unwrap();
    let family = other.column_family("f", CfOptions::default()).unwrap();
    let long = vec![0; 65_536];
    let snapshot = db.snapshot();
    for error in [
        block_on(db.get_async(&long)).map(drop),
        block_on(snapshot.get_async(&long)).map(drop),
        block_on(db.multi_get_async([&long])).map(drop),
        block_on(db.multi_get_cf_async([(&family, "k")])).map(drop),
        db.multi_get([&b"k"[..], &long]).map(drop),
    ] {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    other.drop_column_family("f").unwrap();
    let dropped = block_on(family.get_async("k")).unwrap_err();
    assert_eq!(dropped.kind(), ErrorKind::InvalidArgument);
}
