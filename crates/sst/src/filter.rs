//! The filter over the user keys of a table: a binary fuse filter with 8-bit fingerprints.
//!
//! It never denies a key that is in the table and lets through about one in 256 of the others, for
//! about 9 bits per key. It is built from distinct hashes without chance, so that the same keys give
//! the same bytes.
//!
//! It may hold prefixes, too: the first bytes of each key that is as long, each once, hashed otherwise than keys are. So a
//! prefix is denied as a key is, though other keys begin with it or it is a key itself, for 9 bits per prefix.

use std::num::NonZeroU8;

use xorf::{BinaryFuse8, Descriptor, Filter as _};

use thermocline_base::checksum::hash64_seeded;
use thermocline_base::numbers::len_of;

use crate::format::coding::{Fields, Unreadable, damaged};
use crate::format::{FILTER_FUSE8, FILTER_HEAD, INDEX_LEN_MAX};

/// Most user keys, and prefixes of theirs, that a filter is built over; a table with more has none. (Each takes 8 bytes of
/// memory while the table is written, and about 30 while its filter is built.)
pub const FILTER_KEYS_MAX: usize = 4 << 20;

const _: () = assert!(
    FILTER_KEYS_MAX / 8 * 9 + (1 << 20) < INDEX_LEN_MAX,
    "nine bits per key, and segments that are not full"
);

/// What stands for a user key in the filter of a table with this seed.
fn hash(key: &[u8], table_seed: u64) -> u64 {
    hash64_seeded(key, table_seed)
}

/// What tells hashes of prefixes from those of keys.
const OF_PREFIX: u64 = 0x6a09_e667_f3bc_c908;

/// What stands for a prefix there.
fn hash_of_prefix(prefix: &[u8], table_seed: u64) -> u64 {
    hash64_seeded(prefix, table_seed ^ OF_PREFIX)
}

/// Collects what the filter of a table is built over.
#[derive(Debug)]
pub(crate) struct FilterBuilder {
    /// Of the distinct user keys, and prefixes. None if there is to be no filter, or they are too many for one.
    hashes: Option<Vec<u64>>,
    /// Whether there is to be one.
    wanted: bool,
    prefix_len: Option<NonZeroU8>,
    /// That of the last key that had one.
    last_prefix: Vec<u8>,
}

impl FilterBuilder {
    /// For a filter, if one is `wanted`, over user keys and, if those have a length, prefixes.
    pub fn new(wanted: bool, prefix_len: Option<NonZeroU8>) -> FilterBuilder {
        FilterBuilder {
            hashes: wanted.then(Vec::new),
            wanted,
            prefix_len: prefix_len.filter(|_| wanted),
            last_prefix: Vec::new(),
        }
    }

    /// How many bytes the prefixes have.
    pub fn prefix_len(&self) -> Option<NonZeroU8> {
        self.prefix_len
    }

    /// Adds a user key of a table with this seed. They come in their order, each once.
    pub fn add(&mut self, key: &[u8], table_seed: u64) {
        if let Some(len) = self.prefix_len
            && let Some(prefix) = key.get(..usize::from(len.get()))
            && *prefix != *self.last_prefix
        {
            self.last_prefix.clear();
            self.last_prefix.extend_from_slice(prefix);
            self.push(hash_of_prefix(prefix, table_seed));
        }
        self.push(hash(key, table_seed));
    }

    fn push(&mut self, hash: u64) {
        if let Some(hashes) = &mut self.hashes {
            match hashes.len() {
                // One more than the filter takes: it will not be built.
                FILTER_KEYS_MAX => self.hashes = None,
                _ => hashes.push(hash),
            }
        }
    }

    /// Whether the next key, with its prefix, may be one too many.
    pub fn is_full(&self) -> bool {
        let more = 1 + usize::from(self.prefix_len.is_some());
        let is_over = |hashes: &Vec<u64>| hashes.len() + more > FILTER_KEYS_MAX;
        self.wanted && self.hashes.as_ref().is_none_or(is_over)
    }

    /// About how many bytes the filter would have.
    pub fn len(&self) -> usize {
        self.hashes.as_ref().map_or(0, |h| h.len() * 9 / 8)
    }

    /// Bytes of memory that it takes, and that building the filter takes for a moment: some 24 bytes more for each hash.
    pub fn memory(&self) -> usize {
        let hashes = self.hashes.as_ref();
        hashes.map_or(0, |h| h.capacity() * 8 + h.len() * 24)
    }

    /// The payload of the filter; none if there is to be none, there are no keys, or too many, or if no filter can be
    /// built over them.
    pub fn finish(self) -> Option<Vec<u8>> {
        build(self.hashes?)
    }
}

fn build(mut hashes: Vec<u64>) -> Option<Vec<u8>> {
    if hashes.is_empty() || hashes.len() > FILTER_KEYS_MAX {
        return None;
    }
    hashes.sort_unstable();
    hashes.dedup();
    let fuse = BinaryFuse8::try_from(&hashes[..]).ok()?;
    let mut bytes = Vec::with_capacity(FILTER_HEAD + fuse.fingerprints.len());
    bytes.extend_from_slice(&[FILTER_FUSE8, 0, 0, 0]);
    bytes.extend_from_slice(&fuse.descriptor.seed.to_le_bytes());
    bytes.extend_from_slice(&fuse.descriptor.segment_length.to_le_bytes());
    bytes.extend_from_slice(&fuse.descriptor.segment_count_length.to_le_bytes());
    bytes.extend_from_slice(&fuse.fingerprints);
    Some(bytes)
}

/// A filter, checked.
#[derive(Debug)]
pub(crate) struct Filter {
    fuse: BinaryFuse8,
    table_seed: u64,
}

impl Filter {
    /// Reads the payload of a filter block.
    pub fn decode(bytes: &[u8], table_seed: u64) -> Result<Filter, Unreadable> {
        let mut fields = Fields { bytes, at: 0 };
        let kind = fields.u8()?;
        if kind != FILTER_FUSE8 {
            return Err(Unreadable::Newer(format!(
                "the filter has kind {kind}; this program knows only kind {FILTER_FUSE8}"
            )));
        }
        fields.zeros(3)?;
        let seed = fields.u64()?;
        let segment = fields.u32()?;
        let first = fields.u32()?;
        let fingerprints = fields.rest();
        // A fingerprint is asked for at up to `first` and two segments, with the low bits of the
        // number mixed within its segment: this is what keeps every question within bounds.
        let shaped = segment.is_power_of_two() && first > 0 && first.is_multiple_of(segment);
        let needed = len_of(first).checked_add(len_of(segment).saturating_mul(2));
        if !shaped || needed != Some(fingerprints.len()) {
            let expected = format!("segments of {segment}, {first} and two more");
            return Err(damaged(
                "shape of a filter",
                12,
                expected,
                fingerprints.len(),
            ));
        }
        Ok(Filter {
            fuse: BinaryFuse8 {
                descriptor: Descriptor {
                    seed,
                    segment_length: segment,
                    segment_length_mask: segment - 1,
                    segment_count_length: first,
                },
                fingerprints: fingerprints.into(),
            },
            table_seed,
        })
    }

    /// Whether the table may hold `key`.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.fuse.contains(&hash(key, self.table_seed))
    }

    /// Whether it may hold a key that begins with `prefix`. The filter must hold prefixes of that length.
    pub fn may_contain_prefix(&self, prefix: &[u8]) -> bool {
        let hash = hash_of_prefix(prefix, self.table_seed);
        self.fuse.contains(&hash)
    }

    /// Bytes of memory.
    pub fn charge(&self) -> usize {
        self.fuse.fingerprints.len() + size_of::<Filter>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 42;

    fn filter_of(keys: std::ops::Range<u64>) -> Filter {
        let hashes = keys.map(|n| hash(&n.to_be_bytes(), SEED)).collect();
        Filter::decode(&build(hashes).unwrap(), SEED).unwrap()
    }

    #[test]
    fn every_key_is_let_through_and_few_others() {
        for n in (1..200).chain([1000, 5000, 50_000]) {
            let filter = filter_of(0..n);
            assert!((0..n).all(|k| filter.may_contain(&k.to_be_bytes())), "{n}");
            if n >= 1000 {
                let others = 100_000u64;
                let wrong = (n..n + others).filter(|k| filter.may_contain(&k.to_be_bytes()));
                assert!(wrong.count() < 700, "{n}");
            }
        }
    }

    #[test]
    fn the_same_keys_give_the_same_bytes_in_any_order_and_more_than_once() {
        let hashes: Vec<u64> = (0..1000u64).map(|n| hash(&n.to_be_bytes(), 7)).collect();
        let mut more: Vec<u64> = hashes.iter().rev().copied().collect();
        more.extend_from_slice(&hashes[..500]);
        assert_eq!(build(hashes), build(more));
    }

    #[test]
    fn no_keys_need_no_filter() {
        assert_eq!(build(Vec::new()), None);
        for len in [None, NonZeroU8::new(2)] {
            assert_eq!(FilterBuilder::new(true, len).finish(), None);
        }
        let mut unwanted = FilterBuilder::new(false, NonZeroU8::new(2));
        unwanted.add(b"key", SEED);
        assert!(!unwanted.is_full() && unwanted.finish().is_none());
    }

    /// Ten keys of each of `prefixes` prefixes, every second number; and keys that are shorter, among them one that is the
    /// beginning of prefixes that nobody has.
    fn with_prefixes(prefixes: u64) -> (FilterBuilder, Vec<Vec<u8>>) {
        let mut keys = vec![vec![], vec![0xff; 3]];
        for n in 0..prefixes {
            let prefix = (2 * n).to_be_bytes();
            keys.extend((0..10u8).map(|of| [&prefix[..], &[of]].concat()));
        }
        keys.sort();
        let mut builder = FilterBuilder::new(true, NonZeroU8::new(8));
        keys.iter().for_each(|key| builder.add(key, SEED));
        (builder, keys)
    }

    #[test]
    fn every_prefix_is_let_through_and_few_others() {
        for prefixes in [1, 2, 30, 5000] {
            let (builder, keys) = with_prefixes(prefixes);
            let hashes = builder.hashes.as_ref().map(Vec::len);
            assert_eq!(
                hashes.unwrap(),
                keys.len() + usize::try_from(prefixes).unwrap()
            );
            let filter = Filter::decode(&builder.finish().unwrap(), SEED).unwrap();
            assert!(keys.iter().all(|key| filter.may_contain(key)));
            let has = |n: u64| filter.may_contain_prefix(&n.to_be_bytes());
            assert!((0..prefixes).all(|n| has(2 * n)), "{prefixes}");
            let others = (0..100_000).map(|n| 2 * n + 1);
            let wrong = others.filter(|n| has(*n)).count();
            assert!(wrong < 700, "{wrong} of {prefixes}");
            // A key is no prefix, and a prefix no key.
            let wrong = keys.iter().filter(|key| filter.may_contain_prefix(key));
            let keys_taken = wrong.count();
            assert!(
                keys_taken < 5 + keys.len() / 100,
                "{keys_taken} of {prefixes}"
            );
            let wrong = (0..prefixes).filter(|n| filter.may_contain(&(2 * n).to_be_bytes()));
            let prefixes_taken = wrong.count();
            assert!(
                prefixes_taken < 5 + keys.len() / 100,
                "{prefixes_taken} of {prefixes}"
            );
        }
    }

    #[test]
    fn shapes_that_would_be_asked_out_of_bounds_are_refused() {
        let good = build((0..100).map(|n| n * 77).collect()).unwrap();
        assert!(Filter::decode(&good, 1).is_ok());
        for len in 0..good.len() {
            assert!(Filter::decode(&good[..len], 1).is_err(), "{len}");
        }
        for at in (1..4).chain(12..20) {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(Filter::decode(&bad, 1).is_err(), "{at}.{bit}");
            }
        }
        let mut newer = good;
        newer[0] = 2;
        assert!(matches!(
            Filter::decode(&newer, 1),
            Err(Unreadable::Newer(_))
        ));
    }
}
