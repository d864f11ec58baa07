//! Numbers of DRAM: what is promised ahead.

// ---------------------------------------------------------------------------------------------------------------------
// DRAM that is promised for writes ahead (`promise`).

/// Writes that a promise of DRAM covers in advance. *Chosen* (commit 738ad3c): one in so many writes reckons.
pub const CREDIT: u64 = 1024;

/// Records that a store must have written before it gets such a promise. *Chosen* (commit 3ce0364): of hundreds of stores that each write
/// a little all keep what they were promised until they fall idle.
pub const CREDIT_AFTER: u64 = 64;

/// Most families for which it does. *Chosen* (commit 738ad3c): of each is reckoned how many of its nodes all those writes may make grow.
pub const CREDIT_FAMILIES: usize = 4;

/// Groups in flight for which a promise is made beyond those that there are. *Chosen*: with more, a write reckons anew.
pub const CREDIT_GROUPS: u64 = 8;
