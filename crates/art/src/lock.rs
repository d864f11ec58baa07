//! The version lock of optimistic lock coupling (Leis et al. 2016).
//!
//! One word: bit 0 *obsolete*, bit 1 *locked*, the rest a counter that every unlock raises. A
//! reader notes the version, reads, and validates that the version is still the same; it never
//! writes. A writer upgrades a noted version, which fails if anything happened since.
//!
//! Ordering (Boehm's seqlock argument): a writer's stores come after its release fence in
//! [`VersionLock::upgrade`]; a reader's loads come before its acquire fence in
//! [`VersionLock::validate`]. A reader that saw any of these stores therefore sees the locked word
//! (or a later one) when it validates, and fails.

use crate::sync::{AtomicU64, Ordering, fence, hint, thread};

const OBSOLETE: u64 = 0b01;
const LOCKED: u64 = 0b10;
const STEP: u64 = 0b100;

/// How often a waiter looks before it lets another thread have the core.
const SPINS: u32 = 64;

#[derive(Debug)]
pub(crate) struct VersionLock(AtomicU64);

/// A version at which the node was not locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version(u64);

impl VersionLock {
    pub(crate) fn new() -> VersionLock {
        VersionLock(AtomicU64::new(0))
    }

    /// The present version, after waiting for a writer; `None` if the node is obsolete, that is,
    /// no longer part of the tree.
    #[inline]
    pub(crate) fn read(&self) -> Option<Version> {
        let word = self.0.load(Ordering::Acquire); // pairs with the unlocks
        if word & (OBSOLETE | LOCKED) == 0 {
            return Some(Version(word));
        }
        let version = self.read_any();
        (version.0 & OBSOLETE == 0).then_some(version)
    }

    /// As [`VersionLock::read`], but obsolete nodes, whose contents never change again, count too.
    pub(crate) fn read_any(&self) -> Version {
        let mut spins = 0;
        loop {
            let word = self.0.load(Ordering::Acquire); // pairs with the unlocks
            if word & LOCKED == 0 {
                return Version(word);
            }
            spins += 1;
            if spins % SPINS == 0 {
                thread::yield_now();
            } else {
                hint::spin_loop();
            }
        }
    }

    /// Whether nothing has changed since `version`, so that what was read in between is true.
    #[inline]
    #[must_use]
    pub(crate) fn validate(&self, version: Version) -> bool {
        fence(Ordering::Acquire); // pairs with the fence in `upgrade`
        self.0.load(Ordering::Relaxed) == version.0
    }

    /// Locks, if nothing has changed since `version`. Never waits, so locks cannot deadlock.
    pub(crate) fn upgrade(&self, version: Version) -> Option<WriteLock<'_>> {
        if version.0 & OBSOLETE != 0 {
            return None;
        }
        self.0
            .compare_exchange(
                version.0,
                version.0 | LOCKED,
                Ordering::Acquire, // pairs with the previous holder's unlock
                Ordering::Relaxed,
            )
            .ok()?;
        fence(Ordering::Release); // pairs with the fence in `validate`
        Some(WriteLock {
            lock: self,
            version: version.0,
        })
    }
}

/// The right to change a node. Dropping it unlocks with a new version, also when unwinding.
#[derive(Debug)]
pub(crate) struct WriteLock<'a> {
    lock: &'a VersionLock,
    version: u64,
}

impl WriteLock<'_> {
    /// Unlocks for good: the node is no longer part of the tree.
    pub(crate) fn obsolete(self) {
        let word = self.version.wrapping_add(STEP) | OBSOLETE;
        self.lock.0.store(word, Ordering::Release); // pairs with `read`
        std::mem::forget(self);
    }
}

impl Drop for WriteLock<'_> {
    fn drop(&mut self) {
        let word = self.version.wrapping_add(STEP);
        self.lock.0.store(word, Ordering::Release); // pairs with `read`
    }
}
