//! Numbers of what expires, and of what is deleted.

// ---------------------------------------------------------------------------------------------------------------------
// What expires (`pick::expired`, `expiry`).

/// A manifest notes the time again after each of so many parts of its store's shortest TTL. *Chosen*: what has expired
/// stays that much longer, one part in a hundred, and a pair costs the manifest 21 bytes.
pub const TTL_PARTS: u64 = 100;

/// Expired tables that one job takes. *Derived*: the edit that removes them has 17 MB with the longest keys, a quarter of what it may have.
pub const EXPIRED_TABLES_MAX: usize = 256;

/// Time after which expired tables are looked at again that somebody read when they were to go, in nanoseconds. *Chosen*: a second, so that
/// a store where somebody always reads tries once in a second what costs it microseconds.
pub const EXPIRED_AGAIN_NS: u64 = 1_000_000_000;

// ---------------------------------------------------------------------------------------------------------------------
// What is deleted (`pick`, and the engine's `compact::deleted` and `cursor::explore`).

/// Deletes are brought to what lies below if there is one for at most so many entries there. *Chosen*: decision 162.
pub const DELETES_ONE_IN: u64 = 2;

/// Ranges of deleted keys that a family remembers, so that whole tables may go. *Chosen*: a range counts only if it
/// covers a table, and each pick looks through all of them.
pub const DELETED_RANGES_MAX: usize = 1024;

/// Range tombstones that together cover a table at most, for it to go unread. *Chosen*: a table of a million small ranges waits for a
/// compaction, and no pick walks through them.
pub const DELETED_FRAGMENTS_MAX: usize = 256;

/// Deleted keys that a cursor steps over at once, from which on it is looked whether whole tables have nothing else. *Chosen*: about the keys of
/// a small table, and so many that the look costs less than the steps.
pub const EMPTY_STEPS: u64 = 1024;

/// Deletes of single keys between two that are kept as probes. *Chosen*: a scan that comes before somebody has looked steps over so many,
/// in about 0.2 ms.
pub const EXPLORE_EVERY: u64 = 1024;

/// Probes that are kept. *Chosen*: deletes go on in few places at a time.
pub const EXPLORE_PROBES: usize = 8;

/// Time after a probe until it is looked at, in nanoseconds. *Chosen*: 10 ms, so that one look is for many deletes.
pub const EXPLORE_AFTER_NS: u64 = 10_000_000;

/// Deleted keys that a worker steps over before it gives way to other tasks. *Chosen*: some milliseconds.
pub const EXPLORE_STEPS: u64 = 8192;

/// Steps that each delete pays for. *Derived*: a gap noted beside a write in flight is stepped through twice; and probes have two sides.
pub const EXPLORE_STEPS_A_DELETE: u64 = 4;
