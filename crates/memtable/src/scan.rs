//! Reading in key order, some records at a time.
//!
//! An iterator outlives any single call, but an epoch guard must not: so a scan hands out chunks
//! and goes on behind the last key. Records do not move, hence what a chunk names can be read for
//! as long as the memtable lives.

use std::ops::{Bound, ControlFlow};

pub use thermocline_art::Direction;
use thermocline_art::Leaf;
use thermocline_base::{CfId, Result, SeqNo};
use thermocline_pm::PmOff;

use crate::table::Memtable;
use crate::walk::{ItemRef, each_record};

/// A record that a scan met, tombstones included.
#[derive(Debug, Clone, Copy)]
pub struct ScanEntry {
    /// Where the record lies. It may be newer than the reader, if its key has no other version:
    /// then the reader sees no such key here.
    pub at: PmOff,
}

impl Memtable {
    /// Appends up to `limit` records of family `cf` to `out`, of each key the newest that a reader
    /// at `seqno` may see (but see [`ScanEntry::at`]), in the order of `direction` from the bound
    /// on. Returns whether there may be more.
    ///
    /// Records are prefetched, not read: whoever uses them compares their seqno and verifies their
    /// checksum, when they have arrived.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] with region and offset.
    pub fn scan(
        &self,
        cf: CfId,
        from: Bound<&[u8]>,
        direction: Direction,
        seqno: SeqNo,
        limit: usize,
        out: &mut Vec<ScanEntry>,
    ) -> Result<bool> {
        let Some(tree) = self.tree(cf) else {
            return Ok(false);
        };
        let guard = tree.pin();
        let full = out.len() + limit;
        tree.scan(&guard, from, direction, self.records(), |entry| {
            if let Some(leaf) = entry.at(seqno) {
                out.push(ScanEntry {
                    at: PmOff(leaf.offset()),
                });
            }
            Ok(if out.len() < full {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
        Ok(out.len() == full)
    }
}

impl Memtable {
    /// The families of which it has records, ascending.
    pub fn families(&self) -> impl Iterator<Item = CfId> {
        self.indexes_from(CfId(0)).map(|(cf, _)| cf)
    }

    /// Appends the records of up to `limit` keys of family `cf` to `out`, in ascending order of keys from
    /// the bound on, of each key all versions that its index keeps, newest first. Returns whether there
    /// may be more. For whoever moves a sealed generation elsewhere; prefetched as by
    /// [`Memtable::scan`].
    ///
    /// # Errors
    /// As [`Memtable::scan`].
    pub fn scan_versions(
        &self,
        cf: CfId,
        from: Bound<&[u8]>,
        limit: usize,
        out: &mut Vec<ScanEntry>,
    ) -> Result<bool> {
        let Some(tree) = self.tree(cf) else {
            return Ok(false);
        };
        let guard = tree.pin();
        let mut left = limit;
        tree.scan(&guard, from, Direction::Forward, self.records(), |entry| {
            let mut push = |leaf: Leaf| {
                out.push(ScanEntry {
                    at: PmOff(leaf.offset()),
                });
            };
            match entry.list() {
                None => push(entry.leaf()),
                Some(list) => list.iter().for_each(|version| push(version.leaf)),
            }
            left = left.saturating_sub(1);
            Ok(match left {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        })?;
        Ok(left == 0)
    }

    /// The offsets of the records of a valid item.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] if the item does not lie in the region.
    pub fn record_offsets(&self, item: &ItemRef) -> Result<Vec<PmOff>> {
        let mut offsets = Vec::new();
        each_record(self.region(), item, |at, _, _| {
            offsets.push(at);
            Ok(())
        })?;
        Ok(offsets)
    }
}

#[cfg(test)]
mod tests;
