//! Which stories are told, and what was counted.

use std::collections::BTreeMap;

use thermocline_testkit::explore::explored;
use thermocline_testkit::{Rng, seeds};

use crate::plan::{
    CALLS, Calls, Errno, GROWTH_FAILS, Gap, Life, MADE_TWICE, OPS, Point, directed, errors, story,
};
use crate::run::{Run, home};
use crate::work::Shape;

/// Stories of each shape where all is explored.
const WHOLE: u64 = 100;

/// What was counted.
#[derive(Debug, Default)]
struct Counts {
    stories: u64,
    /// By call and error: how many calls failed, in how many stories, and how many of them poisoned a store.
    fired: BTreeMap<(usize, &'static str), [u64; 3]>,
    cuts: u64,
    refused: u64,
    violations: u64,
}

impl Counts {
    fn take(&mut self, run: &Run) {
        self.stories += 1;
        self.refused += run.refused;
        self.cuts += run.cuts;
        for (call, error, fired) in &run.fired {
            let of = self.fired.entry((*call, error)).or_default();
            of[0] += fired;
            of[1] += u64::from(*fired > 0);
            of[2] += u64::from(*fired > 0 && run.poisoned);
        }
    }

    fn print(&self, shape: Shape, disk: bool, points: usize) {
        let failed: u64 = self.fired.values().map(|of| of[0]).sum();
        println!(
            "{}: {points} points, {} stories, {failed} calls failed, {} power cuts, {} refusals, {} \
             violations",
            name(shape, disk),
            self.stories,
            self.cuts,
            self.refused,
            self.violations
        );
        for ((call, error), [fired, stories, poisoned]) in &self.fired {
            println!(
                "    {} {error}: {fired} in {stories} stories, of which {poisoned} poisoned",
                CALLS[*call]
            );
        }
    }
}

fn name(shape: Shape, disk: bool) -> String {
    let place = if disk { "a disk" } else { "shared memory" };
    format!("{} on {place}", shape.name())
}

/// How often each call is made by stores without faults.
pub(crate) fn count(shape: Shape, disk: bool) -> Calls {
    let lives = |seed, ops: &[u64]| {
        let home = home().unwrap();
        let mut run = Run::new(shape, disk, seed, home.path());
        let life = |&ops| Life {
            fault: None,
            ops,
            closes: false,
            gap: Gap::Keep,
        };
        let calls = ops.iter().map(|ops| run.live(&life(ops), false).unwrap());
        calls.collect::<Vec<_>>()
    };
    let usual = lives(3, &[OPS, 15]).try_into().unwrap();
    let [growing, making] = [(GROWTH_FAILS, OPS), (MADE_TWICE, 0)].map(|(seed, ops)| {
        let mut calls = lives(seed, &[ops]);
        calls.remove(0)
    });
    Calls {
        usual,
        growing,
        making,
    }
}

/// All faults for a store that makes so many calls.
fn points(calls: &[Vec<u64>; 2]) -> Vec<Point> {
    let mut points = Vec::new();
    for (recovers, calls) in [false, true].into_iter().zip(calls) {
        for (call, &made) in calls.iter().enumerate().take(CALLS.len()) {
            for &error in errors(call) {
                // What is interrupted for ever is tried again for ever.
                let often = [false, true].into_iter();
                for for_ever in often.filter(|ever| !ever || error != Errno::Eintr) {
                    points.extend((0..made).map(|index| Point {
                        recovers,
                        call,
                        index,
                        error,
                        for_ever,
                    }));
                }
            }
        }
    }
    points
}

/// A fault: each kind of call as often as others, though some are made more often.
fn pick(points: &[Point], rng: &mut Rng) -> Point {
    let recovers = rng.one_in(3);
    loop {
        let call = match rng.below(2) {
            0 => rng.below(CALLS.len()),
            // What an error of a sync leaves behind is the hardest to get right.
            _ => rng.below(4),
        };
        let of = |p: &&Point| p.recovers == recovers && p.call == call;
        let some: Vec<&Point> = points.iter().filter(of).collect();
        if !some.is_empty() {
            return **rng.pick(&some);
        }
    }
}

/// How many stories, as the environment says; `None` is each fault.
fn wanted() -> Option<u64> {
    match std::env::var("THERMOCLINE_KERNEL").as_deref() {
        Ok("all") => None,
        _ => Some(explored(WHOLE / 8, WHOLE)),
    }
}

/// So many stories of stores whose making is interrupted twice.
pub(crate) fn made_twice(stories: u64) -> Option<Vec<u64>> {
    Some(
        (0..stories)
            .map(|n| 500_000 + 10 * n + MADE_TWICE)
            .collect(),
    )
}

/// The stories of a shape on a disk, or in shared memory.
pub(crate) fn stories(shape: Shape, disk: bool) {
    stories_in(shape, disk, wanted().map(|stories| (0..stories).collect()));
}

/// Those with these seeds; `None`: of each fault one.
pub(crate) fn stories_in(shape: Shape, disk: bool, wanted: Option<Vec<u64>>) {
    if home().is_none() {
        eprintln!("no /dev/shm here: {} was not tested", name(shape, disk));
        return;
    }
    let calls = count(shape, disk);
    let points = points(&calls.usual);
    let mut counts = Counts::default();
    // Seeds say which shape they are for, so that one alone can be told again.
    let base = 1_000_000 * (2 * shape as u64 + u64::from(disk));
    let all = || (0..points.len() as u64).collect();
    let usual = wanted.clone().unwrap_or_else(all);
    let usual = usual.into_iter().map(|n| base + n);
    let own = |seed: &u64| *seed / 1_000_000 == base / 1_000_000;
    for seed in seeds(usual).into_iter().filter(own) {
        let mut rng = Rng::new(seed);
        let point = match wanted {
            Some(_) => pick(&points, &mut rng),
            None => points[usize::try_from(seed - base).unwrap() % points.len()],
        };
        let directed = directed(seed, &calls, &mut rng);
        let lives = match directed {
            Some(lives) if disk && wanted.is_some() => lives,
            _ => story(disk, point, calls.first(seed), &mut rng),
        };
        let home = home().unwrap();
        let mut run = Run::new(shape, disk, seed, home.path());
        let told = run.tell(&lives, &mut rng);
        counts.take(&run);
        let Err(why) = told else { continue };
        counts.violations += 1;
        eprintln!(
            "{} seed {seed}: {}\n    {why}",
            name(shape, disk),
            said(&lives)
        );
        if std::env::var_os("THERMOCLINE_KERNEL_KEEP").is_some() {
            eprintln!("    kept in {}", home.keep().display());
        }
    }
    counts.print(shape, disk, points.len());
    assert!(
        counts.violations == 0,
        "{} stories end badly; one alone: THERMOCLINE_SEED=… cargo test -p thermocline --test kernel",
        counts.violations
    );
}

fn said(lives: &[Life]) -> String {
    let lives = lives.iter().map(|life| {
        let fault = life.fault.map_or("nothing fails".into(), |f| f.to_string());
        let end = if life.closes { "closes" } else { "ends" };
        format!("[{fault}; {} operations, {end}; {:?}]", life.ops, life.gap)
    });
    lives.collect::<Vec<_>>().join(" ")
}
