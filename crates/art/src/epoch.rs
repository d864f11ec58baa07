//! Epochs: when may a block that has left the tree be used again?
//!
//! A reader *pins*: it notes the epoch in a slot of its own before it looks at the tree, and
//! clears the slot when it has finished. A block that leaves the tree is *retired* with the epoch
//! of that moment. It is released once every slot is clear or holds a later epoch.
//!
//! # Why that is enough
//! Let block B be retired with tag e. Tags are taken and the epoch is raised under one mutex,
//! after B was unlinked, so whoever reads an epoch above e (acquire) sees B unlinked. A collection
//! raises the epoch, makes a sequentially consistent fence C, and reads the slots. A reader stores
//! its slot, makes a sequentially consistent fence R, and reads the tree.
//! - If C comes before R, the reader's loads see everything before C, so B is unlinked for it.
//! - If R comes before C, the collection sees the reader's slot. If it holds an epoch above e, the
//!   reader had seen B unlinked before it began; otherwise B is kept.
//! - A slot seen clear (acquire) after it was cleared (release): that reader's use of B is over.
//!
//! Two-step schemes (free after the global epoch has advanced twice) need no minimum over slots,
//! but one long reader then keeps everything; here it keeps only what was retired after it began.
//!
//! # Invariants
//! - **E1** A slot block, once linked, stays until the domain is dropped.
//! - **E2** A slot is claimed by at most one guard: by compare-exchange from 0.
//! - **E3** Retired blocks are unlinked, were allocated with the size noted, and are retired once.
//! - **E4** Blocks that were in the tree at any moment of a guard's life outlive the guard.

use std::cell::Cell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};

use crate::sync::{AtomicPtr, AtomicU64, Mutex, Ordering, fence, fence_after_rmw, lock, thread};

use crate::memory::NodeMemory;
use crate::word::KINDS;

/// Slots per block; further blocks are added when all are taken at once.
pub(crate) const SLOTS: usize = 16;

/// Retirements and bytes after which a collection is tried.
const COLLECT_EVERY: usize = 32;
const COLLECT_BYTES: u64 = 32 << 10;

/// What a guard's holder counts. Summed over all slots it describes the tree; the parts may be
/// "negative" and wrap. Written only by the slot's holder, so plain load and store suffice.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) keys: AtomicU64,
    pub(crate) nodes: [AtomicU64; KINDS],
    pub(crate) lists: AtomicU64,
    pub(crate) list_bytes: AtomicU64,
    /// No part of a sum: versions of the longest block of a list that the slot's holders have published.
    longest: AtomicU64,
}

/// A cache line pair of its own, so that pinning disturbs nobody.
#[repr(align(128))]
pub(crate) struct Slot {
    /// 0, or the epoch at which the holder began.
    pinned: AtomicU64,
    counts: Counts,
}

struct Slots {
    slots: [Slot; SLOTS],
    /// The next block (E1).
    next: AtomicPtr<Slots>,
}

impl Slots {
    fn new() -> Slots {
        Slots {
            slots: std::array::from_fn(|_| Slot {
                pinned: AtomicU64::new(0),
                counts: Counts {
                    keys: AtomicU64::new(0),
                    nodes: std::array::from_fn(|_| AtomicU64::new(0)),
                    lists: AtomicU64::new(0),
                    list_bytes: AtomicU64::new(0),
                    longest: AtomicU64::new(0),
                },
            }),
            next: AtomicPtr::new(null_mut()),
        }
    }

    fn next(&self) -> Option<&Slots> {
        let next = self.next.load(Ordering::Acquire); // pairs with `next_or_new`
        // SAFETY: E1.
        unsafe { next.as_ref() }
    }

    fn next_or_new(&self) -> &Slots {
        if let Some(next) = self.next() {
            return next;
        }
        let new = Box::into_raw(Box::new(Slots::new()));
        let linked = self.next.compare_exchange(
            null_mut(),
            new,
            Ordering::AcqRel, // pairs with `next`
            Ordering::Acquire,
        );
        if linked.is_err() {
            // SAFETY: another thread's block was linked, so nobody else knows this one.
            drop(unsafe { Box::from_raw(new) });
        }
        self.next().expect("a block has been linked")
    }
}

struct Retired {
    epoch: u64,
    block: NonNull<u8>,
    bytes: usize,
}

/// Bytes of a queued block's entry.
pub(crate) const RETIRED_BYTES: usize = size_of::<Retired>();

// SAFETY: E3: a retired block belongs to the queue alone.
unsafe impl Send for Retired {}

#[derive(Default)]
struct Garbage {
    /// In order of epochs.
    queue: VecDeque<Retired>,
    /// Retirements and bytes since the last collection.
    since: usize,
    since_bytes: u64,
    bytes: u64,
}

/// The epochs of one tree.
pub(crate) struct Domain {
    /// Begins at 1; raised by collections, under the mutex.
    epoch: AtomicU64,
    garbage: Mutex<Garbage>,
    slots: Slots,
}

impl Domain {
    pub(crate) fn new() -> Domain {
        Domain {
            epoch: AtomicU64::new(1),
            garbage: Mutex::new(Garbage::default()),
            slots: Slots::new(),
        }
    }

    /// Pins: until the guard is dropped, E4 holds.
    #[inline]
    pub(crate) fn pin(&self) -> Guard<'_> {
        let epoch = self.epoch.load(Ordering::Acquire); // pairs with `collect`
        // Where this thread begins to look: threads that find their own slot free again and again
        // do not share cache lines.
        let home = thread::number() % SLOTS;
        let slot = match &self.slots.slots[home] {
            slot if slot.claim(epoch) => slot,
            _ => self.pin_elsewhere(home, epoch),
        };
        fence_after_rmw(); // the fence R of the module's text, after the compare-exchange
        Guard {
            domain: self,
            slot,
            not_sync: PhantomData,
        }
    }

    #[cold]
    fn pin_elsewhere(&self, home: usize, epoch: u64) -> &Slot {
        let mut block = &self.slots;
        loop {
            for i in 0..SLOTS {
                let slot = &block.slots[(home + i) % SLOTS];
                if slot.claim(epoch) {
                    return slot;
                }
            }
            block = block.next_or_new();
        }
    }

    /// Takes a block that has left the tree.
    ///
    /// # Safety
    /// E3; and `memory` is always the same, the one the block came from.
    pub(crate) unsafe fn retire(&self, block: NonNull<u8>, bytes: usize, memory: &dyn NodeMemory) {
        let size = memory.block_bytes(bytes) as u64;
        let mut garbage = lock(&self.garbage);
        let epoch = self.epoch.load(Ordering::Relaxed); // raised only under this mutex
        garbage.queue.push_back(Retired {
            epoch,
            block,
            bytes,
        });
        garbage.bytes += size;
        garbage.since += 1;
        garbage.since_bytes += size;
        let due = garbage.since >= COLLECT_EVERY || garbage.since_bytes >= COLLECT_BYTES;
        drop(garbage);
        if due {
            self.collect(memory);
        }
    }

    /// Releases what no guard can see.
    pub(crate) fn collect(&self, memory: &dyn NodeMemory) {
        let mut garbage = lock(&self.garbage);
        (garbage.since, garbage.since_bytes) = (0, 0);
        if garbage.queue.is_empty() {
            return;
        }
        self.epoch.fetch_add(1, Ordering::AcqRel); // pairs with `pin`
        fence(Ordering::SeqCst); // the fence C of the module's text
        let oldest = self.oldest();
        let free = garbage.queue.partition_point(|r| r.epoch < oldest);
        let free: Vec<Retired> = garbage.queue.drain(..free).collect();
        for retired in &free {
            garbage.bytes -= memory.block_bytes(retired.bytes) as u64;
        }
        if garbage.queue.is_empty() && garbage.queue.capacity() > 4 * COLLECT_EVERY {
            garbage.queue = VecDeque::new();
        }
        drop(garbage);
        for retired in free {
            // SAFETY: E3, and by the module's argument no guard can see the block any more.
            unsafe { memory.release(retired.block, retired.bytes) };
        }
    }

    /// The smallest epoch in a slot.
    pub(crate) fn oldest(&self) -> u64 {
        self.all()
            .map(|slot| slot.pinned.load(Ordering::Acquire)) // pairs with the guard's drop
            .filter(|&epoch| epoch != 0)
            .min()
            .unwrap_or(u64::MAX)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Slot> {
        std::iter::successors(Some(&self.slots), |block| block.next())
            .flat_map(|block| block.slots.iter())
    }

    /// Sums one count over all slots.
    pub(crate) fn sum(&self, count: impl Fn(&Counts) -> &AtomicU64) -> u64 {
        self.all().fold(0, |sum, slot| {
            sum.wrapping_add(count(&slot.counts).load(Ordering::Relaxed))
        })
    }

    /// Versions of the longest block of a list that was ever published; 0 if none was.
    pub(crate) fn longest_list(&self) -> u64 {
        let longest = |slot: &Slot| slot.counts.longest.load(Ordering::Relaxed);
        self.all().map(longest).max().unwrap_or(0)
    }

    /// Bytes that wait for guards, and the bytes of the domain itself.
    pub(crate) fn retired_bytes(&self) -> (u64, u64) {
        let garbage = lock(&self.garbage);
        let queue = garbage.queue.capacity() * size_of::<Retired>();
        let blocks = std::iter::successors(Some(&self.slots), |block| block.next()).count();
        (garbage.bytes, (queue + blocks * size_of::<Slots>()) as u64)
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let mut next = self.slots.next.load(Ordering::Relaxed); // exclusive by now
        while !next.is_null() {
            // SAFETY: E1: the block is linked once, and no guard is left.
            let block = unsafe { Box::from_raw(next) };
            next = block.next.load(Ordering::Relaxed);
        }
    }
}

impl Slot {
    #[inline]
    fn claim(&self, epoch: u64) -> bool {
        // E2. Sequentially consistent: the fence R comes after it.
        self.pinned
            .compare_exchange(0, epoch, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }
}

/// Keeps alive what its holder may see of one tree. Made by [`crate::Tree::pin`]; to be held for
/// one engine call, not longer, because retired memory waits for it.
pub struct Guard<'t> {
    domain: &'t Domain,
    slot: &'t Slot,
    /// The counts are the holder's alone: a guard may move to another thread, but not be shared.
    not_sync: PhantomData<Cell<()>>,
}

impl Guard<'_> {
    /// Whether this guard protects `domain`.
    #[inline]
    pub(crate) fn is_of(&self, domain: &Domain) -> bool {
        std::ptr::eq(self.domain, domain)
    }

    /// Takes a block that has left the guard's tree.
    ///
    /// # Safety
    /// As [`Domain::retire`].
    pub(crate) unsafe fn retire(&self, block: NonNull<u8>, bytes: usize, memory: &dyn NodeMemory) {
        // SAFETY: by contract.
        unsafe { self.domain.retire(block, bytes, memory) };
    }

    /// Adds to one of the tree's counts.
    #[inline]
    pub(crate) fn count(&self, count: impl Fn(&Counts) -> &AtomicU64, change: i64) {
        let count = count(&self.slot.counts);
        let value = count.load(Ordering::Relaxed);
        count.store(value.wrapping_add_signed(change), Ordering::Relaxed);
    }

    /// A list is published whose first block has so many versions.
    #[inline]
    pub(crate) fn note_list(&self, versions: u64) {
        let longest = &self.slot.counts.longest;
        if longest.load(Ordering::Relaxed) < versions {
            longest.store(versions, Ordering::Relaxed);
        }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slot.pinned.store(0, Ordering::Release); // pairs with `oldest` and `claim`
    }
}

impl std::fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let epoch = self.slot.pinned.load(Ordering::Relaxed);
        f.debug_struct("Guard").field("epoch", &epoch).finish()
    }
}
