//! Level 0 in persistent memory: sealed memtables become PM tables (shapes `pm-tables` and `tiered`; PM-Blade
//! §IV). With `global-index` and `immutables` those do that are mostly dead (`flush::rewrite`).
//!
//! A flush writes PM tables (`level0`) in place of files, and one edit names them and the references to
//! them. They stand in level 0 as tables in files do, ordered by age among those: so reads, the law of age,
//! compaction out of level 0 and the size of ranges know nothing of where a table lies. What differs is
//! here: how one is written (`jobs::sink`), where those that are open are found and how a cursor moves
//! over either kind (`tables`), and how zones become free again ([`release`]).
//!
//! # Vocabulary
//! A PM table has a *number*, by which references name it, of the sequence of files' numbers, and an *owner*, to
//! whom its zones belong, of the sequence of chains' ids. Both are reserved in the manifest before they are used.
//!
//! # Invariants
//! 1. *Durable before named.* `PmTableWriter::finish` fences all of a table before an edit names it.
//! 2. *The manifest names what anybody may read.* References go with the edit that brings what was made of
//!    them. The table itself stays named until no living version refers to it and nobody holds it; only
//!    then an edit removes it, and after that edit its zones are free. (The version of a job refers to what it
//!    reads alone: else each job on the SSD would keep all of level 0 until it ends.) So readers who outlive the store
//!    read on beside the next opening, which finds the table named, and leaves it alone while they hold the
//!    folder (`reclaim`, invariant 1).
//! 3. *Bounded.* Level 0 is compacted when it takes more than its share of persistent memory
//!    (`level0.pm_percent`; of what is rewritten, `Options::level0_pm_bytes`): of every family that has some of it, since a table goes when the last of its families
//!    has left it (`compact::shape`). A flush that finds no room there, or with which all tables that are named
//!    would take more than the share and two memtables (with `tiered` as much as it takes itself), writes files of level 0 as with other shapes: newer than
//!    all tables, wherever those lie. So a full region, a compaction that is behind, or readers that hold what was
//!    compacted, stop nobody. It does so, too, with what fits no PM table.
//! 4. *Who takes it out frees it.* The zones of a table are released by whoever takes it out of the registry, once.
//! 5. *Nothing reads what nothing refers to.* Such a table is not opened; damage in it is in nobody's way.
//!
//! # What a crash leaves
//! | a crash | finds |
//! |---|---|
//! | after the reservation | numbers that are skipped |
//! | while a table is written | zones of an owner that nobody names: free |
//! | after the edit that names it | the table, and memtables that are known as flushed (`flush`) |
//! | after the edit that takes its references | a table that nothing refers to: removed |
//! | after the edit that removes it | zones of an owner that nobody names: free |

pub(crate) mod release;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use verify::verify_pm_tables;
