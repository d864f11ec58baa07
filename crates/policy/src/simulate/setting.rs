//! What a store is put through, and what becomes of it.

/// Nanoseconds in a second.
pub(super) const SECOND: f64 = 1e9;

/// What a store is put through. Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// All keys with their values.
    pub data_bytes: u64,
    /// Persistent memory.
    pub pm_bytes: u64,
    /// A record.
    pub record_bytes: u64,
    /// Written in a second.
    pub writes_per_s: f64,
    /// Keys read in a second.
    pub reads_per_s: f64,
    /// What the device writes or reads in a second.
    pub device_per_s: f64,
    /// How unlike cells are: 0 is alike; with 1 the n-th is written one n-th as often as the first.
    pub skew: f64,
    /// How much is written in all.
    pub user_bytes: u64,
    /// Jobs that run beside a flush.
    pub jobs: usize,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// Bytes that writers have written.
    pub user_bytes: f64,
    /// Bytes written to the SSD by flushes.
    pub flushed_bytes: f64,
    /// Bytes written to the SSD by compactions.
    pub compacted_bytes: f64,
    /// Bytes that the device has moved, read or written.
    pub moved_bytes: f64,
    /// Bytes written into tables in persistent memory.
    pub pm_written_bytes: f64,
    /// Seconds.
    pub seconds: f64,
    /// Bytes of tables in persistent memory, a mean over flushes.
    pub pm_table_bytes: f64,
    /// The most delay, in nanoseconds for a byte.
    pub delay_max: f64,
    /// What of it writers feel: beyond what a byte takes them anyway.
    pub felt_max: f64,
    /// The longest time, in nanoseconds, for which there was no persistent memory for a writer.
    pub stall_ns_max: f64,
    /// Flushes.
    pub flushes: u64,
    /// Times that flushes began to skip level 0, or ended to.
    pub skip_changes: u64,
    /// Jobs: merges inside persistent memory, and others.
    pub jobs: (u64, u64),
}

impl Outcome {
    /// Bytes on the SSD for each byte that was written.
    pub fn write_amplification(&self) -> f64 {
        (self.flushed_bytes + self.compacted_bytes) / self.user_bytes.max(1.0)
    }

    /// What the device moves for each byte that was written.
    pub fn moved_for_each(&self) -> f64 {
        self.moved_bytes / self.user_bytes.max(1.0)
    }

    /// The longest time for which who writes so many bytes at once was held back, in nanoseconds.
    pub fn wait_ns_max(&self, batch_bytes: u64) -> f64 {
        (self.felt_max * batch_bytes as f64).max(self.stall_ns_max)
    }
}
