//! The outside world behind traits: files, the clock, randomness.
//!
//! Everything the engine asks of the operating system goes through an [`Env`], except the mapping
//! of persistent memory, which `pm` does itself on a handle from here. So a test can put a file
//! system in memory in its place that crashes or fails on purpose (`sim`, `fault`).
//!
//! What a [`Storage`] promises, and nothing more:
//!
//! 1. [`File::sync`] makes the file's data and size durable, not its name.
//! 2. [`Storage::sync_dir`] makes the names in a folder durable: creations, renames, removals.
//! 3. What was not synced may be lost, kept or torn, in any order.
//! 4. After a failed sync nothing is known; the caller must not try again and trust the answer.
//! 5. Only ordinary files are opened, and no link in the last component of a path is followed, but
//!    by [`OpenMode::ReadInput`]: who may write into a folder cannot have another file changed
//!    through a name there, nor have an open wait for ever at a FIFO. A folder may be a link.
//!
//! | module | what it puts behind the traits |
//! |---|---|
//! | [`real`] | the operating system |
//! | [`direct`] | what direct I/O asks and promises, and the count of its bytes |
//! | [`sim`] | a file system in memory that can crash |
//! | [`fault`] | any of them, with faults on purpose |
//! | [`hooks`] | any of them, with calls at which a test does something of its own |
//! | [`spares`] | files that are open and need not be |
//! | [`meter`] | nothing: it adds up what a job reads, and how long it waits |
//! | [`simulated`] | a clock that a test advances, randomness from a seed |
#![deny(unsafe_code)]

mod clock;
pub mod direct;
pub mod fault;
mod file;
pub mod frugal;
pub mod hooks;
pub mod meter;
mod random;
pub mod real;
pub mod sim;
pub mod simulated;
pub mod sites;
pub mod spares;
mod storage;
#[expect(
    unsafe_code,
    reason = "the system calls that the standard library does not offer"
)]
mod sys;

pub use clock::Clock;
pub use file::{File, OpenMode, RawReads};
pub use random::Random;
pub use storage::{DiskRoom, FsKind, LockGuard, Storage};

use std::sync::Arc;

use thermocline_base::Result;

/// The outside world. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Env {
    /// Files.
    pub storage: Arc<dyn Storage>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
}

impl Env {
    /// The operating system's files, clock and randomness.
    ///
    /// ```
    /// let env = thermocline_env::Env::real();
    /// assert!(env.clock.now_ns() <= env.clock.now_ns());
    /// ```
    pub fn real() -> Env {
        Env {
            storage: Arc::new(real::RealStorage::new()),
            clock: Arc::new(real::RealClock::new()),
            random: Arc::new(real::OsRandom),
        }
    }

    /// A simulated file system with a clock that stands still until advanced and randomness from
    /// `seed`: the same calls give the same world.
    pub fn simulated(fs: sim::SimFs, seed: u64) -> Env {
        Env {
            storage: Arc::new(fs),
            clock: Arc::new(simulated::SimClock::new()),
            random: Arc::new(simulated::SeededRandom::new(seed)),
        }
    }

    /// A random number.
    ///
    /// # Errors
    /// Whatever the source of randomness says.
    pub fn random_u64(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.random.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}
