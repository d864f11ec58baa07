//! The suite: the default preset beside its rivals, on workloads that stand for what the store is to be good at.
//!
//! # What is compared
//! A [`Cell`] is one workload at one size. In each *round* every preset of [`PRESETS`] runs it on a new store of its own,
//! one right after the other, and another one begins each time: what the machine does meanwhile meets all alike. All
//! options are those that a user gets, but for sizes: persistent memory is small, so that data of many times as much is
//! loaded in seconds, and `dram` is as large a part of it as it is by default.
//!
//! What a load leaves in persistent memory depends on where it stops: right before a job that takes much out of it, or right
//! behind one: sizes a few percent apart differ by twice (decision 148). So each round has another number of keys
//! ([`keys_of_round`]), the same for all presets: a verdict is of a size, and not of where one load happened to stop.
//!
//! # What passes
//! The *best rival* is the one with the highest median. A cell passes if the 95 % interval of the ratio to it ([`Ratio`]) reaches
//! [`BAR`]: what was measured does not say that the default is more than 5 % slower. The best rival is chosen by the same
//! rounds, which favours it a little. Few rounds make a wide interval, and so a pass that says little; one round has none, and
//! its ratio itself must reach the bar.
//!
//! # What each run is
//! A [`Plan`](crate::Plan) like any other: [`CellFound::command`] repeats it. Workloads on keys that are there load them and then
//! wait for background work, so that one preset's backlog of loading is not another one's gain. Loads of more than persistent memory holds
//! are measured with a wait at their end. All other cells end with the backlog of what they did, whose time and bytes do not count.

mod cell;
mod cells;
mod found;
mod interval;
mod measure;
mod table;

pub use cell::{Cell, Setting};
pub use cells::{choose, full, named};
pub use found::{CellFound, Found, Side};
pub use interval::{Ratio, median};
pub use measure::run_suite;

use thermocline::options::Preset;

/// What is compared: the default first, then its rivals.
pub const PRESETS: [Preset; 5] = [
    Preset::Thermocline,
    Preset::GlobalIndex,
    Preset::Leveled,
    Preset::PmBlade,
    Preset::FlatLsm,
];

/// The part of the best rival's rate that the interval must reach.
pub const BAR: f64 = 0.95;

/// Keys of the rounds, in percent of those of the cell, over and over.
const KEYS_PERCENT: [u64; 5] = [100, 106, 94, 112, 88];

/// How many keys are in this round of a cell that has `keys` of them.
pub fn keys_of_round(keys: u64, round: usize) -> u64 {
    let percent = u128::from(KEYS_PERCENT[round % KEYS_PERCENT.len()]);
    let keys = u128::from(keys) * percent / 100;
    u64::try_from(keys).unwrap_or(u64::MAX).max(1)
}

/// Most rounds.
pub const ROUNDS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_have_about_as_many_keys_as_their_cell() {
        let keys = |round| keys_of_round(1000, round);
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(keys),
            [1000, 1060, 940, 1120, 880, 1000]
        );
        assert_eq!(keys_of_round(1, 2), 1);
        assert_eq!(keys_of_round(u64::MAX, 3), u64::MAX);
    }
}
