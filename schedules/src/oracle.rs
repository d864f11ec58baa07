//! What writers were told and readers saw, and so what others may see.
//!
//! Everything here is behind the machine's own atomics and locks, and so no step of an execution: no
//! thread is preempted in it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::seen::Seen;

/// Threads that write, at most.
pub const WRITERS: usize = 3;

/// The number of a write of each writer.
pub type Writes = [u64; WRITERS];

#[derive(Debug, Default)]
struct Counts([AtomicU64; WRITERS]);

impl Counts {
    fn get(&self) -> Writes {
        std::array::from_fn(|writer| self.0[writer].load(Ordering::SeqCst))
    }

    fn raise(&self, writer: usize, n: u64) {
        self.0[writer].fetch_max(n, Ordering::SeqCst);
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Oracle {
    started: Counts,
    visible: Counts,
    durable: Counts,
    /// Callbacks that are owed, less those that were made.
    owed: AtomicU64,
    /// What snapshots of this incarnation saw, by their seqnos.
    moments: Mutex<BTreeMap<u64, Seen>>,
}

/// What somebody may see: from the least to the most.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// These writes, or later ones.
    pub least: Writes,
    /// No later ones than these.
    pub most: Writes,
}

impl Bounds {
    /// Checks what somebody saw.
    ///
    /// # Panics
    /// If that is less than it must be, or more than can be.
    pub fn check(&self, seen: &Seen, who: &str) {
        assert!(
            is_up_to(&self.least, &seen.writes) && is_up_to(&seen.writes, &self.most),
            "{who} sees {seen:?}, and may see {self:?}"
        );
    }
}

fn is_up_to(one: &Writes, other: &Writes) -> bool {
    one.iter().zip(other).all(|(one, other)| one <= other)
}

impl Oracle {
    /// A writer begins its `n`-th write.
    pub fn begins(&self, writer: usize, n: u64) {
        self.started.raise(writer, n);
    }

    /// A writer was told that its `n`-th write is visible.
    pub fn is_visible(&self, writer: usize, n: u64) {
        self.visible.raise(writer, n);
    }

    /// Somebody was told that all these writes survive a crash.
    pub fn are_durable(&self, writes: Writes) {
        for (writer, n) in writes.into_iter().enumerate() {
            self.durable.raise(writer, n);
        }
    }

    /// A callback is owed from now on.
    pub fn owes(&self) {
        self.owed.fetch_add(1, Ordering::SeqCst);
    }

    /// A callback was made.
    pub fn paid(&self) {
        self.owed.fetch_sub(1, Ordering::SeqCst);
    }

    /// Callbacks that are owed.
    pub fn owed(&self) -> u64 {
        self.owed.load(Ordering::SeqCst)
    }

    /// What may be seen, at most.
    pub fn started(&self) -> Writes {
        self.started.get()
    }

    /// What must be seen by whoever looks from now on.
    pub fn visible(&self) -> Writes {
        self.visible.get()
    }

    /// What must survive a crash from now on.
    pub fn durable(&self) -> Writes {
        self.durable.get()
    }

    /// Notes what a snapshot at `seqno` saw.
    ///
    /// # Panics
    /// If another at the same seqno has seen something else, an older one more, or a newer one less.
    pub fn saw(&self, seqno: u64, seen: &Seen) {
        let mut moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        let before = moments.range(..=seqno).next_back();
        let after = moments.range(seqno..).next();
        for (at, other) in before.into_iter().chain(after) {
            let in_order = match at.cmp(&seqno) {
                std::cmp::Ordering::Less => is_up_to(&other.writes, &seen.writes),
                std::cmp::Ordering::Equal => other == seen,
                std::cmp::Ordering::Greater => is_up_to(&seen.writes, &other.writes),
            };
            assert!(in_order, "at {seqno}: {seen:?}; at {at}: {other:?}");
        }
        moments.insert(seqno, seen.clone());
    }

    /// Checks what is left after a crash: one moment of those that were.
    ///
    /// # Panics
    /// If it has something that a snapshot had not, and lacks something that this had.
    pub fn check_left(&self, left: &Seen) {
        let moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, seen) in moments.iter() {
            let (one, other) = (&left.writes, &seen.writes);
            assert!(
                is_up_to(one, other) || is_up_to(other, one),
                "left: {left:?}; a snapshot at {at}: {seen:?}"
            );
        }
    }
}
