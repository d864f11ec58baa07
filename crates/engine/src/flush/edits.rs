//! How much one edit of a flush names.
//!
//! An edit has the first key and the last of each table that it names, and of one in persistent memory those of each
//! family twice. So with very many families and long keys it might be longer than the manifest takes, and the flush would
//! fail for ever. Therefore ranges are cut where families begin, wherever the keys of one edit would come to too much. What
//! comes of it is named like other ranges, one after the other ([`evacuate`](super::evacuate), 1): between two edits the
//! front stands at the beginning of a family. Whatever shape a store has, it may have a front, and goes on from there
//! (`evacuate`, 5). With keys that are not long nothing is cut.
//!
//! *Why that is enough.* Each family's keys are taken for as long as the longer one of its first and its last, and as often as an edit
//! has them of one table. A family that makes several tables has bytes for them: with all that memtables have, those are few
//! beside what an edit may take, which is eight times as much as is reckoned here.

use std::collections::BTreeSet;
use std::ops::Bound;

use thermocline_base::limits::KEY_LEN_MAX;
use thermocline_base::{CfId, KeyRange, Result, SeqNo};
use thermocline_catalog::view::Position;
use thermocline_memtable::{Direction, Fragment, Memtable};

use super::evacuate::{Span, Taken};
use crate::sync::Arc;

/// Bytes of keys that one edit has, about.
const EDIT_KEYS: u64 = 8 << 20;

/// How many keys an edit has of one family of a table, at most.
const KEYS_A_TABLE: u64 = 4;

impl Taken {
    /// These ranges, cut where families begin, so that an edit which names `together` of them has not too many bytes of keys.
    ///
    /// # Errors
    /// Those of reading the memtables.
    pub fn cut_for_edits(&self, spans: Vec<Span>, together: usize) -> Result<Vec<Span>> {
        let most = EDIT_KEYS / together.max(1) as u64;
        if self.keys_named_most() <= most {
            return Ok(spans);
        }
        let mut cut = Vec::new();
        for mut span in spans {
            let mut named = 0;
            for cf in self.families_in(&span) {
                let keys = self.keys_named(&span, cf)?;
                // Before it there is a family that has something: the range does not begin here.
                if named > 0 && named + keys > most {
                    let at = Position {
                        cf,
                        key: Box::default(),
                    };
                    let to = span.to.replace(at.clone());
                    cut.push(std::mem::replace(&mut span, Span { from: at, to }));
                    named = 0;
                }
                named += keys;
            }
            cut.push(span);
        }
        Ok(cut)
    }

    /// What all keys that might be named have together at most, without a look at them.
    fn keys_named_most(&self) -> u64 {
        let families = self.memtables.iter().flat_map(|m| m.families());
        let families: BTreeSet<CfId> = families.collect();
        let longest = (families.len() * KEY_LEN_MAX) as u64;
        // A range tombstone without an end reaches up to the greatest key, which no record has.
        if self.memtables.iter().any(|m| m.has_tombstones()) {
            return KEYS_A_TABLE * longest;
        }
        let bytes: u64 = self.memtables.iter().map(|m| m.bytes()).sum();
        KEYS_A_TABLE * bytes.min(longest)
    }

    /// Bytes of keys that an edit has of what a family has in a range, about.
    fn keys_named(&self, span: &Span, cf: CfId) -> Result<u64> {
        let Some(keys) = span.of(cf) else {
            return Ok(0);
        };
        let hull = hull(&self.memtables, cf, keys)?;
        let longer = hull.map_or(0, |hull| hull.first.len().max(hull.last.len()));
        Ok(KEYS_A_TABLE * longer as u64)
    }
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
