//! The ranges that a transaction has deleted, in the order in which it did.
//!
//! There may be thousands. Each read asks whether one has its key, and whoever commits asks for each change since its moment
//! whether that meets one, perhaps under the writer's lock.

use std::cell::OnceCell;

use thermocline_base::{BatchEntry, CfId, Kind};
use thermocline_engine::{Changed, Footprint};

use crate::footprint::{Asked, Span};
use crate::memory::{HIDDEN_BYTES, write_bytes};
use crate::widest::{Bounds, Widest};

/// A range that is deleted.
#[derive(Debug)]
pub(crate) struct Deleted {
    pub span: Span,
    /// How many writes there were before.
    pub after: usize,
    /// Those that counted, and lay within.
    pub hidden: Box<[usize]>,
}

impl Deleted {
    /// What it costs of DRAM.
    pub fn cost(&self) -> u64 {
        write_bytes(self.span.bytes()) + HIDDEN_BYTES * self.hidden.len() as u64
    }

    /// As a change of a batch.
    pub fn change(&self) -> BatchEntry<'_> {
        BatchEntry {
            kind: Kind::RangeDelete,
            cf: self.span.cf,
            key: &self.span.start,
            value: self.span.end.as_deref().unwrap_or_default(),
        }
    }
}

/// The ranges.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    all: Vec<Deleted>,
    /// Those that do not lie within others, once it is asked whether a key lies in one, or several times whether a change
    /// meets one.
    widest: OnceCell<Widest>,
    asked: Asked,
}

impl Ranges {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Each of them.
    pub fn all(&self) -> &[Deleted] {
        &self.all
    }

    /// The keys of each.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        self.all.iter().map(|range| &range.span)
    }

    /// Has none any more; keeps the memory.
    pub fn clear(&mut self) {
        self.all.clear();
        self.widest.take();
        self.asked = Asked::default();
    }

    /// Bytes of memory that it has while it has none.
    pub fn capacity(&self) -> usize {
        self.all.capacity() * size_of::<Deleted>()
    }

    /// One more.
    pub fn push(&mut self, range: Deleted) {
        self.all.push(range);
        let all = &self.all;
        if let Some(widest) = self.widest.get_mut() {
            widest.add(all.len() - 1, |n| all[n].span.bounds());
        }
    }

    /// Takes the last one back, if there were as many writes before it.
    pub fn pop_behind(&mut self, writes: usize) -> Option<Deleted> {
        let last = self.all.pop_if(|last| last.after == writes)?;
        // What lies within this one was left out.
        self.widest.take();
        Some(last)
    }

    fn bounds(&self, number: usize) -> Bounds<'_> {
        self.all[number].span.bounds()
    }

    fn widest(&self) -> &Widest {
        self.widest.get_or_init(|| {
            let mut widest = Widest::default();
            (0..self.all.len()).for_each(|number| widest.add(number, |n| self.bounds(n)));
            widest
        })
    }

    /// Whether one has the key.
    pub fn cover(&self, cf: CfId, key: &[u8]) -> bool {
        if self.all.is_empty() {
            return false;
        }
        let last = self.widest().last_at((cf, key), |n| self.bounds(n));
        last.is_some_and(|(.., end)| end.is_none_or(|end| key < end))
    }

    /// Whether a change meets one.
    pub fn meet(&self, change: &Changed<'_>) -> bool {
        if self.widest.get().is_none() && (self.all.is_empty() || self.asked.again()) {
            return self.spans().any(|span| span.meets(change));
        }
        let Some(end) = change.range else {
            return self.cover(change.cf, change.key);
        };
        let last = self
            .widest()
            .last_before((change.cf, end), |n| self.bounds(n));
        last.is_some_and(|(.., until)| until.is_none_or(|until| change.key < until))
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::SeqNo;
    use thermocline_engine::key_hash;
    use thermocline_testkit::Rng;

    use super::*;

    fn changed<'a>(cf: CfId, key: &'a [u8], range: Option<Option<&'a [u8]>>) -> Changed<'a> {
        Changed {
            seqno: SeqNo(1),
            cf,
            key,
            hash: key_hash(cf, key),
            range,
        }
    }

    fn deleted(cf: CfId, (start, end): (Vec<u8>, Option<Vec<u8>>)) -> Deleted {
        Deleted {
            span: Span { cf, start, end },
            after: 0,
            hidden: Box::default(),
        }
    }

    /// Each change is looked up among thousands of ranges, not compared with each of them. What it meets is what it would meet
    /// then, however ranges overlap, come and go.
    #[test]
    fn ranges_in_order_are_met_as_each_by_itself() {
        let mut rng = Rng::new(11);
        let key = |rng: &mut Rng| -> Vec<u8> {
            let len = rng.below(4);
            (0..len).map(|_| b"abc"[rng.below(3)]).collect()
        };
        let mut in_order = 0;
        for _ in 0..200 {
            let mut ranges = Ranges::default();
            for _ in 0..60 {
                let cf = CfId([3, 4][rng.below(2)]);
                let (from, to) = (key(&mut rng), key(&mut rng));
                // One that is deleted has keys.
                let end = (!rng.one_in(9)).then_some(to);
                if rng.one_in(4) && end.as_ref().is_none_or(|end| from < *end) {
                    ranges.push(deleted(cf, (from, end)));
                } else if rng.one_in(20) {
                    let _ = ranges.pop_behind(0);
                }
                let (from, to) = (key(&mut rng), key(&mut rng));
                let end = (!rng.one_in(9)).then_some(&*to);
                for change in [changed(cf, &from, None), changed(cf, &from, Some(end))] {
                    let one_by_one = ranges.spans().any(|span| span.meets(&change));
                    assert_eq!(ranges.meet(&change), one_by_one, "{change:?} {ranges:?}");
                }
                in_order += usize::from(ranges.widest.get().is_some());
            }
        }
        assert!(in_order > 1000, "{in_order}");
    }

    #[test]
    fn ranges_are_put_in_order_only_for_many_questions() {
        let mut ranges = Ranges::default();
        let change = changed(CfId(3), b"b", None);
        // Where there is none nobody counts.
        (0..20).for_each(|_| assert!(!ranges.meet(&change)));
        ranges.push(deleted(CfId(3), (b"a".to_vec(), Some(b"c".to_vec()))));
        let in_order = |ranges: &Ranges| {
            assert!(ranges.meet(&change));
            ranges.widest.get().is_some()
        };
        assert_eq!(
            [0; 6].map(|_| in_order(&ranges)),
            [false, false, false, false, true, true]
        );
        ranges.clear();
        assert!(ranges.widest.get().is_none() && ranges.asked.again());
    }
}
