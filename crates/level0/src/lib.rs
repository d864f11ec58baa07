//! What stays in persistent memory below the memtables: the global index, the PM table format and
//! internal compaction (design §7). Empty: sealed memtable generations are read in place until they are
//! flushed.
#![forbid(unsafe_code)]
