//! How much memory something takes: an allocator that counts, for each thread.
//!
//! A program that measures makes it its own:
//! `#[global_allocator] static ALLOCATOR: Counting = Counting;`. What a thread allocates and another one
//! frees is counted wrongly, so a target's work is all done on one thread.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated and not freed; wraps, if it frees what others allocated.
    static LIVE: Cell<usize> = const { Cell::new(0) };
    /// Most that it had since the measurement began.
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

fn allocated(bytes: usize) {
    // While a thread ends there is nobody to count for.
    let _ = LIVE.try_with(|live| {
        let now = live.get().wrapping_add(bytes);
        live.set(now);
        // What wrapped below zero is not a peak.
        if now <= isize::MAX as usize {
            let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
        }
    });
}

fn freed(bytes: usize) {
    let _ = LIVE.try_with(|live| live.set(live.get().wrapping_sub(bytes)));
}

// SAFETY: every call goes to `System` as it came, which keeps the trait's promises; counting allocates
// nothing, since the cells have no destructor and are initialised by constants.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: as above; `at` came from `System`.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // Both exist for a moment, unless it grows where it is.
        allocated(bytes);
        freed(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

/// What `work` answers, and how many bytes more than before this thread had allocated at some moment of
/// it; 0 if the program's allocator does not count.
///
/// # Panics
/// If `work` does.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let answer = work();
    (answer, PEAK.get().saturating_sub(before))
}
