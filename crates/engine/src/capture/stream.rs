//! What lives in persistent memory, written into tables of another place.

use std::path::PathBuf;

use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, Error, FileId, RangeTombstone, Result, SeqNo};
use thermocline_compaction::output::Cutter;
use thermocline_compaction::retain::Moments;
use thermocline_copies::Captured;
use thermocline_env::File;
use thermocline_jobs::sink::FileSink;
use thermocline_jobs::source::{Input, LastDeletes, RunInput, tombstones};
use thermocline_jobs::{Outputs, Recipe, below};
use thermocline_memtable::{Cover, Versions};
use thermocline_policy::tuning::JOB_KEYS;
use thermocline_sst::{Creation, Identity};
use thermocline_version::{Change, Level, Place, State, Version};

use super::Capture;
use crate::layout;
use crate::open::spec::stored;
use crate::sync::Arc;

impl Captured for Capture {
    fn seqno(&self) -> SeqNo {
        self.snapshot.seqno()
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn files(&self) -> &Arc<Version> {
        &self.below
    }

    fn kept(&self, file: FileId) -> Result<Option<Arc<dyn File>>> {
        let common = &self.snapshot.inner().common;
        match common.catalog.table_files.beside.kept(file) {
            Some(kept) => {
                let kept: Arc<dyn File> = kept;
                Ok(Some(kept))
            }
            None if common.is_beside => Err(Error::Busy(format!(
                "the process that writes to the database has replaced file {file} since it was opened here, and there were too few \
                 descriptors to keep it open; take the copy there"
            ))),
            None => Ok(None),
        }
    }

    fn check_names(&self) -> Result<()> {
        let common = &self.snapshot.inner().common;
        let (storage, dir) = (&*common.world.env.storage, &*common.dir);
        match !common.is_beside || layout::is_there(storage, dir, Some(common.db_id))? {
            true => Ok(()),
            false => Err(Error::Busy(format!(
                "the database in {} was destroyed since it was opened here, and what has the names of its files may be another one's",
                common.given.display()
            ))),
        }
    }

    fn options(&self) -> Vec<(String, String)> {
        stored(&Options {
            pm_path: None,
            wal_path: None,
            ..self.snapshot.inner().common.options.clone()
        })
    }

    fn write_rest(&self, next: &dyn Fn() -> Result<(PathBuf, Identity)>) -> Result<Vec<Change>> {
        stream(self, next)
    }
}

/// Writes what the capture sees of its memtables into tables that `next` names. Gives what an edit says of them; the
/// bytes are durable, the names are not.
///
/// Of each key, and of range tombstones over it, that goes which answers a reader at the capture's seqno.
/// Nobody reads a copy at an earlier moment.
fn stream(
    capture: &Capture,
    next: &dyn Fn() -> Result<(PathBuf, Identity)>,
) -> Result<Vec<Change>> {
    let inner = capture.snapshot.inner();
    let seqno = capture.snapshot.seqno();
    let shape = &inner.common.compactions.shape;
    let mut outputs = Outputs::default();
    for cf in capture.families() {
        let (range_tombstones, last) = range_tombstones(capture, cf, seqno)?;
        let meter = inner.common.meter();
        let tables = capture.written_anew.iter().filter(|(at, _)| at.cf == cf);
        let files = &inner.common.catalog.table_files;
        let tables = tables.map(|(_, t)| RunInput::new(files, cf, vec![t.clone()], &meter));
        let tables: Vec<RunInput<'_>> = tables.collect();
        let mut range_tombstones = range_tombstones;
        for table in &tables {
            range_tombstones.extend(table.tombstones()?);
        }
        let newest_first = capture.memtables.iter();
        let inputs = newest_first.filter_map(|m| {
            let first = capture.first_of(m, cf)?;
            Some(
                Versions::new(m, cf, JOB_KEYS)
                    .as_of(seqno)
                    .within(first, None),
            )
        });
        let inputs = inputs.map(Input::Memtable);
        let inputs = last.into_iter().map(Input::Last).chain(inputs);
        let inputs = inputs.chain(tables.into_iter().map(|run| Input::Run(Box::new(run))));
        let (place, storage) = (Place::new(cf, Level::ZERO), &*files.storage);
        let prefixes = inner
            .common
            .families
            .filter_prefix(cf, &inner.common.options);
        let options = shape.write_options(0, usize::MAX, Creation::Checkpoint);
        let options = options.with_prefixes(prefixes);
        let mut sink = FileSink::elsewhere(storage, next, place, options);
        let recipe = Recipe {
            cf,
            cutter: Cutter::new(
                shape.output_options(),
                capture.front_in(cf).into_iter().collect(),
                vec![],
            ),
            moments: Moments::new(vec![], seqno),
            tombstones: range_tombstones,
            below: below(capture.below.tables_of(cf).map(|(_, table)| table)),
            settled: seqno,
            exists: &|cf, key| capture.exists(cf, key),
            prefixes: None,
            counting: None,
            operator: inner.common.families.operator(cf),
            filter: None,
        };
        let (inputs, mut pace) = (inputs.collect(), |_| inner.common.check_open());
        inner
            .making
            .write_outputs(inputs, recipe, &mut sink, &mut pace, &mut outputs)?;
        // What could not be read looked like zeros.
        inner.common.space.region().check_media()?;
    }
    Ok(outputs.added().collect())
}

/// The range tombstones of a family that the capture sees in its memtables.
fn range_tombstones(
    capture: &Capture,
    cf: CfId,
    seqno: SeqNo,
) -> Result<(Vec<RangeTombstone>, Option<LastDeletes>)> {
    if !capture.exists(cf, b"") || active(Bug::CopyForgetsRanges) {
        return Ok(Default::default());
    }
    let memtables = &capture.memtables;
    let covers = memtables.iter().filter_map(|m| {
        let first = capture.first_of(m, cf)?;
        Some((m.cover(cf, seqno)?, first))
    });
    let covers: Vec<(Cover, &[u8])> = covers.collect();
    tombstones::of(&covers, memtables, capture.version(), cf)
}
