//! Reading in key order, some records at a time.
//!
//! An iterator outlives any single call, but an epoch guard must not: so a scan hands out chunks
//! and goes on behind the last key. Records do not move, hence what a chunk names can be read for
//! as long as the memtable lives.

use std::ops::{Bound, ControlFlow};

pub use thermocline_art::Direction;
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
    /// The offsets of the records of a valid item.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] if the item does not lie in the region.
    pub fn record_offsets(&self, item: &ItemRef) -> Result<Vec<PmOff>> {
        let mut offsets = Vec::new();
        each_record(&self.records().region, item, |at, _, _| {
            offsets.push(at);
            Ok(())
        })?;
        Ok(offsets)
    }
}
