//! Several reads with one system call, by `io_uring`. The only unsafe code here.
//!
//! # What makes it sound
//! The kernel writes into memory that it was given until it says that a read is done, whatever becomes of
//! the caller. So
//! 1. the ring owns the buffers while reads are under way, and a buffer's memory does not move;
//! 2. it returns, and with it gives the buffers back, when every read that it began has been answered;
//! 3. where that cannot be reached, because the kernel answers nothing but errors, and where the caller
//!    unwinds, the buffers are leaked, and nobody uses the ring again.
//!
//! The kernel keeps a file open by itself while it reads from it; the descriptor only has to be valid
//! when the read is handed over, and is borrowed until then.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};

use crate::pool::PooledBuf;

/// Reads that are under way at once, at most.
pub(crate) const READS_MAX: usize = 32;

/// Errors in a row after which nothing more is hoped for.
const ERRORS_MAX: usize = 1000;

/// Whether the system refuses to make such a queue, and would refuse it again. Otherwise it is out of something, and may
/// be so no more next time.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}

/// A read: its buffer says how much.
pub(crate) struct RingRead<'a> {
    pub fd: BorrowedFd<'a>,
    pub offset: u64,
    pub buf: PooledBuf,
}

/// A queue of requests that is shared with the kernel.
pub(crate) struct Ring(IoUring);

impl Ring {
    /// # Errors
    /// The kernel's, where it has no such thing, does not allow it, or has no memory for it.
    pub fn new() -> io::Result<Ring> {
        let entries = u32::try_from(READS_MAX).expect("a few");
        Ok(Ring(IoUring::new(entries)?))
    }

    /// Makes all reads, at most [`READS_MAX`], and returns each buffer with how many bytes were read into
    /// it. An error means that the ring is not to be used again.
    pub fn read(
        &mut self,
        reads: Vec<RingRead<'_>>,
    ) -> io::Result<Vec<(PooledBuf, io::Result<usize>)>> {
        if reads.len() > READS_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // Leaked unless all have been answered (3).
        let mut reads = ManuallyDrop::new(reads);
        let mut answers: Vec<Option<i32>> = vec![None; reads.len()];
        for (read, n) in reads.iter_mut().zip(0..) {
            let len = u32::try_from(read.buf.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
            let fd = types::Fd(read.fd.as_raw_fd());
            let entry = opcode::Read::new(fd, read.buf.as_mut_ptr(), len)
                .offset(read.offset)
                .build()
                .user_data(n);
            // SAFETY: the memory is the buffer's own, `len` bytes of it, which stays where it is and is
            // neither read nor written here until the read has been answered, and is not freed before
            // that (1-3). The queue had room for all, and was empty.
            unsafe { self.0.submission().push(&entry) }.map_err(io::Error::other)?;
        }
        let mut errors = 0;
        let mut missing = reads.len();
        while missing > 0 {
            // The kernel may be out of something for a moment.
            match self.0.submit_and_wait(missing) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    errors += 1;
                    if errors == ERRORS_MAX {
                        return Err(error);
                    }
                    std::thread::yield_now();
                }
                _ => {}
            }
            for done in self.0.completion() {
                let n = usize::try_from(done.user_data()).unwrap_or(usize::MAX);
                if let Some(answer @ None) = answers.get_mut(n) {
                    *answer = Some(done.result());
                    (missing, errors) = (missing - 1, 0);
                }
            }
        }
        // All are answered (2).
        let bufs = ManuallyDrop::into_inner(reads).into_iter();
        let answers = answers.into_iter().flatten();
        let bytes =
            answers.map(|n| usize::try_from(n).map_err(|_| io::Error::from_raw_os_error(-n)));
        Ok(bufs.map(|read| read.buf).zip(bytes).collect())
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}
