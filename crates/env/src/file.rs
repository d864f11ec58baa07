//! An open file, and the ways to open one.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;

use thermocline_base::{Error, Result, Site};

use crate::direct::Transfers;

/// How [`Storage::open`](crate::Storage::open) treats a file that is there or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist; only reading.
    Read,
    /// As [`OpenMode::Read`], of a file that a user has named: it may be reached through a link.
    ReadInput,
    /// The file must exist; reading and writing.
    ReadWrite,
    /// The file must not exist; it is made, with mode 0600, empty.
    CreateNew,
}

/// An open file. All methods may be called from several threads at once.
pub trait File: Send + Sync + fmt::Debug {
    /// The path by which it was opened.
    fn path(&self) -> &Path;

    /// Reads up to `buf.len()` bytes at `offset`; returns how many there were. Fewer than asked
    /// means the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// Those of [`File::read_at`]; [`thermocline_base::Error::Io`] of kind `UnexpectedEof` if the
    /// file ends before. A caller that knows the file's length asks in this way, so that a read
    /// that came up short is an error and not a shorter file.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let got = self.read_at(buf, offset)?;
        if got < buf.len() {
            let short = std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                format!("asked for {} bytes, got {got}", buf.len()),
            );
            return Err(Error::io_at("read", self.path(), offset, short));
        }
        Ok(())
    }

    /// Writes all of `bytes` at `offset`, extending the file where needed.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// What offset, length and address of every transfer must be multiples of, because the file is
    /// transferred [directly](crate::direct): [`DIRECT_UNIT`](crate::direct::DIRECT_UNIT). `None` if it is not; a handle may
    /// change to that.
    fn direct_unit(&self) -> Option<usize> {
        None
    }

    /// Writes the last piece of a file, of any length and from anywhere in memory. A file that is
    /// [direct](crate::direct) is not so any more from here on, through this handle.
    ///
    /// # Errors
    /// Those of [`File::write_at`]; of kind `InvalidInput` if `offset` is not a multiple of the
    /// [unit](File::direct_unit).
    fn write_tail(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.write_at(bytes, offset)
    }

    /// The file's length in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether the file is empty.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it by a hole.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Reserves space on the device for `len` bytes at `offset`, so that later writes there cannot
    /// run out of space; extends the file.
    fn allocate(&self, offset: u64, len: u64) -> Result<()>;

    /// Reserves space on the device for `len` bytes at `offset` and does not extend the file, so that writes there
    /// will find room that others have taken all of. [`File::set_len`] gives it back. Where the file system knows no
    /// such thing nothing is done.
    ///
    /// # Errors
    /// Those of the file system, with the file's bytes and length as they were. Some of the space may be reserved.
    fn reserve_behind(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    /// Makes data and size durable. `site` names what becomes durable.
    fn sync(&self, site: Site) -> Result<()>;

    /// Locks the file itself against other handles: `exclusive` against all, else against exclusive
    /// ones. Held until [`File::unlock`], or until the file is closed. Simulators grant it always.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Busy`] if another handle holds it.
    fn lock(&self, _exclusive: bool) -> Result<()> {
        Ok(())
    }

    /// Gives up the lock.
    fn unlock(&self) {}

    /// The file descriptor, for mapping. `None` where there is none (simulators).
    fn raw_fd(&self) -> Option<i32>;

    /// The way to hand reads of this file to the kernel oneself, several at once. `None` where they must
    /// come through [`File::read_at`]: from simulators, and from a kernel that a test has put in place.
    fn raw_reads(&self) -> Option<RawReads<'_>> {
        None
    }
}

/// A file of the operating system, for who asks the kernel for several reads at once.
#[derive(Debug, Clone, Copy)]
pub struct RawReads<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) transfers: &'a Transfers,
}

impl<'a> RawReads<'a> {
    /// The file's descriptor.
    pub fn fd(&self) -> BorrowedFd<'a> {
        self.fd
    }

    /// What offset, length and address must be multiples of, as [`File::direct_unit`].
    pub fn direct_unit(&self) -> Option<usize> {
        self.transfers.unit()
    }

    /// Counts a read of `n` bytes at `offset` that was made; `direct` if there was a unit before it.
    pub fn has_read(&self, direct: bool, n: usize, offset: u64) {
        self.transfers.has_read(direct, n, offset);
    }
}
