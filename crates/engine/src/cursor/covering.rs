//! Range tombstones over keys, as a cursor asks for them.

use thermocline_base::SeqNo;
use thermocline_base::planted::{Bug, active};
use thermocline_memtable::Cover;

/// The range tombstones of one memtable, and the fragment of the last key that was asked for: the next key is mostly
/// in the same fragment.
#[derive(Debug)]
pub(super) struct Covering {
    pub(super) cover: Cover,
    is_known: bool,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    over: Option<SeqNo>,
    /// The tombstones say nothing about keys before this one: those were evacuated into tables.
    first: Box<[u8]>,
}

impl Covering {
    pub fn new(cover: Cover, first: &[u8]) -> Covering {
        Covering {
            first: match active(Bug::FrontForgetsTombstones) {
                true => Box::default(),
                false => first.into(),
            },
            cover,
            is_known: false,
            start: Vec::new(),
            end: None,
            over: None,
        }
    }

    /// The first key of the covered stretch that `key` lies in; `key` must be covered.
    pub fn covered_from(&self, key: &[u8]) -> &[u8] {
        self.cover.covered_from(key).max(&self.first)
    }

    /// The newest range tombstone over `key`.
    pub fn over(&mut self, key: &[u8]) -> Option<SeqNo> {
        if *key < *self.first {
            return None;
        }
        let within = *self.start <= *key && self.end.as_ref().is_none_or(|end| *key < **end);
        if !(self.is_known && within) {
            let fragment = self.cover.fragment(key);
            self.start.clear();
            self.start.extend_from_slice(fragment.start);
            self.end = fragment.end.map(<[u8]>::to_vec);
            self.over = fragment.over;
            self.is_known = true;
        }
        self.over
    }
}

/// Where a stretch of covered keys ends, on a cursor's way.
#[derive(Debug)]
pub(super) enum Edge {
    /// Forwards: the first key behind it. Backwards: the first key within it.
    At(Vec<u8>),
    /// The stretch has no end on the cursor's way.
    Nowhere,
}
