//! What a crash may leave of a [`SimFs`]: the open choices, and the file system after each way of
//! deciding them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use thermocline_base::Steps;
use thermocline_base::checksum::{hash64, hash64_seeded};

use super::SimFs;
use super::content::{Inode, PAGE, Part, SECTOR};
use super::names::Names;
use super::state::State;
use crate::simulated::SeededRandom;

/// One thing that a crash decides, independently of all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What is decided.
    pub of: Undecided,
    /// How many outcomes there are: 0 is the durable one, `arity - 1` the newest.
    pub arity: usize,
}

/// What a crash decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undecided {
    /// Whether a change of names is kept.
    Name {
        /// The folder.
        dir: PathBuf,
        /// The change, in words.
        change: String,
    },
    /// Which of its sizes a file has.
    Size {
        /// The file's number; the same over its renames.
        file: u64,
    },
    /// Which of its contents a sector of 512 bytes has.
    Sector {
        /// The file's number; the same over its renames.
        file: u64,
        /// Counted from the file's beginning.
        index: u64,
    },
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undecided::Name { dir, change } => write!(f, "{change} in {}", dir.display()),
            Undecided::Size { file } => write!(f, "size of file {file}"),
            Undecided::Sector { file, index } => write!(f, "sector {index} of file {file}"),
        }
    }
}

/// Everything that a crash at this instant would decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The choices, in a fixed order.
    pub choices: Vec<Choice>,
}

impl Pending {
    /// How many ways there are to decide; `u64::MAX` stands for "more than one can count".
    pub fn outcomes(&self) -> u64 {
        self.choices
            .iter()
            .fold(1u64, |n, choice| n.saturating_mul(choice.arity as u64))
    }

    /// Nothing kept beyond what is durable.
    pub fn none(&self) -> Vec<usize> {
        vec![0; self.choices.len()]
    }

    /// Everything kept.
    pub fn all(&self) -> Vec<usize> {
        self.choices.iter().map(|choice| choice.arity - 1).collect()
    }

    /// A random outcome. Pages are old, new or mixed by sector with equal chance, names and sizes
    /// old or new.
    pub fn random(&self, seed: u64) -> Vec<usize> {
        let random = SeededRandom::new(seed);
        let lots = [random.next_u64(), random.next_u64()];
        let pick = |arity: usize| {
            let lot = random.below(arity as u64);
            usize::try_from(lot).expect("a number below a usize")
        };
        self.choices
            .iter()
            .map(|choice| match &choice.of {
                Undecided::Sector { file, index } => {
                    let place = [*file, index / (PAGE / SECTOR) as u64, lots[0], lots[1]];
                    match hash64(&place.map(u64::to_le_bytes).concat()) % 3 {
                        0 => 0,
                        1 => choice.arity - 1,
                        _ => pick(choice.arity),
                    }
                }
                _ => pick(choice.arity),
            })
            .collect()
    }

    /// Outcomes worth trying: each one if there are at most `exhaustive_max`, else none, all, all
    /// but one, only one, and `random` random ones from `seed`.
    pub fn explore(&self, exhaustive_max: u64, random: u64, seed: u64) -> Vec<Vec<usize>> {
        if self.outcomes() <= exhaustive_max {
            return self.every();
        }
        let (none, all) = (self.none(), self.all());
        let mut outcomes = vec![none.clone(), all.clone()];
        for index in 0..self.choices.len() {
            for (base, value) in [(&none, all[index]), (&all, 0)] {
                let mut outcome = base.clone();
                outcome[index] = value;
                outcomes.push(outcome);
            }
        }
        let seeds = SeededRandom::new(seed);
        outcomes.extend((0..random).map(|_| self.random(seeds.next_u64())));
        outcomes
    }

    fn every(&self) -> Vec<Vec<usize>> {
        let mut outcomes = Vec::new();
        let mut outcome = self.none();
        loop {
            outcomes.push(outcome.clone());
            // Counts up, the first choice fastest.
            let mut index = 0;
            loop {
                let Some(choice) = self.choices.get(index) else {
                    return outcomes;
                };
                outcome[index] += 1;
                if outcome[index] < choice.arity {
                    break;
                }
                outcome[index] = 0;
                index += 1;
            }
        }
    }
}

impl State {
    /// The files whose content matters after a crash, in order.
    fn nameable(&self) -> BTreeSet<u64> {
        self.dirs.values().flat_map(|dir| dir.files()).collect()
    }

    fn pending(&self) -> Pending {
        let mut choices = Vec::new();
        for (dir, names) in &self.dirs {
            choices.extend(names.choices().map(|change| Choice {
                of: Undecided::Name {
                    dir: dir.clone(),
                    change: change.to_string(),
                },
                arity: 2,
            }));
        }
        for file in self.nameable() {
            choices.extend(self.inodes[&file].choices().map(|(part, more)| Choice {
                of: match part {
                    Part::Size => Undecided::Size { file },
                    Part::Sector(index) => Undecided::Sector { file, index },
                },
                arity: more + 1,
            }));
        }
        Pending { choices }
    }

    fn after_crash(&self, choices: &[usize]) -> State {
        let mut left = choices.iter().copied();
        let mut pick = || left.next().expect("one value for each choice");
        let mut dirs = BTreeMap::new();
        for (path, names) in &self.dirs {
            let names = if names.choices().next().is_none() {
                Arc::clone(names)
            } else {
                Arc::new(Names::durable(names.after_crash(|| pick() != 0)))
            };
            dirs.insert(path.clone(), names);
        }
        let mut inodes = BTreeMap::new();
        for file in self.nameable() {
            let inode = &self.inodes[&file];
            let inode = if inode.choices().next().is_none() {
                Arc::clone(inode)
            } else {
                Arc::new(Inode::durable(inode.after_crash(&mut pick)))
            };
            inodes.insert(file, inode);
        }
        assert!(left.next().is_none(), "more values than choices");
        let named: BTreeSet<u64> = dirs.values().flat_map(|dir| dir.files()).collect();
        inodes.retain(|file, _| named.contains(file));
        let mut reserved = self.reserved_durable.clone();
        reserved.retain(|file, _| named.contains(file));
        State {
            dirs,
            inodes,
            reserved_durable: reserved.clone(),
            reserved,
            next_file: self.next_file,
            descriptors: self.descriptors,
            refuses_direct: self.refuses_direct,
            refuses_holds: self.refuses_holds,
            capacity: self.capacity,
            ..State::default()
        }
    }

    fn digest(&self) -> u64 {
        let mut hash = 0;
        let mut add = |bytes: &[u8]| hash = hash64_seeded(bytes, hash);
        for (path, names) in &self.dirs {
            add(path.as_os_str().as_encoded_bytes());
            for (name, file) in names.durable_names() {
                let content = self.inodes[file].durable_content();
                add(name.as_bytes());
                add(&content.len.to_le_bytes());
                for (index, page) in content.pages() {
                    add(&index.to_le_bytes());
                    add(page);
                }
            }
            add(b"/");
        }
        hash
    }
}

impl SimFs {
    /// What a crash at this instant would decide.
    pub fn pending(&self) -> Pending {
        self.disk.state().pending()
    }

    /// The file system after a crash now that decided as `choices` says, one value below the arity
    /// for each of [`SimFs::pending`]. It is independent of this one, nothing is pending or locked
    /// in it, and it reports to `steps`.
    ///
    /// # Panics
    /// If `choices` do not fit.
    pub fn image(&self, choices: &[usize], steps: Steps) -> SimFs {
        let state = self.disk.state().after_crash(choices);
        SimFs::with_state(state, steps)
    }

    /// The image in which only what is durable survives.
    pub fn image_none(&self, steps: Steps) -> SimFs {
        self.image(&self.pending().none(), steps)
    }

    /// The image in which everything survives.
    pub fn image_all(&self, steps: Steps) -> SimFs {
        self.image(&self.pending().all(), steps)
    }

    /// A random image.
    pub fn image_random(&self, seed: u64, steps: Steps) -> SimFs {
        self.image(&self.pending().random(seed), steps)
    }

    /// The file system after only the process died: readers see everything, nothing more is
    /// durable than was, handles and locks are gone.
    pub fn image_killed(&self, steps: Steps) -> SimFs {
        let state = self.disk.state();
        let killed = State {
            opens: BTreeMap::new(),
            locks: BTreeSet::new(),
            holds: BTreeMap::new(),
            fail_sync: None,
            ..state.clone()
        };
        SimFs::with_state(killed, steps)
    }

    /// A hash of what is durable: two images with the same digest hold the same names and bytes.
    pub fn digest(&self) -> u64 {
        self.disk.state().digest()
    }
}
