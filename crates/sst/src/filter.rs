//! The filter over the user keys of a table: a binary fuse filter with 8-bit fingerprints.
//!
//! It never denies a key that is in the table and lets through about one in 256 of the others, for
//! about 9 bits per key. It is built from distinct hashes without chance, so that the same keys give
//! the same bytes.

use xorf::{BinaryFuse8, Descriptor, Filter as _};

use thermocline_base::checksum::hash64_seeded;
use thermocline_base::numbers::len_of;

use crate::format::coding::{Fields, Unreadable, damaged};
use crate::format::{FILTER_FUSE8, FILTER_HEAD, INDEX_LEN_MAX};

/// Most user keys that a filter is built over; a table with more has none. (Each takes 8 bytes of
/// memory while the table is written, and about 30 while its filter is built.)
pub const FILTER_KEYS_MAX: usize = 4 << 20;

const _: () = assert!(
    FILTER_KEYS_MAX / 8 * 9 + (1 << 20) < INDEX_LEN_MAX,
    "nine bits per key, and segments that are not full"
);

/// What stands for a user key in the filter of a table with this seed.
pub(crate) fn hash(key: &[u8], table_seed: u64) -> u64 {
    hash64_seeded(key, table_seed)
}

/// The payload of the filter over these hashes; none if there are none, or too many, or if no filter
/// can be built over them.
pub(crate) fn build(mut hashes: Vec<u64>) -> Option<Vec<u8>> {
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
