//! The Reorder Ring: groups between grant and finish (LogFree §3.2.3, algorithms 1 and 2).
//!
//! A group is *granted* under the writer's lock: it takes the next ticket, and with it a slot here, its
//! seqnos and its place in the chain, all in one order. Then its thread copies, persists and indexes
//! it beside all others, and *finishes*, in whatever order. The watermarks move over finished groups
//! in the order of tickets.
//!
//! ```text
//!          head, with the baton        granted
//!            ▼                           ▼
//!  … done done │ open  done  done  open │ free free …      slots, by ticket modulo their number
//!  ── visible ─┘ waits for the first open one
//! ```
//!
//! LogFree keeps the order with four indices and busy waiting (`bid`, `sid`, `hid`, `pid`). Here the
//! grant is a step under a lock that is needed for the chain anyway (`bid` and `sid` in one), and for
//! `hid` and `pid` there is a *baton*, which lies at the slot of the first group that has not been
//! moved over. Two things arrive at each slot: the baton, and its group's finish. The one that arrives
//! second takes the baton: it moves the watermarks over the group and lays the baton down at the next
//! slot, where it may find the next group finished, and go on. So nobody waits for its turn to move
//! the watermarks, and a finish is one step on the group's own slot and one on the next.
//!
//! # The two watermarks
//! `visible`: readers see everything up to it. `durable`: everything up to it survives a crash. A
//! group may finish *deferred*: stored, but not written back (`Durability::Buffered`). `visible` moves
//! over it; its bytes go to the list of what is to be written back, and `durable` stands still until
//! somebody takes the list, persists it and says so ([`Ring::persisted`]).
//!
//! # Invariants
//! 1. There is one baton. Only its holder moves `visible` and `head`, so they only rise. While nothing
//!    is deferred, the holder moves `durable`, too. Otherwise `durable` moves under the lock of the
//!    list, under which the list changes. `behind` tells which of the two holds: it becomes true under
//!    both, and false under the lock.
//! 2. `visible` reaches a group's last seqno only after that group, and all before it, have finished.
//! 3. `durable` reaches it only after that group, and all before it, are persisted: a finished group
//!    is persisted, or on the list, or in the hands of the thread that took the list. Only that thread
//!    may end this last state; if it dies, nobody does (`pipeline::Flying`).
//! 4. A group that never finishes stops all behind it: [`Ring::fail`] wakes all threads that wait.
//!
//! # Why no finished group is left behind
//! Each of the two arrivals adds one to the slot's count, so exactly one of them finds it odd, and it
//! sees all that the other did before (both acquire and release). The two of the next lap come later:
//! its finish after its grant, which waits until `head` has passed; its baton after all slots between.
//!
//! # Why nobody sleeps for ever
//! Waiters wait for `head` (or for the failure). A waiter adds itself to `parked`, then looks at
//! `head`. The holder of the baton stores `head`, adds to a slot's count, then looks at `parked`. Both
//! have a sequentially consistent fence between, so one of the two sees the other. The notice is given
//! under the lock that the waiter holds from its look until it sleeps.

use thermocline_base::Line;
use thermocline_base::planted::{Bug, active};

use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, SPINS, fence_after_rmw, hint,
    lock, wait,
};

/// Ranges for which a list of deferred ones keeps memory.
const RANGES_KEPT: usize = 1024;

/// Stored bytes that are not written back yet: offset and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Where they begin in the region.
    pub at: u64,
    /// How many there are.
    pub bytes: u64,
}

/// One group's place.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    /// Two for each group that was here, one more once the baton or the finish of the next is.
    arrivals: AtomicU64,
    /// The last seqno, and the number of records. Written by the grant, before `granted`.
    last: AtomicU64,
    records: AtomicU64,
    /// What is deferred; no bytes if the group is persisted. Written before the finish arrives.
    at: AtomicU64,
    bytes: AtomicU64,
}

impl Slot {
    /// Notes that the baton or the finish is here. Returns whether the other one was already.
    fn arrive(&self) -> bool {
        // Sequentially consistent for the sake of those who park.
        !self
            .arrivals
            .fetch_add(1, Ordering::SeqCst)
            .is_multiple_of(2)
    }
}

/// What changes under the writer's lock.
#[derive(Debug, Default)]
struct Granted {
    /// The next ticket.
    next: AtomicU64,
    /// What `head` was when it was last asked for: what need not be exact looks here first, since
    /// every finish takes the line of `head` away.
    head_seen: AtomicU64,
}

/// What changes with the baton (invariant 1).
#[derive(Debug)]
struct Marks {
    /// The first ticket whose group has not been moved over.
    head: AtomicU64,
    visible: AtomicU64,
    durable: AtomicU64,
    /// Whether groups up to `visible` are not persisted.
    behind: AtomicBool,
}

/// See the module's text.
#[derive(Debug)]
pub struct Ring {
    slots: Box<[Slot]>,
    granted: Line<Granted>,
    marks: Line<Marks>,
    /// Stored ranges whose write-back has not begun.
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
        let slots: Box<[Slot]> = (0..slots).map(|_| Slot::default()).collect();
        slots[0].arrive(); // the baton
        Ring {
            slots,
            granted: Line::default(),
            marks: Line(Marks {
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

    /// The last seqno that readers see. Partner of its acquire: the release in `move_over`, after the
    /// index inserts of all groups up to it.
    #[inline]
    pub fn visible(&self) -> u64 {
        self.marks.visible.load(Ordering::Acquire)
    }

    /// As [`Ring::visible`], for a task that another thread has asked for. It is loaded under the lock
    /// under which `visible` moves over what is deferred, so the task sees no less than that thread
    /// saw.
    pub fn visible_and_listed(&self) -> u64 {
        let _deferred = lock(&self.deferred);
        self.visible()
    }

    /// The watermark itself, for readers that must load it at a moment of their own.
    #[inline]
    pub fn visible_mark(&self) -> &AtomicU64 {
        &self.marks.visible
    }

    /// The last seqno that survives a crash together with all before it.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.marks.durable.load(Ordering::Acquire)
    }

    /// Groups in flight.
    pub fn groups(&self) -> u64 {
        let granted = self.granted.next.load(Ordering::Acquire);
        granted.saturating_sub(self.marks.head.load(Ordering::Acquire))
    }

    /// Records in flight. Exact under the writer's lock, except that groups that finish meanwhile may
    /// still be counted.
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
        // Partners: `head` in `pass_on`, `granted` in `grant`, after the slot was filled.
        let head = self.marks.head.load(Ordering::Acquire);
        let granted = self.granted.next.load(Ordering::Acquire);
        (head..granted).map(|ticket| self.slot(ticket))
    }

    /// Whether a group could be granted now. The caller holds the writer's lock.
    pub fn has_room(&self) -> bool {
        self.at_most(self.slots.len() as u64 - 1)
    }

    /// Whether at most `groups` groups are in flight. The caller holds the writer's lock.
    #[inline]
    pub fn at_most(&self, groups: u64) -> bool {
        let next = self.granted.next.load(Ordering::Relaxed);
        next - self.granted.head_seen.load(Ordering::Relaxed) <= groups || {
            // Partner: `pass_on`, which has read the slots before: they may be used again.
            let head = self.marks.head.load(Ordering::Acquire);
            self.granted.head_seen.store(head, Ordering::Relaxed);
            next - head <= groups
        }
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
        let ticket = self.granted.next.load(Ordering::Relaxed);
        let slot = self.slot(ticket);
        slot.last.store(last, Ordering::Release); // partner: `boundaries`
        slot.records.store(records, Ordering::Relaxed);
        self.granted.next.store(ticket + 1, Ordering::Release); // partner: `open`
        ticket
    }

    /// The group is indexed, and persisted but for what is `deferred`.
    pub fn finish(&self, ticket: u64, deferred: Option<Range>) {
        let slot = self.slot(ticket);
        let range = deferred.unwrap_or(Range { at: 0, bytes: 0 });
        slot.at.store(range.at, Ordering::Relaxed);
        slot.bytes.store(range.bytes, Ordering::Relaxed);
        if slot.arrive() {
            self.pass_on(ticket);
        }
    }

    /// Grants a group that is persisted and indexed already, and finishes it; readers see it on return. The
    /// caller holds the writer's lock, and nothing is in flight.
    ///
    /// That is so when `head` has passed the group before. Whoever has moved it may still carry the baton
    /// to this one's slot, and then moves over this one, too: he is waited for. He takes no lock but the
    /// ring's own, so he waits for nobody who waits for the writer's.
    pub fn grant_finished(&self, last: u64, records: u64) {
        let ticket = self.grant(last, records);
        self.finish(ticket, None);
        // If the ring has failed, whoever waits for the group to be durable learns of it.
        let _is_seen = self.wait_empty();
    }

    /// Moves the watermarks over a finished group, and over those that have finished behind it. The
    /// caller holds the baton.
    fn pass_on(&self, ticket: u64) {
        let mut head = ticket;
        loop {
            self.move_over(self.slot(head));
            head += 1;
            // Behind the watermarks: see `boundaries`.
            self.marks.head.store(head, Ordering::Release);
            if !self.slot(head).arrive() {
                break;
            }
        }
        fence_after_rmw();
        if self.parked.load(Ordering::Relaxed) > 0 {
            let _park = lock(&self.park);
            self.changed.notify_all();
        }
    }

    fn move_over(&self, slot: &Slot) {
        let marks = &self.marks;
        let last = slot.last.load(Ordering::Relaxed);
        let bytes = slot.bytes.load(Ordering::Relaxed);
        // Acquire: partner in `persisted`, whose `durable` is not to be stored over.
        if bytes == 0 && !marks.behind.load(Ordering::Acquire) {
            // `durable` first: a thread that sees the group, and that nothing is deferred, finds it durable.
            marks.durable.store(last, Ordering::Release);
            marks.visible.store(last, Ordering::Release);
            return;
        }
        let mut deferred = lock(&self.deferred);
        if bytes > 0 {
            let at = slot.at.load(Ordering::Relaxed);
            match deferred.last_mut() {
                Some(before) if before.at + before.bytes == at => before.bytes += bytes,
                _ => deferred.push(Range { at, bytes }),
            }
            marks.behind.store(true, Ordering::Relaxed);
            self.deferred_bytes.fetch_add(bytes, Ordering::Relaxed);
        } else if !marks.behind.load(Ordering::Relaxed) {
            marks.durable.store(last, Ordering::Release);
        }
        // Under the lock: see `take_deferred`.
        marks.visible.store(last, Ordering::Release);
    }

    /// Bytes that nobody has begun to write back.
    pub fn deferred_bytes(&self) -> u64 {
        self.deferred_bytes.load(Ordering::Relaxed)
    }

    /// Puts the list of what is to be written back into `ranges`, and returns up to which seqno all will be durable once
    /// that is persisted. One at a time may hold a list (invariant 3). The next list gets the memory that `ranges` had: finishes
    /// push to it under its lock, with the baton.
    pub fn take_deferred(&self, ranges: &mut Vec<Range>) -> u64 {
        ranges.clear();
        ranges.shrink_to(RANGES_KEPT);
        let mut deferred = lock(&self.deferred);
        self.deferred_bytes.store(0, Ordering::Relaxed);
        std::mem::swap(&mut *deferred, ranges);
        // A group comes to the list, and `visible` moves over it, under one hold of this lock.
        self.visible()
    }

    /// What was taken is persisted. Only for a list that was taken while `durable` was behind.
    pub fn persisted(&self, up_to: u64) {
        let marks = &self.marks;
        let deferred = lock(&self.deferred);
        debug_assert!(marks.behind.load(Ordering::Relaxed));
        let behind = !deferred.is_empty();
        let now = if behind { up_to } else { self.visible() };
        if now > marks.durable.load(Ordering::Relaxed) {
            marks.durable.store(now, Ordering::Release);
        }
        marks.behind.store(behind, Ordering::Release); // partner: `move_over`
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
        fence_after_rmw();
        let is_ready = loop {
            // `head` is stored last: a thread that sees it sees what it stands for.
            self.marks.head.load(Ordering::Acquire);
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
