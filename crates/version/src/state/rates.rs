//! What is remembered of partitions' rates from one opening to the next.

use super::State;
use crate::edit::StoredRate;

impl State {
    /// How often partitions were read and written when the store was closed last, as far as that was noted: of
    /// some partitions that exist.
    pub fn rates(&self) -> &[StoredRate] {
        &self.rates
    }

    /// Of partitions that do not exist nothing is kept: their ids are given out again.
    pub(super) fn set_rates(&mut self, rates: &[StoredRate]) {
        let exists = |rate: &&StoredRate| {
            self.families.contains_key(&rate.cf.0)
                && self.version.partitions(rate.cf).has(rate.partition)
        };
        self.rates = rates.iter().filter(exists).copied().collect();
    }

    pub(super) fn forget_rates(&mut self, of: impl Fn(&StoredRate) -> bool) {
        if self.rates.iter().any(&of) {
            let others = self.rates.iter().filter(|rate| !of(rate));
            self.rates = others.copied().collect();
        }
    }
}
