//! Where the system gives no threads, or no more.

use super::*;
use crate::starter::{PAUSE_NS, Starter};

/// A system that gives threads while a test wants it, and counts how often it was asked for one.
struct System {
    gives: AtomicBool,
    asked: AtomicU64,
}

impl System {
    /// One that gives `starter` no thread until it is told to.
    fn of(starter: &Starter) -> Arc<System> {
        let system = Arc::new(System {
            gives: AtomicBool::new(false),
            asked: AtomicU64::new(0),
        });
        let answers = system.clone();
        starter.refuse_if(move || {
            answers.asked.fetch_add(1, Ordering::SeqCst);
            !answers.gives.load(Ordering::SeqCst)
        });
        system
    }

    fn set(&self, gives: bool) {
        self.gives.store(gives, Ordering::SeqCst);
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

fn runtime_and_clock() -> (Runtime, Arc<SimClock>) {
    let clock = Arc::new(SimClock::new());
    let runtime = Runtime::with_clock(RuntimeOptions::default(), clock.clone()).unwrap();
    (runtime, clock)
}

/// A store of this number that tells which tasks it does.
fn told(runtime: &Runtime, n: u64, done: &Sender<(u64, Task)>) -> Arc<Store> {
    let done = done.clone();
    store(runtime, move |task| done.send((n, task)).unwrap())
}

#[test]
fn requests_ask_for_a_worker_again_but_not_at_once() {
    let (runtime, clock) = runtime_and_clock();
    let system = System::of(&runtime.shared.workers.starter);
    let (done, tasks) = channel();
    let store = told(&runtime, 0, &done);
    // Nobody knows yet.
    assert!(store.background.lacks_workers());
    for pauses in 0..3 {
        for _ in 0..100 {
            store.background.request(Task::Sync);
            assert!(store.background.lacks_workers());
        }
        assert_eq!(system.asked(), pauses + 1);
        clock.advance_ns(PAUSE_NS);
    }
    assert_eq!(runtime.metrics().workers, 0);
    system.set(true);
    store.background.request(Task::Sync);
    assert_eq!(tasks.recv().unwrap(), (0, Task::Sync));
    assert!(!store.background.lacks_workers());
    // As if there had been one from the beginning.
    store.finish_tasks();
    clock.advance_ns(PAUSE_NS);
    store.background.request(Task::Sync);
    assert_eq!(tasks.recv().unwrap(), (0, Task::Sync));
    assert_eq!((system.asked(), runtime.metrics().workers), (4, 1));
}

#[test]
fn deadlines_are_kept_once_there_is_a_worker() {
    let (runtime, clock) = runtime_and_clock();
    let system = System::of(&runtime.shared.workers.starter);
    let (done, tasks) = channel();
    let (first, second) = (told(&runtime, 0, &done), told(&runtime, 1, &done));
    let minutes = |n: u64| Duration::from_secs(60 * n);
    first.background.request_after(Task::Idle, minutes(1));
    // For a later deadline, too, since nobody comes for the first one.
    second.background.request_after(Task::Expire, minutes(2));
    assert_eq!(system.asked(), 2);
    clock.sleep_ms(3 * 60_000);
    system.set(true);
    // What is asked for already asks for all.
    second.background.request_after(Task::Expire, minutes(2));
    assert_eq!(tasks.recv().unwrap(), (0, Task::Idle));
    assert_eq!(tasks.recv().unwrap(), (1, Task::Expire));
    assert_eq!((system.asked(), runtime.metrics().timers), (3, 0));
}

/// While the only worker that there may be is being started, nobody else starts one.
#[test]
fn who_relied_on_a_thread_that_was_refused_asks_again() {
    let (runtime, clock) = runtime_and_clock();
    let (done, tasks) = channel();
    let stores: Vec<_> = (0..3).map(|n| told(&runtime, n, &done)).collect();
    let others = [1, 2].map(|n| Arc::downgrade(&stores[n]));
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    runtime.shared.workers.starter.refuse_if(move || {
        let before = count.fetch_add(1, Ordering::SeqCst);
        if before == 0
            && let [Some(soon), Some(later)] = others.each_ref().map(Weak::upgrade)
        {
            soon.background.request(Task::Ahead);
            later.background.request_after(Task::Idle, Duration::ZERO);
        }
        before < 2
    });
    stores[0].background.request(Task::Ahead);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    clock.advance_ns(PAUSE_NS);
    stores[1].background.request(Task::Ahead);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    clock.advance_ns(PAUSE_NS);
    let after = Duration::ZERO;
    stores[2].background.request_after(Task::Idle, after);
    let all: Vec<_> = tasks.iter().take(3).collect();
    assert_eq!(all, [(0, Task::Ahead), (1, Task::Ahead), (2, Task::Idle)]);
}

/// It may be refused yet, and nobody would come back to who has relied on it.
#[test]
fn a_worker_that_is_being_started_is_not_relied_upon() {
    let (runtime, _) = runtime_and_clock();
    let (done, tasks) = channel();
    let stores = [0, 1].map(|n| told(&runtime, n, &done));
    let other = Arc::downgrade(&stores[1]);
    let lacked = Arc::new(AtomicBool::new(false));
    let note = lacked.clone();
    runtime.shared.workers.starter.refuse_if(move || {
        if let Some(other) = other.upgrade() {
            other.background.request(Task::Sync);
            note.store(other.background.lacks_workers(), Ordering::SeqCst);
        }
        false
    });
    stores[0].background.request(Task::Ahead);
    assert!(lacked.load(Ordering::SeqCst));
    assert!(stores.iter().all(|s| !s.background.lacks_workers()));
    let all: Vec<_> = tasks.iter().take(2).collect();
    assert_eq!(all, [(0, Task::Ahead), (1, Task::Sync)]);
}

/// Whoever may not wait in vain learns how an attempt ends that somebody else makes; others rely on it, and make no calls of their
/// own meanwhile.
#[test]
fn an_attempt_to_start_a_courier_is_waited_for() {
    let (runtime, _) = runtime_and_clock();
    let stores = [(); 2].map(|()| store(&runtime, |_| ()));
    let other = Arc::downgrade(&stores[1]);
    let made = Arc::new(AtomicU64::new(0));
    let count = made.clone();
    let (asking, asked) = channel();
    runtime.shared.couriers.starter.refuse_if(move || {
        if let Some(other) = other.upgrade() {
            let calls = count.clone();
            other.run(move || {
                calls.fetch_add(1, Ordering::SeqCst);
            });
            other.background.settle();
            assert_eq!(count.load(Ordering::SeqCst), 0, "it relies on the attempt");
            let asks = std::thread::spawn(move || {
                let lacks = other.background.lacks_couriers();
                other.background.settle();
                lacks
            });
            asking.send(asks).unwrap();
        }
        true
    });
    assert!(stores[0].background.lacks_couriers());
    assert!(asked.recv().unwrap().join().unwrap());
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

#[test]
fn a_courier_is_asked_for_before_there_is_a_call() {
    let (runtime, clock) = runtime_and_clock();
    let system = System::of(&runtime.shared.couriers.starter);
    let store = store(&runtime, |_| ());
    for pauses in 0..3 {
        for _ in 0..100 {
            assert!(store.background.lacks_couriers());
        }
        assert_eq!(system.asked(), pauses + 1);
        clock.advance_ns(PAUSE_NS);
    }
    assert_eq!(runtime.metrics().couriers, 0);
    system.set(true);
    assert!(!store.background.lacks_couriers());
    assert_eq!((system.asked(), runtime.metrics().couriers), (4, 1));
    store.flush();
    // Where no thread is allowed, whoever steps makes the calls, or whoever calls the store.
    let scripted = Runtime::scripted(Arc::new(SimClock::new()));
    for threads in [true, false] {
        let store = store_with(&scripted, threads, |_| ());
        assert!(!store.background.lacks_couriers() && !store.background.lacks_workers());
    }
}

#[test]
fn calls_are_made_at_the_end_of_a_call_of_the_store_until_there_is_a_courier() {
    let (runtime, clock) = runtime_and_clock();
    let system = System::of(&runtime.shared.couriers.starter);
    let store = store(&runtime, |_| ());
    let made = Arc::new(Mutex::new(Vec::new()));
    for n in 0..100 {
        let log = made.clone();
        store.run(move || lock(&log).push(n));
        store.background.settle();
        assert_eq!(lock(&made).len(), n + 1);
    }
    assert_eq!(system.asked(), 1);
    system.set(true);
    clock.advance_ns(PAUSE_NS);
    store.flush();
    assert_eq!((system.asked(), runtime.metrics().couriers), (2, 1));
    assert_eq!(*lock(&made), (0..100).collect::<Vec<_>>());
    // Made here, it would wait for its key for ever.
    let (wait, key) = door();
    store.run(move || wait.recv().unwrap());
    store.background.settle();
    key.send(()).unwrap();
    store.flush();
}

#[test]
fn calls_ask_again_for_another_courier_while_one_is_held_up() {
    let (runtime, clock) = runtime_and_clock();
    let system = System::of(&runtime.shared.couriers.starter);
    let (blocker, other) = (store(&runtime, |_| ()), store(&runtime, |_| ()));
    system.set(true);
    let (begun, begins) = channel();
    let (wait, key) = door();
    blocker.run(move || {
        begun.send(()).unwrap();
        wait.recv().unwrap();
    });
    begins.recv().unwrap();
    system.set(false);
    let made = Arc::new(Mutex::new(Vec::new()));
    for n in 0..50 {
        let log = made.clone();
        other.run(move || lock(&log).push(n));
        // There is a courier, so none is made here.
        other.background.settle();
    }
    assert!(lock(&made).is_empty());
    assert_eq!((system.asked(), runtime.metrics().couriers), (2, 1));
    system.set(true);
    clock.advance_ns(PAUSE_NS);
    other.flush();
    assert_eq!((system.asked(), runtime.metrics().couriers), (3, 2));
    assert_eq!(*lock(&made), (0..50).collect::<Vec<_>>());
    key.send(()).unwrap();
    blocker.flush();
}

#[test]
fn requests_ask_for_a_job_thread_again_but_not_at_once() {
    let (runtime, clock) = runtime_and_clock();
    let system = System::of(&runtime.shared.jobs.starter);
    let store = store(&runtime, |_| ());
    for pauses in 0..3 {
        for _ in 0..100 {
            store.background.request_job(Job::Compact);
        }
        assert_eq!(system.asked(), pauses + 1);
        clock.advance_ns(PAUSE_NS);
    }
    assert_eq!(runtime.metrics().jobs_waiting, 1);
    system.set(true);
    store.background.request_job(Job::Compact);
    while store.client.jobs.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    assert_eq!((system.asked(), runtime.metrics().job_threads), (4, 1));
}

#[test]
fn a_store_is_closed_without_any_thread() {
    let (runtime, _) = runtime_and_clock();
    let shared = &runtime.shared;
    let _workers = System::of(&shared.workers.starter);
    let _couriers = System::of(&shared.couriers.starter);
    let _jobs = System::of(&shared.jobs.starter);
    let store = store(&runtime, |_| panic!("nobody does it"));
    let (sender, made) = channel();
    store.background.request(Task::Ahead);
    store.background.request_after(Task::Idle, Duration::ZERO);
    store.background.request_job(Job::Flush);
    store.run(move || sender.send(()).unwrap());
    store.close();
    made.try_recv().unwrap();
    let metrics = runtime.metrics();
    assert_eq!(
        (metrics.stores, metrics.timers, metrics.jobs_waiting),
        (0, 0, 0)
    );
}

/// A strand holds its workers. One that waits with them for a thread that never comes must not be held by them in turn.
#[test]
fn what_nobody_takes_keeps_nothing() {
    let runtime = Runtime::scripted(Arc::new(SimClock::new()));
    let workers = Arc::downgrade(&runtime.shared.workers);
    let couriers = Arc::downgrade(&runtime.shared.couriers);
    let closed = store(&runtime, |_| panic!("nobody does it"));
    closed.background.request(Task::Ahead);
    closed.run(|| ());
    let waiting = || {
        let metrics = runtime.metrics();
        (metrics.stores_waiting, metrics.calls_waiting)
    };
    assert_eq!(waiting(), (1, 1));
    closed.close();
    assert_eq!(waiting(), (0, 0));
    // A store that is given up without being closed.
    let lost = store(&runtime, |_| panic!("nobody does it"));
    lost.background.request(Task::Ahead);
    lost.run(|| panic!("nobody makes it"));
    assert_eq!(waiting(), (1, 1));
    drop((runtime, closed, lost));
    assert_eq!((workers.strong_count(), couriers.strong_count()), (0, 0));
}
