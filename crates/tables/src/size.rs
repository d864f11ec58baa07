//! How much of the tables lies in a range of keys.

use std::ops::Bound;

use thermocline_base::bounds::{KeyBounds, is_behind, is_below};
use thermocline_base::{CfId, Result};
use thermocline_level0::PmPart;
use thermocline_sst::{TablePart, offset_of};
use thermocline_version::{BlobBytes, TableRef};

use super::{Run, Tables};

/// About what a range of keys takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RangeSize {
    /// Bytes in persistent memory.
    pub pm_bytes: u64,
    /// Bytes of tables.
    pub table_bytes: u64,
    /// Bytes of long values, which lie in blob files.
    pub blob_bytes: u64,
    /// Entries: of each key in persistent memory the newest, in tables all versions; deletes count.
    pub entries: u64,
}

impl RangeSize {
    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        let tables = self.table_bytes.saturating_add(self.blob_bytes);
        self.pm_bytes.saturating_add(tables)
    }

    /// More in tables. What they say of themselves may be anything, under checksums that are right.
    fn add(&mut self, table_bytes: u64, blob_bytes: u64, entries: u64) {
        self.table_bytes = self.table_bytes.saturating_add(table_bytes);
        self.blob_bytes = self.blob_bytes.saturating_add(blob_bytes);
        self.entries = self.entries.saturating_add(entries);
    }
}

impl Tables {
    /// Adds what of the tables of `cf` lies in `range`, which is not empty.
    pub fn add_size(&self, cf: CfId, range: KeyBounds<'_>, size: &mut RangeSize) -> Result<()> {
        for run in self.runs(cf) {
            self.add_size_of_run((cf, run), range, size)?;
        }
        Ok(())
    }

    fn add_size_of_run(
        &self,
        (cf, run): (CfId, &Run),
        (from, to): KeyBounds<'_>,
        size: &mut RangeSize,
    ) -> Result<()> {
        let first = run.position(|table| table.range.ends_below(from));
        let behind = |table: &TableRef| is_behind(&table.range.first, to);
        for table in run.iter_from(first).take_while(|table| !behind(table)) {
            let blob_bytes = table.blob_bytes();
            let begins_before = is_below(&table.range.first, from);
            if begins_before || is_behind(&table.range.last, to) {
                let (part, of) = self.share(cf, table, (from, to))?;
                let share = |n: u64| u128::from(n) * u128::from(part) / u128::from(of.max(1));
                let share = |n: u64| u64::try_from(share(n)).unwrap_or(u64::MAX);
                size.add(share(table.bytes), share(blob_bytes), share(table.entries));
            } else {
                size.add(table.bytes, blob_bytes, table.entries);
            }
        }
        Ok(())
    }

    /// Where in the data of a table each of these keys would stand, in bytes, and where that data ends; the
    /// limits of the reference do not count. `None` if that cannot be read, or if the table is not open, and no more
    /// may be opened for it.
    pub fn offsets(
        &self,
        (cf, table): (CfId, &TableRef),
        keys: &[&[u8]],
        opens: &mut usize,
    ) -> Option<(Vec<u64>, u64)> {
        if let Some(found) = self.held.pm(table.file) {
            let whole = PmPart::limited(found.clone(), cf, None, None);
            let before = |to| share_in_pm(&whole, (Bound::Unbounded, to));
            let offsets = keys.iter().map(|key| before(Bound::Excluded(*key)).0);
            return Some((offsets.collect(), before(Bound::Unbounded).0));
        }
        let handle = self.held.handle(table.file)?;
        let open = match handle.opened() {
            Some(open) => open,
            None => {
                *opens = opens.checked_sub(1)?;
                handle.open(&self.files).ok()?
            }
        };
        let part = TablePart::limited(open.table.clone(), None, None);
        let at = |key: &&[u8]| offset_of(&part, key, &open.source);
        let offsets: Result<Vec<u64>> = keys.iter().map(at).collect();
        Some((offsets.ok()?, open.table.data_end()))
    }

    /// What a table says of its entries, its deletes, and what it refers to in blob files; range tombstones are among
    /// both. `None` if that cannot be read.
    pub fn contents(&self, table: &TableRef) -> Option<(u64, u64, Vec<BlobBytes>)> {
        let open = self.held.handle(table.file)?.open(&self.files).ok()?;
        let says = open.table.properties();
        let blobs = says.blobs.iter().map(|blob| BlobBytes {
            file: blob.file,
            bytes: blob.bytes,
        });
        let ranges = says.range_tombstones;
        let [entries, deletes] = [says.entries, says.deletes].map(|n| n.saturating_add(ranges));
        Some((entries, deletes, blobs.collect()))
    }

    /// Bytes of the reference's data in the range, and in all.
    fn share(&self, cf: CfId, table: &TableRef, (from, to): KeyBounds<'_>) -> Result<(u64, u64)> {
        if let Some(part) = self.pm_part(cf, table) {
            return Ok(share_in_pm(&part, (from, to)));
        }
        let (part, open) = self.open(table)?;
        let at = |key: &[u8]| offset_of(&part, key, &open.source);
        let begin = part.limits().lower().map_or(Ok(0), at)?;
        let end = part
            .limits()
            .upper()
            .map_or(Ok(open.table.data_end()), at)?;
        let low = match from {
            Bound::Included(key) | Bound::Excluded(key) => at(key)?,
            Bound::Unbounded => begin,
        };
        let high = match to {
            Bound::Included(key) | Bound::Excluded(key) => at(key)?,
            Bound::Unbounded => end,
        };
        let (low, high) = (low.max(begin), high.min(end));
        Ok((high.saturating_sub(low), end.saturating_sub(begin)))
    }
}

/// As [`Tables::share`], of a table in persistent memory.
fn share_in_pm(part: &PmPart, (from, to): KeyBounds<'_>) -> (u64, u64) {
    let (table, cf) = (part.table(), part.cf());
    let at = |key: &[u8]| table.approximate_bytes_before(cf, key);
    let begin = at(part.limits().lower().unwrap_or_default());
    let end = match (part.limits().upper(), cf.0.checked_add(1)) {
        (Some(upper), _) => at(upper),
        (None, Some(next)) => table.approximate_bytes_before(CfId(next), b""),
        (None, None) => table.meta().bytes,
    };
    let key = |bound| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(at(key)),
        Bound::Unbounded => None,
    };
    let low = key(from).unwrap_or(begin).max(begin);
    let high = key(to).unwrap_or(end).min(end);
    (high.saturating_sub(low), end.saturating_sub(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_no_more_than_fit_the_number() {
        let mut size = RangeSize {
            pm_bytes: 1,
            ..RangeSize::default()
        };
        (0..2).for_each(|_| size.add(u64::MAX, u64::MAX - 1, u64::MAX / 2 + 1));
        let sums = [size.table_bytes, size.blob_bytes, size.entries];
        assert_eq!((sums, size.bytes()), ([u64::MAX; 3], u64::MAX));
    }
}
