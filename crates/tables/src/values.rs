//! The values of blob files for a cursor, which reads ahead where its tables refer to them.
//!
//! A job writes values apart in the order of their keys, but each job has files of its own, and what was compacted refers to those of many.
//! So a cursor looks at the entries beside its own, as many as its block has, and reads what those refer to at once, as far as a
//! [`Window`] goes. Values that lie side by side take one read.
//!
//! # Invariants
//! 1. *Nothing is believed sooner.* The bytes of a value are cut out of a piece and checked as if they had been read alone. A piece
//!    that cannot be read is no error: its values are read alone then.
//! 2. *No more memory than there is.* Pieces are charged to the store's account. Where there is no room for them, values are
//!    read alone.
//! 3. *The cache is asked first*: what lies in it is not read, unless between two others.
//! 4. *What is foreseen is a guess.* A cursor asks for the value that its entry refers to, and gets no other: entries that it passes over,
//!    as newer ones hide them, were read for nothing.

use thermocline_base::budget::Charge;
use thermocline_base::{BlobRef, CfId, FileId, Result};
use thermocline_env::direct::DIRECT_UNIT;
use thermocline_exec::BatchRead;
use thermocline_policy::tuning::{VALUE_GAP_UNITS, VALUE_READS, VALUE_SPARE_PARTS};
use thermocline_sst::RECORD_HEADER_LEN;
use thermocline_version::Level;

use super::files::TableFiles;
use super::open_blobs::OpenBlobs;
use super::pieces::Piece;
use super::window::Window;
use std::sync::Arc;

/// Bytes between two values that are read, too, rather than asked for twice.
const GAP_MAX: u64 = VALUE_GAP_UNITS * DIRECT_UNIT as u64;

/// See the [module](self).
#[derive(Debug)]
pub struct ValuesAhead {
    files: Arc<TableFiles>,
    level: Level,
    /// In bytes of records.
    window: Window,
    pieces: Vec<Piece>,
    charge: Option<Charge>,
}

/// Bytes of a file that are to be read.
struct Span {
    of: Arc<OpenBlobs>,
    file: FileId,
    from: u64,
    to: u64,
}

/// What is to be read.
struct Plan<'a> {
    files: &'a TableFiles,
    spans: Vec<Span>,
    /// Bytes that may still be read.
    left: u64,
}

impl ValuesAhead {
    /// For a cursor over tables of a level, which is placed.
    pub fn new(files: Arc<TableFiles>, level: Level) -> ValuesAhead {
        let mut ahead = ValuesAhead {
            files,
            level,
            window: Window::default(),
            pieces: Vec::new(),
            charge: None,
        };
        ahead.begin();
        ahead
    }

    /// The cursor is placed.
    pub fn begin(&mut self) {
        self.note();
        // Not much more than what is usual: unlike blocks, values mostly are not where the last one ends.
        let mean = self.files.value_habit().mean(self.level);
        let expected = mean + mean / VALUE_SPARE_PARTS;
        self.window = Window::new(expected.min(self.files.ahead_bytes()));
        self.forget();
    }

    /// The value of `key`, to which its entry refers. `look_ahead` shows the entries that come next, the lengths of their keys
    /// and what they refer to, as long as it is told to go on.
    ///
    /// # Errors
    /// As [`TableFiles::read_blob`].
    pub fn read(
        &mut self,
        (cf, key): (CfId, &[u8]),
        blob: BlobRef,
        look_ahead: impl FnOnce(&mut dyn FnMut(usize, BlobRef) -> bool),
    ) -> Result<Vec<u8>> {
        let len = record_len(key.len(), blob);
        self.window.go_on(len);
        let cache = self.files.cache();
        if let Some(value) = cache.find_value((cf, key), blob) {
            return Ok(value);
        }
        if let Some(value) = self.ready((cf, key), blob) {
            cache.keep_value((cf, key), blob, &value);
            return Ok(value);
        }
        let most = self.files.ahead_bytes();
        let window = self.window.next_piece(len, most);
        if window > len {
            let mut plan = Plan {
                files: &self.files,
                spans: Vec::new(),
                left: window,
            };
            if plan.add(key.len(), blob) {
                look_ahead(&mut |key_len, blob| plan.add(key_len, blob));
            }
            let spans = plan.spans;
            self.fetch(spans);
            if let Some(value) = self.ready((cf, key), blob) {
                self.files.cache().keep_value((cf, key), blob, &value);
                return Ok(value);
            }
        }
        self.files.read_blob(cf, key, blob)
    }

    /// The value, if its bytes lie ready and are what they should be.
    fn ready(&self, of: (CfId, &[u8]), blob: BlobRef) -> Option<Vec<u8>> {
        let mut pieces = self.pieces.iter();
        pieces.find_map(|piece| piece.value(of, blob))
    }

    /// Reads them all at once, in place of what lay ready.
    fn fetch(&mut self, spans: Vec<Span>) {
        self.forget();
        let unit = DIRECT_UNIT as u64;
        // In whole units, and each may lie across them.
        let bytes = |span: &Span| (span.to - span.from).next_multiple_of(unit) + unit;
        let Some(charge) = self.files.account().charge(spans.iter().map(bytes).sum()) else {
            return;
        };
        // Those that do not open say so when they are read alone.
        let open = spans.into_iter();
        let open = open.filter_map(|span| Some((span.of.file.now().ok()?, span)));
        let open: Vec<_> = open.collect();
        let reads = open.iter().filter_map(|(file, span)| {
            Some(BatchRead {
                file: &**file,
                offset: span.from,
                len: usize::try_from(span.to - span.from).ok()?,
            })
        });
        let reads: Vec<_> = reads.collect();
        let answers = self.files.reader().read(&reads);
        let pieces = answers.into_iter().zip(&open);
        let pieces = pieces.filter_map(|(bytes, (_, span))| {
            Some(Piece {
                of: span.of.opened.clone(),
                file: span.file,
                at: span.from,
                bytes: bytes.ok()?,
            })
        });
        self.pieces = pieces.collect();
        self.charge = Some(charge);
    }

    fn forget(&mut self) {
        self.pieces.clear();
        self.charge = None;
    }

    /// Notes how far the cursor went.
    fn note(&self) {
        let gone = self.window.gone();
        if gone > 0 {
            let bytes = gone.min(self.files.ahead_bytes());
            self.files.value_habit().note(self.level, bytes);
        }
    }
}

impl Drop for ValuesAhead {
    fn drop(&mut self) {
        self.note();
    }
}

/// Bytes of the record of a value.
fn record_len(key_len: usize, blob: BlobRef) -> u64 {
    u64::from(blob.len) + (RECORD_HEADER_LEN + key_len) as u64
}

impl Plan<'_> {
    /// Adds a value, with a key of so many bytes behind it. Returns whether there is room for more.
    fn add(&mut self, key_len: usize, blob: BlobRef) -> bool {
        // One that is longer than all that is read ahead is read alone.
        if record_len(key_len, blob) > self.left {
            return false;
        }
        if self.files.cache().has_value(blob) {
            return true;
        }
        let Some(mut span) = self.span(key_len, blob) else {
            return false;
        };
        let beside = |other: &&mut Span| {
            let (before, behind) = (other.from.max(span.from), other.to.min(span.to));
            other.file == span.file && before <= behind + GAP_MAX
        };
        if let Some(other) = self.spans.iter_mut().find(beside) {
            let before = other.to - other.from;
            span.from = span.from.min(other.from);
            span.to = span.to.max(other.to);
            self.left = self.left.saturating_sub(span.to - span.from - before);
            *other = span;
        } else if self.spans.len() < VALUE_READS {
            self.left = self.left.saturating_sub(span.to - span.from);
            self.spans.push(span);
        } else {
            return false;
        }
        self.left > 0
    }

    /// Where it lies, if that can be.
    fn span(&self, key_len: usize, blob: BlobRef) -> Option<Span> {
        let of = self.files.open_blobs(blob.file).ok()?;
        let (from, len) = of.opened.span_with_key(blob, key_len, of.len).ok()?;
        let (file, to) = (blob.file, from + len);
        Some(Span { of, file, from, to })
    }
}
