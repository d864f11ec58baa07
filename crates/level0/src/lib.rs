//! What stays in persistent memory below the memtables: the global index, the PM table format and
//! internal compaction (design §7). Empty until the SSD exists below it: until then sealed
//! memtable generations stay where they are and are read in place.
#![forbid(unsafe_code)]
