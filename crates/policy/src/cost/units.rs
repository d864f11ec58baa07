//! What a step costs on this machine, in nanoseconds, refined while running.

use crate::tuning::{
    CORRECTION_FORGOTTEN, CORRECTION_MAX, INTERNAL_NS, MACHINE_FACTOR_MAX, MAJOR_NS,
    MEASURED_STEPS_FULL, MEASURED_WEIGHT, SEARCH_NS, USUAL_ENTRY_NS,
};

/// I_b, I_p and I_s of PM-Blade §IV.C, in nanoseconds.
///
/// ```
/// use thermocline_policy::cost::UnitCosts;
/// let mut units = UnitCosts::default();
/// // 100,000 records were merged in 50 ms.
/// for _ in 0..30 {
///     units.merged(100_000, 50_000_000);
/// }
/// assert!((units.internal - 500.0).abs() < 1.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnitCosts {
    /// I_b: to look for a key in one table of persistent memory.
    pub search: f64,
    /// I_p: to merge one record inside persistent memory.
    pub internal: f64,
    /// I_s: to merge one record into tables of the SSD.
    pub major: f64,
}

impl Default for UnitCosts {
    /// What was measured on tmpfs with one core, rounded: a place to begin.
    fn default() -> UnitCosts {
        UnitCosts {
            search: SEARCH_NS,
            internal: INTERNAL_NS,
            major: MAJOR_NS,
        }
    }
}

impl UnitCosts {
    /// The usual ones, for a machine that merges an entry of a short merge in memory in so many nanoseconds; the
    /// usual ones themselves if that is not known.
    ///
    /// ```
    /// use thermocline_policy::cost::UnitCosts;
    /// assert_eq!(UnitCosts::calibrated(None), UnitCosts::default());
    /// let slow = UnitCosts::calibrated(Some(14.0));
    /// assert_eq!(slow.search, 2.0 * UnitCosts::default().search);
    /// // A clock that was disturbed is not believed.
    /// let disturbed = UnitCosts::calibrated(Some(7e6));
    /// assert_eq!(disturbed.major, 8.0 * UnitCosts::default().major);
    /// ```
    pub fn calibrated(entry_ns: Option<f64>) -> UnitCosts {
        let factor = entry_ns.map_or(1.0, |ns| {
            (ns / USUAL_ENTRY_NS).clamp(1.0 / MACHINE_FACTOR_MAX, MACHINE_FACTOR_MAX)
        });
        let usual = UnitCosts::default();
        UnitCosts {
            search: usual.search * factor,
            internal: usual.internal * factor,
            major: usual.major * factor,
        }
    }

    /// `searches` tables were looked at in `nanos`.
    pub fn searched(&mut self, searches: u64, nanos: u64) {
        refine(&mut self.search, searches, nanos);
    }

    /// An internal compaction has merged `records` in `nanos`.
    pub fn merged(&mut self, records: u64, nanos: u64) {
        refine(&mut self.internal, records, nanos);
    }

    /// Flushes skip level 0, so that nothing is merged there, and nobody finds out what that costs now: if it was more than is `usual`, that
    /// is believed a little less. Without that merges which took long for a while would be the last ones.
    pub fn doubt_internal(&mut self, usual: &UnitCosts) {
        let more = (self.internal - usual.internal).max(0.0);
        self.internal -= more * CORRECTION_FORGOTTEN;
    }

    /// A major compaction has merged `records` in `nanos`.
    pub fn moved(&mut self, records: u64, nanos: u64) {
        refine(&mut self.major, records, nanos);
    }
}

/// Moves `known` towards what `steps` took: a few count for little. Who took many times as long, or as short, was held up, or looked at
/// a clock that was disturbed.
fn refine(known: &mut f64, steps: u64, nanos: u64) {
    if steps == 0 || nanos == 0 {
        return;
    }
    let (least, most) = (*known / MACHINE_FACTOR_MAX, *known * MACHINE_FACTOR_MAX);
    let measured = (nanos as f64 / steps as f64).clamp(least, most);
    let weight = MEASURED_WEIGHT * (steps as f64 / MEASURED_STEPS_FULL).min(1.0);
    *known += (measured - *known) * weight;
}

/// How many records a merge drops for each update that was counted: what equation 2 supposes, put
/// right by what past merges have dropped. A snapshot that keeps old versions makes it less.
///
/// ```
/// use thermocline_policy::cost::Corrected;
/// let mut corrected = Corrected::default();
/// assert_eq!(corrected.dropped(100), 100.0);
/// for _ in 0..30 {
///     corrected.learn(1000, 250);
/// }
/// assert!((corrected.dropped(100) - 25.0).abs() < 0.5);
/// for _ in 0..60 {
///     corrected.age();
/// }
/// assert!(corrected.dropped(100) > 90.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Corrected(f64);

impl Default for Corrected {
    fn default() -> Corrected {
        Corrected(1.0)
    }
}

impl Corrected {
    /// The records that `updates` will have dropped.
    pub fn dropped(self, updates: u64) -> f64 {
        updates as f64 * self.0
    }

    /// Something new was flushed: what past merges have found counts for a little less. Without that merges that a snapshot made
    /// useless would be the last ones.
    pub fn age(&mut self) {
        self.0 += (1.0 - self.0) * CORRECTION_FORGOTTEN;
    }

    /// A merge after `updates` has dropped so many.
    pub fn learn(&mut self, updates: u64, dropped: u64) {
        if updates > 0 {
            let seen = dropped as f64 / updates as f64;
            self.0 += (seen.min(CORRECTION_MAX) - self.0) * MEASURED_WEIGHT;
        }
    }
}
