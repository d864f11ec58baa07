//! Crash exploration of the engine: at every point at which something becomes durable, every state
//! (or a drawn sample) that the machine could be left in is recovered and held against an oracle.
//!
//! | module | what it has |
//! |---|---|
//! | `oracle` | what may be found after a crash |
//! | `life` | one life of a store in a simulated world, with its oracle |
//! | `snapshot` | a world at one instant, and the states a crash there can leave |
//! | `check` | what must hold in a recovered state, and crashes inside and after the recovery |
//! | `space` | what must hold of zones and descriptors |
//! | `explore` | running a workload, exploring its snapshots, counting, reporting |
//! | `workload` | the workloads |
//! | `groups` | workloads with several groups in flight, and buffered writes |
//! | `families` | those of column families and their metadata |
//! | `ranges` | those of range deletes |
//! | `dropped` | those in which tables go that a range tombstone covers |
//! | `reclaim` | workloads in which memtables are dropped |
//! | `copies` | checkpoints, backups, restorations, and first openings of copies |
//! | `merges` | those in which memtables share indexes |
//! | `staged` | those in which batches are staged |
//! | `flush` | those in which memtables become tables |
//! | `sunk` | one in which they become tables of the base level |
//! | `compaction` | those in which tables sink from level to level |
//! | `partitions` | one in which partitions are made and removed |
//! | `prepared` | those in which transactions are prepared and resolved |
//! | `feed` | one with a follower, and what change feeds give after a crash |
//! | `blobs` | those in which values lie in blob files |
//! | `logged` | any of them, with records in DRAM and a log |
//! | `states` | the exploration itself, its bars and the sites it must reach |
//! | `raw` | several items in flight, which one writer alone never has |
//! | `planted` | the same with bugs planted, each of which must be caught |
//! | `flips` | every byte of a live chain flipped |
//! | `fences` | every fence failing |
//! | `again` | every sync failing once, and a process that follows in the same machine |
//!
//! A failure prints workload, seed, point and choice, and the command that runs just that.

mod again;
mod blobs;
mod check;
mod compaction;
mod copies;
mod dropped;
mod explore;
mod families;
mod feed;
mod fences;
mod flips;
mod flush;
mod groups;
mod life;
mod logged;
mod merges;
mod operands;
mod oracle;
mod partitions;
mod planted;
mod pm_tables;
mod prepared;
mod ranges;
mod raw;
mod reclaim;
mod rewrite;
mod snapshot;
mod space;
mod staged;
mod states;
mod sunk;
mod workload;

/// The allocator of these tests: they take a sixth less time with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
