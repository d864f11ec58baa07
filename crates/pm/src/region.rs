//! A region: one mapped range of bytes that outlives the process. See the crate documentation for
//! the invariants cited here.
#![expect(unsafe_code, reason = "the one door to mapped bytes")]

mod again;
mod attach;
mod huge;
mod kind;
mod spec;
mod unsynced;

pub use attach::copied::Copying;
pub use kind::RegionKind;
pub use spec::{Place, RegionSpec};

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use thermocline_base::budget::{Account, Charge};
use thermocline_base::size::index;
use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{Error, Result, Site};
use thermocline_env::{Env, File};

use crate::counters::{Counters, PmCounters};
use crate::map::{PAGE, Reservation};
use crate::off::{LINE, PmOff};
use crate::shadow::ShadowPm;
use crate::sigbus::Watch;
use crate::{Emulation, SimPm, cpu, emulate};

enum Backend {
    /// Write-back and fence instructions (`dax`, `shm`).
    Cpu,
    /// `msync` (`file`).
    Msync,
    Sim(SimPm),
    Shadow(ShadowPm),
    /// Nothing at all, and nothing is counted (`dram`).
    Volatile(Charged),
    /// Of what is copied from this file, nothing is ever written.
    Copied(Arc<dyn File>),
}

/// Plain memory, and whose it is.
struct Charged {
    account: Arc<Account>,
    charges: Mutex<Vec<Charge>>,
}

/// One mapped range of bytes that outlives the process. Cloning shares it.
#[derive(Clone)]
pub struct Region {
    inner: Arc<Inner>,
}

struct Inner {
    kind: RegionKind,
    backend: Backend,
    base: *mut u8,
    len: AtomicU64,
    capacity: u64,
    path: PathBuf,
    env: Env,
    emulation: Emulation,
    read_only: bool,
    counters: Counters,
    file: Option<Arc<dyn File>>,
    watch: Option<Watch>,
    map: Option<Arc<Reservation>>,
    /// Held while the file is synced.
    syncing: Mutex<()>,
    /// Why a sync failed, since the region was opened. Set under `syncing`.
    sync_failed: OnceLock<String>,
    /// No other region of the process has it, before or after: an address may come again.
    number: u64,
}

// SAFETY: `base` points into `map` (or the simulator's buffer), both owned by `Inner` and never
// moved (invariant 4); what may be done to the bytes from several threads is invariant 3.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // Closing alone would not do: a child process that another thread is starting may hold a
        // copy of the open file for a moment.
        self.unlock();
        if let Backend::Msync = &self.backend {
            unsynced::forget(self.number);
        }
    }
}

impl Inner {
    fn unlock(&self) {
        // Before others may have the file, since evictions write to it.
        if let Backend::Shadow(shadow) = &self.backend {
            shadow.stop();
        }
        if let Some(file) = &self.file {
            file.unlock();
        }
    }
}

/// Bytes of a range that [`Region::prefetch_range`] asks for at most: the processor's own prefetching has begun by then, and
/// the nearest cache is not swept.
const PREFETCH_MAX: usize = 4096;

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region")
            .field("kind", &self.inner.kind)
            .field("path", &self.inner.path)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Region {
    /// Lets other databases have the region's file. For a store that is closed: its last readers may
    /// hold the mapping a little longer, but nobody writes through it any more.
    pub fn unlock(&self) {
        self.inner.unlock();
    }

    /// What it is.
    pub fn kind(&self) -> RegionKind {
        self.inner.kind
    }

    /// Its file; `sim` for the simulator, `dram` for plain memory.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Bytes mapped now.
    #[inline]
    pub fn len(&self) -> u64 {
        self.inner.len.load(Ordering::Acquire)
    }

    /// Whether it has no bytes yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes it may grow to.
    pub fn capacity(&self) -> u64 {
        self.inner.capacity
    }

    /// The emulation profile in force.
    pub fn emulation(&self) -> Emulation {
        self.inner.emulation
    }

    /// Whether it was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.inner.read_only
    }

    /// What was counted since it was opened.
    pub fn counters(&self) -> PmCounters {
        self.inner.counters.read()
    }

    /// The bytes `[off, off + len)`. They must have been published (invariant 3); check
    /// [`Region::check_media`] before acting on what they say.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the range does not lie in the region: the offset came from damaged
    /// bytes.
    #[inline]
    pub fn bytes(&self, off: PmOff, len: usize) -> Result<&[u8]> {
        let inner = &*self.inner;
        let end = off.0.checked_add(len as u64);
        if end.is_none_or(|end| end > self.len()) {
            return Err(self.out_of_bounds(off, len as u64));
        }
        if let Backend::Sim(sim) = &inner.backend {
            sim.note_read(off.0, len as u64);
        }
        if inner.emulation != Emulation::None {
            self.spin(emulate::read_ns(inner.emulation));
        }
        // SAFETY: invariants 2 (checked above), 3 and 4.
        Ok(unsafe { std::slice::from_raw_parts(inner.base.add(index(off.0)), len) })
    }

    /// Asks the CPU to load the line at `off`, if there is one.
    #[inline]
    pub fn prefetch(&self, off: PmOff) {
        if off.0 < self.len() {
            // SAFETY: invariant 2, checked above.
            cpu::prefetch(unsafe { self.inner.base.add(index(off.0)) });
        }
    }

    /// As [`Region::prefetch`], for all lines of `[off, off + len)` up to 4 KiB: these arrive together.
    #[inline]
    pub fn prefetch_range(&self, off: PmOff, len: usize) {
        let end = (self.len()).min(off.0.saturating_add(len.min(PREFETCH_MAX) as u64));
        let mut line = off.0 - off.0 % LINE;
        while line < end {
            // SAFETY: invariant 2: `line` lies before the region's end.
            cpu::prefetch(unsafe { self.inner.base.add(index(line)) });
            line += LINE;
        }
    }

    /// Asks for the pages of a range to be present, so that touching them does not fault. A hint;
    /// with `write` for regions whose pages are not written to a device when they become dirty.
    pub fn populate(&self, off: PmOff, len: u64, write: bool) {
        if write && !matches!(self.inner.backend, Backend::Cpu | Backend::Volatile(_)) {
            return;
        }
        if let Some(map) = &self.inner.map
            && off.0.checked_add(len).is_some_and(|end| end <= self.len())
        {
            map.populate(index(off.0), index(len), write);
        }
    }

    /// Whether all bytes could be read so far.
    ///
    /// # Errors
    /// [`Error::Corruption`] naming the first page that could not be read (invariant 5).
    #[inline]
    pub fn check_media(&self) -> Result<()> {
        match self.inner.watch.as_ref().and_then(Watch::fault) {
            None => Ok(()),
            Some(offset) => Err(self.media_error(offset)),
        }
    }

    #[cold]
    fn media_error(&self, offset: u64) -> Error {
        Error::corruption(
            "a page cannot be read: the file was cut short or its medium failed",
            self.inner.path.display().to_string(),
            offset,
            "a readable page",
            "a bus error",
        )
    }

    /// The 8-byte word at `off`, atomically.
    ///
    /// # Errors
    /// As [`Region::bytes`]; also if `off` is not a multiple of 8.
    pub fn load_u64(&self, off: PmOff) -> Result<u64> {
        let end = off.0.checked_add(8);
        if !off.0.is_multiple_of(8) || end.is_none_or(|end| end > self.len()) {
            return Err(self.out_of_bounds(off, 8));
        }
        if let Backend::Sim(sim) = &self.inner.backend {
            sim.note_read(off.0, 8);
        }
        // SAFETY: invariants 2 and 4; the word is aligned, and changes only through `store_u64`.
        let word = unsafe { &*self.inner.base.add(index(off.0)).cast::<AtomicU64>() };
        Ok(u64::from_le(word.load(Ordering::Acquire)))
    }

    /// Stores an 8-byte word atomically. `site` names the fact it publishes.
    ///
    /// # Safety
    /// Nobody holds a slice of the word ([`Region::bytes`]) or stores there otherwise (invariant 3).
    pub unsafe fn store_u64(&self, off: PmOff, value: u64, site: Site) {
        self.check_writable(off, 8);
        assert!(off.0.is_multiple_of(8));
        self.count_stored(8);
        match &self.inner.backend {
            Backend::Sim(sim) => return sim.publish(off.0, value, site),
            Backend::Shadow(shadow) => return shadow.store_u64(off.0, value),
            Backend::Cpu | Backend::Msync | Backend::Volatile(_) | Backend::Copied(_) => {}
        }
        // SAFETY: as in `load_u64`.
        let word = unsafe { &*self.inner.base.add(index(off.0)).cast::<AtomicU64>() };
        word.store(value.to_le(), Ordering::Release);
    }

    /// Stores bytes through the cache; they need a flush and a fence.
    ///
    /// # Safety
    /// The range is not published: until this has returned nobody holds a slice of it ([`Region::bytes`]),
    /// loads a word of it or stores there (invariant 3).
    pub unsafe fn write(&self, off: PmOff, bytes: &[u8]) {
        self.check_writable(off, bytes.len() as u64);
        self.count_stored(bytes.len() as u64);
        match &self.inner.backend {
            Backend::Sim(sim) => return sim.store(off.0, bytes),
            Backend::Shadow(shadow) => return shadow.store(off.0, bytes),
            Backend::Cpu | Backend::Msync | Backend::Volatile(_) | Backend::Copied(_) => {}
        }
        // SAFETY: invariant 2 (checked above) and the caller: nobody reads an unpublished range.
        unsafe {
            self.inner
                .base
                .add(index(off.0))
                .copy_from(bytes.as_ptr(), bytes.len());
        }
    }

    /// Stores whole lines past the cache, flushed at once; they need only a fence, by this thread. For
    /// what is written once: storing again into a line just written back costs about 155 ns.
    ///
    /// # Safety
    /// As [`Region::write`].
    pub unsafe fn write_nt(&self, off: PmOff, bytes: &[u8]) {
        let len = bytes.len() as u64;
        self.check_writable(off, len);
        assert!(off.0.is_multiple_of(64) && len.is_multiple_of(64));
        if let Backend::Msync = &self.inner.backend {
            // SAFETY: the same contract.
            unsafe { self.write(off, bytes) };
            return self.flush(off, len);
        }
        if let Backend::Volatile(_) = &self.inner.backend {
            // Whoever makes it durable reads it soon.
            // SAFETY: the same contract.
            return unsafe { self.write(off, bytes) };
        }
        self.inner.counters.stored(len);
        self.inner.counters.written_back(off.0, len);
        match &self.inner.backend {
            Backend::Sim(sim) => sim.store_nt(off.0, bytes),
            Backend::Shadow(shadow) => shadow.store_nt(off.0, bytes),
            Backend::Cpu | Backend::Msync | Backend::Volatile(_) | Backend::Copied(_) => {
                self.throttle(len);
                // SAFETY: invariant 2 (checked above) and the caller; C1 of `cpu`.
                unsafe { cpu::copy_nt(self.inner.base.add(index(off.0)), bytes) };
            }
        }
    }

    /// Starts writing back the lines of a range: what this thread stored there, and what others did
    /// that happened before. Not their non-temporal stores, which wait for their own fence.
    pub fn flush(&self, off: PmOff, len: u64) {
        self.check_writable(off, len);
        if let Backend::Volatile(_) = &self.inner.backend {
            return;
        }
        self.inner.counters.written_back(off.0, len);
        match &self.inner.backend {
            Backend::Cpu => {
                self.throttle(len);
                // SAFETY: invariant 2, checked above; C1 of `cpu`.
                unsafe { cpu::flush(self.inner.base.add(index(off.0)), index(len)) };
            }
            Backend::Msync => unsynced::note(self.inner.number, off.0, off.0 + len),
            Backend::Sim(sim) => sim.flush(off.0, len),
            Backend::Shadow(shadow) => shadow.flush(off.0, len),
            Backend::Volatile(_) | Backend::Copied(_) => {}
        }
    }

    /// Waits until everything this thread flushed is durable. `site` names the fact that now holds.
    ///
    /// # Errors
    /// The device failed, or a page is gone: what is durable is unknown, and the caller must poison
    /// the store.
    pub fn fence(&self, site: Site) -> Result<()> {
        if let Backend::Volatile(_) = &self.inner.backend {
            return Ok(());
        }
        self.inner.counters.fenced();
        match &self.inner.backend {
            Backend::Cpu => cpu::fence(),
            Backend::Msync => self.sync_flushed()?,
            Backend::Sim(sim) => self.unless_failed(|| sim.fence(site))?,
            Backend::Shadow(shadow) => {
                shadow.fence();
                if let Some(offset) = shadow.fault() {
                    return Err(self.media_error(offset));
                }
            }
            Backend::Volatile(_) | Backend::Copied(_) => {}
        }
        self.check_media()
    }

    /// Nothing is persisted in plain memory, and nothing counts as stored there.
    fn count_stored(&self, bytes: u64) {
        if !matches!(self.inner.backend, Backend::Volatile(_)) {
            self.inner.counters.stored(bytes);
        }
    }

    /// Flush and fence.
    ///
    /// # Errors
    /// As [`Region::fence`].
    pub fn persist(&self, off: PmOff, len: u64, site: Site) -> Result<()> {
        self.flush(off, len);
        self.fence(site)
    }

    fn sync_flushed(&self) -> Result<()> {
        let ranges = unsynced::take(self.inner.number);
        // Ranges on the same or neighbouring pages become one call.
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (from, to) in ranges {
            match merged.last_mut() {
                Some(last) if from <= last.1.next_multiple_of(PAGE as u64) => {
                    last.1 = last.1.max(to);
                }
                _ => merged.push((from, to)),
            }
        }
        let Some(map) = &self.inner.map else {
            return Ok(());
        };
        // The system tells of a failed write-back once, to whichever sync of this file comes first. So
        // one at a time syncs, and after a failure none succeeds.
        let _syncing = lock(&self.inner.syncing);
        self.unless_failed(|| {
            for (from, to) in merged {
                let synced = map.sync(index(from), index(to - from));
                let synced = synced.map_err(|e| Error::io_at("sync", &self.inner.path, from, e))?;
                self.inner.counters.device(synced as u64);
            }
            Ok(())
        })
    }

    /// Syncs, unless a sync has failed since the region was opened: what that one covered is on the device
    /// only if it is stored again, which is what the next open does. So none succeeds any more until then.
    fn unless_failed(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        self.check_synced()?;
        sync().inspect_err(|error| {
            let _ = self.inner.sync_failed.set(error.to_string());
        })
    }

    /// Refuses what follows a sync that failed.
    fn check_synced(&self) -> Result<()> {
        match self.inner.sync_failed.get() {
            Some(cause) => Err(Error::Poisoned(format!("an earlier sync failed: {cause}"))),
            None => Ok(()),
        }
    }

    fn check_writable(&self, off: PmOff, len: u64) {
        assert!(
            !self.inner.read_only,
            "a write to a region opened for reading only"
        );
        let end = off.0.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len()),
            "a write of {len} bytes at {off} leaves the region of {} bytes",
            self.len()
        );
    }

    #[cold]
    fn out_of_bounds(&self, off: PmOff, len: u64) -> Error {
        Error::corruption(
            "an offset points outside of the region",
            self.inner.path.display().to_string(),
            off.0,
            format!("{len} bytes within {}", self.len()),
            format!("an end at {}", u128::from(off.0) + u128::from(len)),
        )
    }

    #[inline]
    fn throttle(&self, len: u64) {
        if self.inner.emulation != Emulation::None {
            self.spin(emulate::write_ns(self.inner.emulation, len));
        }
    }

    #[cold]
    fn spin(&self, ns: u64) {
        let clock = &self.inner.env.clock;
        let end = clock.now_ns() + ns;
        while clock.now_ns() < end {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests;
