//! A world at one instant, and the states that a crash there can leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use thermocline_base::checksum::hash64;
use thermocline_base::options::Options;
use thermocline_base::step::Observer;
use thermocline_base::{Point, Steps};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SeededRandom;
use thermocline_pm::SimPm;
use thermocline_pm::sim::{Choice, CrashImage};

use crate::life::{ACKNOWLEDGED, Life, PM};
use crate::oracle::{Expect, Tracker};

/// How many states of a snapshot are tried.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// All of them if there are at most this many, each simulator on its own.
    pub exhaustive: u64,
    /// Else: words that are lost alone, or kept alone.
    pub single: usize,
    /// Else: random states.
    pub random: usize,
}

impl Budget {
    pub const WIDE: Budget = Budget {
        exhaustive: 64,
        single: 14,
        random: 12,
    };
    pub const NARROW: Budget = Budget {
        exhaustive: 4,
        single: 1,
        random: 2,
    };
}

/// Both simulators and the oracle at one instant.
pub struct Snapshot {
    pub point: Point,
    pub expect: Expect,
    pm: CrashImage,
    /// With everything undecided still undecided.
    fs: SimFs,
    /// Of its files after each way to decide that was asked for: most states of a snapshot differ in the memory alone.
    digests: Mutex<BTreeMap<Vec<usize>, u64>>,
    /// The memory as a killed process leaves it, on a share of the points.
    forked: Option<SimPm>,
}

/// One way for a crash to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub pm: Choice,
    pub fs: Vec<usize>,
}

impl Snapshot {
    pub fn take(pm: &SimPm, fs: &SimFs, point: Point, expect: Expect, fork: bool) -> Snapshot {
        Snapshot {
            point,
            expect,
            pm: crashed(pm, point),
            fs: fs.image_killed(Steps::new()),
            digests: Mutex::default(),
            forked: fork.then(|| pm.fork(Steps::new())),
        }
    }

    /// The world of `life` now.
    pub fn of(life: &Life, point: Point) -> Snapshot {
        let expect = life.tracker.lock().unwrap().expect();
        Snapshot::take(&life.pm, &life.fs, point, expect, false)
    }

    /// An observer that hands a snapshot of `life` to `sink` at each point, as [`Self::taker`] takes it.
    pub fn observer(
        life: &Life,
        forks: bool,
        sink: impl Fn(Snapshot) + Send + Sync + 'static,
    ) -> Observer {
        let snapshot = Snapshot::taker(life, forks);
        Arc::new(move |point| sink(snapshot(point)))
    }

    /// Takes a snapshot of `life` at a point. With `forks` those at rarer sites, and a share of the others, can be
    /// continued as a killed process.
    pub fn taker(life: &Life, forks: bool) -> impl Fn(Point) -> Snapshot + Send + Sync + use<> {
        let (pm, fs) = (life.pm.clone(), life.fs.clone());
        let tracker: Arc<Mutex<Tracker>> = life.tracker.clone();
        move |point| {
            let expect = tracker.lock().unwrap().expect();
            let rare = point.site != ACKNOWLEDGED && point.site.0 != "memtable: item durable";
            let fork = forks && (rare || point.step.is_multiple_of(6));
            Snapshot::take(&pm, &fs, point, expect, fork)
        }
    }

    /// Whether nothing is undecided.
    pub fn is_settled(&self) -> bool {
        self.pm.pending().is_empty() && self.fs.pending().choices.is_empty()
    }

    pub fn newest(&self) -> State {
        let words = self.pm.pending();
        State {
            pm: words.iter().map(|w| w.candidates.len() - 1).collect(),
            fs: self.fs.pending().all(),
        }
    }

    pub fn oldest(&self) -> State {
        State {
            pm: vec![0; self.pm.pending().len()],
            fs: self.fs.pending().none(),
        }
    }

    /// The states to try. Words that recovery does not read (`reads`, if known) stay at their newest.
    pub fn states(&self, budget: Budget, reads: Option<&BTreeSet<u64>>, seed: u64) -> Vec<State> {
        let random = SeededRandom::new(seed);
        let pm = self.pm_choices(budget, reads, &random);
        let draws = budget.random as u64;
        let pending = self.fs.pending();
        let mut fs = pending.explore(budget.exhaustive, draws, random.next_u64());
        // The folder of a busy manifest has many pending sectors; the ends and some between do.
        let most = usize::try_from(budget.exhaustive).unwrap().max(8);
        while fs.len() > most {
            let one = 2 + random.below(fs.len() as u64 - 2);
            fs.swap_remove(usize::try_from(one).unwrap());
        }
        let (newest, oldest) = (self.newest(), self.oldest());
        let mut states = Vec::new();
        let mut add = |pm: &Choice, fs: &Vec<usize>| {
            let (pm, fs) = (pm.clone(), fs.clone());
            states.push(State { pm, fs });
        };
        for choice in &pm {
            add(choice, &newest.fs);
            if newest.fs != oldest.fs {
                add(choice, &oldest.fs);
            }
        }
        for choice in &fs {
            add(&newest.pm, choice);
            if newest.pm != oldest.pm {
                add(&oldest.pm, choice);
            }
        }
        for _ in 0..draws.min(pm.len() as u64) {
            add(pick(&pm, &random), pick(&fs, &random));
        }
        states
    }

    fn pm_choices(
        &self,
        budget: Budget,
        reads: Option<&BTreeSet<u64>>,
        random: &SeededRandom,
    ) -> Vec<Choice> {
        let words = self.pm.pending();
        let varied = |offset: u64| reads.is_none_or(|reads| reads.contains(&offset));
        let open: Vec<usize> = (0..words.len())
            .filter(|&i| varied(words[i].offset))
            .collect();
        let total = open.iter().fold(1u64, |n, &i| {
            n.saturating_mul(words[i].candidates.len() as u64)
        });
        if total <= budget.exhaustive {
            return self
                .pm
                .choices(budget.exhaustive, 0, 0, |w| varied(w.offset));
        }
        let newest = self.newest().pm;
        let mut oldest = newest.clone();
        open.iter().for_each(|&i| oldest[i] = 0);
        let mut all = vec![newest.clone(), oldest.clone()];
        for n in 0..budget.single.min(open.len()) {
            // The first words (a header, more often than not), and any others.
            let i = if n < budget.single / 2 {
                open[n]
            } else {
                *pick(&open, random)
            };
            let (mut but_one, mut only_one) = (newest.clone(), oldest.clone());
            but_one[i] = 0;
            only_one[i] = newest[i];
            all.extend([but_one, only_one]);
        }
        for n in 0..budget.random {
            let mut choice = newest.clone();
            let lot = random.next_u64();
            for &i in &open {
                // Half of them by lines, which is how caches evict, half by words.
                let draw = if n % 2 == 0 {
                    hash64(&(lot ^ (words[i].offset / 64)).to_le_bytes())
                } else {
                    random.next_u64()
                };
                let candidates = words[i].candidates.len() as u64;
                choice[i] = usize::try_from(draw % candidates).unwrap();
            }
            all.push(choice);
        }
        all
    }

    /// A hash that differs between different states.
    pub fn digest(&self, state: &State) -> u64 {
        let pm = self.pm.digest(|i, _| state.pm[i]);
        let fs = self.digest_of_files(&state.fs);
        hash64(&[pm.to_le_bytes(), fs.to_le_bytes()].concat())
    }

    fn digest_of_files(&self, choices: &[usize]) -> u64 {
        let mut known = self.digests.lock().unwrap();
        if let Some(digest) = known.get(choices) {
            return *digest;
        }
        let digest = self.fs.image(choices, Steps::new()).digest();
        known.insert(choices.to_vec(), digest);
        digest
    }

    /// A world in this state, in which a store may be opened.
    pub fn life(&self, state: &State, options: &Options, seed: u64) -> Life {
        let steps = Steps::new();
        let pm = self.pm.build(PM, steps.clone(), |i, _| state.pm[i]);
        let fs = self.fs.image(&state.fs, steps);
        Life::on(pm, fs, options, seed, self.expect.clone())
    }

    /// The world as a killed process leaves it: all is readable, and no more durable than it was.
    pub fn killed(&self, options: &Options, seed: u64) -> Option<Life> {
        let steps = Steps::new();
        let pm = self.forked.as_ref()?.fork(steps.clone());
        let fs = self.fs.image_killed(steps);
        Some(Life::on(pm, fs, options, seed, self.expect.clone()))
    }
}

/// What a crash leaves of the memory. Where its file may be longer than the region, that is so at most points.
fn crashed(pm: &SimPm, point: Point) -> CrashImage {
    let image = pm.crash();
    let mut images = image.longer();
    images.push(image);
    let step = usize::try_from(point.step).unwrap();
    images.swap_remove(step % images.len())
}

fn pick<'a, T>(all: &'a [T], random: &SeededRandom) -> &'a T {
    &all[usize::try_from(random.below(all.len() as u64)).unwrap()]
}
