//! About how large ranges of keys are, without reading them.
//!
//! # How, and how wrong
//! *Tables.* One that lies within a range counts as a whole. Of one that reaches over an end, the end is
//! looked up in the index: at most one index block is read, and the answer is off by one data block at
//! most, for each end and each run. Entries are reckoned by the share of bytes.
//!
//! *Generations.* A *ruler* of a generation has every 1,024th key of each family in it. It is made by
//! walking over the index, some tens of nanoseconds for each key, and made anew once the generation has
//! grown by an eighth; so the answer for a generation that does not grow is exact but for two steps of
//! the ruler, where keys are counted. Bytes are by the average record of the generation. A range of few keys
//! is counted as it is.
//!
//! Everything counts that takes place: older versions in tables, deletes, and records that a flush has
//! written to tables and that a generation on its way out still has. So a range is rather thought too
//! large than too small, until it is compacted.

use std::collections::BTreeMap;
use std::ops::Bound;

use thermocline_base::{CfId, Result, SeqNo};
use thermocline_memtable::{Direction, Memtable, ScanEntry};

use thermocline_base::bounds::{KeyBounds, is_behind, is_below, is_empty};
use thermocline_tables::RangeSize;

use crate::store::{Engine, Inner};
use crate::sync::{Arc, Mutex, lock};
use crate::view::not_before;

/// Keys from one mark of a ruler to the next.
const STEP: usize = if cfg!(test) { 64 } else { 1024 };

/// Every so many keys of a generation's family.
#[derive(Debug, Default)]
struct Ruler {
    /// Records that the generation had.
    records: u64,
    keys: u64,
    /// The last key of each full step.
    marks: Vec<Box<[u8]>>,
}

/// What a ruler is of: the newest generation of an index, and how many generations that has.
type Index = (u64, usize);

/// The rulers of a store, by index and family. A leaf in the order of locks.
#[derive(Debug, Default)]
pub(crate) struct Rulers(Mutex<BTreeMap<(Index, CfId), Arc<Ruler>>>);

fn index_of(memtable: &Memtable) -> Index {
    (memtable.generation(), memtable.homes().len())
}

impl Engine {
    /// About how large each of these ranges of a family is now. Bounds are by bytes, also where the
    /// family's order is the reverse; a range that ends before it begins is empty.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] for a family that was dropped;
    /// [`thermocline_base::Error::Corruption`] of an index; those of reading it.
    pub fn approximate_sizes(&self, cf: CfId, ranges: &[KeyBounds<'_>]) -> Result<Vec<RangeSize>> {
        let inner = &*self.inner;
        let view = inner.view.load_full();
        view.pins()?;
        inner.families.check(cf, inner.families.moment())?;
        inner.rulers.forget_all_but(&view.memtables);
        let mut sizes = Vec::with_capacity(ranges.len());
        for &range in ranges {
            let mut size = RangeSize::default();
            if !is_empty(range) {
                view.tables.add_size(cf, range, &mut size)?;
                for memtable in &view.memtables {
                    if let Some(range) = behind(view.first_of(memtable, cf), range) {
                        inner.add_size(memtable, cf, range, &mut size)?;
                    }
                }
            }
            sizes.push(size);
        }
        Ok(sizes)
    }
}

/// What of a range does not lie below the first key of a generation, if it has one; `None` if nothing does.
fn behind<'a>(first: Option<&'a [u8]>, (from, to): KeyBounds<'a>) -> Option<KeyBounds<'a>> {
    let range = (not_before(from, first?), to);
    (!is_empty(range)).then_some(range)
}

impl Inner {
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
        let (few, whole) = count_up_to(memtable, cf, from, to, 2 * STEP)?;
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
        size.blob_bytes += share(memtable.blob_bytes());
        size.entries += keys;
        Ok(())
    }
}

/// How many keys lie in a range, up to `most`; and whether those are all.
fn count_up_to(
    memtable: &Memtable,
    cf: CfId,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    most: usize,
) -> Result<(u64, bool)> {
    let mut chunk: Vec<ScanEntry> = Vec::new();
    let more = memtable.scan(cf, from, Direction::Forward, SeqNo::MAX, most, &mut chunk)?;
    let mut wrong = None;
    // Keys ascend, so the ones behind the range are the last ones.
    let within = chunk.partition_point(|entry| match memtable.record(entry.at, false) {
        Ok(record) => !is_behind(record.key, to),
        Err(error) => {
            wrong = Some(error);
            false
        }
    });
    match wrong {
        Some(error) => Err(error),
        None => Ok((within as u64, !more || within < chunk.len())),
    }
}

impl Ruler {
    fn new(memtable: &Memtable, cf: CfId) -> Result<Ruler> {
        let mut ruler = Ruler {
            records: memtable.len(),
            ..Ruler::default()
        };
        let mut chunk = Vec::new();
        loop {
            chunk.clear();
            let from = match ruler.marks.last() {
                Some(key) => Bound::Excluded(&**key),
                None => Bound::Unbounded,
            };
            let forwards = Direction::Forward;
            let more = memtable.scan(cf, from, forwards, SeqNo::MAX, STEP, &mut chunk)?;
            ruler.keys += chunk.len() as u64;
            match chunk.last().filter(|_| more) {
                Some(last) => {
                    let record = memtable.record(last.at, false)?;
                    ruler.marks.push(record.key.into());
                }
                None => return Ok(ruler),
            }
        }
    }

    /// How many keys lie in a range that is not short.
    fn keys_in(&self, memtable: &Memtable, cf: CfId, (from, to): KeyBounds<'_>) -> Result<u64> {
        let first = self.marks.partition_point(|mark| is_below(mark, from));
        let end = self.marks.partition_point(|mark| !is_behind(mark, to));
        let (Some(begin), Some(last)) = (self.marks.get(first), end.checked_sub(1)) else {
            return Ok(0);
        };
        if first > last {
            return Ok(0);
        }
        let steps = ((last - first) * STEP) as u64;
        // Up to the first mark within, and behind the last one.
        let (before, _) = count_up_to(memtable, cf, from, Bound::Included(begin), 2 * STEP)?;
        let mark = Bound::Excluded(&*self.marks[last]);
        let (behind, _) = count_up_to(memtable, cf, mark, to, 2 * STEP)?;
        Ok(before + steps + behind)
    }
}

impl Rulers {
    /// The ruler of a generation's family, unless it has grown too much since that was made.
    fn get(&self, memtable: &Memtable, cf: CfId) -> Result<Arc<Ruler>> {
        let key = (index_of(memtable), cf);
        let known = lock(&self.0).get(&key).cloned();
        let fits = |ruler: &Arc<Ruler>| memtable.len() <= ruler.records + ruler.records / 8;
        if let Some(ruler) = known.filter(fits) {
            return Ok(ruler);
        }
        let ruler = Arc::new(Ruler::new(memtable, cf)?);
        lock(&self.0).insert(key, ruler.clone());
        Ok(ruler)
    }

    fn forget_all_but(&self, memtables: &[Arc<Memtable>]) {
        let there = |index| memtables.iter().any(|m| index_of(m) == index);
        lock(&self.0).retain(|(index, _), _| there(*index));
    }
}

#[cfg(test)]
mod tests;
