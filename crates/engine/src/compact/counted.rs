//! What a version knows of the values in blob files (`collect` says when one is alive).

use std::collections::BTreeSet;

use thermocline_base::FileId;
use thermocline_policy::collect::{BlobFile, Referring};
use thermocline_version::{TableRef, Version};

/// The files whose values are counted.
fn counted(version: &Version) -> Vec<BlobFile> {
    let files = version.blob_files().filter_map(|(file, blob)| {
        // What nothing refers to goes by itself.
        let bytes = blob.value_bytes.filter(|_| blob.references > 0)?;
        let live = blob.referenced_bytes;
        Some(BlobFile { file, bytes, live })
    });
    files.collect()
}

/// The files to which these tables refer, by number.
pub(super) fn referred(version: &Version, tables: impl Fn(&TableRef) -> bool) -> Vec<FileId> {
    let families = version.families();
    let all = families.flat_map(|cf| version.tables_of(cf));
    let of = all.filter(|(_, table)| tables(table));
    let files = of.flat_map(|(_, table)| table.blobs.iter().map(|blob| blob.file));
    let mut files: Vec<FileId> = files.collect();
    files.sort_unstable();
    files
}

/// The files that tables on the SSD can let go of: all references to them are there, and in none of the tables that are
/// `passed_over`. Empty if no file has garbage, or seems to.
pub(super) fn collectable(version: &Version, passed_over: &BTreeSet<FileId>) -> Vec<BlobFile> {
    let mut files = counted(version);
    if files.iter().all(|of| of.live >= of.bytes) {
        return Vec::new();
    }
    let stays = |table: &TableRef| {
        version.pm_table(table.file).is_some() || passed_over.contains(&table.file)
    };
    let stay = referred(version, stays);
    files.retain(|of| stay.binary_search(&of.file).is_err());
    files
}

/// The tables on the SSD that refer to values.
pub(super) fn referring(version: &Version) -> Referring {
    let tables = version.tables().map(|(_, table)| table);
    let refer = tables.filter(|table| !table.blobs.is_empty());
    let on_ssd = refer.filter(|table| version.pm_table(table.file).is_none());
    on_ssd.fold(Referring::default(), |all, table| Referring {
        tables: all.tables + 1,
        bytes: all.bytes + table.bytes,
    })
}
