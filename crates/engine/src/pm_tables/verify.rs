//! Checking PM tables of a database that is not open.

use thermocline_base::Result;
use thermocline_base::progress::Course;
use thermocline_base::report::Report;
use thermocline_halloc::{Space, Zone};
use thermocline_level0::{NoteBlob, PmTable, verify_table_with};
use thermocline_version::Version;

/// Reads every byte of every PM table that `version` names, and notes what is wrong: of each table the first. `notes` is shown
/// what the tables refer to in blob files. The zones are those of the space, by owner and ordinal.
pub(crate) fn verify_pm_tables(
    (space, zones): (&Space, &[Zone]),
    (version, db_id): (&Version, [u8; 16]),
    notes: NoteBlob<'_>,
    course: &mut Course<'_>,
    report: &mut Report,
) -> Result<()> {
    for (info, _) in version.pm_tables() {
        let own = Zone::of_owner(zones, info.meta.owner);
        let opened = PmTable::open(space.region(), db_id, info.meta.clone(), own);
        match opened.and_then(|table| verify_table_with(&table, &mut *notes)) {
            Ok(verified) => {
                report.records += verified.entries + verified.range_tombstones;
                report.bytes += verified.bytes;
                course.advance(verified.bytes);
            }
            Err(error) => report.note(error)?,
        }
    }
    Ok(())
}
