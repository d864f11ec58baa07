//! Whether a flush rewrites: whether it writes what lives into persistent memory, though others go to the SSD (FlatLSM §4.2.2;
//! `engine::flush::rewrite` has the argument).

/// What a flush would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Sealed memtables.
    pub memtables: usize,
    /// Bytes of their items.
    pub bytes: u64,
    /// Whether some of it was evacuated before.
    pub is_begun: bool,
    /// Whether it refers to blob files.
    pub refers_to_blobs: bool,
}

/// A memtable, by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    /// Bytes of its items.
    pub bytes: u64,
    /// Its records.
    pub records: u64,
    /// Its keys.
    pub keys: u64,
}

/// What is alive in the memtables that a flush would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RewritePlan {
    /// How many times as much as is alive memtables must hold, so that the flush rewrites.
    pub ratio: u64,
    /// Bytes of their items.
    pub bytes: u64,
    /// Of these, bytes of what is alive; `None` if that is more than one part in `ratio`: it was not looked
    /// how much.
    pub live_bytes: Option<u64>,
    /// Bytes that tables in persistent memory may still have.
    pub room_bytes: u64,
}

impl RewritePlan {
    /// Whether the flush rewrites.
    pub fn rewrites(&self) -> bool {
        self.live_bytes.is_some_and(|live| live <= self.room_bytes)
    }
}

/// Whether such a flush may rewrite at all. What was evacuated is not known in bytes. A reference to a blob file is short, so
/// tables in persistent memory could keep many files of values that were overwritten.
pub fn may(taken: &Taken) -> bool {
    taken.memtables > 0 && !taken.is_begun && !taken.refers_to_blobs
}

/// Bytes that may be alive of so many.
pub fn live_bytes_max(bytes: u64, ratio: u64) -> u64 {
    bytes / ratio
}

/// Whether the keys of a memtable, each with a record of its usual size, are more than so many bytes: then nothing is weighed.
///
/// ```
/// use thermocline_policy::rewrite::{Contents, lives_by_count};
/// let contents = Contents { bytes: 1000, records: 100, keys: 10 };
/// assert!(lives_by_count(&contents, 99) && !lives_by_count(&contents, 100));
/// ```
pub fn lives_by_count(contents: &Contents, most: u64) -> bool {
    let all = u128::from(contents.bytes) * u128::from(contents.keys);
    all > u128::from(most) * u128::from(contents.records.max(1))
}
