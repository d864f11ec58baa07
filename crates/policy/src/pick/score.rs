//! How large levels should be, how far from it they are, and where tables of level 0 should end for it.

use thermocline_base::KeyRange;

use super::slices::{depth, slices};
use super::state::{PickOptions, State};
use crate::tuning::{BETWEEN_PARTS, LEVEL_MULTIPLIER_MIN, MET_PERCENT};

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
            (2..=last + 1).contains(&state.levels.level_count().max(2)),
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

    /// Whether a job that takes so many bytes of level 0 to the base level, and meets so many there, had better go to the level above it,
    /// which is empty. Let it meet f bytes for each that it brings, and let m be the multiplier. A byte is written `1 + f` times on
    /// its way to the base level. With a level between, which has an m-th of it, it is `1 + f / m` times, and then `1 + c m`: of what it
    /// may meet on the way down it meets a part c ([`MET_PERCENT`]). That is less if `f (m - 1) > m (1 + c m)`.
    pub(super) fn pays_between(&self, options: &PickOptions, level0: u64, below: u64) -> bool {
        let base = self.base_level;
        let multiplier = options.multiplier.max(LEVEL_MULTIPLIER_MIN);
        let level = self.targets.get(base).map_or(0, |bytes| bytes / multiplier);
        let is_worth_one = level >= (options.base_bytes / BETWEEN_PARTS).max(1);
        let m = u128::from(multiplier);
        let without = u128::from(below) * (m - 1) * 100;
        let with = u128::from(level0) * m * (100 + u128::from(MET_PERCENT) * m);
        // A second one between pays later: with it the model writes 17.8 bytes a byte for 15.6, at 100 times persistent memory.
        let is_last = base > 1 && base == options.last_level;
        options.dynamic && is_last && is_worth_one && without > with
    }

    /// Its size over its target. From 1 on there is something to compact; the last level has 0.
    pub fn score(&self, level: usize) -> f64 {
        self.scores[level]
    }
}

/// Of tables in files and of those in persistent memory the higher one.
fn score_of_level0(state: &State<'_>, options: &PickOptions) -> f64 {
    let of = |in_pm: bool, tables: usize, bytes: u64| {
        let free = state.free_of_level0(in_pm);
        let by_count = depth(&free) as f64 / tables.max(1) as f64;
        by_count.max(score_of_bytes(state.level0_bytes(in_pm), bytes))
    };
    let files = of(false, options.level0_tables, options.level0_bytes);
    files.max(of(true, options.level0_pm_tables, options.level0_pm_bytes))
}

/// Of so many bytes where there may be `most`.
fn score_of_bytes(bytes: u64, most: u64) -> f64 {
    bytes as f64 / most.max(1) as f64
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

/// Bytes of level 0 and the base level: what a flush that goes to the latter may have to write anew.
///
/// # Panics
/// If a level is deeper than the last one.
pub fn base_and_above(state: &State<'_>, options: &PickOptions) -> u64 {
    let base = Scores::new(state, options).base_level();
    state.bytes(0).saturating_add(state.bytes(base))
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
        _ => arriving.saturating_add(state.bytes(scores.base_level())),
    };
    for level in scores.base_level()..options.last_level {
        let bytes = state.bytes(level).saturating_add(arriving);
        arriving = bytes.saturating_sub(scores.target(level).unwrap_or(u64::MAX));
        let next = u128::from(state.bytes(level + 1)) * u128::from(arriving);
        let overlapped = next / u128::from(bytes.max(1));
        let overlapped = u64::try_from(overlapped).expect("a part of the next level");
        pending = pending.saturating_add(arriving).saturating_add(overlapped);
    }
    pending
}

/// Whether that is the same with other options, where level 0 has so many bytes in persistent memory. How many it may have follows
/// from what other families have, and changes often; all that is asked of it is whether level 0 has as many.
pub fn pending_is_same(before: &PickOptions, after: &PickOptions, level0_pm_bytes: u64) -> bool {
    let is_due = |options: &PickOptions| {
        let score = score_of_bytes(level0_pm_bytes, options.level0_pm_bytes);
        score >= 1.0
    };
    let as_before = PickOptions {
        level0_pm_bytes: before.level0_pm_bytes,
        ..*after
    };
    as_before == *before && is_due(before) == is_due(after)
}

/// Where the next run of level 0 should end its tables, in key order, so that level 0 falls into slices
/// which overlap no table of the level below in common: then jobs merge nothing twice, and do not wait for
/// each other. Between slices that are there already; of an empty level 0 wherever the level below
/// begins a table.
///
/// ```
/// use thermocline_base::{FileId, SeqNo};
/// use thermocline_base::KeyRange;
/// use thermocline_policy::pick::{PickOptions, State, Table, level0_cuts};
/// let table = |first, last| Table {
///     file: FileId(1),
///     range: KeyRange::inclusive(first, last),
///     bytes: 1 << 20,
///     smallest_seqno: SeqNo(1),
///     largest_seqno: SeqNo(1),
///     entries: 1,
///     deletes: 0,
///     in_pm: false,
/// };
/// let options = PickOptions { last_level: 1, ..PickOptions::default() };
/// let below = vec![table(b"a", b"f"), table(b"g", b"p"), table(b"s", b"z")];
/// let cuts = |level0| {
///     let levels = [level0, below.clone()];
///     level0_cuts(&State { levels: &levels, running: &[] }, &options)
/// };
/// assert_eq!(cuts(vec![]), [b"a", b"g", b"s"]);
/// // Anything between the tables of level 0 would do; of that, where one below begins.
/// assert_eq!(cuts(vec![table(b"r", b"v"), table(b"b", b"k")]), [b"r"]);
/// assert_eq!(cuts(vec![table(b"u", b"v"), table(b"b", b"r")]), [b"s"]);
/// ```
///
/// # Panics
/// If a level is deeper than the last one.
pub fn level0_cuts(state: &State<'_>, options: &PickOptions) -> Vec<Vec<u8>> {
    let below = state.level(Scores::new(state, options).base_level());
    if state.level0().is_empty() {
        return below.iter().map(|t| t.range.first.to_vec()).collect();
    }
    let hulls = hulls_of_level0(state);
    let between = hulls.windows(2).map(|pair| {
        let next = pair[1].first;
        let behind = below.position(0, |t| !pair[0].ends_before(t.range.first));
        let begins = (behind < below.len()).then(|| below.table(behind).range.first);
        begins
            .filter(|first| *first <= next)
            .unwrap_or(next)
            .to_vec()
    });
    between.collect()
}

/// Where the keys of the slices of level 0 lie, in key order.
fn hulls_of_level0<'a>(state: &State<'a>) -> Vec<KeyRange<&'a [u8]>> {
    let slices = slices(state.level0()).into_iter();
    let hulls = slices.filter_map(|slice| state.level(0).hull_of(&slice));
    hulls.collect()
}

/// Where a run of level 0 may end its tables, within stretches of keys that level 0 does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Ends of the gaps between slices: a table that reaches over one joins a slice with what it has not.
    pub ends: Vec<Vec<u8>>,
    /// Where the base level begins tables within gaps.
    pub within: Vec<Vec<u8>>,
}

/// Where slices have left level 0, and the next run should have slices of its own: if its tables reached from what is left
/// there to what is left behind, level 0 would have fewer slices each time some leave, and in the end one, which
/// leaves as a whole.
///
/// ```
/// use thermocline_base::{FileId, SeqNo};
/// use thermocline_base::KeyRange;
/// use thermocline_policy::pick::{PickOptions, State, Table, level0_gaps};
/// let table = |first, last| Table {
///     file: FileId(1),
///     range: KeyRange::inclusive(first, last),
///     bytes: 1 << 20,
///     smallest_seqno: SeqNo(1),
///     largest_seqno: SeqNo(1),
///     entries: 1,
///     deletes: 0,
///     in_pm: false,
/// };
/// let options = PickOptions { last_level: 1, ..PickOptions::default() };
/// let below = vec![table(b"a", b"c"), table(b"d", b"f"), table(b"g", b"p"), table(b"s", b"w"), table(b"x", b"z")];
/// // What was from d to w has left.
/// let levels = [vec![table(b"x", b"y"), table(b"a", b"b")], below];
/// let gaps = level0_gaps(&State { levels: &levels, running: &[] }, &options);
/// assert_eq!(gaps.ends, [b"a", b"d", b"x"]);
/// assert_eq!(gaps.within, [b"g", b"s"]);
/// ```
///
/// # Panics
/// If a level is deeper than the last one.
pub fn level0_gaps(state: &State<'_>, options: &PickOptions) -> Gaps {
    let below = state.level(Scores::new(state, options).base_level());
    let hulls = hulls_of_level0(state);
    let mut gaps = Gaps::default();
    for n in 0..=hulls.len() {
        let from = n.checked_sub(1).map_or(0, |before| {
            below.position(0, |t| !hulls[before].ends_before(t.range.first))
        });
        let to = hulls.get(n).map_or(below.len(), |next| {
            below.position(0, |t| t.range.first <= next.first)
        });
        let begins = (from..to).map(|place| below.table(place).range.first.to_vec());
        let mut keys: Vec<Vec<u8>> = begins.collect();
        if n > 0 && !keys.is_empty() {
            gaps.ends.push(keys.remove(0));
        }
        if n < hulls.len() {
            gaps.ends.extend(keys.pop());
        }
        gaps.within.extend(keys);
    }
    gaps
}
