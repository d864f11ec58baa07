//! The filter over the user keys of a table: a binary fuse filter with fingerprints of 8 or 16 bits.
//!
//! It never denies a key that is in the table. With 8 bits it lets through about one in 256 of the others, for
//! about 9 bits per key; with 16 bits one in 65,536, for about 18. It is built from distinct hashes without chance, so that
//! the same keys give the same bytes.

use xorf::{BinaryFuse8, BinaryFuse16, Descriptor, Filter as _};

use thermocline_base::checksum::hash64_seeded;
use thermocline_base::numbers::len_of;

use crate::format::coding::{Fields, Unreadable, damaged};
use crate::format::{FILTER_FUSE8, FILTER_FUSE16, FILTER_HEAD, INDEX_LEN_MAX};

/// Which filter a table is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FilterKind {
    /// None: each read asks the table.
    None,
    /// One with fingerprints of 8 bits: 9 bits per key, and one in 256 reads asks the table in vain.
    #[default]
    Fuse8,
    /// One with fingerprints of 16 bits: 18 bits per key, and one in 65,536 does. A table of more than 2 Mi user keys has 8
    /// bits all the same.
    Fuse16,
}

/// Most user keys that a filter is built over; a table with more has none. (Each takes 8 bytes of
/// memory while the table is written, and about 30 while its filter is built.)
pub const FILTER_KEYS_MAX: usize = 4 << 20;

/// Most user keys that have fingerprints of 16 bits: of more the filter would be too long.
const FUSE16_KEYS_MAX: usize = 2 << 20;

const _: () = assert!(
    FILTER_KEYS_MAX / 8 * 9 + (1 << 20) < INDEX_LEN_MAX
        && FUSE16_KEYS_MAX / 8 * 18 + (1 << 20) < INDEX_LEN_MAX,
    "nine or eighteen bits per key, and segments that are not full"
);

/// What stands for a user key in the filter of a table with this seed.
fn hash(key: &[u8], table_seed: u64) -> u64 {
    hash64_seeded(key, table_seed)
}

/// Collects what a filter is built over.
#[derive(Debug)]
pub(crate) struct FilterBuilder {
    kind: FilterKind,
    /// Of the distinct user keys; none if there is to be no filter.
    hashes: Option<Vec<u64>>,
}

impl FilterBuilder {
    pub fn new(kind: FilterKind) -> FilterBuilder {
        FilterBuilder {
            kind,
            hashes: (kind != FilterKind::None).then(Vec::new),
        }
    }

    /// Adds a user key of a table with this seed.
    pub fn add(&mut self, key: &[u8], table_seed: u64) {
        if let Some(hashes) = &mut self.hashes {
            match hashes.len() {
                // One more than the filter takes: it will not be built.
                FILTER_KEYS_MAX => self.hashes = None,
                _ => hashes.push(hash(key, table_seed)),
            }
        }
    }

    /// About how many bytes the filter would have. Not fewer with more keys.
    pub fn len(&self) -> usize {
        let count = self.hashes.as_ref().map_or(0, Vec::len);
        match self.kind {
            FilterKind::Fuse16 => (count.min(FUSE16_KEYS_MAX) * 9 / 4).max(count * 9 / 8),
            _ => count * 9 / 8,
        }
    }

    /// Bytes of memory that it takes, and that building the filter takes for a moment: some 24 bytes for each hash, and
    /// two more where fingerprints have 16 bits.
    pub fn memory(&self) -> usize {
        let each = match self.kind {
            FilterKind::Fuse16 => 26,
            _ => 24,
        };
        let hashes = self.hashes.as_ref();
        hashes.map_or(0, |h| h.capacity() * 8 + h.len() * each)
    }

    /// The payload of the filter; none if there is to be none, there are no keys, or too many, or if no filter can be
    /// built over them.
    pub fn finish(self) -> Option<Vec<u8>> {
        build(self.hashes?, self.kind)
    }
}

fn build(mut hashes: Vec<u64>, kind: FilterKind) -> Option<Vec<u8>> {
    if hashes.is_empty() || hashes.len() > FILTER_KEYS_MAX {
        return None;
    }
    hashes.sort_unstable();
    hashes.dedup();
    match kind {
        FilterKind::None => None,
        FilterKind::Fuse16 if hashes.len() <= FUSE16_KEYS_MAX => {
            let fuse = BinaryFuse16::try_from(&hashes[..]).ok()?;
            let fingerprints = fuse.fingerprints.iter().flat_map(|f| f.to_le_bytes());
            let mut bytes = head(FILTER_FUSE16, &fuse.descriptor, 2 * fuse.fingerprints.len());
            bytes.extend(fingerprints);
            Some(bytes)
        }
        FilterKind::Fuse8 | FilterKind::Fuse16 => {
            let fuse = BinaryFuse8::try_from(&hashes[..]).ok()?;
            let mut bytes = head(FILTER_FUSE8, &fuse.descriptor, fuse.fingerprints.len());
            bytes.extend_from_slice(&fuse.fingerprints);
            Some(bytes)
        }
    }
}

/// What stands before the fingerprints, with room for `len` bytes of them.
fn head(kind: u8, descriptor: &Descriptor, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FILTER_HEAD + len);
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    bytes.extend_from_slice(&descriptor.seed.to_le_bytes());
    bytes.extend_from_slice(&descriptor.segment_length.to_le_bytes());
    bytes.extend_from_slice(&descriptor.segment_count_length.to_le_bytes());
    bytes
}

#[derive(Debug)]
enum Fuse {
    Bits8(BinaryFuse8),
    Bits16(BinaryFuse16),
}

/// A filter, checked.
#[derive(Debug)]
pub(crate) struct Filter {
    fuse: Fuse,
    table_seed: u64,
}

impl Filter {
    /// Reads the payload of a filter block.
    pub fn decode(bytes: &[u8], table_seed: u64) -> Result<Filter, Unreadable> {
        let mut fields = Fields { bytes, at: 0 };
        let kind = fields.u8()?;
        let width = match kind {
            FILTER_FUSE8 => 1,
            FILTER_FUSE16 => 2,
            _ => {
                return Err(Unreadable::Newer(format!(
                    "the filter has kind {kind}; this program knows only kinds {FILTER_FUSE8} and {FILTER_FUSE16}"
                )));
            }
        };
        fields.zeros(3)?;
        let seed = fields.u64()?;
        let segment = fields.u32()?;
        let first = fields.u32()?;
        let fingerprints = fields.rest();
        // A fingerprint is asked for at up to `first` and two segments, with the low bits of the
        // number mixed within its segment: this is what keeps every question within bounds.
        let shaped = segment.is_power_of_two() && first > 0 && first.is_multiple_of(segment);
        let needed = len_of(first).checked_add(len_of(segment).saturating_mul(2));
        let needed = needed.and_then(|needed| needed.checked_mul(width));
        if !shaped || needed != Some(fingerprints.len()) {
            let expected = format!("segments of {segment}, {first} and two more, times {width}");
            return Err(damaged(
                "shape of a filter",
                12,
                expected,
                fingerprints.len(),
            ));
        }
        let descriptor = Descriptor {
            seed,
            segment_length: segment,
            segment_length_mask: segment - 1,
            segment_count_length: first,
        };
        let fuse = match kind {
            FILTER_FUSE16 => {
                let (pairs, _) = fingerprints.as_chunks::<2>();
                Fuse::Bits16(BinaryFuse16 {
                    descriptor,
                    fingerprints: pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect(),
                })
            }
            _ => Fuse::Bits8(BinaryFuse8 {
                descriptor,
                fingerprints: fingerprints.into(),
            }),
        };
        Ok(Filter { fuse, table_seed })
    }

    /// Whether the table may hold `key`.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        let hash = hash(key, self.table_seed);
        match &self.fuse {
            Fuse::Bits8(fuse) => fuse.contains(&hash),
            Fuse::Bits16(fuse) => fuse.contains(&hash),
        }
    }

    /// Bytes of memory.
    pub fn charge(&self) -> usize {
        let fingerprints = match &self.fuse {
            Fuse::Bits8(fuse) => size_of_val(&*fuse.fingerprints),
            Fuse::Bits16(fuse) => size_of_val(&*fuse.fingerprints),
        };
        fingerprints + size_of::<Filter>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 42;
    const KINDS: [FilterKind; 2] = [FilterKind::Fuse8, FilterKind::Fuse16];

    fn filter_of(keys: std::ops::Range<u64>, kind: FilterKind) -> Filter {
        let hashes = keys.map(|n| hash(&n.to_be_bytes(), SEED)).collect();
        Filter::decode(&build(hashes, kind).unwrap(), SEED).unwrap()
    }

    #[test]
    fn every_key_is_let_through_and_few_others() {
        for (kind, most) in KINDS.into_iter().zip([700, 12]) {
            for n in (1..200).chain([1000, 5000, 50_000]) {
                let filter = filter_of(0..n, kind);
                assert!((0..n).all(|k| filter.may_contain(&k.to_be_bytes())), "{n}");
                if n >= 1000 {
                    let others = 100_000u64;
                    let wrong = (n..n + others).filter(|k| filter.may_contain(&k.to_be_bytes()));
                    assert!(wrong.count() < most, "{n}");
                }
            }
        }
    }

    #[test]
    fn the_same_keys_give_the_same_bytes_in_any_order_and_more_than_once() {
        let hashes: Vec<u64> = (0..1000u64).map(|n| hash(&n.to_be_bytes(), 7)).collect();
        let mut more: Vec<u64> = hashes.iter().rev().copied().collect();
        more.extend_from_slice(&hashes[..500]);
        for kind in KINDS {
            assert_eq!(build(hashes.clone(), kind), build(more.clone(), kind));
        }
    }

    #[test]
    fn no_keys_need_no_filter() {
        for kind in KINDS {
            assert_eq!(build(Vec::new(), kind), None);
        }
        assert_eq!(build(vec![1, 2], FilterKind::None), None);
    }

    #[test]
    fn what_is_built_is_as_long_as_was_said() {
        for kind in KINDS {
            let mut builder = FilterBuilder::new(kind);
            (0..100_000u64).for_each(|n| builder.add(&n.to_be_bytes(), SEED));
            let said = builder.len();
            let bytes = builder.finish().unwrap();
            assert!((said * 9 / 10..said * 11 / 10).contains(&bytes.len()));
            let filter = Filter::decode(&bytes, SEED).unwrap();
            let own = filter.charge() - size_of::<Filter>();
            assert_eq!(own, bytes.len() - FILTER_HEAD);
        }
        // With more keys than have 16 bits it grows no further, up to where 8 bits take as much.
        let long = |count| FilterBuilder {
            kind: FilterKind::Fuse16,
            hashes: Some(vec![0; count]),
        };
        let counts = [FUSE16_KEYS_MAX, FUSE16_KEYS_MAX + 1, FILTER_KEYS_MAX];
        assert_eq!(
            counts.map(|count| long(count).len()),
            [FUSE16_KEYS_MAX * 9 / 4; 3]
        );
        let mut none = FilterBuilder::new(FilterKind::None);
        none.add(b"key", SEED);
        assert_eq!((none.len(), none.memory(), none.finish()), (0, 0, None));
    }

    #[test]
    fn shapes_that_would_be_asked_out_of_bounds_are_refused() {
        for kind in KINDS {
            let good = build((0..100).map(|n| n * 77).collect(), kind).unwrap();
            assert!(Filter::decode(&good, 1).is_ok());
            for len in 0..good.len() {
                assert!(Filter::decode(&good[..len], 1).is_err(), "{len}");
            }
            for at in (0..4).chain(12..20) {
                for bit in 0..8 {
                    let mut bad = good.clone();
                    bad[at] ^= 1 << bit;
                    assert!(Filter::decode(&bad, 1).is_err(), "{at}.{bit}");
                }
            }
            let mut newer = good;
            newer[0] = 3;
            assert!(matches!(
                Filter::decode(&newer, 1),
                Err(Unreadable::Newer(_))
            ));
        }
    }
}
