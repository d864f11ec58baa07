//! Rulers: keys of a memtable at equal distances.

use std::collections::BTreeMap;
use std::ops::Bound;

use thermocline_base::bounds::{KeyBounds, is_behind, is_below};
use thermocline_base::{CfId, Result, SeqNo};
use thermocline_memtable::{Direction, Memtable, ScanEntry};
use thermocline_policy::tuning::{RULER_COUNTED_STEPS, RULER_GROWTH_PARTS, RULER_KEYS};

use crate::sync::{Arc, Mutex, lock};

/// Keys from one mark of a ruler to the next. Unit tests have few keys.
pub(super) const STEP: usize = if cfg!(test) { 64 } else { RULER_KEYS };

/// Keys up to which a range, or an end of one, is counted.
pub(super) const COUNTED: usize = RULER_COUNTED_STEPS * STEP;

/// Every so many keys of a memtable's family.
#[derive(Debug, Default)]
pub(super) struct Ruler {
    /// Records that the memtable had.
    pub(super) records: u64,
    pub(super) keys: u64,
    /// The last key of each full step.
    pub(super) marks: Vec<Box<[u8]>>,
}

/// What a ruler is of: the newest memtable that an index leads to, and to how many it leads.
pub(super) type Index = (u64, usize);

/// The rulers of a store, by index and family. A leaf in the order of locks.
#[derive(Debug, Default)]
pub(crate) struct Rulers(pub(super) Mutex<BTreeMap<(Index, CfId), Arc<Ruler>>>);

pub(super) fn index_of(memtable: &Memtable) -> Index {
    (memtable.id(), memtable.homes().len())
}

impl Ruler {
    pub(super) fn new(memtable: &Memtable, cf: CfId) -> Result<Ruler> {
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
    pub(super) fn keys_in(
        &self,
        memtable: &Memtable,
        cf: CfId,
        (from, to): KeyBounds<'_>,
    ) -> Result<u64> {
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
        let (before, _) = count_up_to(memtable, cf, from, Bound::Included(begin), COUNTED)?;
        let mark = Bound::Excluded(&*self.marks[last]);
        let (behind, _) = count_up_to(memtable, cf, mark, to, COUNTED)?;
        Ok(before + steps + behind)
    }
}

impl Rulers {
    /// The ruler of a memtable's family, unless it has grown too much since that was made.
    pub(super) fn get(&self, memtable: &Memtable, cf: CfId) -> Result<Arc<Ruler>> {
        let key = (index_of(memtable), cf);
        let known = lock(&self.0).get(&key).cloned();
        let fits = |ruler: &Arc<Ruler>| {
            memtable.len() <= ruler.records + ruler.records / RULER_GROWTH_PARTS
        };
        if let Some(ruler) = known.filter(fits) {
            return Ok(ruler);
        }
        let ruler = Arc::new(Ruler::new(memtable, cf)?);
        lock(&self.0).insert(key, ruler.clone());
        Ok(ruler)
    }

    pub(super) fn forget_all_but(&self, memtables: &[Arc<Memtable>]) {
        let there = |index| memtables.iter().any(|m| index_of(m) == index);
        lock(&self.0).retain(|(index, _), _| there(*index));
    }
}

/// How many keys lie in a range, up to `most`; and whether those are all.
pub(super) fn count_up_to(
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
