//! Copies of stores, and what is brought in from outside: what they have, what they share, and what
//! becomes of them when files fail.
//!
//! | module | what it has |
//! |---|---|
//! | `destroyed` | databases that are destroyed |
//! | `faults` | a fault at every call of files |
//! | `hostile` | folders in which somebody has files, with names such as ours |
//! | `ingest` | tables from outside, and for others |
//! | `machine` | stores in simulated worlds, and all that is in one |
//! | `blobs` | long values in copies |
//! | `backup` | backups, several of a store, whole, damaged and restored |
//! | `checkpoint` | checkpoints, and copies of copies |
//! | `beside` | copies beside writers, flushes and compactions |
//! | `progress` | what observers are told |
//! | `ranges` | deletes of ranges in copies |
//! | `ttl` | when what is in copies was written |

mod backup;
mod beside;
mod blobs;
mod checkpoint;
mod destroyed;
mod faults;
mod hostile;
mod ingest;
mod machine;
mod progress;
mod ranges;
mod ttl;

/// The allocator of these tests: they take a sixth less time with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
