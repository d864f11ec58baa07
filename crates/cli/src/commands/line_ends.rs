//! Which line a byte of a file lies on.
//!
//! The CSV reader counts lines too, but where lines end in CR LF, or are empty, the position that
//! it gives for a record is the end of the line before. A user who is told a line must find it.

use std::collections::VecDeque;
use std::io::Read;

/// A reader that remembers where lines end, from the last question on.
#[derive(Debug)]
pub(crate) struct LineEnds<R> {
    inner: R,
    offset: u64,
    ends: VecDeque<End>,
    /// Whether what was read so far ends with a CR.
    after_cr: bool,
    line: u64,
}

#[derive(Debug, Clone, Copy)]
struct End {
    offset: u64,
    ends_line: bool,
}

impl<R> LineEnds<R> {
    /// Remembers the line ends of `inner`.
    pub fn new(inner: R) -> LineEnds<R> {
        LineEnds {
            inner,
            offset: 0,
            ends: VecDeque::new(),
            after_cr: false,
            line: 1,
        }
    }

    /// What is read.
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// As [`LineEnds::get_ref`], to be changed.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// The line, from 1, of the first byte at or after `offset` that ends no line. `offset` never
    /// goes back.
    pub fn line_at(&mut self, offset: u64) -> u64 {
        let mut offset = offset;
        while let Some(end) = self.ends.front().filter(|end| end.offset <= offset) {
            if end.offset == offset {
                offset += 1;
            }
            self.line += u64::from(end.ends_line);
            self.ends.pop_front();
        }
        self.line
    }
}

impl<R: Read> Read for LineEnds<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        for (offset, &byte) in (self.offset..).zip(&buffer[..bytes]) {
            if byte == b'\n' || byte == b'\r' {
                // A CR alone ends a line, as it does a record. The LF of a CR LF ends none once more.
                let ends_line = byte == b'\r' || !self.after_cr;
                self.ends.push_back(End { offset, ends_line });
            }
            self.after_cr = byte == b'\r';
        }
        self.offset += bytes as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_its_line() {
        let text = b"ab\r\n\r\n\ncd\ne";
        let mut reader = LineEnds::new(text.as_slice());
        std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
        let lines: Vec<u64> = [0, 2, 7, 8, 9, 10].map(|at| reader.line_at(at)).to_vec();
        assert_eq!(lines, [1, 4, 4, 4, 5, 5]);
    }

    /// As an old Macintosh wrote them; and a CR LF of which each is read by itself.
    #[test]
    fn a_cr_alone_ends_a_line() {
        let (first, second): (&[u8], &[u8]) = (b"ab\rc\r", b"\nd\r\re");
        let mut reader = LineEnds::new(first.chain(second));
        std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
        let lines: Vec<u64> = [0, 3, 6, 7, 9].map(|at| reader.line_at(at)).to_vec();
        assert_eq!(lines, [1, 2, 3, 5, 5]);
    }
}
