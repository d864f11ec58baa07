//! The state of a copy: a database with an id of its own.

use std::cell::Cell;
use std::path::Path;

use thermocline_base::{FileId, Result, SeqNo};
use thermocline_env::Random;
use thermocline_sst::{Identity, table_name};
use thermocline_version::{Change, NO_REGION, NextIds, State, VersionEdit};

use super::note::Note;
use crate::store::Captured;

/// The ids of a new copy of a database: its own, and its region's. A copy has records in DRAM if its original has,
/// and then no region.
///
/// # Errors
/// Those of randomness.
pub(crate) fn draw_ids(of: &State, random: &dyn Random) -> Result<([u8; 16], [u8; 16])> {
    let (mut db_id, mut region_id) = ([0; 16], NO_REGION);
    random.fill(&mut db_id)?;
    if of.region_id() != Some(NO_REGION) {
        random.fill(&mut region_id)?;
    }
    Ok((db_id, region_id))
}

/// The state of a copy that has everything up to `seqno`, and goes on behind that, whatever its tables have: the last records may have
/// been deletes of nothing, or of a family that was dropped. If it gave such a seqno out again, who follows it from `seqno` on would
/// miss what has that.
pub(crate) fn behind(mut state: State, seqno: SeqNo) -> Result<State> {
    if seqno.0 > state.flushed_up_to() {
        state.apply(&Change::FlushedUpTo { seqno: seqno.0 }.into())?;
    }
    Ok(state)
}

/// Writes the records of a moment that lie outside of files into tables of a folder with a note. Gives the state of a
/// new database with these tables and the files of the moment.
pub(crate) fn write_state(
    captured: &impl Captured,
    random: &dyn Random,
    (dir, note): (&Path, &Note),
) -> Result<State> {
    let of = captured.state();
    let (db_id, region_id) = draw_ids(of, random)?;
    let (files, options) = (captured.files().clone(), captured.options());
    let mut state = of.copied(files, options, db_id, region_id)?;
    // Not 0, as everywhere.
    let next = Cell::new(state.next_ids().file.max(1));
    let tables = captured.write_rest(&|| {
        let file = FileId(next.replace(next.get() + 1));
        let (identity, name) = (Identity::new(db_id, file), table_name(file));
        note.record([name.clone()])?;
        Ok((dir.join(name), identity))
    })?;
    if !tables.is_empty() {
        let ids = NextIds {
            file: next.get(),
            ..state.next_ids()
        };
        let mut edit = VersionEdit::from(Change::NextIds(ids));
        edit.changes.extend(tables);
        state.apply(&edit)?;
    }
    // Blob files that only records referred to that the copy does not have.
    let files = state.version().blob_files();
    let unreferenced = files.filter(|(_, blob)| blob.references == 0);
    let removed = unreferenced.map(|(file, _)| Change::BlobFileRemoved { file });
    let edit = VersionEdit {
        changes: removed.collect(),
    };
    if !edit.changes.is_empty() {
        state.apply(&edit)?;
    }
    Ok(state)
}
