//! Finding what a log has.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::size::index;
use thermocline_base::{Error, Result};
use thermocline_env::{File, OpenMode, Storage};

use crate::SITE_KEPT;
use crate::format::{
    FRAME_ALIGN, FRAME_HEADER, FrameHeader, HEADER_BYTES, HEADER_LEN, LogId, frame_bytes,
};

/// What is read at a time, unless a frame has more.
const WINDOW: u64 = 1 << 20;

/// A frame whose checksums hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Where it begins in the file. If that is not where the one before ended, something between them
    /// is damaged, torn, or of an earlier life of the file.
    pub at: u64,
    /// What it carries.
    pub payload: &'a [u8],
}

/// Reads a log from its beginning. Behind what is no frame every place where one could begin is tried,
/// up to the end of the file. It takes no more memory than the longest frame that verifies has bytes, and a
/// little more.
#[derive(Debug)]
pub struct LogReader {
    file: Arc<dyn File>,
    id: LogId,
    seed: u64,
    len: u64,
    /// Where the next frame is looked for.
    at: u64,
    window: Vec<u8>,
    /// Where the window begins in the file.
    from: u64,
}

impl LogReader {
    /// Opens the log `path` and reads whose it is.
    ///
    /// # Errors
    /// [`Error::Corruption`] naming file and offset if its header is damaged; [`Error::Unsupported`] if a
    /// newer version wrote it; those of the storage.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<LogReader> {
        let file = storage.open(path, OpenMode::Read)?;
        LogReader::of(file)
    }

    fn of(file: Arc<dyn File>) -> Result<LogReader> {
        let len = file.len()?;
        if len < HEADER_BYTES {
            let place = file.path().display().to_string();
            let what = "a log is shorter than its header";
            return Err(Error::corruption(what, place, len, HEADER_BYTES, len));
        }
        let mut header = [0; HEADER_LEN];
        file.read_exact_at(&mut header, 0)?;
        let id = LogId::decode(&header, file.path())?;
        Ok(LogReader {
            file,
            id,
            seed: id.seed(),
            len,
            at: HEADER_BYTES,
            window: Vec::new(),
            from: 0,
        })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Whose it is.
    pub fn id(&self) -> &LogId {
        &self.id
    }

    /// Sees to it that it is the log `wanted`.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is another one.
    pub fn expect(&self, wanted: &LogId) -> Result<()> {
        if self.id == *wanted {
            return Ok(());
        }
        let words = |id: &LogId| {
            let db_id = u128::from_be_bytes(id.db_id);
            format!(
                "log {} of database {db_id:032x}, nonce {:016x}",
                id.log, id.nonce
            )
        };
        let place = self.file.path().display().to_string();
        let what = "this is another log than its name says";
        Err(Error::corruption(
            what,
            place,
            16,
            words(wanted),
            words(&self.id),
        ))
    }

    /// The next frame; `None` if there is none up to the end of the file.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>> {
        while self.at + FRAME_HEADER as u64 <= self.len {
            let at = self.at;
            if let Some(len) = self.frame_at(at)? {
                self.at = at + frame_bytes(len);
                let start = index(at - self.from) + FRAME_HEADER;
                let payload = &self.window[start..start + index(len)];
                return Ok(Some(Frame { at, payload }));
            }
            self.at += FRAME_ALIGN as u64;
        }
        Ok(None)
    }

    /// The length of the payload of the frame at `at`, which lies in the window then, if there is one.
    fn frame_at(&mut self, at: u64) -> Result<Option<u64>> {
        let seed = self.seed;
        let Some(bytes) = self.bytes(at, FRAME_HEADER as u64)? else {
            return Ok(None);
        };
        let Some(header) = FrameHeader::decode(seed, at, bytes) else {
            return Ok(None);
        };
        let len = u64::from(header.len);
        let whole = self.bytes(at, FRAME_HEADER as u64 + len)?;
        let holds = whole.is_some_and(|whole| header.holds(seed, at, &whole[FRAME_HEADER..]));
        Ok(holds.then_some(len))
    }

    /// `len` bytes from `at` on, if the file has them.
    fn bytes(&mut self, at: u64, len: u64) -> Result<Option<&[u8]>> {
        let Some(end) = at.checked_add(len).filter(|&end| end <= self.len) else {
            return Ok(None);
        };
        let there = self.from <= at && end <= self.from + self.window.len() as u64;
        if !there {
            let wanted = len.max(WINDOW).min(self.len - at);
            self.window.resize(index(wanted), 0);
            self.from = at;
            self.file.read_exact_at(&mut self.window, at)?;
        }
        let start = index(at - self.from);
        Ok(Some(&self.window[start..start + index(len)]))
    }

    /// Makes durable what lies in the log `path`, which is `id`, from the frame at `from` up to `to`, the end
    /// of another, as it was read: after a kill it may have been readable without ever having
    /// been synced, and after a failed sync it may pass for written.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it reads otherwise than before; those of the storage.
    pub fn keep(storage: &dyn Storage, path: &Path, id: &LogId, from: u64, to: u64) -> Result<()> {
        let file = storage.open(path, OpenMode::ReadWrite)?;
        let mut reader = LogReader::of(file.clone())?;
        reader.expect(id)?;
        reader.at = from;
        while reader.at < to {
            let before = reader.at;
            let frame = reader.next_frame()?;
            let Some(Frame { at, payload }) = frame.filter(|frame| frame.at < to) else {
                let what = "two reads of a log disagree";
                let place = path.display().to_string();
                return Err(Error::corruption(what, place, before, "a frame", "none"));
            };
            // The bytes that were checked, not a second reading of them, which could differ.
            let mut bytes = FrameHeader::encode(id.seed(), at, payload)?.to_vec();
            bytes.extend_from_slice(payload);
            file.write_at(&bytes, at)?;
        }
        file.sync(SITE_KEPT)
    }
}
