//! Options of the region of persistent memory.

use crate::options::group::option_group;

option_group! {
    /// Options of the region of persistent memory.
    PmOptions, "pm" {
        /// Size of the first part of a new region; later parts double up to 64 MiB.
        part_bytes_first: Bytes = 1 << 20, 256 << 10 => 64 << 20;
    }
}
