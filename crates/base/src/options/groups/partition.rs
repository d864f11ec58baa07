//! Options of partitions.

use crate::options::group::option_group;
use crate::options::partition_by::PartitionBy;

option_group! {
    /// Options of partitions, which divide the keys of each column family.
    PartitionOptions, "partition" {
        /// By what keys are divided. `size`: a partition that has grown past `partition.bytes` on the SSD is
        /// split, and neighbours that have shrunk to a quarter of it together are merged. `prefix`: each
        /// prefix of `partition.prefix_len` bytes that a flush meets gets a partition. `keys`: at
        /// `partition.keys`. Whatever partitions there are already stay.
        by: Division = PartitionBy::None;
        /// Bytes of tables past which a partition is split, without values that lie apart from them. 0 derives it: 32 tables.
        bytes: Bytes = 0, 0 => 1 << 60;
        /// Bytes of a key that say which partition it belongs to. A shorter key makes none. Where prefixes divide the keys, the filters
        /// of tables have them, too, so that a scan of one prefix reads nothing of tables without it.
        prefix_len: Count = 8, 1 => 255;
        /// Whether tables on the SSD end where partitions begin, in level 0, too, and at prefixes, if they are not too small then
        /// (TridentKV §3.3): so a partition that is dropped has most of its data in tables of its own. Tables are smaller for it.
        cuts: Flag = false;
        /// One read in so many, chosen at random, is counted for how often each partition is read; 0 counts none.
        rate_sample: Count = 64, 0 => 65_536;
    }
}
