//! What is known of the garbage in blob files, and of the tables that refer to it.
//!
//! # When is a byte dead
//! A value is needed by records in persistent memory, or by tables. Of tables each edit says how many bytes they refer to in
//! which file, so what a version says of that is exact, as durable as the version, and the same after a crash: a
//! compaction that drops a reference takes it out of the sum by the edit that installs its outputs. With the bytes of
//! values, which the edit that names the file has (`Change::BlobValues`), the rest is garbage. It is known where all
//! references are in whole tables on the SSD:
//! - *records* of memtables in the view are not counted, so that a file which one of them has noted is left alone;
//! - *tables in persistent memory* leave it before they can be written anew here, and their files wait until then;
//! - *parts of tables* refer to no bytes by their estimate, so that what they refer to is unknown until they are merged.
//!
//! A value that a snapshot alone needs is in a table, and so counts as needed.
//!
//! # What a collection does
//! `policy::collect` chooses the victims, and `policy::pick` the tables that refer to them. A job writes those anew, and
//! whatever job runs meanwhile does the same with what it reads: values move out of the victims into new files
//! (`jobs::sink`). When the last reference is gone an edit removes the file, and it goes when no version that is held names
//! it (`blobs::remove`). So a collection is a compaction: paced, crash-safe and valid by the same argument.
//!
//! A memtable that was flushed, or a change feed, may still refer to a victim. Its file is named as long as that is so: what
//! moved is there twice for that long.

use thermocline_base::FileId;
use thermocline_policy::collect::{self, BlobFile, Refers};
use thermocline_version::{TableRef, Version};

use super::costs::OfFamily;
use crate::store::Common;
use crate::sync::Arc;

/// The victims of now, by number.
pub(crate) fn victims(version: &Version, common: &Common) -> Vec<FileId> {
    let most = common.options.blob.space_percent_max;
    let counted = version.blob_files().filter_map(|(file, blob)| {
        // What nothing refers to goes by itself.
        let bytes = blob.value_bytes.filter(|_| blob.references > 0)?;
        let live = blob.referenced_bytes;
        Some(BlobFile { file, bytes, live })
    });
    let mut files: Vec<BlobFile> = counted.collect();
    // What is not counted seems to be garbage: without that there is no more.
    if !collect::is_due(&files, most) {
        return Vec::new();
    }
    {
        let view = common.catalog.view();
        let homes = || view.memtables.iter().flat_map(|memtable| memtable.homes());
        files.retain(|of| !homes().any(|home| home.blobs().has(of.file)));
    }
    let families = version.families();
    let tables = families.flat_map(|cf| version.tables_of(cf));
    let unknown = tables
        .map(|(_, table)| &**table)
        .filter(|table| !is_counted(version, table));
    let mut unknown: Vec<FileId> = unknown
        .flat_map(|table| table.blobs.iter().map(|blob| blob.file))
        .collect();
    unknown.sort_unstable();
    files.retain(|of| unknown.binary_search(&of.file).is_err());
    collect::victims(&files, most)
}

/// Whether a table can be written anew on the SSD, and says exactly what it refers to.
fn is_counted(version: &Version, table: &TableRef) -> bool {
    !table.is_part() && version.pm_table(table.file).is_none()
}

/// What the tables of `families`, which are those of `version`, refer to in victims.
pub(crate) fn refers(version: &Version, families: &[OfFamily<'_>], common: &Common) -> Vec<Refers> {
    let victims = victims(version, common);
    if victims.is_empty() {
        return Vec::new();
    }
    let in_victims = |table: &Arc<TableRef>| -> u64 {
        let blobs = table.blobs.iter();
        let blobs = blobs.filter(|blob| victims.binary_search(&blob.file).is_ok());
        blobs.map(|blob| blob.bytes).sum()
    };
    let mut refers = Vec::new();
    for of in families {
        for (level, tables) in of.levels.refs.iter().enumerate() {
            for (place, table) in tables.iter().enumerate() {
                let bytes = in_victims(table);
                if bytes > 0 {
                    let family = of.cf;
                    refers.push(Refers {
                        family,
                        level,
                        place,
                        bytes,
                    });
                }
            }
        }
    }
    refers
}
