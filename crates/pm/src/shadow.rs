//! Shadowed persistent memory: a killed process loses what it had not persisted.
//!
//! `kill -9` keeps every store to a shared mapping, flushed or not. Here the engine runs on memory of
//! its own, the *cache*, and the region's file, the *image*, gets only what hardware would have let
//! through to the medium. So real threads, real processes and SIGKILL at any moment find a forgotten
//! flush or fence. For tests; but part of every build, so that what is tested is what is shipped.
//!
//! # The model
//! As strict as the hardware, for each 8-byte word:
//!
//! 1. A store changes the cache only.
//! 2. A flush takes down the line's content at that moment, whoever stored it (caches are coherent),
//!    except words that another writer stored past the cache and has not fenced: those sit in a
//!    buffer of that writer's processor (see `sim`). A non-temporal store is a store and takes down
//!    what it stored, for its writer alone.
//! 3. A fence writes what **its own** writer had taken down, and no later store, to the image.
//! 4. At any time any word of any line may reach the image, with what the cache holds (an eviction)
//!    or with what was taken down and not yet fenced (a write-back that completed early). A background
//!    thread does that to random lines, whole or torn, from a seed. So nothing may rely on a line's
//!    *not* arriving either.
//! 5. A word of the image never goes back: what was taken down earlier than what is there is dropped.
//!    That, too, is kept word by word (`line`).
//!
//! A kill in the middle of a fence leaves some of its words written, in a random order of lines.
//!
//! # How it is built
//! The cache is a *private* mapping of the file: opening copies nothing, a page is copied by the
//! kernel when it is first stored to, and pages without data cost nothing. A page that was copied no
//! longer sees the image; one that was not shows it, and equals it, because the image of a page
//! changes only through lines that were stored to.
//!
//! The image is a *shared* mapping, written in aligned 8-byte stores: each is atomic, a kill
//! falls between any two of them, and the page cache keeps them all. `pwrite` would do as much, but a
//! system call for each line or torn word would slow the writers down, and what it does of several
//! words before a kill is the kernel's affair.
//!
//! # Invariants
//! - **H1** Offsets come from `region`, which has checked them: they lie in the mapped part of both
//!   mappings, and the lines noted in `stripes` do, since both mappings only grow.
//! - **H2** Stores to the cache, reads of it by this module, and every access to the image are made
//!   under the lock of the page's stripe. So a copy is never older than one made before it.
//! - **H3** A line that is not noted is the same in cache and image.
//! - **H4** Nothing is written to the image once [`ShadowPm::stop`] has returned, unless a caller
//!   stores or flushes again; the file's lock is given up after that.
#![expect(unsafe_code, reason = "reads and writes mapped words")]

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_base::size::index;
use thermocline_base::sync::{Mutex, MutexGuard, lock};
use thermocline_base::{Error, Result};
use thermocline_env::simulated::SeededRandom;

use crate::map::{PAGE, Reservation, Sharing};
use crate::sigbus::Watch;
use crate::writer::Writer;
use evict::Evictor;
use line::{Changes, Content, Line};

mod evict;
mod line;

const PAGE_BYTES: u64 = PAGE as u64;
const STRIPES: u64 = 64;

/// How a shadowed region treats what was not persisted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shadow {
    /// Decides which lines are evicted, and the order of lines within a fence. With several threads
    /// the same seed does not give the same run.
    pub seed: u64,
    /// About how many lines a background thread writes back each millisecond although nobody asked
    /// for it; 0 for none.
    pub evictions_per_ms: u32,
}

/// The shadow of one region.
pub(crate) struct ShadowPm {
    core: Arc<Core>,
    evictor: Mutex<Option<Evictor>>,
}

/// The noted lines of every [`STRIPES`]-th page, by number.
type Lines = BTreeMap<u64, Line>;

struct Core {
    /// Of the image. Goes before it.
    watch: Watch,
    image: Reservation,
    cache: Arc<Reservation>,
    stripes: Vec<Mutex<Lines>>,
    /// The lines of which each writer has taken something down since its last fence.
    unfenced: Mutex<HashMap<Writer, Vec<u64>>>,
    random: SeededRandom,
}

impl ShadowPm {
    /// The shadow of a region whose `cache` maps the first `len` bytes of the file privately.
    pub fn open(
        shadow: Shadow,
        path: &Path,
        fd: i32,
        cache: Arc<Reservation>,
        len: u64,
        read_only: bool,
    ) -> Result<ShadowPm> {
        let io = |error| Error::io("map", path, error);
        let image = Reservation::reserve(cache.len()).map_err(io)?;
        if len > 0 {
            image
                .map(fd, 0, index(len), !read_only, Sharing::Shared)
                .map_err(io)?;
        }
        let watch = Watch::new(image.base(), image.len()).ok_or_else(Watch::too_many)?;
        let core = Arc::new(Core {
            watch,
            image,
            cache,
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            unfenced: Mutex::default(),
            random: SeededRandom::new(shadow.seed),
        });
        let evicting = core.clone();
        let evict = move || evicting.evict();
        let evictor = (!read_only && shadow.evictions_per_ms > 0)
            .then(|| Evictor::start(evict, shadow.evictions_per_ms))
            .transpose()
            .map_err(|error| Error::io("start the evictor of", path, error))?;
        Ok(ShadowPm {
            core,
            evictor: Mutex::new(evictor),
        })
    }

    /// Stores bytes through the cache.
    pub fn store(&self, off: u64, bytes: &[u8]) {
        self.core.store(off, bytes, |_, _| ());
    }

    /// Stores lines past the cache.
    pub fn store_nt(&self, off: u64, bytes: &[u8]) {
        let writer = Writer::current();
        self.core.store(off, bytes, |line, content| {
            line.store_nt(writer, content);
        });
        lock(&self.core.unfenced)
            .entry(writer)
            .or_default()
            .extend(lines(&(off..off + bytes.len() as u64)));
    }

    /// Stores an aligned word atomically.
    pub fn store_u64(&self, off: u64, value: u64) {
        let mut noted = self.core.lines(off);
        // Release: partner of the acquire load in `Region::load_u64`.
        word(&self.core.cache, off).store(value.to_le(), Ordering::Release);
        noted.entry(off / 64).or_default();
    }

    /// Starts writing back the lines of a range.
    pub fn flush(&self, off: u64, len: u64) {
        let writer = Writer::current();
        let mut taken = Vec::new();
        for range in pages(off, len) {
            let mut noted = self.core.lines(range.start);
            for (&number, line) in noted.range_mut(lines(&range)) {
                line.flush(writer, self.core.content(number));
                taken.push(number);
            }
        }
        lock(&self.core.unfenced)
            .entry(writer)
            .or_default()
            .extend(taken);
    }

    /// Writes what this writer has taken down to the image.
    pub fn fence(&self) {
        let writer = Writer::current();
        let mut taken = lock(&self.core.unfenced)
            .remove(&writer)
            .unwrap_or_default();
        self.core.shuffle(&mut taken);
        for number in taken {
            // A line that was taken down twice is done the first time.
            self.core.change(number, |line, _| line.fence(writer));
        }
    }

    /// The offset of the first page of the image that could not be written, if there was one.
    pub fn fault(&self) -> Option<u64> {
        self.core.watch.fault()
    }

    /// The range `[from, …)` is given up: nothing stored there reaches the image any more. Nobody
    /// stores there meanwhile.
    pub fn forget(&self, from: u64) {
        for stripe in &self.core.stripes {
            lock(stripe).retain(|&number, _| number < from / 64);
        }
    }

    /// Maps more of the file, of which `[from, to)` is zero now and `[0, mapped)` was mapped.
    pub fn grow(&self, fd: i32, from: u64, mapped: u64, to: u64) -> std::io::Result<()> {
        // Also where it was mapped: pages copied by stores since show what was stored.
        self.core
            .cache
            .map(fd, index(from), index(to), true, Sharing::Private)?;
        if to > mapped {
            self.core
                .image
                .map(fd, index(mapped), index(to), true, Sharing::Shared)?;
        }
        Ok(())
    }

    /// Ends the evictions, and waits for the last one.
    pub fn stop(&self) {
        if let Some(evictor) = lock(&self.evictor).take() {
            evictor.stop();
        }
    }
}

impl Drop for ShadowPm {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Core {
    /// The noted lines of the stripe in which `off` lies, locked.
    fn lines(&self, off: u64) -> MutexGuard<'_, Lines> {
        lock(&self.stripes[index(off / PAGE_BYTES % STRIPES)])
    }

    /// Stores bytes in the cache, and shows each of their lines with its new content.
    fn store(&self, off: u64, bytes: &[u8], mut each: impl FnMut(&mut Line, Content)) {
        for range in pages(off, bytes.len() as u64) {
            let mut noted = self.lines(range.start);
            let part = &bytes[index(range.start - off)..index(range.end - off)];
            // SAFETY: H1; nobody else writes there meanwhile (H2), and nobody reads an unpublished
            // range (crate invariant 3).
            unsafe {
                self.cache
                    .base()
                    .add(index(range.start))
                    .copy_from(part.as_ptr(), part.len());
            }
            for number in lines(&range) {
                each(noted.entry(number).or_default(), self.content(number));
            }
        }
    }

    /// What the cache holds of a line. Its stripe is locked.
    fn content(&self, number: u64) -> Content {
        std::array::from_fn(|i| load(&self.cache, number, i))
    }

    /// Makes a change to a noted line's image, which is decided by the line and its content.
    fn change(&self, number: u64, decide: impl FnOnce(&mut Line, Content) -> Changes) {
        let mut noted = self.lines(number * 64);
        if noted.contains_key(&number) {
            self.change_locked(&mut noted, number, decide);
        }
    }

    fn change_locked(
        &self,
        noted: &mut Lines,
        number: u64,
        decide: impl FnOnce(&mut Line, Content) -> Changes,
    ) {
        let Some(line) = noted.get_mut(&number) else {
            return;
        };
        let content = self.content(number);
        for (i, value) in decide(line, content).into_iter().enumerate() {
            if let Some(value) = value {
                // Relaxed: whoever reads it has the lock, or opens the file after this process.
                word(&self.image, number * 64 + i as u64 * 8).store(value, Ordering::Relaxed);
            }
        }
        let settled = line.is_settled();
        if settled && content == std::array::from_fn(|i| load(&self.image, number, i)) {
            noted.remove(&number);
        }
    }

    /// Lets some words of one line reach the image early. `false` if all is there.
    fn evict(&self) -> bool {
        let first = self.random.below(STRIPES);
        for stripe in (0..STRIPES).map(|i| (first + i) % STRIPES) {
            let mut noted = lock(&self.stripes[index(stripe)]);
            let ends = (noted.first_key_value(), noted.last_key_value());
            let (Some((&low, _)), Some((&high, _))) = ends else {
                continue;
            };
            let from = low + self.random.below(high - low + 1);
            let Some((&number, line)) = noted.range(from..).next() else {
                continue;
            };
            let words = self.some_words();
            let taken_down = line.taken_down();
            if taken_down > 0 && self.random.below(2) == 0 {
                let which = index(self.random.below(taken_down as u64));
                self.change_locked(&mut noted, number, |line, _| line.arrive(which, words));
            } else {
                let decide = |line: &mut Line, content| line.evict(words, content);
                self.change_locked(&mut noted, number, decide);
            }
            return true;
        }
        false
    }

    /// A bit for each word of a line: all, one, or any.
    fn some_words(&self) -> u8 {
        let [bits, ..] = self.random.next_u64().to_le_bytes();
        match self.random.below(4) {
            0 => u8::MAX,
            1 => 1 << (bits % 8),
            _ => bits,
        }
    }

    fn shuffle(&self, numbers: &mut [u64]) {
        for i in (1..numbers.len()).rev() {
            numbers.swap(i, index(self.random.below(i as u64 + 1)));
        }
    }
}

/// The parts of a range that lie in one page each.
fn pages(off: u64, len: u64) -> impl Iterator<Item = Range<u64>> {
    let end = off + len;
    (off / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).map(move |page| {
        let start = page * PAGE_BYTES;
        off.max(start)..end.min(start + PAGE_BYTES)
    })
}

/// The numbers of the lines that a range touches.
fn lines(range: &Range<u64>) -> Range<u64> {
    range.start / 64..range.end.div_ceil(64)
}

fn load(map: &Reservation, line: u64, i: usize) -> u64 {
    // Relaxed: other stores to the cache, and all to the image, are ordered by the lock (H2).
    word(map, line * 64 + i as u64 * 8).load(Ordering::Relaxed)
}

fn word(map: &Reservation, off: u64) -> &AtomicU64 {
    debug_assert!(off.is_multiple_of(8) && off + 8 <= map.len() as u64);
    // SAFETY: H1; aligned, and plain stores to it are ordered with this access by the lock (H2).
    unsafe { &*map.base().add(index(off)).cast::<AtomicU64>() }
}

#[cfg(test)]
mod tests;
