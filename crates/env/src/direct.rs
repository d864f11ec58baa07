//! Direct I/O: transfers between a device and the caller's memory, past the page cache.
//!
//! Tables are read at random and written once, and the engine has caches of its own; the page cache
//! would keep a second copy and take memory that nobody gave it. [`crate::Storage::open_direct`]
//! opens a file for it, [`crate::File::direct_unit`] says whether the file system agreed.
//!
//! # What always holds
//!
//! 1. **One unit.** A direct transfer begins at a multiple of [`DIRECT_UNIT`] in the file and in
//!    memory, and its length is a multiple too. It is the page of the page cache and what the
//!    device of a table moves whole; a file system that asks for more than it is not used directly,
//!    one that is content with less is not asked. Anything else is an error of kind `InvalidInput`,
//!    given before the kernel is asked, so that all file systems, the simulated one included,
//!    refuse alike.
//! 2. **Reads end where the file ends.** A direct read that reaches over the end answers with the
//!    bytes that there are, as any read.
//! 3. **The last piece goes through the page cache.** [`crate::File::write_tail`] writes what is
//!    less than a unit, at a multiple of it, as an ordinary write, and *the handle is an ordinary
//!    one from then on*. [`crate::File::sync`] covers it with the rest.
//! 4. **Refusal is not an error.** Where the file system refuses, at opening or at any
//!    transfer, the file is an ordinary one: everything works, `direct_unit` is `None`. A handle
//!    never becomes direct again.
//! 5. **Coherence.** A page is written either directly or through the page cache, not both ways: by
//!    1 and 3 this holds for a file with one writer that writes it once, from its beginning to its
//!    end. Other handles may read in either way what was written before their call: the kernel
//!    writes cached pages back before it reads them directly, and drops them when they are written
//!    directly. Nothing is promised for a page that is written while it is read, or is mapped.
//! 6. **Durability is unchanged.** A direct write is durable after [`crate::File::sync`] only: the
//!    file's size and the device's own cache remain. In a crash before that, it may be lost or torn
//!    by sectors, in any order, which the simulator does.
//! 7. **Bytes are counted where they are transferred**, below the loops, so that what was
//!    transferred twice counts twice; see [`DeviceBytes`].
//!
//! # Rejected
//!
//! - *Writing the last unit padded and cutting the file to its length after*: between the two, a
//!   crash leaves a file that is longer than what was appended; and the cut reads the last block
//!   into the page cache and zeroes its end there, so it costs a read and the same cached write all
//!   the same.
//! - *The flag at `open`*: a file system that refuses it does so after it has made the file. It is
//!   set on the open file instead, where refusing it changes nothing.
//! - *A second, ordinary handle for the last piece*: twice the descriptors for every table, and a
//!   name that could by then be another file's.

use std::io;
use std::path::Path;

use thermocline_base::counter::Counters;
use thermocline_base::sync::{Arc, AtomicBool, Ordering};
use thermocline_base::{Error, Result};

/// What offset, length and address of a direct transfer must be multiples of, in bytes.
pub const DIRECT_UNIT: usize = 4096;

const DIRECT_READ: usize = 0;
const DIRECT_WRITTEN: usize = 1;
const CACHED_READ: usize = 2;
const CACHED_WRITTEN: usize = 3;

/// Bytes moved to and from the device by the files that were opened with it.
///
/// What was transferred directly is exact (holes apart, which no device sees): it is what the
/// kernel accounts to the process. What went through the page cache is counted in the pages
/// touched: of writes that is what becomes dirty if it was not before, of reads the most that may
/// have been read.
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use thermocline_base::Steps;
/// use thermocline_env::{OpenMode, Storage, direct::DeviceBytes, sim::SimFs};
///
/// let bytes = Arc::new(DeviceBytes::default());
/// let disk = SimFs::new(Steps::new());
/// let file = disk.open_direct(Path::new("/a"), OpenMode::CreateNew, &bytes)?;
/// file.write_tail(b"less than a unit", 0)?;
/// assert_eq!((bytes.direct_written(), bytes.cached_written()), (0, 4096));
/// # Ok::<(), thermocline_base::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct DeviceBytes(Counters<4>);

impl DeviceBytes {
    /// Read past the page cache.
    pub fn direct_read(&self) -> u64 {
        self.0.get(DIRECT_READ)
    }

    /// Written past the page cache.
    pub fn direct_written(&self) -> u64 {
        self.0.get(DIRECT_WRITTEN)
    }

    /// Read through the page cache, in whole pages: at most so much came from the device.
    pub fn cached_read(&self) -> u64 {
        self.0.get(CACHED_READ)
    }

    /// Written through the page cache, in whole pages.
    pub fn cached_written(&self) -> u64 {
        self.0.get(CACHED_WRITTEN)
    }

    /// Read in either way.
    pub fn read(&self) -> u64 {
        self.direct_read() + self.cached_read()
    }

    /// Written in either way.
    pub fn written(&self) -> u64 {
        self.direct_written() + self.cached_written()
    }

    /// Counts a read of `n` bytes at `offset` through the page cache, of a file that was not opened
    /// with this.
    pub fn has_read(&self, n: usize, offset: u64) {
        self.count(CACHED_READ, n, offset);
    }

    /// As [`DeviceBytes::has_read`], of a write.
    pub fn has_written(&self, n: usize, offset: u64) {
        self.count(CACHED_WRITTEN, n, offset);
    }

    fn count(&self, index: usize, n: usize, offset: u64) {
        if n > 0 {
            let unit = DIRECT_UNIT as u64;
            let last = (offset + n as u64 - 1) / unit;
            self.0.add(index, (last - offset / unit + 1) * unit);
        }
    }
}

/// What a handle knows of its transfers.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    /// Set at opening; cleared once, by the last piece or a refusal. No transfer depends on seeing
    /// it in time: the kernel decides each by the flag of the open file.
    direct: AtomicBool,
    counter: Option<Arc<DeviceBytes>>,
}

impl Transfers {
    pub fn new(direct: bool, counter: &Arc<DeviceBytes>) -> Transfers {
        Transfers {
            direct: AtomicBool::new(direct),
            counter: Some(Arc::clone(counter)),
        }
    }

    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::SeqCst)
    }

    pub fn unit(&self) -> Option<usize> {
        self.is_direct().then_some(DIRECT_UNIT)
    }

    pub fn leave_direct(&self) {
        self.direct.store(false, Ordering::SeqCst);
    }

    /// Invariant 1. Offsets that no file has are refused here too, because the kernel's answer to
    /// them looks like a refusal of direct I/O.
    pub fn check(&self, op: &'static str, path: &Path, piece: &[u8], offset: u64) -> Result<()> {
        if !self.is_direct() {
            return Ok(());
        }
        let unit = DIRECT_UNIT as u64;
        let (address, len) = (piece.as_ptr().addr() as u64, piece.len() as u64);
        let end = offset.checked_add(len);
        let in_range = end.is_some_and(|end| end <= i64::MAX as u64);
        if in_range && (len == 0 || (address | len | offset).is_multiple_of(unit)) {
            return Ok(());
        }
        Err(misaligned(op, path, offset, piece))
    }

    /// As [`Transfers::check`], of a last piece: any length, from anywhere.
    pub fn check_tail(&self, path: &Path, piece: &[u8], offset: u64) -> Result<()> {
        if self.is_direct() && !offset.is_multiple_of(DIRECT_UNIT as u64) {
            return Err(misaligned("write", path, offset, piece));
        }
        Ok(())
    }

    /// Counts a read of `n` bytes at `offset`. A direct one has moved the whole last unit.
    pub fn has_read(&self, direct: bool, n: usize, offset: u64) {
        let index = if direct { DIRECT_READ } else { CACHED_READ };
        self.count(index, n, offset);
    }

    /// Counts a write.
    pub fn has_written(&self, direct: bool, n: usize, offset: u64) {
        let index = if direct {
            DIRECT_WRITTEN
        } else {
            CACHED_WRITTEN
        };
        self.count(index, n, offset);
    }

    fn count(&self, index: usize, n: usize, offset: u64) {
        if let Some(counter) = &self.counter {
            counter.count(index, n, offset);
        }
    }
}

#[cold]
fn misaligned(op: &'static str, path: &Path, offset: u64, piece: &[u8]) -> Error {
    let source = io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "direct I/O needs multiples of {DIRECT_UNIT}, got {} bytes from address {:#x}",
            piece.len(),
            piece.as_ptr().addr()
        ),
    );
    Error::io_at(op, path, offset, source)
}
