//! What must not have changed when a transaction commits.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Bound;

use thermocline_base::CfId;
use thermocline_engine::{Changed, Claims, Footprint, RangeClaim, key_hash};

/// Hashes that are their own hashes.
#[derive(Debug, Default)]
pub(crate) struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Keys from `start` up to, and not with, `end`; to the last one where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub cf: CfId,
    pub start: Vec<u8>,
    pub end: Option<Vec<u8>>,
}

impl Span {
    pub fn has(&self, cf: CfId, key: &[u8]) -> bool {
        self.cf == cf && *self.start <= *key && self.end.as_deref().is_none_or(|end| key < end)
    }

    fn overlaps(&self, cf: CfId, (start, end): (&[u8], Option<&[u8]>)) -> bool {
        self.cf == cf
            && self.end.as_deref().is_none_or(|own| start < own)
            && end.is_none_or(|end| *self.start < *end)
    }
}

/// One key.
#[derive(Debug)]
pub(crate) struct OneKey<'a>(pub CfId, pub &'a [u8]);

impl Footprint for OneKey<'_> {
    fn meets(&self, change: &Changed<'_>) -> bool {
        let OneKey(cf, key) = *self;
        change.cf == cf
            && match change.range {
                None => change.key == key,
                Some(end) => change.key <= key && end.is_none_or(|end| key < end),
            }
    }

    fn hashes(&self) -> Option<Box<dyn Iterator<Item = u64> + '_>> {
        Some(Box::new(std::iter::once(key_hash(self.0, self.1))))
    }
}

impl Footprint for Span {
    fn meets(&self, change: &Changed<'_>) -> bool {
        match change.range {
            None => self.has(change.cf, change.key),
            Some(end) => self.overlaps(change.cf, (change.key, end)),
        }
    }

    fn hashes(&self) -> Option<Box<dyn Iterator<Item = u64> + '_>> {
        None
    }
}

/// Hashes of keys.
pub(crate) type Hashes = HashSet<u64, BuildHasherDefault<Same>>;

/// Keys and ranges that a transaction has read or deleted so that they must not change. What it writes by key is not among
/// them, but once the write is taken back: until then that is in its writes.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    hashes: Hashes,
    keys: BTreeMap<CfId, BTreeSet<Vec<u8>>>,
    spans: Vec<Span>,
}

impl Touched {
    /// Adds a key, if it is not there.
    pub fn add(&mut self, cf: CfId, key: &[u8]) {
        let keys = self.keys.entry(cf).or_default();
        // Of a new key its hash is new, too, but for chance.
        if self.hashes.insert(key_hash(cf, key)) || !keys.contains(key) {
            keys.insert(key.to_vec());
        }
    }

    /// Whether the key is there.
    pub fn has(&self, cf: CfId, key: &[u8]) -> bool {
        // Of a new key this is all.
        self.hashes.contains(&key_hash(cf, key)) && self.has_key(cf, key)
    }

    fn has_key(&self, cf: CfId, key: &[u8]) -> bool {
        self.keys.get(&cf).is_some_and(|keys| keys.contains(key))
    }

    /// Adds all of it to what nobody else may change.
    pub fn add_to(&self, claims: &mut Claims) {
        for (cf, keys) in &self.keys {
            keys.iter().for_each(|key| claims.read(*cf, key));
        }
        for span in &self.spans {
            let (cf, end) = (span.cf, span.end.as_deref());
            let is_this =
                |r: &RangeClaim| (r.cf, &*r.start, r.end.as_deref()) == (cf, &*span.start, end);
            // One that is deleted is there already.
            if !claims.ranges().iter().any(is_this) {
                claims.read_range(cf, &span.start, end);
            }
        }
    }

    /// Adds a range. Returns by which number it can be changed.
    pub fn add_span(&mut self, span: Span) -> usize {
        self.spans.push(span);
        self.spans.len() - 1
    }

    /// The range with this number, which may be made larger.
    pub fn span_mut(&mut self, number: usize) -> &mut Span {
        &mut self.spans[number]
    }
}

impl Footprint for Touched {
    fn meets(&self, change: &Changed<'_>) -> bool {
        if self.spans.iter().any(|span| span.meets(change)) {
            return true;
        }
        let Some(end) = change.range else {
            return self.hashes.contains(&change.hash) && self.has_key(change.cf, change.key);
        };
        let from = Bound::Included(change.key);
        let to = end.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.keys.get(&change.cf);
        let is_empty = end.is_some_and(|end| end <= change.key);
        !is_empty && keys.is_some_and(|keys| keys.range::<[u8], _>((from, to)).next().is_some())
    }

    fn hashes(&self) -> Option<Box<dyn Iterator<Item = u64> + '_>> {
        self.spans
            .is_empty()
            .then(|| -> Box<dyn Iterator<Item = u64>> { Box::new(self.hashes.iter().copied()) })
    }
}
