//! Running a workload, exploring its snapshots, and reporting.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use thermocline_base::planted::{Bug, plant};
use thermocline_base::step::Observer;
use thermocline_base::{Point, Site};
use thermocline_env::simulated::SeededRandom;

use crate::check::{Checker, Level, Stats, caught};
use crate::life::Life;
use crate::snapshot::Snapshot;
use crate::states::is_sampled;
use crate::workload::{Workload, named};

/// Bugs planted in the two halves of an exploration, and how far it goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Planted {
    /// In the life that is crashed.
    pub work: Option<Bug>,
    /// In the recoveries.
    pub recovery: Option<Bug>,
    /// Of each point few states are recovered, none after a kill, and none of a second life: a look whether the bug is found so.
    pub narrow: bool,
    /// From so many states on no second life is crashed in any more.
    pub enough: Option<u64>,
}

impl Planted {
    pub fn is_any(&self) -> bool {
        self.work.or(self.recovery).is_some()
    }
}

/// What an exploration found.
#[derive(Debug, Default)]
pub struct Outcome {
    pub stats: Stats,
    pub sites: BTreeSet<Site>,
    pub violations: Vec<String>,
}

impl Outcome {
    /// The first of these that no run came to.
    pub fn missing<'s>(&self, sites: &[&'s str]) -> Option<&'s str> {
        sites.iter().copied().find(|site| !self.reaches(site))
    }

    /// Whether a run came to this site.
    pub fn reaches(&self, site: &str) -> bool {
        self.sites.iter().any(|reached| reached.0 == site)
    }

    pub fn add(&mut self, other: Outcome) {
        let (sum, more) = (&mut self.stats, other.stats);
        sum.points += more.points;
        sum.states += more.states;
        sum.recoveries += more.recoveries;
        sum.inside += more.inside;
        sum.chained += more.chained;
        sum.kills += more.kills;
        self.sites.extend(other.sites);
        self.violations.extend(other.violations);
    }
}

/// Runs `workload` from `seed` and explores a crash at each of its points that `only` takes. Stops after
/// a few violations.
pub fn explore(
    workload: &Workload,
    seed: u64,
    planted: Planted,
    only: impl Fn(Point) -> bool + Copy + Send + Sync + 'static,
) -> Outcome {
    explore_until(workload, seed, planted, only, |_| false)
}

/// As [`explore`], and stops at the first point behind which this says that it is done.
pub fn explore_until(
    workload: &Workload,
    seed: u64,
    planted: Planted,
    only: impl Fn(Point) -> bool + Copy + Send + Sync + 'static,
    is_done: impl Fn(&Checker<'_>) -> bool,
) -> Outcome {
    let options = workload.options();
    let mut life = Life::fresh(&options, seed);
    let (sink, points) = sync_channel::<(Point, Option<Snapshot>)>(8);
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            // Where nobody is killed nothing is kept for it.
            let snapshot = Snapshot::taker(&life, !planted.narrow);
            let watched: Observer = Arc::new(move |point| {
                // The other end hangs up when it has seen enough.
                let _ = sink.send((point, only(point).then(|| snapshot(point))));
            });
            let steps = life.pm.steps().clone();
            let _bug = planted.work.map(plant);
            let done = caught(|| {
                workload.run(&mut life, &SeededRandom::new(seed), &watched);
                Ok(())
            });
            steps.observe(None);
            done
        });
        let mut checker = Checker::new(&options, seed, planted);
        for (point, snapshot) in points.iter() {
            checker.sites.insert(point.site);
            if let Some(snapshot) = snapshot {
                checker.explore(&snapshot, Level::First);
                if !planted.narrow {
                    checker.kill(&snapshot);
                }
            }
            if checker.is_enough() || is_done(&checker) {
                break;
            }
        }
        drop(points);
        if let Err(why) = worker.join().expect("panics are caught") {
            checker
                .violations
                .push(format!("the workload itself: {why}"));
        }
        let name = workload.name;
        let mut outcome = Outcome {
            stats: checker.stats,
            sites: checker.sites,
            violations: Vec::new(),
        };
        for why in checker.violations {
            outcome.violations.push(format!(
                "workload {name}, seed {seed}, {why}\n  again: CRASH={name}/{seed} cargo test -p \
                 thermocline-engine --test crash -- --exact states::replay --nocapture \
                 (CRASH={name}/{seed}/STEP for one step)"
            ));
        }
        outcome
    })
}

/// How a bug is looked for, until it is found: at one point in so many, and whether with few states of each and no crash in a
/// second life. Most do harm at many points, and all that lies before the first of those would be explored in vain.
pub const PASSES: &[(u64, bool)] = &[
    (24, true),
    (6, true),
    (24, false),
    (6, false),
    (1, true),
    (1, false),
];

/// The same where it is known at which points it does harm.
const PASSES_THERE: &[(u64, bool)] = &[(6, true), (1, true), (1, false)];

/// Panics unless the bug is found at one of these points, of which it is known that it does harm there.
pub fn caught_by(workload: &str, planted: Planted, only: fn(Point) -> bool) {
    caught_in(PASSES_THERE, workload, planted, only);
}

/// Panics unless the bug is found in one of these passes.
pub fn caught_in(
    passes: &[(u64, bool)],
    workload: &str,
    planted: Planted,
    only: fn(Point) -> bool,
) {
    let mut states = 0;
    for &(one_in, narrow) in passes {
        let sampled = move |point: Point| only(point) && is_sampled(point.step, 7, one_in);
        let outcome = explore(&named(workload), 7, Planted { narrow, ..planted }, sampled);
        states += outcome.stats.states;
        if let Some(first) = outcome.violations.first() {
            // Which check it was, for whoever reads along.
            let first = first.lines().next().unwrap_or_default();
            println!("{planted:?} after {states} states, one point in {one_in}: {first}");
            return;
        }
    }
    panic!("{planted:?} was not caught in {states} states");
}
