//! Copies, in memory of the process's own, of regions to which somebody else writes.
//!
//! Whoever reads such a region in place reads bytes that change: its owner gives what is free to somebody else, and waits for
//! nobody whom he does not know. So what is to be read is copied first. It is read as a file is, since a slice of a mapping
//! would be one of bytes that another process stores to; a file and its mappings have the same bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use thermocline_base::size::index;
use thermocline_base::{Error, Result};
use thermocline_env::{File, OpenMode};

use super::{Parts, kind};
use crate::map::{PAGE, Reservation};
use crate::off::PmOff;
use crate::region::{Backend, Region, RegionSpec};

/// A copy of a region, for reading only, while more is copied to it.
#[derive(Debug)]
pub struct Copying(Region);

impl Copying {
    /// A copy that is as long as the region at `spec.place` is now and of the same kind, of which nothing is copied yet: all of it
    /// is zero. That region is not locked. What is copied takes memory, which is nobody's budget.
    ///
    /// # Errors
    /// The file is missing, or not of the kind demanded; [`Error::Unsupported`] if the place is no file.
    pub fn begin(spec: &RegionSpec) -> Result<Copying> {
        let path = spec.place.path().ok_or_else(|| {
            Error::Unsupported("only a region that is a file can be copied while it is used".into())
        })?;
        let file = spec.env.storage.open(path, OpenMode::Read)?;
        let fd = file
            .raw_fd()
            .ok_or_else(|| Error::Unsupported(format!("{} cannot be mapped", path.display())))?;
        let kind = kind(spec, path, fd)?;
        let len = whole_pages(&*file)?;
        let map = Reservation::reserve(index(spec.capacity.max(len)))
            .map_err(|e| Error::io("reserve as much address space as pm for", path, e))
            .map(Arc::new)?;
        let parts = Parts {
            kind,
            backend: Backend::Copied(file),
            base: map.base(),
            len: 0,
            capacity: map.len() as u64,
            file: None,
            map: Some(map),
            watch: None,
        };
        let copying = Copying(Region::assemble(spec, path, parts));
        copying.lengthen(len)?;
        Ok(copying)
    }

    /// What is copied so far.
    pub fn region(&self) -> &Region {
        &self.0
    }

    /// Makes it as long as what it is a copy of is now, if there are addresses for that. Returns whether it is.
    ///
    /// # Errors
    /// Those of the file system; there is no memory.
    pub fn grow(&mut self) -> Result<bool> {
        let len = match &self.0.inner.backend {
            Backend::Copied(file) => whole_pages(&**file)?,
            _ => return Ok(false),
        };
        let fits = len <= self.0.capacity();
        if fits {
            self.lengthen(len)?;
        }
        Ok(fits)
    }

    fn lengthen(&self, to: u64) -> Result<()> {
        let (from, inner) = (self.0.len(), &*self.0.inner);
        if let Some(map) = inner.map.as_ref().filter(|_| to > from) {
            let backed = map.back(index(from), index(to));
            backed.map_err(|e| Error::io("have memory for a copy of", &inner.path, e))?;
            inner.len.fetch_max(to, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Copies `[off, off + len)` as it is now. Bytes that somebody stores meanwhile may be copied or not, each line by itself.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the range does not lie in the region; [`Error::Busy`] if somebody else has the copy, too, and so
    /// perhaps a slice of it; those of reading, also if the file has become shorter.
    pub fn copy(&mut self, off: PmOff, len: u64) -> Result<()> {
        self.fill(off, len, |file, to| file.read_exact_at(to, off.0))
    }

    /// Makes `[off, off + len)` zero again: it is not to be found there.
    ///
    /// # Errors
    /// As [`Copying::copy`], but for those of reading.
    pub fn leave_out(&mut self, off: PmOff, len: u64) -> Result<()> {
        self.fill(off, len, |_, to| {
            to.fill(0);
            Ok(())
        })
    }

    fn fill(
        &mut self,
        off: PmOff,
        len: u64,
        with: impl FnOnce(&dyn File, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if off.0.checked_add(len).is_none_or(|end| end > self.0.len()) {
            return Err(self.0.out_of_bounds(off, len));
        }
        let Some(inner) = Arc::get_mut(&mut self.0.inner) else {
            let why = "a copy of a region that is in use stays as it is";
            return Err(Error::Busy(why.into()));
        };
        let Backend::Copied(file) = &inner.backend else {
            let why = "what is no copy of a region is not copied to";
            return Err(Error::Unsupported(why.into()));
        };
        // SAFETY: invariants 2 (checked above) and 4. Nobody has a slice of it: those that `self` has lent have ended, and nobody
        // else has the region.
        let to =
            unsafe { std::slice::from_raw_parts_mut(inner.base.add(index(off.0)), index(len)) };
        with(&**file, to)
    }
}

fn whole_pages(file: &dyn File) -> Result<u64> {
    Ok(file.len()? / PAGE as u64 * PAGE as u64)
}
