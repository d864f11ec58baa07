//! Where a region lies, and how it is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::budget::Account;
use thermocline_base::options::{Emulation, RegionDemand};
use thermocline_env::Env;

use crate::shadow::Shadow;
use crate::sim::SimPm;

/// Where a region lies.
#[derive(Debug, Clone)]
pub enum Place {
    /// A file.
    Path(PathBuf),
    /// A simulator.
    Sim(SimPm),
    /// A file, to which only what is persisted gets for certain: a killed process loses the rest.
    Shadow {
        /// The file.
        path: PathBuf,
        /// What happens to the rest.
        shadow: Shadow,
    },
    /// Memory of the process's own: empty whenever it is opened. It counts as charged to the account,
    /// for as long as anybody holds the region.
    Dram(Arc<Account>),
}

impl Place {
    /// Its file, if it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Place::Path(path) | Place::Shadow { path, .. } => Some(path),
            Place::Sim(_) | Place::Dram(_) => None,
        }
    }
}

/// How to open a region.
#[derive(Debug, Clone)]
pub struct RegionSpec {
    /// Files, clock.
    pub env: Env,
    /// Where it lies.
    pub place: Place,
    /// The kind that the user insists on.
    pub demand: RegionDemand,
    /// The size it may grow to.
    pub capacity: u64,
    /// Slow it down for an experiment.
    pub emulation: Emulation,
    /// Write nothing.
    pub read_only: bool,
}
