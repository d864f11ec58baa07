//! Storing again what an open found, where a sync may have failed (see the crate documentation).

use thermocline_base::planted::{Bug, active};
use thermocline_base::size::index;

use super::{Backend, Region};
use crate::map::PAGE;
use crate::off::PmOff;

impl Region {
    /// Stores a range again, as it reads, and starts writing it back. For what an open finds and relies upon:
    /// the process before may have seen a sync fail, and then the kernel holds pages for clean that the
    /// device does not have, so that syncing them once more would write nothing. What reads right after this
    /// stays as it reads: nothing drops a page that is dirty.
    ///
    /// # Safety
    /// Nobody holds a slice of the range ([`Region::bytes`]) or stores there until this has returned.
    pub unsafe fn flush_again(&self, off: PmOff, len: u64) {
        self.check_writable(off, len);
        if active(Bug::TrustCacheAfterFailedSync) {
            return self.flush(off, len);
        }
        match &self.inner.backend {
            Backend::Sim(sim) => sim.store_again(off.0, len),
            Backend::Msync => {
                let mut at = off.0;
                while at < off.0 + len {
                    // SAFETY: invariants 2 (checked above) and 4, and the caller. Volatile, or the compiler
                    // would leave both out.
                    unsafe {
                        let byte = self.inner.base.add(index(at));
                        byte.write_volatile(byte.read_volatile());
                    }
                    // Each page is written back as a whole.
                    at = at / PAGE as u64 * PAGE as u64 + PAGE as u64;
                }
            }
            // What was stored stays in the caches of processors until it is written back.
            Backend::Cpu | Backend::Shadow(_) | Backend::Volatile(_) | Backend::Copied(_) => {}
        }
        self.flush(off, len);
    }
}
