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
                let ends_line = byte == b'\n';
                self.ends.push_back(End { offset, ends_line });
            }
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
}
