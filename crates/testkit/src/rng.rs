//! Seeded randomness, and how a failure says with which seed to repeat it.

/// The splitmix64 sequence of a seed.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// From this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next_u64() % bound as u64).expect("it is below a usize")
    }

    /// Whether one of `n` equally likely cases happened.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of them.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// The seeds to run: the usual ones, or the one in the environment variable `THERMOCLINE_SEED`.
///
/// # Panics
/// If that is not a number.
pub fn seeds(usual: impl IntoIterator<Item = u64>) -> Vec<u64> {
    match std::env::var("THERMOCLINE_SEED") {
        Ok(seed) => vec![seed.parse().expect("THERMOCLINE_SEED is a number")],
        Err(_) => usual.into_iter().collect(),
    }
}
