//! The exploration itself: how many states there must be, and which sites it must reach.

use std::collections::BTreeSet;
use std::io::Write;

use thermocline_base::Site;
use thermocline_env::sites as env_sites;

use crate::explore::{Outcome, Planted, explore};
use crate::workload::named;

/// Explores `seeds` seeds of each workload.
fn part(workloads: &[&str], seeds: u64, bar: u64) -> Outcome {
    let mut all = Outcome::default();
    for name in workloads {
        for seed in 1..=seeds {
            let outcome = explore(named(name), seed, Planted::default(), None);
            // Past the harness, which swallows what passing tests print.
            let _ = writeln!(
                std::io::stderr(),
                "crash exploration, {name}/{seed}: {:?}",
                outcome.stats
            );
            assert!(
                outcome.violations.is_empty(),
                "{}",
                outcome.violations.join("\n")
            );
            all.add(outcome);
        }
    }
    assert!(all.stats.states >= bar, "{:?}", all.stats);
    all
}

#[test]
fn points_and_batches() {
    part(&["points", "batches"], 1, 100);
}

#[test]
fn replay() {
    let Ok(wanted) = std::env::var("CRASH") else {
        return;
    };
    let mut words = wanted.split('/');
    let workload = named(words.next().unwrap());
    let seed = words.next().map_or(1, |seed| seed.parse().unwrap());
    let step = words.next().map(|step| step.parse().unwrap());
    let outcome = explore(workload, seed, Planted::default(), step);
    let _ = writeln!(std::io::stderr(), "{wanted}: {:?}", outcome.stats);
    assert!(
        outcome.violations.is_empty(),
        "{}",
        outcome.violations.join("\n")
    );
}
