//! The runtime: what the stores of one process share. Worker threads, so that hundreds of stores do
//! not cost hundreds of threads; and the budget of DRAM, so that they stay below one limit together
//! (`thermocline_base::budget`).
//!
//! A store holds its runtime until it is closed, and the runtime's threads end when nobody holds it
//! any more. The threads hold neither: a store that is dropped is closed, whatever waits for it here.
//!
//! # Vocabulary
//! - A *task* is the store's own work; a *call* is user code that a store owes (a callback, an event).
//! - A *strand* (`strand`) has the tasks of one store, which run one at a time; another has its calls.
//! - The *workers* (`workers`) are the threads that run tasks, with the strands that are ready and the
//!   deadlines; the *couriers* are those that make calls.
//! - A *job* (`jobs`) is the store's own work that takes long. Jobs have threads of their own.
//! - A *starter* (`starter`) starts threads, and asks again for those that the system refuses.
//!
//! # User code holds up nothing but user code
//! A call may block, for ever. So no task and no job is behind a call (R6 in `strand`): what is to be
//! durable after a second is, whatever callbacks, listeners and wakers do. A store's calls are made one
//! after another, in their order, so one that blocks holds up that store's later ones. Other stores' calls
//! go on, since each store that is in a call has a courier of its own; only while [`COURIERS_MAX`] stores
//! are blocked at a time do the calls of further ones wait. What waits is bounded: events that
//! wait for a listener by dropping and counting those above a limit (`events`), callbacks by making
//! whoever commits wait (`commit::ack`), unless it is in a call itself.
//!
//! # What an open store costs
//! No thread; an entry in the tables below where it has asked for something. Idle, it asks for nothing:
//! its timers are set by writes, and by work that left something to be looked at again; no timer sets itself anew for ever.
//!
//! # Rejected
//! - *A thread for each store*, as it was: 300 stores were 300 threads, each waking once a second.
//! - *A timer wheel*: a store has at most one timer for each kind of task, so the heap is small.
//! - *Calls on the workers*, as it was: one callback that blocked kept the buffered writes of all stores
//!   from becoming durable.
//! - *A thread for the calls of each store that has any*: hundreds of stores with listeners would be
//!   hundreds of threads, though calls are hardly ever made at the same time.
//! - *Stealing between queues of several workers*: tasks are few and long, and a lock held for a push
//!   is not what they wait for.

#![forbid(unsafe_code)]

mod calling;
mod client;
mod jobs;
mod metrics;
mod options;
mod starter;
mod strand;
mod workers;

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thermocline_base::budget::Budget;
use thermocline_base::options::DRAM_MIN;
use thermocline_base::size::index;
use thermocline_base::sync::{AtomicUsize, Mutex, Ordering, SCHEDULED, lock};
use thermocline_base::{Error, Result};
use thermocline_env::{Clock, real::RealClock};
use thermocline_exec::{BatchReader, BufPool, UnderWay};
use thermocline_observe::events::{Call, Courier};

pub use thermocline_exec::{AsyncReader, AsyncUse, JobIo, JobIoUse, Refused};

pub use calling::is_calling;
pub use client::{Client, Job, Task};
use jobs::Jobs;
pub use metrics::RuntimeMetrics;
use options::THREADS_MAX;
pub use options::{RuntimeOptions, cores};
use strand::{SettledAfter, Strand};
use workers::Workers;

/// Most threads of a runtime that make calls of the user's: so many stores may be in calls at a time. They
/// start when they are needed. *Chosen* (commit 92dc4be).
const COURIERS_MAX: usize = 64;

/// Most bytes of buffers for transfers that lie idle: pieces of files that several jobs read and write at a time, and some
/// blocks. *Chosen*.
const BUFS_IDLE_MAX: u64 = 16 << 20;

/// And no more than one part in so many of the DRAM that there may be. *Chosen* (commit 9255b2d).
const BUFS_DRAM_PARTS: u64 = 16;

/// What decides when a runtime without threads makes reads and writes of jobs.
const INLINE_SEED: u64 = 0x7468_6572_6d6f;

/// What the stores of a process share: threads and a budget of DRAM. Clones share it; its threads end
/// when the last clone and the last store in it have gone.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

struct Shared {
    options: RuntimeOptions,
    workers: Arc<Workers>,
    couriers: Arc<Workers>,
    jobs: Arc<Jobs>,
    budget: Arc<Budget>,
    /// What its stores have in common and it knows nothing of, once somebody has asked for it.
    common: OnceLock<Box<dyn Any + Send + Sync>>,
    /// For what is copied on its way to a device, or from it.
    bufs: BufPool,
    /// Several reads at once.
    reader: Arc<BatchReader>,
    /// Reads of futures.
    async_reader: Arc<AsyncReader>,
    /// Reads and writes of jobs.
    job_io: Arc<JobIo>,
    stores: AtomicUsize,
}

/// What [`Runtime::step`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// What was to be done for a store soon, or after some time.
    Tasks,
    /// Callbacks and events of a store.
    Calls,
    /// A piece of a job.
    Job(Job),
}

impl Runtime {
    /// A runtime with these limits. Starts no thread yet.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the option and the limit it breaks.
    pub fn new(options: RuntimeOptions) -> Result<Runtime> {
        Runtime::with_clock(options, Arc::new(RealClock::new()))
    }

    /// A runtime whose deadlines are by `clock`. A test that moves the clock must
    /// [look](Runtime::look_at_clock) at it then.
    ///
    /// # Errors
    /// As [`Runtime::new`].
    pub fn with_clock(options: RuntimeOptions, clock: Arc<dyn Clock>) -> Result<Runtime> {
        for (threads, what) in [(options.workers, "workers"), (options.jobs, "job threads")] {
            if threads == 0 || threads > THREADS_MAX {
                return Err(Error::InvalidArgument(format!(
                    "a runtime has 1 to {THREADS_MAX} {what}; {threads} were given"
                )));
            }
        }
        if options.dram < DRAM_MIN {
            return Err(Error::InvalidArgument(format!(
                "the dram of a runtime is at least {DRAM_MIN} bytes; {} were given",
                options.dram
            )));
        }
        let dram = options.dram;
        Ok(Runtime::of(options, dram, clock))
    }

    /// One for a store alone, whose own limits are enough: it may use `dram` bytes.
    pub fn private(dram: u64) -> Runtime {
        let options = RuntimeOptions {
            dram: u64::MAX,
            ..RuntimeOptions::default()
        };
        Runtime::of(options, dram, Arc::new(RealClock::new()))
    }

    /// A runtime without threads, whose deadlines are by `clock`: what its stores want to have done in the background
    /// waits for [`Runtime::step`]. With it the same calls lead to the same decisions in every run, as long as a
    /// store starts no threads of its own (`level0.evacuation_threads` and `memtable.replay_threads` of 1).
    pub fn scripted(clock: Arc<dyn Clock>) -> Runtime {
        let options = RuntimeOptions {
            dram: u64::MAX,
            workers: 0,
            jobs: 0,
        };
        Runtime::of(options, u64::MAX, clock)
    }

    /// Does the next piece of work of a [scripted](Runtime::scripted) runtime on this thread: tasks of a store, then
    /// calls that it owes its user, then a job. Returns what it was, or `None` if nothing waits.
    pub fn step(&self) -> Option<Piece> {
        let shared = &self.shared;
        if shared.workers.step() {
            return Some(Piece::Tasks);
        }
        if shared.couriers.step() {
            return Some(Piece::Calls);
        }
        shared.jobs.step().map(Piece::Job)
    }

    fn of(options: RuntimeOptions, dram: u64, clock: Arc<dyn Clock>) -> Runtime {
        let workers = Workers::new("thermocline", options.workers, clock.clone());
        let couriers_limit = match options.workers {
            0 => 0,
            _ => COURIERS_MAX,
        };
        let couriers = Workers::new("thermocline-call", couriers_limit, clock.clone());
        let jobs = Jobs::new(options.jobs, clock);
        let budget = Budget::new(options.dram);
        let bufs = BufPool::new(index(BUFS_IDLE_MAX.min(dram / BUFS_DRAM_PARTS)));
        let reads = UnderWay::default();
        let reader = BatchReader::counted(bufs.clone(), reads.clone());
        let (async_reader, job_io) = match options.workers {
            0 => (
                AsyncReader::scripted(bufs.clone()),
                JobIo::inline(bufs.clone(), INLINE_SEED),
            ),
            _ => (
                AsyncReader::counted(bufs.clone(), reads.clone()),
                JobIo::new(bufs.clone(), reads, Arc::new(RealClock::new())),
            ),
        };
        Runtime {
            shared: Arc::new(Shared {
                options,
                workers,
                couriers,
                jobs,
                budget,
                common: OnceLock::new(),
                reader: Arc::new(reader),
                async_reader: Arc::new(async_reader),
                job_io: Arc::new(job_io),
                bufs,
                stores: AtomicUsize::new(0),
            }),
        }
    }

    /// Its limits.
    pub fn options(&self) -> &RuntimeOptions {
        &self.shared.options
    }

    /// The DRAM of all its stores.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.shared.budget
    }

    /// What its stores have in common beside the budget, such as a cache: made by whoever asks first.
    ///
    /// # Panics
    /// If it was asked for as another type before.
    pub fn common<T: Any + Send + Sync + Default + Clone>(&self) -> T {
        let common = self.shared.common.get_or_init(|| Box::new(T::default()));
        let common: Option<&T> = common.downcast_ref();
        common
            .expect("one type for all stores of a runtime")
            .clone()
    }

    /// Buffers for what is copied on its way to a device, or from it.
    pub fn bufs(&self) -> &BufPool {
        &self.shared.bufs
    }

    /// What does several reads at once.
    pub fn reader(&self) -> &Arc<BatchReader> {
        &self.shared.reader
    }

    /// What futures read with. That of a [scripted](Runtime::scripted) runtime waits for
    /// [`AsyncReader::step`](thermocline_exec::AsyncReader::step).
    pub fn async_reader(&self) -> &Arc<AsyncReader> {
        &self.shared.async_reader
    }

    /// What jobs read and write with: without threads of its own for a store that has none.
    pub fn job_io(&self, threads: bool) -> Arc<JobIo> {
        match threads && !SCHEDULED {
            true => self.shared.job_io.clone(),
            false => Arc::new(JobIo::inline(self.shared.bufs.clone(), INLINE_SEED)),
        }
    }

    /// Reads all counters.
    pub fn metrics(&self) -> RuntimeMetrics {
        let usage = self.shared.workers.usage();
        let couriers = self.shared.couriers.usage();
        let jobs = self.shared.jobs.usage();
        RuntimeMetrics {
            stores: self.shared.stores.load(Ordering::Relaxed),
            workers: usage.threads,
            workers_limit: self.shared.options.workers,
            stores_waiting: usage.ready,
            couriers: couriers.threads,
            couriers_limit: COURIERS_MAX,
            calls_waiting: couriers.ready,
            job_threads: jobs.threads,
            job_threads_limit: self.shared.options.jobs,
            jobs_running: jobs.running,
            jobs_waiting: jobs.ready,
            timers: usage.timers,
            panics: couriers.panics,
            async_reads: self.shared.async_reader.usage(),
            job_io: self.shared.job_io.usage(),
            dram_limit_bytes: self.shared.budget.limit(),
            dram_used_bytes: self.shared.budget.used(),
            dram_held_bytes: self.shared.budget.held(),
            dram_charged_bytes: self.shared.budget.charged(),
        }
    }

    /// Lets the threads look at the clock again: for clocks that are moved by hand.
    pub fn look_at_clock(&self) {
        self.shared.workers.look();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.jobs.stop();
        self.workers.stop();
        self.couriers.stop();
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("options", &self.shared.options)
            .field("metrics", &self.metrics())
            .finish()
    }
}

/// A store's place in its runtime.
pub struct Background {
    tasks: Arc<Strand>,
    calls: Arc<Strand>,
    /// Its lane with the job threads, if it has any.
    jobs: Option<(Arc<Jobs>, u64)>,
    /// Until the store is closed.
    runtime: Mutex<Option<Runtime>>,
}

impl Background {
    /// A place in `runtime` for the store `client`. With `threads` false it has no tasks, and its
    /// calls are made on its callers' threads, by [`Background::settle`].
    pub fn new(runtime: Runtime, client: std::sync::Weak<dyn Client>, threads: bool) -> Background {
        runtime.shared.stores.fetch_add(1, Ordering::Relaxed);
        let workers = threads.then(|| runtime.shared.workers.clone());
        let couriers = threads.then(|| runtime.shared.couriers.clone());
        let jobs = threads.then(|| runtime.shared.jobs.clone());
        Background {
            jobs: jobs.map(|jobs| (jobs.clone(), jobs.enter(client.clone()))),
            tasks: Strand::new(client.clone(), workers),
            calls: Strand::new(client, couriers),
            runtime: Mutex::new(Some(runtime)),
        }
    }

    /// Has `task` done soon. Costs a load where that was asked for already. What the task is to see
    /// must be stored under a lock that the task takes, or sequentially consistent (R2).
    #[inline]
    pub fn request(&self, task: Task) {
        self.tasks.request(task);
    }

    /// Has `task` done after `delay`. Changes nothing, and costs a load, where it is to be done
    /// already, soon or later.
    #[inline]
    pub fn request_after(&self, task: Task, delay: Duration) {
        self.tasks.request_after(task, delay);
    }

    /// Whether the system gives no thread for tasks, or none that is known yet. What was requested waits for a later request,
    /// which asks for one again; so who must not wait for that does it by itself. False for a store without threads, which has
    /// no tasks.
    pub fn lacks_workers(&self) -> bool {
        self.tasks.is_alone()
    }

    /// Whether the system gives no thread for calls, though there may be no call yet. Then calls are made at the end of
    /// calls of the store; so who waits for one, and calls nothing else, must see to it before the end of his. False for a store
    /// without threads, whose calls are always made so.
    pub fn lacks_couriers(&self) -> bool {
        self.calls.finds_nobody()
    }

    /// Has a job run soon, on a job thread. May be asked for under any lock.
    pub fn request_job(&self, job: Job) {
        if let Some((jobs, lane)) = &self.jobs {
            jobs.request(*lane, job);
        }
    }

    /// Has a job run soon in every store of the runtime.
    pub fn request_job_of_all(&self, job: Job) {
        if let Some((jobs, _)) = &self.jobs {
            jobs.request_of_all(job);
        }
    }

    /// Whether a job is asked for, or runs, in another store of the runtime.
    pub fn is_under_way_elsewhere(&self, job: Job) -> bool {
        let jobs = self.jobs.as_ref();
        jobs.is_some_and(|(jobs, lane)| jobs.is_under_way_beside(*lane, job))
    }

    /// Stores that are open in its runtime.
    pub fn stores(&self) -> usize {
        let runtime = lock(&self.runtime);
        let stores = runtime
            .as_ref()
            .map(|r| r.shared.stores.load(Ordering::Relaxed));
        stores.unwrap_or(0)
    }

    /// Counts a panic of the user's that ended a part of a call.
    pub fn count_panic(&self) {
        self.calls.count_panic();
    }

    /// Makes the calls that wait, in a store without threads. For the end of a call of the store,
    /// when no lock is held.
    pub fn settle(&self) {
        self.calls.settle();
    }

    /// [`Background::settle`], when what this returns is dropped: to be made before any lock is taken.
    pub fn settled_after(&self) -> impl Drop + '_ {
        SettledAfter(&self.calls)
    }

    /// Ends the tasks and jobs: on return none runs and none will.
    pub fn stop(&self) {
        self.tasks.stop();
        if let Some((jobs, lane)) = &self.jobs {
            jobs.leave(*lane);
        }
    }

    /// Waits for the call that is being made, makes those that are left, and leaves the runtime. Waits for
    /// none in a call of the user's.
    pub fn end(&self) {
        self.calls.end();
        let runtime = lock(&self.runtime).take();
        if let Some(runtime) = &runtime {
            runtime.shared.stores.fetch_sub(1, Ordering::Relaxed);
        }
        // Not under the lock: the last one waits for the threads.
        drop(runtime);
    }

    /// What its runtime says about itself; `None` once the store is closed.
    pub fn runtime_metrics(&self) -> Option<RuntimeMetrics> {
        lock(&self.runtime).as_ref().map(Runtime::metrics)
    }

    /// Waits until another thread has ended it.
    pub fn wait_ended(&self) {
        self.calls.wait_ended();
    }
}

impl Courier for Background {
    fn run(&self, call: Call) {
        self.calls.run(call);
    }
}

impl std::fmt::Debug for Background {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Background").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
