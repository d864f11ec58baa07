//! A read that is about to be made: whole units of a file, into a buffer of its own.

use std::io;
use std::sync::Arc;

use thermocline_base::{Error, Result};
use thermocline_env::File;
use thermocline_env::direct::DIRECT_UNIT;

use crate::pool::{BufPool, PooledBuf};
use crate::range::{RangeBuf, whole_units};
use crate::under_way::Held;

/// Bytes of a file that a caller wants.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub file: Arc<dyn File>,
    pub offset: u64,
    pub len: usize,
    /// It counts as under way for as long as this exists.
    pub _held: Held,
}

/// A read that is prepared.
pub(crate) struct Prepared {
    /// Where the whole units begin.
    pub start: u64,
    /// How far in them the bytes lie.
    pub before: usize,
    pub buf: PooledBuf,
}

impl Prepared {
    /// For `len` bytes of `file` at `offset`.
    pub fn new(pool: &BufPool, file: &dyn File, offset: u64, len: usize) -> Result<Prepared> {
        let range = whole_units(offset, len, Some(DIRECT_UNIT));
        let (start, whole) = range.ok_or_else(|| {
            let kind = io::ErrorKind::InvalidInput;
            let source = io::Error::new(kind, format!("{len} bytes there"));
            Error::io_at("read", file.path(), offset, source)
        })?;
        Ok(Prepared {
            start,
            before: usize::try_from(offset - start).expect("less than a unit"),
            buf: pool.take(whole),
        })
    }

    /// What was asked for, of `got` bytes that were read.
    pub fn answer(self, got: usize, len: usize) -> RangeBuf {
        let end = got.min(self.before + len).max(self.before);
        RangeBuf::new(self.buf, self.before..end)
    }
}

impl Wanted {
    pub fn prepare(&self, pool: &BufPool) -> Result<Prepared> {
        Prepared::new(pool, &*self.file, self.offset, self.len)
    }

    /// Reads them on this thread.
    pub fn read(&self, pool: &BufPool) -> Result<RangeBuf> {
        let mut prepared = self.prepare(pool)?;
        let got = self.file.read_at(&mut prepared.buf, prepared.start)?;
        let there = got.saturating_sub(prepared.before);
        if there < self.len {
            let text = format!("asked for {} bytes, got {there}", self.len);
            let short = io::Error::new(io::ErrorKind::UnexpectedEof, text);
            return Err(Error::io_at("read", self.file.path(), self.offset, short));
        }
        Ok(prepared.answer(got, self.len))
    }
}
