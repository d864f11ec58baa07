//! The lock of the store's folder, which keeps other openers out.

use thermocline_env::LockGuard;

use crate::sync::{Mutex, lock};

/// The folder's lock, for as long as the store has it; none where nobody is to be kept out.
pub(crate) struct FolderLock(Mutex<Option<Box<dyn LockGuard>>>);

impl FolderLock {
    /// The store has taken it.
    pub fn new(taken: Option<Box<dyn LockGuard>>) -> FolderLock {
        FolderLock(Mutex::new(taken))
    }

    /// Others may open the store.
    pub fn give_up(&self) {
        drop(lock(&self.0).take());
    }
}
