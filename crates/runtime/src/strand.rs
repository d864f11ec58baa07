//! A strand: what is to be done for one store in the background, one thing at a time.
//!
//! A store has two. One has its *tasks*, the store's own work, each waiting at most once; workers run
//! them. The other has its *calls*, which are owed to the user: callbacks of commits and deliveries of
//! events; couriers make them. Each keeps the order in which they came, and neither waits for the
//! other: what the user does in a call holds up that store's other calls, and nothing else.
//!
//! # Invariants
//! - **R1** At most one thread runs jobs of a strand: the one in `running`. It is a worker or courier, or
//!   whoever closes the store or, without couriers, ends a call of it.
//! - **R2** A task that is requested begins after the request. Its bit in `flags` is set by the request
//!   and cleared before the task begins. A request that finds the bit set does nothing but ask for a
//!   worker again, where there is none. So what it asks for must be seen by the task. It is if the task
//!   reads it under a lock that the requester held when it changed it: had the task held the lock first,
//!   then clearing the bit would have happened before the request looked. It is too if both are
//!   sequentially consistent, as the bit is.
//! - **R3** Every call is made, once, whatever becomes of the store.
//! - **R4** Once [`Strand::stop`] has returned, no task runs and none will.
//! - **R5** A strand keeps no store alive, and the threads' queues keep no store alive.
//! - **R6** No task waits for a call, and no thread that runs tasks makes one.
//!
//! # Closing
//! `stop` drops the tasks that wait and waits for the one that runs. Then the store is closed, and
//! [`Strand::end`] waits for the call that is being made, and makes those that are left, on its own
//! thread: the couriers may all be in calls that wait for this one. From a call of the user, of
//! whatever store and runtime, nobody waits for another ([`is_calling`]): two stores' callbacks that close
//! each other's store must not wait for each other. What is left is made when the present one returns.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use thermocline_base::sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering, lock, thread, wait};

use thermocline_observe::events::Call;

use crate::calling::{Calling, is_calling};
use crate::client::{Client, Task};
use crate::workers::{Turns, Workers};

/// A turn's end: as many jobs of one store are run before another store gets its turn. *Chosen* (commit 738ad3c).
const JOBS_PER_TURN: usize = 64;

/// In `flags`: the task waits to be run.
fn queued(task: Task) -> u32 {
    1 << (2 * task as u32)
}

/// In `flags`: the task waits for its time.
fn timed(task: Task) -> u32 {
    2 << (2 * task as u32)
}

/// In `flags`: no worker comes. The store has none, or the system gave none, as far as is known; then each request asks for
/// one again. Calls are made at the end of a call of the store.
const ALONE: u32 = 1 << 31;

/// See the module's text.
pub(crate) struct Strand {
    flags: Flags,
    queue: Mutex<Queue>,
    /// Who closes waits here for `running` and `stage`.
    changed: Condvar,
    client: Weak<dyn Client>,
    /// Those who run its jobs. `None`: there are no tasks, and calls are made at the end of a call of
    /// the store.
    workers: Option<Arc<Workers>>,
}

/// On a line of its own: every write looks at it, and what lies beside it may change often.
#[repr(align(128))]
struct Flags(AtomicU32);

struct Queue {
    tasks: VecDeque<Task>,
    calls: VecDeque<Call>,
    /// Whether the workers have it: in their queue, or one of them runs it.
    scheduled: bool,
    running: Option<Running>,
    stage: Stage,
    /// Threads that wait on `changed`.
    waiting: usize,
}

#[derive(Clone, Copy)]
struct Running {
    thread: thread::ThreadId,
    task: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// No tasks any more.
    Stopped,
    /// Nobody comes for calls any more.
    Ended,
}

enum Job {
    Task(Task),
    Call(Call),
}

impl Strand {
    pub fn new(client: Weak<dyn Client>, workers: Option<Arc<Workers>>) -> Arc<Strand> {
        Arc::new(Strand {
            flags: Flags(AtomicU32::new(0)),
            queue: Mutex::new(Queue {
                tasks: VecDeque::new(),
                calls: VecDeque::new(),
                scheduled: false,
                running: None,
                stage: Stage::Open,
                waiting: 0,
            }),
            changed: Condvar::new(),
            client,
            workers,
        })
    }

    /// Has `task` done soon. Costs a load where that was asked for already.
    #[inline]
    pub fn request(self: &Arc<Strand>, task: Task) {
        let flags = self.flags.0.load(Ordering::SeqCst);
        if flags & queued(task) == 0 {
            self.request_anew(task);
        }
        if flags & ALONE != 0 {
            self.ask_again();
        }
    }

    #[cold]
    fn request_anew(self: &Arc<Strand>, task: Task) {
        let before = self.flags.0.fetch_or(queued(task), Ordering::SeqCst);
        if before & queued(task) != 0 || self.workers.is_none() {
            return;
        }
        let mut queue = lock(&self.queue);
        if queue.stage == Stage::Open {
            queue.tasks.push_back(task);
            self.schedule(queue);
        }
    }

    /// Has `task` done after `delay`. Changes nothing, and costs a load, where it is to be done
    /// already, at whatever time.
    #[inline]
    pub fn request_after(self: &Arc<Strand>, task: Task, delay: Duration) {
        let pending = queued(task) | timed(task);
        let flags = self.flags.0.load(Ordering::SeqCst);
        if flags & pending == 0 {
            self.request_anew_after(task, delay);
        }
        if flags & ALONE != 0 {
            self.ask_again();
        }
    }

    #[cold]
    fn request_anew_after(self: &Arc<Strand>, task: Task, delay: Duration) {
        let before = self.flags.0.fetch_or(timed(task), Ordering::SeqCst);
        if before & timed(task) != 0 {
            return;
        }
        if let Some(workers) = &self.workers {
            workers.arm(self.clone(), task, delay);
            // A job may ask while the store is closed, and after timers were forgotten.
            if lock(&self.queue).stage != Stage::Open {
                workers.forget(self.as_ref());
            }
        }
    }

    /// Whether the system has given it nobody, as far as is known: an attempt that is under way may fail yet.
    pub fn is_alone(&self) -> bool {
        let is_told = self.flags.0.load(Ordering::SeqCst) & ALONE != 0;
        let nobody = |workers: &Arc<Workers>| !workers.has_any();
        is_told || self.workers.as_ref().is_some_and(nobody)
    }

    /// Whether there is nobody for its jobs, and the system gives nobody now, though there is no job yet.
    pub fn finds_nobody(&self) -> bool {
        let nobody = |workers: &Arc<Workers>| !workers.has_or_starts_any();
        self.workers.as_ref().is_some_and(nobody)
    }

    /// It was told that no worker comes, and something is asked for.
    #[cold]
    fn ask_again(&self) {
        let comes = self.workers.as_ref().is_some_and(Workers::ask_again);
        // Now that there is one, nobody tells it again.
        if comes {
            self.flags.0.fetch_and(!ALONE, Ordering::SeqCst);
        }
    }

    /// Makes `call` in the background, after all calls before it. May be asked for under any lock;
    /// after the end the call is made at once.
    pub fn run(self: &Arc<Strand>, call: Call) {
        let mut queue = lock(&self.queue);
        let is_idle = queue.running.is_none() && queue.calls.is_empty();
        if queue.stage == Stage::Ended && is_idle {
            drop(queue);
            return self.make(call);
        }
        queue.calls.push_back(call);
        if queue.stage == Stage::Open {
            self.schedule(queue);
        } else {
            drop(queue);
        }
        // Last: the attempt to start a courier may just have failed, now or when an earlier call asked.
        let comes = self.workers.as_ref().is_some_and(Workers::ask_again);
        if !comes {
            self.flags.0.fetch_or(ALONE, Ordering::SeqCst);
        }
    }

    /// Makes the calls that wait, if there are no workers to do it. For the end of a call of the
    /// store, when no lock is held.
    #[inline]
    pub fn settle(&self) {
        if self.flags.0.load(Ordering::SeqCst) & ALONE != 0 {
            let queue = lock(&self.queue);
            if queue.running.is_none() {
                drop(self.make_all(queue));
            }
        }
    }

    fn schedule(self: &Arc<Strand>, mut queue: MutexGuard<'_, Queue>) {
        if let Some(workers) = &self.workers
            && !std::mem::replace(&mut queue.scheduled, true)
        {
            drop(queue);
            workers.ready(self.clone());
        }
    }

    /// The next job for the thread `me` (R1), whose last one is done.
    fn next(&self, me: thread::ThreadId) -> Option<Job> {
        let mut queue = lock(&self.queue);
        if queue.running.is_some_and(|running| running.thread != me) {
            // Whoever closes the store makes what is left.
            queue.scheduled = false;
            return None;
        }
        let task = queue.tasks.pop_front().map(Job::Task);
        let job = task.or_else(|| queue.calls.pop_front().map(Job::Call));
        let running = job.as_ref().map(|job| Running {
            thread: me,
            task: matches!(job, Job::Task(_)),
        });
        self.set_running(&mut queue, running);
        queue.scheduled = job.is_some();
        job
    }

    /// Whether nothing waits and nothing runs.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        let queue = lock(&self.queue);
        queue.tasks.is_empty() && queue.calls.is_empty() && queue.running.is_none()
    }

    fn set_running(&self, queue: &mut Queue, running: Option<Running>) {
        queue.running = running;
        if queue.waiting > 0 {
            self.changed.notify_all();
        }
    }

    fn perform(&self, job: Job) {
        match job {
            Job::Call(call) => self.make(call),
            Job::Task(task) => {
                // Before it begins (R2).
                self.flags.0.fetch_and(!queued(task), Ordering::SeqCst);
                let Some(client) = self.client.upgrade() else {
                    return;
                };
                if catch_unwind(AssertUnwindSafe(|| client.perform(task))).is_err() {
                    client.panicked(&format!("{task:?}"));
                }
            }
        }
    }

    /// Makes a call. Its panic is the user's and has been reported by the hook: it ends the call, and
    /// neither the thread nor the store.
    fn make(&self, call: Call) {
        let _calling = Calling::begin();
        if catch_unwind(AssertUnwindSafe(call)).is_err() {
            self.count_panic();
        }
    }

    /// Counts a panic of the user's that ended less than a call.
    pub fn count_panic(&self) {
        if let Some(workers) = &self.workers {
            workers.count_panic();
        }
    }

    /// Makes all calls on this thread. Nobody else runs anything (R1).
    fn make_all<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let me = thread::current().id();
        while let Some(call) = queue.calls.pop_front() {
            queue.running = Some(Running {
                thread: me,
                task: false,
            });
            drop(queue);
            self.make(call);
            queue = lock(&self.queue);
        }
        self.flags.0.fetch_and(!ALONE, Ordering::SeqCst);
        self.set_running(&mut queue, None);
        queue
    }

    /// Ends the tasks (R4).
    pub fn stop(self: &Arc<Strand>) {
        let me = thread::current().id();
        let mut queue = lock(&self.queue);
        queue.stage = Stage::Stopped;
        queue.tasks.clear();
        while let Some(running) = queue.running
            && running.task
            && running.thread != me
        {
            queue = self.park(queue);
        }
        drop(queue);
        if let Some(workers) = &self.workers {
            workers.forget(self.as_ref());
        }
    }

    /// Makes what is left (R3), or sees to it that it is made.
    pub fn end(&self) {
        let waits = !is_calling();
        let mut queue = lock(&self.queue);
        while queue.running.is_some() && waits {
            queue = self.park(queue);
        }
        if queue.running.is_none() {
            queue = self.make_all(queue);
        }
        queue.stage = Stage::Ended;
        self.changed.notify_all();
        // Another thread that makes calls still makes those that are left, and may wait for its next turn with them.
        let is_done = queue.running.is_none();
        drop(queue);
        if let Some(workers) = self.workers.as_ref().filter(|_| is_done) {
            workers.forget(self);
        }
    }

    /// Waits until another thread, which is closing the store, has ended that.
    pub fn wait_ended(&self) {
        let waits = !is_calling();
        let mut queue = lock(&self.queue);
        while queue.stage != Stage::Ended && waits {
            queue = self.park(queue);
        }
    }

    fn park<'a>(&self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.waiting += 1;
        let mut queue = wait(&self.changed, queue);
        queue.waiting -= 1;
        queue
    }
}

/// [`Strand::settle`], when it is dropped.
pub(crate) struct SettledAfter<'a>(pub &'a Strand);

impl Drop for SettledAfter<'_> {
    fn drop(&mut self) {
        self.0.settle();
    }
}

impl Turns for Strand {
    /// Some jobs, and if there are more, back to the end of the workers' queue.
    fn turn(self: Arc<Strand>) {
        let me = thread::current().id();
        for _ in 0..JOBS_PER_TURN {
            let Some(job) = self.next(me) else { return };
            self.perform(job);
        }
        let mut queue = lock(&self.queue);
        self.set_running(&mut queue, None);
        let more = !queue.tasks.is_empty() || !queue.calls.is_empty();
        queue.scheduled = false;
        if more {
            self.schedule(queue);
        }
    }

    fn due(self: Arc<Strand>, task: Task) {
        self.flags.0.fetch_and(!timed(task), Ordering::SeqCst);
        self.request(task);
    }

    fn alone(&self) {
        self.flags.0.fetch_or(ALONE, Ordering::SeqCst);
    }
}

impl std::fmt::Debug for Strand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Strand").finish_non_exhaustive()
    }
}
