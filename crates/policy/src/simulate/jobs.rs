//! Jobs: what `next` decides, and what it comes to.

use thermocline_base::CfId;

use super::doing::{Doing, Edit, What};
use super::merge::{Table, union};
use super::state::Run;
use super::store::Store;
use crate::next;
use crate::pick::{Job, Reason, State};
use crate::situation::{Charged, FamilyLevels, Levels, Situation};
use crate::work::Work;

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
    }

    /// What a job writes.
    fn edit_of(&mut self, job: &Job) -> (Edit, Vec<Table>) {
        let upper = job.inputs.iter().map(|n| (job.from, *n));
        let lower = job.overlapped.iter().map(|n| (job.to, *n));
        let places: Vec<(usize, usize)> = upper.chain(lower).collect();
        let table = |(level, n): &(usize, usize)| self.levels[*level][*n].clone();
        let inputs: Vec<Table> = places.iter().map(table).collect();
        let gone = places.iter().zip(&inputs);
        let gone = gone
            .map(|((level, _), table)| (*level, table.file))
            .collect();
        let come = match job.trivial {
            true => inputs.clone(),
            false => match union(&inputs, self.keys_in_cell) {
                Some(merged) => self.tables(&merged, job.reason == Reason::Internal),
                None => Vec::new(),
            },
        };
        let come = come.into_iter().map(|table| (job.to, table)).collect();
        (Edit { gone, come }, inputs)
    }
}

impl Run {
    /// Begins a flush and jobs, where they are due.
    pub(super) fn begin_what_is_due(&mut self) {
        if self.flushing() == 0 {
            self.begin_flush();
        }
        let mut jobs = self
            .work
            .iter()
            .filter(|doing| doing.holds.is_some())
            .count();
        while jobs < self.setting.jobs {
            let Some(job) = self.next_job() else { break };
            self.begin_job(job);
            jobs += 1;
        }
    }

    fn next_job(&mut self) -> Option<Job> {
        let plan = self.store.level0_plan();
        let mut memory = std::mem::take(&mut self.store.memory);
        let work = {
            let seen = self.store.seen();
            let families = [FamilyLevels {
                family: CfId::DEFAULT,
                state: State {
                    levels: &seen.levels,
                    running: &self.store.held,
                },
                options: seen.options,
                cursors: &self.store.cursors,
                contents: &seen.contents,
            }];
            let levels = Levels {
                families: &families,
                level0: Some(&plan),
                pm_files: &[],
                is_past_share: false,
                relief: None,
                is_disk_full: false,
                internal_gave_up: false,
                refused: &[],
                charged: Charged::None,
            };
            let situation = Situation {
                levels: Some(levels),
                ..Situation::default()
            };
            next(&situation, &mut memory).work
        };
        self.store.memory = memory;
        match work {
            Work::Compact { job, .. } | Work::CompactInternal { job, .. } => Some(*job),
            _ => None,
        }
    }

    fn begin_job(&mut self, job: Job) {
        let (edit, inputs) = self.store.edit_of(&job);
        let bytes = |in_pm: bool, tables: &mut dyn Iterator<Item = &Table>| -> f64 {
            let some = tables.filter(|table| table.in_pm == in_pm);
            some.map(|table| self.store.bytes(table)).sum()
        };
        let read = bytes(false, &mut inputs.iter());
        let written = bytes(false, &mut edit.come.iter().map(|(_, table)| table));
        let into_pm = bytes(true, &mut edit.come.iter().map(|(_, table)| table));
        let (device_bytes, processor_ns) = match job.trivial {
            true => (0.0, 0.0),
            false => {
                let records: f64 = inputs.iter().map(Table::entries).sum();
                (
                    read + written,
                    records * self.store.memory.level0.units.internal,
                )
            }
        };
        if !job.trivial {
            self.outcome.compacted_bytes += written;
            self.outcome.pm_written_bytes += into_pm;
        }
        match job.is_internal() {
            true => self.outcome.jobs.0 += 1,
            false => self.outcome.jobs.1 += 1,
        }
        self.outcome.moved_bytes += device_bytes;
        self.store.cursors.note(&job);
        self.store.held.push(job.holds.clone());
        self.work.push(Doing {
            holds: Some(job.holds.clone()),
            device_bytes,
            processor_ns,
            what: What::Job(edit),
        });
    }
}
