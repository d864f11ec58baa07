//! The values of blob files for a job that comes to them in the order of their keys.
//!
//! Jobs write values apart in that order, so what a job reads of a file follows what it has read of it, but for what is dead. It reads
//! each file on from there, in pieces as long as a [`Window`] says. There may be many files, as many as there were flushes: then their pieces are
//! shorter: each new one has its share of [`VALUES_IN_ORDER_BYTES`], and those that were read before keep theirs until they are done with.
//! A file is done with behind its last value, and has no share any more. If a job comes back to it, that begins anew.
//!
//! A piece is not believed sooner than a value that was read alone ([`Piece::value`]). What the cache has does not matter here, and
//! what is read does not come into it: the values move.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use thermocline_base::{BlobRef, CfId, FileId, Result};
use thermocline_env::meter::Meter;
use thermocline_exec::BatchRead;
use thermocline_policy::tuning::{VALUES_IN_ORDER_BYTES, VALUES_PIECE_BYTES};
use thermocline_sst::RECORD_HEADER_LEN;

use super::files::TableFiles;
use super::pieces::Piece;
use super::window::Window;

/// See the [module](self).
pub struct ValuesInOrder<'a> {
    files: &'a TableFiles,
    cf: CfId,
    meter: &'a Arc<Meter>,
    of: RefCell<BTreeMap<FileId, OneFile>>,
}

/// What is known of a file.
#[derive(Default)]
struct OneFile {
    window: Window,
    /// Where the last value lies.
    last: Range<u64>,
    piece: Option<Piece>,
    /// How long it is, once a value of it was read.
    len: Option<u64>,
}

impl OneFile {
    /// The job goes on to this value, where up to `most` bytes are read at a time.
    fn go_to(&mut self, blob: BlobRef, most: u64) {
        let len = u64::from(blob.len);
        let end = self.last.end;
        match (end..end.saturating_add(most)).contains(&blob.offset) {
            true => self.window.go_on(len),
            false => self.window.begin_anew(len),
        }
        self.last = blob.offset..blob.offset.saturating_add(len);
    }
}

impl<'a> ValuesInOrder<'a> {
    /// Of a family. `meter` counts what is read.
    pub fn new(files: &'a TableFiles, cf: CfId, meter: &'a Arc<Meter>) -> ValuesInOrder<'a> {
        ValuesInOrder {
            files,
            cf,
            meter,
            of: RefCell::default(),
        }
    }

    /// What counts.
    pub fn meter(&self) -> &Arc<Meter> {
        self.meter
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// As [`TableFiles::read_blob`].
    pub fn read(&self, key: &[u8], blob: BlobRef) -> Result<Vec<u8>> {
        let mut of = self.of.borrow_mut();
        let most = (VALUES_IN_ORDER_BYTES / (of.len() as u64 + 1)).min(VALUES_PIECE_BYTES);
        let one = of.entry(blob.file).or_default();
        let value = self.read_of(one, (key, blob), most)?;
        // It is open now.
        let open = || self.files.open_blobs(blob.file);
        let len = *one
            .len
            .get_or_insert_with(|| open().map_or(u64::MAX, |of| of.len));
        let record = (RECORD_HEADER_LEN + key.len()) as u64;
        let behind = len.saturating_sub(one.last.end.saturating_add(record));
        // What is left is no record.
        if behind < RECORD_HEADER_LEN as u64 {
            of.remove(&blob.file);
        }
        Ok(value)
    }

    /// The value of `key`, in this file.
    fn read_of(
        &self,
        one: &mut OneFile,
        (key, blob): (&[u8], BlobRef),
        most: u64,
    ) -> Result<Vec<u8>> {
        let len = u64::from(blob.len);
        one.go_to(blob, most);
        let ready = |piece: &Piece| piece.value((self.cf, key), blob);
        if let Some(value) = one.piece.as_ref().and_then(ready) {
            return Ok(value);
        }
        // First, so that the two are not there at once.
        one.piece = None;
        let window = one.window.next_piece(len, most);
        // A piece that holds no more than its value is read alone.
        if window > len + (RECORD_HEADER_LEN + key.len()) as u64 {
            one.piece = self.piece(blob, window);
            if let Some(value) = one.piece.as_ref().and_then(ready) {
                return Ok(value);
            }
        }
        self.meter.has_read(len);
        let alone = || self.files.read_blob_past_cache(self.cf, key, blob);
        let read = || self.files.reader().for_job(alone);
        self.meter.reading(read)
    }

    /// Bytes from a value on, if they can be read. If not, what is wrong may lie behind the value: that is read alone, and says it.
    fn piece(&self, blob: BlobRef, len: u64) -> Option<Piece> {
        let of = self.files.open_blobs(blob.file).ok()?;
        let file = of.file.now().ok()?;
        let len = len.min(of.len.checked_sub(blob.offset)?);
        let read = BatchRead {
            file: &*file,
            offset: blob.offset,
            len: usize::try_from(len).ok()?,
        };
        let read = || self.files.reader().read_of_job(&read);
        let bytes = self.meter.reading(read).ok()?;
        self.meter.has_read(len);
        Some(Piece {
            of: of.opened.clone(),
            file: blob.file,
            at: blob.offset,
            bytes,
        })
    }

    /// Bytes of DRAM that it takes.
    pub fn memory(&self) -> u64 {
        let of = self.of.borrow();
        let pieces = of.values().filter_map(|one| one.piece.as_ref());
        pieces.map(|piece| piece.bytes.len() as u64).sum()
    }
}
