//! What a seed decides, where there are no threads.

use thermocline_env::simulated::SeededRandom;

/// See the [module](self).
pub(super) struct Inline(SeededRandom);

impl Inline {
    pub fn new(seed: u64) -> Inline {
        Inline(SeededRandom::new(seed))
    }

    /// A number up to `most`.
    pub fn up_to(&self, most: usize) -> usize {
        let drawn = self.0.below(most as u64 + 1);
        usize::try_from(drawn).expect("no more than a usize")
    }

    /// Whether something is done now, or later.
    pub fn is_now(&self) -> bool {
        self.up_to(1) == 0
    }
}
