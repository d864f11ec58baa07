//! The range tombstones that a flush moves from memtables into tables.
//!
//! (A copy of the store takes them in the same way, as of its moment: `capture`.)
//!
//! Of each memtable, those are taken that a reader may still need, as its covers have them: cut to where no
//! newer one of the same memtable lies over them at the same moments. `compaction::retain` joins what belongs
//! together, and drops what is not needed.
//!
//! A range tombstone of a table has an end. One without is given the first key behind all that it can hide:
//! what is flushed with it, and the tables that there are. (Memtables that are dead, and still named, may
//! have more; whenever they come back, its own memtable does: `flush`, invariant 4.) Behind the greatest key that
//! there can be is no key, so that one is deleted by itself, by entries of a source of its own.

use std::ops::Bound;
use std::sync::Arc;

use thermocline_base::bounds::behind;
use thermocline_base::{CfId, Kind, RangeTombstone, Result, SeqNo};
use thermocline_compaction::Head;
use thermocline_memtable::{Cover, Direction, Fragment, Memtable};
use thermocline_version::Version;

/// Deletes of the greatest key that there can be, newest first.
#[derive(Debug)]
pub struct LastDeletes {
    key: Vec<u8>,
    seqnos: Vec<SeqNo>,
    at: usize,
}

impl LastDeletes {
    pub(super) fn head(&self) -> Option<Head<'_>> {
        Some(Head {
            user_key: &self.key,
            seqno: *self.seqnos.get(self.at)?,
            kind: Kind::Delete,
        })
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    pub(super) fn seek(&mut self, user_key: &[u8], seqno: SeqNo) {
        self.at = match (*self.key).cmp(user_key) {
            std::cmp::Ordering::Less => self.seqnos.len(),
            std::cmp::Ordering::Equal => self.seqnos.partition_point(|own| *own > seqno),
            std::cmp::Ordering::Greater => 0,
        };
    }
}

/// The range tombstones that these covers of family `cf` in `memtables` have, each from some key on, which are to
/// lie above the tables of `version`, and what they come to for the greatest key, if somebody has that.
///
/// # Errors
/// Those of reading the memtables.
pub fn of(
    covers: &[(Cover, &[u8])],
    memtables: &[Arc<Memtable>],
    version: &Version,
    cf: CfId,
) -> Result<(Vec<RangeTombstone>, Option<LastDeletes>)> {
    let fragments = covers.iter().flat_map(|(cover, from)| {
        let fragments = cover.fragments();
        fragments.map(|fragment| Fragment {
            start: fragment.start.max(from),
            ..fragment
        })
    });
    let fragments: Vec<Fragment<'_>> = fragments.collect();
    let endless = fragments.iter().filter(|fragment| fragment.end.is_none());
    let mut seqnos: Vec<SeqNo> = endless.filter_map(|fragment| fragment.over).collect();
    let end = match seqnos.is_empty() {
        true => None,
        false => greatest(memtables, version, cf)?,
    };
    let behind = end.as_deref().and_then(behind);
    // The end of those that have none; if there is nothing at all they hide nothing.
    let end = behind.as_deref().or(end.as_deref()).unwrap_or_default();
    let all = fragments.iter().filter_map(|fragment| {
        let end = fragment.end.unwrap_or(end);
        (fragment.start < end).then_some(RangeTombstone {
            start: fragment.start.to_vec(),
            end: end.to_vec(),
            seqno: fragment.over?,
        })
    });
    let last = (behind.is_none() && !end.is_empty()).then(|| {
        seqnos.sort_unstable_by(|a, b| b.cmp(a));
        seqnos.dedup();
        LastDeletes {
            key: end.to_vec(),
            seqnos,
            at: 0,
        }
    });
    Ok((all.collect(), last))
}

/// A key that is not below any key there is; `None` if there is none.
fn greatest(memtables: &[Arc<Memtable>], version: &Version, cf: CfId) -> Result<Option<Vec<u8>>> {
    let tables = version.tables_of(cf);
    let mut greatest = tables.map(|(_, table)| table.range.last.to_vec()).max();
    for memtable in memtables {
        let mut last = Vec::new();
        let (all, back) = (Bound::Unbounded, Direction::Reverse);
        memtable.scan(cf, all, back, SeqNo::MAX, 1, &mut last)?;
        for entry in last {
            let key = memtable.record(entry.at, true)?.key;
            if greatest.as_ref().is_none_or(|greatest| **greatest < *key) {
                greatest = Some(key.to_vec());
            }
        }
    }
    Ok(greatest)
}
