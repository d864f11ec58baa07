//! What was learned.

use thermocline_base::FileId;

use crate::{level0, relief};

/// What was learned, and flags with hysteresis.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// Of level 0 in persistent memory.
    pub level0: level0::Memory,
    /// Of jobs on a full disk.
    pub gave_up: relief::GaveUp,
    /// Without cost models: tables in persistent memory with smaller numbers leave; 0 where none do.
    pub leave_below: FileId,
    /// Whether the last compaction moved values out of blob files: what a level's size asks for is next.
    pub collected: bool,
}
