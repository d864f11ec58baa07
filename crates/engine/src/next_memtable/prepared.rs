//! A memtable that is named ahead of need.

use thermocline_memtable::{Chain, Descriptor};
use thermocline_version::Change;
use thermocline_wal::LogWriter;

use crate::sync::{Mutex, MutexGuard, lock, try_lock};

/// The next memtable, once it is named, and the turn to name chains and memtables ([above](super), invariants 1 and 2). Its
/// lock is taken here and nowhere else: after the writer's, where both are held.
#[derive(Debug, Default)]
pub(crate) struct Next(Mutex<Option<Prepared>>);

/// Whoever holds this names chains and memtables, and nobody else does. In it is the next memtable, if one is named.
#[must_use = "others name chains and memtables when it is dropped"]
pub(crate) struct Naming<'n>(MutexGuard<'n, Option<Prepared>>);

impl Next {
    /// Waits for whoever names chains or memtables now.
    pub fn begin_naming(&self) -> Naming<'_> {
        Naming(lock(&self.0))
    }

    /// As [`Next::begin_naming`], if nobody names any.
    pub fn try_begin_naming(&self) -> Option<Naming<'_>> {
        try_lock(&self.0).map(Naming)
    }

    /// Whether no memtable is named, and nobody is about to name one.
    pub fn is_missing(&self) -> bool {
        self.try_begin_naming()
            .is_some_and(|naming| !naming.has_next())
    }

    /// Whether one is named, and can be gone over to without waiting for anybody.
    pub fn is_ready(&self) -> bool {
        self.try_begin_naming()
            .is_some_and(|naming| naming.has_next())
    }
}

impl Naming<'_> {
    /// Whether the next memtable is named.
    pub fn has_next(&self) -> bool {
        self.0.is_some()
    }

    /// The next memtable.
    pub fn prepared(&self) -> Option<&Prepared> {
        self.0.as_ref()
    }

    /// The next memtable is named.
    pub(super) fn named(&mut self, next: Prepared) {
        *self.0 = Some(next);
    }

    /// The next memtable, for whoever goes over to it.
    pub(super) fn take_next(&mut self) -> Option<Prepared> {
        self.0.take()
    }
}

/// A memtable that the manifest names and nobody uses yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) id: u64,
    pub(super) chain: Chain,
    pub(super) descriptor: Option<Descriptor>,
    /// Of the chain.
    pub(super) log: Option<LogWriter>,
}

impl Prepared {
    /// The cut of its chain, which ends empty behind `last`.
    pub fn cut(&self, last: u64) -> Change {
        Change::ChainCut {
            chain: self.chain.id,
            last_seqno: last,
            end: 0,
        }
    }
}
