//! Internal compaction: what lies over each other in persistent memory is merged there (PM-Blade §IV.B).
//!
//! Level 0 in persistent memory is runs of tables, of which a read may have to ask each. An internal compaction takes
//! a *slice* of it (`policy::pick::Slice`), and writes tables that do not overlap, without what nobody needs. It is
//! a job like others, with level 0 for input and output.
//!
//! # The argument
//! 1. *Age.* Of a slice, a job takes only tables that lie in persistent memory and that no other job takes. All seqnos
//!    of these tables must be above those of everything else in the slice (`policy::pick::level0`). So the outputs are
//!    as old as the inputs, and no table that lies over them has a seqno between theirs: what came meanwhile is newer
//!    than all of them. The outputs stand where the inputs stood. Below them are the levels from 1 on and the rest of
//!    the slice: files, and what another job is taking down, which stays below wherever it comes to. During an
//!    evacuation (`flush::evacuate`), data that comes next is newer than all tables behind the front, but as old as
//!    some tables before it. So outputs end at the front of the version in which the job was picked
//!    ([`Version::front`]). Behind the front, an output has only data that is older than everything that is evacuated.
//! 2. *Parts.* A job ends with a table when it has written [`Shape::internal_part_bytes`](super::shape::Shape), at some
//!    key. Its edit takes the inputs away below that key only: an input that reaches over it keeps its other part,
//!    limited there. What stays overlaps none of the outputs, and is another job's. Tables that lie beside each other
//!    are not merged by one job, even if all lie above one older file: a job takes only tables that lie over each
//!    other. So no job takes more persistent memory than a part, however large the slice is, and none is long; and each
//!    leaves less.
//! 3. *Bounded.* What it may write it is promised before (`pm_tables::promise`), beside what all tables have. If that
//!    cannot be it is not begun. A slice for which there is never room goes to the SSD like any other.
//! 4. *Zones* of an input go when nothing refers to any part of it, and nobody reads it (`pm_tables`, 2).
//! 5. *Nobody waits.* Flushes do not ask what jobs hold; readers have a version or the tables themselves.
//!
//! What finds no room after all, or fits no table, has given up: its slice is left alone until the version has changed.
//!
//! # Spills
//! What is to leave persistent memory, and lies over much of the base level, goes into files of level 0 first
//! (`policy::pick::pick_spill`): 1, 4 and 5 are the same. A spill is whole, unless one edit could not name it (`job::named`),
//! and needs no promise.
//!
//! # What a crash leaves
//! | a crash | finds |
//! |---|---|
//! | before the edit | the inputs, and zones of owners that nobody names: free |
//! | after the edit | the outputs, and perhaps inputs that nothing refers to: removed |

pub(crate) mod known;

use thermocline_base::{CfId, Error, FileId, Result};
use thermocline_jobs::Outputs;
use thermocline_policy::internal::{Inputs, bytes_of_part};
use thermocline_policy::pick::{Job as Picked, Slice, level0_slices, pick_internal};
use thermocline_tables::Promise;
use thermocline_version::{Place, TableRef, Version};

use super::Jobs;
use super::job::picked::Job;
use super::shape::Levels;
use crate::partitions::share;
use crate::store::Picker;
use crate::sync::{Arc, lock};

/// Of a range that somebody wants merged.
enum Wanted {
    Job(Box<Job>),
    /// A running job holds some of it, or will make room.
    Wait,
    /// Nobody is at work, and there is no room.
    Room,
    Done,
}

impl Compactor {
    /// As [`Engine::compact_level0`](crate::Engine::compact_level0).
    pub fn compact_level0(&self, cf: CfId) -> Result<()> {
        self.common.check_family(cf)?;
        let merged = self.merge_level0(cf);
        // What became due meanwhile met the jobs of this one, and was put off.
        self.common.want_compaction();
        merged
    }

    fn merge_level0(&self, cf: CfId) -> Result<()> {
        let before = self.common.catalog.next_file();
        let mut alone = false;
        loop {
            // Whoever flushes has been promised all the room that there is.
            let flushing = alone.then(|| self.common.turns.flushing.take());
            let inside = self.common.compactions.gate.enter();
            // Again, since the store may be closing.
            self.common.check_writable()?;
            let mut jobs = lock(&self.common.compactions.jobs);
            match self.picker.next_of_level0(&mut jobs, cf, before) {
                Wanted::Job(job) => {
                    drop(jobs);
                    drop(flushing);
                    alone = false;
                    self.run(*job)?;
                }
                Wanted::Wait => {
                    drop(flushing);
                    self.common.compactions.wait_for_end(inside, jobs);
                }
                Wanted::Room if !alone => alone = true,
                Wanted::Room => {
                    return Err(Error::OutOfSpace(
                        "level 0 has no room in persistent memory for what is to be merged there; compact it down, or \
                         raise pm or level0.pm_percent"
                            .into(),
                    ));
                }
                Wanted::Done => return Ok(()),
            }
        }
    }
}

impl Picker {
    /// The next job for what level 0 has in tables that were there when the next one had the number `before`. Each
    /// job leaves less of those, so that this ends whatever comes meanwhile.
    fn next_of_level0(&self, jobs: &mut Jobs, cf: CfId, before: FileId) -> Wanted {
        let version = self.common.catalog.version();
        let levels = Levels::of(&version, cf, None);
        let running = jobs.held(cf);
        let slices = level0_slices(&levels.state(&running)).into_iter();
        let is_old = |slice: &Slice<'_>| {
            let mut tables = slice.tables.iter().map(|n| levels.reference(0, *n));
            tables.any(|t| t.file < before && version.pm_table(t.file).is_some())
        };
        let mut slices = slices.filter(|slice| {
            // What is taken may come back into level 0.
            is_old(slice) && (!slice.free || slice.runs > 1 && slice.on_top)
        });
        let Some(slice) = slices.next() else {
            return Wanted::Done;
        };
        let mut rest = [slice].into_iter().chain(slices);
        let Some(slice) = rest.find(|slice| slice.free) else {
            return Wanted::Wait;
        };
        if let Some(job) = self.begin_internal(jobs, cf, &version, &levels, &slice) {
            return Wanted::Job(Box::new(job.by_hand()));
        }
        // Whoever is about to name tables, or takes others away, makes room.
        match jobs.running.is_empty() {
            true => Wanted::Room,
            false => Wanted::Wait,
        }
    }

    /// Whether one has found no room in this version.
    pub(super) fn gave_up_in(&self, version: &Arc<Version>) -> bool {
        let gave_up = lock(&self.common.compactions.internal.gave_up);
        std::ptr::eq(gave_up.as_ptr(), Arc::as_ptr(version))
    }

    /// Begins to merge a slice, if there is something to merge, and room for that.
    fn begin_internal(
        &self,
        jobs: &mut Jobs,
        cf: CfId,
        version: &Arc<Version>,
        levels: &Levels<'_>,
        slice: &Slice<'_>,
    ) -> Option<Job> {
        let shape = &self.common.compactions.shape;
        let options = shape.pick_options(levels);
        let running = jobs.held(cf);
        let picked = pick_internal(&levels.state(&running), &options, slice)?;
        self.begin_merge(jobs, cf, version, levels, slice, picked)
    }

    /// Begins this merge of a slice, if there is room for that.
    pub(super) fn begin_merge(
        &self,
        jobs: &mut Jobs,
        cf: CfId,
        version: &Arc<Version>,
        levels: &Levels<'_>,
        slice: &Slice<'_>,
        picked: Picked,
    ) -> Option<Job> {
        let promise = self.promise_for_slice(version, levels, slice)?;
        let shape = &self.common.compactions.shape;
        let last_level = shape.pick_options(levels).last_level;
        let job = Job::begin(jobs, cf, version, levels, last_level, picked);
        Some(job.promised(promise, shape.geometry().internal_part_bytes()))
    }

    /// Where no costs decide about it: the tables in persistent memory.
    pub(super) fn pm_files_without_costs(&self, version: &Version) -> Vec<FileId> {
        if self.common.compactions.costs.decide()
            || !self.common.options.level0.shape().keeps_tables_in_pm()
        {
            return Vec::new();
        }
        let referred = version.pm_tables().filter(|(_, r)| !r.is_empty());
        referred.map(|(table, _)| table.file).collect()
    }

    /// The persistent memory for one part of a slice: as much as that may take until its last table ends.
    fn promise_for_slice(
        &self,
        version: &Version,
        levels: &Levels<'_>,
        slice: &Slice<'_>,
    ) -> Option<Promise> {
        let shape = &self.common.compactions.shape;
        let inputs = slice.pm.iter().map(|n| levels.reference(0, *n));
        let metas = inputs.filter_map(|table| Some(&version.pm_table(table.file)?.meta));
        let mut read = Inputs::default();
        for meta in metas {
            read.zone_bytes += meta.zone_bytes;
            let zone = meta.zone_bytes / u64::from(meta.zones.max(1));
            read.largest_zone = read.largest_zone.max(zone);
        }
        let bytes = bytes_of_part(
            &read,
            shape.geometry().internal_part_bytes(),
            shape.geometry().table_bytes,
        );
        self.common
            .promise_pm(shape.geometry().internal_limit()?, bytes, bytes)
    }

    /// A job has found no room, or what it merged fits no table.
    pub(super) fn internal_gave_up(&self) {
        // That of now: in the one in which it was picked it may be that nobody asks any more.
        let version = Arc::downgrade(&self.common.catalog.version());
        *lock(&self.common.compactions.internal.gave_up) = version;
        self.common.compactions.usage.add_given_up();
    }
}

#[cfg(test)]
use super::job::picked::NAMED_BYTES;
use crate::store::Compactor;
#[cfg(test)]
use thermocline_policy::pick::{Cursors, pick_spill};

#[cfg(test)]
impl Compactor {
    /// Takes what lies in persistent memory, and lies above all else, into files of level 0; whether there was any.
    pub fn spill_all(&self, cf: CfId) -> Result<bool> {
        let job = {
            let mut jobs = lock(&self.common.compactions.jobs);
            let version = self.common.catalog.version();
            let levels = Levels::of(&version, cf, None);
            let options = self.common.compactions.shape.pick_options(&levels);
            let (running, cursors) = (jobs.held(cf), Cursors::default());
            let state = levels.state(&running);
            let picked = pick_spill(&state, &options, &cursors, &|_| true, true);
            picked.map(|picked| {
                Job::begin(&mut jobs, cf, &version, &levels, options.last_level, picked)
            })
        };
        job.map_or(Ok(false), |job| self.run(job).map(|()| true))
    }

    /// Runs one job of what [`Engine::compact_level0`] would do.
    pub fn merge_one_slice(&self, cf: CfId) -> Result<()> {
        self.merge_one_slice_naming(cf, NAMED_BYTES)
    }

    /// The same, of which the edit names no more than so many bytes of inputs, and as many of outputs.
    pub fn merge_one_slice_naming(&self, cf: CfId, names_max: u64) -> Result<()> {
        let before = self.common.catalog.next_file();
        let next = self
            .picker
            .next_of_level0(&mut lock(&self.common.compactions.jobs), cf, before);
        match next {
            Wanted::Job(job) => self.run((*job).naming(names_max)),
            Wanted::Wait | Wanted::Room | Wanted::Done => Ok(()),
        }
    }
}

/// About how many bytes of the inputs an internal compaction has read.
pub(super) fn bytes_merged(inputs: &[(Place, Arc<TableRef>)], outputs: &Outputs) -> u64 {
    let sum = |of: fn(&TableRef) -> u64| -> u64 { inputs.iter().map(|(_, t)| of(t)).sum() };
    let (bytes, entries) = (sum(|table| table.bytes), sum(|table| table.entries));
    share(bytes, outputs.entries_read, entries)
}

/// Whether an internal compaction that ended like this is no failure of the store.
pub(super) fn gives_up(error: &Error) -> bool {
    matches!(error, Error::OutOfSpace(_) | Error::InvalidArgument(_))
}
