//! Syncs of simulated memory that fail.
//!
//! [`SimPm::fail_fence_in`] and [`SimPm::fail_sync_once_in`] let a fence fail, or the sync of a growth, as an
//! `msync` or `fsync` of kind `file` does: the kernel tells of it once and holds the pages for clean from
//! then on. Readers go on seeing what was stored; but no later flush and fence makes it certain, in this
//! opening or a later one, unless it is *stored again*. How much of the file a failed sync covered is the
//! kernel's affair (pages, or all of it), so here it is everything that was not certain, whoever stored it.

use std::path::Path;
use std::sync::atomic::Ordering;

use thermocline_base::size::index;
use thermocline_base::sync::lock;
use thermocline_base::{Error, Result};

use super::{SimPm, State, WORD};
use crate::writer::Writer;

/// A sync that will fail.
#[derive(Debug)]
pub(super) struct Failure {
    /// Syncs before it.
    left: u64,
    /// The system's error, told once; else all syncs after it fail, too.
    once: Option<i32>,
}

impl SimPm {
    /// Lets the `n`-th fence or growth from now (0 = the next) and all after it fail.
    pub fn fail_fence_in(&self, n: u64) {
        lock(&self.core.state).failure = Some(Failure {
            left: n,
            once: None,
        });
    }

    /// Lets the `n`-th sync from now (0 = the next), of a fence or of a growth, fail with the system's error
    /// `code`. Those after it succeed, and make nothing certain of what was stored before it.
    pub fn fail_sync_once_in(&self, n: u64, code: i32) {
        lock(&self.core.state).failure = Some(Failure {
            left: n,
            once: Some(code),
        });
    }

    /// Whether a sync that was to fail has not failed yet, or goes on failing.
    pub fn will_fail(&self) -> bool {
        lock(&self.core.state).failure.is_some()
    }

    /// Stores a range again, as it reads. A word that is certain stays so.
    pub(crate) fn store_again(&self, off: u64, len: u64) {
        let mut state = lock(&self.core.state);
        let range = off / WORD..(off + len).div_ceil(WORD);
        let open: Vec<u64> = state.pending.range(range).map(|(&word, _)| word).collect();
        for word in open {
            let cell = &self.core.words[index(word)];
            let value = cell.load(Ordering::Relaxed);
            state.store_word(word, value, value, None, cell);
        }
    }
}

impl State {
    /// Whether this sync is the one that fails, or comes after it.
    pub(super) fn fail_if_due(&mut self) -> Result<()> {
        let Some(failure) = &mut self.failure else {
            return Ok(());
        };
        if failure.left > 0 {
            failure.left -= 1;
            return Ok(());
        }
        let once = failure.once;
        if once.is_some() {
            self.failure = None;
        }
        self.flushed.remove(&Writer::current());
        for store in self.pending.values_mut().flat_map(|word| &mut word.stores) {
            store.clean = true;
        }
        Err(match once {
            Some(code) => {
                let source = std::io::Error::from_raw_os_error(code);
                Error::io("sync", Path::new("sim"), source)
            }
            None => Error::Poisoned("a simulated fence failed".into()),
        })
    }
}
