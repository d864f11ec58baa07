//! What a version knows of the values in blob files (`collect` says when one is alive).

use thermocline_base::FileId;
use thermocline_policy::collect::{self, BlobFile};
use thermocline_version::{TableRef, Version};

/// The files whose values are counted.
pub(super) fn counted(version: &Version) -> Vec<BlobFile> {
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

/// Bytes of garbage in files that can be collected, and of what is alive there; none of both where nothing is due.
pub(super) fn debt(version: &Version, percent_max: u64) -> (u64, u64) {
    let mut files = counted(version);
    if !collect::is_due(&files, percent_max) {
        return (0, 0);
    }
    let in_pm = referred(version, |table| version.pm_table(table.file).is_some());
    files.retain(|of| in_pm.binary_search(&of.file).is_err());
    let live = files.iter().map(|of| of.live).sum();
    let all: u64 = files.iter().map(|of| of.bytes).sum();
    (all.saturating_sub(live), live)
}
