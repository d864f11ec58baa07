//! Equation 3: which partitions stay in persistent memory when level 0 is too large.

use crate::tuning::GAIN_MARGIN;

/// A partition that may stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Its bytes in persistent memory.
    pub bytes: u64,
    /// Reads a second.
    pub reads: f64,
    /// Whether it stayed last time.
    pub kept: bool,
}

impl Candidate {
    /// Reads for each byte; what stayed last time counts for a little more, so that two partitions of about the
    /// same warmth do not change places for ever.
    fn warmth(&self) -> f64 {
        let bonus = if self.kept { GAIN_MARGIN } else { 1.0 };
        self.reads * bonus / self.bytes.max(1) as f64
    }
}

/// Which of `candidates` stay so that they have at most `keep` bytes (τt): those with most reads for
/// each byte, as the paper chooses them, and of the rest what still fits. Of those without reads the small ones stay
/// first: the more a slice has gathered when it goes, the less of the level below is written for each byte of it.
///
/// The knapsack's best choice is at most twice as good as the better of this and the one candidate with
/// most reads; partitions are small beside τt, and then it is nearly the best.
///
/// ```
/// use thermocline_policy::cost::{Candidate, keep};
/// let of = |bytes, reads| Candidate { bytes, reads, kept: false };
/// let stays = keep(&[of(10, 1.0), of(10, 50.0), of(30, 60.0), of(5, 0.0)], 25);
/// assert_eq!(stays, [true, true, false, true]);
/// ```
pub fn keep(candidates: &[Candidate], keep: u64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    // Of equal ones the smaller, and of those the first.
    order.sort_by(|a, b| {
        let (a, b) = (&candidates[*a], &candidates[*b]);
        let warmth = b.warmth().total_cmp(&a.warmth());
        warmth.then(a.bytes.cmp(&b.bytes))
    });
    let mut stays = vec![false; candidates.len()];
    let mut left = keep;
    for n in order {
        let candidate = &candidates[n];
        if candidate.bytes <= left {
            left -= candidate.bytes;
            stays[n] = true;
        }
    }
    stays
}
