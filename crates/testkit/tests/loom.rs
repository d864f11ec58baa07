//! Loom finds, through the seam of `testkit::loom`, whatever can happen: its executions are compared
//! with all interleavings of small programs, written out.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use thermocline_testkit::loom::{AtomicU64, Ordering, SeqCst, check, thread};
use thermocline_testkit::{Replay, Rng, seeds};

/// What a thread does with one of two variables.
#[derive(Debug, Clone, Copy)]
enum Step {
    Load(usize),
    Store(usize, u64),
    Swap(usize, u64),
}

/// The threads of a program.
type Program = Vec<Vec<Step>>;

/// What each step of each thread returned; stores return 0.
type Outcome = Vec<Vec<u64>>;

/// All outcomes of running one step at a time, whatever thread is next.
fn interleavings(program: &Program) -> BTreeSet<Outcome> {
    fn go(
        program: &Program,
        done: &mut Vec<Vec<u64>>,
        values: [u64; 2],
        outcomes: &mut BTreeSet<Outcome>,
    ) {
        let mut ended = true;
        for thread in 0..program.len() {
            let Some(&step) = program[thread].get(done[thread].len()) else {
                continue;
            };
            ended = false;
            let mut after = values;
            let result = match step {
                Step::Load(variable) => values[variable],
                Step::Store(variable, value) => {
                    after[variable] = value;
                    0
                }
                Step::Swap(variable, value) => std::mem::replace(&mut after[variable], value),
            };
            done[thread].push(result);
            go(program, done, after, outcomes);
            done[thread].pop();
        }
        if ended {
            outcomes.insert(done.clone());
        }
    }
    let mut outcomes = BTreeSet::new();
    let mut done = vec![Vec::new(); program.len()];
    go(program, &mut done, [0; 2], &mut outcomes);
    outcomes
}

/// All outcomes that loom finds.
fn executions(program: &Program) -> BTreeSet<Outcome> {
    let outcomes = Arc::new(Mutex::new(BTreeSet::new()));
    let (found, program) = (Arc::clone(&outcomes), program.clone());
    check("a random program", None, SeqCst::Weaker, move || {
        let values = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let run = |steps: Vec<Step>, values: Arc<[AtomicU64; 2]>| {
            move || -> Vec<u64> {
                let step = |step: Step| match step {
                    Step::Load(variable) => values[variable].load(Ordering::Acquire),
                    Step::Store(variable, value) => {
                        values[variable].store(value, Ordering::Release);
                        0
                    }
                    Step::Swap(variable, value) => values[variable].swap(value, Ordering::AcqRel),
                };
                steps.into_iter().map(step).collect()
            }
        };
        let others: Vec<_> = program[1..]
            .iter()
            .map(|steps| thread::spawn(run(steps.clone(), Arc::clone(&values))))
            .collect();
        let mut outcome = vec![run(program[0].clone(), values)()];
        outcome.extend(others.into_iter().map(|other| other.join().unwrap()));
        found.lock().unwrap().insert(outcome);
    });
    let outcomes = outcomes.lock().unwrap();
    outcomes.clone()
}

#[test]
fn every_interleaving_of_small_programs_is_found() {
    let mut compared = 0;
    for seed in seeds(0..60) {
        let _replay = Replay::new("-p thermocline-testkit --test loom", seed);
        let mut rng = Rng::new(seed);
        let threads = 2 + rng.below(2);
        let steps = if threads == 2 { 3 } else { 2 };
        let mut value = 0;
        let mut step = |rng: &mut Rng| {
            value += 1;
            let variable = usize::from(rng.below(2) == 1);
            match rng.below(5) {
                0 | 1 => Step::Load(variable),
                2 | 3 => Step::Store(variable, value),
                _ => Step::Swap(variable, value),
            }
        };
        let program: Program = (0..threads)
            .map(|_| (0..steps).map(|_| step(&mut rng)).collect())
            .collect();
        let (expected, found) = (interleavings(&program), executions(&program));
        let missing = expected.difference(&found).next();
        assert_eq!(missing, None, "{program:?}");
        compared += expected.len();
    }
    println!("{compared} outcomes of interleavings, all found");
}
