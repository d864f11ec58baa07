//! Options of blob files.

use crate::codec::Codec;
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
        /// A value of at least so many bytes goes into a blob file when a flush or a compaction writes it into a table on the
        /// SSD: once, since compactions write references again, and no values. Shorter ones than the default make writes cheaper, too, and
        /// scans dearer. Families with a merge operator keep theirs in tables. 0 keeps all in tables.
        value_bytes_min: Bytes = 16 << 10, 0 => 1 << 20;
        /// How such values are compressed, each by itself, if it becomes an eighth smaller.
        compression: Codec = Codec::Lz4;
        /// A blob file that is written beside tables ends with the value with which it has so many bytes. Where a family has more than 64
        /// of less than 1 MiB, and than a quarter of that, some are joined.
        file_bytes: Bytes = 64 << 20, 1 << 10 => 1 << 40;
        /// The values in all blob files may have so many bytes for each hundred that tables refer to: if they have more, the
        /// values that are needed move out of the files that have most garbage, and writers are slowed down who are faster than that. 1,000,000 leaves all where they are.
        space_percent_max: Count = 130, 101 => 1_000_000;
    }
}
