//! Iterators of a transaction: its own writes over what its snapshot has.

use std::ops::Bound;

use thermocline_base::bounds::behind;
use thermocline_base::{Error, Result};
use thermocline_engine::Family;

use crate::footprint::Span;
use crate::reading::{Reading, ValueOf};
use crate::store::{Moment, Place, Store};

type PlaceOf<S> = <<S as Store>::Moment as Moment>::Place;

/// An iterator over the entries of a range, from both ends. After an error it ends.
pub struct Scan<'t, S: Store> {
    failed: Option<Error>,
    /// `None` once it has ended.
    range: Option<Range<'t, S>>,
    reverse: bool,
}

/// What is still to be given, in the order of bytes.
struct Range<'t, S: Store> {
    reading: &'t Reading<S>,
    family: Family,
    whole: Span,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    /// Going up, and going down.
    sides: [Option<Side<PlaceOf<S>>>; 2],
    /// Whether what was read is to be noted.
    notes: bool,
}

/// One end of an iterator.
struct Side<P> {
    place: P,
    /// Whether the place is at a key that was not given yet.
    found: bool,
    /// Where it is noted what was read.
    span: Option<usize>,
    /// So many bytes of the end of that which moves count by now.
    counted: usize,
}

impl<'t, S: Store> Scan<'t, S> {
    pub(crate) fn new(
        reading: &'t Reading<S>,
        family: Family,
        (whole, begun): (Span, Result<bool>),
    ) -> Scan<'t, S> {
        let reverse = family.reverse;
        let notes = match begun {
            Ok(notes) => notes,
            Err(error) => {
                return Scan {
                    failed: Some(error),
                    range: None,
                    reverse,
                };
            }
        };
        let high = whole.end.clone();
        let range = Range {
            reading,
            family,
            low: Bound::Included(whole.start.clone()),
            high: high.map_or(Bound::Unbounded, Bound::Excluded),
            whole,
            sides: [None, None],
            notes,
        };
        Scan {
            failed: None,
            range: Some(range),
            reverse,
        }
    }

    /// An iterator that gives nothing but this.
    pub fn failed(error: Error) -> Scan<'t, S> {
        Scan {
            failed: Some(error),
            range: None,
            reverse: false,
        }
    }

    /// An iterator that gives nothing.
    pub fn empty() -> Scan<'t, S> {
        Scan {
            failed: None,
            range: None,
            reverse: false,
        }
    }

    fn step(&mut self, ascending: bool) -> Option<Result<(Vec<u8>, ValueOf<S>)>> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let entry = self.range.as_mut()?.step(ascending).transpose();
        if !matches!(entry, Some(Ok(_))) {
            self.range = None;
        }
        entry
    }
}

fn bytes(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl<S: Store> Range<'_, S> {
    fn has(&self, key: &[u8]) -> bool {
        !thermocline_base::bounds::is_below(key, bytes(&self.low))
            && !thermocline_base::bounds::is_behind(key, bytes(&self.high))
    }

    /// The side that goes this way, begun.
    fn begin(&mut self, ascending: bool) -> Result<()> {
        let side = usize::from(!ascending);
        if self.sides[side].is_some() {
            return Ok(());
        }
        let mut place = self.reading.place(self.family)?;
        let (from, until) = match ascending {
            true => (&self.low, &self.high),
            false => (&self.high, &self.low),
        };
        let found = place.seek(bytes(from), bytes(until), ascending)?;
        // What the whole range has at the end that moves was counted when the iterator was made.
        let counted = match ascending {
            true => self.whole.end.as_ref().map_or(0, Vec::len),
            false => self.whole.start.len(),
        };
        let span = self.notes.then(|| {
            // Nothing so far, at the end at which it begins. Without an end above there is none to begin at: then it is
            // noted at once that all is read.
            let (start, end) = match (ascending, &self.whole.end) {
                (true, _) => (self.whole.start.clone(), Some(self.whole.start.clone())),
                (false, Some(end)) => (end.clone(), Some(end.clone())),
                (false, None) => (self.whole.start.clone(), None),
            };
            let cf = self.whole.cf;
            let span = Span { cf, start, end };
            self.reading.lists().touched.borrow_mut().add_span(span)
        });
        self.sides[side] = Some(Side {
            place,
            found,
            span,
            counted,
        });
        Ok(())
    }

    fn step(&mut self, ascending: bool) -> Result<Option<(Vec<u8>, ValueOf<S>)>> {
        self.begin(ascending)?;
        let entry = self.next(ascending)?;
        self.note(ascending, entry.as_ref().map(|(key, _)| &**key))?;
        Ok(entry)
    }

    /// The next entry, which is the transaction's own or the snapshot's.
    fn next(&mut self, ascending: bool) -> Result<Option<(Vec<u8>, ValueOf<S>)>> {
        let writes = self.reading.writes();
        loop {
            let found = self.find_stored(ascending)?;
            let side = self.sides[usize::from(!ascending)].as_ref();
            let stored = side.filter(|_| found).map(|side| &side.place);
            let own = writes.next(
                self.whole.cf,
                (bytes(&self.low), bytes(&self.high)),
                ascending,
            );
            let own_first = match (&own, stored) {
                (None, None) => return Ok(None),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((own, _)), Some(stored)) if ascending => **own <= *stored.key(),
                (Some((own, _)), Some(stored)) => **own >= *stored.key(),
            };
            let entry = match (own.filter(|_| own_first), stored) {
                (Some((key, own)), stored) => {
                    let same = stored.filter(|stored| *stored.key() == *key);
                    let value = || Ok(same.map(Place::value));
                    let seen = self.reading.seen(self.whole.cf, key, own, value)?;
                    (key.to_vec(), seen)
                }
                // One that waits for its turn is not copied before.
                (None, Some(stored)) => {
                    let value = S::Moment::value(stored.value());
                    (stored.key().to_vec(), Some(value))
                }
                (None, None) => return Ok(None),
            };
            let passed = Bound::Excluded(entry.0.clone());
            if ascending {
                self.low = passed;
            } else {
                self.high = passed;
            }
            if let (key, Some(value)) = entry {
                return Ok(Some((key, value)));
            }
        }
    }

    /// Goes on to the next entry of the snapshot that the transaction has not deleted by a range. Returns whether there is
    /// one.
    fn find_stored(&mut self, ascending: bool) -> Result<bool> {
        let writes = self.reading.writes();
        loop {
            let side = &self.sides[usize::from(!ascending)];
            let Some(side) = side.as_ref().filter(|side| side.found) else {
                return Ok(false);
            };
            let key = side.place.key();
            let passed = match ascending {
                true => thermocline_base::bounds::is_below(key, bytes(&self.low)),
                false => thermocline_base::bounds::is_behind(key, bytes(&self.high)),
            };
            if !passed && !self.has(key) {
                return Ok(false);
            }
            if !passed && !writes.covers(self.whole.cf, key) {
                return Ok(true);
            }
            let until = if ascending { &self.high } else { &self.low };
            if let Some(side) = &mut self.sides[usize::from(!ascending)] {
                side.found = side.place.step(bytes(until), ascending)?;
            }
        }
    }

    /// Notes what was read by now: up to this key, or all.
    ///
    /// # Errors
    /// Those of [`Reading::take_memory`]: nothing is noted then, and the key must not be given.
    fn note(&mut self, ascending: bool, given: Option<&[u8]>) -> Result<()> {
        let Some(side) = &mut self.sides[usize::from(!ascending)] else {
            return Ok(());
        };
        let Some(number) = side.span else {
            return Ok(());
        };
        // The key behind it may be a byte longer.
        let len = given.map_or(0, |key| key.len() + 1);
        if let Some(more) = len.checked_sub(side.counted) {
            self.reading.take_memory(more as u64)?;
            side.counted = len;
        }
        let mut touched = self.reading.lists().touched.borrow_mut();
        let span = touched.span_mut(number);
        match given {
            None => *span = self.whole.clone(),
            Some(key) if ascending => span.end = behind(key),
            Some(key) => span.start = key.to_vec(),
        }
        Ok(())
    }
}

impl<S: Store> Iterator for Scan<'_, S> {
    type Item = Result<(Vec<u8>, ValueOf<S>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(!self.reverse)
    }
}

impl<S: Store> DoubleEndedIterator for Scan<'_, S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(self.reverse)
    }
}

impl<S: Store> std::iter::FusedIterator for Scan<'_, S> {}

impl<S: Store> std::fmt::Debug for Scan<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("family", &self.range.as_ref().map(|range| range.family))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::fake::Fake;
    use crate::options::TxnOptions;
    use crate::transactions::Transactions;

    /// An entry of the store waits for its turn, and is not copied for each of the transaction's own before it.
    #[test]
    fn a_stored_value_is_looked_at_once() {
        let entries = [b"m", b"n"].map(|key| (key.to_vec(), b"stored".to_vec()));
        let store = Fake {
            entries: Arc::new(BTreeMap::from(entries)),
            ..Fake::default()
        };
        let values = Arc::clone(&store.values);
        let all = Transactions::new(store);
        let mut txn = all.begin(TxnOptions::optimistic()).unwrap();
        for n in 0..100 {
            for first in *b"az" {
                txn.put(Family::DEFAULT, &[first, n], b"own").unwrap();
            }
        }
        txn.delete(Family::DEFAULT, b"n").unwrap();
        for forwards in [true, false] {
            let before = values.load(Ordering::Relaxed);
            let scan = txn.scan(Family::DEFAULT, b"", None);
            let mut given: Vec<_> = match forwards {
                true => scan.map(Result::unwrap).collect(),
                false => scan.rev().map(Result::unwrap).collect(),
            };
            assert_eq!(given.len(), 201);
            given.retain(|(key, _)| key == b"m");
            assert_eq!(given.len(), 1);
            assert_eq!(*given[0].1, b"stored"[..]);
            assert_eq!(values.load(Ordering::Relaxed) - before, 1);
        }
    }
}
