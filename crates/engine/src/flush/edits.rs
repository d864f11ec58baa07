//! How much one edit of a flush names.
//!
//! An edit has the first key and the last of each table that it names, and of one in persistent memory those of each
//! family twice. Keys have up to 64 KiB: with very many families, or with small tables, an edit might be longer than the
//! manifest takes, and the flush would fail for ever. Therefore ranges are cut where an edit would name too much: where
//! families begin, and within a family.
//!
//! # What comes of it
//! The pieces are named like other ranges, one after the other ([`evacuate`](super::evacuate), 1), whatever the shape.
//! Between two edits the front stands at the first key of a piece. That is no more than shape `tiered` asks for, which
//! cuts ranges at keys for their size: readers, recovery, copies and merges inside level 0 know a front at any key of any
//! family. Only the edit of the last piece says that the memtables are flushed; a crash before it finds them named, and
//! the front (`evacuate`, "What a crash leaves"). A store of another shape goes on from there, too (`evacuate`, 5).
//!
//! # What is reckoned
//! 1. *Keys.* A table begins and ends with keys of its own, or with the ends of range tombstones. So tables of some keys name
//!    each of these at most as often as an edit has the keys of one table ([`KEYS_A_TABLE`]).
//! 2. *Tables.* Nor do they name more than the longest of these keys for each table. How many tables there are follows from
//!    their bytes; with usual keys this is by far the less of both.
//! 3. *Range tombstones* are cut where tables end, were it at a key that is in no memtable: where a table of level 0, or of
//!    the level below, begins or ends, or a partition. In a family that has some, no key counts as shorter than those.
//! 4. *Where jobs have to be small*, on a full disk, tables end at all such keys, however small they are.
//!
//! It is a bound but for what one cannot know beforehand, such as a merge operator that makes much of little. So no more
//! than a quarter of what an edit may have is planned for. Nothing is looked at where the number of tables and the longest key
//! that memtables have met are enough to tell, as they are with usual keys; else each key is, but not its value.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Bound;

use thermocline_base::limits::KEY_LEN_MAX;
use thermocline_base::{CfId, KeyRange, Result, SeqNo};
use thermocline_catalog::view::Position;
use thermocline_memtable::{Cover, Direction, Fragment, Memtable};
use thermocline_policy::tuning::{NAMED_KEYS, NAMED_PARTS, NAMED_UNKNOWN_PARTS};
use thermocline_version::Version;
use thermocline_version::format::PAYLOAD_LEN_MAX;

use super::evacuate::{Span, Taken};
use crate::store::Evacuator;
use crate::sync::Arc;

/// Bytes that one edit has of what memtables have, about.
pub(super) const NAMED_BYTES: u64 = (PAYLOAD_LEN_MAX / NAMED_PARTS) as u64;

/// How many keys an edit has of one family of a table, at most.
const KEYS_A_TABLE: u64 = 4;

/// Bytes that it has beside each of these, at most.
const BESIDE_KEY: u64 = 64;

/// Bytes that a table has beside a key and its value, about.
const BESIDE_RECORD: u64 = 32;

/// Ranges, and the bytes that an edit has of each, about: 0 where all of them together have too few to be looked at.
pub(super) struct Cut {
    pub spans: Vec<Span>,
    pub named: Vec<u64>,
}

impl Taken {
    /// These ranges, cut so that an edit of one of them has not many more than `most` bytes of it.
    ///
    /// # Errors
    /// Those of reading the memtables; what stops the store.
    pub fn cut_for_edits(&self, evacuator: &Evacuator, spans: Vec<Span>, most: u64) -> Result<Cut> {
        let planned = Planned {
            taken: self,
            evacuator,
            version: evacuator.common.catalog.version(),
            most,
        };
        if planned.named_most() <= most {
            let named = vec![0; spans.len()];
            return Ok(Cut { spans, named });
        }
        let mut cut = Cut {
            spans: Vec::new(),
            named: Vec::new(),
        };
        for span in spans {
            planned.cut(span, &mut cut)?;
        }
        Ok(cut)
    }
}

/// Keys of a family that follow each other, at each of which a table may begin and end.
#[derive(Debug, Clone, Copy, Default)]
struct Keys {
    /// Bytes of their records.
    records: u64,
    /// Bytes of the keys, with what an edit has beside each.
    keys: u64,
    /// Bytes of the longest of them, likewise.
    longest: u64,
}

impl Keys {
    /// These, and others behind them.
    fn and(self, others: Keys) -> Keys {
        Keys {
            records: self.records.saturating_add(others.records),
            keys: self.keys.saturating_add(others.keys),
            longest: self.longest.max(others.longest),
        }
    }
}

/// How the tables of a family end.
#[derive(Debug, Clone, Copy)]
struct Ends {
    /// Bytes that each has at least,
    bytes_min: u64,
    /// but for so many of them.
    small: u64,
    /// Bytes of the longest key that is in no memtable, and at which one may end.
    other_key: u64,
}

impl Ends {
    /// Bytes that an edit has of the tables of these keys, at most.
    fn named(&self, keys: &Keys) -> u64 {
        let tables = (keys.records / self.bytes_min.max(1)).saturating_add(self.small);
        let named = keys.keys.min(tables.saturating_mul(keys.longest));
        named.saturating_mul(KEYS_A_TABLE)
    }
}

/// Some keys of one memtable.
struct Part<'e> {
    keys: Keys,
    /// The next key behind them; `None` if they are the last ones.
    until: Option<Cow<'e, [u8]>>,
}

/// Collects parts, in the order of their keys.
struct Parts<'e> {
    ends: Ends,
    /// Bytes that an edit has of a part, from which on it ends.
    enough: u64,
    /// The part at hand.
    keys: Keys,
    all: Vec<Part<'e>>,
}

impl<'e> Parts<'e> {
    /// Whether the part at hand ends before the next key.
    fn is_full(&self) -> bool {
        self.keys.keys > 0 && self.ends.named(&self.keys) >= self.enough
    }

    /// Ends the part at hand before this key, if it is full.
    fn go_to(&mut self, key: impl FnOnce() -> Cow<'e, [u8]>) {
        if self.is_full() {
            let (keys, until) = (std::mem::take(&mut self.keys), Some(key()));
            self.all.push(Part { keys, until });
        }
    }

    /// Adds a key of so many bytes to the part at hand, whose record has so many.
    fn add(&mut self, key_len: usize, record: u64) {
        let key = (key_len as u64).max(self.ends.other_key) + BESIDE_KEY;
        self.keys = self.keys.and(Keys {
            records: record,
            keys: key,
            longest: key,
        });
    }

    /// Ends the last part.
    fn end(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        if keys.keys > 0 {
            self.all.push(Part { keys, until: None });
        }
    }
}

/// What edits are to name.
struct Planned<'e> {
    taken: &'e Taken,
    evacuator: &'e Evacuator,
    version: Arc<Version>,
    /// Bytes of it that one edit has.
    most: u64,
}

impl<'e> Planned<'e> {
    /// What an edit of all of it would have at most, without a look at the keys.
    fn named_most(&self) -> u64 {
        let memtables = &self.taken.memtables;
        let families: BTreeSet<CfId> = memtables.iter().flat_map(|m| m.families()).collect();
        let mut all = Keys::default();
        let mut small = 0u64;
        for cf in families {
            let ends = self.ends(cf);
            small = small.saturating_add(ends.small);
            let longest = self.longest_key(cf).max(ends.other_key) + BESIDE_KEY;
            all.longest = all.longest.max(longest);
        }
        all.records = memtables.iter().map(|m| m.bytes()).sum();
        let count: u64 = memtables.iter().map(|m| m.len()).sum();
        all.keys = match memtables.iter().any(|m| m.has_tombstones()) {
            // Tables end at other keys, too.
            true => u64::MAX,
            false => all.records.saturating_add(count.saturating_mul(BESIDE_KEY)),
        };
        let ends = Ends {
            bytes_min: self.table_bytes_min(),
            small,
            other_key: 0,
        };
        ends.named(&all)
    }

    fn table_bytes_min(&self) -> u64 {
        let shape = &self.evacuator.common.compactions.shape;
        shape.geometry().table_bytes_min()
    }

    /// Bytes of the longest key of a family, ends of range tombstones among them, or more.
    fn longest_key(&self, cf: CfId) -> u64 {
        let mut longest = 0;
        for memtable in &self.taken.memtables {
            longest = longest.max(memtable.longest_key(cf));
            for cover in memtable.covers(cf) {
                let end_len = |f: &Fragment<'_>| f.end.map_or(KEY_LEN_MAX, <[u8]>::len);
                let ends = cover.fragments().map(|f| f.start.len().max(end_len(&f)));
                longest = longest.max(ends.max().unwrap_or(0));
            }
        }
        longest as u64
    }

    /// How the tables of a family end.
    fn ends(&self, cf: CfId) -> Ends {
        let mut ends = Ends {
            bytes_min: self.table_bytes_min(),
            // The last one.
            small: 1,
            other_key: 0,
        };
        let mut memtables = self.taken.memtables.iter();
        let has_tombstones = memtables.any(|m| m.newest_tombstone(cf).is_some());
        let is_small = self.evacuator.pressure.is_relieving();
        if !has_tombstones && !is_small {
            return ends;
        }
        let mut other_key = 0;
        for (_, table) in self.version.tables_of(cf) {
            ends.small += 2 * u64::from(is_small);
            other_key = other_key.max(table.range.first.len().max(table.range.last.len()));
        }
        if has_tombstones {
            let starts = self.evacuator.partitioner.starts_of(&self.version, cf);
            let starts = starts.iter().map(Vec::len);
            ends.other_key = starts.fold(other_key, usize::max) as u64;
        }
        ends
    }

    /// Adds a range to those that are `cut`, in pieces if an edit would have too much of it.
    fn cut(&self, mut span: Span, cut: &mut Cut) -> Result<()> {
        // Bytes of the families before the one at hand, from where the range begins.
        let mut before = 0u64;
        for cf in self.taken.families_in(&span) {
            let ends = self.ends(cf);
            let Some(keys) = span.of(cf) else {
                continue;
            };
            let parts = self.parts(cf, keys, ends)?;
            let mut keys = Keys::default();
            // Where the next part begins, about: each memtable has parts of its own.
            let mut at = Position {
                cf,
                key: Box::default(),
            };
            for part in parts {
                let named = before.saturating_add(ends.named(&keys));
                let with = before.saturating_add(ends.named(&keys.and(part.keys)));
                // If nothing is named of what lies before it, the range does not end there.
                if with > self.most && named > 0 && span.from < at {
                    let to = span.to.replace(at.clone());
                    let behind = Span {
                        from: at.clone(),
                        to,
                    };
                    cut.spans.push(std::mem::replace(&mut span, behind));
                    cut.named.push(named);
                    (before, keys) = (0, Keys::default());
                }
                keys = keys.and(part.keys);
                if let Some(until) = part.until {
                    at.key = Box::from(&*until);
                }
            }
            before = before.saturating_add(ends.named(&keys));
        }
        cut.spans.push(span);
        cut.named.push(before);
        Ok(())
    }

    /// What memtables have of a family within these keys, by where it ends. An edit has little of each part.
    fn parts(
        &self,
        cf: CfId,
        (from, to): (&[u8], Option<&[u8]>),
        ends: Ends,
    ) -> Result<Vec<Part<'e>>> {
        let taken = self.taken;
        let mut parts = Parts {
            ends,
            // Of each memtable one part may lie on both sides of a cut.
            enough: self.most / (NAMED_UNKNOWN_PARTS * taken.memtables.len().max(1) as u64),
            keys: Keys::default(),
            all: Vec::new(),
        };
        let mut endless = false;
        for memtable in &taken.memtables {
            self.add_records(memtable, cf, (from, to), &mut parts)?;
            parts.end();
            for cover in memtable.covers(cf) {
                endless |= add_tombstones(&cover, (from, to), &mut parts);
                parts.end();
            }
        }
        if endless {
            // Of all tables the last one ends there.
            parts.add(KEY_LEN_MAX, 0);
            parts.end();
        }
        let mut all = parts.all;
        all.sort_by(|a, b| (a.until.is_none(), &a.until).cmp(&(b.until.is_none(), &b.until)));
        Ok(all)
    }

    /// Adds the records that a memtable has of a family within these keys.
    fn add_records(
        &self,
        memtable: &'e Memtable,
        cf: CfId,
        (from, to): (&[u8], Option<&[u8]>),
        parts: &mut Parts<'e>,
    ) -> Result<()> {
        // Of a key all versions are written that somebody may ask for.
        let versions = memtable.len().div_ceil(memtable.keys().max(1)).max(1);
        let mut begin = Bound::Included(from);
        let mut chunk = Vec::new();
        loop {
            self.evacuator.common.check_open()?;
            chunk.clear();
            let forwards = Direction::Forward;
            let more = memtable.scan(cf, begin, forwards, SeqNo::MAX, NAMED_KEYS, &mut chunk)?;
            for (n, entry) in chunk.iter().enumerate() {
                // Verified where it decides what is written where, or what is looked at next.
                let decides = parts.is_full() || n + 1 == chunk.len();
                let record = memtable.record(entry.at, decides)?;
                if to.is_some_and(|to| record.key >= to) {
                    return Ok(());
                }
                parts.go_to(|| Cow::Borrowed(record.key));
                let bytes = (record.key.len() + record.value.len()) as u64 + BESIDE_RECORD;
                parts.add(record.key.len(), bytes.saturating_mul(versions));
                begin = Bound::Excluded(record.key);
            }
            if !more {
                return Ok(());
            }
        }
    }
}

/// Adds the ends of range tombstones within these keys. Returns whether one has no end there.
fn add_tombstones(
    cover: &Cover,
    (from, to): (&[u8], Option<&[u8]>),
    parts: &mut Parts<'_>,
) -> bool {
    let mut endless = false;
    let is_before = |f: &Fragment<'_>| to.is_none_or(|to| f.start < to);
    for fragment in cover.fragments().take_while(is_before) {
        if fragment.end.is_some_and(|end| end <= from) {
            continue;
        }
        let start = fragment.start.max(from);
        let end = [fragment.end, to].into_iter().flatten().min();
        let end_len = end.map_or(KEY_LEN_MAX, <[u8]>::len);
        parts.go_to(|| Cow::Owned(start.to_vec()));
        parts.add(start.len(), (start.len() + end_len) as u64 + BESIDE_RECORD);
        match end {
            Some(end) => parts.add(end.len(), 0),
            None => endless = true,
        }
    }
    endless
}

/// Where the keys and range tombstones of a family lie that memtables have within these keys; `None` if they have none.
pub(super) fn hull(
    memtables: &[Arc<Memtable>],
    cf: CfId,
    (from, to): (&[u8], Option<&[u8]>),
) -> Result<Option<KeyRange>> {
    let mut hull: Option<KeyRange> = None;
    let mut add = |range: KeyRange<&[u8]>| {
        let all = match &hull {
            Some(hull) => hull.borrowed().hull(range).owned(),
            None => range.owned(),
        };
        hull = Some(all);
    };
    let behind = to.map_or(Bound::Unbounded, Bound::Excluded);
    let within = |key: &[u8]| key >= from && to.is_none_or(|to| key < to);
    for memtable in memtables {
        for (bound, direction) in [
            (Bound::Included(from), Direction::Forward),
            (behind, Direction::Reverse),
        ] {
            let mut found = Vec::new();
            memtable.scan(cf, bound, direction, SeqNo::MAX, 1, &mut found)?;
            if let Some(entry) = found.first() {
                // Verified, as it decides what is written where.
                let key = memtable.record(entry.at, true)?.key;
                if within(key) {
                    add(KeyRange::inclusive(key, key));
                }
            }
        }
        for cover in memtable.covers(cf) {
            let before = |fragment: &Fragment<'_>| to.is_none_or(|to| fragment.start < to);
            for fragment in cover.fragments().take_while(before) {
                let first = fragment.start.max(from);
                let end = [fragment.end, to].into_iter().flatten().min();
                match end {
                    Some(end) if first < end => add(KeyRange::until(first, end)),
                    Some(_) => {}
                    None => add(KeyRange::inclusive(first, &[u8::MAX; KEY_LEN_MAX])),
                }
            }
        }
    }
    Ok(hull)
}

#[cfg(test)]
mod tests;
