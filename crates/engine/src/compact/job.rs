//! One job: picked, run, installed. See the [module above](super).

mod divided;
mod named;
pub(crate) mod picked;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Result, SeqNo};
use thermocline_compaction::retain::Moments;
use thermocline_env::meter::Meter;
use thermocline_jobs::sink::{PmSink, TableSink};
use thermocline_jobs::{Counting, Filter, Outputs, Part, Recipe};
use thermocline_policy::pick::Reason;
use thermocline_policy::tuning::ROOM_LOOK_BYTES;
use thermocline_sst::{Creation, WriteOptions};
use thermocline_tables::{Promise, ValuesInOrder};
use thermocline_version::{Level, VersionEdit};

use super::deleted::pass_over;
use super::ends::Ends;
use super::internal::{bytes_merged, gives_up};
use super::shape::Levels;
use super::told::Installed;
use crate::partitions::share;
use crate::partitions::waiting::Waiter;
use crate::report::LevelUse;
use crate::store::Compactor;
use crate::sync::{Arc, Ordering};
use divided::Keys;
use picked::{Job, bytes_taken, level_of, without_inputs};

/// What a job came to, if it was installed.
fn did(job: &Job, outputs: &Outputs, installed: bool) -> Option<LevelUse> {
    let end = job.ended_at(outputs);
    let end = end.as_deref();
    let moved = match job.picked.trivial {
        true => job.taken(end).count() as u64,
        false => 0,
    };
    let from = level_of(job.picked.from);
    let above = job.taken(end).filter(|(place, _)| place.level == from);
    if job.picked.is_internal() {
        let bytes = bytes_merged(&job.inputs, outputs);
        return installed.then_some(LevelUse {
            jobs: 1,
            bytes_in: bytes,
            bytes_read: bytes,
            bytes_written: outputs.bytes,
            entries_dropped: outputs.dropped,
            ..LevelUse::default()
        });
    }
    installed.then_some(LevelUse {
        jobs: 1,
        tables_moved: moved,
        bytes_in: match job.picked.from == job.picked.to {
            // It stood there before.
            true => 0,
            false => above.map(|(_, table)| bytes_taken(table, end)).sum(),
        },
        bytes_read: outputs.bytes_read,
        bytes_written: outputs.bytes,
        entries_dropped: outputs.dropped,
    })
}

impl Compactor {
    /// As [`crate::Engine::compact_once`]. The caller holds no lock. Several threads may call it at the
    /// same time.
    pub fn compact_once(&self) -> Result<bool> {
        let _gate = self.common.compactions.gate.enter();
        self.common.check_writable()?;
        if self.pressure.is_relieving() {
            // Somebody else may have made room.
            self.pressure.press();
        }
        let adjusted = self.partitioner.adjust_by_size()?;
        if self.common.compactions.costs.decide() {
            self.level0_costs.sample_level0();
        }
        let collects = self.common.compactions.collects();
        let due = self.picker.take_due();
        if self.common.compactions.collects() != collects {
            self.pressure.press();
        }
        match due {
            Some(job) => {
                let failed = &self.common.compactions.failed;
                // There may be more to do beside it. Not where one has failed for lack of room: jobs would ask for each other
                // for ever.
                if !failed.load(Ordering::Relaxed) {
                    self.common.want_compaction();
                }
                let ran = self.run(job);
                failed.store(ran.is_err(), Ordering::Relaxed);
                ran.map(|()| true)
            }
            None => Ok(adjusted),
        }
    }

    /// Runs a job to its end. The caller holds the gate.
    pub fn run(&self, mut job: Job) -> Result<()> {
        let ends = Ends::new(&self.common, job.id);
        job.keep_inputs(&self.common.catalog);
        job.at = self.common.now_ns();
        let begun = job.begun();
        // Where room is wanted no job takes what flushes need; but who asks for one by hand gets it.
        let by_hand = job.is_by_hand();
        let guarded = self.pressure.is_relieving() && !by_hand;
        let room = match guarded {
            true => self.pressure.room_for_jobs().unwrap_or(u64::MAX),
            false => u64::MAX,
        };
        self.common.events.emit(begun.event());
        let mut outputs = Outputs::default();
        let meter = self.common.meter();
        let installed = match begun.moved {
            true => self.install(&job, &outputs).map(Installed::of),
            false => self.merge_and_install(&job, &meter, &mut outputs, guarded),
        };
        self.making.release(&outputs);
        let left = installed.as_ref().ok().and_then(|what| what.why_not());
        let done = installed.map(|what| did(&job, &outputs, what == Installed::Done));
        if matches!(done, Ok(Some(_))) {
            self.learn_costs(&job, &outputs, begun.at);
            self.common.compactions.usage.add_reason(begun.reason);
        }
        // A filter that failed is no lack of room: it is told, and others are merged meanwhile.
        let lacks_room = done.as_ref().is_err_and(gives_up) && !outputs.filtered.failed;
        let left_alone = begun.internal && lacks_room;
        if left_alone {
            self.picker.internal_gave_up();
        }
        let tables: Vec<_> = job.inputs.iter().map(|(_, table)| table.file).collect();
        // Who asks for one hears of it. If room is wanted only by now, this one may have filled the disk itself, and would again.
        let failed = (done.as_ref().err(), guarded || by_hand);
        let (compactions, now) = (&self.common.compactions, self.common.now_ns());
        // What is left alone has neither gone well nor failed.
        let rest = !left_alone && compactions.job_ended(begun.reason, &tables, failed, now);
        let takes_room = !begun.moved && !job.picked.is_drop();
        // It keeps its inputs.
        drop(job);
        drop(ends);
        self.sweeper.sweep_behind_job();
        // Only now: before, there were the inputs and the outputs.
        self.pressure.press();
        // What needs nothing but the edit would be picked again at once, and fail again.
        let for_room = done.as_ref().is_err_and(|error| error.is_no_room());
        let gave_up = guarded && takes_room && for_room;
        if gave_up {
            self.pressure.job_gave_up(begun.bytes, room);
        }
        if rest || self.kept_others_waiting((guarded, by_hand), gave_up || done.is_ok()) {
            // They go on where its tables rest, or were told to wait for this one.
            self.common.want_compaction();
        }
        let finished = begun.finished((&done, left), (&outputs, &meter), self.common.now_ns());
        if !gave_up && !left_alone {
            let failures = &self.common.compactions.failures;
            failures.note(begun.from, done.as_ref().err(), || begun.told());
        }
        let usage = &self.common.compactions.usage;
        match &done {
            Ok(did) if begun.internal => usage.add_internal(did.unwrap_or_default()),
            Ok(did) => usage.add(begun.to, did.unwrap_or_default()),
            Err(_) => {}
        }
        self.common.events.emit(finished);
        // What is left alone is told to who asked for it, and everything else goes on.
        self.go_on_after(done.map(drop), gave_up || left_alone && !by_hand)
    }

    /// Whether others were told to wait for a job that has ended, as they are where room is wanted on the disk, and may find something to
    /// do. One that was `guarded`, and neither gave up nor `went_on`, would be picked again at once. One that was not has begun before room
    /// was wanted; those that begin now give up in time.
    fn kept_others_waiting(&self, (guarded, by_hand): (bool, bool), went_on: bool) -> bool {
        match guarded {
            true => went_on,
            // Who has asked for it looks behind all of them.
            false => !by_hand && self.pressure.is_relieving(),
        }
    }

    /// What waited for a job has its turn, or is forgotten if that failed.
    fn go_on_after(&self, done: Result<()>, gave_up: bool) -> Result<()> {
        match done {
            // Nobody may come by who would see to that.
            Ok(()) => {
                let adjusted = self.partitioner.adjust_waiting_by_size();
                adjusted.inspect_err(|_| self.common.compactions.forget_waiting(Waiter::Size))
            }
            Err(error) => {
                self.common.compactions.forget_waiting(Waiter::Size);
                match gave_up {
                    // There may be smaller ones.
                    true => Ok(()),
                    false => Err(error),
                }
            }
        }
    }

    /// What a job that began then has taken.
    fn learn_costs(&self, job: &Job, outputs: &Outputs, started: u64) {
        let costs = &self.common.compactions.costs;
        let took = self.common.now_ns().saturating_sub(started);
        if job.picked.is_internal() {
            let (updates, records) = job.expects.unwrap_or_default();
            let read = outputs.entries_read;
            let expected = share(updates, read, records);
            costs.merged((read, took), expected, outputs.dropped);
        } else if job.picked.from == 0
            && !job.picked.is_within_level0()
            && !job.picked.trivial
            && job.ended_at(outputs).is_none()
            // Values take many times as long as the entries that refer to them.
            && outputs.moved == 0
            && !self.common.compactions.has_held_since(started)
        {
            let above = job.inputs.iter().filter(|(at, _)| at.level == Level::ZERO);
            costs.moved(above.map(|(_, table)| table.entries).sum(), took);
        }
    }

    /// Writes the outputs and installs them, with what the family's filter says of them if it may be.
    fn merge_and_install(
        &self,
        job: &Job,
        meter: &Arc<Meter>,
        outputs: &mut Outputs,
        guarded: bool,
    ) -> Result<Installed> {
        if job.picked.reason == Reason::Deleted {
            *outputs = Outputs::passed_over(job.inputs.iter().map(|(_, table)| &**table));
            return self.install(job, outputs).map(Installed::of);
        }
        if job.picked.is_drop() {
            *outputs = Outputs::expired(job.inputs.iter().map(|(_, table)| &**table));
            return self.drop_expired(job, outputs);
        }
        let (filters, by_hand) = (&self.common.compactions.filters, job.is_by_hand());
        let filter = self.common.families.filter(job.cf);
        let seen = self.common.commits.readers.last();
        let expired = self.expired_of(job, seen);
        let is_any = filter.is_some() || expired.is_some();
        if is_any && filters.take_turn(job.cf, by_hand) {
            let values = ValuesInOrder::new(&self.common.catalog.table_files, job.cf, meter);
            let asked = Filter {
                expired,
                filter,
                seen,
                level: job.picked.to,
                read: &|key, blob| values.read(key, blob),
                memory: &|| values.memory(),
            };
            let merged = self.merge(job, (meter, &mut *outputs), guarded, Some(asked));
            if outputs.filtered.failed {
                filters.failed(job.cf, false);
            }
            if let Some(installed) = merged.and_then(|()| self.install_filtered(job, outputs))? {
                filters.succeeded(job.cf, &outputs.filtered);
                return Ok(Installed::of(installed));
            }
            filters.failed(job.cf, true);
            // What was written goes, and nothing was named.
            self.making.release(outputs);
            *outputs = Outputs::default();
            self.sweeper.unlink_obsolete();
            self.sweeper.release_pm_tables();
        }
        self.merge(job, (meter, &mut *outputs), guarded, None)?;
        self.install(job, outputs).map(Installed::of)
    }

    /// The last seqno of what has expired, if a job's inputs may have something of it that nobody sees.
    fn expired_of(&self, job: &Job, seen: Option<SeqNo>) -> Option<SeqNo> {
        let expired = self.common.expired(job.cf)?;
        let oldest = job.inputs.iter().map(|(_, table)| table.smallest_seqno);
        let has_some = oldest.min().is_some_and(|oldest| oldest <= expired);
        let is_seen = seen.is_some_and(|seen| expired <= seen);
        (has_some && !is_seen).then_some(expired)
    }

    /// Takes tables away of which everything has expired, if nobody reads them.
    fn drop_expired(&self, job: &Job, outputs: &Outputs) -> Result<Installed> {
        let filters = &self.common.compactions.filters;
        let installed = self.install_filtered(job, outputs)?;
        match installed {
            Some(_) => filters.succeeded(job.cf, &outputs.filtered),
            None => filters.is_read(job.cf, self.common.now_ns()),
        }
        Ok(installed.map_or(Installed::Read, Installed::of))
    }

    /// As [`Compactor::install`]; `None` if somebody reads what was filtered, and nothing was installed (`filters`).
    fn install_filtered(&self, job: &Job, outputs: &Outputs) -> Result<Option<bool>> {
        let Some(oldest) = outputs.filtered.oldest else {
            return self.install(job, outputs).map(Some);
        };
        // In this order: see `filters`, "Who waits".
        let writer = self.memtables.hold_writer_up();
        let mut manifest = self.common.catalog.edits();
        self.common.check_writable()?;
        if !job.is_valid(manifest.state()) {
            return Ok(Some(false));
        }
        let held_up = self.common.commits.readers.hold_up();
        if held_up.reads_any_from(oldest) && !active(Bug::FilterForgetsReaders) {
            return Ok(None);
        }
        let mut changes = self.edit_of(job, outputs).changes;
        changes.extend(job.flushed(manifest.state()));
        let (partitioner, met) = (&self.partitioner, &outputs.prefixes);
        let made = partitioner.append_with_prefixes(&mut manifest, changes, met);
        drop(manifest);
        // Whatever became of the edits, nobody registers before what there is shows.
        self.common.catalog.show_tables();
        drop(held_up);
        drop(writer);
        let made = made?;
        partitioner.tell_of_prefixes(made);
        partitioner.counted_by_merge(&outputs.counted);
        Ok(Some(true))
    }

    /// Pays for what a job has read and written, from time to time, and looks whether it may go on.
    fn pace_of<'a>(
        &'a self,
        job: &'a Job,
        meter: &'a Meter,
        guarded: bool,
    ) -> impl FnMut(u64) -> Result<()> + 'a {
        let common = &*self.common;
        let (mut spent, mut looked) = (meter.bytes_read(), 0);
        let files = &common.catalog.table_files;
        let mut paced = common.compactions.paced(files, job.is_by_hand());
        move |written: u64| {
            common.check_writable()?;
            if job.picked.is_internal() {
                // The rate is that of the device.
                return Ok(());
            }
            let all = written + meter.bytes_read();
            let more = all.saturating_sub(spent);
            spent += more;
            if guarded && spent >= looked + ROOM_LOOK_BYTES {
                looked = spent;
                self.pressure.check_room_of_job()?;
            }
            paced.spent(more, &|| common.check_writable())
        }
    }

    /// What becomes of the records of a part, without what all parts have in common.
    fn recipe<'a>(
        &'a self,
        job: &'a Job,
        levels: &Levels<'a>,
        keys: &Keys,
        moments: &Moments,
    ) -> Recipe<'a> {
        let (common, partitioner) = (&*self.common, &*self.partitioner);
        let range = job.holds().range.cut(Some(&keys.from), keys.to.as_deref());
        let starts = partitioner.starts_within(&job.version, job.cf, &range.borrowed());
        Recipe {
            cf: job.cf,
            cutter: job.cutter(
                &common.compactions.shape,
                levels,
                (&range.borrowed(), starts),
            ),
            moments: moments.clone(),
            tombstones: Vec::new(),
            below: job.below(levels),
            // What is in a table is durable and visible.
            settled: SeqNo::MAX,
            exists: &|_, _| true,
            prefixes: partitioner.prefixes_of(&job.version, job.cf),
            counting: Some(Counting::new(job.version.partitions(job.cf), None)),
            operator: common.families.operator(job.cf),
            filter: None,
        }
    }

    /// How tables of its outputs are written.
    fn write_options(&self, job: &Job) -> WriteOptions {
        let (common, shape) = (&self.common, &self.common.compactions.shape);
        let options = shape.write_options(job.picked.to, job.last_level, Creation::Compaction);
        options.with_prefixes(common.families.filter_prefix(job.cf, &common.options))
    }

    /// Writes the outputs, durably. Where room is `guarded` it looks whether it takes too much. What the meter has read before, when it was tried with
    /// a filter, was paid for.
    pub(super) fn merge(
        &self,
        job: &Job,
        (meter, outputs): (&Arc<Meter>, &mut Outputs),
        guarded: bool,
        filter: Option<Filter<'_>>,
    ) -> Result<()> {
        let common = &*self.common;
        let files = &*common.catalog.table_files;
        let moments = common.moments_of_merge();
        let mut runs = job.runs.clone();
        let tombstones = self.tombstones_of(job, &runs, meter)?;
        if let Some(passed) = pass_over(&mut runs, &tombstones, &moments) {
            (outputs.entries_read, outputs.dropped) = (passed, passed);
        }
        let keys = self.divide(job, &runs, filter.is_some());
        let values = || ValuesInOrder::new(files, job.cf, meter);
        let values: Vec<_> = keys.iter().map(|_| values()).collect();
        let next_owner = || self.sweeper.pm_owner();
        let home = self.making.pm_home(&next_owner);
        let pm_sink = |(promise, enough): &(Promise, u64)| {
            let sink = PmSink::new(home, promise.bytes());
            sink.until(*enough).naming(job.names_max)
        };
        let mut in_pm = job.promise.as_ref().map(pm_sink);
        let mut in_files = self.file_sinks(job, &values);
        let exists = |cf, key: &[u8]| common.families.exists(cf, key);
        let levels = Levels::of(&job.version, job.cf, None);
        let mut filter = filter;
        let mut recipe = |keys: &Keys| Recipe {
            tombstones: keys.tombstones(&tombstones),
            exists: &exists,
            filter: filter.take(),
            ..self.recipe(job, &levels, keys, &moments)
        };
        let sinks: Vec<&mut dyn TableSink> = match &mut in_pm {
            // It is not divided.
            Some(sink) => vec![sink],
            None => in_files.iter_mut().map(|sink| sink as _).collect(),
        };
        let parts = keys.iter().zip(sinks).map(|(keys, sink)| Part {
            inputs: keys.inputs(files, (job, &**meter), &runs),
            recipe: recipe(keys),
            sink,
        });
        let parts = parts.collect();
        let mut pace = self.pace_of(job, meter, guarded);
        self.making.write_parts(parts, meter, &mut pace, outputs)?;
        pace(outputs.bytes)?;
        drop(pace);
        (outputs.bytes_read, outputs.stages) = (meter.bytes_read(), meter.stages());
        match in_pm {
            Some(sink) => sink.hand_over(outputs),
            None => self.making.sync_names(outputs),
        }
    }

    fn edit_of(&self, job: &Job, outputs: &Outputs) -> VersionEdit {
        let clock = &self.common.world.env.clock;
        let done = job.done(outputs, (clock.now_ns(), clock.unix_s()));
        job.edit(outputs).with(done)
    }

    /// One edit, and the view that comes with it; returns whether the inputs were still there.
    pub(super) fn install(&self, job: &Job, outputs: &Outputs) -> Result<bool> {
        let made = {
            let mut manifest = self.common.catalog.edits();
            // Again, since the store may be closing.
            self.common.check_writable()?;
            if !job.is_valid(manifest.state()) {
                return Ok(false);
            }
            if active(Bug::InternalInTwoEdits) && job.picked.is_internal() {
                let changes = without_inputs(&job.inputs, outputs.ended_at.as_deref());
                manifest.append(&VersionEdit { changes })?;
                let changes = outputs.added().collect();
                manifest.append(&VersionEdit { changes })?;
                return Ok(true);
            }
            if active(Bug::UnlinkBeforeEdit) && !job.picked.trivial {
                let files = &self.common.catalog.table_files;
                for (_, table) in &job.inputs {
                    let _ = files.storage.remove(&files.path(table.file));
                }
            }
            let edit = self.edit_of(job, outputs);
            let met = &outputs.prefixes;
            self.partitioner
                .append_with_prefixes(&mut manifest, edit.changes, met)?
        };
        self.partitioner.tell_of_prefixes(made);
        self.partitioner.counted_by_merge(&outputs.counted);
        self.memtables.show_tables();
        Ok(true)
    }
}
