//! Appending to a log.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result};
use thermocline_env::direct::{DIRECT_UNIT, DeviceBytes};
use thermocline_env::{File, OpenMode, Storage};
use thermocline_exec::AlignedBuf;

use crate::format::{FRAME_ALIGN, FrameHeader, HEADER_BYTES, LogId};
use crate::{SITE_FRAMES, SITE_LOG_MADE};

/// Zeros that are written ahead of the end at a time, at first and at most.
const GROWTH_BYTES_MIN: u64 = 16 << 10;
/// A log grows by at most so many bytes at a time.
pub const GROWTH_BYTES_MAX: u64 = 4 << 20;

/// Buffers above this are not kept from one sync to the next.
const KEEP_BYTES: usize = 1 << 20;

const PAGE: u64 = DIRECT_UNIT as u64;

/// Appends frames to a log. See the crate's documentation.
#[derive(Debug)]
pub struct LogWriter {
    id: LogId,
    seed: u64,
    file: Arc<dyn File>,
    /// What the file has from `page` on: what is written of the last page, then what is not written yet.
    tail: AlignedBuf,
    /// Where `tail` begins.
    page: u64,
    /// Up to here the file has bytes that can be written over.
    grown: u64,
    /// Whether something was appended since the last sync.
    dirty: bool,
    /// Why nothing can be written any more (invariant 4).
    failed: Option<String>,
}

impl LogWriter {
    /// Makes a log. The file is durable on return; its name is, once the caller has synced the folder.
    ///
    /// # Errors
    /// Those of the storage, after which there may be a file of that name.
    pub fn create(
        storage: &dyn Storage,
        path: &Path,
        id: LogId,
        counter: &Arc<DeviceBytes>,
    ) -> Result<LogWriter> {
        let file = storage.open_direct(path, OpenMode::CreateNew, counter)?;
        LogWriter::begin(file, id)
    }

    /// As [`LogWriter::create`], in the file of a log that is not needed any more and that lies at `path`
    /// by now: nothing there will ever be read, and what it has room for need not be grown.
    ///
    /// # Errors
    /// As [`LogWriter::create`].
    pub fn reuse(
        storage: &dyn Storage,
        path: &Path,
        id: LogId,
        counter: &Arc<DeviceBytes>,
    ) -> Result<LogWriter> {
        let file = storage.open_direct(path, OpenMode::ReadWrite, counter)?;
        LogWriter::begin(file, id)
    }

    fn begin(file: Arc<dyn File>, id: LogId) -> Result<LogWriter> {
        let mut header = AlignedBuf::zeroed(DIRECT_UNIT);
        let bytes = id.encode();
        header[..bytes.len()].copy_from_slice(&bytes);
        file.write_at(&header, 0)?;
        file.sync(SITE_LOG_MADE)?;
        // What is less than a page at its end cannot be written over in pages.
        let grown = file.len()? / PAGE * PAGE;
        Ok(LogWriter {
            id,
            seed: id.seed(),
            file,
            tail: AlignedBuf::new(),
            page: HEADER_BYTES,
            grown: grown.max(HEADER_BYTES),
            dirty: false,
            failed: None,
        })
    }

    /// Whose log it is.
    pub fn id(&self) -> &LogId {
        &self.id
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Where the next frame goes.
    pub fn end(&self) -> u64 {
        self.page + self.tail.len() as u64
    }

    /// Up to here the file has bytes that can be written over: frames that end there or before need no room
    /// of the device any more.
    pub fn reserved(&self) -> u64 {
        self.grown
    }

    /// Sees to it that the file has bytes that can be written over up to `end`, and for later some more, if the device
    /// has them. Nothing is synced, and what was appended stays as it is.
    ///
    /// # Errors
    /// Those of the storage, if it does not reach `end`: nothing has happened but that the file may be longer, and it
    /// may be tried again. [`Error::Poisoned`] after an earlier failure.
    pub fn reserve(&mut self, end: u64) -> Result<()> {
        self.check()?;
        if end <= self.grown {
            return Ok(());
        }
        let from = self.grown;
        let refused = self.grow_from(from, end.next_multiple_of(PAGE))?;
        match refused {
            Some(error) if self.grown < end => Err(error),
            _ => Ok(()),
        }
    }

    /// Bytes that are kept in memory: what was appended and is not written yet, and what is before that on its page.
    pub fn waiting(&self) -> usize {
        self.tail.len()
    }

    fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |cause| {
            Err(Error::Poisoned(format!("an earlier write failed: {cause}")))
        })
    }

    /// Appends a frame, which is durable after the next [`LogWriter::sync`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a payload that is empty, or longer than 2^32 - 1 bytes: nothing
    /// was appended.
    pub fn append(&mut self, payload: &[u8]) -> Result<()> {
        let header = FrameHeader::encode(self.seed, self.end(), payload)?;
        self.tail.extend_from_slice(&header);
        self.tail.extend_from_slice(payload);
        self.tail
            .resize(self.tail.len().next_multiple_of(FRAME_ALIGN));
        self.dirty = true;
        Ok(())
    }

    /// Writes the whole pages of what was appended, so that less than a page of it is kept in memory. Nothing is
    /// synced, and nothing grows for later: it is durable after the next [`LogWriter::sync`].
    ///
    /// # Errors
    /// As [`LogWriter::sync`].
    pub fn write_out(&mut self) -> Result<()> {
        self.check()?;
        let len = self.tail.len();
        let whole = len - len % DIRECT_UNIT;
        if whole == 0 {
            return Ok(());
        }
        if let Err(error) = self.file.write_at(&self.tail[..whole], self.page) {
            self.failed = Some(error.to_string());
            return Err(error);
        }
        self.tail.copy_within(whole..len, 0);
        self.tail.resize(len - whole);
        self.page += whole as u64;
        // No zeros come to lie there.
        self.grown = self.grown.max(self.page);
        Ok(())
    }

    /// Makes durable what was appended.
    ///
    /// # Errors
    /// Those of the storage: what is durable is unknown, and from now on nothing is written any more;
    /// [`Error::Poisoned`] then.
    pub fn sync(&mut self) -> Result<()> {
        self.check()?;
        if !self.dirty {
            return Ok(());
        }
        let written = self.write();
        if let Err(error) = &written {
            self.failed = Some(error.to_string());
        }
        written
    }

    fn write(&mut self) -> Result<()> {
        let len = self.tail.len();
        // Whole pages, of which the last ends with zeros.
        self.tail.resize(len.next_multiple_of(DIRECT_UNIT));
        let end = self.page + self.tail.len() as u64;
        if len > 0 {
            self.file.write_at(&self.tail, self.page)?;
        }
        self.grow(end)?;
        if !active(Bug::ForgetLogSync) {
            self.file.sync(SITE_FRAMES)?;
        }
        let kept = len % DIRECT_UNIT;
        let whole = len - kept;
        if self.tail.capacity() > KEEP_BYTES && kept < KEEP_BYTES {
            let mut tail = AlignedBuf::zeroed(kept);
            tail.copy_from_slice(&self.tail[whole..len]);
            self.tail = tail;
        } else {
            self.tail.copy_within(whole..len, 0);
            self.tail.resize(kept);
        }
        self.page += whole as u64;
        self.dirty = false;
        Ok(())
    }

    /// Sees to it that the pages behind `end`, up to which the file was written, can be written over.
    fn grow(&mut self, end: u64) -> Result<()> {
        if end < self.grown {
            return Ok(());
        }
        // It is for later: where there is no room each sync writes the new length.
        self.grow_from(end, end).map(drop)
    }

    /// Writes zeros from `at`, behind which the file has nothing, up to `end` and as far again, unless the device is full:
    /// then returns what it said.
    fn grow_from(&mut self, mut at: u64, end: u64) -> Result<Option<Error>> {
        let end = end + end.clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX) / PAGE * PAGE;
        const PIECE: u64 = 256 << 10;
        let zeros = AlignedBuf::zeroed(usize::try_from(PIECE.min(end - at)).unwrap_or(DIRECT_UNIT));
        let mut refused = None;
        while at < end {
            let n = usize::try_from(end - at).unwrap_or(zeros.len());
            let n = n.min(zeros.len());
            match self.file.write_at(&zeros[..n], at) {
                Err(error) if error.is_no_room() => {
                    // A part of the piece may be there: it has taken the last room that the device had.
                    let len = self.file.len().unwrap_or(at);
                    at = at.max(len / PAGE * PAGE);
                    refused = Some(error);
                    break;
                }
                written => written?,
            }
            at += n as u64;
        }
        self.grown = at;
        Ok(refused)
    }
}
