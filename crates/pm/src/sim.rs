//! Simulated persistent memory: forgets what was not persisted.
//!
//! A [`SimPm`] keeps, beside the bytes that the CPU sees, for every 8-byte word the value that is
//! certainly durable and the values stored since (`Torn8`, see the crate documentation):
//!
//! - A store adds a possible value to its words.
//! - A flush by a writer notes the lines and how far their stores had come, whoever stored.
//! - A fence by **the same** writer makes what was noted certain and forgets older values.
//! - A non-temporal store is a store and a flush in one; but until its own writer's fence, no
//!   other's makes it certain, nor anything stored to that word after it.
//!
//! A *writer* is a thread, or what a thread acts as (see [`SimPm::as_writer`]).
//!
//! # One writer's stores, another one's flush
//! Caches are coherent, so a write-back instruction takes the line as all processors see it: a store
//! that is visible to the flushing thread is in it, whoever made it. So thread B may persist what
//! thread A stored with plain stores, provided that A's stores happened before B's flush.
//!
//! A non-temporal store is not in the cache. Both x86 vendors order it like a store to
//! write-combining memory: weakly, held back in a buffer of A's processor until that is evicted, and
//! promised to be drained by a fence of A's. B's write-back does not reach into that buffer. Locked
//! instructions and interrupts drain it too, so a hand-over through a lock would often do, and one
//! through a plain release store would not; the model counts on neither, nor does any code here.
//! What it does not model is that B may still *read* the old value.
//!
//! A sync may be made to fail: then no later one makes certain what was stored before it, unless it is *stored
//! again* (`fail`).
//!
//! The region's file has a length of its own. A growth makes it longer, and by what is to be left on the disk as well, before the sync
//! with which the region has more bytes; cutting it is synced by nothing. So a crash may leave a file that is longer than the region
//! was, with whatever lay there ([`CrashImage::longer`]); a process that is killed within a growth does.
//!
//! A crash may leave each word at its certain value or at any value stored since, independently of
//! all other words. That allows more than real hardware does (x86 keeps the order of stores within
//! a line), so what survives here does not lean on one vendor.
//!
//! [`SimPm::crash`] takes a [`CrashImage`]; the image counts the undecided words and builds a new
//! simulator for any choice of their values. Two things keep exploration cheap: an image is a
//! shared snapshot plus a list of undecided words, and [`SimPm::track_reads`] tells which words a
//! recovery looked at, so that the others need not be varied.

mod choose;
mod crash;
mod fail;
mod state;

pub use choose::{Choice, EXHAUSTIVE_MAX};
pub use crash::{CrashImage, PendingWord};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thermocline_base::size::index;
use thermocline_base::sync::{Mutex, SCHEDULED, lock};
use thermocline_base::{Result, Site, Steps, When};
use thermocline_env::sim::SimFs;

use crate::writer::{ActingWriter, Writer};
use fail::Failure;
use state::{LINE_BYTES, State, WORD};

/// Simulated persistent memory. Cloning shares it.
#[derive(Clone)]
pub struct SimPm {
    core: Arc<Core>,
}

struct Core {
    /// What the CPU sees. Written under `state`'s lock; read freely.
    words: Box<[AtomicU64]>,
    /// Whether it stands in for a region that was never made.
    stands_in: bool,
    steps: Steps,
    /// Whether reads are noted. Who wants them to be says so before there is anybody who reads.
    tracks_reads: AtomicBool,
    state: Mutex<State>,
}

impl std::fmt::Debug for SimPm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = lock(&self.core.state);
        f.debug_struct("SimPm")
            .field("len", &state.len)
            .field("pending_lines", &state.pending.len())
            .finish_non_exhaustive()
    }
}

impl SimPm {
    /// Empty memory that can grow to `capacity` bytes (a multiple of 64).
    pub fn new(capacity: u64, steps: Steps) -> SimPm {
        SimPm::with(capacity, steps, false)
    }

    /// As [`SimPm::new`], in place of a region that is not there yet: a region on it is of kind `none`.
    pub fn standing_in(capacity: u64) -> SimPm {
        SimPm::with(capacity, Steps::new(), true)
    }

    pub(crate) fn stands_in(&self) -> bool {
        self.core.stands_in
    }

    fn with(capacity: u64, steps: Steps, stands_in: bool) -> SimPm {
        assert!(capacity.is_multiple_of(64));
        let words = (0..capacity / WORD).map(|_| AtomicU64::new(0)).collect();
        SimPm::of(words, stands_in, steps)
    }

    /// Memory of these words, of which none belongs to the region yet.
    fn of(words: Vec<AtomicU64>, stands_in: bool, steps: Steps) -> SimPm {
        SimPm {
            core: Arc::new(Core {
                words: words.into_boxed_slice(),
                stands_in,
                steps,
                tracks_reads: AtomicBool::new(false),
                state: Mutex::default(),
            }),
        }
    }

    /// Lets this thread act as writer `number` until the guard is dropped: until then its flushes,
    /// fences and non-temporal stores, in whatever simulator, are that writer's and nobody else's, no
    /// thread's either. Guards nest; drop them in reverse order.
    ///
    /// ```
    /// use thermocline_base::{Site, Steps};
    /// use thermocline_pm::{Emulation, Place, PmOff, Region, RegionSpec, SimPm};
    ///
    /// let sim = SimPm::new(4096, Steps::new());
    /// let region = Region::create(
    ///     &RegionSpec {
    ///         env: thermocline_env::Env::real(),
    ///         place: Place::Sim(sim.clone()),
    ///         demand: Default::default(),
    ///         capacity: 4096,
    ///         emulation: Emulation::None,
    ///         read_only: false,
    ///     },
    ///     4096,
    /// )?;
    /// {
    ///     let _one = SimPm::as_writer(1);
    ///     // SAFETY: nobody holds a slice of the region.
    ///     unsafe { region.write_nt(PmOff(0), &[1; 64]) };
    /// }
    /// let _two = SimPm::as_writer(2);
    /// region.fence(Site("example"))?;
    /// assert_eq!(sim.crash().pending().len(), 8, "the other writer's words are not durable");
    /// # Ok::<(), thermocline_base::Error>(())
    /// ```
    #[must_use]
    pub fn as_writer(number: u64) -> ActingWriter {
        ActingWriter::new(number)
    }

    /// The step counter it reports to.
    pub fn steps(&self) -> &Steps {
        &self.core.steps
    }

    /// How often each site was fenced or stored at.
    pub fn sites(&self) -> BTreeMap<Site, u64> {
        lock(&self.core.state).sites.clone()
    }

    /// From now on it takes its room from this disk, as a region's file does.
    pub fn lie_on(&self, disk: &SimFs) {
        let mut state = lock(&self.core.state);
        disk.take_for_region(state.len);
        state.disk = Some(disk.clone());
    }

    pub(crate) fn has_disk(&self) -> bool {
        lock(&self.core.state).disk.is_some()
    }

    /// Makes its file `len` bytes long, or leaves it as long as the region is, if its disk has so many instead of those that it has
    /// there.
    pub(crate) fn take_disk(&self, len: u64) -> bool {
        let (disk, has) = {
            let state = lock(&self.core.state);
            (state.disk.clone(), state.len)
        };
        let len = len.max(has);
        let fits = disk.is_none_or(|disk| disk.take_for_region(len));
        if fits {
            let mut state = lock(&self.core.state);
            state.longest = state.longest.max(len);
        }
        fits
    }

    /// Begins (or ends) to note which words are read.
    pub fn track_reads(&self, on: bool) {
        let bits = self.core.words.len().div_ceil(64);
        lock(&self.core.state).reads = on.then(|| vec![0; bits]);
        self.core.tracks_reads.store(on, Ordering::Relaxed);
    }

    /// The offsets of the words read since tracking began.
    pub fn reads(&self) -> BTreeSet<u64> {
        let state = lock(&self.core.state);
        let bits = state.reads.as_deref().unwrap_or_default();
        // Few of them are read.
        let some = (0u64..)
            .step_by(64)
            .zip(bits)
            .filter(|(_, bits)| **bits != 0);
        let words = some.flat_map(|(first, &bits)| {
            let read = (0..64u64).filter(move |bit| (bits >> *bit) & 1 != 0);
            read.map(move |bit| first + bit)
        });
        words.map(|word| word * WORD).collect()
    }

    /// Flips the bits of `mask` in the byte at `offset`, as bit rot does: durably and unnoticed.
    pub fn rot(&self, offset: u64, mask: u8) {
        let _state = lock(&self.core.state);
        let word = &self.core.words[index(offset / WORD)];
        let shift = (offset % WORD) * 8;
        word.fetch_xor(u64::from(mask) << shift, Ordering::Relaxed);
    }

    /// Lets the `n`-th fence or growth from now (0 = the next) and all after it fail.
    pub fn fail_fence_in(&self, n: u64) {
        lock(&self.core.state).failure = Some(Failure::for_ever(n));
    }

    /// Lets the `n`-th sync from now (0 = the next), of a fence or of a growth, fail with the system's error
    /// `code`. Those after it succeed, and make nothing certain of what was stored before it.
    pub fn fail_sync_once_in(&self, n: u64, code: i32) {
        lock(&self.core.state).failure = Some(Failure::once(n, code));
    }

    /// Whether a sync that was to fail has not failed yet, or goes on failing.
    pub fn will_fail(&self) -> bool {
        lock(&self.core.state).failure.is_some()
    }

    /// Stores a range again, as it reads. A word that is certain stays so.
    pub(crate) fn store_again(&self, off: u64, len: u64) {
        let mut state = lock(&self.core.state);
        for word in state.open_words(off / WORD..(off + len).div_ceil(WORD)) {
            let value = self.core.words[index(word)].load(Ordering::Relaxed);
            state.store_in_line(&self.core.words, word * WORD, &value.to_le_bytes(), None);
        }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.core.words.as_ptr().cast::<u8>().cast_mut()
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.core.words.len() as u64 * WORD
    }

    pub(crate) fn len(&self) -> u64 {
        lock(&self.core.state).len
    }

    /// Makes the bytes `[from, to)` part of the region, all zero, and syncs them and the length of its file. After a failure the
    /// region is as long as it was.
    pub(crate) fn grow(&self, from: u64, to: u64, site: Site) -> Result<()> {
        {
            let mut state = lock(&self.core.state);
            state.is_growing = true;
            state.longest = state.longest.max(to);
        }
        self.core.steps.point(site, When::Before);
        {
            let mut state = lock(&self.core.state);
            state.is_growing = false;
            state.fail_if_due()?;
            for word in &self.core.words[index(from / WORD)..index(to / WORD)] {
                word.store(0, Ordering::Relaxed);
            }
            state.forget_from(from / WORD);
            // What an earlier growth has left may be more.
            state.len = state.len.max(to);
            state.longest = state.len;
            *state.sites.entry(site).or_default() += 1;
        }
        self.core.steps.point(site, When::After);
        Ok(())
    }

    /// Gives up the bytes from `to` on. A crash may find the file as long as it was, as one before it does: so it is no point
    /// of its own.
    pub(crate) fn cut(&self, to: u64) {
        {
            let mut state = lock(&self.core.state);
            state.longest = state.longest.max(state.len);
            state.forget_from(to / WORD);
            state.len = to;
        }
        self.take_disk(to);
    }

    /// Its file is removed, durably, and made anew, empty.
    pub(crate) fn begin_anew(&self) {
        {
            let mut state = lock(&self.core.state);
            let used = index(state.len.max(state.longest) / WORD).min(self.core.words.len());
            for word in &self.core.words[..used] {
                word.store(0, Ordering::Relaxed);
            }
            state.forget_from(0);
            (state.len, state.longest) = (0, 0);
        }
        self.take_disk(0);
    }

    pub(crate) fn store(&self, off: u64, bytes: &[u8]) {
        self.store_bytes(off, bytes, None);
    }

    /// Stores lines past the cache: flushed at once, but only this writer's fence covers them.
    pub(crate) fn store_nt(&self, off: u64, bytes: &[u8]) {
        self.store_bytes(off, bytes, Some(Writer::current()));
        self.flush(off, bytes.len() as u64);
    }

    fn store_bytes(&self, off: u64, bytes: &[u8], buffered_by: Option<Writer>) {
        let mut state = lock(&self.core.state);
        let mut at = 0;
        while at < bytes.len() {
            let from = off + at as u64;
            let n = index(LINE_BYTES - from % LINE_BYTES).min(bytes.len() - at);
            state.store_in_line(&self.core.words, from, &bytes[at..at + n], buffered_by);
            at += n;
        }
    }

    /// An atomic 8-byte store that others may act on: a crash point of its own.
    pub(crate) fn publish(&self, off: u64, value: u64, site: Site) {
        self.core.steps.point(site, When::Before);
        {
            let mut state = lock(&self.core.state);
            state.store_in_line(&self.core.words, off, &value.to_le_bytes(), None);
        }
        self.core.steps.point(site, When::After);
    }

    pub(crate) fn flush(&self, off: u64, len: u64) {
        let mut state = lock(&self.core.state);
        let clock = state.clock;
        let lines = state.flushed.entry(Writer::current()).or_default();
        for line in off / 64..(off + len).div_ceil(64) {
            lines.push((line, clock));
        }
    }

    pub(crate) fn fence(&self, site: Site) -> Result<()> {
        self.core.steps.point(site, When::Before);
        {
            let mut state = lock(&self.core.state);
            state.fail_if_due()?;
            state.fence(Writer::current());
            *state.sites.entry(site).or_default() += 1;
        }
        self.core.steps.point(site, When::After);
        Ok(())
    }

    pub(crate) fn note_read(&self, off: u64, len: u64) {
        // Every read of memory comes by here. To a scheduler the lock makes it a step, and others may go on before it.
        if !SCHEDULED && !self.core.tracks_reads.load(Ordering::Relaxed) {
            return;
        }
        let mut state = lock(&self.core.state);
        if let Some(reads) = &mut state.reads {
            for word in off / WORD..(off + len).div_ceil(WORD) {
                reads[index(word / 64)] |= 1 << (word % 64);
            }
        }
    }
}

#[cfg(test)]
mod tests;
