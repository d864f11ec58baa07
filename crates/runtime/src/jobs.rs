//! The job threads of a runtime: long work of its stores, such as flushes. The workers, which serve short
//! tasks of all stores, would keep everybody waiting with it.
//!
//! A store has a *lane* here. It asks for a kind of job; a thread that comes to it runs the store's
//! next piece of that kind, and puts the lane back at the end of the queue if there is more. So of
//! stores that all have much to do none waits for more than one piece of each other.
//!
//! # Invariants
//! - **J1** Of one store at most one flush and one merge run at a time. Of compactions, which keep apart by themselves,
//!   as many as there are threads for: each that has found something to do has the next one asked for.
//! - **J2** A job that is asked for begins after that: the request is forgotten before the job begins.
//!   What is asked for while no more may run is run behind one of them.
//! - **J3** Of several threads one is left to flushes, which writers may wait for; and a thread that
//!   becomes free looks for flushes first ([`may_run`]).
//! - **J4** Once [`Jobs::leave`] has returned, no job of the store runs and none will; unless it was called
//!   from that very job, which is the last one then.
//! - **J5** A lane keeps no store alive; a job does while it runs.
//! - **J6** No kind waits for ever behind more urgent ones: of a kind that might have been begun, and was passed over
//!   [`PASSED_OVER_MAX`] times, the next job is. Stores of one kind take turns. So whoever has endless work of any kinds
//!   keeps no other store's job from beginning for more than some pieces.
//!
//! Nothing that must happen waits for these threads alone: a writer that finds no room flushes by itself
//! (`room`). So a runtime that the system gives no thread goes on, only slower. Each request asks for the thread again,
//! also one for what was asked for before (`starter`).
//!
//! The one lock is a leaf: nothing is taken under it.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use thermocline_base::sync::{Condvar, Mutex, MutexGuard, lock, thread, wait};
use thermocline_env::Clock;

use crate::client::{Client, Job};
use crate::starter::Starter;

/// Jobs of more urgent kinds that are begun while one that is less urgent might be (J6). *Chosen* (commit fd7b735).
const PASSED_OVER_MAX: usize = 4;

/// Whether one more job of this kind may run on `threads` threads, beside those that do (J3).
fn may_run(job: Job, threads: usize, running: &[usize; Job::ALL.len()]) -> bool {
    let flushes = running[Job::Flush as usize];
    let others = running.iter().sum::<usize>() - flushes;
    match job {
        Job::Flush => flushes < threads,
        Job::Merge | Job::Compact => others < (threads - 1).max(1),
    }
}

/// How many of this kind may be of one store (J1).
fn threads_of_store(job: Job, threads: usize) -> usize {
    match job {
        Job::Flush | Job::Merge => 1,
        Job::Compact => (threads - 1).max(1),
    }
}

/// The place of one store.
struct Lane {
    client: Weak<dyn Client>,
    /// By kind: asked for, and not begun.
    asked: [bool; Job::ALL.len()],
    /// By kind: who runs it.
    running: [Vec<thread::ThreadId>; Job::ALL.len()],
    /// Nothing is begun any more.
    closed: bool,
}

impl Lane {
    fn is_idle(&self) -> bool {
        self.running.iter().all(Vec::is_empty)
    }
}

/// A job that is to be run: its lane, what it is, and whose.
type Begun = (u64, Job, Weak<dyn Client>);

#[derive(Default)]
struct State {
    lanes: BTreeMap<u64, Lane>,
    /// The number of the next lane.
    next: u64,
    /// By kind: lanes that have been asked and may run one more of it.
    ready: [VecDeque<u64>; Job::ALL.len()],
    /// By kind: jobs that run.
    running: [usize; Job::ALL.len()],
    /// By kind: how often another was begun though one of it might have been.
    passed_over: [usize; Job::ALL.len()],
    parked: usize,
    /// Threads that run or are being started.
    started: usize,
    ids: Vec<thread::ThreadId>,
    handles: Vec<thread::JoinHandle<()>>,
    stopping: bool,
}

impl State {
    /// Whether something waits for a thread.
    fn waits(&self) -> bool {
        self.ready.iter().any(|ready| !ready.is_empty())
    }

    /// Takes the next lane, and what to run for it, from the queues (J3, J6).
    fn take(&mut self, threads: usize) -> Option<(u64, Job)> {
        let can = |job: &Job| {
            !self.ready[*job as usize].is_empty() && may_run(*job, threads, &self.running)
        };
        let able: Vec<Job> = Job::ALL.into_iter().filter(can).collect();
        let was_passed_over = |job: &&Job| self.passed_over[**job as usize] >= PASSED_OVER_MAX;
        let job = *able.iter().find(was_passed_over).or(able.first())?;
        for other in able {
            self.passed_over[other as usize] += 1;
        }
        self.passed_over[job as usize] = 0;
        Some((self.ready[job as usize].pop_front()?, job))
    }

    /// Notes that a thread begins the next job.
    fn begin(&mut self, threads: usize, me: thread::ThreadId) -> Option<Begun> {
        let (number, job) = self.take(threads)?;
        let lane = self.lanes.get_mut(&number)?;
        let kind = job as usize;
        lane.asked[kind] = false;
        lane.running[kind].push(me);
        self.running[kind] += 1;
        Some((number, job, lane.client.clone()))
    }
}

/// See the module's text.
pub(crate) struct Jobs {
    state: Mutex<State>,
    /// Threads without work wait here.
    work: Condvar,
    /// Who leaves waits here for his jobs.
    ended: Condvar,
    pub starter: Starter,
    limit: usize,
}

/// What the job threads say about themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct JobsUse {
    pub threads: usize,
    pub running: usize,
    pub ready: usize,
}

impl Jobs {
    /// At most `limit` threads. With none jobs are run by whoever calls [`Jobs::step`], one at a time.
    pub fn new(limit: usize, clock: Arc<dyn Clock>) -> Arc<Jobs> {
        Arc::new(Jobs {
            state: Mutex::new(State::default()),
            work: Condvar::new(),
            ended: Condvar::new(),
            starter: Starter::new("thermocline-job", clock),
            limit,
        })
    }

    /// How many jobs may run at a time.
    fn places(&self) -> usize {
        self.limit.max(1)
    }

    /// A lane for the store `client`.
    pub fn enter(&self, client: Weak<dyn Client>) -> u64 {
        let mut state = lock(&self.state);
        state.next += 1;
        let number = state.next;
        let lane = Lane {
            client,
            asked: Default::default(),
            running: Default::default(),
            closed: false,
        };
        state.lanes.insert(number, lane);
        number
    }

    /// Has a job of this kind run soon.
    pub fn request(self: &Arc<Jobs>, lane: u64, job: Job) {
        let mut state = lock(&self.state);
        let kind = job as usize;
        let Some(own) = state.lanes.get_mut(&lane) else {
            return;
        };
        if own.closed {
            return;
        }
        if std::mem::replace(&mut own.asked[kind], true) {
            // It may wait for a thread that the system has refused.
            if state.parked == 0 && state.waits() && self.starter.may_ask_again() {
                self.wake(state);
            }
            return;
        }
        if own.running[kind].len() < threads_of_store(job, self.places()) {
            state.ready[kind].push_back(lane);
            self.wake(state);
        }
    }

    /// Has a job of this kind run soon in every lane.
    pub fn request_of_all(self: &Arc<Jobs>, job: Job) {
        let lanes: Vec<u64> = lock(&self.state).lanes.keys().copied().collect();
        lanes.into_iter().for_each(|lane| self.request(lane, job));
    }

    /// Whether a job of this kind is asked for, or runs, in another lane than this one.
    pub fn is_under_way_beside(&self, lane: u64, job: Job) -> bool {
        let kind = job as usize;
        let is_under_way = |own: &Lane| own.asked[kind] || !own.running[kind].is_empty();
        let state = lock(&self.state);
        let mut others = state.lanes.iter().filter(|(other, _)| **other != lane);
        others.any(|(_, own)| is_under_way(own))
    }

    /// Ends the jobs of a lane, and the lane (J4). The client sees to it that those that run end soon.
    pub fn leave(&self, lane: u64) {
        let me = thread::current().id();
        let mut state = lock(&self.state);
        let Some(own) = state.lanes.get_mut(&lane) else {
            return;
        };
        own.closed = true;
        own.asked = Default::default();
        for ready in &mut state.ready {
            ready.retain(|other| *other != lane);
        }
        let waits = |state: &State| {
            let own = state.lanes.get(&lane);
            own.is_some_and(|own| own.running.iter().flatten().any(|runner| *runner != me))
        };
        while waits(&state) {
            state = wait(&self.ended, state);
        }
        if state.lanes.get(&lane).is_some_and(Lane::is_idle) {
            state.lanes.remove(&lane);
        }
    }

    /// Sees to it that a thread looks, starting one where all are busy and more are allowed.
    fn wake(self: &Arc<Jobs>, mut state: MutexGuard<'_, State>) {
        if state.parked > 0 {
            self.work.notify_one();
            return;
        }
        // With others what was asked for waits for them meanwhile.
        let rests = state.started > 0 && self.starter.rests();
        if rests || state.started == self.limit || state.stopping {
            return;
        }
        state.started += 1;
        drop(state);
        let jobs = self.clone();
        let started = self.starter.start(move || jobs.work());
        let mut state = lock(&self.state);
        match started {
            Ok(handle) => state.handles.push(handle),
            // What was asked for waits for the others, or for the next request, of whatever store.
            Err(_) => {
                state.started -= 1;
                self.starter.refused();
            }
        }
    }

    fn work(self: Arc<Jobs>) {
        let me = thread::current().id();
        let mut state = lock(&self.state);
        state.ids.push(me);
        self.starter.forget();
        drop(state);
        while let Some(begun) = self.next(me) {
            self.run(begun, me);
        }
    }

    /// Runs on this thread what a job thread would run next; returns what it was.
    pub fn step(self: &Arc<Jobs>) -> Option<Job> {
        let me = thread::current().id();
        let begun = lock(&self.state).begin(self.places(), me)?;
        let job = begun.1;
        self.run(begun, me);
        Some(job)
    }

    fn run(self: &Arc<Jobs>, (lane, job, client): Begun, me: thread::ThreadId) {
        let again = match client.upgrade() {
            Some(client) => run(&*client, job),
            None => false,
        };
        self.done(lane, job, me, again);
    }

    /// The next job; `None` when there will be none any more.
    fn next(self: &Arc<Jobs>, me: thread::ThreadId) -> Option<Begun> {
        let mut locked = lock(&self.state);
        loop {
            if let Some(begun) = locked.begin(self.places(), me) {
                if locked.waits() {
                    // Others may have been asked before they had parked.
                    self.wake(locked);
                }
                return Some(begun);
            }
            if locked.stopping {
                return None;
            }
            locked.parked += 1;
            locked = wait(&self.work, locked);
            locked.parked -= 1;
        }
    }

    /// A job of the thread `me` has ended; `again` if there is more of it.
    fn done(self: &Arc<Jobs>, number: u64, job: Job, me: thread::ThreadId, again: bool) {
        let kind = job as usize;
        let mut state = lock(&self.state);
        state.running[kind] -= 1;
        let Some(lane) = state.lanes.get_mut(&number) else {
            return;
        };
        let was_full = lane.running[kind].len() == threads_of_store(job, self.places());
        lane.running[kind].retain(|runner| *runner != me);
        if lane.closed {
            if lane.is_idle() {
                state.lanes.remove(&number);
            }
            // Who leaves from one of the jobs waits for the others only.
            self.ended.notify_all();
            return;
        }
        // What was asked for while there was a place for it is in the queue already.
        let queued = lane.asked[kind] && !was_full;
        lane.asked[kind] |= again;
        if lane.asked[kind] && !queued {
            state.ready[kind].push_back(number);
        }
        // One that may not have been begun before, perhaps.
        if state.waits() {
            self.wake(state);
        }
    }

    /// Ends the threads, when there is no open store any more, and waits for them, unless this is one
    /// of them.
    pub fn stop(&self) {
        let mut state = lock(&self.state);
        state.stopping = true;
        let mine = state.ids.contains(&thread::current().id());
        drop(state);
        self.work.notify_all();
        loop {
            // One that ends now may be starting another one: by its end that is among them.
            let handles = std::mem::take(&mut lock(&self.state).handles);
            if handles.is_empty() || mine {
                return;
            }
            for handle in handles {
                // Whatever could panic there is caught.
                let _ = handle.join();
            }
        }
    }

    pub(super) fn usage(&self) -> JobsUse {
        let state = lock(&self.state);
        JobsUse {
            threads: state.started,
            running: state.running.iter().sum(),
            ready: state.ready.iter().map(VecDeque::len).sum(),
        }
    }
}

/// Runs a job; whether there is more of it.
fn run(client: &dyn Client, job: Job) -> bool {
    let ran = catch_unwind(AssertUnwindSafe(|| client.run_job(job)));
    ran.unwrap_or_else(|_| {
        client.panicked(&format!("{job:?}"));
        false
    })
}

#[cfg(test)]
mod tests;
