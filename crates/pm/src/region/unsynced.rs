//! What a thread has flushed and not fenced yet, of regions whose fence is a sync.
//!
//! A thread that ends may still write: what it keeps for itself may do so while it is dropped, and nobody knows in which
//! order that is. So the list is not dropped with the others, or such a write would find none. It has memory only as long
//! as there is something on it.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

/// A range that this thread has flushed.
#[derive(Debug, Clone, Copy)]
struct Flushed {
    region: u64,
    from: u64,
    to: u64,
}

thread_local! {
    static UNSYNCED: RefCell<ManuallyDrop<Vec<Flushed>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// This thread has flushed `[from, to)` of the region of this number.
pub(super) fn note(region: u64, from: u64, to: u64) {
    UNSYNCED.with_borrow_mut(|all| all.push(Flushed { region, from, to }));
}

/// What this thread has flushed of a region since this was asked last, ascending.
pub(super) fn take(region: u64) -> Vec<(u64, u64)> {
    let all = UNSYNCED.with_borrow_mut(|all| std::mem::take(&mut **all));
    let (own, others): (Vec<Flushed>, Vec<Flushed>) =
        all.into_iter().partition(|range| range.region == region);
    UNSYNCED.with_borrow_mut(|all| **all = others);
    let mut own: Vec<(u64, u64)> = own.iter().map(|range| (range.from, range.to)).collect();
    own.sort_unstable();
    own
}

/// The region of this number is gone. What this thread has flushed of it nobody fences any more.
pub(super) fn forget(region: u64) {
    UNSYNCED.with_borrow_mut(|all| {
        all.retain(|range| range.region != region);
        if all.is_empty() {
            **all = Vec::new();
        }
    });
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    #[test]
    fn a_region_gets_its_own_ranges_once() {
        note(1, 64, 128);
        note(2, 0, 64);
        note(1, 0, 64);
        assert_eq!(take(1), [(0, 64), (64, 128)]);
        assert!(take(1).is_empty());
        assert_eq!(take(2), [(0, 64)]);
    }

    /// Flushes and fences while its thread drops it.
    struct Last(Sender<Vec<(u64, u64)>>);

    impl Drop for Last {
        fn drop(&mut self) {
            note(1, 64, 128);
            let _ = self.0.send(take(1));
        }
    }

    thread_local! {
        static EARLY: Cell<Option<Last>> = const { Cell::new(None) };
        static LATE: Cell<Option<Last>> = const { Cell::new(None) };
    }

    /// With a list that goes with its thread, one of the two flushes finds none, and that ends the process.
    #[test]
    fn a_thread_that_ends_may_flush() {
        let (said, heard) = channel();
        let thread = std::thread::spawn(move || {
            EARLY.set(Some(Last(said.clone())));
            note(2, 0, 64);
            LATE.set(Some(Last(said)));
        });
        thread.join().unwrap();
        let all: Vec<_> = heard.iter().collect();
        assert_eq!(all, [vec![(64, 128)], vec![(64, 128)]]);
    }
}
