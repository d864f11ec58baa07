//! Writing what a flush has taken into tables.

use thermocline_base::{CfId, Error, RangeTombstone, Result, SeqNo};
use thermocline_compaction::retain::Moments;
use thermocline_jobs::sink::{Apart, FileSink, PmSink, Scale, TableSink};
use thermocline_jobs::source::{Input, LastDeletes, tombstones};
use thermocline_jobs::{Counting, Outputs, Recipe, below};
use thermocline_memtable::{Cover, Memtable, Versions};
use thermocline_policy::room::within_limit;
use thermocline_policy::training::index_of_flush;
use thermocline_policy::tuning::JOB_KEYS;
use thermocline_sst::{Creation, WriteOptions};
use thermocline_tables::{Promise, ValuesInOrder, Writes};
use thermocline_version::{Level, Place, Version};

use super::along::{self, Along};
use super::evacuate::{Span, Taken};
use crate::busy::busy;
use crate::compact::shape::Levels;
use crate::store::FlushWriter;
use crate::sync::Arc;

/// Where a flush writes.
pub(super) enum To<'s> {
    Files,
    Pm(&'s mut dyn TableSink),
    /// What would be written is weighed.
    Nowhere(&'s mut Scale),
}

impl FlushWriter {
    /// Writes ranges that follow each other into files, with what they take along together. Where that cannot be, for want of room or because of what is there,
    /// nothing is taken along: it is written as what stays is.
    pub(super) fn write_away(
        &self,
        taken: &Taken,
        group: &[Span],
        along: &mut Vec<Along<'_>>,
        promise: &mut Option<Promise>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let failures = &self.common.compactions.failures;
        // Of what takes nothing along nothing follows for what does, and of what goes into files of level 0 nothing for the
        // base level.
        let takes_along = !along.is_empty();
        let sinks = along.iter().any(|along| along.to != Level::ZERO);
        match self.write_at_once(taken, group, along, outputs) {
            Ok(()) => {
                if takes_along {
                    failures.went_along(sinks);
                }
                return Ok(());
            }
            Err(error @ (Error::Closed | Error::Busy(_))) => return Err(error),
            Err(error) => {
                if self.common.check_writable().is_err() {
                    return Err(error);
                }
                if takes_along {
                    failures.along_failed(sinks, &error);
                }
            }
        }
        // What was written is gone, and nothing was named.
        self.making.release(outputs);
        *outputs = Outputs::default();
        self.sweeper.unlink_obsolete();
        along.clear();
        // What was to go into files does.
        if promise.is_none() && self.common.options.level0.shape().keeps_tables_in_pm() {
            *promise = self.promise_for_flush(taken)?;
        }
        let room = promise.as_ref().map(Promise::bytes);
        self.write_level0(taken, &Span::over(group), room, outputs)
    }

    /// Writes into persistent memory, if `room` bytes there are enough, which are promised; else into files.
    pub(super) fn write_level0(
        &self,
        taken: &Taken,
        span: &Span,
        room: Option<u64>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        if let Some(room) = room
            && self.write_pm(taken, span, room, outputs)?
        {
            return Ok(());
        }
        self.write_tables(&taken.memtables, span, &[], To::Files, outputs)
    }

    /// Writes into `room` bytes of persistent memory, which are promised; whether that was enough, and it fits PM tables.
    /// Else what was written is gone, and nothing was named.
    pub(super) fn write_pm(
        &self,
        taken: &Taken,
        span: &Span,
        room: u64,
        outputs: &mut Outputs,
    ) -> Result<bool> {
        let next_owner = || self.sweeper.pm_owner();
        let mut sink = PmSink::new(self.making.pm_home(&next_owner), room);
        let to = To::Pm(&mut sink);
        let written = self.write_tables(&taken.memtables, span, &[], to, outputs);
        match written.and_then(|()| sink.hand_over(outputs)) {
            Ok(()) => Ok(true),
            Err(Error::OutOfSpace(_) | Error::InvalidArgument(_)) => {
                *outputs = Outputs::default();
                // Not what a store says that takes no writes any more.
                self.common.check_writable()?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The persistent memory that a flush may write tables into, if it is to. Tables that have been compacted
    /// and that somebody reads count as those that are read.
    pub(super) fn promise_for_flush(&self, taken: &Taken) -> Result<Option<Promise>> {
        if !self.common.options.level0.shape().keeps_tables_in_pm() {
            return self.promise_for_rewriting(taken);
        }
        let Some(share) = self.common.compactions.shape.geometry().pm_bytes_max else {
            return Ok(None);
        };
        let (space, options) = (&self.common.space, &self.common.options);
        // A part, as the share is, where the disk has no room for all of `pm`; but a full one has none for files, either.
        let limit = match self.pressure.is_relieving() {
            true => space.limit(),
            false => space.usage().limit_bytes,
        };
        let part = |bytes: u64| within_limit(bytes, limit, space.limit());
        // Compaction may be behind by a flush, but for a memtable.
        let flush = options.flush_pm_bytes();
        let least = flush.saturating_sub(options.memtable_bytes_beside(true));
        let least = match options.level0.shape().evacuates_by_range() {
            // Whether there is room for it each range finds out.
            true => part(least).max(1),
            false => least,
        };
        let most = share.saturating_add(part(flush));
        Ok(self.common.promise_pm(most, least, u64::MAX))
    }

    /// Writes what lies in `span` of the memtables, oldest first, and what is taken along, and makes names of
    /// files durable.
    pub(super) fn write_tables(
        &self,
        memtables: &[Arc<Memtable>],
        span: &Span,
        along: &[Along<'_>],
        mut to_write: To<'_>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        // In this order: see `memtable::needed::Readers`.
        let settled = self.common.settled();
        let flush = Flush {
            memtables,
            settled,
            moments: self.common.moments_of_merge(),
            version: Arc::new(Version::clone(&self.common.catalog.version())),
        };
        let mut families: Vec<CfId> = memtables.iter().flat_map(|m| m.families()).collect();
        families.sort_unstable();
        families.dedup();
        for cf in families {
            let Some(range) = span.of(cf) else {
                continue;
            };
            let own = along.iter().find(|along| along.cf == cf);
            self.write_family(&flush, (cf, range), own, &mut to_write, outputs)?;
            if outputs.ended_at.is_some() {
                break;
            }
        }
        self.making.sync_names(outputs)
    }

    /// Writes what lies in a range of a family, and what is taken along of it.
    fn write_family(
        &self,
        flush: &Flush<'_>,
        (cf, (from, to)): (CfId, (&[u8], Option<&[u8]>)),
        own: Option<&Along<'_>>,
        to_write: &mut To<'_>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let (version, shape) = (&flush.version, &self.common.compactions.shape);
        let exists = self.common.families.exists(cf, b"");
        let (mut range_tombstones, last) = flush.range_tombstones(cf, (from, to), exists)?;
        let meter = self.common.meter();
        let mut runs = Vec::new();
        if let Some(own) = own {
            runs = own.runs(&self.common.catalog.table_files, (from, to), &meter);
            range_tombstones.extend(own.tombstones(&runs, (from, to))?);
        }
        let newest_first = flush.memtables.iter().rev();
        let inputs = newest_first.map(|m| Versions::new(m, cf, JOB_KEYS).within(from, to));
        let inputs = inputs.map(Input::Memtable);
        let inputs = last.into_iter().map(Input::Last).chain(inputs);
        let inputs = inputs.chain(along::inputs_of(runs));
        let levels = Levels::of(version, cf, None);
        let starts = self.partitioner.starts_of(version, cf);
        let place = Place::new(cf, own.map_or(Level::ZERO, |own| own.to));
        let options = match own.filter(|own| own.to != Level::ZERO) {
            Some(own) => own.write_options(shape),
            None => self.level0_options(),
        };
        let prefixes = self.common.families.filter_prefix(cf, &self.common.options);
        let files = &self.common.catalog.table_files;
        let values = ValuesInOrder::new(files, cf, &meter);
        let mut in_files = self.file_sink(place, options.with_prefixes(prefixes), &values);
        let writes = own.map(Along::newest).or(Some(SeqNo(0)));
        let recipe = Recipe {
            cf,
            cutter: match own.filter(|own| own.to != Level::ZERO) {
                Some(own) => own.cutter(shape, starts),
                None => shape.level0_cutter(&levels, self.pressure.is_relieving(), starts),
            },
            moments: flush.moments.clone(),
            tombstones: range_tombstones,
            below: match own {
                Some(own) => own.below(),
                None => below(version.tables_of(cf).map(|(_, table)| table)),
            },
            settled: flush.settled,
            exists: &|cf, key| self.common.families.exists(cf, key),
            prefixes: self.partitioner.prefixes_of(version, cf),
            counting: Some(Counting::new(version.partitions(cf), writes)),
            operator: self.common.families.operator(cf),
            filter: None,
        };
        let weighs = matches!(to_write, To::Nowhere(_));
        let sink: &mut dyn TableSink = match to_write {
            To::Files => &mut in_files,
            To::Pm(sink) => *sink,
            To::Nowhere(scale) => *scale,
        };
        let mut pace = |_| match weighs {
            true => self.common.check_open(),
            false => self.common.check_writable(),
        };
        self.making
            .write_outputs(inputs.collect(), recipe, sink, &mut pace, outputs)?;
        outputs.bytes_read += meter.bytes_read();
        outputs.stages.add(meter.stages());
        Ok(())
    }
}

impl FlushWriter {
    /// How files of level 0 are written.
    fn level0_options(&self) -> WriteOptions {
        let shape = &self.common.compactions.shape;
        let options = shape.write_options(0, usize::MAX, Creation::Flush);
        let writers = self.common.written_since.writers();
        let most = self.common.options.ssd.train_writers;
        WriteOptions {
            index: index_of_flush(options.index, writers, most),
            ..options
        }
    }

    /// Writes into files, long values apart. Not on a full disk: there they take more, and what is kept of it for flushes is as much as
    /// lies in persistent memory.
    fn file_sink<'a>(
        &'a self,
        place: Place,
        options: WriteOptions,
        values: &'a ValuesInOrder<'a>,
    ) -> FileSink<'a> {
        let sink = FileSink::new(&self.common.catalog, place, options);
        let sink = sink.metered(values.meter().clone());
        let sink = sink.making(Writes::Urgent);
        match self.pressure.is_relieving() {
            true => sink,
            false => sink.apart(Apart {
                writes: Writes::Urgent,
                ..self.making.apart(place.cf, Vec::new(), values)
            }),
        }
    }
}

/// What is written, and what was known when that began.
struct Flush<'a> {
    /// Oldest first.
    memtables: &'a [Arc<Memtable>],
    /// What is durable and visible.
    settled: SeqNo,
    moments: Moments,
    /// A copy that nobody else knows of, so that it keeps no file and no table in persistent memory: only what tables say of themselves
    /// is read in it, and what is taken along keeps its own. To make it waits for no edit.
    version: Arc<Version>,
}

impl Flush<'_> {
    /// The range tombstones of a range of a family, if that `exists`, and what they come to for the greatest key.
    ///
    /// # Errors
    /// [`Error::Busy`] if one is not settled; those of reading.
    fn range_tombstones(
        &self,
        cf: CfId,
        (from, to): (&[u8], Option<&[u8]>),
        exists: bool,
    ) -> Result<(Vec<RangeTombstone>, Option<LastDeletes>)> {
        if !exists {
            return Ok(Default::default());
        }
        let covers = self.memtables.iter().flat_map(|m| m.covers(cf));
        let covers: Vec<(Cover, &[u8])> = covers.map(|cover| (cover, from)).collect();
        let (mut all, mut last) = tombstones::of(&covers, self.memtables, &self.version, cf)?;
        if to.is_some() {
            let cut = |t: &RangeTombstone| Some(t.borrowed().cut(None, to)?.owned());
            all = all.iter().filter_map(cut).collect();
            // The greatest key that there can be lies behind.
            last = None;
        }
        match all.iter().any(|t| t.seqno > self.settled) {
            // Their groups are about to be.
            true => Err(busy("for writes in flight")),
            false => Ok((all, last)),
        }
    }
}
