//! What is in a family, in its order, and readers that carry a copy of it from when they were made.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use thermocline::{Cursor, Result, Scan, Snapshot};
use thermocline_testkit::Rng;

pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;
pub type Entry = (Vec<u8>, Vec<u8>);

/// What must be in a family.
#[derive(Debug, Clone, Default)]
pub struct Content {
    pub map: Arc<Map>,
    /// Whether keys descend.
    pub reverse: bool,
    pub metadata: Option<Arc<[u8]>>,
    pub ages: Ages,
}

/// How old the parts of each value are, in a family with a TTL.
#[derive(Debug, Clone, Default)]
pub struct Ages {
    /// What time it is, and how long entries live. No family without a TTL has a time.
    pub time: u64,
    pub ttl: u64,
    /// Of each key that has a value.
    pub parts: Arc<BTreeMap<Vec<u8>, Parts>>,
}

/// When the parts of a value that were appended to each other were written, and their lengths.
pub type Parts = Vec<(u64, usize)>;

impl Ages {
    fn wrote(&mut self, key: &[u8], len: usize, anew: bool) {
        if self.ttl == 0 {
            return;
        }
        let parts = Arc::make_mut(&mut self.parts);
        let parts = parts.entry(key.to_vec()).or_default();
        if anew {
            parts.clear();
        }
        parts.push((self.time, len));
    }
}

impl Content {
    pub fn map(&mut self) -> &mut Map {
        Arc::make_mut(&mut self.map)
    }

    /// Appends an operand to the value of a key.
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) {
        let value = self.map().entry(key.to_vec()).or_default();
        value.extend_from_slice(operand);
    }

    /// Sets the value of a key, or appends to it.
    pub fn write(&mut self, key: Vec<u8>, value: Vec<u8>, merges: bool) {
        let anew = !merges || !self.map.contains_key(&key);
        self.ages.wrote(&key, value.len(), anew);
        match merges {
            true => self.merge(&key, &value),
            false => drop(self.map().insert(key, value)),
        }
    }

    /// Removes what lies between two bounds in the family's order; false if they are in the wrong order.
    pub fn delete_range(&mut self, (begin, end): &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> bool {
        if self.is_upside_down(begin, end) {
            return false;
        }
        let gone = self.between(
            begin.as_ref().map(Vec::as_slice),
            end.as_ref().map(Vec::as_slice),
        );
        for (key, _) in gone {
            self.map().remove(&key);
        }
        true
    }

    /// Whether a range ends before it begins.
    pub fn is_upside_down(&self, begin: &Bound<Vec<u8>>, end: &Bound<Vec<u8>>) -> bool {
        let keys = [begin, end].map(|bound| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        });
        match (keys, self.reverse) {
            ([Some(first), Some(last)], false) => first > last,
            ([Some(first), Some(last)], true) => first < last,
            _ => false,
        }
    }

    /// What lies between two bounds in the family's order.
    pub fn between(&self, begin: Bound<&[u8]>, end: Bound<&[u8]>) -> VecDeque<Entry> {
        let (low, high) = if self.reverse {
            (end, begin)
        } else {
            (begin, end)
        };
        let sane = match (low, high) {
            (Bound::Included(a), Bound::Included(b)) => a <= b,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
                a < b
            }
            _ => true,
        };
        let inside = sane.then(|| self.map.range::<[u8], _>((low, high)));
        let entries = inside.into_iter().flatten();
        let mut entries: VecDeque<Entry> = entries.map(|(k, v)| (k.clone(), v.clone())).collect();
        if self.reverse {
            entries.make_contiguous().reverse();
        }
        entries
    }

    /// The first entry from the bound on.
    fn first(&self, begin: Bound<&[u8]>) -> Option<Entry> {
        self.at_end(begin, self.reverse)
    }

    /// The last entry up to the bound.
    fn last(&self, end: Bound<&[u8]>) -> Option<Entry> {
        self.at_end(end, !self.reverse)
    }

    /// The entry next to a bound, among those with lower keys or with higher ones.
    fn at_end(&self, bound: Bound<&[u8]>, lower: bool) -> Option<Entry> {
        let entry = if lower {
            self.map
                .range::<[u8], _>((Bound::Unbounded, bound))
                .next_back()
        } else {
            self.map.range::<[u8], _>((bound, Bound::Unbounded)).next()
        };
        entry.map(|(key, value)| (key.clone(), value.clone()))
    }

    pub fn check_metadata(&self, got: Result<Option<thermocline::Value>>) {
        assert!(got.unwrap().as_deref() == self.metadata.as_deref());
    }
}

pub fn head(bytes: &[u8]) -> String {
    format!(
        "{:02x?} of {} bytes",
        &bytes[..bytes.len().min(12)],
        bytes.len()
    )
}

/// A cursor with the content at the moment when it was made, and where it is.
pub struct Held {
    pub cursor: Cursor,
    pub content: Content,
    pub at: Option<Vec<u8>>,
}

impl Held {
    pub fn step(&mut self, rng: &mut Rng, key: &[u8]) {
        let content = &self.content;
        let before = |at: &[u8]| content.last(Bound::Excluded(at));
        let after = |at: &[u8]| content.first(Bound::Excluded(at));
        let (moved, expected) = match rng.below(10) {
            0 => (self.cursor.seek_to_first(), content.first(Bound::Unbounded)),
            1 => (self.cursor.seek_to_last(), content.last(Bound::Unbounded)),
            2 => (self.cursor.seek(key), content.first(Bound::Included(key))),
            3 => (
                self.cursor.seek_for_prev(key),
                content.last(Bound::Included(key)),
            ),
            4..7 => (self.cursor.prev(), self.at.as_deref().and_then(before)),
            _ => (self.cursor.next(), self.at.as_deref().and_then(after)),
        };
        assert_eq!(moved.unwrap(), expected.is_some());
        assert_eq!(self.cursor.valid(), expected.is_some());
        let (key, value) = expected.clone().unwrap_or_default();
        assert!(self.cursor.key() == key, "key {}", head(self.cursor.key()));
        assert!(self.cursor.value() == value, "value of {}", head(&key));
        self.at = expected.map(|(key, _)| key);
    }
}

/// A scan with what it still has to give.
pub struct Going {
    pub scan: Scan,
    pub left: VecDeque<Entry>,
}

impl Going {
    pub fn all(scan: Scan, content: &Content) -> Going {
        Going {
            scan,
            left: content.between(Bound::Unbounded, Bound::Unbounded),
        }
    }

    /// Takes up to `most` entries from random ends; whether it has ended.
    pub fn take(&mut self, rng: &mut Rng, most: usize) -> bool {
        let backwards = rng.below(5);
        for _ in 0..most {
            let (got, expected) = if rng.below(4) < backwards {
                (self.scan.next_back(), self.left.pop_back())
            } else {
                (self.scan.next(), self.left.pop_front())
            };
            let got = got.map(|entry| entry.unwrap());
            let Some((key, value)) = expected else {
                assert!(got.is_none(), "{} after the end", head(&got.unwrap().0));
                assert!(self.scan.next().is_none() && self.scan.next_back().is_none());
                return true;
            };
            let got = got.unwrap_or_else(|| panic!("{} is missing", head(&key)));
            assert!(got.0 == key, "{} instead of {}", head(&got.0), head(&key));
            assert!(*got.1 == value, "value of {}", head(&key));
        }
        false
    }
}

/// A snapshot of each family that there was.
pub struct Then(pub Vec<(Snapshot, Content)>);

impl Then {
    pub fn check(&self, rng: &mut Rng, key: &[u8]) {
        let (at, content) = rng.pick(&self.0);
        assert!(at.get(key).unwrap().as_deref() == content.map.get(key).map(|v| &v[..]));
        content.check_metadata(at.metadata());
        Going::all(at.iter(), content).take(rng, 50);
    }
}
