//! Syncs of simulated memory that fail.
//!
//! [`fail_fence_in`](crate::SimPm::fail_fence_in) and [`fail_sync_once_in`](crate::SimPm::fail_sync_once_in) let a fence fail, or the sync of a growth, as an
//! `msync` or `fsync` of kind `file` does: the kernel tells of it once and holds the pages for clean from
//! then on. Readers go on seeing what was stored; but no later flush and fence makes it certain, in this
//! opening or a later one, unless it is *stored again*. How much of the file a failed sync covered is the
//! kernel's affair (pages, or all of it), so here it is everything that was not certain, whoever stored it.

use std::path::Path;

use thermocline_base::Error;

/// A sync that will fail.
#[derive(Debug)]
pub(super) struct Failure {
    /// Syncs before it.
    left: u64,
    /// The system's error, told once; else all syncs after it fail, too.
    once: Option<i32>,
}

impl Failure {
    /// The `n`-th sync from now fails, and all after it.
    pub(super) fn for_ever(n: u64) -> Failure {
        Failure {
            left: n,
            once: None,
        }
    }

    /// The `n`-th sync from now fails with the system's error `code`.
    pub(super) fn once(n: u64, code: i32) -> Failure {
        Failure {
            left: n,
            once: Some(code),
        }
    }

    /// Counts a sync. `None` if it comes before the one that fails; else the error that is told once, if it is.
    pub(super) fn next(&mut self) -> Option<Option<i32>> {
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        Some(self.once)
    }
}

/// What a failed sync says: the system's error, or that all go on failing.
pub(super) fn failure_of(once: Option<i32>) -> Error {
    match once {
        Some(code) => {
            let source = std::io::Error::from_raw_os_error(code);
            Error::io("sync", Path::new("sim"), source)
        }
        None => Error::Poisoned("a simulated fence failed".into()),
    }
}
