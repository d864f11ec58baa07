//! The readers of the past: the seqnos of snapshots, those of open iterators included.
//!
//! A reader *registers*: it notes the seqno that it reads at in a slot of its own, without a lock.
//! Where the slots that it tries are taken it enters a registry behind a lock, in which many readers at one moment are
//! one entry: a writer then pays for moments, not for readers.
//!
//! # Why a reader never misses a version
//! A writer that puts a record into the index keeps, of the key's older versions, those that a reader may
//! still want ([`Moments`]). It asks, in this order: which groups are in flight (`visible` may become the
//! last seqno of each), what `visible` is (V), which readers are registered. A reader notes what it found
//! `visible` to be, then looks at `visible` again, and begins anew if it has moved. All of these but the
//! first are sequentially consistent. Let a reader stay with seqno r.
//! - If its slot was written before the writer looked at it, r is among the registered.
//! - Otherwise the writer looked first, and had loaded V before; the reader's second look came later
//!   still. So r ≥ V. If r = V, or r is the end of a group that was in flight, it is among the
//!   moments. Otherwise r is the end of a group granted later, which is newer than every version
//!   that is in the index now, so that r sees the newest, and that always stays.
//!
//! In the registry the reader raises the count before it loads `visible`, and the writer looks at the count
//! after it has loaded V, which comes to the same.
//!
//! A reader raises the high-water mark of the slots before it writes its slot. A writer that misses the mark
//! has missed the slot, too, as if it had looked earlier.
//!
//! # Changes that no reader may notice
//! A job with a compaction filter replaces what readers may see by something else. It must know that no reader is
//! registered that could see the difference, until views show the new. So it *holds up* registrations
//! ([`Readers::hold_up`]): it takes the gate, raises a flag, looks which readers are registered, shows the new, lowers
//! the flag. A reader takes its slot, and then looks at the flag. If it is raised, it leaves its slot, waits at the
//! gate and begins anew. Slots and flag are sequentially consistent. Let a reader stay registered.
//! - If its slot was taken before the job looked, the job has found it.
//! - Otherwise its look at the flag came after the flag was raised, and found it lowered. So what it reads from then on is
//!   the new, and it has read nothing before.
//!
//! The same holds in the registry, where the count of readers is changed under its lock before the flag is looked at.

use std::cell::Cell;
use std::collections::BTreeMap;

use thermocline_base::SeqNo;
use thermocline_base::planted::{Bug, active};

use crate::ring::Ring;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock};

/// Readers that register without a lock.
pub const SLOTS: usize = 128;

/// Slots of one cache line. Each thread begins to look at the start of another line.
const LINE: usize = 8;

/// Slots that a reader tries before it goes to the registry.
const TRIES: usize = 2 * LINE;

#[repr(align(64))]
#[derive(Debug, Default)]
struct Slots([AtomicU64; LINE]);

/// The readers of the past. See the [module](self).
#[derive(Debug)]
pub struct Readers {
    /// 0, or one more than the seqno of a reader.
    slots: Box<[Slots]>,
    /// No slot from here on was ever used.
    used: AtomicUsize,
    /// Readers in the registry, or about to enter.
    entered: AtomicUsize,
    registry: Mutex<BTreeMap<u64, usize>>,
    /// Different moments in the registry. Changed under its lock.
    moments: AtomicUsize,
    /// Readers in slots.
    in_slots: AtomicUsize,
    /// Whether nobody may register now.
    held_up: AtomicBool,
    /// Held while that is so.
    gate: Mutex<()>,
}

/// A reader's registration: where it stands.
#[derive(Debug)]
pub struct Registration {
    /// The moment at which it reads.
    pub seqno: SeqNo,
    /// Its slot, if it has one.
    pub slot: Option<usize>,
}

impl Default for Readers {
    fn default() -> Readers {
        Readers {
            slots: (0..SLOTS / LINE).map(|_| Slots::default()).collect(),
            used: AtomicUsize::new(0),
            entered: AtomicUsize::new(0),
            registry: Mutex::default(),
            moments: AtomicUsize::new(0),
            in_slots: AtomicUsize::new(0),
            held_up: AtomicBool::new(false),
            gate: Mutex::default(),
        }
    }
}

impl Readers {
    fn slot(&self, i: usize) -> &AtomicU64 {
        &self.slots[i / LINE].0[i % LINE]
    }

    /// Registers a reader at what is visible now. `home` tells threads apart. Waits while registrations are held up.
    pub fn register(&self, visible: &AtomicU64, home: usize) -> Registration {
        loop {
            let registration = self.register_now(visible, home);
            if !self.held_up.load(Ordering::SeqCst) {
                return registration;
            }
            self.leave(&registration);
            drop(lock(&self.gate));
        }
    }

    /// Lets no reader register until what is returned is dropped. A thread that waits for that may hold locks. So a
    /// lock that such a thread may hold, and that the caller needs, is taken before this call.
    pub fn hold_up(&self) -> HeldUp<'_> {
        let gate = lock(&self.gate);
        self.held_up.store(true, Ordering::SeqCst);
        HeldUp {
            readers: self,
            _gate: gate,
        }
    }

    fn register_now(&self, visible: &AtomicU64, home: usize) -> Registration {
        let mut seqno = visible.load(Ordering::SeqCst);
        let Some(i) = self.claim(seqno, home) else {
            return self.enter(|| visible.load(Ordering::SeqCst));
        };
        loop {
            let now = visible.load(Ordering::SeqCst);
            if now == seqno {
                break;
            }
            seqno = now;
            self.slot(i).store(seqno + 1, Ordering::SeqCst);
        }
        Registration {
            seqno: SeqNo(seqno),
            slot: Some(i),
        }
    }

    fn claim(&self, seqno: u64, home: usize) -> Option<usize> {
        let first = home * LINE;
        let found = (first..first + TRIES).map(|i| i % SLOTS).find(|&i| {
            if self.slot(i).load(Ordering::Relaxed) != 0 {
                return false;
            }
            // Acquire: who finds the mark raised comes behind whoever raised it, in the one order of all that is sequentially
            // consistent, too. So a writer that misses that mark has looked before this reader's second look at `visible`.
            if self.used.load(Ordering::Acquire) <= i {
                self.used.fetch_max(i + 1, Ordering::SeqCst);
            }
            let (free, taken) = (0, seqno + 1);
            let claimed =
                self.slot(i)
                    .compare_exchange(free, taken, Ordering::SeqCst, Ordering::Relaxed);
            claimed.is_ok()
        });
        self.in_slots
            .fetch_add(usize::from(found.is_some()), Ordering::Relaxed);
        found
    }

    fn enter(&self, seqno: impl FnOnce() -> u64) -> Registration {
        let mut registry = lock(&self.registry);
        self.entered.fetch_add(1, Ordering::SeqCst);
        let seqno = seqno();
        *registry.entry(seqno).or_default() += 1;
        self.moments.store(registry.len(), Ordering::Relaxed);
        Registration {
            seqno: SeqNo(seqno),
            slot: None,
        }
    }

    /// Registers a reader at a moment that is past. For a store that is being opened: nobody has asked for
    /// readers yet, and everything that is there was kept for this moment.
    pub fn register_at(&self, seqno: SeqNo) -> Registration {
        self.enter(|| seqno.0)
    }

    /// Forgets a reader.
    pub fn leave(&self, registration: &Registration) {
        if let Some(i) = registration.slot {
            // Release: what the reader read is over.
            self.slot(i).store(0, Ordering::Release);
            // SeqCst: see `is_empty`.
            self.in_slots.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        let mut registry = lock(&self.registry);
        if let Some(count) = registry.get_mut(&registration.seqno.0) {
            *count -= 1;
            if *count == 0 {
                registry.remove(&registration.seqno.0);
                self.moments.store(registry.len(), Ordering::Relaxed);
            }
        }
        self.entered.fetch_sub(1, Ordering::SeqCst);
    }

    /// How many readers are registered at each seqno.
    pub fn by_seqno(&self) -> BTreeMap<u64, usize> {
        let mut all = lock(&self.registry).clone();
        for i in 0..self.used.load(Ordering::Acquire) {
            if let Some(seqno) = self.slot(i).load(Ordering::Acquire).checked_sub(1) {
                *all.entry(seqno).or_default() += 1;
            }
        }
        all
    }

    /// Whether a reader is registered at `seqno`. Readers that are about to register do not count. Costs a look at the
    /// slots, however many readers there are.
    pub fn has_any_at(&self, seqno: SeqNo) -> bool {
        let in_slot = |i| self.slot(i).load(Ordering::Acquire) == seqno.0 + 1;
        let used = self.used.load(Ordering::Acquire);
        (0..used).any(in_slot) || lock(&self.registry).contains_key(&seqno.0)
    }

    /// The last moment at which a reader is registered. Readers that are about to register do not count.
    pub fn last(&self) -> Option<SeqNo> {
        let last = self.by_seqno().last_key_value().map(|(seqno, _)| *seqno);
        last.map(SeqNo)
    }

    /// Whether no reader is registered. Readers that are about to register do not count.
    pub fn is_empty(&self) -> bool {
        // SeqCst, as where they are lowered: a reader that leaves then looks whether the store is closed.
        let entered = self.entered.load(Ordering::SeqCst);
        entered == 0 && self.in_slots.load(Ordering::SeqCst) == 0
    }

    /// At how many different moments they read, at most: so many versions of a key are kept for them.
    pub fn moments(&self) -> usize {
        self.in_slots.load(Ordering::Relaxed) + self.moments.load(Ordering::Relaxed)
    }
}

/// Nobody registers as long as this is there.
pub struct HeldUp<'a> {
    readers: &'a Readers,
    _gate: MutexGuard<'a, ()>,
}

impl HeldUp<'_> {
    /// Whether somebody is registered at `seqno` or behind it.
    pub fn reads_any_from(&self, seqno: SeqNo) -> bool {
        let readers = self.readers;
        let in_slot = |i| readers.slot(i).load(Ordering::SeqCst) > seqno.0;
        if (0..readers.used.load(Ordering::SeqCst)).any(in_slot) {
            return true;
        }
        let registry = lock(&readers.registry);
        registry.range(seqno.0..).next().is_some()
    }
}

impl Drop for HeldUp<'_> {
    fn drop(&mut self) {
        self.readers.held_up.store(false, Ordering::SeqCst);
    }
}

/// The moments at which somebody may read, now or when groups in flight have finished.
pub struct Moments<'a> {
    /// Ascending.
    near: Vec<SeqNo>,
    /// Those in the registry.
    far: Option<MutexGuard<'a, BTreeMap<u64, usize>>>,
}

thread_local! {
    /// The memory of this thread's `near`, from one to the next.
    static NEAR: Cell<Vec<SeqNo>> = const { Cell::new(Vec::new()) };
}

impl<'a> Moments<'a> {
    /// As [`Moments::now`], with a copy of the registry: for a caller that goes on to look into trees, where
    /// a writer may hold a node and wait for the registry.
    pub fn copied(ring: &Ring, readers: &'a Readers) -> Moments<'a> {
        let mut moments = Moments::now(ring, readers);
        if let Some(far) = moments.far.take() {
            moments.near.extend(far.keys().copied().map(SeqNo));
            moments.near.sort_unstable();
        }
        moments
    }

    /// How many moments a copy has.
    pub fn count(&self) -> usize {
        self.near.len()
    }

    /// Asks everybody, in the order that the module's text needs. Holds the registry's lock, which
    /// comes behind all others, the nodes' of trees included.
    pub fn now(ring: &Ring, readers: &'a Readers) -> Moments<'a> {
        let mut near = NEAR.try_with(Cell::take).unwrap_or_default();
        near.clear();
        ring.boundaries(|last| near.push(SeqNo(last)));
        near.push(SeqNo(ring.visible_mark().load(Ordering::SeqCst)));
        if active(Bug::PurgePastReader) {
            near.sort_unstable();
            return Moments { near, far: None };
        }
        let used = readers.used.load(Ordering::SeqCst);
        for i in 0..used {
            let taken = readers.slot(i).load(Ordering::SeqCst);
            near.extend(taken.checked_sub(1).map(SeqNo));
        }
        near.sort_unstable();
        let entered = readers.entered.load(Ordering::SeqCst) > 0;
        let far = entered.then(|| lock(&readers.registry));
        Moments { near, far }
    }
}

/// The moments at which somebody may read, for a job that leaves unneeded versions out of new tables: those
/// of registered readers, and all from what is visible now on, which is the second value.
pub fn moments_of_merge(ring: &Ring, readers: &Readers) -> (Vec<SeqNo>, SeqNo) {
    // First, as the module's text needs. Groups in flight end behind it.
    let horizon = SeqNo(ring.visible_mark().load(Ordering::SeqCst));
    let now = Moments::copied(ring, readers);
    (now.near.clone(), horizon)
}

impl thermocline_art::Moments for Moments<'_> {
    fn any_in(&self, from: SeqNo, to: SeqNo) -> bool {
        let far = self.far.as_ref();
        self.near.any_in(from, to)
            || far.is_some_and(|far| far.range(from.0..to.0).next().is_some())
    }
}

impl Drop for Moments<'_> {
    fn drop(&mut self) {
        let near = std::mem::take(&mut self.near);
        // On a thread that ends, its memory may be gone already.
        let _ = NEAR.try_with(|kept| kept.set(near));
    }
}
