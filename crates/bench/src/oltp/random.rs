//! Draws that workloads make.

use crate::rng::Rng;

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

impl Rng {
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
