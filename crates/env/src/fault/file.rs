//! An open file with faults.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::{Result, Site};

use super::injector::{Injector, eio, no_space};
use super::plan::{Fault, Op};
use crate::file::File;

#[derive(Debug)]
pub(super) struct FaultFile {
    pub(super) inner: Arc<dyn File>,
    pub(super) path: PathBuf,
    pub(super) injector: Arc<Injector>,
}

impl FaultFile {
    fn call(&self, op: Op, what: &'static str) -> Result<Option<Fault>> {
        self.injector.call(op, what, &self.path)
    }

    /// As much of `n` as one transfer in the way that this one is made may begin or end at.
    fn whole_units(&self, n: u64, way: Way) -> u64 {
        match (way, self.inner.direct_unit()) {
            (Way::Piece, Some(unit)) => n - n % unit as u64,
            _ => n,
        }
    }

    fn pass(&self, bytes: &[u8], offset: u64, way: Way) -> Result<()> {
        match way {
            Way::Piece => self.inner.write_at(bytes, offset),
            Way::Tail => self.inner.write_tail(bytes, offset),
        }
    }

    fn write_part(&self, bytes: &[u8], len: u64, offset: u64, way: Way) -> Result<()> {
        let len = self.whole_units(len.min(bytes.len() as u64), way);
        let len = usize::try_from(len).expect("not more than the bytes");
        self.pass(&bytes[..len], offset, way)
    }

    fn write(&self, bytes: &[u8], offset: u64, way: Way) -> Result<()> {
        match self.call(Op::Write, "write")? {
            Some(Fault::LostWrite) => return Ok(()),
            Some(Fault::Misdirected(by)) => {
                let by = match self.inner.direct_unit() {
                    Some(unit) => by - by % unit as u64,
                    None => by,
                };
                return self.pass(bytes, offset + by, way);
            }
            Some(Fault::ShortWrite(n)) => {
                self.write_part(bytes, n as u64, offset, way)?;
                return Err(eio("write", &self.path));
            }
            _ => {}
        }
        let end = offset.saturating_add(bytes.len() as u64);
        let reach = self.injector.take_room(&self.path, self.inner.len()?, end);
        if reach < end {
            self.write_part(bytes, reach.saturating_sub(offset), offset, way)?;
            return Err(no_space("write", &self.path));
        }
        self.pass(bytes, offset, way)
    }
}

/// How bytes are written.
#[derive(Debug, Clone, Copy)]
enum Way {
    Piece,
    Tail,
}

impl File for FaultFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let fault = self.call(Op::Read, "read")?;
        let n = self.inner.read_at(buf, offset)?;
        match fault {
            // Read in full, since a part could not be read directly.
            Some(Fault::ShortRead(most)) => return Ok(n.min(most)),
            Some(Fault::FlipBit(bit)) if n > 0 => {
                let bit = bit % (n as u64 * 8);
                let byte = usize::try_from(bit / 8).expect("it lies within the buffer");
                buf[byte] ^= 1 << (bit % 8);
            }
            _ => {}
        }
        Ok(n)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.write(bytes, offset, Way::Piece)
    }

    fn direct_unit(&self) -> Option<usize> {
        self.inner.direct_unit()
    }

    fn write_tail(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.write(bytes, offset, Way::Tail)
    }

    fn len(&self) -> Result<u64> {
        self.call(Op::LookUp, "look up the length of")?;
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.call(Op::SetLen, "set the length of")?;
        let before = self.inner.len()?;
        self.inner.set_len(len)?;
        self.injector.give_room_back(&self.path, before, len);
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.call(Op::Allocate, "reserve space for")?;
        let end = offset.saturating_add(len);
        let before = self.inner.len()?;
        if !self.injector.take_all_room(&self.path, before, end) {
            return Err(no_space("reserve space for", &self.path));
        }
        self.inner.allocate(offset, len)
    }

    fn reserve_behind(&self, offset: u64, len: u64) -> Result<()> {
        self.call(Op::Allocate, "reserve space for")?;
        let end = offset.saturating_add(len);
        if !self.injector.reserve(&self.path, self.inner.len()?, end) {
            return Err(no_space("reserve space for", &self.path));
        }
        match self.injector.reserves_nothing() {
            true => Ok(()),
            false => self.inner.reserve_behind(offset, len),
        }
    }

    fn sync(&self, site: Site) -> Result<()> {
        self.injector
            .sync_with(Op::Sync, "sync", &self.path, || self.inner.sync(site))
    }

    fn lock(&self, exclusive: bool) -> Result<()> {
        self.inner.lock(exclusive)
    }

    fn unlock(&self) {
        self.inner.unlock();
    }

    fn raw_fd(&self) -> Option<i32> {
        self.inner.raw_fd()
    }
}
