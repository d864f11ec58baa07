//! How much of a table lies before a key, as its index says.
//!
//! A file never changes, so what was looked up once is remembered as long as a version names it: sizes are asked for
//! after each flush and compaction, and most tables are then the same. A table that is not open is opened only for
//! as many as the asker wants to wait for; of the others it is known later, or never, and is estimated.
//!
//! Which keys are asked for changes with the partitions, and a file may stay for years. So of each file as many keys are
//! remembered as its largest question had, and some more; then all are forgotten, and looked up when they are asked for again.

use std::collections::BTreeMap;

use thermocline_base::{CfId, FileId};
use thermocline_policy::tuning::MEASURED_KEYS;
use thermocline_tables::Tables;
use thermocline_version::{TableRef, Version};

/// What was looked up, by file, and by family, since a table in persistent memory may have several.
#[derive(Debug, Default)]
pub(crate) struct Measures(BTreeMap<(CfId, FileId), Known>);

/// Of one file.
#[derive(Debug, Default)]
struct Known {
    /// Bytes of its data.
    end: u64,
    /// Bytes before keys.
    before: BTreeMap<Vec<u8>, u64>,
    /// Keys of the largest question.
    largest: usize,
}

impl Measures {
    /// Forgets files that this version does not name.
    pub fn keep(&mut self, version: &Version) {
        let named = |file| version.file(file).is_some() || version.pm_table(file).is_some();
        self.0.retain(|(_, file), _| named(*file));
    }

    /// To look up in these tables, of which `opens` more may be opened for it.
    pub fn by<'a>(&'a mut self, tables: &'a Tables, opens: usize) -> Measuring<'a> {
        Measuring {
            known: self,
            tables: Some(tables),
            opens,
        }
    }

    /// Keys that are remembered.
    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        self.0.values().map(|known| known.before.len()).sum()
    }

    /// Without looking into tables.
    #[cfg(test)]
    pub fn blind(&mut self) -> Measuring<'_> {
        Measuring {
            known: self,
            tables: None,
            opens: 0,
        }
    }
}

/// Who looks up.
#[derive(Debug)]
pub(crate) struct Measuring<'a> {
    known: &'a mut Measures,
    tables: Option<&'a Tables>,
    opens: usize,
}

impl Measuring<'_> {
    /// Of the data of a reference the bytes below each of `keys`, which ascend, and all of it; `None` if that
    /// is not known. The larger key has no fewer below it.
    pub fn below(&mut self, cf: CfId, table: &TableRef, keys: &[&[u8]]) -> Option<(Vec<u64>, u64)> {
        let (lower, upper) = table.limits();
        let mut all: Vec<&[u8]> = lower.into_iter().chain(keys.iter().copied()).collect();
        all.extend(upper);
        let (offsets, end) = self.offsets(cf, table, &all)?;
        let begin = lower.map_or(0, |_| offsets[0]);
        let end = upper.map_or(end, |_| offsets[offsets.len() - 1]).max(begin);
        let of_keys = &offsets[usize::from(lower.is_some())..][..keys.len()];
        let mut low = begin;
        let below = of_keys.iter().map(|offset| {
            low = (*offset).clamp(low, end);
            low - begin
        });
        Some((below.collect(), end - begin))
    }

    /// Bytes of a reference that lie from `from` on and before `to`, about. What is not known counts for a half
    /// where a key is within the range.
    pub fn bytes_within(
        &mut self,
        cf: CfId,
        table: &TableRef,
        (from, to): (&[u8], Option<&[u8]>),
    ) -> u64 {
        let range = &table.range;
        let begins_behind = to.is_some_and(|to| *range.first >= *to);
        if begins_behind || range.ends_before(from) {
            return 0;
        }
        let within = |key: &&[u8]| *range.first < **key && !range.ends_before(key);
        let low = Some(from).filter(within);
        let high = to.filter(within);
        let keys: Vec<&[u8]> = low.into_iter().chain(high).collect();
        if keys.is_empty() {
            return table.bytes;
        }
        let (below, of) = match self.below(cf, table, &keys) {
            Some((below, of)) if of > 0 => (below, of),
            _ => ((1..).take(keys.len()).collect(), keys.len() as u64 + 1),
        };
        let first = low.map_or(0, |_| below[0]);
        let end = high.map_or(of, |_| below[below.len() - 1]);
        share(table.bytes, end - first, of)
    }

    fn offsets(&mut self, cf: CfId, table: &TableRef, keys: &[&[u8]]) -> Option<(Vec<u64>, u64)> {
        if let Some(known) = self.known.0.get(&(cf, table.file)) {
            let offset = |key: &&[u8]| known.before.get(*key).copied();
            if let Some(all) = keys.iter().map(offset).collect() {
                return Some((all, known.end));
            }
        }
        let (all, end) = self.tables?.offsets((cf, table), keys, &mut self.opens)?;
        let known = self.known.0.entry((cf, table.file)).or_default();
        known.end = end;
        known.largest = known.largest.max(keys.len());
        if known.before.len() + keys.len() > known.largest + MEASURED_KEYS {
            known.before.clear();
        }
        let found = keys.iter().map(|key| key.to_vec()).zip(all.iter().copied());
        known.before.extend(found);
        Some((all, end))
    }
}

/// As much of `n` as `part` is of `of`.
pub(crate) fn share(n: u64, part: u64, of: u64) -> u64 {
    let share = u128::from(n) * u128::from(part.min(of)) / u128::from(of.max(1));
    u64::try_from(share).expect("a part of a number")
}
