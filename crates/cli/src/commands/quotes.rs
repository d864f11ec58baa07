//! Whether a quote of a CSV file is open, and rows that are longer than any may be.
//!
//! The CSV reader takes the end of the file for the end of a quoted field. So a quote that somebody forgot
//! to close would make one field of all that follows, without a word. This follows the quotes beside it, by
//! the reader's rules: a quote opens a field only as its first byte; within a quoted field two are one; behind
//! the closing one anything goes up to the next comma or line's end.
//!
//! The reader keeps a row in memory until it has all of it. Of one that is too long it gets no more than that: the rest
//! up to its line's end is passed over here, and the row is *cut*. Within quotes a line's end is none, so there reading
//! ends with an error: it may be the quote that was not closed.
//!
//! Behind each row it is asked whether somebody wants an end. The CSV reader passes over blank lines, and they may have no end, nor
//! may a row. So it is asked here, too, before each further read for one row.

use std::io::{Error, Read, Result};

/// What some programs write before UTF-8 text, which the CSV reader passes over.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A reader that knows whether what was read so far ends within quotes.
#[derive(Debug)]
pub(crate) struct Quotes<R> {
    inner: R,
    /// Whether a quote is more than any other byte.
    has_quotes: bool,
    state: State,
    /// Bytes of a row, at most, and those of the last one so far.
    row_max: usize,
    row: usize,
    length: Length,
    /// Bytes of a mark that the file began with.
    mark: usize,
    /// Lines that have begun within the quotes, and whether the last one has ended.
    lines: u64,
    line_ended: bool,
    /// The end of the file was seen.
    ended: bool,
    /// Whether somebody wants an end, and whether it was read for the next row already.
    asked: fn() -> bool,
    has_read: bool,
    interrupted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first byte of a field.
    Begin,
    /// In a field without quotes, or behind the closing one.
    Plain,
    /// Within quotes.
    Quoted,
    /// Behind a quote within quotes: it closes them, unless another one follows.
    Closing,
}

/// What was met of rows that are too long, since that was asked last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// None.
    Fits,
    /// One, which was cut.
    Cut,
    /// One within quotes, where reading ended.
    TooLong,
}

/// A quote that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenQuote {
    /// Lines that have begun since.
    pub lines: u64,
}

impl<R> Quotes<R> {
    /// Follows the quotes of `inner`, if it has any, and the length of its rows. Reading ends once it is `asked` to.
    pub fn new(inner: R, has_quotes: bool, row_max: usize, asked: fn() -> bool) -> Quotes<R> {
        Quotes {
            inner,
            has_quotes,
            state: State::Begin,
            row_max,
            row: 0,
            length: Length::Fits,
            mark: 0,
            lines: 0,
            line_ended: false,
            ended: false,
            asked,
            has_read: false,
            interrupted: false,
        }
    }

    /// What is read now is for the next row.
    pub fn begin_row(&mut self) {
        self.has_read = false;
    }

    /// Whether reading ended because somebody wanted that.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// The quote that is open where the file ends; none before that was read.
    pub fn open_quote(&self) -> Option<OpenQuote> {
        (self.ended && self.state == State::Quoted).then_some(OpenQuote { lines: self.lines })
    }

    /// Whether reading ended within quotes of a row that is too long.
    pub fn is_too_long(&self) -> bool {
        self.length == Length::TooLong
    }

    /// Whether the row that was read last was cut.
    pub fn take_cut(&mut self) -> bool {
        let is_cut = self.length == Length::Cut;
        if is_cut {
            self.length = Length::Fits;
        }
        is_cut
    }

    fn follow(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.step(byte));
    }

    fn step(&mut self, byte: u8) {
        if BYTE_ORDER_MARK.get(self.mark) == Some(&byte) {
            self.mark += 1;
            return;
        }
        self.mark = BYTE_ORDER_MARK.len();
        self.state = match (self.state, byte) {
            (State::Begin, b'"') if self.has_quotes => {
                (self.lines, self.line_ended) = (0, false);
                State::Quoted
            }
            (State::Quoted, b'"') => State::Closing,
            (State::Closing, b'"') | (State::Quoted, _) => State::Quoted,
            (_, b',' | b'\n' | b'\r') => State::Begin,
            _ => State::Plain,
        };
        self.lines += u64::from(self.line_ended);
        self.line_ended = self.state == State::Quoted && byte == b'\n';
        self.row = match (self.state, byte) {
            (State::Begin, b'\n' | b'\r') => 0,
            _ => self.row + 1,
        };
    }
}

impl<R: Read> Quotes<R> {
    /// Passes over the rest of a row that is too long, and reads on from its line's end.
    fn cut_row(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.length = Length::Cut;
        loop {
            if self.state == State::Quoted {
                self.length = Length::TooLong;
                return Err(Error::other(format!(
                    "what stands within quotes takes more than {} bytes along",
                    self.row_max
                )));
            }
            let bytes = self.read_some(buffer)?;
            let halts = |at: &usize| {
                self.step(buffer[*at]);
                self.row == 0 || self.state == State::Quoted
            };
            let halt = (0..bytes).find(halts);
            match halt {
                Some(at) if self.row == 0 => {
                    buffer.copy_within(at..bytes, 0);
                    self.follow(&buffer[1..bytes - at]);
                    return Ok(bytes - at);
                }
                None if bytes == 0 => return Ok(0),
                _ => {}
            }
        }
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if std::mem::replace(&mut self.has_read, true) && (self.asked)() {
            self.interrupted = true;
            return Err(Error::other("interrupted"));
        }
        let bytes = self.inner.read(buffer)?;
        self.ended |= bytes == 0 && !buffer.is_empty();
        Ok(bytes)
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.row > self.row_max {
            return self.cut_row(buffer);
        }
        let bytes = self.read_some(buffer)?;
        self.follow(&buffer[..bytes]);
        Ok(bytes)
    }
}
