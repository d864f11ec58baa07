//! Running a workload in many orders.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shuttle::scheduler::{
    PctScheduler, RandomScheduler, Scheduler, UncontrolledNondeterminismCheckScheduler,
};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use thermocline_base::planted::{Bug, plant};

use crate::reached::Reached;
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

/// How many executions, where a whole exploration has `whole`: a twelfth, or with `THERMOCLINE_EXPLORE=n` the whole, `n`
/// times. So do the tests of the other workspace (`testkit::explore`).
///
/// # Panics
/// If that is not a number above 0.
pub fn explored(whole: u64) -> u64 {
    match std::env::var("THERMOCLINE_EXPLORE") {
        Ok(text) => whole * times(&text).expect("THERMOCLINE_EXPLORE is a number above 0"),
        Err(_) => whole / 12,
    }
}

/// How many times the whole that text asks for; no times at all would be tests that look at nothing and pass.
pub fn times(text: &str) -> Option<u64> {
    text.parse().ok().filter(|&times| times > 0)
}

/// Of every execution of the engine.
pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.silence_warnings = true;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    // The choice says as much.
    config.failure_persistence = FailurePersistence::None;
    config
}

fn execute(scheduler: impl Scheduler + 'static, bug: Option<Bug>, reached: Arc<Reached>) {
    Runner::new(scheduler, config()).run(move || {
        // All threads of an execution run on one of the system's.
        let _planted = bug.map(plant);
        run_workload(&reached);
    });
}

/// Runs the [`BATCH`] executions of a choice, perhaps with a bug planted. Returns the panic of the one
/// that fails.
fn first_failure(
    choice: Choice,
    bug: Option<Bug>,
    reached: &Arc<Reached>,
) -> Option<Box<dyn std::any::Any + Send>> {
    let reached = reached.clone();
    let run = || match choice.orders {
        Orders::Random => {
            execute(
                RandomScheduler::new_from_seed(choice.seed, BATCH),
                bug,
                reached,
            );
        }
        Orders::Pct(depth) => {
            let scheduler = PctScheduler::new_from_seed(choice.seed, depth, BATCH);
            execute(scheduler, bug, reached);
        }
    };
    catch_unwind(AssertUnwindSafe(run)).err()
}

/// Runs the executions of a choice.
///
/// # Panics
/// If one of them fails; the command that repeats it is printed.
pub fn run(choice: Choice, reached: &Arc<Reached>) {
    if let Some(panic) = first_failure(choice, None, reached) {
        eprintln!(
            "an execution of {choice} failed; again: SCHEDULE={choice} cargo test \
             --manifest-path schedules/Cargo.toml again -- --nocapture"
        );
        resume_unwind(panic);
    }
}

/// How many executions it takes to find `bug`, of at most so many seeds for each way to choose orders.
pub fn find(bug: Bug, seeds: u64) -> Option<u64> {
    let reached = Arc::default();
    for seed in 0..seeds {
        for orders in [Orders::Random, Orders::Pct(3)] {
            if first_failure(Choice { orders, seed }, Some(bug), &reached).is_some() {
                return Some(reached.executions.load(Ordering::Relaxed));
            }
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
