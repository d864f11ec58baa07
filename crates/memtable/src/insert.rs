//! Filling indexes from the write path.

use thermocline_art::{Leaf, Moments, NewEntry};
use thermocline_base::{CfId, Result, SeqNo};
use thermocline_pm::PmOff;

use crate::table::Memtable;

impl Memtable {
    /// Puts a stored record into the index of its family. Where the key is there already, `moments`
    /// is asked, under the lock of the key's place, for those at which somebody may still read:
    /// `visible` among them, and all that `visible` may become before a later insert.
    ///
    /// # Errors
    /// Corruption of another record whose key had to be read.
    pub fn insert<M: Moments>(
        &self,
        cf: CfId,
        key: &[u8],
        at: PmOff,
        seqno: SeqNo,
        moments: impl FnOnce() -> M,
    ) -> Result<()> {
        let tree = self.tree_or_new(cf);
        let guard = tree.pin();
        let leaf = Leaf::of(key, at.0);
        tree.update(&guard, key, self.records(), |present| {
            let Some(entry) = present else {
                return Ok(Some(NewEntry::from(leaf)));
            };
            let moments = moments();
            // Verified: its seqno decides which versions stay. A record that has rotted is no reason to
            // refuse its successor, which is stored already: it counts as old as can be, so that
            // whoever may need it finds it, and the error.
            let present = || {
                let record = self.records().read(PmOff(entry.leaf().offset()), true);
                Ok(record.map_or(self.base(), |record| record.seqno))
            };
            entry.with_version(seqno, leaf, present, &moments).map(Some)
        })?;
        Ok(())
    }
}
