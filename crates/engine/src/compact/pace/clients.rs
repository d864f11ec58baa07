//! How many reads of clients are under way, as far as it was looked.

use thermocline_policy::pace::clients_at;

use crate::sync::{Mutex, lock};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<Seen>);

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// On average over the last moments.
    mean: f64,
    /// When it was last looked, by the clock.
    as_of: u64,
}

impl Clients {
    /// So many are under way now. Returns how many there are on average.
    pub fn see(&self, reads: usize, now_ns: u64) -> f64 {
        let mut seen = lock(&self.0);
        let elapsed = now_ns.saturating_sub(seen.as_of);
        seen.mean = clients_at(seen.mean, reads, elapsed);
        seen.as_of = seen.as_of.max(now_ns);
        seen.mean
    }
}
