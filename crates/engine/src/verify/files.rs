//! The tables and blob files of a database, and what refers to values in them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind::InvalidInput;
use std::path::Path;

use thermocline_base::progress::Course;
use thermocline_base::report::{Fault, Report};
use thermocline_base::{BlobRef, CfId, Error, FileId, Result};
use thermocline_catalog::files::files_in;
use thermocline_env::{File, OpenMode, Storage};
use thermocline_pm::PmOff;
use thermocline_sst::{
    BlobFile, BlobRecords, Identity, Verified, read_blob_of, verify_blobs_with, verify_table_with,
};
use thermocline_tables::{TableFile, file_name};
use thermocline_version::{FileKind, Origins, State, Version};

use crate::sync::Arc;

/// References from the region to values in blob files, by file: who refers to each value, by where that lies.
pub(super) type References = BTreeMap<FileId, BTreeMap<BlobRef, Referrer>>;

/// Who refers to a value in a blob file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Referrer {
    /// For messages.
    pub what: &'static str,
    /// Where that lies in the region; of an entry, where its group does.
    pub at: PmOff,
}

/// Whether a file is none of the database's any more, which somebody else has removed.
pub(super) type HasGone<'a> = &'a dyn Fn(FileId) -> Result<bool>;

/// Bytes of the tables and blob files that the manifest names, as it has them.
pub(super) fn bytes_of_files(state: &State) -> u64 {
    let version = &**state.version();
    let each = version.files().map(|(file, _)| version.file_bytes(file));
    each.fold(0, u64::saturating_add)
}

/// Reads every table and blob file that the manifest names, wholly; of the latter also whether what records and tables
/// refer to is there. Returns why files could not be read; the others were, but for those that have gone.
pub(super) fn check_files(
    (storage, dir, has_gone): (&Arc<dyn Storage>, &Path, HasGone<'_>),
    state: &State,
    references: &References,
    course: &mut Course<'_>,
    report: &mut Report,
) -> Vec<Error> {
    let Some(origins) = state.origins() else {
        return Vec::new();
    };
    let there = match files_in(&**storage, dir) {
        Ok(there) => there,
        Err(error) => return vec![error],
    };
    let version = &**state.version();
    let mut files = Files {
        storage,
        dir,
        origins,
        version,
        there: there.into_iter().collect(),
        sound: BTreeMap::new(),
        has_gone,
        report,
    };
    let mut unread = Vec::new();
    // What tables refer to is looked up in blob files that are known to be sound.
    for kind in [FileKind::Blob, FileKind::Table] {
        for (file, _) in version.files().filter(|(_, is)| *is == kind) {
            course.part(version.file_bytes(file));
            let checked = files.check(file, kind, references.get(&file), course);
            let missed = checked.err().filter(|_| !files.gone(file));
            unread.extend(missed);
        }
    }
    files.check_named(references);
    unread
}

struct Files<'a> {
    storage: &'a Arc<dyn Storage>,
    dir: &'a Path,
    origins: Origins,
    version: &'a Version,
    there: BTreeSet<(FileId, FileKind)>,
    /// The blob files in which no fault was found, but for those that have gone since then.
    sound: BTreeMap<FileId, (BlobFile, Arc<TableFile>)>,
    has_gone: HasGone<'a>,
    report: &'a mut Report,
}

impl Files<'_> {
    fn check(
        &mut self,
        file: FileId,
        kind: FileKind,
        references: Option<&BTreeMap<BlobRef, Referrer>>,
        course: &mut Course<'_>,
    ) -> Result<()> {
        let path = self.dir.join(file_name(file, kind).to_string());
        if !self.there.contains(&(file, kind)) {
            if self.gone(file) {
                return Ok(());
            }
            let place = path.display().to_string();
            let what = "a file that the manifest names is missing";
            let error = Error::corruption(what, place, 0, "a file", "no such file");
            return self.report.note(error);
        }
        let opened = match self.storage.open(&path, OpenMode::Read) {
            // A folder, a link, a device.
            Err(Error::Io { source, .. }) if source.kind() == InvalidInput => {
                let place = path.display().to_string();
                let what = "something else stands in a file's place";
                let error = Error::corruption(what, place, 0, "a file", source);
                return self.report.note(error);
            }
            opened => opened?,
        };
        let identity = Identity::new(self.origins.of(file), file);
        let verified = match kind {
            FileKind::Table => {
                let mut values = |cf, key: &[u8], blob| self.look_up(cf, key, blob);
                verify_table_with(&opened, identity, &mut values)
            }
            FileKind::Blob => self.check_blobs(&opened, identity, course)?,
        };
        self.report.records += verified.entries;
        self.report.bytes += opened.len()?;
        self.report.more_faults += verified.more_faults;
        // Of what cannot be read the first says enough.
        let mut read = Ok(());
        for fault in verified.faults {
            read = read.and(self.report.note(fault));
        }
        let found = match references {
            Some(references) => check_references(&opened, identity, references, self.report),
            None => Ok(()),
        };
        read.and(found)
    }

    /// A blob file, and whether it has as many bytes of values as the manifest counts: by that it is collected.
    fn check_blobs(
        &mut self,
        opened: &Arc<dyn File>,
        identity: Identity,
        course: &mut Course<'_>,
    ) -> Result<Verified> {
        let (file, path) = (identity.file, opened.path());
        let blob = self.version.blob_file(file);
        let bytes = blob.map_or(0, |blob| blob.bytes);
        // They have no bounds, as tables have.
        let mut passed = |bytes| course.advance(bytes);
        let verified = verify_blobs_with(opened, identity, bytes, &mut passed);
        if !verified.faults.is_empty() {
            return Ok(verified);
        }
        let (counted, has) = (blob.and_then(|blob| blob.value_bytes), verified.value_bytes);
        if let Some(counted) = counted.filter(|counted| *counted != has) {
            let (what, place) = ("bytes of values in a blob file", path.display().to_string());
            let error = Error::corruption(what, place, 0, counted, has);
            self.report.note(error)?;
        }
        let blobs = BlobFile::open(&**opened, identity)?;
        let kept = TableFile::open_blobs(self.storage, path.to_path_buf())?;
        self.sound.insert(file, (blobs, kept));
        Ok(verified)
    }

    /// Whether the value of a table's entry lies where that says. Damage of the blob file itself has been noted; and what stands outside of
    /// a table's parts may refer to one that has gone.
    fn look_up(&mut self, cf: CfId, key: &[u8], blob: BlobRef) -> Result<()> {
        let Some((blobs, file)) = self.sound.get(&blob.file) else {
            return Ok(());
        };
        let read = file.now();
        let read = read.and_then(|file| read_blob_of(blobs, &*file, (cf, key), blob));
        if read.is_err() && self.gone(blob.file) {
            // It does not come back. Each entry that refers to it would ask for that again.
            self.sound.remove(&blob.file);
            return Ok(());
        }
        read.map(drop)
    }

    /// Whether a file is the database's no more. Where that cannot be found out it is.
    fn gone(&self, file: FileId) -> bool {
        (self.has_gone)(file).unwrap_or(false)
    }

    /// Whether all files to which the region refers are named.
    fn check_named(&mut self, references: &References) {
        let named = |file: &FileId| self.version.blob_file(*file).is_some();
        for (file, references) in references.iter().filter(|(file, _)| !named(file)) {
            let Some(Referrer { what, at }) = references.values().next() else {
                continue;
            };
            self.report.faults.push(Fault {
                place: "the region".into(),
                offset: at.0,
                what: format!(
                    "{what} refers to blob file {file}, which the manifest does not name"
                ),
            });
        }
    }
}

/// Whether values begin in a blob file where the region says. Damage of the file itself has been noted; that it cannot be read now
/// has not.
fn check_references(
    file: &Arc<dyn File>,
    identity: Identity,
    references: &BTreeMap<BlobRef, Referrer>,
    report: &mut Report,
) -> Result<()> {
    let begins = || -> Result<BTreeSet<BlobRef>> {
        let opened = BlobFile::open(&**file, identity)?;
        let records = BlobRecords::new(&opened, &**file, file.len()?);
        records.map(|record| Ok(record?.blob)).collect()
    };
    let there = match begins() {
        Ok(there) => there,
        Err(Error::Corruption { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    for (blob, from) in references.iter().filter(|(blob, _)| !there.contains(blob)) {
        report.faults.push(Fault {
            place: file.path().display().to_string(),
            offset: blob.offset,
            what: format!(
                "no value is there, and {} at {} of the region refers to {blob}",
                from.what, from.at
            ),
        });
    }
    Ok(())
}
