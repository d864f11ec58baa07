//! Finding what a log has.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::checksum::{Prefix, Sums};
use thermocline_base::planted::{Bug, active};
use thermocline_base::size::index;
use thermocline_base::{Error, Result};
use thermocline_env::{File, OpenMode, Storage};

use crate::SITE_KEPT;
use crate::format::{
    FRAME_ALIGN, FRAME_HEADER, FrameHeader, HEADER_BYTES, HEADER_LEN, LogId, frame_bytes,
    may_begin_log_of,
};

/// What is read at a time, unless a frame has more.
const WINDOW: u64 = 1 << 20;

/// So many bytes are summed at most where sums are known ([`Sums`]).
const NOTED_EVERY: usize = 256;

/// Whether a file may be a log that the database `db_id` has made, were it only begun. One with a log's name that is none
/// is somebody's.
///
/// # Errors
/// Those of the storage.
pub fn may_be_log_of(file: &dyn File, db_id: &[u8; 16]) -> Result<bool> {
    let mut found = [0; HEADER_LEN];
    let len = file.read_at(&mut found, 0)?;
    Ok(may_begin_log_of(&found[..len], db_id))
}

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
/// sixty-fourth of the file more.
///
/// # What a header claims
/// A payload is taken into memory at once only if it is short; a longer one when it is known to
/// verify. And since each place might have a header that claims all that follows, a payload that did not
/// verify is the last that is summed by itself: behind its header the bytes are summed once, and the
/// checksum of each payload that begins there follows from that ([`Sums`]), until a frame verifies that
/// ends behind all that was claimed. So each byte is summed a few times at most, whatever headers say.
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
    /// Of the bytes from here on.
    sums: Option<(u64, Sums)>,
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
            sums: None,
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
        let end = at + FRAME_HEADER as u64 + len;
        if end > self.len {
            return Ok(None);
        }
        if self.sums.is_none() && len <= WINDOW {
            let whole = self.bytes(at, FRAME_HEADER as u64 + len)?;
            if whole.is_some_and(|whole| header.holds(seed, at, &whole[FRAME_HEADER..])) {
                return Ok(Some(len));
            }
        }
        let (from, to) = self.prefixes(at, end)?;
        let sums = self.sums.as_ref().map(|(_, sums)| sums);
        let crc = sums.map(|sums| sums.between(header.start(seed, at), from, to));
        if !crc.is_some_and(|crc| header.has_crc(crc)) {
            return Ok(None);
        }
        // What ends here is all that was claimed.
        self.sums = self
            .sums
            .take()
            .filter(|(from, sums)| from + sums.len() > end);
        let whole = self.bytes(at, FRAME_HEADER as u64 + len)?;
        // Were it read otherwise this time, it would be no frame either.
        let holds = whole.is_some_and(|whole| header.holds(seed, at, &whole[FRAME_HEADER..]));
        Ok(holds.then_some(len))
    }

    /// The sums up to the payload of the frame at `at` and up to its `end`.
    fn prefixes(&mut self, at: u64, end: u64) -> Result<(Prefix, Prefix)> {
        let (from, mut sums) = match self.sums.take() {
            Some(sums) => sums,
            None => (at, Sums::new(NOTED_EVERY)),
        };
        let mut piece = Vec::new();
        while from + sums.len() < end {
            let next = from + sums.len();
            piece.resize(index((end - next).min(WINDOW)), 0);
            self.file.read_exact_at(&mut piece, next)?;
            sums.append(&piece);
        }
        let mut up_to = |place: u64| -> Result<Prefix> {
            let noted = sums.noted_before(place - from);
            let len = place - from - noted;
            let rest = self.bytes_beside(from + noted, len, &mut piece)?;
            Ok(sums.up_to(place - from, rest))
        };
        let both = (up_to(at + FRAME_HEADER as u64)?, up_to(end)?);
        self.sums = Some((from, sums));
        Ok(both)
    }

    /// `len` bytes from `at` on, which the file has: of the window, or read into `piece`.
    fn bytes_beside<'a>(&'a self, at: u64, len: u64, piece: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        if self.from <= at && at + len <= self.from + self.window.len() as u64 {
            let start = index(at - self.from);
            return Ok(&self.window[start..start + index(len)]);
        }
        piece.resize(index(len), 0);
        self.file.read_exact_at(piece, at)?;
        Ok(piece)
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
            if !active(Bug::TrustCacheAfterFailedSync) {
                file.write_at(&bytes, at)?;
            }
        }
        file.sync(SITE_KEPT)
    }
}
