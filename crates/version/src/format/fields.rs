//! Reading and writing numbers and texts.

use std::sync::Arc;

use thermocline_base::{CfId, SeqNo};

use crate::edit::StoredRate;
use crate::table::PartitionId;
use crate::write_times::WriteTime;

/// Why bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// They are not what was written.
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Offset from the beginning of what was to be read.
        at: usize,
        /// What should be there.
        expected: String,
        /// What is there.
        got: String,
    },
    /// A newer version wrote them.
    Newer(String),
}

pub(super) fn damaged(
    what: &'static str,
    at: usize,
    expected: impl ToString,
    got: impl ToString,
) -> Unreadable {
    Unreadable::Damaged {
        what,
        at,
        expected: expected.to_string(),
        got: got.to_string(),
    }
}

pub(super) fn len32(len: usize) -> u32 {
    u32::try_from(len).expect("an edit is far below 4 GiB")
}

/// Reads fields one after the other and never past the end.
pub(super) struct Fields<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Unreadable> {
        let rest = &self.bytes[self.at..];
        let field = rest
            .get(..len)
            .ok_or_else(|| damaged("length of a field", self.at, len, rest.len()))?;
        self.at += len;
        Ok(field)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let field = self.take(N)?;
        Ok(field.try_into().expect("as many bytes as were taken"))
    }

    pub(super) fn u8(&mut self) -> Result<u8, Unreadable> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Unreadable> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Unreadable> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Unreadable> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn len32(&mut self) -> Result<usize, Unreadable> {
        Ok(usize::try_from(self.u32()?).unwrap_or(usize::MAX))
    }

    pub(super) fn zeros(&mut self, len: usize) -> Result<(), Unreadable> {
        let at = self.at;
        match self.take(len)?.iter().position(|b| *b != 0) {
            None => Ok(()),
            Some(i) => Err(damaged("reserved byte", at + i, 0, self.bytes[at + i])),
        }
    }

    /// Grows as it reads: a count that lies allocates nothing.
    pub(super) fn options(&mut self) -> Result<Vec<(String, String)>, Unreadable> {
        let count = self.u32()?;
        let mut options = Vec::new();
        for _ in 0..count {
            options.push((self.text()?, self.text()?));
        }
        Ok(options)
    }

    /// Grows as it reads, as [`Fields::options`] does.
    pub(super) fn rates(&mut self) -> Result<Arc<[StoredRate]>, Unreadable> {
        let mut rates = Vec::new();
        for _ in 0..self.u32()? {
            rates.push(StoredRate {
                cf: CfId(self.u16()?),
                partition: PartitionId(self.u32()?),
                reads: self.u64()?,
                writes: self.u64()?,
                updates: self.u64()?,
            });
        }
        Ok(rates.into())
    }

    pub(super) fn write_times(&mut self) -> Result<Arc<[WriteTime]>, Unreadable> {
        let mut times = Vec::new();
        for _ in 0..self.u32()? {
            times.push(WriteTime {
                seqno: SeqNo(self.u64()?),
                unix_s: self.u64()?,
            });
        }
        Ok(times.into())
    }

    pub(super) fn text(&mut self) -> Result<String, Unreadable> {
        let len = self.len32()?;
        self.text_of(len)
    }

    pub(super) fn text_of(&mut self, len: usize) -> Result<String, Unreadable> {
        let at = self.at;
        let field = self.take(len)?;
        match std::str::from_utf8(field) {
            Ok(text) => Ok(text.to_string()),
            Err(e) => Err(damaged("text", at, "UTF-8", e)),
        }
    }

    /// One byte that says whether, eight that say which; 0 if none, so that each value has one
    /// encoding.
    pub(super) fn optional_u64(&mut self) -> Result<Option<u64>, Unreadable> {
        let at = self.at;
        match (self.u8()?, self.u64()?) {
            (0, 0) => Ok(None),
            (1, number) => Ok(Some(number)),
            (0, number) => Err(damaged("absent number", at + 1, 0, number)),
            (flag, _) => Err(damaged("presence of a number", at, "0 or 1", flag)),
        }
    }

    /// A number that is not 0.
    pub(super) fn number_from_1(&mut self, what: &'static str) -> Result<u64, Unreadable> {
        let at = self.at;
        match self.u64()? {
            0 => Err(damaged(what, at, "at least 1", 0)),
            number => Ok(number),
        }
    }
}
