//! The worker threads of a runtime, the queue of strands that have something to do, and the one place
//! where deadlines wait.
//!
//! A runtime has two of these: the workers, which run tasks, and the couriers, which make calls and
//! have no deadlines. A call may last for ever, and takes a courier with it; so there are as many as
//! stores are in calls at a time, up to a limit.
//!
//! A strand is in the queue at most once, and a worker that has had its turn with it puts it back at
//! the end: so no store waits for more than one turn of each other store. Threads start when there is
//! something for them to do, and end with the runtime.
//!
//! # Deadlines
//! Whoever is without work waits for the earliest. Who takes work leaves that to another one, wakes it, or starts it where
//! there may be one more: while a task takes long, deadlines are kept. With all workers in tasks they wait.
//!
//! # Where the system gives no thread
//! Later requests ask for it again ([`Workers::ask_again`]), and nobody is forgotten:
//!
//! - Who waits for a worker is in `ready` or in `timers`. The first worker takes them all, whoever asked for it.
//! - While there is none, whoever comes anew tries to start one, or relies on an attempt that is under way. Each
//!   attempt that fails and leaves none tells all who wait ([`Turns::alone`]), under the lock; so whoever relied on it
//!   is told, too. Who was told asks again with each request.
//! - Once there is a worker there always is one, until the runtime ends. So nobody is told any more once `given` is
//!   set, and who sees that after having been told has nothing to ask for. Before, an attempt that is under way may fail
//!   yet: who must not wait in vain does without it ([`Workers::has_any`]), or waits for its end
//!   ([`Workers::has_or_starts_any`]).
//! - Where some were started and one more is refused, the work waits for them. A call may hold up its courier for ever.
//!   So each further call asks for another one again.
//!
//! Lock order: a strand's queue is never locked under `state`, nor `state` under a strand's queue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use thermocline_base::sync::{
    AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, lock, thread, wait, wait_for,
};
use thermocline_env::Clock;

use crate::calling::is_calling;
use crate::client::Task;
use crate::starter::Starter;

/// What waits for a worker: a strand. One thing at a time is done for it.
pub(crate) trait Turns: Send + Sync {
    /// A worker's turn with it.
    fn turn(self: Arc<Self>);

    /// The time of `task` has come.
    fn due(self: Arc<Self>, task: Task);

    /// No worker comes: there is none, and the system gives none. Must take no lock.
    fn alone(&self);
}

/// See the module's text.
pub(crate) struct Workers {
    state: Mutex<State>,
    /// Workers without work wait here.
    changed: Condvar,
    /// Who wants to know whether there will be a first worker waits here.
    tried: Condvar,
    pub starter: Starter,
    limit: usize,
    clock: Arc<dyn Clock>,
    /// Whether the system gave not even one thread. Changed under the lock.
    failed: AtomicBool,
    /// Whether it ever gave one. Set under the lock.
    given: AtomicBool,
    panics: AtomicU64,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Arc<dyn Turns>>,
    /// The earliest first.
    timers: BinaryHeap<Reverse<Timer>>,
    /// Timers ever made: tells those of one deadline apart.
    armed: u64,
    /// Until which deadline each worker without work waits; `u64::MAX` where there was none.
    parked: Vec<u64>,
    /// Threads that run or are being started.
    started: usize,
    /// Of those, the ones that have not looked for work yet, and will take some.
    starting: usize,
    ids: Vec<thread::ThreadId>,
    handles: Vec<thread::JoinHandle<()>>,
    stopping: bool,
}

impl State {
    /// The first deadline.
    fn earliest(&self) -> Option<u64> {
        self.timers.peek().map(|timer| timer.0.key.0)
    }

    /// Whether there is a deadline, and nobody without work waits for the first.
    fn is_unwatched(&self) -> bool {
        let earliest = self.earliest();
        earliest.is_some_and(|earliest| self.parked.iter().all(|until| *until > earliest))
    }

    /// A worker that waited until that deadline does not wait any more.
    fn unpark(&mut self, until: u64) {
        if let Some(at) = self.parked.iter().position(|other| *other == until) {
            self.parked.swap_remove(at);
        }
    }

    /// Whether nobody takes anything any more.
    fn is_over(&self) -> bool {
        self.stopping && self.started == 0
    }

    /// Tells all who wait for a worker that none comes.
    fn forsake(&self) {
        let timers = self.timers.iter().map(|timer| &timer.0.strand);
        let all = self.ready.iter().chain(timers);
        all.for_each(|strand| strand.alone());
    }
}

struct Timer {
    /// Its deadline by the clock, and its number.
    key: (u64, u64),
    strand: Arc<dyn Turns>,
    task: Task,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Timer) -> bool {
        self.key == other.key
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Timer) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Timer) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// What the workers say about themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct WorkersUse {
    pub threads: usize,
    pub ready: usize,
    pub timers: usize,
    pub panics: u64,
}

impl Workers {
    /// At most `limit` threads of this name. With none the work is done by whoever calls [`Workers::step`].
    pub fn new(name: &'static str, limit: usize, clock: Arc<dyn Clock>) -> Arc<Workers> {
        Arc::new(Workers {
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            tried: Condvar::new(),
            starter: Starter::new(name, clock.clone()),
            limit,
            clock,
            failed: AtomicBool::new(false),
            given: AtomicBool::new(false),
            panics: AtomicU64::new(0),
        })
    }

    /// A strand has something to do and is not in the queue.
    pub fn ready(self: &Arc<Workers>, strand: Arc<dyn Turns>) {
        let mut state = lock(&self.state);
        // It would stay for ever, and it holds these workers.
        if state.is_over() {
            return;
        }
        state.ready.push_back(strand);
        self.wake(state);
    }

    /// Requests `task` of `strand` after `delay`.
    pub fn arm(self: &Arc<Workers>, strand: Arc<dyn Turns>, task: Task, delay: Duration) {
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let deadline = self.clock.now_ns().saturating_add(delay);
        let mut state = lock(&self.state);
        if state.stopping {
            return;
        }
        let earliest = state.earliest().is_none_or(|at| deadline < at);
        state.armed += 1;
        let key = (deadline, state.armed);
        state.timers.push(Reverse(Timer { key, strand, task }));
        // Where there is no worker, nobody comes for the earliest either.
        if earliest || self.failed.load(Ordering::SeqCst) {
            self.wake(state);
        }
    }

    /// Forgets the timers of `strand`, and its place in the queue.
    pub fn forget<T: Turns>(&self, strand: &T) {
        let is_other = |other: &Arc<dyn Turns>| {
            let other = Arc::as_ptr(other).cast::<T>();
            other != std::ptr::from_ref(strand)
        };
        let mut state = lock(&self.state);
        state.timers.retain(|timer| is_other(&timer.0.strand));
        state.ready.retain(is_other);
    }

    /// Sees to it that a worker looks, starting one where all are busy and more are allowed.
    fn wake(self: &Arc<Workers>, mut state: MutexGuard<'_, State>) {
        if !state.parked.is_empty() {
            self.changed.notify_one();
            return;
        }
        let comes = state.starting > 0 && state.starting >= state.ready.len();
        // With others the work waits for them meanwhile. With none there is an attempt for whatever comes anew: that
        // is no more than once for each task of a store, since those wait from then on.
        let rests = state.started > 0 && self.starter.rests();
        if comes || rests || state.started == self.limit || state.stopping {
            return;
        }
        state.started += 1;
        state.starting += 1;
        drop(state);
        let workers = self.clone();
        let started = self.starter.start(move || workers.work());
        let mut state = lock(&self.state);
        self.tried.notify_all();
        match started {
            Ok(handle) => {
                state.handles.push(handle);
                self.failed.store(false, Ordering::SeqCst);
                self.given.store(true, Ordering::SeqCst);
            }
            Err(_) => {
                state.started -= 1;
                state.starting -= 1;
                self.starter.refused();
                // With others the work waits for them. With none tasks wait for a later request, and
                // calls are made at the end of a call of the store.
                if state.started == 0 {
                    self.failed.store(true, Ordering::SeqCst);
                    state.forsake();
                }
            }
        }
    }

    /// Whether there is any worker, or whoever steps takes its place.
    #[inline]
    pub fn has_any(&self) -> bool {
        self.limit == 0 || self.given.load(Ordering::SeqCst)
    }

    /// Whether there is any worker. Where none was ever started one is, though nothing waits for it, but not just after the
    /// system has refused one. Waits for an attempt that is under way. Costs a load where there is a worker.
    #[inline]
    pub fn has_or_starts_any(self: &Arc<Workers>) -> bool {
        self.has_any() || self.starts_first()
    }

    #[cold]
    fn starts_first(self: &Arc<Workers>) -> bool {
        let state = lock(&self.state);
        if state.started == 0 && !self.starter.rests() {
            self.wake(state);
        } else {
            drop(state);
        }
        // Somebody else's attempt may be under way.
        let mut state = lock(&self.state);
        while state.starting > 0 && !self.has_any() {
            state = wait(&self.tried, state);
        }
        self.has_any()
    }

    /// Tries again to start a worker that the system has refused, where something waits for one, but not just after
    /// the refusal. Returns whether there is any worker, or an attempt to start one that has not failed: who relied on one that
    /// fails is told. Costs two loads where nothing was refused.
    pub fn ask_again(self: &Arc<Workers>) -> bool {
        if self.starter.may_ask_again() {
            let state = lock(&self.state);
            let waits = !state.ready.is_empty() || !state.timers.is_empty();
            match waits && state.parked.is_empty() {
                true => self.wake(state),
                false => self.starter.forget(),
            }
        }
        !self.failed.load(Ordering::SeqCst)
    }

    fn work(self: Arc<Workers>) {
        let mut state = lock(&self.state);
        state.ids.push(thread::current().id());
        state.starting -= 1;
        // Perhaps before who has started it says so.
        self.given.store(true, Ordering::SeqCst);
        self.tried.notify_all();
        self.starter.forget();
        while let Some(strand) = self.next(state) {
            strand.turn();
            state = lock(&self.state);
        }
    }

    /// The next strand with something to do; `None` when there will be none any more.
    fn next<'a>(
        self: &'a Arc<Workers>,
        mut state: MutexGuard<'a, State>,
    ) -> Option<Arc<dyn Turns>> {
        loop {
            let (strand, wait_ns);
            (state, strand, wait_ns) = self.take(state);
            if let Some(strand) = strand {
                // Others may have been asked before they had parked; and this may be who waited for the first deadline.
                if !state.ready.is_empty() || state.is_unwatched() {
                    self.wake(state);
                }
                return Some(strand);
            }
            if state.stopping {
                state.started -= 1;
                return None;
            }
            let until = state.earliest().unwrap_or(u64::MAX);
            state.parked.push(until);
            state = match wait_ns {
                Some(ns) => wait_for(&self.changed, state, Duration::from_nanos(ns)),
                None => wait(&self.changed, state),
            };
            state.unpark(until);
        }
    }

    /// Requests the tasks whose time has come, and takes the next strand out of the queue. Beside it the time until
    /// the next deadline, if there is one.
    fn take<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, Option<Arc<dyn Turns>>, Option<u64>) {
        loop {
            let now = match state.timers.is_empty() {
                true => 0,
                false => self.clock.now_ns(),
            };
            let earliest = state.earliest();
            if earliest.is_some_and(|deadline| deadline <= now)
                && let Some(Reverse(timer)) = state.timers.pop()
            {
                drop(state);
                timer.strand.due(timer.task);
                state = lock(&self.state);
                continue;
            }
            let strand = state.ready.pop_front();
            return (state, strand, earliest.map(|at| at - now));
        }
    }

    /// Does on this thread what a worker would do next; whether there was anything.
    pub fn step(&self) -> bool {
        let (state, strand, _) = self.take(lock(&self.state));
        drop(state);
        let Some(strand) = strand else { return false };
        strand.turn();
        true
    }

    /// Ends the threads, when there is no open store any more, and waits for them, unless this is one
    /// of them, or in a call of the user's, for which another may wait.
    pub fn stop(&self) {
        let mut state = lock(&self.state);
        state.stopping = true;
        state.timers.clear();
        // A thread takes all that waits before it ends. Where there is none nobody does; and a strand holds its workers, which
        // would stay with it.
        let left = match state.started {
            0 => std::mem::take(&mut state.ready),
            _ => VecDeque::new(),
        };
        drop(state);
        // Its calls are the user's, so not under the lock.
        drop(left);
        self.changed.notify_all();
        let waits = !self.has(thread::current().id()) && !is_calling();
        loop {
            // One that ends now may be starting another one: by its end that is among them.
            let handles = std::mem::take(&mut lock(&self.state).handles);
            if handles.is_empty() || !waits {
                return;
            }
            for handle in handles {
                // Whatever could panic there is caught.
                let _ = handle.join();
            }
        }
    }

    /// Lets the workers look at the clock again.
    pub fn look(&self) {
        // Under the lock, so that a worker that has looked already does not miss it.
        let _state = lock(&self.state);
        self.changed.notify_all();
    }

    /// Whether `thread` is one of them.
    fn has(&self, thread: thread::ThreadId) -> bool {
        lock(&self.state).ids.contains(&thread)
    }

    /// A call of the user has panicked.
    pub fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn usage(&self) -> WorkersUse {
        let state = lock(&self.state);
        WorkersUse {
            threads: state.started,
            ready: state.ready.len(),
            timers: state.timers.len(),
            panics: self.panics.load(Ordering::Relaxed),
        }
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.usage().fmt(f)
    }
}

/// What tests ask.
#[cfg(test)]
impl Workers {
    /// Whether each of its threads waits for work.
    pub fn all_wait(&self) -> bool {
        let state = lock(&self.state);
        state.parked.len() == state.started
    }
}

#[cfg(test)]
mod tests;
