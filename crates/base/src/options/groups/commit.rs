//! Options of committing: how writes meet in groups, when buffered ones are written back.

use crate::options::group::option_group;

option_group! {
    /// Options of committing (LogFree §3.2).
    CommitOptions, "commit" {
        /// Places where durable writes meet to become one group with one persist. Threads are
        /// spread over them. 0 derives it from the region: one where a persist is slow (kind
        /// `file`), 16 elsewhere.
        buckets: Count = 0, 0 => 1024;
        /// A leader takes followers along as long as their changes fit this size.
        group_bytes_max: Bytes = 1 << 20, 0 => 32 << 20;
        /// How long a leader waits for followers before it begins, in microseconds. 0 takes
        /// along only those who came while the group before was written.
        group_wait_us: Count = 0, 0 => 1_000_000;
        /// Groups that can be in flight between grant and finish.
        ring_slots: Count = 64, 1 => 65_536;
        /// Buffered writes are written back when this many bytes of them have gathered. 0
        /// derives it from the region: 256 bytes, the media unit of persistent memory, or 1 MiB
        /// where a persist is a sync: on kind `file`, and with the logs of presets `leveled` and `trident`.
        /// Elsewhere a buffered write, or a commit with a callback or future, that has as many bytes by
        /// itself is written as a durable one.
        buffered_bytes: Bytes = 0, 0 => 1 << 30;
        /// Buffered writes are written back after this time at the latest.
        buffered_ms: Millis = 1000, 1 => 3_600_000;
    }
}
