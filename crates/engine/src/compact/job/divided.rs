//! A job in parts, each with keys of its own (`policy::split`), which are coroutines (`jobs::run_parts`).
//!
//! # The argument
//! Parts meet nowhere: a key and all its versions are in one part, and range tombstones are cut where parts end. So the tables
//! of all parts, in the order of keys, are what one merge might have written that ended a table there. One edit names them.
//!
//! A job is not divided that ends when it has written enough (in persistent memory, or for what its edit would name), or whose family's
//! filter is asked, which sees keys in their order.

use thermocline_base::{RangeTombstone, Result};
use thermocline_env::meter::Meter;
use thermocline_jobs::sink::{Apart, FileSink};
use thermocline_jobs::source::{Input, RunInput};
use thermocline_policy::split::cuts;
use thermocline_policy::tuning::NAMED_WHOLE_PARTS;
use thermocline_tables::{TableFiles, ValuesInOrder, Writes};
use thermocline_version::TableRef;

use super::picked::Job;
use crate::store::Compactor;
use crate::sync::Arc;

/// The keys of a part: from here on, and before there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
}

impl Keys {
    /// All keys, or those before that one.
    fn whole(to: Option<&[u8]>) -> Vec<Keys> {
        let (from, to) = (Vec::new(), to.map(<[u8]>::to_vec));
        vec![Keys { from, to }]
    }

    /// All keys, cut before these, which ascend.
    fn divided(before: impl Iterator<Item = Vec<u8>>) -> Vec<Keys> {
        let mut all = Keys::whole(None);
        for key in before {
            let last = all.last_mut().expect("there is one from the beginning");
            last.to = Some(key.clone());
            all.push(Keys {
                from: key,
                to: None,
            });
        }
        all
    }

    /// The parts of range tombstones that lie within.
    pub fn tombstones(&self, all: &[RangeTombstone]) -> Vec<RangeTombstone> {
        let cut = |t: &RangeTombstone| {
            let part = t.borrowed().cut(Some(&self.from), self.to.as_deref());
            Some(part?.owned())
        };
        all.iter().filter_map(cut).collect()
    }

    /// What the runs of a family have of these keys.
    pub fn inputs<'a>(
        &self,
        files: &'a TableFiles,
        (job, meter): (&Job, &'a Meter),
        runs: &[Vec<Arc<TableRef>>],
    ) -> Vec<Input<'a>> {
        let may_have = |table: &&Arc<TableRef>| {
            let is_before = self.to.as_ref().is_none_or(|to| *table.range.first < **to);
            is_before && !table.range.ends_before(&self.from)
        };
        let own = |run: &Vec<Arc<TableRef>>| -> Vec<Arc<TableRef>> {
            run.iter().filter(may_have).cloned().collect()
        };
        let own = runs.iter().map(own).filter(|run| !run.is_empty());
        own.map(|run| {
            let run = RunInput::new(files, job.cf, run, meter);
            Input::Run(Box::new(run.within(&self.from, self.to.as_deref())))
        })
        .collect()
    }
}

impl Compactor {
    /// The parts of a job that reads `runs`: one of all keys, or more.
    pub(super) fn divide(&self, job: &Job, runs: &[Vec<Arc<TableRef>>], asks: bool) -> Vec<Keys> {
        let staged = self.common.catalog.table_files.staged();
        let largest = runs.iter().max_by_key(|run| bytes_of(run));
        let (Some(staged), Some(run)) = (staged, largest) else {
            return Keys::whole(job.until());
        };
        // It is likely to write tables of as many, and as long, keys as it takes: each part has a share.
        let ends_early = NAMED_WHOLE_PARTS * job.named() > job.names_max;
        if asks || ends_early || job.promise.is_some() || job.picked.is_within_level0() {
            return Keys::whole(job.until());
        }
        let mut run: Vec<_> = run.iter().collect();
        run.sort_by(|a, b| a.range.first.cmp(&b.range.first));
        let bytes: Vec<u64> = run.iter().map(|table| table.bytes).collect();
        let target = self.common.compactions.shape.geometry().table_bytes;
        let total = runs.iter().map(|run| bytes_of(run));
        let total = total.fold(0, u64::saturating_add);
        let cuts = cuts(&bytes, total, staged.coroutines, target);
        Keys::divided(cuts.into_iter().map(|n| run[n].range.first.to_vec()))
    }

    /// Where tables of the parts of a job go that lie in files, and values beside them, which `values` read, one for each part.
    pub(super) fn file_sinks<'a>(
        &'a self,
        job: &Job,
        values: &'a [ValuesInOrder<'a>],
    ) -> Vec<FileSink<'a>> {
        let tables = job.inputs.iter().map(|(_, table)| &**table);
        let victims = self.picker.victims_for(job.picked.reason, tables);
        let writes = match values.len() {
            1 => Writes::Whole,
            _ => Writes::Divided,
        };
        let names_max = job.names_max / values.len().max(1) as u64;
        let sink = |values: &'a ValuesInOrder<'a>| {
            let apart = Apart {
                writes,
                ..self.making.apart(job.cf, victims.clone(), values)
            };
            FileSink::new(&self.common.catalog, job.place(), self.write_options(job))
                .apart(apart)
                .making(writes)
                .metered(values.meter().clone())
                .naming(names_max)
        };
        values.iter().map(sink).collect()
    }

    /// Into how many parts a job would be divided of which nothing is passed over.
    #[cfg(test)]
    pub(crate) fn parts_of(&self, job: &Job) -> usize {
        self.divide(job, &job.runs, false).len()
    }

    /// The range tombstones of runs that a job takes.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn tombstones_of(
        &self,
        job: &Job,
        runs: &[Vec<Arc<TableRef>>],
        meter: &Meter,
    ) -> Result<Vec<RangeTombstone>> {
        let files = &*self.common.catalog.table_files;
        let mut tombstones = Vec::new();
        for run in runs {
            let mut run = run.clone();
            run.sort_by(|a, b| a.range.first.cmp(&b.range.first));
            for table in run {
                // To open many of them takes long.
                self.common.check_open()?;
                let alone = RunInput::new(files, job.cf, vec![table], meter);
                tombstones.extend(alone.tombstones()?);
            }
        }
        Ok(tombstones)
    }
}

fn bytes_of(run: &[Arc<TableRef>]) -> u64 {
    run.iter().map(|table| table.bytes).sum()
}
