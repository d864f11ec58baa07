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
    /// Smallest and greatest symbol of the positions behind that, as far as they are watched.
    symbols: [(u16, u16); POSITIONS_MAX],
    /// Lengths of the shortest and of the longest key.
    lens: (usize, usize),
    /// How many of the positions a code can have.
    fits: usize,
    /// The position behind the last that is needed, counted in keys.
    needed: usize,
}

impl<'a> Growing<'a> {
    fn new(bounds: &'a Boundaries, alphabet: &'a Alphabet, first: usize) -> Growing<'a> {
        let (key, last) = (bounds.first(first), bounds.last(first).user_key);
        let prefix = common(key, last);
        let mut symbols = [(0, 0); POSITIONS_MAX];
        for (of, byte) in symbols.iter_mut().zip(&key[prefix..]) {
            let symbol = alphabet.of(*byte).0;
            *of = (symbol, symbol);
        }
        let mut group = Growing {
            bounds,
            alphabet,
            first,
            end: first + 1,
            prefix,
            symbols,
            lens: (key.len(), key.len()),
            fits: POSITIONS_MAX,
            needed: 0,
        };
        group.widen(last);
        group.measure();
        group
    }

    /// The positions whose symbols may matter: those that a code can have, and one more. With that one a code is too
    /// large, and stays so whatever the group takes, since bases only grow.
    fn watched(&self) -> usize {
        (self.fits + 1).min(POSITIONS_MAX)
    }

    /// Whether a key brings no symbol that its positions do not have, if it agrees with a key of the group in so many bytes.
    fn has(&self, key: &[u8], same: usize) -> bool {
        let end = key.len().min(self.prefix + self.watched());
        let from = same.min(end);
        let known = &self.symbols[from - self.prefix..];
        let mut known = key[from..end].iter().zip(known);
        // A shorter key ends where none has ended so far.
        key.len() >= self.lens.0
            && known.all(|(byte, (low, high))| (*low..=*high).contains(&self.alphabet.of(*byte).0))
    }

    /// Takes the symbols of a key. Behind the longest one all have the symbol of an end.
    fn widen(&mut self, key: &[u8]) {
        let (shortest, longest) = self.lens;
        self.lens = (shortest.min(key.len()), longest.max(key.len()));
        let count = self.watched().min(self.lens.1 - self.prefix);
        for (n, (low, high)) in self.symbols[..count].iter_mut().enumerate() {
            let symbol = self.alphabet.symbol(key, self.prefix + n);
            *low = symbol.min(*low);
            *high = symbol.max(*high);
        }
    }

    /// Counts how many of the watched positions a code can have.
    fn measure(&mut self) {
        let mut span = 1u64;
        let is_over = |&(low, high): &(u16, u16)| {
            span = span.saturating_mul(u64::from(base_of(low, high)));
            span > CODE_MAX
        };
        let over = self.symbols[..self.watched()].iter().position(is_over);
        self.fits = over.unwrap_or(POSITIONS_MAX);
    }

    /// All keys have only so many bytes in common from now on: before, they had those of the first one.
    fn shorten(&mut self, prefix: usize) {
        let fewer = (self.prefix - prefix).min(POSITIONS_MAX);
        self.symbols.copy_within(..POSITIONS_MAX - fewer, fewer);
        let beginning = self.bounds.first(self.first);
        for (n, symbols) in self.symbols[..fewer].iter_mut().enumerate() {
            let symbol = self.alphabet.symbol(beginning, prefix + n);
            *symbols = (symbol, symbol);
        }
        self.prefix = prefix;
        self.fits = (self.fits + fewer).min(POSITIONS_MAX);
    }

    /// Takes the next block. If the group is too large for a code then, it stays as it is, and the answer is no.
    fn takes_next(&mut self) -> bool {
        let bounds = self.bounds;
        let before = bounds.last(self.end - 1).user_key;
        let (first, last) = (bounds.first(self.end), bounds.last(self.end).user_key);
        // Keys ascend, so what the first and the last begin with is what each begins with as the one before does.
        let (between, within) = (common(before, first), common(first, last));
        let prefix = self.prefix.min(between).min(within);
        let needed = match before == first {
            true => self.needed,
            false => self.needed.max(between + 1),
        };
        // Most blocks bring nothing new.
        if prefix == self.prefix && self.has(first, between) && self.has(last, within) {
            let is_coded = needed.saturating_sub(prefix) <= self.fits;
            if is_coded {
                self.lens.1 = self.lens.1.max(first.len()).max(last.len());
                self.needed = needed;
                self.end += 1;
            }
            return is_coded;
        }
        let mut group = *self;
        group.shorten(prefix);
        group.widen(first);
        group.widen(last);
        group.measure();
        group.needed = needed;
        group.end += 1;
        let is_coded = group.positions() <= group.fits;
        if is_coded {
            *self = group;
        }
        is_coded
    }

    fn positions(&self) -> usize {
        self.needed.saturating_sub(self.prefix)
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
        if !group.takes_next() {
            groups.push(group.done()?);
            group = Growing::new(bounds, alphabet, n);
        }
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
