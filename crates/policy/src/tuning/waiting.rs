//! Numbers of what waits: delay of writers, writers that find no room, and how far jobs give way to clients.

// ---------------------------------------------------------------------------------------------------------------------
// Delay of writers (`pressure`).

/// Persistent memory in use, in percent of what there may be, from which on writers are delayed. *Chosen* (commit d676a91).
pub const PM_SOFT_PERCENT: u64 = 75;

/// Likewise for the longest delay. *Chosen*.
pub const PM_HARD_PERCENT: u64 = 97;

/// Runs in level 0 from which on writers are delayed. *As in* RocksDB (`level0_slowdown_writes_trigger`).
pub const LEVEL0_SOFT: u64 = 20;

/// Likewise for the longest delay. *As in* RocksDB (`level0_stop_writes_trigger`).
pub const LEVEL0_HARD: u64 = 36;

/// Bytes that wait for compaction from which on writers are delayed. *As in* RocksDB (`soft_pending_compaction_bytes_limit`).
pub const PENDING_SOFT: u64 = 64 << 30;

/// Likewise for the longest delay. *As in* RocksDB (`hard_pending_compaction_bytes_limit`).
pub const PENDING_HARD: u64 = 256 << 30;

/// As [`PENDING_SOFT`], in sizes of the base level, where that is more. *Derived*: where level 0 is due all of the base level counts. That
/// has up to ten times its size before a level opens above it, and what then leaves it meets about as much in the next one. This is half as
/// much again.
pub const PENDING_BASES_SOFT: u64 = 32;

/// Likewise for the longest delay. *As in* RocksDB, where it is four times the other.
pub const PENDING_BASES_HARD: u64 = 128;

/// The disk in use, in percent, from which on writers are delayed, where no reserve is known. *Chosen*.
pub const DISK_SOFT_PERCENT: u64 = 90;

/// Likewise for the longest delay. *Chosen*.
pub const DISK_HARD_PERCENT: u64 = 99;

/// The longest delay, in nanoseconds for each byte: 1 MB/s. *Chosen*.
pub const DELAY_NS_PER_BYTE_MAX: f64 = 1000.0;

/// Delay grows with this power of the way from soft to hard limit. *Chosen* (commit d676a91): steep only where debt is dangerous.
pub const DELAY_POWER: i32 = 3;

/// Nanoseconds: less is owed on, since sleeps are not shorter. *Chosen*.
pub const DELAY_PIECE_NS: u64 = 1_000_000;

/// Nanoseconds that a write waits at a time, at most. *Chosen*: decision 164.
pub const DELAY_NS_MAX: u64 = 10_000_000;

// ---------------------------------------------------------------------------------------------------------------------
// Writers that find no room (the engine's `room` and `upkeep`).

/// Attempts after which a write is refused though there was room each time, which others took. *Chosen* (commit 3ed150c).
pub const ROOM_ATTEMPTS_MAX: u32 = 100;

/// Milliseconds for which a writer waits for readers of what was flushed. *Chosen* (commit 3ed150c): a scan may end meanwhile.
pub const ROOM_READERS_MS: u64 = 250;

/// Milliseconds for which a writer waits for a compaction that works with the DRAM that it needs, or for another store that flushes.
/// *Chosen* (commit 92dc4be).
pub const ROOM_JOBS_MS: u64 = 10_000;

/// A store with less than one part in so many of `dram` left may have too little for a write; a large one says how much it lacks.
/// *Chosen* (commit 92dc4be).
pub const ROOM_DRAM_PARTS: u64 = 8;

/// Milliseconds for which a writer waits for other stores to give back DRAM, if none of them flushes. *Chosen* (commit 7472c43).
pub const ROOM_OTHERS_MS: u64 = 500;

/// Milliseconds between two looks of a writer that waits for room. *Chosen* (commit 3ed150c). What it waits for is counted in looks: with another
/// number here those above are no milliseconds.
pub const ROOM_LOOK_MS: u64 = 1;

/// A writer that found no room, and holds its lock, looks so often in vain whether readers have let go of what is dead, and gives up
/// then. *Chosen* (commit 79b574d): a get lets go within microseconds.
pub const PATIENCE_LOOKS: u32 = 200;

/// Nanoseconds for which it looks at least where nobody else makes room. *Chosen* (commit 79b574d): the thread of a get may have lost
/// its turn.
pub const PATIENCE_NS: u64 = 5_000_000;

// ---------------------------------------------------------------------------------------------------------------------
// Writes that meet in groups (the engine's `write::env`), where the options do not say.

/// Places where durable writes meet. *Chosen* (commit 8c1835d): threads are spread over them.
pub const BUCKETS: usize = 16;

/// Likewise where a persist is a sync. *Chosen* (commit 8c1835d): who comes while one lasts shares the next.
pub const BUCKETS_SYNC: usize = 1;

/// Bytes of buffered writes that wait before they are written back together. *Derived*: the media unit of persistent memory.
pub const BUFFERED_BYTES: u64 = 256;

/// Likewise where a persist is a sync. *Chosen* (commit 8c1835d): many writes share a sync.
pub const BUFFERED_BYTES_SYNC: u64 = 1 << 20;

// ---------------------------------------------------------------------------------------------------------------------
// How far jobs give way to clients (`pace`).

/// Reads of clients that are under way at the device, on average, from which on jobs give way as far as they do. *Derived*: from one on
/// somebody waits for the device at any time.
pub const CLIENTS_BUSY: f64 = 1.0;

/// Nanoseconds in which what was seen of clients falls to one half of what is known of them. *Chosen*: jobs are at full speed again before
/// anybody could count what clients have gained by a pause.
pub const CLIENTS_HALF_LIFE_NS: u64 = 200_000_000;

/// The least part of their time that jobs work, if nothing asks for more. *As in* RocksDB: its rate limiter goes no lower than one
/// twentieth of the limit (`kAllowedRangeFactor`).
pub const JOBS_SHARE_MIN: f64 = 0.05;

/// Nanoseconds of work: a job does not look whether it is to rest before it has worked for so long. *Chosen*: sleeps are not shorter.
pub const JOB_WORK_NS_MIN: u64 = 1_000_000;

/// For no more work than this a job rests at a time, in nanoseconds. *Chosen*: a sync that took seconds asks for no minute of rest.
pub const JOB_WORK_NS_MAX: u64 = 100_000_000;

/// Milliseconds that a job sleeps at once, at most, where its rate is limited. *Chosen* (commit bd1191b): so it hears of the store's closing.
pub const JOB_NAP_MS: u64 = 10;

/// Nanoseconds after which a job that rests looks again whether it still may. *Chosen*: no longer than the longest delay of a write.
pub const JOB_LOOK_NS: u64 = 10_000_000;

/// Persistent memory in use, in percent of what delays writers, from which on jobs speed up. *Chosen*: half.
pub const PACE_PM_PERCENT: u64 = 50;

/// In so many sizes of the base level, bytes that wait for compaction lift what holds jobs back. *Derived*: half of
/// [`PENDING_BASES_SOFT`], however large what delays writers is.
pub const PACE_PENDING_BASES: u64 = PENDING_BASES_SOFT / 2;

// ---------------------------------------------------------------------------------------------------------------------
// Ingesting tables (the engine's `ingest`).

/// Bytes that writers have brought while what was there was flushed: so many are flushed once more before an ingestion holds writers up.
/// *Chosen* (commit f3b10ea): a flush of less takes milliseconds.
pub const INGEST_FLUSH_BYTES: u64 = 256 << 10;

/// Flushes before an ingestion, at most. *Chosen* (commit f3b10ea): writers may bring as much as each of them takes.
pub const INGEST_FLUSHES_MAX: u32 = 3;

/// Bytes of keys and values after which an ingestion asks again whether the disk has room. *Chosen* (commit 6dfaf51): others write
/// meanwhile.
pub const INGEST_ASK_BYTES: u64 = 256 << 10;

/// Tables of an ingestion have one part in so many of what a record of the manifest may have, or it is refused. *Chosen* (commit f3b10ea): the
/// rest of the edit takes far less than the other half.
pub const INGEST_NAMED_PARTS: usize = 2;

// ---------------------------------------------------------------------------------------------------------------------
// Events that wait to be delivered (the crate `observe`).

/// Events of a store that wait for whoever listens, at most, but for the store's end. *Chosen* (commit 92dc4be): with what they name that is
/// about a megabyte.
pub const EVENTS_WAITING_MAX: u64 = 4096;

/// Room for so many is kept when none waits. *Chosen* (commit 1e9ed71).
pub const EVENTS_KEPT: usize = 64;
