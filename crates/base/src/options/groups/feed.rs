//! Options of change feeds.

use crate::options::group::option_group;

option_group! {
    /// Options of change feeds. What is kept for them counts in `pm`, and makes way for writes that
    /// find no room.
    FeedOptions, "feed" {
        /// Persistent memory that memtables which are flushed, or of which nothing is alive, may keep, so
        /// that their changes can be asked for again, though nobody follows them now. Values in blob files that
        /// they refer to count, too: those stay on the SSD.
        retain_bytes: Bytes = 0, 0 => 1 << 46;
        /// As much as this share of `pm`, in percent, such memtables may keep for feeds that are open and have not
        /// read them, values in blob files included. Past it the feeds that are farthest behind are cut off. A flush takes
        /// `flush.pm_percent` at once, so with less than that a feed must have read what is flushed.
        pins_percent_max: Count = 60, 0 => 90;
    }
}
