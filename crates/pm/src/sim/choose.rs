//! Which crash states of an image to try.

use thermocline_base::checksum::hash64_seeded;

use super::crash::{CrashImage, PendingWord};

/// Images with at most this many states are explored exhaustively.
pub const EXHAUSTIVE_MAX: u64 = 4096;

/// For each pending word, the index of its chosen candidate.
pub type Choice = Vec<usize>;

impl CrashImage {
    /// The states to try: all of them if there are at most `exhaustive_max`, else none-persisted,
    /// all-persisted, all-but-one, only-one, and `random` random ones drawn from `seed`. Words for
    /// which `varied` is false stay at their newest value (recovery does not read them).
    pub fn choices(
        &self,
        exhaustive_max: u64,
        random: usize,
        seed: u64,
        varied: impl Fn(&PendingWord) -> bool,
    ) -> Vec<Choice> {
        let newest: Choice = self
            .pending()
            .iter()
            .map(|w| w.candidates.len() - 1)
            .collect();
        let open: Vec<usize> = (0..newest.len())
            .filter(|&i| varied(&self.pending()[i]))
            .collect();
        let sizes: Vec<u64> = open
            .iter()
            .map(|&i| self.pending()[i].candidates.len() as u64)
            .collect();
        let total = sizes
            .iter()
            .try_fold(1u64, |product, &n| product.checked_mul(n));
        match total {
            Some(total) if total <= exhaustive_max.min(EXHAUSTIVE_MAX) => {
                (0..total).map(|n| nth(&newest, &open, &sizes, n)).collect()
            }
            _ => self.sample(&newest, &open, random, seed),
        }
    }

    fn sample(&self, newest: &Choice, open: &[usize], random: usize, seed: u64) -> Vec<Choice> {
        let mut oldest = newest.clone();
        for &i in open {
            oldest[i] = 0;
        }
        let mut all = vec![newest.clone(), oldest.clone()];
        for &i in open {
            let mut but_one = newest.clone();
            but_one[i] = 0;
            all.push(but_one);
            let mut only_one = oldest.clone();
            only_one[i] = newest[i];
            all.push(only_one);
        }
        for round in 0..random as u64 {
            let mut choice = newest.clone();
            for &i in open {
                let draw = hash64_seeded(&(i as u64).to_le_bytes(), seed ^ round << 32);
                let candidates = self.pending()[i].candidates.len() as u64;
                choice[i] = thermocline_base::size::index(draw % candidates);
            }
            all.push(choice);
        }
        all
    }
}

/// The `n`-th of all combinations, counting through the open words like digits.
fn nth(newest: &Choice, open: &[usize], sizes: &[u64], mut n: u64) -> Choice {
    let mut choice = newest.clone();
    for (&i, &size) in open.iter().zip(sizes) {
        choice[i] = thermocline_base::size::index(n % size);
        n /= size;
    }
    choice
}
