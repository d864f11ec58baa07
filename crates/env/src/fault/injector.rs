//! Which faults happen: what a storage and its open files ask at every call.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use thermocline_base::sync::{Mutex, MutexGuard, lock};
use thermocline_base::{Error, Result};

use super::plan::{Fault, Op, Plan, Repeat};
use crate::sim::{FailedSync, SimFs};

/// Has faults happen. What it has counted and what was planned is behind one lock.
#[derive(Debug)]
pub(super) struct Injector {
    /// The simulator below, in which failed syncs leave behind what kernels do.
    sim: Option<SimFs>,
    faults: Mutex<Faults>,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) plan: Option<Plan>,
    /// Bytes by which files may still grow, if that is limited.
    pub(super) room: Option<u64>,
    /// Up to where a file has room behind its end.
    reserved: BTreeMap<PathBuf, u64>,
    /// No such room is given: the file system does not know it.
    pub(super) reserves_nothing: bool,
    pub(super) calls: [u64; Op::ALL.len()],
    pub(super) fired: u64,
}

impl Faults {
    pub(super) fn calls_for(&self, fault: Fault, op: Option<Op>) -> u64 {
        Op::ALL
            .into_iter()
            .filter(|o| fault.befalls(*o) && op.is_none_or(|op| op == *o))
            .map(|o| self.calls[o as usize])
            .sum()
    }

    /// Counts a call; the fault that befalls it.
    pub(super) fn call(&mut self, op: Op) -> Option<Fault> {
        let fault = self.plan.and_then(|plan| {
            let meant = plan.fault.befalls(op) && plan.op.is_none_or(|o| o == op);
            let index = self.calls_for(plan.fault, plan.op);
            let now = match plan.repeat {
                Repeat::Once => index == plan.at,
                Repeat::Forever => index >= plan.at,
            };
            (meant && now).then_some(plan.fault)
        });
        self.calls[op as usize] += 1;
        self.fired += u64::from(fault.is_some());
        fault
    }

    /// Takes so much room, or none.
    fn take_all(&mut self, growth: u64) -> bool {
        let Some(room) = self.room else {
            return true;
        };
        let left = room.checked_sub(growth);
        self.fired += u64::from(left.is_none());
        self.room = Some(left.unwrap_or(room));
        left.is_some()
    }
}

impl Injector {
    pub(super) fn new(sim: Option<SimFs>) -> Injector {
        Injector {
            sim,
            faults: Mutex::default(),
        }
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        lock(&self.faults)
    }

    pub(super) fn call(&self, op: Op, what: &'static str, path: &Path) -> Result<Option<Fault>> {
        match self.faults().call(op) {
            Some(Fault::Eio) => Err(eio(what, path)),
            Some(Fault::NoSpace) => Err(no_space(what, path)),
            Some(Fault::Quota) => {
                let edquot = io::Error::from_raw_os_error(libc::EDQUOT);
                Err(Error::io(what, path, edquot))
            }
            Some(Fault::CrossesDevices) => {
                let exdev = io::Error::from_raw_os_error(libc::EXDEV);
                Err(Error::io(what, path, exdev))
            }
            other => match other.and_then(unopened) {
                // Before anything is synced.
                Some(refused) if op == Op::SyncDir => Err(Error::io("open folder", path, refused)),
                Some(refused) => Err(Error::io(what, path, refused)),
                None => Ok(other),
            },
        }
    }

    /// A sync that may fail: `pass` does it.
    pub(super) fn sync_with(
        &self,
        op: Op,
        what: &'static str,
        path: &Path,
        pass: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let fault = self.call(op, what, path)?;
        self.sync_as(fault, what, path, pass)
    }

    /// A sync that this befalls.
    pub(super) fn sync_as(
        &self,
        fault: Option<Fault>,
        what: &'static str,
        path: &Path,
        pass: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (how, error) = match fault {
            Some(Fault::SyncKept) => (FailedSync::Kept, eio(what, path)),
            Some(Fault::SyncNoSpace) => (FailedSync::Kept, no_space(what, path)),
            Some(Fault::SyncDropped) => (FailedSync::Dropped, eio(what, path)),
            Some(Fault::Eio) => return Err(eio(what, path)),
            _ => return pass(),
        };
        if let Some(sim) = &self.sim {
            sim.fail_next_sync(how);
            let failed = pass();
            debug_assert!(failed.is_err(), "it was to fail");
        }
        Err(error)
    }

    /// How far a file of `len` bytes may grow towards `end`; takes that room.
    pub(super) fn take_room(&self, path: &Path, len: u64, end: u64) -> u64 {
        let mut faults = self.faults();
        let Some(room) = faults.room else {
            return end;
        };
        let has = faults.reserved.get(path).copied().unwrap_or(0).max(len);
        let growth = end.saturating_sub(has);
        let granted = growth.min(room);
        faults.room = Some(room - granted);
        faults.fired += u64::from(granted < growth);
        end - (growth - granted)
    }

    /// As [`Injector::take_room`], all up to `end` or none. Whether there was so much.
    pub(super) fn take_all_room(&self, path: &Path, len: u64, end: u64) -> bool {
        let mut faults = self.faults();
        let has = faults.reserved.get(path).copied().unwrap_or(0).max(len);
        faults.take_all(end.saturating_sub(has))
    }

    /// Takes room behind the end of a file of `len` bytes, all up to `end` or none.
    pub(super) fn reserve(&self, path: &Path, len: u64, end: u64) -> bool {
        let mut faults = self.faults();
        if faults.reserves_nothing {
            return true;
        }
        let has = faults.reserved.get(path).copied().unwrap_or(0).max(len);
        if !faults.take_all(end.saturating_sub(has)) {
            return false;
        }
        faults.reserved.insert(path.to_path_buf(), end.max(has));
        true
    }

    pub(super) fn reserves_nothing(&self) -> bool {
        self.faults().reserves_nothing
    }

    /// A file that was cut gives back what it had behind its end.
    pub(super) fn give_room_back(&self, path: &Path, before: u64, len: u64) {
        let mut faults = self.faults();
        let had = faults.reserved.remove(path).unwrap_or(0).max(before);
        if let Some(room) = &mut faults.room {
            *room += had.saturating_sub(len);
        }
    }
}

/// With what a call fails that cannot open something, if that is the fault.
pub(super) fn unopened(fault: Fault) -> Option<io::Error> {
    let code = match fault {
        Fault::NoDescriptor => libc::EMFILE,
        Fault::NoAccess => libc::EACCES,
        _ => return None,
    };
    Some(io::Error::from_raw_os_error(code))
}

pub(super) fn eio(what: &'static str, path: &Path) -> Error {
    Error::io(what, path, io::Error::from_raw_os_error(libc::EIO))
}

pub(super) fn no_space(what: &'static str, path: &Path) -> Error {
    Error::io(what, path, io::Error::from_raw_os_error(libc::ENOSPC))
}
