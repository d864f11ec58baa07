//! What stays in persistent memory below the memtables: the PM table format and internal compaction
//! (design §7). Empty so far: sealed memtable generations stay where they are and are read in place. The
//! global index over them is made of memtables and their records, and lives with those
//! (`memtable::merge`).
#![forbid(unsafe_code)]
