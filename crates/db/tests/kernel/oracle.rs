//! What a store may have, by what was reported.
//!
//! For each key the oracle keeps the operations that may have written what is there, oldest first: those that were
//! acknowledged, and those of which nobody knows (refused, or under way when the process ended).
//!
//! 1. When a durable operation is acknowledged, so is all before it: nothing older than the last acknowledged
//!    operation of a key can be there any more.
//! 2. A `Buffered` one may be lost from the end only. So where an operation is found, all acknowledged ones before
//!    it must be there.
//! 3. A batch is there as a whole.
//! 4. What a store has after it was opened stays: it was made durable before it was shown.

use std::collections::BTreeMap;

use crate::work::{self, Op, Place};

/// An operation that may have written what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    n: u64,
    puts: bool,
    acknowledged: bool,
}

const NOTHING: Candidate = Candidate {
    n: 0,
    puts: false,
    acknowledged: true,
};

#[derive(Debug, Default)]
pub(crate) struct Oracle {
    seed: u64,
    places: BTreeMap<Place, Vec<Candidate>>,
    /// Operations that somebody may still have to be found whole of.
    ops: BTreeMap<u64, Op>,
}

impl Oracle {
    pub fn new(seed: u64) -> Oracle {
        Oracle {
            seed,
            ..Oracle::default()
        }
    }

    /// Operation `n` has begun.
    pub fn begins(&mut self, n: u64) {
        let op = work::operation(self.seed, n);
        for (place, puts) in &op.changes {
            let candidates = self.places.entry(*place).or_insert_with(|| vec![NOTHING]);
            candidates.push(Candidate {
                n,
                puts: *puts,
                acknowledged: false,
            });
        }
        self.ops.insert(n, op);
    }

    /// It was acknowledged.
    pub fn is_acknowledged(&mut self, n: u64) {
        let Some(op) = self.ops.get(&n) else { return };
        let durable = op.is_durable();
        for (place, _) in &op.changes {
            let candidates = self.places.get_mut(place).expect("it has begun");
            let own = candidates.iter_mut().find(|c| c.n == n);
            own.expect("it has begun").acknowledged = true;
        }
        if durable {
            self.is_durable(n);
        }
    }

    /// All that was acknowledged up to `n` is there.
    fn is_durable(&mut self, n: u64) {
        for candidates in self.places.values_mut() {
            let last = candidates.iter().rposition(|c| c.acknowledged && c.n <= n);
            candidates.drain(..last.unwrap_or(0));
        }
    }

    /// A store was opened and has this: holds it against what it may have, and remembers it.
    pub fn sees(&mut self, found: &BTreeMap<Place, u64>) -> Result<(), String> {
        for (place, n) in found {
            let known = self.places.get(place);
            if !known.is_some_and(|all| all.iter().any(|c| c.n == *n && c.puts)) {
                return Err(format!(
                    "{place:?} has what {n} put there; it may be what one of {known:?} left"
                ));
            }
        }
        self.is_durable(found.values().copied().max().unwrap_or(0));
        for (place, candidates) in &mut self.places {
            let n = found.get(place).copied();
            let at = candidates.iter().rposition(|c| match n {
                Some(n) => c.n == n,
                None => !c.puts,
            });
            let Some(at) = at else {
                return Err(format!(
                    "{place:?} has {n:?}; it must be what one of {candidates:?} left"
                ));
            };
            let there = candidates[at];
            *candidates = vec![Candidate {
                acknowledged: true,
                ..there
            }];
        }
        self.is_whole(found)?;
        self.ops.clear();
        Ok(())
    }

    /// Of each batch of which something is there, all is that nothing later has overwritten.
    fn is_whole(&self, found: &BTreeMap<Place, u64>) -> Result<(), String> {
        for (n, op) in &self.ops {
            let puts = |place: &Place| found.get(place) == Some(n);
            if !op.changes.iter().any(|(place, _)| puts(place)) {
                continue;
            }
            for (place, _) in &op.changes {
                let there = self.places[place][0].n;
                if there < *n {
                    return Err(format!(
                        "operation {n} is there, but {place:?} has what {there} left"
                    ));
                }
            }
        }
        Ok(())
    }
}
