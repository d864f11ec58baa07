//! What a runtime may use, and what it uses where nothing else is said.

use std::sync::OnceLock;

/// Most worker threads, and job threads, of a runtime.
pub(crate) const THREADS_MAX: usize = 256;

/// What a runtime may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeOptions {
    /// Most DRAM that all its stores together use for indexes and caches, in bytes: 1 GiB unless set, and not less than 1 MiB.
    /// Each stays below its own [`dram`](thermocline_base::options::Options::dram) too. A limit, not a reservation.
    pub dram: u64,
    /// Most threads that serve short tasks of the stores, from 1 to 256. They start when they are
    /// needed.
    pub workers: usize,
    /// Most threads that run long jobs of the stores, such as flushes, from 1 to 256. They start when
    /// they are needed.
    pub jobs: usize,
}

/// Cores that this process may use. The answer is kept: asking reads files of the system, which
/// took a fourteenth of the time of opening a small store.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    let asked = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    *CORES.get_or_init(asked)
}

/// Two for each core: half of their time they wait for the device.
fn default_jobs() -> usize {
    (2 * cores()).min(THREADS_MAX)
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        RuntimeOptions {
            dram: 1 << 30,
            workers: 1,
            jobs: default_jobs(),
        }
    }
}
