//! Bringing the long values of a batch into a blob file.

use thermocline_base::planted::{Bug, active};
use thermocline_base::{BatchEntry, CfId, Error, FileId, Kind, Result};
use thermocline_memtable::{BLOB_REF_LEN, encode_blob_ref, item_bytes};
use thermocline_sst::{BlobMeta, BlobWriter, sites};
use thermocline_version::{Change, FileKind, VersionEdit};

use super::Hold;
use crate::store::Stager;
use crate::sync::{AtomicU64, Ordering};

/// A batch whose long values lie in a blob file, which is held.
#[derive(Debug)]
pub(crate) struct Separated {
    /// In the order of the long values.
    references: Vec<[u8; BLOB_REF_LEN]>,
    inline_max: usize,
    /// How long those are together.
    bytes: u64,
    hold: Hold,
    /// Bytes that are owed once the batch is written: of a write that does not wait, its long values.
    pub owes: u64,
}

/// Bytes that are being written, as long as it lives.
struct Coming<'a> {
    of: &'a AtomicU64,
    bytes: u64,
    /// With those of others.
    all: u64,
}

impl Coming<'_> {
    fn new(of: &AtomicU64, bytes: u64) -> Coming<'_> {
        let all = bytes + of.fetch_add(bytes, Ordering::SeqCst);
        Coming { of, bytes, all }
    }
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

fn is_long(entry: &BatchEntry<'_>, inline_max: usize) -> bool {
    entry.value.len() > inline_max && entry.kind == Kind::Put && entry.cf != CfId::METADATA
}

impl Separated {
    /// The batch that it was made of, with references in place of long values; and what it takes as an item.
    pub fn entries<'s, 'a: 's>(
        &'s self,
        entries: impl Iterator<Item = BatchEntry<'a>>,
    ) -> (Vec<BatchEntry<'s>>, u64) {
        let mut references = self.references.iter();
        let mut replaced: Vec<BatchEntry<'s>> = Vec::new();
        for entry in entries {
            replaced.push(match is_long(&entry, self.inline_max) {
                false => entry,
                true => BatchEntry {
                    kind: Kind::PutBlob,
                    value: references.next().expect("there is one for each"),
                    ..entry
                },
            });
        }
        let bytes = item_bytes(replaced.iter().copied());
        (replaced, bytes)
    }

    /// What keeps the file: to be dropped when the write is finished, or has failed.
    pub fn into_hold(self) -> Hold {
        self.hold
    }
}

impl Stager {
    /// Brings the long values of a batch that takes `bytes` bytes as an item into a blob file; `None` if it has
    /// none. They are held back as other writes are, before anything is done for them. The caller holds no lock.
    ///
    /// # Errors
    /// As [`Admission::hold_back`](crate::store::Admission), and those of the file system, [`Error::OutOfSpace`] if the disk is full: nothing was
    /// written. A failed sync of the folder or write to the manifest, which poisons the store.
    #[inline]
    pub fn separate<'a>(
        &self,
        entries: impl Iterator<Item = BatchEntry<'a>> + Clone,
        bytes: u64,
        no_slowdown: bool,
    ) -> Result<Option<Separated>> {
        let most = self.common.options.blob.inline_bytes_max;
        if bytes <= most {
            return Ok(None);
        }
        self.separate_long(entries, no_slowdown)
    }

    #[cold]
    fn separate_long<'a>(
        &self,
        entries: impl Iterator<Item = BatchEntry<'a>> + Clone,
        no_slowdown: bool,
    ) -> Result<Option<Separated>> {
        let inline_max = thermocline_base::size::index(self.common.options.blob.inline_bytes_max);
        let long = entries.clone().filter(|entry| is_long(entry, inline_max));
        if long.clone().next().is_none() {
            return Ok(None);
        }
        let bytes = long.clone().map(|entry| entry.value.len() as u64).sum();
        let events = &self.common.events;
        let coming = self.find_disk(bytes, no_slowdown);
        let coming = coming.inspect_err(|error| events.refused(bytes, error))?;
        let gate = self.sweeper.blobs.gate.enter();
        // Again, since the store may have been closed meanwhile.
        self.common.check_writable()?;
        self.common.families.check_write(entries)?;
        let file = self.common.catalog.pin_file(FileKind::Blob)?;
        // Before it is named: see `remove`.
        let hold = self.sweeper.blobs.hold(file);
        let written = self.write_values(file, long);
        self.common.catalog.unpin_files([file].into_iter());
        drop(coming);
        self.pressure.press();
        match written {
            Ok(references) => Ok(Some(Separated {
                references,
                inline_max,
                bytes,
                hold,
                owes: if no_slowdown { bytes } else { 0 },
            })),
            Err(error) => {
                events.refused(bytes, &error);
                drop(gate);
                drop(hold);
                self.sweeper.discard_blobs();
                Err(error)
            }
        }
    }

    /// The batch with these long values was written, or was refused: then nobody needs them. Only with its record they are taken,
    /// for which there may be no room.
    pub fn end_separated(&self, separated: Separated, written: &Result<()>) {
        self.admission.owe_for(separated.owes, written);
        if written.is_ok() {
            self.common.events.accepted(separated.bytes);
        }
        drop(separated);
        if written.is_err() {
            self.sweeper.discard_blobs();
        }
    }

    /// Room on the disk for `bytes` bytes.
    fn find_disk(&self, bytes: u64, no_slowdown: bool) -> Result<Coming<'_>> {
        match no_slowdown {
            // It owes when it is written: the record that names the values would be refused for what they owe.
            true => self.admission.refuse_if_owed()?,
            false => self.admission.hold_back(bytes, false, || false)?,
        }
        // What others write just now has not taken its room yet.
        let coming = Coming::new(&self.sweeper.blobs.coming, bytes);
        self.admission.check_disk(coming.all)?;
        Ok(coming)
    }

    /// Steps 2 and 3.
    fn write_values<'a>(
        &self,
        file: FileId,
        long: impl Iterator<Item = BatchEntry<'a>>,
    ) -> Result<Vec<[u8; BLOB_REF_LEN]>> {
        let written = self.write_file(file, long);
        let (references, made) = written.map_err(|error| self.without_disk(error))?;
        if !active(Bug::NameBeforeSync) {
            // What is durable of the folder is unknown if this fails, and asking again might not tell.
            let storage = &self.common.catalog.table_files.blob_storage;
            let synced = storage.sync_dir(&self.common.dir, sites::FILE_NAMED);
            synced.map_err(|error| self.common.poison.poison_if_sync(error))?;
        }
        if !active(Bug::BlobUnnamed) {
            let mut edit = VersionEdit::new();
            let bytes = made.bytes;
            let values = Change::BlobValues {
                file,
                bytes: made.value_bytes,
            };
            let told = self.common.catalog.edits().state().has_long_values();
            if !told && !active(Bug::LongValuesUntold) {
                edit.changes.push(Change::LongValues);
            }
            self.common.catalog.edit(
                &edit
                    .with(Change::BlobFileAdded { file, bytes })
                    .with(values),
            )?;
        }
        Ok(references)
    }

    /// Step 2, but for the folder.
    fn write_file<'a>(
        &self,
        file: FileId,
        long: impl Iterator<Item = BatchEntry<'a>>,
    ) -> Result<(Vec<[u8; BLOB_REF_LEN]>, BlobMeta)> {
        let catalog = &self.common.catalog;
        let files = &catalog.table_files;
        let path = files.blob_path(file);
        let writer = BlobWriter::create(&*files.blob_storage, &path, files.identity(file));
        let writer = writer.map_err(|error| catalog.not_made(file, error))?;
        let mut writer = writer.through(|file| files.new_files.begin(file));
        let mut references = Vec::new();
        for entry in long {
            let blob = writer.append(entry.cf, entry.key, entry.value)?;
            references.push(encode_blob_ref(blob));
        }
        Ok((references, writer.finish()?))
    }

    /// Of a file that nobody knows yet: that the disk is full is no more than that.
    fn without_disk(&self, error: Error) -> Error {
        match &error {
            Error::Io { .. } if error.is_no_room() => Error::OutOfSpace(format!(
                "the disk of {} has no room for a long value: make room there, or delete and compact; reads and \
                 deletes go on ({error})",
                self.common.given.display()
            )),
            _ => error,
        }
    }
}
