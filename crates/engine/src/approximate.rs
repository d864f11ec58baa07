//! About how large ranges of keys are, without reading them.
//!
//! # How, and how wrong
//! *Tables.* One that lies within a range counts as a whole. Of one that reaches over an end, the end is
//! looked up in the index: at most one index block is read, and the answer is off by one data block at
//! most, for each end and each run. Entries are reckoned by the share of bytes.
//!
//! *Memtables.* A *ruler* of a memtable has every 1,024th key of each family in it. It is made by
//! walking over the index, some tens of nanoseconds for each key, and made anew once the memtable has
//! grown by an eighth; so the answer for a memtable that does not grow is exact but for two steps of
//! the ruler, where keys are counted. Bytes are by the average record of the memtable. A range of few keys
//! is counted as it is.
//!
//! Everything counts that takes place: older versions in tables, deletes, and records that a flush has
//! written to tables and that a memtable on its way out still has. So a range is rather thought too
//! large than too small, until it is compacted.

use thermocline_base::bounds::{KeyBounds, is_empty};
use thermocline_base::{CfId, Result};
use thermocline_catalog::view::not_before;
use thermocline_memtable::Memtable;
use thermocline_tables::RangeSize;

use crate::store::Reads;
use rulers::{COUNTED, count_up_to};

/// What of a range does not lie below the first key of a memtable, if it has one; `None` if nothing does.
fn behind<'a>(first: Option<&'a [u8]>, (from, to): KeyBounds<'a>) -> Option<KeyBounds<'a>> {
    let range = (not_before(from, first?), to);
    (!is_empty(range)).then_some(range)
}

impl Reads {
    fn add_size(
        &self,
        memtable: &Memtable,
        cf: CfId,
        (from, to): KeyBounds<'_>,
        size: &mut RangeSize,
    ) -> Result<()> {
        let records = memtable.len();
        if records == 0 {
            return Ok(());
        }
        let (few, whole) = count_up_to(memtable, cf, from, to, COUNTED)?;
        let keys = match whole {
            true => few,
            false => {
                let ruler = self.rulers.get(memtable, cf)?;
                ruler.keys_in(memtable, cf, (from, to))?.max(few)
            }
        };
        // By what is there now: it may have grown since.
        let share = |bytes: u64| {
            let share = u128::from(bytes) * u128::from(keys) / u128::from(records);
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        size.pm_bytes += share(memtable.bytes());
        // Beside what tables say of themselves.
        size.blob_bytes = size.blob_bytes.saturating_add(share(memtable.blob_bytes()));
        size.entries = size.entries.saturating_add(keys);
        Ok(())
    }

    /// As [`Engine::approximate_sizes`](crate::Engine::approximate_sizes).
    pub fn approximate_sizes(&self, cf: CfId, ranges: &[KeyBounds<'_>]) -> Result<Vec<RangeSize>> {
        let view = self.common.catalog.view_to_keep();
        view.pins()?;
        self.common.check_family(cf)?;
        self.rulers.forget_all_but(&view.memtables);
        let mut sizes = Vec::with_capacity(ranges.len());
        for &range in ranges {
            let mut size = RangeSize::default();
            if !is_empty(range) {
                view.tables.add_size(cf, range, &mut size)?;
                for memtable in &view.memtables {
                    if let Some(range) = behind(view.first_of(memtable, cf), range) {
                        self.add_size(memtable, cf, range, &mut size)?;
                    }
                }
            }
            sizes.push(size);
        }
        Ok(sizes)
    }
}

pub(crate) mod rulers;
#[cfg(test)]
mod tests;
