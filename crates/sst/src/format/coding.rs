//! Fields: how they are read from bytes that nobody vouches for.

use thermocline_base::Error;

/// Why bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// They are not what was written.
    Damaged {
        what: String,
        /// Offset from the beginning of what was to be read.
        at: usize,
        expected: String,
        got: String,
    },
    /// A newer version wrote them.
    Newer(String),
}

impl Unreadable {
    /// The error of a file `name`, in which the bytes begin at `base`.
    pub fn into_error(self, name: &str, base: u64) -> Error {
        match self {
            Unreadable::Damaged {
                what,
                at,
                expected,
                got,
            } => Error::corruption(what, name, base + at as u64, expected, got),
            Unreadable::Newer(what) => Error::Unsupported(format!("{name}: {what}")),
        }
    }
}

#[cold]
pub(crate) fn damaged(
    what: impl Into<String>,
    at: usize,
    expected: impl ToString,
    got: impl ToString,
) -> Unreadable {
    Unreadable::Damaged {
        what: what.into(),
        at,
        expected: expected.to_string(),
        got: got.to_string(),
    }
}

pub(crate) fn hex(crc: u32) -> String {
    format!("{crc:#010x}")
}

/// Fields of fixed size, one after the other.
pub(crate) struct Fields<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Fields<'a> {
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Unreadable> {
        let room = self.bytes.len() - self.at;
        if len > room {
            let needed = format!("{len} bytes more");
            return Err(damaged("end of a structure", self.at, needed, room));
        }
        let taken = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        Ok(self.take(N)?.try_into().expect("as many as were taken"))
    }

    pub fn u8(&mut self) -> Result<u8, Unreadable> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, Unreadable> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, Unreadable> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Unreadable> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn zeros(&mut self, len: usize) -> Result<(), Unreadable> {
        let at = self.at;
        match self.take(len)?.iter().position(|&b| b != 0) {
            None => Ok(()),
            Some(n) => Err(damaged("reserved byte", at + n, 0, self.bytes[at + n])),
        }
    }

    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    pub fn end(&self) -> Result<(), Unreadable> {
        if self.at < self.bytes.len() {
            return Err(damaged(
                "end of a structure",
                self.at,
                self.at,
                self.bytes.len(),
            ));
        }
        Ok(())
    }
}
