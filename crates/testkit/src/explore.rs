//! How far explorations go.
//!
//! A plain `cargo test` goes a part of the way, so that whoever has just cloned the project is not kept waiting.
//! `THERMOCLINE_EXPLORE=n` goes all the way, `n` times; `.ci/run` sets it to 1. What is counted is states, executions
//! and calls, never time.

/// How many times the whole is explored, if not only a part of it.
///
/// # Panics
/// If `THERMOCLINE_EXPLORE` is not a number above 0.
pub fn times() -> Option<u64> {
    let times = std::env::var("THERMOCLINE_EXPLORE").ok()?;
    let times = times.parse().ok().filter(|&times| times > 0);
    Some(times.expect("THERMOCLINE_EXPLORE is a number above 0"))
}

/// How many to explore: `part`, or `whole` so many times as [`times`] says.
pub fn explored(part: u64, whole: u64) -> u64 {
    times().map_or(part, |times| times * whole)
}

/// Of how many points one is tried: all of them, or in a plain run one in `part`.
pub fn one_in(part: u64) -> u64 {
    times().map_or(part, |_| 1)
}

/// Whether the `nth` of several is tried: each of them, or in a plain run one in `part`.
pub fn is_tried(nth: usize, part: u64) -> bool {
    (nth as u64).is_multiple_of(one_in(part))
}
