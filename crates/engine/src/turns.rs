//! Turns and gates: what is done one at a time, and what closing waits for.
//!
//! The locks behind them are taken here and nowhere else. They protect no data: a turn says that one thread at a time does
//! something long, a gate says that nobody is inside any more.

use thermocline_base::sync::RwLockReadGuard;

use crate::sync::{Mutex, MutexGuard, RwLock, lock, read, write};

/// Who holds this has the turn.
pub(crate) type HasTurn<'t> = MutexGuard<'t, ()>;

/// Who holds this is inside a gate.
pub(crate) type Inside<'g> = RwLockReadGuard<'g, ()>;

/// One thread at a time.
#[derive(Debug, Default)]
pub(crate) struct Turn(Mutex<()>);

impl Turn {
    /// Waits for the turn.
    pub fn take(&self) -> HasTurn<'_> {
        lock(&self.0)
    }

    /// Waits until whoever has the turn has ended.
    pub fn wait(&self) {
        drop(self.take());
    }
}

/// Any number of threads, until somebody waits for them.
#[derive(Debug, Default)]
pub(crate) struct Gate(RwLock<()>);

impl Gate {
    /// Goes inside. Not twice: it would wait for whoever waits for the first time to end.
    pub fn enter(&self) -> Inside<'_> {
        read(&self.0)
    }

    /// Waits until everybody has left who is inside.
    pub fn wait(&self) {
        drop(write(&self.0));
    }

    /// Whether nobody is inside.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.try_write().is_some()
    }

    /// Nobody enters while this is held.
    #[cfg(test)]
    pub fn shut(&self) -> thermocline_base::sync::RwLockWriteGuard<'_, ()> {
        write(&self.0)
    }
}

/// Turns of a store, each before the writer's lock.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// One flush at a time.
    pub flushing: Turn,
    /// One ingestion at a time. Taken before `flushing`.
    pub ingesting: Turn,
    /// All threads that stage a batch are inside.
    pub stages: Gate,
    /// One thread at a time works ahead of need.
    pub ahead: Turn,
}
