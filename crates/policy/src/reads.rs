//! Reads that pay for a compaction (LevelDB's seek compaction; `observe::charged` counts, and has the argument why it ends).
//!
//! A read that asks two tables, and finds nothing in the first, would have been cheaper if both were one. So would a
//! scan that steps over many deletes, if those had met what they delete. Such a read *charges* the table. When a table
//! has been charged as often as it would cost to compact it, it is handed to [`pick_read`](crate::pick::pick_read).

use crate::tuning::{READ_BYTES, READS_MIN, READS_NOTED};

/// How often a table of so many bytes may be asked in vain before it pays to compact it.
pub fn allowed(bytes: u64) -> u64 {
    (bytes / READ_BYTES).max(READS_MIN)
}

/// Whether a table of so many bytes has come to pay, now that it was charged more often than before: once for each time that it
/// has paid.
///
/// ```
/// use thermocline_policy::reads::pays;
/// assert!(pays(1 << 10, 99, 100) && !pays(1 << 10, 100, 199));
/// assert!(!pays(160 << 20, 99, 100));
/// ```
pub fn pays(bytes: u64, charged_before: u64, charged: u64) -> bool {
    let allowed = allowed(bytes);
    charged_before / allowed < charged / allowed
}

/// Whether, with the so manieth counted read, it is looked whether level 0 is to be weighed anew.
pub fn weighs_level0(counted: u64) -> bool {
    counted.is_multiple_of(READS_NOTED)
}
