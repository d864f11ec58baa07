//! Keys and their random order.

use crate::rng::Rng;

/// Bytes of a key that hold its index.
pub const INDEX_BYTES: usize = 8;

/// Makes keys of one size in a buffer that it keeps.
#[derive(Debug, Clone)]
pub struct KeyMaker {
    key: Vec<u8>,
}

impl KeyMaker {
    /// Makes keys of `key_size` bytes, at least [`INDEX_BYTES`].
    pub fn new(key_size: usize) -> KeyMaker {
        KeyMaker {
            key: vec![b'0'; key_size.max(INDEX_BYTES)],
        }
    }

    /// Makes keys that no workload writes, each right after an existing one: the last byte of the
    /// padding is `1`, or is added where there is no padding.
    pub fn missing(key_size: usize) -> KeyMaker {
        let mut maker = KeyMaker::new(key_size.max(INDEX_BYTES + 1));
        if let Some(last) = maker.key.last_mut() {
            *last = b'1';
        }
        maker
    }

    /// The key of `index`.
    #[inline]
    pub fn key(&mut self, index: u64) -> &[u8] {
        self.key[..INDEX_BYTES].copy_from_slice(&index.to_be_bytes());
        &self.key
    }

    /// The index of a key, if it is one of those that this makes.
    pub fn index_of(&mut self, key: &[u8]) -> Option<u64> {
        let (index, _) = key.split_first_chunk::<INDEX_BYTES>()?;
        let index = u64::from_be_bytes(*index);
        (self.key(index) == key).then_some(index)
    }
}

/// A seeded bijection of `0..n` onto itself: a random order without a table.
///
/// Numbers of just enough bits go through rounds of invertible steps (multiply by an odd number,
/// fold the upper half onto the lower). A result outside `0..n` goes through again, which ends
/// because the cycle that it lies on comes back into `0..n`; on average that takes less than one
/// extra turn.
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    rounds: [(u64, u64); 3],
}

impl Permutation {
    /// The permutation of `0..n` with this seed. `n` is at least 1.
    pub fn new(n: u64, seed: u64) -> Permutation {
        let n = n.max(1);
        let bits = (u64::BITS - (n - 1).leading_zeros()).max(1);
        let mut rng = Rng::of_part(seed, 0x7065_726d);
        Permutation {
            n,
            mask: u64::MAX >> (u64::BITS - bits),
            shift: bits.div_ceil(2).max(1),
            rounds: std::array::from_fn(|_| (rng.next() | 1, rng.next())),
        }
    }

    /// The number at place `i`, which is below `n`.
    #[inline]
    pub fn at(&self, i: u64) -> u64 {
        debug_assert!(i < self.n);
        let mut x = i;
        loop {
            for (times, plus) in self.rounds {
                x = x.wrapping_mul(times).wrapping_add(plus) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_permutation_reaches_every_number_once() {
        for n in (1..70).chain([127, 128, 129, 1000, 4096, 65_537, 100_000]) {
            for seed in [0, 1, 42, u64::MAX] {
                let order = Permutation::new(n, seed);
                let mut seen = vec![false; usize::try_from(n).unwrap()];
                for i in 0..n {
                    let at = usize::try_from(order.at(i)).unwrap();
                    assert!(!seen[at], "n {n} seed {seed}: {at} comes twice");
                    seen[at] = true;
                }
            }
        }
    }

    #[test]
    fn a_permutation_mixes() {
        let n = 100_000;
        let order = Permutation::new(n, 7);
        let ascents = (1..n).filter(|&i| order.at(i) > order.at(i - 1)).count();
        assert!((48_000..52_000).contains(&ascents), "{ascents} ascents");
        let first_half = (0..n / 2).filter(|&i| order.at(i) < n / 2).count();
        assert!((24_000..26_000).contains(&first_half), "{first_half}");
        let other = Permutation::new(n, 8);
        let fixed = (0..n).filter(|&i| order.at(i) == other.at(i)).count();
        assert!(
            fixed < 20,
            "{fixed} numbers at the same place under two seeds"
        );
    }

    #[test]
    fn a_key_tells_its_index_and_no_other_key_does() {
        let mut keys = KeyMaker::new(12);
        for index in [0, 1, 77, u64::MAX] {
            let key = keys.key(index).to_vec();
            assert_eq!(keys.index_of(&key), Some(index));
            let missing = KeyMaker::missing(12).key(index).to_vec();
            for other in [&key[..11], &key[..8], &missing, &[&key[..], b"0"].concat()] {
                assert_eq!(keys.index_of(other), None, "{other:?}");
            }
        }
        assert_eq!(keys.index_of(b""), None);
    }

    #[test]
    fn keys_order_as_their_indexes_and_missing_ones_lie_between() {
        for size in [8, 9, 16, 100] {
            let (mut there, mut absent) = (KeyMaker::new(size), KeyMaker::missing(size));
            let mut keys = BTreeSet::new();
            for index in [0, 1, 255, 256, u64::from(u32::MAX), u64::MAX] {
                assert_eq!(there.key(index).len(), size);
                assert!(there.key(index) < absent.key(index));
                assert!(keys.insert(there.key(index).to_vec()));
                assert!(keys.insert(absent.key(index).to_vec()));
            }
            assert_eq!(keys.last().map(Vec::as_slice), Some(absent.key(u64::MAX)));
        }
        assert_eq!(KeyMaker::new(10).key(258), b"\0\0\0\0\0\0\x01\x0200");
    }
}
