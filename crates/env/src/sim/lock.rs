//! Locks and held folders.

use std::path::PathBuf;
use std::sync::Arc;

use super::disk::Disk;
use crate::storage::LockGuard;

#[derive(Debug)]
pub(super) struct SimLock {
    pub(super) disk: Arc<Disk>,
    pub(super) path: PathBuf,
}

/// A reader's lock: simulated writers do not wait for readers.
#[derive(Debug)]
pub(super) struct SharedLock;

impl LockGuard for SharedLock {}

impl LockGuard for SimLock {
    fn disk(&self) -> usize {
        Arc::as_ptr(&self.disk).addr()
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.path);
    }
}

#[derive(Debug)]
pub(super) struct SimHold {
    pub(super) disk: Arc<Disk>,
    pub(super) path: PathBuf,
}

impl LockGuard for SimHold {
    fn disk(&self) -> usize {
        Arc::as_ptr(&self.disk).addr()
    }
}

impl Drop for SimHold {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if let Some(holders) = state.holds.get_mut(&self.path) {
            *holders -= 1;
            if *holders == 0 {
                state.holds.remove(&self.path);
            }
        }
    }
}
