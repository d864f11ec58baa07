//! How large levels should be, and how far from it they are.

use super::slices::depth;
use super::state::{PickOptions, State};
use crate::tuning::LEVEL_MULTIPLIER_MIN;

/// The targets of all levels, and their scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    base_level: usize,
    /// In bytes, by level; only those from the base level to before the last one count.
    targets: Vec<u64>,
    scores: Vec<f64>,
}

impl Scores {
    /// Those of a state. What running jobs hold in a level does not count: it is being taken care
    /// of.
    ///
    /// # Panics
    /// If a level is deeper than the last one.
    pub fn new(state: &State<'_>, options: &PickOptions) -> Scores {
        let last = options.last_level;
        assert!(
            (2..=last + 1).contains(&state.levels.len().max(2)),
            "levels are 0 to {last}"
        );
        let (base_level, targets) = match options.dynamic {
            true => dynamic_targets(state, options),
            false => (1, fixed_targets(options)),
        };
        let score = |level: usize| match level {
            0 => score_of_level0(state, options),
            _ if level == last => 0.0,
            _ => state.free_bytes(level) as f64 / targets[level].max(1) as f64,
        };
        Scores {
            scores: (0..=last).map(score).collect(),
            base_level,
            targets,
        }
    }

    /// The level into which level 0 is compacted. No table lies between.
    pub fn base_level(&self) -> usize {
        self.base_level
    }

    /// The bytes that a level should have at most; `None` for level 0, for the last one and for
    /// those above the base level.
    pub fn target(&self, level: usize) -> Option<u64> {
        let limited = (self.base_level..self.targets.len() - 1).contains(&level);
        limited.then(|| self.targets[level])
    }

    /// Its size over its target. From 1 on there is something to compact; the last level has 0.
    pub fn score(&self, level: usize) -> f64 {
        self.scores[level]
    }
}

/// Of tables in files and of those in persistent memory the higher one.
fn score_of_level0(state: &State<'_>, options: &PickOptions) -> f64 {
    let of = |in_pm: bool, tables: usize, bytes: u64| {
        let mut free = state.free(0);
        free.retain(|table| table.in_pm == in_pm);
        let by_count = depth(&free) as f64 / tables.max(1) as f64;
        by_count.max(state.level0_bytes(in_pm) as f64 / bytes.max(1) as f64)
    };
    let files = of(false, options.level0_tables, options.level0_bytes);
    files.max(of(true, options.level0_pm_tables, options.level0_pm_bytes))
}

fn fixed_targets(options: &PickOptions) -> Vec<u64> {
    let mut targets = vec![0];
    let mut target = options.base_bytes;
    for _ in 0..options.last_level {
        targets.push(target);
        target = target.saturating_mul(options.multiplier.max(LEVEL_MULTIPLIER_MIN));
    }
    targets
}

/// From the last level upwards, each a part of the next, as long as none is smaller than the base: what
/// comes from level 0 would pass through a smaller one without gain.
fn dynamic_targets(state: &State<'_>, options: &PickOptions) -> (usize, Vec<u64>) {
    let last = options.last_level;
    let multiplier = options.multiplier.max(LEVEL_MULTIPLIER_MIN);
    let mut targets = vec![0; last + 1];
    targets[last] = state.bytes(last).max(options.base_bytes);
    let mut base = last;
    while base > 1 && targets[base] / multiplier >= options.base_bytes.max(1) {
        targets[base - 1] = targets[base] / multiplier;
        base -= 1;
    }
    // Levels above the base have tables when the options have changed or the last level has shrunk.
    // Level 0 cannot skip them; they get small targets, and so are emptied.
    let first = (1..base)
        .find(|&level| !state.level(level).is_empty())
        .unwrap_or(base);
    for level in (first..base).rev() {
        targets[level] = targets[level + 1] / multiplier;
    }
    (first, targets)
}

/// About how many bytes are to be read and written until all scores are below 1: what is too much
/// in each level, and what it overlaps in the next one.
pub fn pending_bytes(state: &State<'_>, options: &PickOptions) -> u64 {
    let unheld = State {
        running: &[],
        ..*state
    };
    let scores = Scores::new(&unheld, options);
    let level0 = state.bytes(0);
    let mut arriving = if scores.score(0) >= 1.0 { level0 } else { 0 };
    // Level 0 is mostly merged with all of the base level.
    let mut pending = match arriving {
        0 => 0,
        _ => arriving + state.bytes(scores.base_level()),
    };
    for level in scores.base_level()..options.last_level {
        let bytes = state.bytes(level) + arriving;
        arriving = bytes.saturating_sub(scores.target(level).unwrap_or(u64::MAX));
        let next = u128::from(state.bytes(level + 1)) * u128::from(arriving);
        let overlapped = next / u128::from(bytes.max(1));
        pending += arriving + u64::try_from(overlapped).expect("a part of the next level");
    }
    pending
}
