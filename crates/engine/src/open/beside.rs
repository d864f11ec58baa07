//! Reading a store beside a process that writes to it.
//!
//! # What is read
//! A *moment*: what the store was when it was opened here, and nothing of what comes after. The process that writes is not
//! asked, does not notice, and waits for nobody.
//!
//! # Why it is one
//! 1. The manifest is read first. It may be read beside whoever writes it: what it says then is a state that the store had.
//! 2. What lies in persistent memory is copied ([`thermocline_halloc::RegionCopy`]), of all owners of zones that the manifest names.
//! 3. The manifest is read again. Zones become free only behind an edit that takes their owner out (`reclaim`,
//!    `pm_tables`). So if it still names all owners, nothing of theirs was overwritten before the copy was done. If it does not, the
//!    moment is gone, and the next one is tried, with what is copied of owners that are still there.
//! 4. Where logs have the records, those are read between the two in place of 2, behind 7.
//! 5. A record that was copied may be younger than what the manifest said first, and refer to a blob file that was named after it.
//!    Before its record a file is named (`blobs`), so the manifest says so by now: these files belong to the moment, too.
//! 6. So it is with families that were made, dropped or changed meanwhile, and with the first prepared transaction. That is rare, and the
//!    next moment is tried.
//! 7. The files of tables are opened, and stay open (`tables::beside`), before records are indexed, which may take longer than tables
//!    last. A file that is not there any more is not named any more: the next moment is tried.
//!
//! From then on it is a store that is open for reading only. What it found is what a crash at that moment could have left, so it is
//! opened as after a crash: writes that were under way are cut off behind the last one before which none is missing.
//!
//! # What is damage
//! What is missing may have been written while it was copied. So whatever looks like damage is looked at again, in a new copy. If that
//! has the same of the same place it is damage: where somebody writes, the place moves on.
//!
//! # What it takes
//! Memory for what lies in persistent memory, beside `dram`, and a descriptor for each file, up to half of those that there are.

use std::collections::BTreeSet;
use std::path::Path;

use thermocline_base::options::Options;
use thermocline_base::{Error, FileId, Result};
use thermocline_env::Storage;
use thermocline_halloc::RegionCopy;
use thermocline_version::{Change, Manifest, NO_REGION, NextIds, State, VersionEdit};

use super::named::Named;
use super::spec::{Beside, live_owners, region_spec};
use crate::sync::Arc;
use crate::world::World;

/// So many moments are tried. Each is copied faster than the one before, as less has changed.
const TRIES: usize = 100;

/// Tries moments, until one is whole.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    copy: RegionCopy,
    /// What was wrong with the one before.
    wrong: BTreeSet<String>,
    tried: usize,
}

impl Moments {
    /// What `take` makes of a moment.
    ///
    /// # Errors
    /// Damage, as it was found twice; [`Error::Busy`] if so much is written that no moment lasts; others of `take`.
    pub fn first_whole<T>(mut self, mut take: impl FnMut(&mut Moments) -> Result<T>) -> Result<T> {
        loop {
            match take(&mut self) {
                Err(error) => self.passes_over(error)?,
                taken => return taken,
            }
        }
    }

    /// Whether another moment may have another answer.
    fn passes_over(&mut self, error: Error) -> Result<()> {
        self.tried += 1;
        if self.tried == TRIES {
            return Err(Error::Busy(format!(
                "the process that writes to the database replaces what is read here faster than it can be copied \
                 ({TRIES} times; the last one: {error}); try again when it writes less, or take a checkpoint there"
            )));
        }
        match error {
            Error::Busy(_) => Ok(()),
            Error::Corruption { .. } | Error::Io { .. } | Error::Locked { .. } => {
                match self.twice([known_by(&error)].into()).is_empty() {
                    true => Ok(()),
                    false => Err(error),
                }
            }
            other => Err(other),
        }
    }

    /// What of this was wrong with the moment before, too. The next one is copied as a whole.
    pub fn twice(&mut self, wrong: BTreeSet<String>) -> BTreeSet<String> {
        self.copy.forget();
        let twice = &self.wrong & &wrong;
        self.wrong = wrong;
        twice
    }

    /// The region of the database in `dir` as its manifest has it.
    pub fn copied(
        &mut self,
        (world, dir, options): (&World, &Path, &Options),
        state: &State,
        region_id: &[u8; 16],
    ) -> Result<Beside> {
        if *region_id == NO_REGION || world.sim.is_some() {
            return Ok(Beside::default());
        }
        let spec = region_spec(world, dir, options, region_id)?;
        let live = live_owners(state);
        // The newest memtable is written to, or the one before it, where the next is named ahead. A chain of it may begin in a zone
        // of any chain that it had before.
        let newest = state.memtables().values().rev().take(2);
        let growing = newest.flat_map(|memtable| &memtable.chains);
        let growing: BTreeSet<u64> = growing.map(|chain| chain.id).collect();
        let (live, growing) = (
            |owner: u64| live.contains(&owner),
            |owner: u64| growing.contains(&owner),
        );
        let region = self.copy.take(&spec, region_id, (&live, &growing))?;
        Ok(Beside {
            region: Some(region),
            since: check_lasts(&world.env.storage, dir, state)?,
        })
    }
}

/// What has been named since the manifest was read, to which what was read may refer. It is asked for when all was read.
///
/// # Errors
/// [`Error::Busy`] for a moment of which something may be overwritten.
pub(crate) fn named_since(
    beside: &Beside,
    (storage, dir): (&Arc<dyn Storage>, &Path),
    state: &State,
) -> Result<VersionEdit> {
    match &beside.region {
        Some(_) => Ok(beside.since.clone()),
        // Logs were read since then.
        None => check_lasts(storage, dir, state),
    }
}

/// Refuses a moment of which something may be overwritten. Of others it returns what was named meanwhile.
///
/// # Errors
/// [`Error::Busy`].
fn check_lasts(storage: &Arc<dyn Storage>, dir: &Path, state: &State) -> Result<VersionEdit> {
    let (_, now) = Manifest::open(storage.clone(), dir, true)?;
    let is_there = live_owners(state).is_subset(&live_owners(&now));
    match is_there && is_alike(state, &now) {
        true => Ok(new_blob_files(state, &now)),
        false => Err(passing()),
    }
}

/// Whether one database had the same families, with the same options, at both times, and prepared transactions or not. Records that were
/// copied may be younger than a change of that.
fn is_alike(before: &State, now: &State) -> bool {
    let of = |state: &State| (state.db_id(), state.region_id(), state.may_have_prepared());
    let mut families = before.families().keys();
    of(before) == of(now)
        && before.families() == now.families()
        && families.all(|id| before.family_options(*id) == now.family_options(*id))
}

/// The blob files that were named between two states.
fn new_blob_files(before: &State, now: &State) -> VersionEdit {
    let mut edit = VersionEdit::new();
    if now.has_long_values() && !before.has_long_values() {
        edit.changes.push(Change::LongValues);
    }
    let file = now.next_ids().file;
    if file > before.next_ids().file {
        let ids = before.next_ids();
        edit.changes.push(Change::NextIds(NextIds { file, ..ids }));
    }
    let is_new = |file: FileId| before.version().file(file).is_none();
    let files = now.version().blob_files();
    for (file, blob) in files.filter(|(file, _)| is_new(*file)) {
        let bytes = blob.bytes;
        edit.changes.push(Change::BlobFileAdded { file, bytes });
        let values = blob.value_bytes;
        let values = values.map(|bytes| Change::BlobValues { file, bytes });
        edit.changes.extend(values);
    }
    edit
}

/// By what an error is known again in the next moment. What should be there is no part of it: all up to what was known to be durable
/// should, and that moves on where somebody writes, though the place that is damaged stays. So what tells two moments apart that are not
/// damaged is in what is there.
pub(crate) fn known_by(error: &Error) -> String {
    match error {
        Error::Corruption {
            what,
            place,
            offset,
            got,
            ..
        } => format!("{what} at {offset} of {place}: {got}"),
        other => other.to_string(),
    }
}

/// Why another moment is tried.
pub(crate) fn passing() -> Error {
    Error::Busy("what was read was replaced or written meanwhile".into())
}

/// What is named now, and a copy of what it needs.
pub(super) fn named(
    moments: &mut Moments,
    (world, dir, options): (&World, &Path, &Options),
) -> Result<Named> {
    let mut named = Named::read(world.clone(), dir, options.clone())?;
    let region_id = named.state.region_id().unwrap_or(NO_REGION);
    let place = (&named.world, dir, &named.options);
    let mut beside = moments.copied(place, &named.state, &region_id)?;
    let since = std::mem::take(&mut beside.since);
    named.manifest.learn(&since)?;
    named.state.apply(&since)?;
    named.beside = Some(beside);
    Ok(named)
}
