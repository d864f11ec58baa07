//! What becomes part of a region's file, step by step.

use thermocline_base::Result;
use thermocline_base::size::index;
use thermocline_env::File;

use crate::map::PAGE;
use crate::region::RegionKind;

/// So many bytes are zeroed, and then synced, before it is looked whether anybody still wants the rest. Whoever persists records
/// meanwhile waits for such a sync, and not for that of the whole.
const STEP_BYTES: u64 = 4 << 20;

/// The bytes `[from, to)` of a file, behind which `keep` bytes are to be left to others.
#[derive(Clone, Copy)]
pub(super) struct FileGrowth<'a> {
    pub file: &'a dyn File,
    pub kind: RegionKind,
    pub from: u64,
    pub to: u64,
    pub keep: u64,
}

impl FileGrowth<'_> {
    /// Reserves room on the device. `mapped` bytes of the file stay, should more be mapped than is in use. Returns up to where
    /// zeros are to be written.
    pub fn reserve(&self, mapped: u64) -> Result<u64> {
        let written = self.file.len()?;
        let bytes = self.to - self.from + self.keep;
        self.file.allocate(self.from, bytes)?;
        if self.keep > 0 {
            self.file.set_len(self.to.max(mapped))?;
        }
        // The file system hands out zeros. But on devices unwritten extents would turn every first
        // sync into a metadata write.
        Ok(match self.kind {
            RegionKind::Shm | RegionKind::Shadow => written.min(self.to),
            _ => self.to,
        })
    }

    /// Zeroes a step from `from` on, but not beyond `to`, in writes of 4 KiB (larger ones make the page cache sync in larger
    /// units, see the crate documentation). Returns where it ends.
    pub fn zero(&self, from: u64, to: u64) -> Result<u64> {
        const ZEROS: [u8; PAGE] = [0; PAGE];
        let end = to.min(from + STEP_BYTES);
        let mut at = from;
        while at < end {
            let n = (PAGE as u64).min(end - at);
            self.file.write_at(&ZEROS[..index(n)], at)?;
            at += n;
        }
        Ok(at)
    }
}
