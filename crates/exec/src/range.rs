//! Any bytes of a file, transferred in whole units.

use std::io;
use std::ops::{Deref, Range};

use thermocline_base::sync::SCHEDULED;
use thermocline_base::{Error, Result};
use thermocline_env::File;

use crate::pool::{BufPool, PooledBuf};

/// The piece in which bytes that do not lie aligned are copied and transferred.
pub const PIECE_BYTES: usize = 1 << 20;

/// Bytes that were read. It is used as a slice.
#[derive(Debug)]
pub struct RangeBuf {
    buf: PooledBuf,
    within: Range<usize>,
}

impl RangeBuf {
    pub(crate) fn new(buf: PooledBuf, within: Range<usize>) -> RangeBuf {
        RangeBuf { buf, within }
    }
}

impl Deref for RangeBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buf[self.within.clone()]
    }
}

/// Reads `len` bytes at `offset` in one read, of whole units where the file is transferred
/// directly. The buffer is as large. So a caller that has the length from foreign bytes compares it
/// with a limit first.
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use thermocline_base::Steps;
/// use thermocline_env::{OpenMode, Storage, direct::DeviceBytes, sim::SimFs};
/// use thermocline_exec::{BufPool, read_range};
///
/// let (disk, bytes) = (SimFs::new(Steps::new()), Arc::new(DeviceBytes::default()));
/// disk.install(Path::new("/a"), &[7; 10_000]);
/// let file = disk.open_direct(Path::new("/a"), OpenMode::Read, &bytes)?;
/// let block = read_range(&*file, &BufPool::new(1 << 20), 4000, 200)?;
/// assert_eq!(*block, [7; 200]);
/// assert_eq!(bytes.direct_read(), 8192);
/// # Ok::<(), thermocline_base::Error>(())
/// ```
///
/// # Errors
/// Those of [`File::read_at`]; [`Error::Io`] of kind `UnexpectedEof`, with `offset`, if the file
/// ends before, and of kind `InvalidInput` if no file reaches there.
pub fn read_range(file: &dyn File, pool: &BufPool, offset: u64, len: usize) -> Result<RangeBuf> {
    let failed = |kind, text| Error::io_at("read", file.path(), offset, io::Error::new(kind, text));
    let whole = whole_units(offset, len, file.direct_unit());
    let (start, whole) =
        whole.ok_or_else(|| failed(io::ErrorKind::InvalidInput, format!("{len} bytes there")))?;
    let before = usize::try_from(offset - start).expect("less than a unit");
    let mut buf = pool.take(whole);
    let got = file.read_at(&mut buf, start)?;
    if got < before + len {
        let text = format!("asked for {len} bytes, got {}", got.saturating_sub(before));
        return Err(failed(io::ErrorKind::UnexpectedEof, text));
    }
    Ok(RangeBuf {
        buf,
        within: before..before + len,
    })
}

/// The range of whole units that covers `len` bytes at `offset`. `None` if no file is so long.
pub(crate) fn whole_units(offset: u64, len: usize, unit: Option<usize>) -> Option<(u64, usize)> {
    let unit = unit.unwrap_or(1) as u64;
    let start = offset - offset % unit;
    let end = offset
        .checked_add(len as u64)?
        .checked_next_multiple_of(unit)?;
    if end > i64::MAX as u64 {
        return None;
    }
    Some((start, usize::try_from(end - start).ok()?))
}

/// Reads up to `into.len()` bytes at `offset`, wherever `into` lies; returns how many there were.
/// Fewer than asked means the end of the file.
pub(crate) fn read_into(
    file: &dyn File,
    pool: &BufPool,
    into: &mut [u8],
    offset: u64,
) -> Result<usize> {
    let mut done = 0;
    while done < into.len() {
        let at = offset.saturating_add(done as u64);
        let rest = &mut into[done..];
        let Some(unit) = file.direct_unit() else {
            return Ok(done + file.read_at(rest, at)?);
        };
        if is_aligned(rest, unit) && at.is_multiple_of(unit as u64) && rest.len() >= unit {
            // It lies as the device wants it.
            let whole = rest.len() - rest.len() % unit;
            let n = file.read_at(&mut rest[..whole], at)?;
            done += n;
            if n < whole {
                break;
            }
            continue;
        }
        let before = usize::try_from(at % unit as u64).expect("less than a unit");
        let want = rest.len().min(PIECE_BYTES);
        let Some((start, whole)) = whole_units(at, want, Some(unit)) else {
            return Ok(done);
        };
        let mut buf = pool.take(whole);
        let got = file.read_at(&mut buf, start)?;
        let n = got.saturating_sub(before).min(want);
        rest[..n].copy_from_slice(&buf[before..before + n]);
        done += n;
        if n < want {
            break;
        }
    }
    Ok(done)
}

/// Whether `bytes` lie as the device wants them. A schedule that is repeated finds them elsewhere: there no address
/// counts.
fn is_aligned(bytes: &[u8], unit: usize) -> bool {
    !SCHEDULED && bytes.as_ptr().addr().is_multiple_of(unit)
}

/// Writes `bytes`, wherever they lie, at `offset`. Where the file is transferred directly, the
/// bytes behind the last whole unit are its last piece ([`File::write_tail`]): what is written
/// after that goes through the page cache.
///
/// # Errors
/// Those of [`File::write_at`]; of kind `InvalidInput` if the file is transferred directly and
/// `offset` is not a multiple of its unit. After an error any part may have been written.
pub fn write_range(file: &dyn File, pool: &BufPool, bytes: &[u8], offset: u64) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let (rest, at) = (&bytes[done..], offset.saturating_add(done as u64));
        let Some(unit) = file.direct_unit() else {
            return file.write_at(rest, at);
        };
        let whole = rest.len() - rest.len() % unit;
        if whole == 0 {
            return file.write_tail(rest, at);
        }
        done += if is_aligned(rest, unit) {
            file.write_at(&rest[..whole], at)?;
            whole
        } else {
            let len = whole.min(PIECE_BYTES);
            let mut piece = pool.take(len);
            piece.copy_from_slice(&rest[..len]);
            file.write_at(&piece, at)?;
            len
        };
    }
    Ok(())
}
