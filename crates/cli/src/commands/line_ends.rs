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
    ends: VecDeque<Ends>,
    /// Whether what was read so far ends with a CR.
    after_cr: bool,
    line: u64,
}

/// Bytes that end lines, one behind the other: those of many blank lines take no more memory than one.
#[derive(Debug, Clone, Copy)]
struct Ends {
    from: u64,
    to: u64,
    lines: u64,
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
        while let Some(ends) = self.ends.front().filter(|ends| ends.from <= offset) {
            offset = offset.max(ends.to);
            self.line += ends.lines;
            self.ends.pop_front();
        }
        self.line
    }

    /// The byte at `offset` ends a line, or is the second one that ends it.
    fn push(&mut self, offset: u64, ends_line: bool) {
        let (to, lines) = (offset + 1, u64::from(ends_line));
        match self.ends.back_mut().filter(|last| last.to == offset) {
            Some(last) => (last.to, last.lines) = (to, last.lines + lines),
            None => self.ends.push_back(Ends {
                from: offset,
                to,
                lines,
            }),
        }
    }
}

impl<R: Read> Read for LineEnds<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        for (offset, &byte) in (self.offset..).zip(&buffer[..bytes]) {
            if byte == b'\n' || byte == b'\r' {
                // A CR alone ends a line, as it does a record. The LF of a CR LF ends none once more.
                let ends_line = byte == b'\r' || !self.after_cr;
                self.push(offset, ends_line);
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

    /// A file of nothing else would take many times its length of memory.
    #[test]
    fn blank_lines_take_no_memory() {
        let text = [b"a\n".repeat(3), b"\r\n".repeat(1_000_000), b"b".to_vec()].concat();
        let mut reader = LineEnds::new(text.as_slice());
        std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
        assert_eq!(reader.ends.len(), 3);
        // In the middle of them, as a record begins for the CSV reader, and behind.
        let lines: Vec<u64> = [0, 2, 1000, 2_000_006]
            .map(|at| reader.line_at(at))
            .to_vec();
        assert_eq!(lines, [1, 2, 1_000_004, 1_000_004]);
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
