//! Strands and workers, without stores. What must not happen too late would hang here.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Weak};
use std::time::Duration;

use thermocline_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock, thread};
use thermocline_env::Clock;
use thermocline_env::simulated::SimClock;

use super::*;

mod refused;

/// A client whose tasks are functions.
struct Fake {
    perform: Box<dyn Fn(Task) + Send + Sync>,
    panicked: Mutex<Vec<String>>,
    /// Pieces of jobs that were run.
    jobs: AtomicU64,
}

/// A store that is nothing but its place in a runtime.
struct Store {
    background: Background,
    client: Arc<Fake>,
}

fn store(runtime: &Runtime, perform: impl Fn(Task) + Send + Sync + 'static) -> Arc<Store> {
    store_with(runtime, true, perform)
}

fn store_with(
    runtime: &Runtime,
    threads: bool,
    perform: impl Fn(Task) + Send + Sync + 'static,
) -> Arc<Store> {
    let client = Arc::new(Fake {
        perform: Box::new(perform),
        panicked: Mutex::default(),
        jobs: AtomicU64::new(0),
    });
    let weak: Weak<Fake> = Arc::downgrade(&client);
    Arc::new(Store {
        background: Background::new(runtime.clone(), weak, threads),
        client,
    })
}

impl Client for Fake {
    fn perform(&self, task: Task) {
        (self.perform)(task);
    }

    /// One more piece follows each flush.
    fn run_job(&self, job: Job) -> bool {
        let before = self.jobs.fetch_add(1, Ordering::SeqCst);
        job == Job::Flush && before == 0
    }

    fn panicked(&self, what: &str) {
        lock(&self.panicked).push(what.to_string());
    }
}

impl Store {
    fn run(&self, call: impl FnOnce() + Send + 'static) {
        self.background.run(Box::new(call));
    }

    fn close(&self) {
        self.background.stop();
        self.background.end();
    }

    /// Returns when no task waits or runs.
    fn finish_tasks(&self) {
        while !self.background.tasks.is_idle() {
            thread::yield_now();
        }
    }

    /// Returns when all calls so far have been made.
    fn flush(&self) {
        let (sender, receiver) = channel();
        self.run(move || sender.send(()).unwrap());
        receiver.recv().unwrap();
    }
}

fn runtime(workers: usize) -> Runtime {
    let options = RuntimeOptions {
        workers,
        ..RuntimeOptions::default()
    };
    Runtime::new(options).unwrap()
}

/// A door that a thread waits at, and its key.
fn door() -> (Receiver<()>, Sender<()>) {
    let (key, door) = channel();
    (door, key)
}

#[test]
fn a_task_begins_after_the_last_request_for_it() {
    let runtime = runtime(2);
    let asked = Arc::new(AtomicU64::new(0));
    let seen = Arc::new(AtomicU64::new(0));
    let store = {
        let (asked, seen) = (asked.clone(), seen.clone());
        store(&runtime, move |_| {
            let now = asked.load(Ordering::SeqCst);
            seen.fetch_max(now, Ordering::SeqCst);
        })
    };
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (store, asked) = (store.clone(), asked.clone());
            thread::spawn(move || {
                for _ in 0..20_000 {
                    asked.fetch_add(1, Ordering::SeqCst);
                    store.background.request(Task::Ahead);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    store.finish_tasks();
    assert_eq!(seen.load(Ordering::SeqCst), 60_000);
}

#[test]
fn a_task_that_waits_is_not_queued_again() {
    let runtime = runtime(1);
    let runs = Arc::new(AtomicU64::new(0));
    let (wait, key) = door();
    let store = {
        let runs = runs.clone();
        let wait = Mutex::new(wait);
        store(&runtime, move |_| {
            runs.fetch_add(1, Ordering::SeqCst);
            lock(&wait).recv().unwrap();
        })
    };
    store.background.request(Task::Ahead);
    while runs.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    // One is running, so this waits for another run; and one for all of these.
    for _ in 0..1000 {
        store.background.request(Task::Ahead);
        store.background.request_after(Task::Ahead, Duration::ZERO);
    }
    key.send(()).unwrap();
    key.send(()).unwrap();
    store.finish_tasks();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[test]
fn calls_keep_their_order_and_of_a_store_one_task_runs_and_one_call_at_a_time() {
    let runtime = runtime(4);
    let stores: Vec<_> = (0..5)
        .map(|_| {
            let alone = || {
                let inside = Arc::new(AtomicBool::new(false));
                move || {
                    assert!(!inside.swap(true, Ordering::SeqCst), "two at a time");
                    thread::yield_now();
                    inside.store(false, Ordering::SeqCst);
                }
            };
            let task = alone();
            (store(&runtime, move |_| task()), alone())
        })
        .collect();
    let logs: Vec<_> = stores
        .iter()
        .map(|_| Arc::new(Mutex::new(Vec::new())))
        .collect();
    let threads: Vec<_> = (0..3usize)
        .map(|t| {
            let stores: Vec<_> = stores.iter().map(|(s, e)| (s.clone(), e.clone())).collect();
            let logs = logs.clone();
            thread::spawn(move || {
                for n in 0..500usize {
                    for ((store, enter), log) in stores.iter().zip(&logs) {
                        let (enter, log) = (enter.clone(), log.clone());
                        store.run(move || {
                            enter();
                            lock(&log).push((t, n));
                        });
                        store.background.request(Task::Ahead);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    for ((store, _), log) in stores.iter().zip(&logs) {
        store.flush();
        let log = lock(log).clone();
        assert_eq!(log.len(), 1500);
        for t in 0..3 {
            let of_one: Vec<_> = log.iter().filter(|e| e.0 == t).map(|e| e.1).collect();
            assert_eq!(of_one, (0..500).collect::<Vec<_>>());
        }
        store.finish_tasks();
        assert!(lock(&store.client.panicked).is_empty());
    }
    let metrics = runtime.metrics();
    assert!(metrics.workers <= 4 && metrics.panics == 0, "{metrics:?}");
    assert!(metrics.couriers <= metrics.couriers_limit, "{metrics:?}");
}

#[test]
fn a_store_that_always_has_something_to_do_keeps_no_other_waiting() {
    fn again(store: Arc<Store>, enough: Arc<AtomicBool>) {
        let next = store.clone();
        store.run(move || {
            if !enough.load(Ordering::SeqCst) {
                again(next, enough);
            }
        });
    }
    let runtime = runtime(1);
    let (busy, other) = (store(&runtime, |_| ()), store(&runtime, |_| ()));
    let enough = Arc::new(AtomicBool::new(false));
    again(busy.clone(), enough.clone());
    other.flush();
    enough.store(true, Ordering::SeqCst);
    busy.flush();
}

#[test]
fn deadlines_come_in_their_order_and_not_before_their_time() {
    let clock = Arc::new(SimClock::new());
    let runtime = Runtime::with_clock(RuntimeOptions::default(), clock.clone()).unwrap();
    let (sender, receiver) = channel();
    let stores: Vec<_> = (0..3u64)
        .map(|n| {
            let sender = Mutex::new(sender.clone());
            store(&runtime, move |task| {
                lock(&sender).send((n, task)).unwrap();
            })
        })
        .collect();
    let minutes = |n: u64| Duration::from_secs(60 * n);
    for (n, store) in (0..).zip(&stores) {
        store.background.request_after(Task::Idle, minutes(10 - n));
        // Not sooner, by asking for less.
        store.background.request_after(Task::Idle, minutes(1));
    }
    assert_eq!(runtime.metrics().timers, 3);
    for store in &stores {
        store.finish_tasks();
    }
    assert!(receiver.try_recv().is_err());
    clock.sleep_ms(8 * 60_000);
    runtime.look_at_clock();
    assert_eq!(receiver.recv().unwrap(), (2, Task::Idle));
    // A request for now does not wait for the deadline.
    stores[0].background.request(Task::Idle);
    assert_eq!(receiver.recv().unwrap(), (0, Task::Idle));
    stores[1].close();
    assert_eq!(runtime.metrics().timers, 1);
    clock.sleep_ms(60 * 60_000);
    runtime.look_at_clock();
    assert_eq!(receiver.recv().unwrap(), (0, Task::Idle));
    assert_eq!(runtime.metrics().timers, 0);
    stores[1].background.request(Task::Idle);
    stores[2].background.request(Task::Ahead);
    assert_eq!(receiver.recv().unwrap(), (2, Task::Ahead));
}

#[test]
fn a_long_task_keeps_no_deadline_waiting_where_there_may_be_another_worker() {
    let clock = Arc::new(SimClock::new());
    let options = RuntimeOptions {
        workers: 2,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::with_clock(options, clock.clone()).unwrap();
    let (sender, receiver) = channel();
    let (wait, key) = door();
    let short = {
        let sender = Mutex::new(sender.clone());
        store(&runtime, move |task| lock(&sender).send(task).unwrap())
    };
    let long = {
        let (sender, wait) = (Mutex::new(sender), Mutex::new(wait));
        store(&runtime, move |task| {
            lock(&sender).send(task).unwrap();
            lock(&wait).recv().unwrap();
        })
    };
    // First there is one worker, which waits for the deadline and takes the task. Later there are two, of which either may.
    for _ in 0..20 {
        let soon = Duration::from_millis(10);
        short.background.request_after(Task::Sync, soon);
        long.background.request(Task::Ahead);
        assert_eq!(receiver.recv().unwrap(), Task::Ahead);
        clock.sleep_ms(10);
        runtime.look_at_clock();
        assert_eq!(receiver.recv().unwrap(), Task::Sync);
        key.send(()).unwrap();
        long.finish_tasks();
        short.finish_tasks();
    }
    assert_eq!(runtime.metrics().workers, 2);
}

/// Has a call panic, and waits for the one behind it.
fn panic_in_a_call(store: &Store) {
    let ((wait, key), (made, is_made)) = (door(), channel());
    // All are there before the courier comes to the second one: so it is the same that makes them.
    store.run(move || wait.recv().unwrap());
    store.run(|| panic!("planned"));
    store.run(move || made.send(()).unwrap());
    key.send(()).unwrap();
    is_made.recv().unwrap();
}

#[test]
fn a_panic_ends_the_job_and_nothing_else() {
    let runtime = runtime(1);
    let store = store(&runtime, |task| assert!(task != Task::Idle, "planned"));
    store.background.request(Task::Idle);
    panic_in_a_call(&store);
    store.finish_tasks();
    // Another courier would be started for a call that comes before this one waits again.
    while !runtime.shared.couriers.all_wait() {
        thread::yield_now();
    }
    store.background.request(Task::Ahead);
    panic_in_a_call(&store);
    store.finish_tasks();
    assert_eq!(*lock(&store.client.panicked), ["Idle"]);
    let metrics = runtime.metrics();
    assert_eq!(
        (metrics.panics, metrics.workers, metrics.couriers),
        (2, 1, 1)
    );
}

#[test]
fn no_task_runs_once_a_store_has_stopped() {
    let runtime = runtime(2);
    for round in 0..200 {
        let inside = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(AtomicBool::new(false));
        let (mark, begins) = (inside.clone(), begun.clone());
        let store = store(&runtime, move |_| {
            mark.store(true, Ordering::SeqCst);
            begins.store(true, Ordering::SeqCst);
            for _ in 0..20 {
                thread::yield_now();
            }
            mark.store(false, Ordering::SeqCst);
        });
        store.background.request(Task::Ahead);
        store.background.request_after(Task::Idle, Duration::ZERO);
        if round % 2 == 0 {
            while !begun.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        }
        store.background.stop();
        assert!(!inside.load(Ordering::SeqCst));
        store.background.request(Task::Ahead);
        store.background.request_after(Task::Idle, Duration::ZERO);
        thread::yield_now();
        assert!(!inside.load(Ordering::SeqCst));
        store.background.end();
    }
    assert_eq!(runtime.metrics().stores, 0);
}

#[test]
fn every_call_is_made_though_the_store_is_closed() {
    let runtime = runtime(1);
    let blockers: Vec<_> = (0..COURIERS_MAX)
        .map(|_| {
            let blocker = store(&runtime, |_| ());
            let (wait, key) = door();
            blocker.run(move || wait.recv().unwrap());
            (blocker, key)
        })
        .collect();
    let store = store(&runtime, |_| ());
    let made = Arc::new(Mutex::new(Vec::new()));
    for n in 0..300 {
        let made = made.clone();
        store.run(move || lock(&made).push(n));
    }
    // All couriers are held up, so closing makes them.
    store.close();
    assert_eq!(*lock(&made), (0..300).collect::<Vec<_>>());
    let late = made.clone();
    store.run(move || lock(&late).push(300));
    assert_eq!(lock(&made).len(), 301);
    assert_eq!(runtime.metrics().couriers, COURIERS_MAX);
    for (blocker, key) in blockers {
        key.send(()).unwrap();
        blocker.flush();
    }
}

#[test]
fn a_store_can_be_closed_in_a_call_of_its_own() {
    let runtime = runtime(1);
    let store = store(&runtime, |_| ());
    let made = Arc::new(Mutex::new(Vec::new()));
    let (wait, key) = door();
    let (this, in_call) = (store.clone(), made.clone());
    store.run(move || {
        wait.recv().unwrap();
        this.close();
        this.background.wait_ended();
        lock(&in_call).push(0);
    });
    for n in 1..100 {
        let made = made.clone();
        store.run(move || lock(&made).push(n));
    }
    key.send(()).unwrap();
    // Another thread waits for what is left.
    let (done, last) = channel();
    store.run(move || done.send(()).unwrap());
    last.recv().unwrap();
    assert_eq!(*lock(&made), (0..100).collect::<Vec<_>>());
    store.background.wait_ended();
    assert_eq!(runtime.metrics().stores, 0);
}

#[test]
fn calls_that_close_each_others_stores_do_not_wait_for_each_other() {
    for round in 0..50 {
        // Of one runtime, and of one each.
        let runtimes = [runtime(1), runtime(1)];
        let [first, second] = [&runtimes[0], &runtimes[round % 2]];
        let stores = [store(first, |_| ()), store(second, |_| ())];
        let both = Arc::new(Barrier::new(2));
        let (done, ends) = channel();
        for (mine, other) in [(0, 1), (1, 0)] {
            let (other, both, done) = (stores[other].clone(), both.clone(), done.clone());
            stores[mine].run(move || {
                both.wait();
                other.close();
                done.send(()).unwrap();
            });
        }
        ends.recv().unwrap();
        ends.recv().unwrap();
        assert!(runtimes.iter().all(|r| r.metrics().stores == 0));
    }
}

#[test]
fn the_threads_end_with_the_last_holder() {
    let runtime = runtime(3);
    let stores: Vec<_> = (0..6).map(|_| store(&runtime, |_| ())).collect();
    let all = Arc::new(Barrier::new(4));
    for store in &stores[..3] {
        let all = all.clone();
        store.run(move || {
            all.wait();
        });
    }
    all.wait();
    assert_eq!(runtime.metrics().couriers, 3);
    for store in &stores {
        store.background.request(Task::Ahead);
    }
    let workers = Arc::downgrade(&runtime.shared.workers);
    let couriers = Arc::downgrade(&runtime.shared.couriers);
    stores[3]
        .background
        .request_after(Task::Idle, Duration::from_secs(3600));
    drop(runtime);
    for store in &stores {
        store.flush();
        store.close();
    }
    // Each thread held them until it was joined with. A closed store holds no runtime, but knows the
    // threads.
    drop(stores);
    assert_eq!((workers.strong_count(), couriers.strong_count()), (0, 0));
}

#[test]
fn the_last_holder_may_be_a_call() {
    let runtime = runtime(2);
    let couriers = Arc::downgrade(&runtime.shared.couriers);
    let store = store(&runtime, |_| ());
    let (wait, key) = door();
    let (this, made) = (store.clone(), channel());
    store.run(move || {
        wait.recv().unwrap();
        this.close();
    });
    store.run(move || made.0.send(()).unwrap());
    drop((runtime, store));
    key.send(()).unwrap();
    made.1.recv().unwrap();
    // Nobody joins with the thread; it ends by itself.
    while couriers.strong_count() > 0 {
        thread::yield_now();
    }
}

#[test]
fn a_strand_keeps_no_store_alive() {
    let runtime = runtime(1);
    let (wait, key) = door();
    let Store { background, client } =
        Arc::into_inner(store(&runtime, |_| panic!("of a store that is gone"))).unwrap();
    background.run(Box::new(move || wait.recv().unwrap()));
    let weak = Arc::downgrade(&client);
    drop(client);
    assert_eq!(weak.strong_count(), 0);
    background.request(Task::Ahead);
    background.request_after(Task::Idle, Duration::ZERO);
    key.send(()).unwrap();
    while !background.tasks.is_idle() {
        thread::yield_now();
    }
    let (sender, receiver) = channel();
    background.run(Box::new(move || sender.send(()).unwrap()));
    receiver.recv().unwrap();
    assert_eq!(runtime.metrics().panics, 0);
}

#[test]
fn without_threads_calls_are_made_at_the_end_of_a_call_of_the_store() {
    let runtime = runtime(1);
    let store = store_with(&runtime, false, |_| panic!("there are no tasks"));
    let made = Arc::new(Mutex::new(Vec::new()));
    store.background.request(Task::Ahead);
    store.background.request_after(Task::Idle, Duration::ZERO);
    for n in 0..3 {
        let (this, log) = (store.clone(), made.clone());
        store.run(move || {
            lock(&log).push(n);
            let late = log.clone();
            this.run(move || lock(&late).push(n + 10));
            // As a call of the store in a callback would.
            this.background.settle();
            assert!(
                lock(&log)
                    .iter()
                    .all(|&made| made < 10 || n == 0 || made - 10 < n)
            );
        });
    }
    assert!(lock(&made).is_empty());
    store.background.settle();
    assert_eq!(*lock(&made), [0, 1, 2, 10, 11, 12]);
    // Closed in a call, with one behind it.
    let (this, log) = (store.clone(), made.clone());
    store.run(move || {
        this.close();
        this.background.wait_ended();
        lock(&log).push(20);
    });
    let log = made.clone();
    store.run(move || lock(&log).push(21));
    store.background.settle();
    assert_eq!(lock(&made)[6..], [20, 21]);
    let log = made.clone();
    store.run(move || lock(&log).push(22));
    assert_eq!(lock(&made).len(), 9);
    let metrics = runtime.metrics();
    assert_eq!((metrics.workers, metrics.couriers), (0, 0));
}

#[test]
fn a_call_that_blocks_holds_up_no_task_and_no_other_store() {
    let runtime = runtime(1);
    let (done, tasks) = channel();
    let done = Mutex::new(done);
    let same = store(&runtime, move |task| lock(&done).send(task).unwrap());
    let others: Vec<_> = (0..5).map(|_| store(&runtime, |_| ())).collect();
    let (wait, key) = door();
    same.run(move || wait.recv().unwrap());
    for _ in 0..100 {
        same.background.request(Task::Sync);
        assert_eq!(tasks.recv().unwrap(), Task::Sync);
        for other in &others {
            other.flush();
        }
    }
    key.send(()).unwrap();
    same.flush();
}

#[test]
fn limits_of_a_runtime() {
    let limits = [
        (0, 1, 1 << 30),
        (257, 1, 1 << 30),
        (1, 0, 1 << 30),
        (1, 257, 1 << 30),
        (1, 1, 1000),
    ];
    for (workers, jobs, dram) in limits {
        let options = RuntimeOptions {
            dram,
            workers,
            jobs,
        };
        let error = Runtime::new(options).unwrap_err();
        assert_eq!(error.kind(), thermocline_base::ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_scripted_runtime_does_nothing_until_it_is_stepped() {
    let clock = Arc::new(SimClock::new());
    let runtime = Runtime::scripted(clock.clone());
    let done: Arc<Mutex<Vec<String>>> = Arc::default();
    let store = {
        let done = done.clone();
        store(&runtime, move |task| {
            lock(&done).push(format!("{task:?}"));
        })
    };
    store.background.request_job(Job::Flush);
    store.background.request_job(Job::Compact);
    store.background.request(Task::Ahead);
    store
        .background
        .request_after(Task::Idle, Duration::from_millis(5));
    let called = done.clone();
    store.run(move || lock(&called).push("call".into()));
    assert!(lock(&done).is_empty());
    let mut pieces = vec![];
    while let Some(piece) = runtime.step() {
        pieces.push(piece);
    }
    // The flush has more to do, and is the more urgent kind.
    let jobs = [Job::Flush, Job::Flush, Job::Compact].map(Piece::Job);
    assert_eq!(pieces[..2], [Piece::Tasks, Piece::Calls]);
    assert_eq!(pieces[2..], jobs);
    assert_eq!(*lock(&done), ["Ahead", "call"]);
    clock.sleep_ms(5);
    assert_eq!(runtime.step(), Some(Piece::Tasks));
    assert_eq!(runtime.step(), None);
    assert_eq!(*lock(&done), ["Ahead", "call", "Idle"]);
    let metrics = runtime.metrics();
    assert_eq!(
        (metrics.workers, metrics.job_threads, metrics.couriers),
        (0, 0, 0)
    );
    store.close();
}
