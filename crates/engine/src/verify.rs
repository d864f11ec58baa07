//! Checking a database without opening it for use: every checksum, every structural rule.

mod files;

use std::collections::BTreeMap;
use std::path::Path;

use thermocline_base::budget::{Account, Budget};
use thermocline_base::options::Options;
use thermocline_base::progress::{Course, Progress};
use thermocline_base::report::Report;
use thermocline_base::{BlobRef, Error, Result};
use thermocline_env::frugal::Frugal;
use thermocline_halloc::{Space, Zone};
use thermocline_memtable::Descriptor;
use thermocline_pm::PmOff;
use thermocline_version::{Manifest, State};

use files::{References, Referrer, bytes_of_files, check_files};

use crate::create::lacks_region;
use crate::layout;
use crate::open::spec::{described, open_space, replay_threads, settled};
use crate::pm_tables::verify_pm_tables;
use crate::recover;
use crate::recover::found::Found;
use crate::replay::Known;
use crate::world::World;

/// Checks the database in `dir`. Writes nothing.
///
/// # Errors
/// What keeps the check from being made: no database, locked, I/O errors. Damage is no error but a
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
    let _lock = layout::lock_to_read(&**storage, dir)?;
    let mut report = Report::default();
    let mut course = Course::new(observer);
    if let Err(error) = check((world, dir, &options), &mut course, &mut report) {
        report.note(error)?;
    }
    course.finish();
    Ok(report)
}

/// One part after the other, so that damage of one does not hide that of the next.
fn check(
    (world, dir, options): (&World, &Path, &Options),
    course: &mut Course<'_>,
    report: &mut Report,
) -> Result<()> {
    let (manifest, state) = Manifest::open(world.env.storage.clone(), dir, true)?;
    report.bytes += manifest.len();
    let (Some(db_id), Some(region_id)) = (state.db_id(), state.region_id()) else {
        let place = manifest.path().display().to_string();
        return Err(Error::corruption(
            "no creation in the manifest",
            place,
            0,
            "one",
            "none",
        ));
    };
    let mut references = BTreeMap::new();
    let region = match lacks_region(&state) {
        true => Ok(()),
        false => {
            let settled = settled(world, dir, options.clone(), &state, &region_id);
            settled.and_then(|options| {
                check_region(
                    (world, dir, &options),
                    &state,
                    &db_id,
                    &mut references,
                    course,
                    report,
                )
            })
        }
    };
    // Unless the region has begun it.
    course.begin(bytes_of_files(&state));
    let files = check_files(
        (&world.env.storage, dir),
        &state,
        &references,
        course,
        report,
    );
    let mut unread = Vec::new();
    for error in region.err().into_iter().chain(files) {
        unread.extend(report.note(error).err());
    }
    report.note_unread(dir, unread)
}

/// Reads all that lies in the region, or in logs: PM tables, and the chains with their records. Of what tells
/// where the chains are, and of the chains, the first fault ends it.
fn check_region(
    (world, dir, options): (&World, &Path, &Options),
    state: &State,
    db_id: &[u8; 16],
    references: &mut References,
    course: &mut Course<'_>,
    report: &mut Report,
) -> Result<()> {
    // Nobody's budget: it is gone when this returns.
    let account = Account::new(Budget::new(u64::MAX), u64::MAX);
    let opened = open_space(world, dir, options, state, &account)?;
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
