//! Reads and writes of one family. [`crate::Db`] makes them in the default family, a family in itself.

use std::ops::{Bound, RangeBounds};
use std::path::Path;

use thermocline_base::batch::{check_key, check_value};
use thermocline_base::merge::check_operand;
use thermocline_base::{BatchEntry, Kind, Result};
use thermocline_engine::{Engine, Exported, Family, KeyBounds, Operation, Snapshot};

use crate::range::{Bounds, byte_range, check_order};
use crate::scan::{Scan, owned, prefix_bounds};
use crate::{PendingRead, RangeSize, Value, WriteOptions};

/// A family in an open store. Its methods check their arguments.
pub(crate) struct Keys<'a> {
    pub engine: &'a Engine,
    pub family: Family,
}

impl Keys<'_> {
    pub fn put(&self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        let entry = BatchEntry {
            kind: Kind::Put,
            cf: self.family.id,
            key,
            value,
        };
        let times = self.engine.latencies();
        times.time(Operation::Put, || {
            self.engine.write(std::iter::once(entry), options)
        })
    }

    pub fn merge(&self, key: &[u8], operand: &[u8], options: WriteOptions) -> Result<()> {
        check_key(key)?;
        check_operand(&*self.engine.merge_operator(self.family.id)?, operand)?;
        let entry = BatchEntry {
            kind: Kind::Merge,
            cf: self.family.id,
            key,
            value: operand,
        };
        let times = self.engine.latencies();
        times.time(Operation::Put, || {
            self.engine.write(std::iter::once(entry), options)
        })
    }

    pub fn delete(&self, key: &[u8], options: WriteOptions) -> Result<()> {
        check_key(key)?;
        let entry = BatchEntry {
            kind: Kind::Delete,
            cf: self.family.id,
            key,
            value: &[],
        };
        let times = self.engine.latencies();
        times.time(Operation::Delete, || {
            self.engine.write(std::iter::once(entry), options)
        })
    }

    pub fn delete_range(&self, bounds: &Bounds, options: WriteOptions) -> Result<()> {
        let range = byte_range(bounds, self.family.reverse)?;
        self.delete_keys(range, options)
    }

    /// Deletes the keys from the first up to the second, in the order of their bytes, if there are such.
    fn delete_keys(
        &self,
        range: Option<(Vec<u8>, Option<Vec<u8>>)>,
        options: WriteOptions,
    ) -> Result<()> {
        let entry = range.as_ref().map(|(start, end)| BatchEntry {
            kind: Kind::RangeDelete,
            cf: self.family.id,
            key: start,
            value: end.as_deref().unwrap_or_default(),
        });
        if entry.is_none() {
            // A write of nothing does not look at the family.
            self.engine.check_accepts(self.family.id)?;
        }
        let times = self.engine.latencies();
        // Without keys, this is a write of nothing. It may still have to make earlier writes durable.
        times.time(Operation::Delete, || {
            self.engine.write(entry.into_iter(), options)
        })
    }

    pub fn drop_partition(&self, start: &[u8]) -> Result<()> {
        check_key(start)?;
        let (start, end) = self.engine.partition_at(self.family.id, start)?;
        self.delete_keys(Some((start, end)), WriteOptions::default())
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        check_key(key)?;
        let times = self.engine.latencies();
        times.time(Operation::Get, || self.engine.value(self.family.id, key))
    }

    pub fn get_async(&self, key: &[u8]) -> PendingRead<Option<Value>> {
        match check_key(key) {
            Ok(()) => self.engine.value_async(self.family.id, key),
            Err(error) => PendingRead::done(Err(error)),
        }
    }

    pub fn sizes<K: AsRef<[u8]>, R: RangeBounds<K>>(
        &self,
        ranges: impl IntoIterator<Item = R>,
    ) -> Result<Vec<RangeSize>> {
        let ranges: Vec<_> = ranges.into_iter().map(|range| owned(&range)).collect();
        for (first, last) in &ranges {
            check_order(first, last, self.family.reverse)?;
        }
        fn bytes(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
            bound.as_ref().map(Vec::as_slice)
        }
        let ranges: Vec<KeyBounds<'_>> = ranges
            .iter()
            .map(|(first, last)| match self.family.reverse {
                // The greater key comes first in the order of the family.
                true => (bytes(last), bytes(first)),
                false => (bytes(first), bytes(last)),
            })
            .collect();
        self.engine.approximate_sizes(self.family.id, &ranges)
    }

    pub fn compact<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let (start, end) = owned(&range);
        for key in [&start, &end] {
            if let Bound::Included(key) | Bound::Excluded(key) = key {
                check_key(key)?;
            }
        }
        check_order(&start, &end, self.family.reverse)?;
        // Tables ascend, whatever the family's order.
        let (start, end) = match self.family.reverse {
            true => (end, start),
            false => (start, end),
        };
        let range = (
            start.as_ref().map(Vec::as_slice),
            end.as_ref().map(Vec::as_slice),
        );
        self.engine.compact(self.family.id, range)
    }

    pub fn iter(&self) -> Scan {
        let all = (Bound::Unbounded, Bound::Unbounded);
        Scan::new(self.engine.cursor(self.family), all)
    }

    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        Scan::new(self.engine.cursor(self.family), owned(&range))
    }

    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        let bounds = prefix_bounds(prefix.as_ref(), self.family.reverse);
        Scan::new(self.engine.cursor(self.family), bounds)
    }

    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        values_at(&self.engine.snapshot(), self.family, keys)
    }

    pub fn multi_get_async<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> PendingRead<Vec<Option<Value>>> {
        values_async_at(&self.engine.snapshot(), self.family, keys)
    }

    pub fn export(&self, range: impl RangeBounds<Vec<u8>>, file: &Path) -> Result<Exported> {
        let (begin, end) = (range.start_bound().cloned(), range.end_bound().cloned());
        check_order(&begin, &end, self.family.reverse)?;
        let bounds = (range.start_bound(), range.end_bound());
        let bounds = (bounds.0.map(Vec::as_slice), bounds.1.map(Vec::as_slice));
        self.engine.export(self.family, bounds, file)
    }
}

/// The values that keys of a family had at a moment, in their order.
pub(crate) fn values_at<K: AsRef<[u8]>>(
    moment: &Snapshot,
    family: Family,
    keys: impl IntoIterator<Item = K>,
) -> Result<Vec<Option<Value>>> {
    let keys: Vec<K> = keys.into_iter().collect();
    let named = keys.iter().map(|key| Ok((family, key.as_ref())));
    values_of(moment, named)
}

/// The values that keys of families had at a moment, in their order, unless one of the keys is refused.
pub(crate) fn values_of<'k>(
    moment: &Snapshot,
    keys: impl Iterator<Item = Result<(Family, &'k [u8])>>,
) -> Result<Vec<Option<Value>>> {
    let checked = |key: Result<(Family, &'k [u8])>| {
        let (family, key) = key?;
        check_key(key)?;
        Ok((family.id, key))
    };
    let times = moment.latencies();
    times.time(Operation::MultiGet, || {
        let mut named = Vec::with_capacity(keys.size_hint().0);
        for key in keys {
            named.push(checked(key)?);
        }
        moment.values(&named).into_iter().collect()
    })
}

/// As [`values_at`], as a future.
pub(crate) fn values_async_at<K: AsRef<[u8]>>(
    moment: &Snapshot,
    family: Family,
    keys: impl IntoIterator<Item = K>,
) -> PendingRead<Vec<Option<Value>>> {
    let keys = keys.into_iter();
    values_async_of(moment, keys.map(|key| Ok((family, key))))
}

/// As [`values_of`], as a future.
pub(crate) fn values_async_of<K: AsRef<[u8]>>(
    moment: &Snapshot,
    keys: impl Iterator<Item = Result<(Family, K)>>,
) -> PendingRead<Vec<Option<Value>>> {
    let checked = |key: Result<(Family, K)>| {
        let (family, key) = key?;
        check_key(key.as_ref())?;
        Ok((family.id, key.as_ref().to_vec()))
    };
    match keys.map(checked).collect() {
        Ok(keys) => moment.values_async(keys),
        Err(error) => PendingRead::done(Err(error)),
    }
}
