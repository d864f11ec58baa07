//! The reference: a search of all orders, for histories of a few operations; and choices to make such
//! histories from.

use std::collections::HashSet;
use std::hash::Hash;

/// One operation as the search sees it.
pub(super) struct Operation<S> {
    pub began: u64,
    /// The step at which it had returned; `None` if it never did.
    pub ended: Option<u64>,
    /// What it may do to the state, each if what it saw fits: one of them happens.
    pub effects: Vec<Effect<S>>,
}

/// Changes a state; false if what the operation saw does not fit it.
pub(super) type Effect<S> = Box<dyn Fn(&mut S) -> bool>;

/// Whether there is an order that keeps real time in which every operation fits.
pub(super) fn explains<S: Clone + Eq + Hash>(operations: &[Operation<S>], start: S) -> bool {
    assert!(operations.len() < 32);
    let all = (1u32 << operations.len()) - 1;
    let mut tried = HashSet::new();
    let mut open = vec![(0u32, start)];
    while let Some((done, state)) = open.pop() {
        if done == all {
            return true;
        }
        if !tried.insert((done, state.clone())) {
            continue;
        }
        let left = |i: usize| done & 1 << i == 0;
        let first_end = (0..operations.len()).filter(|&i| left(i));
        let first_end = first_end.filter_map(|i| operations[i].ended).min();
        for i in (0..operations.len()).filter(|&i| left(i)) {
            if first_end.is_some_and(|end| end < operations[i].began) {
                continue;
            }
            for effect in &operations[i].effects {
                let mut after = state.clone();
                if effect(&mut after) {
                    open.push((done | 1 << i, after));
                }
            }
        }
    }
    false
}

/// Choices that shrink: numbers drawn by proptest, 0 when they are used up.
#[derive(Debug, Clone)]
pub(super) struct Choices(pub std::vec::IntoIter<u32>);

impl Choices {
    pub fn below(&mut self, n: usize) -> usize {
        self.0.next().unwrap_or(0) as usize % n
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    pub fn left(&self) -> bool {
        !self.0.as_slice().is_empty()
    }
}
