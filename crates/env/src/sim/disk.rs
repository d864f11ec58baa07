//! What a simulated file system and its open files share.

use std::fmt;

use thermocline_base::Steps;
use thermocline_base::sync::{Mutex, MutexGuard, lock};

use super::state::State;
use crate::spares::Spares;

/// The state, and who is told of steps.
pub(super) struct Disk {
    state: Mutex<State>,
    pub(super) steps: Steps,
    pub(super) spares: Spares,
}

impl Disk {
    pub(super) fn new(state: State, steps: Steps) -> Disk {
        Disk {
            state: Mutex::new(state),
            steps,
            spares: Spares::default(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}
