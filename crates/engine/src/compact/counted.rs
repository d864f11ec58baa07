//! What a version knows of the values in blob files (`collect` says when one is alive).

use std::collections::{BTreeMap, BTreeSet};

use thermocline_base::FileId;
use thermocline_policy::collect::small::{Small, are_many, is_small};
use thermocline_policy::collect::{BlobFile, Referring};
use thermocline_version::{Level, TableRef, Version};

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

/// What a version knows of a file whose values are counted.
pub(super) fn of_file(version: &Version, file: FileId) -> Option<BlobFile> {
    let blob = version.blob_file(file)?;
    Some(BlobFile {
        file,
        bytes: blob.value_bytes?,
        live: blob.referenced_bytes,
    })
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
    let files = counted(version);
    if files.iter().all(|of| of.live >= of.bytes) {
        return Vec::new();
    }
    movable(files, version, passed_over)
}

/// The same, whatever garbage there is.
pub(super) fn all_movable(version: &Version, passed_over: &BTreeSet<FileId>) -> Vec<BlobFile> {
    movable(counted(version), version, passed_over)
}

fn movable(
    mut files: Vec<BlobFile>,
    version: &Version,
    passed_over: &BTreeSet<FileId>,
) -> Vec<BlobFile> {
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
        bytes: all.bytes.saturating_add(table.bytes),
    })
}

/// Whether a family may have too many files that are small, where one ends with `file_bytes`.
pub(super) fn are_many_small(version: &Version, file_bytes: u64) -> bool {
    are_many(counted(version).iter().map(|of| of.live), file_bytes)
}

/// The small ones among `files`, and what refers to them: tables of one family, none of which is in level 0.
pub(super) fn small_ones(version: &Version, files: &[BlobFile], file_bytes: u64) -> Vec<Small> {
    let small = files.iter().filter(|of| is_small(of.live, file_bytes));
    let live: BTreeMap<FileId, u64> = small.map(|of| (of.file, of.live)).collect();
    let mut found: BTreeMap<FileId, Small> = BTreeMap::new();
    let mut stay: BTreeSet<FileId> = BTreeSet::new();
    for (place, table) in version.tables() {
        for blob in &table.blobs {
            let Some(&live) = live.get(&blob.file) else {
                continue;
            };
            let of = found.entry(blob.file).or_insert_with(|| Small {
                file: blob.file,
                family: place.cf,
                live,
                tables: Vec::new(),
            });
            of.tables.push((table.file, table.bytes));
            if place.level == Level::ZERO || of.family != place.cf {
                stay.insert(blob.file);
            }
        }
    }
    found.retain(|file, _| !stay.contains(file));
    found.into_values().collect()
}
