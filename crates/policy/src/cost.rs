//! When level 0 in persistent memory is compacted, and what of it stays there (PM-Blade §IV.C,
//! algorithm 1).
//!
//! A partition has unsorted tables, newest first, above one sorted run. *Internal* compaction merges
//! them inside persistent memory; *major* compaction moves them to the SSD. Both cost something now
//! and save something later, and the paper's three equations weigh that.
//!
//! # The equations
//! With n unsorted tables, R records in all of them and in the sorted run, r reads a second, w writes
//! and u updates since the last merge, and [`UnitCosts`]:
//!
//! | | gain | cost | when it is asked |
//! |---|---|---|---|
//! | eq. 1 | r · n/2 · I_b, a second | R · I_p, spread over a horizon | a table was added |
//! | eq. 2 | d · I_s, once | R · I_p, once | the partition has τw bytes |
//! | eq. 3 | reads for each byte that stays | | level 0 has τm bytes |
//!
//! # Where they differ from the paper
//! In print, equation 1 takes the cost of a merge *for each second of merging*, which is a constant
//! that does not depend on how much is merged, from a gain for each second of reading. So a
//! partition of a million records is merged as readily as one of ten. Here the merge pays if what
//! reads save within a *horizon* exceeds what all of it costs; the horizon is the time in which the
//! rate of reads decays, since a rate says nothing about later ([`Rates`]).
//!
//! In print, equation 2 takes the number of updates for the number of records that are left. But the
//! more updates there are the fewer records are left; few updates would count as large savings. Here
//! d, the records that go, is the number of updates, corrected by how many really went in past
//! merges ([`Corrected`]). And the cost counts the records of the sorted run, which is read and written
//! too, not only those that came since.
//!
//! The printed forms are there as [`Form::Printed`], for comparison.
//!
//! # Hysteresis
//! A gain must exceed its cost by [`GAIN_MARGIN`] before a merge is due. A merge takes the gain away (n
//! falls to 0, and u with it), so that decisions cannot flap by themselves. What equation 3 has kept
//! last time counts for [`GAIN_MARGIN`] more than what it has not.

mod keep;
mod rates;
#[cfg(test)]
mod tests;
mod thresholds;
mod units;

use std::fmt;

use crate::tuning::{GAIN_MARGIN, READS_OF_WRITES, SEARCHED_PART};

pub use keep::{Candidate, keep};
pub use rates::{Counts, Rates};
pub use thresholds::Thresholds;
pub use units::{Corrected, UnitCosts};

/// Nanoseconds in a second.
const SECOND: f64 = 1e9;

/// Which form of the equations is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Corrected: a merge pays if what reads save until their rate has decayed exceeds what all of it costs, and what need not
    /// be written again is counted by the records that really go.
    #[default]
    Corrected,
    /// As the paper prints them, without hysteresis.
    Printed,
}

/// An equation of PM-Blade §IV.C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Equation {
    /// Reads pay for the merge.
    Reads,
    /// What major compaction has not to write pays for it.
    Writes,
}

/// A partition's level 0 as of now.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Partition {
    /// Unsorted tables: n.
    pub unsorted: u64,
    /// Records that a merge reads, those of the sorted run included: R.
    pub records: u64,
    /// Bytes in persistent memory.
    pub bytes: u64,
    /// Reads a second: r.
    pub reads: f64,
    /// Records written since the last merge: w.
    pub writes: u64,
    /// Of them those that overwrote or deleted what was there: u.
    pub updates: u64,
}

/// What comes to level 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Arrival {
    /// Which part of the records will be superseded while they are there, 0 to 1.
    pub updates: f64,
    /// Reads a second.
    pub reads: f64,
    /// Writes a second.
    pub writes: f64,
}

/// What an equation says, with its numbers: `internal: eq. 1, gain 3.2 ms/s, cost 1.1 ms/s`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Which one.
    pub equation: Equation,
    /// Nanoseconds that are saved: by [`Equation::Reads`] in a second, by [`Equation::Writes`] in
    /// all.
    pub gain: f64,
    /// Nanoseconds that it costs, likewise.
    pub cost: f64,
    /// Whether the merge is due.
    pub due: bool,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.equation {
            Equation::Reads => (1, "ms/s"),
            Equation::Writes => (2, "ms"),
        };
        let (gain, cost) = (self.gain / 1e6, self.cost / 1e6);
        write!(
            f,
            "internal: eq. {number}, gain {gain:.3} {unit}, cost {cost:.3} {unit}"
        )
    }
}

/// The models of a store.
///
/// ```
/// use thermocline_policy::cost::{Corrected, CostModel, Form, Partition, UnitCosts};
/// let model = CostModel {
///     form: Form::Corrected,
///     units: UnitCosts::default(),
///     horizon: 10.0,
/// };
/// let mut partition = Partition {
///     unsorted: 8,
///     records: 100_000,
///     reads: 100.0,
///     ..Partition::default()
/// };
/// assert!(!model.reads(&partition).due);
/// partition.reads = 100_000.0;
/// let decision = model.reads(&partition);
/// assert!(decision.due);
/// assert_eq!(
///     decision.to_string(),
///     "internal: eq. 1, gain 200.000 ms/s, cost 10.000 ms/s"
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    /// Which form.
    pub form: Form,
    /// What things cost here.
    pub units: UnitCosts,
    /// Seconds for which a rate of reads is trusted.
    pub horizon: f64,
}

impl CostModel {
    /// Equation 1: whether reads pay for merging the unsorted tables of `partition`.
    pub fn reads(&self, partition: &Partition) -> Decision {
        let units = &self.units;
        let gain = partition.reads * partition.unsorted as f64 * SEARCHED_PART * units.search;
        let all = partition.records as f64 * units.internal;
        // With a measured I_p, which is a time, the printed quotient is a second for each second.
        let (cost, margin) = match self.form {
            Form::Corrected => (all / self.horizon, GAIN_MARGIN),
            Form::Printed => (SECOND, 1.0),
        };
        Decision {
            equation: Equation::Reads,
            gain,
            cost,
            due: partition.unsorted > 0 && gain > cost * margin,
        }
    }

    /// Equation 2: whether what major compaction need not write pays for it. To be asked from τw bytes
    /// on. `corrected` is that of the partition.
    pub fn writes(&self, partition: &Partition, corrected: Corrected) -> Decision {
        let units = &self.units;
        let (writes, updates) = (partition.writes as f64, partition.updates as f64);
        let (dropped, merged, margin) = match self.form {
            Form::Corrected => (
                corrected.dropped(partition.updates).min(writes),
                partition.records.max(partition.writes) as f64,
                GAIN_MARGIN,
            ),
            Form::Printed => ((writes - updates).max(0.0), writes, 1.0),
        };
        let (gain, cost) = (dropped * units.major, merged * units.internal);
        Decision {
            equation: Equation::Writes,
            gain,
            cost,
            due: partition.unsorted > 0 && gain > cost * margin,
        }
    }

    /// Equation 2, asked before anything is written: whether what comes to level 0 stays in persistent memory for a
    /// while. For each record, what need not be written to the SSD if it is superseded until then, against what it costs
    /// to write it here first. What is read anyhow is worth it: see [`READS_OF_WRITES`].
    ///
    /// ```
    /// use thermocline_policy::cost::{Arrival, CostModel, Form, UnitCosts};
    /// let model = CostModel { form: Form::Corrected, units: UnitCosts::default(), horizon: 10.0 };
    /// let loading = Arrival { updates: 0.01, reads: 0.0, writes: 300_000.0 };
    /// assert!(!model.arrival(&loading).due);
    /// assert!(model.arrival(&Arrival { updates: 0.6, ..loading }).due);
    /// assert!(model.arrival(&Arrival { reads: 100_000.0, ..loading }).due);
    /// ```
    pub fn arrival(&self, arrival: &Arrival) -> Decision {
        let (gain, cost) = (arrival.updates * self.units.major, self.units.internal);
        let read = arrival.reads > 0.0 && arrival.reads >= arrival.writes * READS_OF_WRITES;
        Decision {
            equation: Equation::Writes,
            gain,
            cost,
            due: read || gain > cost * GAIN_MARGIN,
        }
    }

    /// Algorithm 1 for one partition, when a table was added to it: the decision that makes a merge
    /// due, or else those that do not.
    pub fn internal(
        &self,
        partition: &Partition,
        corrected: Corrected,
        thresholds: &Thresholds,
    ) -> Internal {
        let reads = self.reads(partition);
        let large = partition.bytes >= thresholds.write;
        let writes = large.then(|| self.writes(partition, corrected));
        Internal { reads, writes }
    }
}

/// What equations 1 and 2 say of a partition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Internal {
    /// Equation 1.
    pub reads: Decision,
    /// Equation 2, if the partition is as large as τw.
    pub writes: Option<Decision>,
}

impl Internal {
    /// The one that makes a merge due.
    pub fn due(&self) -> Option<Decision> {
        let all = [Some(self.reads), self.writes];
        all.into_iter().flatten().find(|decision| decision.due)
    }
}
