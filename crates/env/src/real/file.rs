//! An open file of the operating system.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::{Error, Result, Site};

use crate::direct::{DIRECT_UNIT, Transfers};
use crate::file::{File, RawReads};
use crate::real::syscalls::{Syscalls, retry};
use crate::sys;

#[derive(Debug)]
pub(super) struct RealFile {
    pub(super) file: fs::File,
    pub(super) path: PathBuf,
    pub(super) syscalls: Arc<dyn Syscalls>,
    pub(super) transfers: Transfers,
}

/// Direct transfers in a row that may end within a unit before the loops give up. A kernel that is
/// interrupted moves a part, of which only whole units can be gone on from.
const FRUITLESS_MAX: usize = 3;

/// Whether a kernel that got an aligned transfer says by this that it takes no direct one.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

impl RealFile {
    fn leave_direct(&self) -> io::Result<()> {
        if self.transfers.is_direct() {
            if !self.syscalls.set_direct(&self.file, false)? {
                return Err(io::ErrorKind::Unsupported.into());
            }
            self.transfers.leave_direct();
        }
        Ok(())
    }

    /// One transfer, which says whether it was a direct one; a refused one is made again through
    /// the page cache, and all later ones are.
    fn transfer(&self, mut call: impl FnMut() -> io::Result<usize>) -> io::Result<(usize, bool)> {
        let direct = self.transfers.is_direct();
        match retry(&mut call) {
            Err(e) if direct && is_refusal(&e) => {
                self.leave_direct()?;
                Ok((retry(call)?, false))
            }
            answer => Ok((answer?, direct)),
        }
    }

    fn write_all(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let (mut done, mut fruitless) = (0, 0);
        while done < bytes.len() {
            let at = offset + done as u64;
            let failed = |e| Error::io_at("write", &self.path, at, e);
            let pwrite = || self.syscalls.pwrite(&self.file, &bytes[done..], at);
            let (n, direct) = self.transfer(pwrite).map_err(failed)?;
            self.transfers.has_written(direct, n, at);
            // What lies behind the last whole unit is written again.
            let kept = if direct { n - n % DIRECT_UNIT } else { n };
            fruitless = if kept == 0 { fruitless + 1 } else { 0 };
            if n == 0 || fruitless == FRUITLESS_MAX {
                return Err(failed(io::ErrorKind::WriteZero.into()));
            }
            done += kept;
        }
        Ok(())
    }
}

/// How much of zeros is written at once where space cannot be reserved.
const ZEROS: &[u8] = &[0; 64 << 10];

impl File for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.transfers.check("read", &self.path, buf, offset)?;
        let (mut done, mut fruitless) = (0, 0);
        while done < buf.len() {
            let at = offset + done as u64;
            let failed = |e| Error::io_at("read", &self.path, at, e);
            let pread = || self.syscalls.pread(&self.file, &mut buf[done..], at);
            let (n, direct) = self.transfer(pread).map_err(failed)?;
            self.transfers.has_read(direct, n, at);
            if n == 0 {
                break;
            }
            let beyond = if direct { n % DIRECT_UNIT } else { 0 };
            if beyond == 0 {
                (done, fruitless) = (done + n, 0);
            } else if at + n as u64 >= self.len()? {
                return Ok(done + n);
            } else {
                // It came up short within the file: the last unit is read again.
                fruitless = if n == beyond { fruitless + 1 } else { 0 };
                if fruitless == FRUITLESS_MAX {
                    return Err(failed(io::ErrorKind::UnexpectedEof.into()));
                }
                done += n - beyond;
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.transfers.check("write", &self.path, bytes, offset)?;
        self.write_all(bytes, offset)
    }

    fn direct_unit(&self) -> Option<usize> {
        self.transfers.unit()
    }

    fn write_tail(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.transfers.check_tail(&self.path, bytes, offset)?;
        self.leave_direct()
            .map_err(|e| Error::io_at("write", &self.path, offset, e))?;
        self.write_all(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.file
            .metadata()
            .map(|m| m.len())
            .map_err(|e| Error::io("look up the length of", &self.path, e))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        retry(|| self.file.set_len(len))
            .map_err(|e| Error::io_at("set the length of", &self.path, len, e))
    }

    /// Where the file system cannot reserve, zeros are written behind the end of the file; holes
    /// before it stay holes, since filling them could overwrite another thread's write.
    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        let failed = |e| Error::io_at("reserve space for", &self.path, offset, e);
        let end = offset
            .checked_add(len)
            .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        if len == 0 || sys::allocate(&self.file, offset, len).map_err(failed)? {
            return Ok(());
        }
        // The zeros have neither the address nor the offset of direct I/O.
        self.leave_direct().map_err(failed)?;
        let mut at = self.len()?;
        while at < end {
            let room = usize::try_from(end - at).unwrap_or(usize::MAX);
            let zeros = &ZEROS[..room.min(ZEROS.len())];
            self.write_at(zeros, at)?;
            at += zeros.len() as u64;
        }
        Ok(())
    }

    fn reserve_behind(&self, offset: u64, len: u64) -> Result<()> {
        let reserved = sys::reserve_behind(&self.file, offset, len);
        let failed = |e| Error::io_at("reserve space for", &self.path, offset, e);
        reserved.map(drop).map_err(failed)
    }

    fn sync(&self, _site: Site) -> Result<()> {
        retry(|| self.syscalls.fsync(&self.file)).map_err(|e| Error::io("sync", &self.path, e))
    }

    fn lock(&self, exclusive: bool) -> Result<()> {
        let locked = retry(|| {
            let tried = if exclusive {
                self.file.try_lock()
            } else {
                self.file.try_lock_shared()
            };
            match tried {
                Ok(()) => Ok(true),
                Err(fs::TryLockError::WouldBlock) => Ok(false),
                Err(fs::TryLockError::Error(e)) => Err(e),
            }
        });
        match locked {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Busy(format!("{} is in use", self.path.display()))),
            Err(e) => Err(Error::io("lock", &self.path, e)),
        }
    }

    fn unlock(&self) {
        // Should it fail, closing the file still releases the lock.
        let _ = self.file.unlock();
    }

    fn raw_fd(&self) -> Option<i32> {
        use std::os::fd::AsRawFd;
        Some(self.file.as_raw_fd())
    }

    fn raw_reads(&self) -> Option<RawReads<'_>> {
        self.syscalls.is_kernel().then(|| RawReads {
            fd: self.file.as_fd(),
            transfers: &self.transfers,
        })
    }
}
