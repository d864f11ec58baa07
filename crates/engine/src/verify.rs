//! Checking a database without opening it for use: every checksum, every structural rule.

mod files;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use thermocline_base::budget::{Account, Budget};
use thermocline_base::options::Options;
use thermocline_base::progress::{Course, Progress};
use thermocline_base::report::{Fault, Report};
use thermocline_base::{BlobRef, Error, Result};
use thermocline_env::frugal::Frugal;
use thermocline_halloc::{Space, Zone};
use thermocline_memtable::Descriptor;
use thermocline_pm::PmOff;
use thermocline_version::{Manifest, State};

use files::{HasGone, References, Referrer, bytes_of_files, check_files};

use crate::create::lacks_region;
use crate::layout::{self, ReadLock};
use crate::open::beside::{Moments, known_by, named_since, passing};
use crate::open::spec::{Beside, described, open_space, replay_threads, settled};
use crate::pm_tables::verify_pm_tables;
use crate::recover;
use crate::recover::found::Found;
use crate::replay::Known;
use crate::world::World;

/// What is checked, and how.
type Place<'a> = (&'a World, &'a Path, &'a Options);

/// Checks the database in `dir`. Writes nothing. Somebody may write to it meanwhile.
///
/// # Errors
/// What keeps the check from being made: no database, or one that is destroyed meanwhile, so many writes that no moment lasts until it is copied, I/O errors. Damage is no error but a
/// fault in the report, and beside damage so is what cannot be read.
pub fn verify(world: &World, dir: &Path, options: &Options) -> Result<Report> {
    verify_observed(world, dir, options, &mut |_| {})
}

/// As [`verify`]. `observer` is told how many bytes are checked, of those that zones of the region, or of logs, have, and files by
/// the manifest. A part with damage counts as a whole. Before the first call the region is opened, or logs are read.
///
/// # Errors
/// As [`verify`].
pub fn verify_observed(
    world: &World,
    dir: &Path,
    options: &Options,
    observer: &mut dyn FnMut(Progress),
) -> Result<Report> {
    let options = Options {
        read_only: true,
        ..options.clone()
    };
    layout::check_path(dir)?;
    // There may be more blob files than descriptors.
    let mut world = world.clone();
    world.env.storage = Frugal::new(world.env.storage.clone());
    let (world, storage) = (&world, &world.env.storage);
    if !storage.is_dir(dir)? || !Manifest::exists(&**storage, dir)? {
        return Err(layout::no_database(&**storage, dir));
    }
    let lock = layout::lock_to_read(&**storage, dir)?;
    let mut report = Report::default();
    let mut course = Course::new(observer);
    let place = (world, dir, &options);
    let checked = match lock {
        ReadLock::Held(_lock) => check(place, &mut course, &mut report),
        ReadLock::Beside => check_beside(place, &mut course, &mut report),
    };
    if let Err(error) = checked {
        report.note(error)?;
    }
    course.finish();
    Ok(report)
}

/// Checks a database to which nobody writes.
fn check(place: Place<'_>, course: &mut Course<'_>, report: &mut Report) -> Result<()> {
    let (world, dir, _) = place;
    let (manifest, state) = Manifest::open(world.env.storage.clone(), dir, true)?;
    let mut references = BTreeMap::new();
    report.bytes += manifest.len();
    let ids = ids_of(&manifest, &state)?;
    let region = check_region(place, (&state, ids, None), &mut references, course, report);
    let never: HasGone<'_> = &|_| Ok(false);
    finish(place, region, (&state, &references, never), course, report)
}

/// Checks a database to which somebody writes: of a moment what lies in its region, or in logs, and of its files those that are not
/// replaced before their turn comes.
fn check_beside(place: Place<'_>, course: &mut Course<'_>, report: &mut Report) -> Result<()> {
    let (world, dir, options) = place;
    let storage = &world.env.storage;
    let (state, part, references, region) = Moments::default().first_whole(|moments| {
        course.again();
        let (manifest, mut state) = Manifest::open(storage.clone(), dir, true)?;
        let (mut part, mut references) = (Report::default(), BTreeMap::new());
        part.bytes += manifest.len();
        let (db_id, region_id) = ids_of(&manifest, &state)?;
        // One that is being made has no region yet, and nothing to find it by.
        let beside = match lacks_region(&state) {
            true => Beside::default(),
            false => {
                let options = settled(world, dir, options.clone(), &state, &region_id)?;
                moments.copied((world, dir, &options), &state, &region_id)?
            }
        };
        let of = (&state, (db_id, region_id), Some(&beside));
        let region = check_region(place, of, &mut references, course, &mut part);
        state.apply(&named_since(&beside, (storage, dir), &state)?)?;
        match is_so(moments, &mut part, &region) {
            true => Ok((state, part, references, region)),
            false => Err(passing()),
        }
    })?;
    report.add(part);
    let is_there = || layout::is_there(&**storage, dir, state.db_id());
    let has_gone: HasGone<'_> = &|file| {
        if !is_there()? {
            return Ok(true);
        }
        let (_, now) = Manifest::open(storage.clone(), dir, true)?;
        Ok(now.version().file(file).is_none())
    };
    let of = (&state, &references, has_gone);
    let finished = finish(place, region, of, course, report);
    match is_there() {
        Ok(false) => Err(Error::InvalidArgument(format!(
            "the database in {} was destroyed while it was checked",
            dir.display()
        ))),
        _ => finished,
    }
}

/// Whether what was found is what there is. A fault that the moment before did not have may be of something that is being written: it
/// is left out.
fn is_so(moments: &mut Moments, part: &mut Report, region: &Result<()>) -> bool {
    let told = |fault: &Fault| format!("{fault:?}");
    let ended = region.as_ref().err().map(known_by);
    let faults = part.faults.iter().map(told);
    let wrong: BTreeSet<String> = faults.chain(ended.clone()).collect();
    if wrong.is_empty() {
        return true;
    }
    let twice = moments.twice(wrong);
    part.faults.retain(|fault| twice.contains(&told(fault)));
    match ended {
        Some(error) => twice.contains(&error),
        None => !part.faults.is_empty(),
    }
}

/// The ids of database and region.
fn ids_of(manifest: &Manifest, state: &State) -> Result<([u8; 16], [u8; 16])> {
    state.db_id().zip(state.region_id()).ok_or_else(|| {
        let place = manifest.path().display().to_string();
        Error::corruption("no creation in the manifest", place, 0, "one", "none")
    })
}

/// Checks the files, too, so that damage of one part does not hide that of the next.
fn finish(
    (world, dir, _): Place<'_>,
    region: Result<()>,
    (state, references, has_gone): (&State, &References, HasGone<'_>),
    course: &mut Course<'_>,
    report: &mut Report,
) -> Result<()> {
    // Unless the region has begun it.
    course.begin(bytes_of_files(state));
    let place = (&world.env.storage, dir, has_gone);
    let files = check_files(place, state, references, course, report);
    let mut unread = Vec::new();
    for error in region.err().into_iter().chain(files) {
        unread.extend(report.note(error).err());
    }
    report.note_unread(dir, unread)
}

/// Reads all that lies in the region, or in logs: PM tables, and the chains with their records. Of what tells
/// where the chains are, and of the chains, the first fault ends it.
fn check_region(
    (world, dir, options): Place<'_>,
    (state, (db_id, region_id), beside): (&State, ([u8; 16], [u8; 16]), Option<&Beside>),
    references: &mut References,
    course: &mut Course<'_>,
    report: &mut Report,
) -> Result<()> {
    if lacks_region(state) {
        return Ok(());
    }
    let db_id = &db_id;
    let options = &settled(world, dir, options.clone(), state, &region_id)?;
    // Nobody's budget: it is gone when this returns.
    let account = Account::new(Budget::new(u64::MAX), u64::MAX);
    let opened = open_space((world, dir, options), state, &account, beside)?;
    let (space, zones, loaded) = (opened.space, opened.zones, opened.loaded.as_ref());
    let in_zones = bytes_in(&zones);
    course.begin(in_zones.saturating_add(bytes_of_files(state)));
    course.part(in_zones);
    // An open passes over these, as long as the other copy serves.
    for fault in space.rotten_copies()? {
        report.note(fault)?;
    }
    // As an open does, which refuses this.
    if let Err(error) = recover::check_witness(&space, state) {
        report.note(error)?;
    }
    let mut notes = |blob: BlobRef, at: PmOff| {
        // To what a table refers that nobody reads any more, that may have gone with its file.
        if state.version().blob_file(blob.file).is_some() {
            note_reference(references, blob, "an entry of a PM table", at);
        }
    };
    verify_pm_tables(
        (&space, &zones),
        (state.version(), *db_id),
        &mut notes,
        course,
        report,
    )?;
    let descriptors = match loaded {
        None => Descriptor::read_all(&space, db_id)?,
        Some(_) => described(&space, db_id, state, loaded)?,
    };
    let threads = replay_threads(options, world);
    let found = recover::find(db_id, &space, &zones, state, &descriptors, loaded, threads)?;
    // A memtable has no chain until the first write.
    let written = state
        .memtables()
        .iter()
        .filter(|(_, g)| !g.chains.is_empty());
    let ids: Vec<u64> = written.map(|(id, _)| *id).collect();
    let known = Known::of(state);
    check_records((&space, &known), (&found, &ids), references, course, report)
}

/// Bytes for data in zones.
fn bytes_in(zones: &[Zone]) -> u64 {
    let each = zones
        .iter()
        .map(|zone| zone.end.0.saturating_sub(zone.data.0));
    each.fold(0, u64::saturating_add)
}

/// Notes that something at `at` of the region refers to a value in a blob file.
fn note_reference(references: &mut References, blob: BlobRef, what: &'static str, at: PmOff) {
    let of_file = references.entry(blob.file).or_default();
    of_file.entry(blob).or_insert(Referrer { what, at });
}

/// Reads every record of every kept item, values included. Notes what those of families that exist refer to.
fn check_records(
    (space, known): (&Space, &Known),
    (found, ids): (&Found, &[u64]),
    references: &mut References,
    course: &mut Course<'_>,
    report: &mut Report,
) -> Result<()> {
    // Memtables without indexes: they know the chains and so the seeds of the checksums.
    let memtables = found.shells(space, ids, None)?;
    for (id, _, end) in found.chains() {
        let Some(memtable) = memtables.iter().find(|m| m.id() == id) else {
            continue;
        };
        for item in end.items.iter().flatten() {
            report.bytes += u64::from(item.bytes);
            let offsets = match memtable.record_offsets(item) {
                Ok(offsets) => offsets,
                Err(error) => {
                    report.note(error)?;
                    continue;
                }
            };
            for at in offsets {
                report.records += 1;
                let record = match memtable.checked_record(at) {
                    Ok(record) => record,
                    Err(error) => {
                        report.note(error)?;
                        continue;
                    }
                };
                if let Some(blob) = record.blob()
                    && known.admits(space, at, memtable.family_of(at)?, record.key)?
                {
                    note_reference(references, blob, "a record", at);
                }
            }
            course.advance(u64::from(item.bytes));
        }
    }
    Ok(())
}
