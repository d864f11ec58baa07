//! What a job does in one step: between two of them it gives way to others, pays for what it has done, and looks whether the store is
//! being closed.

use crate::tuning::{
    FOLD_ENTRIES, FOLD_TIMES, JOB_SHORT_BYTES, JOB_SHORT_READS, JOB_STEP_BYTES, JOB_STEP_RECORDS,
};

/// Whether a step of a job ends before its record number `record`, where it has written so many bytes in it.
///
/// ```
/// use thermocline_policy::steps::ends;
/// assert!(ends(512, 0) && ends(1, 1 << 20) && !ends(1, 0));
/// ```
#[inline]
pub fn ends(record: u64, written: u64) -> bool {
    record.is_multiple_of(JOB_STEP_RECORDS) || written >= JOB_STEP_BYTES
}

/// Whether a piece of a file is about to end of which so many bytes were not asked for yet, where so many were asked for last.
#[inline]
pub fn is_short(left: u64, last: u64) -> bool {
    left < JOB_SHORT_BYTES.max(JOB_SHORT_READS * last)
}

/// How many operands of a key are collected before they are folded, where so many are left of those that were.
#[inline]
pub fn folds_at(left: usize) -> usize {
    FOLD_ENTRIES.max(FOLD_TIMES * left)
}
