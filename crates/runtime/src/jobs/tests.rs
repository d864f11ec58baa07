//! Lanes and job threads, without stores. What must not happen too late would hang here.

use std::sync::mpsc::{Receiver, Sender, channel};

use thermocline_base::sync::{AtomicUsize, Ordering};
use thermocline_env::simulated::SimClock;

use super::super::Task;
use super::*;

/// A client whose jobs are a function.
struct Fake {
    run: Box<dyn Fn(Job) -> bool + Send + Sync>,
    panicked: Mutex<Vec<String>>,
}

impl Client for Fake {
    fn perform(&self, _: Task) {
        unreachable!("nobody asks for one")
    }

    fn run_job(&self, job: Job) -> bool {
        (self.run)(job)
    }

    fn panicked(&self, what: &str) {
        lock(&self.panicked).push(what.to_string());
    }
}

type Place = (Arc<Jobs>, u64);

struct Store {
    jobs: Arc<Jobs>,
    client: Arc<Fake>,
    lane: u64,
}

impl Store {
    fn new(jobs: &Arc<Jobs>, run: impl Fn(Job) -> bool + Send + Sync + 'static) -> Store {
        let client = Arc::new(Fake {
            run: Box::new(run),
            panicked: Mutex::default(),
        });
        let weak: Weak<Fake> = Arc::downgrade(&client);
        Store {
            lane: jobs.enter(weak),
            jobs: jobs.clone(),
            client,
        }
    }

    fn ask(&self) {
        self.ask_for(Job::Flush);
    }

    fn ask_for(&self, job: Job) {
        self.jobs.request(self.lane, job);
    }

    fn leave(&self) {
        self.jobs.leave(self.lane);
    }
}

/// Jobs of at most `limit` threads, by a clock that stands still.
fn jobs(limit: usize) -> Arc<Jobs> {
    Jobs::new(limit, Arc::new(SimClock::new()))
}

/// Something that a thread waits for, and how to end that.
fn door() -> (Receiver<()>, Sender<()>) {
    let (key, door) = channel();
    (door, key)
}

#[test]
fn a_store_has_one_flush_at_a_time_and_no_request_is_lost() {
    assert_eq!(most_at_a_time(Job::Flush), 1);
}

#[test]
fn a_store_has_several_compactions_at_a_time_and_no_request_is_lost() {
    // One thread is left to flushes.
    assert!(most_at_a_time(Job::Compact) <= 3);
}

/// Asks for many jobs, and sees to it that the last one is not forgotten.
fn most_at_a_time(job: Job) -> usize {
    let jobs = jobs(4);
    let (running, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let (asked, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let store = {
        let (most, asked, seen) = (most.clone(), asked.clone(), seen.clone());
        Store::new(&jobs, move |_| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            seen.fetch_max(asked.load(Ordering::SeqCst), Ordering::SeqCst);
            for _ in 0..20 {
                thread::yield_now();
            }
            running.fetch_sub(1, Ordering::SeqCst);
            false
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..5000 {
                    asked.fetch_add(1, Ordering::SeqCst);
                    store.ask_for(job);
                }
            });
        }
    });
    // Begun after the last request (J2).
    while seen.load(Ordering::SeqCst) < 15_000 {
        thread::yield_now();
    }
    store.leave();
    jobs.stop();
    most.load(Ordering::SeqCst)
}

/// Each of the two waits for the other.
#[test]
fn a_compaction_begins_while_another_one_runs() {
    let jobs = jobs(3);
    let both = Arc::new(std::sync::Barrier::new(2));
    let (begun, all) = channel();
    let begun = Mutex::new(begun);
    let store = Store::new(&jobs, move |_| {
        lock(&begun).send(()).unwrap();
        both.wait();
        false
    });
    store.ask_for(Job::Compact);
    all.recv().unwrap();
    store.ask_for(Job::Compact);
    all.recv().unwrap();
    store.leave();
    jobs.stop();
}

#[test]
fn stores_take_turns() {
    let jobs = jobs(1);
    let log: Arc<Mutex<Vec<usize>>> = Arc::default();
    let (done, all) = channel();
    let (gate, key) = door();
    let gate = Mutex::new(gate);
    let stores: Vec<Store> = (0..3)
        .map(|n| {
            let (log, done) = (log.clone(), done.clone());
            let pieces = AtomicUsize::new(0);
            Store::new(&jobs, move |_| {
                lock(&log).push(n);
                let piece = pieces.fetch_add(1, Ordering::SeqCst);
                if piece == 9 {
                    done.send(()).unwrap();
                }
                piece < 9
            })
        })
        .collect();
    // Nothing begins until all have asked.
    let first = Store::new(&jobs, move |_| {
        lock(&gate).recv().unwrap();
        false
    });
    first.ask();
    stores.iter().for_each(Store::ask);
    key.send(()).unwrap();
    (0..3).for_each(|_| all.recv().unwrap());
    let wanted: Vec<usize> = (0..30).map(|n| n % 3).collect();
    assert_eq!(*lock(&log), wanted);
    assert_eq!(jobs.usage().threads, 1);
    stores.iter().for_each(Store::leave);
    first.leave();
    jobs.stop();
}

#[test]
fn leaving_waits_for_the_job_that_runs_and_drops_what_was_asked_for() {
    let jobs = jobs(2);
    let (begun, has_begun) = door();
    let begun_sender = has_begun;
    let closing = Arc::new(AtomicUsize::new(0));
    let runs = Arc::new(AtomicUsize::new(0));
    let store = {
        let (closing, runs) = (closing.clone(), runs.clone());
        Store::new(&jobs, move |_| {
            begun_sender.send(()).unwrap();
            while closing.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            runs.fetch_add(1, Ordering::SeqCst);
            true
        })
    };
    store.ask();
    begun.recv().unwrap();
    // Behind the one that runs.
    store.ask();
    closing.store(1, Ordering::SeqCst);
    store.leave();
    let after = runs.load(Ordering::SeqCst);
    assert!(after >= 1);
    store.ask();
    store.leave();
    assert_eq!(Arc::strong_count(&store.client), 1);
    jobs.stop();
    assert_eq!(runs.load(Ordering::SeqCst), after);
    assert_eq!(
        jobs.usage(),
        JobsUse {
            threads: 2.min(jobs.usage().threads),
            ..JobsUse::default()
        }
    );
}

#[test]
fn a_job_may_close_its_own_store_and_one_that_panics_is_told() {
    let jobs = jobs(1);
    let (ended, has_ended) = channel();
    let cell: Arc<Mutex<Option<Place>>> = Arc::default();
    let own = {
        let cell = cell.clone();
        Store::new(&jobs, move |_| {
            let place = lock(&cell).take();
            if let Some((jobs, lane)) = place {
                jobs.leave(lane);
                jobs.request(lane, Job::Flush);
            }
            ended.send(()).unwrap();
            true
        })
    };
    *lock(&cell) = Some((jobs.clone(), own.lane));
    own.ask();
    has_ended.recv().unwrap();
    own.leave();
    let bad = Store::new(&jobs, |_| panic!("on purpose"));
    bad.ask();
    while lock(&bad.client.panicked).is_empty() {
        thread::yield_now();
    }
    assert_eq!(*lock(&bad.client.panicked), ["Flush"]);
    // The thread goes on.
    let (ended, has_ended) = channel();
    let good = Store::new(&jobs, move |_| {
        ended.send(()).unwrap();
        false
    });
    good.ask();
    has_ended.recv().unwrap();
    good.leave();
    bad.leave();
    jobs.stop();
    assert!(lock(&jobs.state).lanes.is_empty());
}

/// Where the system gives no other thread, and is not asked for one again at once.
#[test]
fn one_thread_runs_all_where_there_is_no_second() {
    let jobs = jobs(2);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let refuses = move || count.fetch_add(1, Ordering::SeqCst) > 0;
    jobs.starter.refuse_if(refuses);
    let (begun, has_begun) = channel();
    let (gate, key) = door();
    let gate = Mutex::new(gate);
    let first = Store::new(&jobs, move |_| {
        begun.send(()).unwrap();
        lock(&gate).recv().unwrap();
        false
    });
    first.ask();
    has_begun.recv().unwrap();
    let (done, all) = channel();
    let other = Store::new(&jobs, move |_| {
        done.send(()).unwrap();
        false
    });
    for _ in 0..100 {
        other.ask();
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    key.send(()).unwrap();
    all.recv().unwrap();
    first.leave();
    other.leave();
    jobs.stop();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(jobs.usage().threads, 1);
}

/// A job asks for another, whose thread would outlive the runtime for a moment.
#[test]
fn a_thread_that_is_started_while_all_end_is_waited_for() {
    let jobs = jobs(2);
    let (starts, is_starting) = channel();
    let (of, asked) = (Arc::downgrade(&jobs), AtomicUsize::new(0));
    jobs.starter.refuse_if(move || {
        if asked.fetch_add(1, Ordering::SeqCst) > 0 {
            starts.send(()).unwrap();
            // It is started only when all are told to end.
            while of.upgrade().is_some_and(|of| !lock(&of.state).stopping) {
                thread::yield_now();
            }
        }
        false
    });
    let other = Store::new(&jobs, |_| false);
    let (asks, lane) = (jobs.clone(), other.lane);
    let first = Store::new(&jobs, move |_| {
        asks.request(lane, Job::Flush);
        false
    });
    first.ask();
    is_starting.recv().unwrap();
    jobs.stop();
    assert!(lock(&jobs.state).handles.is_empty());
}

/// While other jobs run on and on, of whatever kinds, a flush finds a thread (J3).
#[test]
fn one_thread_is_left_to_flushes() {
    let jobs = jobs(3);
    let open = Arc::new(AtomicUsize::new(0));
    let (began, begun) = channel();
    let (flushed, flushes) = channel();
    let stores: Vec<Store> = (0..4)
        .map(|_| {
            let (open, began, flushed) = (open.clone(), began.clone(), flushed.clone());
            Store::new(&jobs, move |job| {
                if job == Job::Flush {
                    flushed.send(()).unwrap();
                    return false;
                }
                began.send(()).unwrap();
                while open.load(Ordering::SeqCst) == 0 {
                    thread::yield_now();
                }
                false
            })
        })
        .collect();
    for (i, store) in stores.iter().enumerate() {
        jobs.request(store.lane, [Job::Merge, Job::Compact][i % 2]);
    }
    for _ in 0..2 {
        begun.recv().unwrap();
    }
    for store in &stores {
        store.ask();
        flushes.recv().unwrap();
    }
    assert!(
        begun.try_recv().is_err(),
        "both kinds together have two threads"
    );
    open.store(1, Ordering::SeqCst);
    for _ in 0..2 {
        begun.recv().unwrap();
    }
    stores.iter().for_each(Store::leave);
    jobs.stop();
}

/// Jobs of a store with endless work of the kinds `endless` that are begun between the request of another store for
/// one job and its beginning, at most, while that might have begun. Nobody runs them: here they begin, and end in a drawn order.
fn most_before_begun(threads: usize, endless: &[Job], asked: Job) -> usize {
    let mut rng = thermocline_testkit::Rng::new(threads as u64);
    let jobs = jobs(threads);
    // So that none is started.
    lock(&jobs.state).started = threads;
    let new = || Store::new(&jobs, |_| unreachable!("nobody runs it"));
    let (greedy, modest) = (new(), new());
    let me = |_| thread::spawn(|| thread::current().id()).join().unwrap();
    let ids: Vec<_> = (0..threads).map(me).collect();
    let mut runs: Vec<Option<(u64, Job)>> = vec![None; threads];
    let (mut waits, mut most, mut served) = (None, 0, 0);
    endless.iter().for_each(|job| greedy.ask_for(*job));
    for _ in 0..20_000 {
        // A store has one flush at a time: behind its own it would not wait for the other.
        let mut running = runs.iter().flatten();
        let idle = running.all(|(lane, _)| *lane != modest.lane);
        if idle && waits.is_none() && rng.one_in(5) {
            modest.ask_for(asked);
            waits = Some(0);
        }
        let n = rng.below(threads);
        if let Some((lane, job)) = runs[n].take() {
            jobs.done(lane, job, ids[n], lane == greedy.lane);
            continue;
        }
        let mut state = lock(&jobs.state);
        // Otherwise it waits for a job to end, whoever's.
        let might = may_run(asked, threads, &state.running);
        let begun = state.begin(threads, ids[n]);
        drop(state);
        let Some((lane, job, _)) = begun else {
            continue;
        };
        runs[n] = Some((lane, job));
        if lane == modest.lane {
            most = most.max(waits.take().expect("it was asked for"));
            served += 1;
        } else {
            waits = waits.map(|before: usize| before + usize::from(might));
            // As compactions ask for the next one as soon as they have found something.
            greedy.ask_for(job);
        }
    }
    assert!(served > 500, "{asked:?} came to {served} jobs only");
    most
}

/// A store with endless work of whatever kinds keeps another one's from beginning only for some pieces (J6).
#[test]
fn endless_work_of_one_store_lets_others_take_turns() {
    for threads in [1, 2, 4] {
        for endless in [
            &[Job::Compact][..],
            &[Job::Flush],
            &[Job::Merge, Job::Compact],
            &[Job::Flush, Job::Merge, Job::Compact],
        ] {
            for asked in Job::ALL {
                let most = most_before_begun(threads, endless, asked);
                // Two kinds may pass over it, and before it in the queue is one of its own kind.
                let bound = 2 * (PASSED_OVER_MAX + 2);
                assert!(
                    most <= bound,
                    "{threads} threads, {endless:?}: {asked:?} began after {most} jobs"
                );
            }
        }
    }
}
