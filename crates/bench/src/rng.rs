//! Pseudo-random numbers from a seed: the same on every machine.

/// What random text is made of.
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The splitmix64 generator (Steele, Lea, Flood 2014): a counter and a finaliser.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator for part `part` of a run that has this seed, independent of the other parts.
    pub fn of_part(seed: u64, part: u64) -> Rng {
        let mut rng = Rng(seed ^ part.wrapping_mul(0xd1b5_4a32_d192_ed03));
        Rng(rng.next())
    }

    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0. The bias is at most `n / 2^64`.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(n);
        u64::try_from(wide >> 64).unwrap_or(n - 1)
    }

    /// A number in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from `first` to `last`, both included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// Whether one of `percent` in 100 cases happened.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Text of `first` to `last` letters and digits.
    pub fn text(&mut self, first: u64, last: u64) -> String {
        self.of(LETTERS, first, last)
    }

    /// Text of `first` to `last` digits.
    pub fn digits(&mut self, first: u64, last: u64) -> String {
        self.of(b"0123456789", first, last)
    }

    fn of(&mut self, letters: &[u8], first: u64, last: u64) -> String {
        let len = self.between(first, last);
        let letter = |_| {
            let at = usize::try_from(self.below(letters.len() as u64)).unwrap_or(0);
            char::from(letters[at])
        };
        (0..len).map(letter).collect()
    }
}
