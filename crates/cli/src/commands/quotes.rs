//! Whether a quote of a CSV file is open.
//!
//! The CSV reader takes the end of the file for the end of a quoted field. So a quote that somebody forgot
//! to close would make one field of all that follows, without a word. This follows the quotes beside it, by
//! the reader's rules: a quote opens a field only as its first byte; within a quoted field two are one; behind
//! the closing one anything goes up to the next comma or line's end.

use std::io::Read;

/// What some programs write before UTF-8 text, which the CSV reader passes over.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A reader that knows whether what was read so far ends within quotes.
#[derive(Debug)]
pub(crate) struct Quotes<R> {
    inner: R,
    state: State,
    /// Bytes of a mark that the file began with.
    mark: usize,
    /// Lines that have begun within the quotes, and whether the last one has ended.
    lines: u64,
    line_ended: bool,
    /// The end of the file was seen.
    ended: bool,
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

/// A quote that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenQuote {
    /// Lines that have begun since.
    pub lines: u64,
}

impl<R> Quotes<R> {
    /// Follows the quotes of `inner`.
    pub fn new(inner: R) -> Quotes<R> {
        Quotes {
            inner,
            state: State::Begin,
            mark: 0,
            lines: 0,
            line_ended: false,
            ended: false,
        }
    }

    /// The quote that is open where the file ends; none before that was read.
    pub fn open_quote(&self) -> Option<OpenQuote> {
        (self.ended && self.state == State::Quoted).then_some(OpenQuote { lines: self.lines })
    }

    fn follow(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if BYTE_ORDER_MARK.get(self.mark) == Some(&byte) {
                self.mark += 1;
                continue;
            }
            self.mark = BYTE_ORDER_MARK.len();
            self.state = match (self.state, byte) {
                (State::Begin, b'"') => {
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
        }
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.ended |= bytes == 0 && !buffer.is_empty();
        self.follow(&buffer[..bytes]);
        Ok(bytes)
    }
}
