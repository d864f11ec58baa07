//! Checking a database without opening it for use: every checksum, every structural rule.

use std::path::Path;

use thermocline_base::budget::{Account, Budget};
use thermocline_base::options::Options;
use thermocline_base::{Error, Result};
use thermocline_env::OpenMode;
use thermocline_halloc::Space;
use thermocline_memtable::Descriptor;
use thermocline_sst::{Identity, table_name, verify_table};
use thermocline_version::{FileKind, Manifest, State, VersionSet};

use crate::create::lacks_region;
use crate::flush::files_in;
use crate::layout::LOCK_NAME;
use crate::open::{described, open_space, replay_threads, settled};
use crate::recover::{self, Found};
use crate::store::World;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file or region.
    pub place: String,
    /// The offset in it.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Everything that is wrong; of a file with very many faults the first ones.
    pub faults: Vec<Fault>,
    /// How many more there are.
    pub more_faults: u64,
    /// Records and entries of tables whose checksums were checked.
    pub records: u64,
    /// Bytes of items and of the manifest that were checked.
    pub bytes: u64,
}

impl Report {
    /// Notes a corruption; any other error is the caller's.
    pub(crate) fn note(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Corruption {
                what,
                place,
                offset,
                expected,
                got,
            } => {
                let what = format!("{what} (expected {expected}, got {got})");
                self.faults.push(Fault {
                    place,
                    offset,
                    what,
                });
                Ok(())
            }
            other => Err(other),
        }
    }
}

/// Checks the database in `dir`. Writes nothing.
///
/// # Errors
/// What keeps the check from being made: no database, locked, I/O errors. Damage is no error but a
/// fault in the report.
pub fn verify(world: &World, dir: &Path, options: &Options) -> Result<Report> {
    let options = Options {
        read_only: true,
        ..options.clone()
    };
    let storage = &world.env.storage;
    if !storage.is_dir(dir)? || !Manifest::exists(&**storage, dir)? {
        return Err(Error::InvalidArgument(format!(
            "there is no database in {}",
            dir.display()
        )));
    }
    let _lock = storage.lock_shared(&dir.join(LOCK_NAME))?;
    let mut report = Report::default();
    if let Err(error) = check(world, dir, &options, &mut report) {
        report.note(error)?;
    }
    Ok(report)
}

fn check(world: &World, dir: &Path, options: &Options, report: &mut Report) -> Result<()> {
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
    if lacks_region(&state) {
        return check_tables(world, dir, &state, report);
    }
    let options = &settled(world, dir, options.clone(), &state, &region_id)?;
    // Nobody's budget: it is gone when this returns.
    let account = Account::new(Budget::new(u64::MAX), u64::MAX);
    let opened = open_space(world, dir, options, &state, &account)?;
    let (space, zones, loaded) = (opened.space, opened.zones, opened.loaded.as_ref());
    let descriptors = match loaded {
        None => Descriptor::read_all(&space, &db_id)?,
        Some(_) => described(&space, &db_id, &state, loaded)?,
    };
    let threads = replay_threads(options, world);
    let found = recover::find(
        &db_id,
        &space,
        &zones,
        &state,
        &descriptors,
        loaded,
        threads,
    )?;
    // A generation has no chain until the first write.
    let written = state
        .generations()
        .iter()
        .filter(|(_, g)| !g.chains.is_empty());
    let generations: Vec<u64> = written.map(|(id, _)| *id).collect();
    check_records(&space, &found, &generations, report)?;
    check_tables(world, dir, &state, report)
}

/// Reads every table that the manifest names, wholly.
fn check_tables(world: &World, dir: &Path, state: &State, report: &mut Report) -> Result<()> {
    let storage = &world.env.storage;
    // Whether all are there.
    VersionSet::new(state).sweep(&files_in(&**storage, dir)?)?;
    let Some(origins) = state.origins() else {
        return Ok(());
    };
    let files = state.version().files();
    for (file, _) in files.filter(|(_, kind)| *kind == FileKind::Table) {
        let table = storage.open(&dir.join(table_name(file)), OpenMode::Read)?;
        let verified = verify_table(&table, Identity::new(origins.of(file), file));
        report.records += verified.entries;
        report.bytes += table.len()?;
        report.more_faults += verified.more_faults;
        for fault in verified.faults {
            report.note(fault)?;
        }
    }
    Ok(())
}

/// Reads every record of every kept item, values included.
fn check_records(
    space: &Space,
    found: &Found,
    generations: &[u64],
    report: &mut Report,
) -> Result<()> {
    // Memtables without indexes: they know the chains and so the seeds of the checksums.
    let memtables = found.shells(space, generations, None)?;
    for (generation, _, end) in found.chains() {
        let Some(memtable) = memtables.iter().find(|m| m.generation() == generation) else {
            continue;
        };
        for item in end.items.iter().flatten() {
            report.bytes += u64::from(item.bytes);
            for at in memtable.record_offsets(item)? {
                report.records += 1;
                if let Err(error) = memtable.checked_record(at) {
                    report.note(error)?;
                }
            }
        }
    }
    Ok(())
}
