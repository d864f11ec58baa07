//! Jobs: what `next` decides, and what it comes to.

use thermocline_base::{CfId, FileId};

use super::doing::{Doing, Edit, What};
use super::merge::{Table, union, whole};
use super::state::Run;
use super::store::Store;
use crate::internal::{Inputs, bytes_of_part};
use crate::next;
use crate::pick::{DeletedRanges, Job, State};
use crate::situation::{Charged, FamilyLevels, Levels, Situation};
use crate::work::Work;

/// A job, and of a merge inside persistent memory of how many records how many are thought to go.
pub(super) struct Due {
    job: Job,
    expects: Option<(u64, u64)>,
}

impl Store {
    /// An edit takes effect.
    pub(super) fn apply(&mut self, edit: Edit) {
        for (level, file) in edit.gone {
            self.levels[level].retain(|table| table.file != file);
        }
        for (level, table) in edit.come {
            self.levels[level].push(table);
        }
        self.levels[0].sort_by_key(|table| std::cmp::Reverse((table.newest, table.file)));
        for level in &mut self.levels[1..] {
            level.sort_by_key(|table| table.first);
        }
        self.known_debt.set(None);
        self.changes += 1;
    }

    /// What a job reads, and writes.
    fn edit_of(&mut self, job: &Job) -> (Edit, Vec<Table>) {
        let upper = job.inputs.iter().map(|n| (job.from, *n));
        let lower = job.overlapped.iter().map(|n| (job.to, *n));
        let places: Vec<(usize, usize)> = upper.chain(lower).collect();
        let table = |(level, n): &(usize, usize)| self.levels[*level][*n].clone();
        let inputs: Vec<Table> = places.iter().map(table).collect();
        let gone = places.iter().zip(&inputs);
        let gone: Vec<(usize, u64)> = gone
            .map(|((level, _), table)| (*level, table.file))
            .collect();
        if job.trivial {
            let come = inputs.iter().map(|table| (job.to, table.clone())).collect();
            return (
                Edit {
                    gone,
                    come,
                    ..Edit::default()
                },
                inputs,
            );
        }
        let Some(merged) = union(&inputs, &self.keys) else {
            return (
                Edit {
                    gone,
                    ..Edit::default()
                },
                inputs,
            );
        };
        let in_pm = job.is_internal();
        let cuts = match job.is_within_level0() {
            true => self.cuts_within(in_pm),
            false => self.cuts_below(),
        };
        let mut outputs = self.tables(&merged, in_pm, &cuts);
        if !in_pm {
            let come = outputs.into_iter().map(|table| (job.to, table)).collect();
            return (
                Edit {
                    gone,
                    come,
                    ..Edit::default()
                },
                inputs,
            );
        }
        let end = self.end_part(&mut outputs).unwrap_or(merged.end);
        let mut edit = Edit::default();
        let mut read = Vec::new();
        for ((level, file), table) in gone.into_iter().zip(inputs) {
            let Some(part) = table.part(0, end) else {
                continue;
            };
            edit.gone.push((level, file));
            edit.come
                .extend(self.rest(&table, end, usize::MAX).map(|rest| (level, rest)));
            read.push(part);
        }
        edit.rests = edit.come.len();
        edit.come
            .extend(outputs.into_iter().map(|table| (0, table)));
        (edit, read)
    }

    /// What of a table stays when others take the rest: with a number of its own.
    pub(super) fn rest(&mut self, table: &Table, from: usize, to: usize) -> Option<Table> {
        let mut rest = table.part(from, to)?;
        rest.file = self.next_file;
        self.next_file += 1;
        Some(rest)
    }

    /// Ends a merge inside persistent memory once it has written its part; says where.
    fn end_part(&self, outputs: &mut Vec<Table>) -> Option<usize> {
        let mut written = 0;
        let most = self.geometry.internal_part_bytes();
        let ends = |table: &Table| {
            written += self.zones_of(table);
            written >= most
        };
        let last = outputs.iter().position(ends)?;
        outputs.truncate(last + 1);
        Some(outputs[last].end)
    }

    /// Whether persistent memory has room for a part of the merge of these.
    fn has_room(&self, job: &Job) -> bool {
        let zones = job
            .inputs
            .iter()
            .map(|n| self.zones_of(&self.levels[0][*n]));
        let inputs = Inputs {
            zone_bytes: zones.sum(),
            largest_zone: self.zones.largest,
        };
        let geometry = &self.geometry;
        let (part, table) = (geometry.internal_part_bytes(), geometry.table_bytes);
        let most = bytes_of_part(&inputs, part, table);
        let limit = geometry.internal_limit().unwrap_or(0);
        self.pm_table_bytes() + most <= limit
    }

    /// Tables in persistent memory, where costs do not decide about them.
    fn pm_files(&self) -> Vec<FileId> {
        let in_pm = self.levels[0].iter().filter(|table| table.in_pm);
        match self.budget.is_some() || !self.geometry.in_pm {
            true => Vec::new(),
            false => in_pm.map(|table| FileId(table.file)).collect(),
        }
    }

    /// The next job, beside those that run.
    pub(super) fn next_job(&mut self) -> Option<Due> {
        let plan = self.level0_plan();
        let mut memory = std::mem::take(&mut self.memory);
        let due = {
            let seen = self.seen();
            let families = [FamilyLevels {
                family: CfId::DEFAULT,
                state: State {
                    levels: &seen.levels,
                    running: &self.held,
                },
                running: &self.held,
                options: seen.options,
                cursors: &self.cursors,
                contents: &seen.contents,
                deleted: DeletedRanges::default(),
            }];
            let pm_files = self.pm_files();
            let past = self.geometry.is_past_share(self.pm_table_bytes());
            let mut refused = Vec::new();
            loop {
                let levels = Levels {
                    families: &families,
                    level0: plan.as_ref(),
                    pm_files: &pm_files,
                    is_past_share: past && !pm_files.is_empty(),
                    relief: None,
                    is_disk_full: false,
                    is_by_hand: false,
                    internal_gave_up: false,
                    refused: &refused,
                    charged: Charged::None,
                    garbage: &[],
                    may_move: true,
                };
                let situation = Situation {
                    levels: Some(levels),
                    ..Situation::default()
                };
                match next(&situation, &mut memory).work {
                    Work::CompactInternal { place, job, .. } if !self.has_room(&job) => {
                        refused.push((CfId::DEFAULT, place));
                    }
                    Work::CompactInternal { job, expects, .. } => {
                        break Some(Due { job: *job, expects });
                    }
                    Work::Compact { job, .. } => {
                        break Some(Due {
                            job: *job,
                            expects: None,
                        });
                    }
                    _ => break None,
                }
            }
        };
        self.memory = memory;
        due
    }
}

impl Run {
    /// Begins a flush and jobs, where they are due. What was not due is not while nothing changes.
    pub(super) fn begin_what_is_due(&mut self) {
        if !self.is_flushing() {
            self.begin_flush();
        }
        let holding = self.work.iter().filter(|doing| doing.holds.is_some());
        let mut jobs = holding.count();
        while jobs < self.setting.jobs && self.nothing_due_at != self.store.changes {
            let Some(due) = self.store.next_job() else {
                self.nothing_due_at = self.store.changes;
                break;
            };
            self.begin_job(&due);
            jobs += 1;
        }
    }

    fn begin_job(&mut self, due: &Due) {
        let job = &due.job;
        let (edit, inputs) = self.store.edit_of(job);
        let outputs = edit.come[edit.rests..].iter();
        let outputs: Vec<&Table> = outputs.map(|(_, table)| table).collect();
        let bytes = |in_pm: bool, tables: &mut dyn Iterator<Item = &Table>| -> f64 {
            let some = tables.filter(|table| table.in_pm == in_pm);
            some.map(|table| self.store.bytes(table)).sum()
        };
        let read = bytes(false, &mut inputs.iter());
        let written = bytes(false, &mut outputs.iter().copied());
        let into_pm = bytes(true, &mut outputs.iter().copied());
        let records: f64 = inputs.iter().map(|table| table.entries).sum();
        let kept: f64 = outputs.iter().map(|table| table.entries).sum();
        let units = self.store.memory.level0.units;
        let each = match job.is_internal() {
            true => units.internal,
            false => units.major,
        };
        let (device_bytes, processor_ns) = match job.trivial {
            true => (0.0, 0.0),
            false => (read + written, records * each),
        };
        if !job.trivial {
            self.outcome.compacted_bytes += written;
            self.outcome.pm_written_bytes += into_pm;
        }
        match job.is_internal() {
            true => self.outcome.jobs.0 += 1,
            false => self.outcome.jobs.1 += 1,
        }
        if let Some((updates, among)) = due.expects {
            let part = updates as f64 * records / among.max(1) as f64;
            let known = &mut self.store.memory.level0;
            known.merged((0, 0), whole(part), whole(records - kept));
        }
        self.outcome.moved_bytes += device_bytes;
        self.outcome.processor_ns += processor_ns;
        self.store.cursors.note(job);
        self.store.held.push(job.holds.clone());
        self.store.changes += 1;
        self.work.push(Doing {
            holds: Some(job.holds.clone()),
            device_bytes,
            processor_ns,
            what: What::Job(edit),
        });
    }
}
