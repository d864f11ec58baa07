//! Numbers of room on the disk and in the region, and of relief where there is none.

// ---------------------------------------------------------------------------------------------------------------------
// Room on the disk, and the region (`room`).

/// A job of compaction takes no more of the disk than one part in so many. *Chosen* (commit f06e08a).
pub const DISK_JOB_PARTS: u64 = 10;

/// The reserve is no larger than one part in so many of the disk. *Chosen* (commit f06e08a).
pub const RESERVE_PARTS: u64 = 4;

/// From so many reserves on writers are delayed. *Chosen*: one more than is kept. An idle store gives space back from there on, too.
pub const RESERVES_SOFT: u64 = 2;

/// Bytes of the disk that a byte of the region's growth takes: its own, and one to flush it into. *Derived*.
pub const GROWTH_BYTES: u64 = 2;

/// One part in so many of the region's newest part is to be free, and its pages there, ahead of need. *Measured*: with a sixteenth
/// writers wait for pages (`thermocline bench fillrandom --num 1500000 --pm 4GiB --dram 2GiB`, 0.93 of the rate).
pub const AHEAD_PARTS: u64 = 4;

/// Bytes: a growing region tries whether so much is left of the disk, at most. *Chosen*: on some file systems that takes time.
pub const REGION_TRIES_BYTES: u64 = 16 << 20;

// ---------------------------------------------------------------------------------------------------------------------
// Relief of a full disk (`relief`; commit eebcf4c).

/// Writes that only delete which are worth a flush on a full disk. *Chosen*.
pub const DELETES_MANY: u64 = 1000;

/// Nanoseconds between two flushes of deletes by threads, between two looks for what was left alone on a full disk, and of the first rest of
/// tables. *Chosen*: each of many flushes makes a table of its own, and a look costs little.
pub const DELETES_PAUSE_NS: u64 = 1_000_000_000;

/// Nanoseconds after which a job that gave up is tried again, the first time: others may have taken its room for a moment.
/// Each time twice as many, up to [`AGAIN_MAX_NS`]. *Chosen*.
pub const AGAIN_NS: u64 = 10_000_000_000;

/// See [`AGAIN_NS`]; and after no longer a pause a flush of deletes that has failed, or a job, is tried again. *Derived*: six doublings.
pub const AGAIN_MAX_NS: u64 = 640_000_000_000;

/// How many times longer each wait is than the one before. *Chosen*.
pub const AGAIN_GROWTH: u64 = 2;

/// Nanoseconds after which a writer that found no room for a long value, and did not try again, is forgotten. *Chosen*.
pub const STARVED_NS: u64 = 60_000_000_000;

/// No work of this kind goes into the last part in so many of the disk, beside what flushes need. *Chosen*.
pub const RELIEF_MARGIN_PARTS: u64 = 100;

/// Bytes of that margin, at most. *Chosen*.
pub const RELIEF_MARGIN_BYTES: u64 = 64 << 20;

/// A job that gave up is tried again when it is one part in so many smaller. *Chosen*: fewer than a hundred tries for 2⁴⁰ bytes.
pub const GAVE_UP_PARTS: u64 = 4;

/// A job that gave up is tried again with one part in so many more room. *Chosen*.
pub const ROOM_MORE_PARTS: u64 = 4;

/// And with so many bytes more at least. *Chosen*.
pub const ROOM_MORE_BYTES: u64 = 256 << 10;

/// Bytes after which a job that makes room looks whether it takes too much itself. *Chosen*.
pub const ROOM_LOOK_BYTES: u64 = 256 << 10;

/// Nanoseconds after which a store whose region is full of what readers hold looks at them again. *Chosen*.
pub const READERS_AGAIN_NS: u64 = 50_000_000;

/// Nanoseconds without a write after which a store is idle, where options do not say. *Chosen*.
pub const IDLE_NS: u64 = 1_000_000_000;
