//! Grouping, greedily: a group takes block after block as long as its code stays small.
//!
//! A code needs as many positions as tell the last key of each block from the first key of the next. Each
//! block that a group takes may shorten what all its keys begin with, widen the bases of positions, and need
//! positions further back. When the code would exceed its limit, the group ends before the block.

use super::boundaries::Boundaries;
use super::code::{Alphabet, CODE_MAX, Code, POSITIONS_MAX, Position, base_of};
use super::work::Work;
use crate::block::build::common;

/// Most blocks, one behind the other, that begin with the user key with which the one before ends. A search
/// goes through them one by one; a table with longer runs keeps the binary index, which has their seqnos.
pub(super) const RUN_MAX: usize = 4;

/// A group of blocks, by their numbers, and its code.
#[derive(Debug)]
pub(super) struct Grown {
    pub first: usize,
    pub end: usize,
    pub code: Code,
}

/// A group that may take more.
#[derive(Clone, Copy)]
struct Growing<'a> {
    bounds: &'a Boundaries,
    alphabet: &'a Alphabet,
    first: usize,
    end: usize,
    /// Length of what all keys begin with.
    prefix: usize,
    /// Smallest and greatest symbol of the positions behind that.
    symbols: [(u16, u16); POSITIONS_MAX],
    /// The position behind the last that is needed, counted in keys.
    needed: usize,
}

impl<'a> Growing<'a> {
    fn new(bounds: &'a Boundaries, alphabet: &'a Alphabet, first: usize) -> Growing<'a> {
        let key = bounds.first(first);
        let prefix = common(key, bounds.last(first).user_key);
        let symbols = std::array::from_fn(|n| {
            let symbol = alphabet.symbol(key, prefix + n).0;
            (symbol, symbol)
        });
        let mut group = Growing {
            bounds,
            alphabet,
            first,
            end: first + 1,
            prefix,
            symbols,
            needed: 0,
        };
        group.widen(bounds.last(first).user_key);
        group
    }

    fn widen(&mut self, key: &[u8]) {
        for (n, (low, high)) in self.symbols.iter_mut().enumerate() {
            let symbol = self.alphabet.symbol(key, self.prefix + n).0;
            *low = symbol.min(*low);
            *high = symbol.max(*high);
        }
    }

    /// The group with one block more; `None` if it is too large for a code then.
    fn with_next(&self) -> Option<Growing<'a>> {
        let (bounds, alphabet) = (self.bounds, self.alphabet);
        let before = bounds.last(self.end - 1).user_key;
        let (first, last) = (bounds.first(self.end), bounds.last(self.end).user_key);
        let mut group = *self;
        let beginning = bounds.first(self.first);
        group.prefix = common(beginning, last).min(self.prefix);
        // All keys so far had the bytes of the first one up to the old prefix.
        let fewer = (self.prefix - group.prefix).min(POSITIONS_MAX);
        if fewer > 0 {
            group.symbols.copy_within(..POSITIONS_MAX - fewer, fewer);
            for (n, symbols) in group.symbols[..fewer].iter_mut().enumerate() {
                let symbol = alphabet.symbol(beginning, group.prefix + n).0;
                *symbols = (symbol, symbol);
            }
        }
        group.widen(first);
        group.widen(last);
        if before != first {
            group.needed = group.needed.max(common(before, first) + 1);
        }
        group.end += 1;
        group.is_coded().then_some(group)
    }

    fn positions(&self) -> usize {
        self.needed.saturating_sub(self.prefix)
    }

    fn is_coded(&self) -> bool {
        let count = self.positions();
        let bases = self.symbols.iter().take(count);
        let span = bases
            .map(|(low, high)| u64::from(base_of(*low, *high)))
            .try_fold(1u64, |span, base| {
                span.checked_mul(base).filter(|span| *span <= CODE_MAX)
            });
        count <= POSITIONS_MAX && span.is_some()
    }

    fn done(self) -> Option<Grown> {
        let (first, end) = (self.first, self.end);
        if end - first == 1 {
            // Nothing is to be told apart.
            let code = Code::new(&[], &[])?;
            return Some(Grown { first, end, code });
        }
        let positions: Vec<Position> = self
            .symbols
            .iter()
            .take(self.positions())
            .map(|&(low, high)| Position {
                low,
                base: base_of(low, high),
            })
            .collect();
        let prefix = &self.bounds.first(self.first)[..self.prefix];
        let code = Code::new(prefix, &positions)?;
        Some(Grown { first, end, code })
    }
}

/// Groups all blocks. `None` if versions of one key lie in too many of them, or it is too much work.
pub(super) fn groups(
    bounds: &Boundaries,
    alphabet: &Alphabet,
    work: &mut Work,
) -> Option<Vec<Grown>> {
    let mut groups = Vec::new();
    let mut group = Growing::new(bounds, alphabet, 0);
    let mut run = 0;
    for n in 1..bounds.len() {
        let (first, last) = (bounds.first(n), bounds.last(n).user_key);
        work.spend(2 * POSITIONS_MAX + first.len() + last.len())?;
        run = match bounds.last(n - 1).user_key == first {
            true => run + 1,
            false => 0,
        };
        if run > RUN_MAX {
            return None;
        }
        group = match group.with_next() {
            Some(larger) => larger,
            None => {
                groups.push(group.done()?);
                Growing::new(bounds, alphabet, n)
            }
        };
    }
    groups.push(group.done()?);
    Some(groups)
}

/// What no key before block `n` reaches, and all of its keys do, unless the block before ends with the key
/// with which this one begins.
pub(super) fn low_of(bounds: &Boundaries, n: usize) -> Vec<u8> {
    let Some(before) = n.checked_sub(1) else {
        return Vec::new();
    };
    let (before, first) = (bounds.last(before).user_key, bounds.first(n));
    match before == first {
        true => [first, &[0]].concat(),
        false => first[..=common(before, first)].to_vec(),
    }
}
