//! The Reorder Ring: groups between grant and finish (LogFree §3.2.3, algorithms 1 and 2).
//!
//! A group is *granted* under the writer's lock: it takes the next ticket, and with it a slot here, its
//! seqnos and its place in the chain, all in one order. Then its thread copies, persists and indexes
//! it beside all others, and marks its slot *finished*, in whatever order. Somebody then *advances*:
//! moves the two watermarks over the finished groups that are contiguous, in the order of tickets.
//!
//! ```text
//!          head                       granted
//!            ▼                           ▼
//!  … done done │ open  done  done  open │ free free …      slots, by ticket modulo their number
//!  ── visible ─┘ waits for the first open one
//! ```
//!
//! LogFree keeps the order with four indices and busy waiting (`bid`, `sid`, `hid`, `pid`). Here the
//! grant is a step under a lock that is needed for the chain anyway (`bid` and `sid` in one), and
//! `hid`, `pid` are `head`, moved by whoever comes by: nobody waits for its turn to advance.
//!
//! # The two watermarks
//! `visible`: readers see everything up to it. `durable`: everything up to it survives a crash. A
//! group may finish *deferred*: stored, but not written back (`Durability::Buffered`). `visible` moves
//! over it; its bytes go to the list of what is to be written back, and `durable` stands still until
//! somebody takes the list, persists it and says so ([`Ring::persisted`]).
//!
//! # Invariants
//! 1. Watermarks, `head` and the list change only in the *advancing* section, which one thread at a
//!    time is in; so they only rise.
//! 2. `visible` reaches a group's last seqno only after that group, and all before it, have finished.
//! 3. `durable` reaches it only after that group, and all before it, are persisted: a finished group
//!    is persisted, or on the list, or in the hands of the one who took the list, who alone may end
//!    that state.
//! 4. A group that never finishes stops all behind it: [`Ring::fail`] wakes whoever waits.
//!
//! # Why no finished group is left behind
//! Whoever finishes marks its slot (a), then tries to enter the section by a swap (b). If that fails
//! somebody is inside, and leaves by a swap (c), then looks once more at the slot at `head` (d). Both
//! swaps acquire and release. Where (b) came before (c) in the order of the flag's values, (c) has read
//! (b) or a later swap, so (a) happened before (d), which sees it. Where it came after, it found the
//! section free.
//!
//! # Why nobody sleeps for ever
//! Waiters wait for `head` (or for the failure). A waiter adds itself to `parked`, then looks at `head`;
//! the one who advances stores `head`, then looks at `parked`; all four sequentially consistent, so
//! one of the two sees the other. The notice is given under the lock that the waiter holds from its
//! look until it sleeps.

use thermocline_base::planted::{Bug, active};

use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, SPINS, hint, lock, thread, wait,
};

/// How often a waiter for the advancing section looks before it yields.
const ENTER_SPINS: u32 = 32;

/// Stored bytes that are not written back yet: offset and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub at: u64,
    pub bytes: u64,
}

/// One group's place.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    /// The last seqno, and the number of records. Written by the grant, before `granted`.
    last: AtomicU64,
    records: AtomicU64,
    /// What is deferred; no bytes if the group is persisted. Written before `done`.
    at: AtomicU64,
    bytes: AtomicU64,
    /// One more than the ticket of the last group that has finished here.
    done: AtomicU64,
}

/// A cache line pair of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

/// What changes together, in the advancing section.
#[derive(Debug)]
struct Marks {
    advancing: AtomicBool,
    /// The first ticket whose group has not been moved over.
    head: AtomicU64,
    visible: AtomicU64,
    durable: AtomicU64,
    /// Whether groups up to `visible` are not persisted.
    behind: AtomicBool,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Box<[Slot]>,
    /// The next ticket. Stored under the writer's lock.
    granted: Line<AtomicU64>,
    marks: Line<Marks>,
    /// Stored ranges that nobody has begun to write back. Locked within the advancing section.
    deferred: Mutex<Vec<Range>>,
    deferred_bytes: AtomicU64,
    failed: AtomicBool,
    pub(crate) parked: AtomicUsize,
    park: Mutex<()>,
    changed: Condvar,
}

impl Ring {
    /// Nothing is in flight, and everything up to `last` is durable. At most `slots` groups can be in
    /// flight.
    pub fn new(last: u64, slots: usize) -> Ring {
        assert!(slots > 0);
        Ring {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            granted: Line(AtomicU64::new(0)),
            marks: Line(Marks {
                advancing: AtomicBool::new(false),
                head: AtomicU64::new(0),
                visible: AtomicU64::new(last),
                durable: AtomicU64::new(last),
                behind: AtomicBool::new(false),
            }),
            deferred: Mutex::new(Vec::new()),
            deferred_bytes: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            parked: AtomicUsize::new(0),
            park: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    fn slot(&self, ticket: u64) -> &Slot {
        let slots = self.slots.len() as u64;
        let place = usize::try_from(ticket % slots);
        &self.slots[place.unwrap_or_else(|_| unreachable!("less than a length"))]
    }

    /// The last seqno that readers see. Partner of its acquire: the release in `advance`, after the
    /// index inserts of all groups up to it.
    #[inline]
    pub fn visible(&self) -> u64 {
        self.marks.0.visible.load(Ordering::Acquire)
    }

    /// The watermark itself, for readers that must load it at a moment of their own.
    #[inline]
    pub fn visible_mark(&self) -> &AtomicU64 {
        &self.marks.0.visible
    }

    /// The last seqno that survives a crash together with all before it.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.marks.0.durable.load(Ordering::Acquire)
    }

    /// Groups in flight.
    pub fn groups(&self) -> u64 {
        let granted = self.granted.0.load(Ordering::Acquire);
        granted.saturating_sub(self.marks.0.head.load(Ordering::Acquire))
    }

    /// Records in flight. Exact for whoever holds the writer's lock, but for groups that finish
    /// meanwhile, which may still be counted.
    pub fn records(&self) -> u64 {
        self.open()
            .map(|slot| slot.records.load(Ordering::Relaxed))
            .sum()
    }

    /// Appends the last seqnos of the groups in flight to `out`: what `visible` may be next, and so
    /// what readers may soon read at. A group that is missing was moved over: `visible`, loaded
    /// later, has reached it (stored before `head`); or it was granted later. One too many does no
    /// harm.
    pub fn boundaries(&self, mut out: impl FnMut(u64)) {
        // Acquire: a slot that was granted anew shows what `head` stood for then, and so `visible`.
        self.open()
            .for_each(|slot| out(slot.last.load(Ordering::Acquire)));
    }

    fn open(&self) -> impl Iterator<Item = &Slot> {
        // Partners: `head` in `advance`, `granted` in `grant`, after the slot was filled.
        let head = self.marks.0.head.load(Ordering::Acquire);
        let granted = self.granted.0.load(Ordering::Acquire);
        (head..granted).map(|ticket| self.slot(ticket))
    }

    /// Whether a group could be granted now.
    pub fn has_room(&self) -> bool {
        self.groups() < self.slots.len() as u64
    }

    /// Waits until a group can be granted. The caller holds the writer's lock. Returns `false` if
    /// that will never be.
    #[must_use]
    pub fn wait_for_room(&self) -> bool {
        self.wait_until(|| self.has_room())
    }

    /// A group of `records` records up to `last`: its ticket. Under the writer's lock, where there is
    /// room.
    pub fn grant(&self, last: u64, records: u64) -> u64 {
        debug_assert!(self.has_room());
        let ticket = self.granted.0.load(Ordering::Relaxed);
        let slot = self.slot(ticket);
        slot.last.store(last, Ordering::Release); // partner: `boundaries`
        slot.records.store(records, Ordering::Relaxed);
        self.granted.0.store(ticket + 1, Ordering::Release); // partner: `open`
        ticket
    }

    /// The group is indexed, and persisted but for what is `deferred`.
    pub fn finish(&self, ticket: u64, deferred: Option<Range>) {
        let slot = self.slot(ticket);
        let range = deferred.unwrap_or(Range { at: 0, bytes: 0 });
        slot.at.store(range.at, Ordering::Relaxed);
        slot.bytes.store(range.bytes, Ordering::Relaxed);
        slot.done.store(ticket + 1, Ordering::Release); // (a); partner: `is_done`
        self.advance();
    }

    fn is_done(&self, ticket: u64) -> bool {
        self.slot(ticket).done.load(Ordering::Acquire) == ticket + 1
    }

    /// Moves the watermarks over what has finished, unless somebody else is about to.
    fn advance(&self) {
        let marks = &self.marks.0;
        // (b)
        while !marks.advancing.swap(true, Ordering::AcqRel) {
            self.move_over_finished();
            if !self.leave() {
                return;
            }
        }
    }

    /// Leaves the advancing section. Returns whether somebody has finished in vain meanwhile.
    fn leave(&self) -> bool {
        let marks = &self.marks.0;
        let head = marks.head.load(Ordering::Relaxed);
        marks.advancing.swap(false, Ordering::AcqRel); // (c)
        self.is_done(head) // (d)
    }

    fn move_over_finished(&self) {
        let marks = &self.marks.0;
        let from = marks.head.load(Ordering::Relaxed);
        let (mut head, mut last) = (from, 0);
        while self.is_done(head) {
            let slot = self.slot(head);
            last = slot.last.load(Ordering::Relaxed);
            let bytes = slot.bytes.load(Ordering::Relaxed);
            if bytes > 0 {
                self.defer(Range {
                    at: slot.at.load(Ordering::Relaxed),
                    bytes,
                });
            }
            head += 1;
        }
        if head == from {
            return;
        }
        // In this order: see `boundaries` and `taken_up_to`.
        marks.visible.store(last, Ordering::Release);
        if !marks.behind.load(Ordering::Relaxed) {
            marks.durable.store(last, Ordering::Release);
        }
        marks.head.store(head, Ordering::SeqCst);
        if self.parked.load(Ordering::SeqCst) > 0 {
            let _park = lock(&self.park);
            self.changed.notify_all();
        }
    }

    fn defer(&self, range: Range) {
        let mut deferred = lock(&self.deferred);
        match deferred.last_mut() {
            Some(before) if before.at + before.bytes == range.at => before.bytes += range.bytes,
            _ => deferred.push(range),
        }
        self.marks.0.behind.store(true, Ordering::Relaxed);
        self.deferred_bytes
            .fetch_add(range.bytes, Ordering::Relaxed);
    }

    /// Bytes that nobody has begun to write back.
    pub fn deferred_bytes(&self) -> u64 {
        self.deferred_bytes.load(Ordering::Relaxed)
    }

    /// Takes the list of what is to be written back, and up to which seqno all will be durable once
    /// that is persisted. One at a time may hold a list (invariant 3).
    pub fn take_deferred(&self) -> (Vec<Range>, u64) {
        let mut deferred = lock(&self.deferred);
        self.deferred_bytes.store(0, Ordering::Relaxed);
        // After a group came to the list, under this lock, `visible` moved over it.
        (std::mem::take(&mut *deferred), self.visible())
    }

    /// What was taken is persisted.
    pub fn persisted(&self, up_to: u64) {
        let marks = &self.marks.0;
        let mut spins = 0;
        while marks.advancing.swap(true, Ordering::AcqRel) {
            spins += 1;
            if spins % ENTER_SPINS == 0 {
                thread::yield_now();
            } else {
                hint::spin_loop();
            }
        }
        let behind = !lock(&self.deferred).is_empty();
        let now = if behind { up_to } else { self.visible() };
        if now > marks.durable.load(Ordering::Relaxed) {
            marks.durable.store(now, Ordering::Release);
        }
        marks.behind.store(behind, Ordering::Relaxed);
        if self.leave() {
            self.advance();
        }
    }

    /// Waits until readers see `last`, the last seqno of a group. Returns `false` if that will never
    /// be.
    #[must_use]
    pub fn wait_visible(&self, last: u64) -> bool {
        active(Bug::AckOutOfOrder) || self.wait_until(|| self.visible() >= last)
    }

    /// Waits until nothing is in flight. The caller holds the writer's lock, so that nothing is
    /// granted meanwhile. Returns `false` if that will never be.
    #[must_use]
    pub fn wait_empty(&self) -> bool {
        active(Bug::SealWhileOpen) || self.wait_until(|| self.groups() == 0)
    }

    /// A group will never finish.
    pub fn fail(&self) {
        let _park = lock(&self.park);
        self.failed.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    fn wait_until(&self, ready: impl Fn() -> bool) -> bool {
        for _ in 0..SPINS {
            if ready() {
                return true;
            }
            hint::spin_loop();
        }
        let mut park = lock(&self.park);
        self.parked.fetch_add(1, Ordering::SeqCst);
        let is_ready = loop {
            // `head` is stored last: whoever sees it sees what it stands for.
            self.marks.0.head.load(Ordering::SeqCst);
            if ready() {
                break true;
            }
            if self.failed.load(Ordering::Acquire) {
                break false;
            }
            park = wait(&self.changed, park);
        };
        drop(park);
        self.parked.fetch_sub(1, Ordering::SeqCst);
        is_ready
    }
}
