//! What nobody else may change while a transaction is prepared.

use std::collections::BTreeMap;

use thermocline_base::{BatchEntry, CfId, Kind};

/// A range of keys of a family: from `start` up to, and not with, `end`; to the last one where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeClaim {
    /// The family.
    pub cf: CfId,
    /// The first key.
    pub start: Box<[u8]>,
    /// The first key behind.
    pub end: Option<Box<[u8]>>,
    /// Whether the transaction deletes the range; else it has only read it.
    pub writes: bool,
}

impl RangeClaim {
    /// Whether a key lies in it.
    pub fn has(&self, key: &[u8]) -> bool {
        *self.start <= *key && self.end.as_deref().is_none_or(|end| key < end)
    }

    /// Whether it has a key in common with another range of its family.
    pub fn overlaps(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        self.end.as_deref().is_none_or(|own| start < own)
            && end.is_none_or(|end| *self.start < *end)
    }
}

/// The footprint of a prepared transaction: keys and ranges that it writes, and those that it has read and relies on.
///
/// ```
/// use thermocline_base::{CfId, WriteBatch};
/// use thermocline_engine::Claims;
/// let mut batch = WriteBatch::new();
/// batch.put(CfId(0), b"bob", b"3")?;
/// let mut claims = Claims::of(batch.iter());
/// claims.read(CfId(0), b"alice");
/// claims.read(CfId(0), b"bob"); // it writes that anyway
/// let keys: Vec<_> = claims.keys().map(|(_, key, writes)| (key, writes)).collect();
/// assert_eq!(keys, [(&b"alice"[..], false), (b"bob", true)]);
/// # Ok::<(), thermocline_base::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    /// Whether it writes each.
    keys: BTreeMap<CfId, BTreeMap<Box<[u8]>, bool>>,
    ranges: Vec<RangeClaim>,
}

impl Claims {
    /// All that these changes write.
    pub fn of<'a>(changes: impl Iterator<Item = BatchEntry<'a>>) -> Claims {
        let mut claims = Claims::default();
        for entry in changes {
            match entry.kind {
                Kind::RangeDelete => claims.add_range(RangeClaim {
                    cf: entry.cf,
                    start: entry.key.into(),
                    end: (!entry.value.is_empty()).then(|| entry.value.into()),
                    writes: true,
                }),
                _ => claims.add(entry.cf, entry.key, true),
            }
        }
        claims
    }

    /// A key that was read, and must stay as it is.
    pub fn read(&mut self, cf: CfId, key: &[u8]) {
        self.add(cf, key, false);
    }

    /// A range that was read, and must stay as it is, from `start` up to, and not with, `end`, or without end.
    pub fn read_range(&mut self, cf: CfId, start: &[u8], end: Option<&[u8]>) {
        self.add_range(RangeClaim {
            cf,
            start: start.into(),
            end: end.map(Into::into),
            writes: false,
        });
    }

    pub(super) fn add(&mut self, cf: CfId, key: &[u8], writes: bool) {
        let own = self.keys.entry(cf).or_default();
        *own.entry(key.into()).or_default() |= writes;
    }

    /// Nothing, where no key lies in it.
    pub(super) fn add_range(&mut self, range: RangeClaim) {
        if range.end.as_ref().is_none_or(|end| range.start < *end) {
            self.ranges.push(range);
        }
    }

    /// Each key, ascending, and whether the transaction writes it.
    pub fn keys(&self) -> impl Iterator<Item = (CfId, &[u8], bool)> {
        let families = self.keys.iter();
        families.flat_map(|(&cf, keys)| keys.iter().map(move |(key, &writes)| (cf, &**key, writes)))
    }

    /// Each range.
    pub fn ranges(&self) -> &[RangeClaim] {
        &self.ranges
    }

    /// How many keys and ranges there are.
    pub fn len(&self) -> usize {
        self.keys.values().map(BTreeMap::len).sum::<usize>() + self.ranges.len()
    }

    /// Whether there is nothing that others may not do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The families that it has keys or ranges of, ascending.
    pub fn families(&self) -> Vec<CfId> {
        let ranges = self.ranges.iter().map(|range| range.cf);
        let mut all: Vec<CfId> = self.keys.keys().copied().chain(ranges).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
