//! What a region is.

/// What a region is, and so what survives what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionKind {
    /// Real persistent memory through a `MAP_SYNC` mapping.
    Dax,
    /// An ordinary file; every persist is an `msync`.
    File,
    /// A file on tmpfs: emulated persistence that survives the process, not the machine.
    Shm,
    /// The simulator.
    Sim,
    /// A file behind a model of caches that a killed process takes with it.
    Shadow,
    /// Plain memory: gone when it is closed. Durable is what somebody writes elsewhere.
    Dram,
    /// There is none yet: empty memory stands in for it, for who only reads.
    Absent,
}

impl RegionKind {
    /// Its name, as options and `stat` spell it.
    pub fn name(self) -> &'static str {
        match self {
            RegionKind::Dax => "dax",
            RegionKind::File => "file",
            RegionKind::Shm => "shm",
            RegionKind::Sim => "sim",
            RegionKind::Shadow => "shadow",
            RegionKind::Dram => "dram",
            RegionKind::Absent => "none",
        }
    }

    /// What persisted bytes survive, in words.
    pub fn survives(self) -> &'static str {
        match self {
            RegionKind::Dax => "process crash, kernel crash, power loss",
            RegionKind::File => "process crash, kernel crash, power loss (by msync)",
            RegionKind::Shm => "process crash only (emulated)",
            RegionKind::Sim => "simulated crashes",
            RegionKind::Shadow => "process crash only, which loses all else (emulated)",
            RegionKind::Dram => "nothing: what is durable lies in the log",
            RegionKind::Absent => "nothing lies there yet: the first open for writing makes it",
        }
    }
}
