//! Keys as numbers: the string code of a group (SNBC).
//!
//! A *symbol* stands for a byte of a key: its rank among the bytes that occur anywhere in the keys of the
//! table, plus one; 0 stands for the end of a key. A group knows what all its keys begin with, and for
//! each position behind that the smallest symbol and how many from there on may occur (the *base* of
//! the position). A key's code has one digit for each position, in that position's base.
//!
//! The code is **monotonic on all keys**, whether or not the group was made of them: of two keys the
//! greater one never has the smaller code. Where a byte is none that the group knows, the key's digit
//! there is clamped to the place where such keys would be, and all later digits are zero:
//!
//! | the byte | the digit |
//! |---|---|
//! | below the smallest of this position | 0 |
//! | above the largest | the base: the code of what follows on all keys with this beginning |
//! | between two that occur in the table | that of the next one above |
//!
//! A key that ends has digits zero from there on. A key below the group's beginning has code 0; one above has
//! the greatest, which no key of the group has. Proof: let two keys differ first at some position. Before it
//! they have the same digits, or both stopped at the same place with the same code. At it, symbols order as
//! bytes do, and digits as symbols do. If the digits are equal, the smaller key or both stopped there: the
//! greater one's later digits are not below zeros; two different bytes with one digit are both clamped, or the smaller
//! one lies between two bytes and the greater one is the next byte above. If they differ, the smaller one
//! is below by one or more, and its later digits are below their bases.

use thermocline_base::numbers::len_of;
use thermocline_base::planted::{self, Bug};

/// No code is greater. Lines and their corrections stay within 63 bits with it.
pub(super) const CODE_MAX: u64 = 1 << 60;

/// Most positions of a code. A position costs time in each search, though one with a single symbol adds
/// nothing to the code.
pub(super) const POSITIONS_MAX: usize = 64;

/// Most symbols: all bytes, and the end of a key.
pub(super) const SYMBOLS_MAX: u16 = 257;

/// Which bytes occur in the keys of a table.
#[derive(Debug, Clone)]
pub(super) struct Alphabet {
    /// Of each byte: how many smaller ones occur, times two, plus one if it occurs itself.
    ranks: Box<[u16; 256]>,
}

impl Alphabet {
    /// Of the bytes whose bits are set.
    pub fn new(occur: &[u8; 32]) -> Alphabet {
        let mut ranks = Box::new([0; 256]);
        let mut rank = 0;
        for (byte, slot) in ranks.iter_mut().enumerate() {
            let occurs = u16::from(occur[byte / 8] >> (byte % 8) & 1);
            *slot = rank << 1 | occurs;
            rank += occurs;
        }
        Alphabet { ranks }
    }

    /// The symbol of a byte; of one that does not occur that of the next one above, and `false`.
    #[inline]
    pub fn of(&self, byte: u8) -> (u16, bool) {
        let rank = self.ranks[usize::from(byte)];
        ((rank >> 1) + 1, rank & 1 == 1)
    }

    /// The symbol of what stands at `at` in a key of the table.
    #[inline]
    pub fn symbol(&self, key: &[u8], at: usize) -> u16 {
        key.get(at).map_or(0, |byte| self.of(*byte).0)
    }

    /// Bytes of memory that it takes.
    pub fn charge(&self) -> usize {
        size_of_val(&*self.ranks)
    }
}

/// What may stand at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// The smallest symbol.
    pub low: u16,
    /// How many symbols from there on. At least one.
    pub base: u16,
}

#[derive(Debug, Clone, Copy)]
struct Digit {
    position: Position,
    /// What a digit counts: the bases behind it, multiplied.
    weight: u64,
}

/// How the keys of a group become numbers.
#[derive(Debug)]
pub(super) struct Code {
    prefix: Box<[u8]>,
    digits: Box<[Digit]>,
    /// The bases, multiplied: above the codes of all keys of the group.
    span: u64,
}

impl Code {
    /// Of keys that begin with `prefix`; `None` if codes would be greater than [`CODE_MAX`].
    pub fn new(prefix: &[u8], positions: &[Position]) -> Option<Code> {
        let mut span = 1u64;
        let mut digits = Vec::with_capacity(positions.len());
        for &position in positions.iter().rev() {
            let weight = span;
            span = weight.checked_mul(u64::from(position.base))?;
            if span > CODE_MAX {
                return None;
            }
            digits.push(Digit { position, weight });
        }
        digits.reverse();
        Some(Code {
            prefix: prefix.into(),
            digits: digits.into(),
            span,
        })
    }

    /// What all keys of the group begin with.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The positions behind that.
    pub fn positions(&self) -> impl ExactSizeIterator<Item = Position> {
        self.digits.iter().map(|digit| digit.position)
    }

    /// The code of a key, of any key.
    #[inline]
    pub fn of(&self, alphabet: &Alphabet, key: &[u8]) -> u64 {
        let len = self.prefix.len();
        let begins = &key[..key.len().min(len)];
        if *begins != *self.prefix {
            let is_below = *begins < *self.prefix && !planted::active(Bug::CodeIgnoresOrder);
            return if is_below { 0 } else { self.span };
        }
        let mut code = 0;
        // Behind the end of the key there are only zeros.
        for (digit, byte) in self.digits.iter().zip(&key[len..]) {
            let (symbol, occurs) = alphabet.of(*byte);
            let Position { low, base } = digit.position;
            let value = symbol.saturating_sub(low).min(base);
            code += u64::from(value) * digit.weight;
            if symbol < low || value == base || !occurs {
                break;
            }
        }
        code
    }

    /// Bytes of memory that it takes beside itself.
    pub fn charge(&self) -> usize {
        self.prefix.len() + size_of_val(&*self.digits)
    }
}

/// The bits of the bytes that occur among these.
pub(super) fn occurring(bytes: &[u8]) -> [u8; 32] {
    let mut seen = [false; 256];
    for byte in bytes {
        seen[usize::from(*byte)] = true;
    }
    let mut occur = [0; 32];
    for (byte, _) in seen.iter().enumerate().filter(|(_, seen)| **seen) {
        occur[byte / 8] |= 1 << (byte % 8);
    }
    occur
}

/// How many bytes of one position a code may have: for whoever multiplies bases.
pub(super) fn base_of(low: u16, high: u16) -> u16 {
    debug_assert!(low <= high && len_of(u32::from(high)) < usize::from(SYMBOLS_MAX));
    high - low + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_testkit::Rng;

    fn alphabet(bytes: &[u8]) -> Alphabet {
        Alphabet::new(&occurring(bytes))
    }

    #[test]
    fn the_papers_example_has_the_papers_code() {
        let alphabet = alphabet(b"abcd");
        let positions = [(1, 2), (1, 4), (2, 3)].map(|(low, base)| Position { low, base });
        let code = Code::new(b"", &positions).unwrap();
        assert_eq!(code.of(&alphabet, b"aab"), 0);
        assert_eq!(code.of(&alphabet, b"bcb"), 4 * 3 + 2 * 3);
        assert_eq!(code.of(&alphabet, b"bdd"), 4 * 3 + 3 * 3 + 2);
    }

    /// Random codes over few bytes, and all keys of up to five of a few more: no key has a smaller code
    /// than one before it.
    #[test]
    fn codes_are_monotonic_on_all_keys() {
        let letters = [0, 1, b'a', b'b', b'c', b'd', 0xff];
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for len in 0..5 {
            let longer = keys.iter().filter(|key| key.len() == len);
            let longer =
                longer.flat_map(|key| letters.iter().map(move |l| [key, &[*l][..]].concat()));
            let longer: Vec<_> = longer.collect();
            keys.extend(longer);
        }
        keys.sort();
        let mut rng = Rng::new(2);
        for _ in 0..40 {
            let occur: Vec<u8> = letters.iter().copied().filter(|_| rng.one_in(2)).collect();
            let alphabet = alphabet(&occur);
            let top = occur.len() + 1;
            let positions: Vec<Position> = (0..rng.below(5))
                .map(|_| {
                    let low = u16::try_from(rng.below(top)).unwrap();
                    let more = u16::try_from(rng.below(top - usize::from(low))).unwrap();
                    Position {
                        low,
                        base: base_of(low, low + more),
                    }
                })
                .collect();
            let prefix = *rng.pick(&[&b""[..], b"a", b"bb", b"c\0"]);
            let code = Code::new(prefix, &positions).unwrap();
            let codes: Vec<u64> = keys.iter().map(|key| code.of(&alphabet, key)).collect();
            assert!(codes.is_sorted(), "{prefix:?} {positions:?} {occur:?}");
            assert!(codes.iter().all(|c| *c <= code.span));
        }
    }

    #[test]
    fn codes_that_would_be_too_great_are_none() {
        let position = Position { low: 0, base: 256 };
        assert!(Code::new(b"", &[position; 7]).is_some());
        assert!(Code::new(b"", &[position; 8]).is_none());
        assert!(Code::new(b"", &[Position { low: 9, base: 1 }; 64]).is_some());
    }
}
