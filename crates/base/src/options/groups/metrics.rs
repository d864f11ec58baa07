//! Options of what a store measures of itself.

use crate::options::group::option_group;

option_group! {
    /// Options of what a store measures of itself.
    MetricsOptions, "metrics" {
        /// One operation in so many is timed, chosen at random; 1 times all, 0 none.
        latency_every: Count = 32, 0 => 1 << 32;
    }
}
