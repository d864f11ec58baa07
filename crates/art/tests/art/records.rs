//! The records that the tests index: keys in memory, several versions of each, and ways to break.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_art::{KeySource, Leaf};
use thermocline_base::{Error, Result};

/// A small generator, so that a failure is repeated by its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// Keys by number. Version `v` of key `i` of `n` lies at offset `8 * (v * n + i)`.
pub struct Records {
    pub keys: Vec<Vec<u8>>,
    /// Calls left until `key` fails; `u64::MAX` never.
    pub fuse: AtomicU64,
    pub calls: AtomicU64,
    pub checks: AtomicU64,
    /// Keys whose records have rotted: their last byte reads differently (an empty one has one).
    pub rotten: HashSet<usize>,
    /// A record that reads as another key without anybody noticing.
    pub swapped: Option<(usize, Vec<u8>)>,
}

impl Records {
    pub fn new(keys: Vec<Vec<u8>>) -> Records {
        Records {
            keys,
            fuse: AtomicU64::new(u64::MAX),
            calls: AtomicU64::new(0),
            checks: AtomicU64::new(0),
            rotten: HashSet::new(),
            swapped: None,
        }
    }

    pub fn leaf(&self, key: usize, version: usize) -> Leaf {
        let offset = 8 * (version * self.keys.len() + key) as u64;
        Leaf::of(&self.keys[key], offset)
    }

    /// The key number and version of a leaf.
    pub fn of(&self, leaf: Leaf) -> (usize, usize) {
        let at = (leaf.offset() / 8) as usize;
        (at % self.keys.len(), at / self.keys.len())
    }
}

impl KeySource for Records {
    fn key(&self, leaf: Leaf) -> Result<&[u8]> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let fuse = self.fuse.load(Ordering::Relaxed);
        if fuse == 0 {
            return Err(Error::Busy("injected".into()));
        }
        if fuse != u64::MAX {
            self.fuse.store(fuse - 1, Ordering::Relaxed);
        }
        let number = self.of(leaf).0;
        let key = &self.keys[number];
        if let Some((swapped, other)) = &self.swapped
            && *swapped == number
        {
            return Ok(other);
        }
        if self.rotten.contains(&number) {
            return Ok(&key[..key.len().saturating_sub(1)]);
        }
        Ok(key)
    }

    fn check(&self, leaf: Leaf) -> Result<()> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        if self.rotten.contains(&self.of(leaf).0) {
            return Err(Error::corruption(
                "record",
                "test",
                leaf.offset(),
                "sound",
                "rotten",
            ));
        }
        Ok(())
    }
}

/// Distinct keys of all the shapes that could hurt: empty, prefixes of each other, runs of 0x00
/// and 0xff, the longest ones, long shared prefixes that differ at every position.
pub fn hostile_keys(random: &mut Random) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = vec![vec![]];
    for len in 1..40 {
        keys.extend([vec![0; len], vec![0xff; len], vec![b'a'; len]]);
    }
    let long: Vec<u8> = (0..65_535).map(|i| (i * 7 % 251) as u8).collect();
    for cut in [65_535, 65_534, 65_533, 40_000, 300, 299, 7] {
        keys.push(long[..cut].to_vec());
        let mut other = long[..cut].to_vec();
        other[cut - 1] ^= 1;
        keys.push(other);
    }
    let base = b"/a/long/prefix/that/no/node/has/room/for/inline/";
    for at in 0..base.len() {
        let mut key = base.to_vec();
        key[at] ^= 0x80;
        keys.push(key.clone());
        key.truncate(at + 1);
        keys.push(key);
        keys.push(base[..at].to_vec());
    }
    for fan in [3usize, 5, 16, 17, 48, 49, 128, 129, 256] {
        for byte in 0..fan {
            let mut key = format!("fan-out/{fan}/").into_bytes();
            keys.push(key.clone());
            key.push((byte * 37 % 256) as u8);
            keys.push(key.clone());
            key.extend_from_slice(b"/and/further");
            keys.push(key);
        }
    }
    // Few keys around long gaps, so that a path is skipped unseen: strangers leave it there and
    // then go on like the others, to a leaf, to a hole, or to a byte that the next node knows.
    for group in 0..60 {
        let gap = [format!("gap/{group}/").as_bytes(), &[b'g'; 50]].concat();
        for end in [&b"a"[..], b"b", b"c", b"dxy1", b"dxy2"] {
            keys.push([&gap[..], end].concat());
        }
        let mut stranger = gap.clone();
        stranger[10 + group % 47] = b'!';
        for end in [&b"a"[..], b"z", b"dxz", b"dxy1"] {
            if (group + end.len()) % 3 == 0 {
                keys.push([&stranger[..], end].concat());
            }
        }
    }
    for _ in 0..600 {
        let len = random.below(9);
        let alphabet = [2, 4, 256][random.below(3)];
        keys.push((0..len).map(|_| random.below(alphabet) as u8).collect());
    }
    keys.sort();
    keys.dedup();
    keys
}
