//! What a job reads of files, and how long it waits for them.

use std::sync::Arc;
use std::time::Duration;

use thermocline_base::stages::Stages;
use thermocline_base::sync::{AtomicU64, Ordering};

use crate::Clock;

/// Adds up bytes that are read, and time. Whoever reads or writes for a job tells it, from any thread.
///
/// ```
/// use std::sync::Arc;
/// use thermocline_env::Clock;
/// use thermocline_env::meter::Meter;
/// use thermocline_env::simulated::SimClock;
/// let clock = Arc::new(SimClock::new());
/// let meter = Meter::new(clock.clone());
/// let read = meter.reading(|| {
///     clock.advance_ns(70);
///     4096
/// });
/// meter.has_read(read);
/// assert_eq!((meter.bytes_read(), meter.stages().reading.as_nanos()), (4096, 70));
/// ```
#[derive(Debug)]
pub struct Meter {
    clock: Arc<dyn Clock>,
    // Relaxed throughout: numbers that guard nothing.
    bytes_read: AtomicU64,
    reading: AtomicU64,
    writing: AtomicU64,
    syncing: AtomicU64,
}

impl Meter {
    /// One by this clock, with nothing added yet.
    pub fn new(clock: Arc<dyn Clock>) -> Meter {
        Meter {
            clock,
            bytes_read: AtomicU64::new(0),
            reading: AtomicU64::new(0),
            writing: AtomicU64::new(0),
            syncing: AtomicU64::new(0),
        }
    }

    /// Counts the time that `read` takes.
    pub fn reading<T>(&self, read: impl FnOnce() -> T) -> T {
        self.during(&self.reading, read)
    }

    /// Counts the time that `write` takes.
    pub fn writing<T>(&self, write: impl FnOnce() -> T) -> T {
        self.during(&self.writing, write)
    }

    /// Counts the time that `sync` takes.
    pub fn syncing<T>(&self, sync: impl FnOnce() -> T) -> T {
        self.during(&self.syncing, sync)
    }

    fn during<T>(&self, spent: &AtomicU64, work: impl FnOnce() -> T) -> T {
        let begun = self.clock.now_ns();
        let done = work();
        let took = self.clock.now_ns().saturating_sub(begun);
        spent.fetch_add(took, Ordering::Relaxed);
        done
    }

    /// So many bytes of files were read.
    pub fn has_read(&self, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of files that were read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// The time.
    pub fn stages(&self) -> Stages {
        let of = |spent: &AtomicU64| Duration::from_nanos(spent.load(Ordering::Relaxed));
        Stages {
            reading: of(&self.reading),
            writing: of(&self.writing),
            syncing: of(&self.syncing),
        }
    }
}
