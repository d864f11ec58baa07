//! The top model: which group a key lies in.
//!
//! The *head* of a key is a number made of the eight bytes behind what all groups but the first begin
//! with. Pieces of straight lines lead from a head to about a group; the groups' own lowest keys then say
//! which one it is. A piece that is wrong costs time and no more.

use thermocline_base::numbers::{first_bytes, len_of, len32};

use super::line::Line;
use super::search::last_not_behind;

/// How many groups a piece may be wrong by.
const WRONG_MAX: u32 = 4;

/// Above all heads of keys that begin as groups do.
const HEAD_MAX: u64 = 1 << 60;

/// A line over some groups that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// How many groups, at least one.
    pub groups: u32,
    /// From them to their heads.
    pub line: Line,
}

/// The top model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Top {
    prefix: Box<[u8]>,
    pieces: Box<[Piece]>,
    /// The first group of each piece.
    firsts: Box<[u32]>,
}

impl Top {
    /// Of these pieces; `None` if their lines leave the numbers.
    pub fn new(prefix: &[u8], pieces: &[Piece]) -> Option<Top> {
        let (mut firsts, mut next) = (Vec::with_capacity(pieces.len()), 0u32);
        for piece in pieces {
            piece.line.checked(piece.groups.checked_sub(1)?)?;
            firsts.push(next);
            next = next.checked_add(piece.groups)?;
        }
        Some(Top {
            prefix: prefix.into(),
            pieces: pieces.into(),
            firsts: firsts.into(),
        })
    }

    /// What all groups but the first begin with.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The pieces, by groups.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// A model of groups with these lowest keys, of which the first is empty.
    pub fn train(lows: &[&[u8]]) -> Top {
        let prefix = match lows {
            [_, first, .., last] => &first[..crate::block::build::common(first, last)],
            [_, first] => first,
            _ => &[],
        };
        let heads: Vec<i64> = lows.iter().map(|low| head(prefix, low)).collect();
        let (mut pieces, mut at) = (Vec::new(), 0);
        while at < heads.len() {
            let piece = longest(&heads[at..]);
            at += len_of(piece.groups);
            pieces.push(piece);
        }
        Top::new(prefix, &pieces).expect("heads are below 2⁶⁰")
    }

    /// The group that `key` lies in: the last of `groups` that is not behind it, as `is_behind` says.
    pub fn group_of(&self, key: &[u8], groups: u32, is_behind: impl Fn(u32) -> bool) -> u32 {
        if groups < 2 {
            return 0;
        }
        let head = head(&self.prefix, key);
        let after = self.pieces.partition_point(|piece| piece.line.base <= head);
        let guess = match after.checked_sub(1) {
            None => 0,
            Some(n) => {
                let Piece { groups, line } = self.pieces[n];
                self.firsts[n] + line.place_of(head, groups - 1)
            }
        };
        last_not_behind(guess, groups, is_behind)
    }

    /// Bytes of memory that it takes beside itself.
    pub fn charge(&self) -> usize {
        self.prefix.len() + size_of_val(&*self.pieces) + size_of_val(&*self.firsts)
    }
}

/// What stands for a key. Monotonic.
fn head(prefix: &[u8], key: &[u8]) -> i64 {
    let begins = &key[..key.len().min(prefix.len())];
    let head = match begins.cmp(prefix) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => first_bytes(&key[prefix.len()..]) >> 4,
        std::cmp::Ordering::Greater => HEAD_MAX,
    };
    head.cast_signed()
}

/// The longest piece from the first of these heads on, its length a power of two or all.
fn longest(heads: &[i64]) -> Piece {
    let fitted = |count: usize| {
        let heads = &heads[..count];
        let (first, last) = (heads[0], heads[count - 1]);
        let line = Line::rising(first, first.abs_diff(last), count as u64 - 1);
        let groups = len32(count);
        let is_near = |(n, head): (usize, &i64)| {
            line.place_of(*head, groups - 1).abs_diff(len32(n)) <= WRONG_MAX
        };
        let fits = heads.iter().enumerate().all(is_near);
        fits.then_some(Piece { groups, line })
    };
    let mut best = Piece {
        groups: 1,
        line: Line::rising(heads[0], 0, 0),
    };
    let mut count = 1;
    while count < heads.len() {
        count = (2 * count).min(heads.len());
        match fitted(count) {
            Some(piece) => best = piece,
            None => break,
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_testkit::Rng;

    fn found(lows: &[&[u8]], top: &Top, key: &[u8]) -> u32 {
        top.group_of(key, len32(lows.len()), |n| lows[len_of(n)] > key)
    }

    #[test]
    fn each_key_is_led_to_its_group() {
        let mut rng = Rng::new(6);
        for count in [1, 2, 3, 10, 500] {
            let mut lows: Vec<Vec<u8>> = (1..count)
                .map(|_| {
                    format!("user/{}", rng.below(1 << (4 + rng.clone().below(28)))).into_bytes()
                })
                .collect();
            lows.push(vec![]);
            lows.sort();
            lows.dedup();
            let lows: Vec<&[u8]> = lows.iter().map(|low| &low[..]).collect();
            let top = Top::train(&lows);
            assert!(lows.len() < 3 || top.prefix().starts_with(b"user/"));
            for (n, low) in lows.iter().enumerate() {
                assert_eq!(found(&lows, &top, low), len32(n));
                assert_eq!(found(&lows, &top, &[low, &b"\0"[..]].concat()), len32(n));
            }
            let last = len32(lows.len() - 1);
            assert_eq!(found(&lows, &top, b"\xff"), last);
            assert_eq!(found(&lows, &top, b"a"), 0);
        }
    }

    #[test]
    fn groups_at_equal_distances_take_one_piece() {
        let lows: Vec<Vec<u8>> = (0..300u64)
            .map(|n| {
                if n == 0 {
                    vec![]
                } else {
                    (n << 40).to_be_bytes().to_vec()
                }
            })
            .collect();
        let lows: Vec<&[u8]> = lows.iter().map(|low| &low[..]).collect();
        assert_eq!(Top::train(&lows).pieces().len(), 1);
    }
}
