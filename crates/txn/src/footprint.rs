//! What must not have changed when a transaction commits.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};

use thermocline_base::CfId;
use thermocline_engine::{Changed, Claims, Footprint, key_hash};

use crate::by_hash::ByHash;
use crate::memory::{FIRST_BYTES, FIRST_ENTRIES};
use crate::widest::Bounds;

/// Keys from `start` up to, and not with, `end`; to the last one where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub cf: CfId,
    pub start: Vec<u8>,
    pub end: Option<Vec<u8>>,
}

impl Span {
    /// Bytes of its ends.
    pub fn bytes(&self) -> usize {
        self.start.len() + self.end.as_ref().map_or(0, Vec::len)
    }

    pub fn bounds(&self) -> Bounds<'_> {
        (self.cf, &self.start, self.end.as_deref())
    }

    pub fn has(&self, cf: CfId, key: &[u8]) -> bool {
        self.cf == cf && *self.start <= *key && self.end.as_deref().is_none_or(|end| key < end)
    }

    /// Whether no key can lie in it, as of an iterator that has given nothing yet.
    fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// Whether it ends at this key or before it.
    fn ends_by(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_some_and(|end| end <= key)
    }

    fn overlaps(&self, cf: CfId, (start, end): (&[u8], Option<&[u8]>)) -> bool {
        self.cf == cf
            && !self.is_empty()
            && self.end.as_deref().is_none_or(|own| start < own)
            && end.is_none_or(|end| *self.start < *end)
    }
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneKey<'a> {
    pub cf: CfId,
    pub key: &'a [u8],
    /// [`key_hash`] of them.
    pub hash: u64,
}

impl<'a> OneKey<'a> {
    pub fn new(cf: CfId, key: &'a [u8]) -> OneKey<'a> {
        let hash = key_hash(cf, key);
        OneKey { cf, key, hash }
    }

    /// Whether a change is one of this key.
    fn is_changed(cf: CfId, key: &[u8], change: &Changed<'_>) -> bool {
        change.cf == cf
            && match change.range {
                None => change.key == key,
                Some(end) => change.key <= key && end.is_none_or(|end| key < end),
            }
    }
}

impl Footprint for OneKey<'_> {
    fn meets(&self, change: &Changed<'_>) -> bool {
        OneKey::is_changed(self.cf, self.key, change)
    }

    fn holds_for_all(&self, holds: &mut dyn FnMut(u64) -> bool) -> bool {
        holds(self.hash)
    }
}

impl Footprint for Span {
    fn meets(&self, change: &Changed<'_>) -> bool {
        match change.range {
            None => self.has(change.cf, change.key),
            Some(end) => self.overlaps(change.cf, (change.key, end)),
        }
    }

    fn holds_for_all(&self, _: &mut dyn FnMut(u64) -> bool) -> bool {
        false
    }
}

/// So often keys without an order are gone through for those in a range, and ranges for those that have a key.
const UNORDERED_MAX: u32 = 4;

/// How often it was asked which of some keys lie in a range, or which of some ranges is met, while they have no order. Whoever
/// asks may hold the writer's lock, and to go through all of them takes a small part of what putting them in order does, which
/// pays only for many questions.
#[derive(Debug, Default)]
pub(crate) struct Asked(Cell<u32>);

impl Asked {
    /// It is asked once more. Whether the keys are gone through for that.
    pub fn again(&self) -> bool {
        let goes_through = self.0.get() < UNORDERED_MAX;
        self.0.set(self.0.get() + u32::from(goes_through));
        goes_through
    }
}

/// Ranges that overlap or lie side by side: the numbers of the one with which they begin, and of the one with which they end.
#[derive(Debug, Clone, Copy)]
struct Joined {
    first: usize,
    last: usize,
}

/// Keys of each family, in order.
type Ordered = BTreeMap<CfId, BTreeSet<Box<[u8]>>>;

/// Keys and ranges that a transaction has read so that they must not change. What it writes is not among them: that is in
/// its writes, until it is taken back.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Keys one behind the other, and where each lies.
    bytes: Vec<u8>,
    keys: Vec<(CfId, Range<usize>)>,
    found: ByHash,
    /// The keys, once it was asked several times which of them lie in a range.
    ordered: OnceCell<Ordered>,
    asked: Asked,
    spans: Vec<Span>,
    /// All that lies in the ranges, in order, once it was asked for several changes whether they meet them. Whoever commits asks for
    /// each change since its moment, and may hold the writer's lock.
    joined: OnceCell<Vec<Joined>>,
    spans_asked: Asked,
}

impl Touched {
    /// Adds a key, unless it is there.
    pub fn add(&mut self, key: &OneKey<'_>) {
        if self.has(key) {
            return;
        }
        if self.keys.is_empty() {
            self.keys.reserve(FIRST_ENTRIES);
            self.bytes.reserve(FIRST_BYTES);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key.key);
        self.keys.push((key.cf, start..self.bytes.len()));
        self.found.push(key.hash);
        if let Some(ordered) = self.ordered.get_mut() {
            ordered.entry(key.cf).or_default().insert(key.key.into());
        }
    }

    /// Whether the key is there.
    pub fn has(&self, key: &OneKey<'_>) -> bool {
        let is = |number: usize| {
            let (cf, at) = &self.keys[number];
            *cf == key.cf && self.bytes[at.clone()] == *key.key
        };
        self.found.find(key.hash, is).is_some()
    }

    /// Has nothing any more; keeps the memory of short lists.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
        self.found.clear();
        self.ordered.take();
        self.asked = Asked::default();
        self.spans.clear();
        self.joined.take();
        self.spans_asked = Asked::default();
    }

    /// What is known of the order of ranges holds no longer.
    fn spans_change(&mut self) {
        if self.joined.take().is_some() {
            self.spans_asked = Asked::default();
        }
    }

    /// Bytes of memory that it has while it has nothing.
    pub fn capacity(&self) -> usize {
        let keys = self.keys.capacity() * size_of::<(CfId, Range<usize>)>();
        let spans = self.spans.capacity() * size_of::<Span>();
        self.bytes.capacity() + keys + spans + self.found.capacity()
    }

    fn keys(&self) -> impl Iterator<Item = (CfId, &[u8])> {
        let keys = self.keys.iter();
        keys.map(|(cf, at)| (*cf, &self.bytes[at.clone()]))
    }

    fn ordered(&self) -> &Ordered {
        self.ordered.get_or_init(|| {
            let mut ordered = Ordered::new();
            for (cf, key) in self.keys() {
                ordered.entry(cf).or_default().insert(key.into());
            }
            ordered
        })
    }

    /// Adds all of it to what nobody else may change.
    pub fn add_to(&self, claims: &mut Claims) {
        self.keys().for_each(|(cf, key)| claims.read(cf, key));
        let missing: Vec<&Span> = {
            let ranges = claims.ranges().iter();
            let ranges = ranges.map(|r| (r.cf, &*r.start, r.end.as_deref()));
            let mut there: BTreeSet<Bounds<'_>> = ranges.collect();
            // One that is deleted is there already.
            let spans = self.spans.iter();
            spans.filter(|s| there.insert(s.bounds())).collect()
        };
        for span in missing {
            claims.read_range(span.cf, &span.start, span.end.as_deref());
        }
    }

    /// Adds a range. Returns by which number it can be changed.
    pub fn add_span(&mut self, span: Span) -> usize {
        self.spans_change();
        self.spans.push(span);
        self.spans.len() - 1
    }

    /// The range with this number, which may be made larger.
    pub fn span_mut(&mut self, number: usize) -> &mut Span {
        self.spans_change();
        &mut self.spans[number]
    }

    fn joined(&self) -> &[Joined] {
        self.joined.get_or_init(|| {
            let spans = &self.spans;
            let mut numbers: Vec<usize> = (0..spans.len()).collect();
            numbers.retain(|number| !spans[*number].is_empty());
            numbers.sort_unstable_by(|a, b| {
                let (a, b) = (&spans[*a], &spans[*b]);
                (a.cf, &a.start).cmp(&(b.cf, &b.start))
            });
            let mut all: Vec<Joined> = Vec::new();
            for number in numbers {
                let (first, last) = (number, number);
                let span = &spans[number];
                let before = all.last_mut().filter(|before| {
                    let end = &spans[before.last];
                    end.cf == span.cf && end.end.as_ref().is_none_or(|end| span.start <= *end)
                });
                match before {
                    None => all.push(Joined { first, last }),
                    Some(before) => {
                        let end = spans[before.last].end.as_deref();
                        // It reaches farther.
                        if end.is_some_and(|end| !span.ends_by(end)) {
                            before.last = last;
                        }
                    }
                }
            }
            all
        })
    }

    /// Whether a change meets one of the ranges.
    fn meets_spans(&self, change: &Changed<'_>) -> bool {
        if self.joined.get().is_none() && (self.spans.is_empty() || self.spans_asked.again()) {
            return self.spans.iter().any(|span| span.meets(change));
        }
        let joined = self.joined();
        let is_before = |joined: &Joined| {
            let last = &self.spans[joined.last];
            last.cf < change.cf || last.cf == change.cf && last.ends_by(change.key)
        };
        let next = joined.get(joined.partition_point(is_before));
        let first = next.map(|next| &self.spans[next.first]);
        first.is_some_and(|first| {
            first.cf == change.cf
                && match change.range {
                    None => *first.start <= *change.key,
                    Some(end) => end.is_none_or(|end| *first.start < *end),
                }
        })
    }
}

impl Footprint for Touched {
    fn meets(&self, change: &Changed<'_>) -> bool {
        if self.meets_spans(change) {
            return true;
        }
        let Some(end) = change.range else {
            let Changed { cf, key, hash, .. } = *change;
            return self.has(&OneKey { cf, key, hash });
        };
        if self.keys.is_empty() || end.is_some_and(|end| end <= change.key) {
            return false;
        }
        if self.ordered.get().is_none() && self.asked.again() {
            return self
                .keys()
                .any(|(cf, key)| OneKey::is_changed(cf, key, change));
        }
        let from = Bound::Included(change.key);
        let to = end.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.ordered().get(&change.cf);
        keys.is_some_and(|keys| keys.range::<[u8], _>((from, to)).next().is_some())
    }

    fn holds_for_all(&self, holds: &mut dyn FnMut(u64) -> bool) -> bool {
        self.spans.is_empty() && self.found.hashes().all(holds)
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::SeqNo;
    use thermocline_testkit::Rng;

    use super::*;

    /// Keys that come before and after somebody asks for a range are met by it, and by changes of themselves.
    #[test]
    fn changes_meet_the_keys_that_are_there_and_no_others() {
        let mut touched = Touched::default();
        let names: Vec<String> = (0..40).map(|n| format!("{:02}", n * 7 % 40)).collect();
        for (count, name) in names.iter().enumerate() {
            let met = |key: &str, range: Option<Option<&str>>| {
                touched.meets(&Changed {
                    seqno: SeqNo(1),
                    cf: CfId(3),
                    key: key.as_bytes(),
                    hash: key_hash(CfId(3), key.as_bytes()),
                    range: range.map(|end| end.map(str::as_bytes)),
                })
            };
            let mut there = names[..count].to_vec();
            there.sort_unstable();
            for other in &names {
                assert_eq!(met(other, None), there.contains(other), "{other}");
                let behind = format!("{other}~");
                assert_eq!(met(other, Some(Some(&behind))), there.contains(other));
                let last = there.last().is_some_and(|last| last >= other);
                assert_eq!(met(other, Some(None)), last, "{other}");
                assert!(!met(other, Some(Some(other))));
            }
            // Twice: it is there once. In another family it is another key.
            touched.add(&OneKey::new(CfId(3), name.as_bytes()));
            touched.add(&OneKey::new(CfId(3), name.as_bytes()));
            assert_eq!(touched.keys().count(), count + 1);
            assert!(!touched.has(&OneKey::new(CfId(4), name.as_bytes())));
        }
    }

    #[test]
    fn keys_are_put_in_order_only_for_many_questions() {
        let mut touched = Touched::default();
        touched.add(&OneKey::new(CfId(3), b"k"));
        for asked in 1..=2 * UNORDERED_MAX {
            assert!(touched.meets(&Changed {
                seqno: SeqNo(1),
                cf: CfId(3),
                key: b"a",
                hash: key_hash(CfId(3), b"a"),
                range: Some(Some(b"z")),
            }));
            assert_eq!(touched.ordered.get().is_some(), asked > UNORDERED_MAX);
        }
        touched.clear();
        assert!(touched.asked.again());
    }

    /// A range, or one key without `end`.
    fn changed<'a>(cf: CfId, key: &'a [u8], range: Option<Option<&'a [u8]>>) -> Changed<'a> {
        Changed {
            seqno: SeqNo(1),
            cf,
            key,
            hash: key_hash(cf, key),
            range,
        }
    }

    /// Each change is looked up among thousands of ranges, not compared with each of them; and what it meets is what it would meet
    /// then, however ranges overlap and grow.
    #[test]
    fn ranges_in_order_are_met_as_each_by_itself() {
        let mut rng = Rng::new(7);
        let key = |rng: &mut Rng| -> Vec<u8> {
            let len = rng.below(4);
            (0..len).map(|_| b"abc"[rng.below(3)]).collect()
        };
        let end = |rng: &mut Rng| (!rng.one_in(9)).then(|| key(rng));
        for count in (0..12).cycle().take(200) {
            let mut touched = Touched::default();
            for _ in 0..count {
                let cf = CfId([3, 4][rng.below(2)]);
                let (start, end) = (key(&mut rng), end(&mut rng));
                touched.add_span(Span { cf, start, end });
            }
            let mut asked = 0;
            for _ in 0..40 {
                if count > 0 && rng.one_in(20) {
                    // An iterator goes on.
                    if touched.joined.get().is_some() {
                        asked = 0;
                    }
                    touched.span_mut(rng.below(count)).end = end(&mut rng);
                }
                let cf = CfId([3, 4, 5][rng.below(3)]);
                let (key, end) = (key(&mut rng), end(&mut rng));
                let is_range = rng.one_in(2) && end.as_ref().is_none_or(|end| key < *end);
                let change = changed(cf, &key, is_range.then_some(end.as_deref()));
                let met = touched.spans.iter().any(|span| span.meets(&change));
                assert_eq!(touched.meets(&change), met, "{change:?} of {touched:?}");
                asked += 1;
                let is_ordered = touched.joined.get().is_some();
                assert_eq!(is_ordered, count > 0 && asked > UNORDERED_MAX);
            }
            touched.clear();
            assert!(touched.joined.get().is_none());
        }
    }

    #[test]
    fn a_range_that_is_read_is_claimed_once_and_not_beside_its_delete() {
        let mut touched = Touched::default();
        let mut claims = Claims::default();
        claims.read_range(CfId(3), b"a", Some(b"b"));
        for (cf, end) in [(3, "b"), (3, "c"), (4, "b"), (3, "c")] {
            touched.add_span(Span {
                cf: CfId(cf),
                start: b"a".to_vec(),
                end: Some(end.into()),
            });
        }
        touched.add_to(&mut claims);
        let ends = claims.ranges().iter().map(|r| (r.cf.0, r.end.as_deref()));
        let ends: Vec<_> = ends.collect();
        let [b, c] = [Some(&b"b"[..]), Some(&b"c"[..])];
        assert_eq!(ends, [(3, b), (3, c), (4, b)]);
    }
}
