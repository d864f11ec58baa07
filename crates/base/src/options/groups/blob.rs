//! Options of blob files.

use crate::options::group::option_group;

option_group! {
    /// Options of blob files, in which long values lie apart from their keys.
    BlobOptions, "blob" {
        /// A longer value goes into a blob file, before its write is granted: one file for each batch, made
        /// durable with three syncs.
        inline_bytes_max: Bytes = 1 << 20, 64 => 1 << 20;
        /// A memtable is sealed when it refers to so many bytes in blob files, and sealed ones are
        /// flushed when together they do: a reference is short, so values that were overwritten would
        /// take room on the SSD until as many others were written as fill persistent memory.
        // Manifests remember this name, which is older than the word *memtable*.
        generation_bytes: Bytes = 1 << 30, 64 => 1 << 50;
    }
}
