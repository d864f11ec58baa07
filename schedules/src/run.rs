//! Running a workload in many orders.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::scheduler::{
    PctScheduler, RandomScheduler, Scheduler, UncontrolledNondeterminismCheckScheduler,
};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use thermocline_base::planted::{Bug, plant};

use crate::workload::run_workload;

/// Executions of one seed.
pub const BATCH: usize = 50;

/// Steps after which an execution is taken for one that never ends; the usual have about a
/// twentieth.
const STEPS_MAX: usize = 400_000;

/// How orders are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orders {
    /// At every step any thread.
    Random,
    /// By priorities that change at this many less one moments of an execution: finds with a known
    /// probability what needs as many threads to be at particular places at once.
    Pct(usize),
}

/// Which executions: how they are chosen, and from what seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// How orders are chosen.
    pub orders: Orders,
    /// Where from.
    pub seed: u64,
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.orders {
            Orders::Random => write!(f, "random/{}", self.seed),
            Orders::Pct(depth) => write!(f, "pct{depth}/{}", self.seed),
        }
    }
}

impl Choice {
    /// The choice that prints like this.
    pub fn parse(text: &str) -> Option<Choice> {
        let (orders, seed) = text.split_once('/')?;
        let orders = match orders.strip_prefix("pct") {
            Some(depth) => Orders::Pct(depth.parse().ok().filter(|&depth| depth > 0)?),
            None if orders == "random" => Orders::Random,
            None => return None,
        };
        let seed = seed.parse().ok()?;
        Some(Choice { orders, seed })
    }
}

/// How many times the usual number of executions: the environment variable `SCHEDULES`.
///
/// # Panics
/// If that is not a number.
pub fn times() -> u64 {
    match std::env::var("SCHEDULES") {
        Ok(times) => times.parse().expect("SCHEDULES is a number"),
        Err(_) => 1,
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.silence_warnings = true;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    // The choice and the execution's number say as much.
    config.failure_persistence = FailurePersistence::None;
    config
}

fn execute(scheduler: impl Scheduler + 'static, bug: Option<Bug>, begun: Arc<AtomicUsize>) {
    Runner::new(scheduler, config()).run(move || {
        begun.fetch_add(1, Ordering::Relaxed);
        // All threads of an execution run on one of the system's.
        let _planted = bug.map(plant);
        run_workload();
    });
}

/// Runs the [`BATCH`] executions of a choice, perhaps with a bug planted. Returns the number of the
/// one that fails, from 1, and its panic.
fn first_failure(choice: Choice, bug: Option<Bug>) -> Option<(usize, Box<dyn std::any::Any + Send>)> {
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let run = || match choice.orders {
        Orders::Random => {
            execute(RandomScheduler::new_from_seed(choice.seed, BATCH), bug, count);
        }
        Orders::Pct(depth) => {
            let scheduler = PctScheduler::new_from_seed(choice.seed, depth, BATCH);
            execute(scheduler, bug, count);
        }
    };
    let panic = catch_unwind(AssertUnwindSafe(run)).err()?;
    Some((begun.load(Ordering::Relaxed), panic))
}

/// Runs the executions of a choice.
///
/// # Panics
/// If one of them fails; the command that repeats it is printed.
pub fn run(choice: Choice) {
    if let Some((execution, panic)) = first_failure(choice, None) {
        eprintln!(
            "execution {execution} of {choice} failed; again: SCHEDULE={choice} cargo test \
             --manifest-path schedules/Cargo.toml again -- --nocapture"
        );
        resume_unwind(panic);
    }
}

/// How many executions it takes to find `bug`, of at most so many seeds for each way to choose orders.
pub fn find(bug: Bug, seeds: u64) -> Option<usize> {
    let mut before = 0;
    for seed in 0..seeds {
        for orders in [Orders::Random, Orders::Pct(3)] {
            if let Some((execution, _)) = first_failure(Choice { orders, seed }, Some(bug)) {
                return Some(before + execution);
            }
            before += BATCH;
        }
    }
    None
}

/// Runs `executions` twice each, with the same decisions.
///
/// # Panics
/// If the second differs from the first: then they depend on something else.
pub fn run_twice(seed: u64, executions: usize) {
    let orders = RandomScheduler::new_from_seed(seed, executions);
    let scheduler = UncontrolledNondeterminismCheckScheduler::new(orders);
    execute(scheduler, None, Arc::default());
}
