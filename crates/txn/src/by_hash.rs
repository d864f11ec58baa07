//! Numbers of a list's entries, by the hashes of their keys.
//!
//! Most transactions touch few keys, so the hashes of a short list are looked through one after the other: that takes less
//! than the memory of a map. Keys that are different may have one hash, and a key may come several times: whoever looks for
//! one says which entry it is.

use std::collections::HashMap;

use crate::memory::FIRST_ENTRIES;
use crate::same::BySame;

/// Entries that are looked through.
const FEW: usize = 16;

/// The number of no entry.
const NONE: usize = usize::MAX;

#[derive(Debug)]
struct Link {
    hash: u64,
    /// The entry before it that has this hash, once there is a map.
    before: usize,
}

/// The entries of a list, which grows and shrinks at its end.
#[derive(Debug, Default)]
pub(crate) struct ByHash {
    all: Vec<Link>,
    /// The last entry of each hash: of all entries, or nothing as long as there are few.
    last: HashMap<u64, usize, BySame>,
}

impl ByHash {
    /// The list has no entries; keeps the memory of a short one.
    pub fn clear(&mut self) {
        self.all.clear();
        if self.last.capacity() > 0 {
            self.last = HashMap::default();
        }
    }

    /// Bytes of memory that it has while the list has no entries.
    pub fn capacity(&self) -> usize {
        self.all.capacity() * size_of::<Link>()
    }

    /// The list has one more entry.
    pub fn push(&mut self, hash: u64) {
        if self.last.is_empty() && self.all.len() == FEW {
            for (number, link) in self.all.iter_mut().enumerate() {
                link.before = self.last.insert(link.hash, number).unwrap_or(NONE);
            }
        }
        if self.all.is_empty() {
            self.all.reserve(FIRST_ENTRIES);
        }
        let before = match self.last.is_empty() {
            true => NONE,
            false => self.last.insert(hash, self.all.len()).unwrap_or(NONE),
        };
        self.all.push(Link { hash, before });
    }

    /// The list has only its first `len` entries from now on.
    pub fn truncate(&mut self, len: usize) {
        for link in self.all.drain(len..).rev() {
            if self.last.is_empty() {
                continue;
            }
            match link.before {
                NONE => self.last.remove(&link.hash),
                before => self.last.insert(link.hash, before),
            };
        }
    }

    /// The last entry of this hash that `is` it.
    pub fn find(&self, hash: u64, is: impl Fn(usize) -> bool) -> Option<usize> {
        if self.last.is_empty() {
            let same = |number: &usize| self.all[*number].hash == hash && is(*number);
            return (0..self.all.len()).rev().find(same);
        }
        let mut number = self.last.get(&hash).copied().unwrap_or(NONE);
        while number != NONE && !is(number) {
            number = self.all[number].before;
        }
        (number != NONE).then_some(number)
    }

    /// The hashes of all entries.
    pub fn hashes(&self) -> impl Iterator<Item = u64> {
        self.all.iter().map(|link| link.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of which many have one hash, and that come again, against a list that is looked through from its end.
    #[test]
    fn the_last_entry_of_a_key_is_found_whatever_has_its_hash() {
        let (mut keys, mut found) = (Vec::<u64>::new(), ByHash::default());
        let check = |keys: &[u64], found: &ByHash| {
            for key in 0..40 {
                let expected = keys.iter().rposition(|own| *own == key);
                assert_eq!(found.find(key % 5, |i| keys[i] == key), expected, "{key}");
            }
            let hashes = keys.iter().map(|key| key % 5);
            assert!(found.hashes().eq(hashes));
        };
        for round in 0..200u64 {
            let key = round * round % 37;
            keys.push(key);
            found.push(key % 5);
            check(&keys, &found);
            // A little back, the half, to few and to nothing.
            let cut = match round % 50 {
                49 => keys.len() % 3 * 7,
                33 => keys.len() - 2,
                41 => keys.len() / 2,
                _ => continue,
            };
            keys.truncate(cut);
            found.truncate(cut);
            check(&keys, &found);
        }
    }
}
