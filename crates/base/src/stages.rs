//! What jobs spend their time with.

use std::time::Duration;

/// Time that a job, or several together, waited for files. What else a job takes is merging: deciding what stays, compressing, filters, and
/// all that it does in persistent memory. Where several threads work on a job their times are added.
///
/// ```
/// # use thermocline_base::stages as thermocline;
/// use std::time::Duration;
/// use thermocline::Stages;
/// let ms = Duration::from_millis;
/// let mut stages = Stages { reading: ms(10), ..Stages::default() };
/// stages.add(Stages { reading: ms(1), writing: ms(20), syncing: ms(5) });
/// assert_eq!(stages, Stages { reading: ms(11), writing: ms(20), syncing: ms(5) });
/// assert_eq!(stages.merging(ms(100)), ms(64));
/// // Two threads.
/// assert_eq!(stages.merging(ms(30)), ms(0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stages {
    /// Reading tables and blob files.
    pub reading: Duration,
    /// Writing them.
    pub writing: Duration,
    /// Making them and their names durable.
    pub syncing: Duration,
}

impl Stages {
    /// Adds the time of another one.
    pub fn add(&mut self, other: Stages) {
        self.reading = self.reading.saturating_add(other.reading);
        self.writing = self.writing.saturating_add(other.writing);
        self.syncing = self.syncing.saturating_add(other.syncing);
    }

    /// What is left of a job that took so long.
    pub fn merging(&self, took: Duration) -> Duration {
        let waited = [self.reading, self.writing, self.syncing];
        waited.into_iter().fold(took, Duration::saturating_sub)
    }
}
