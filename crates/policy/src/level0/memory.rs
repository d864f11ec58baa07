//! What was learned of level 0 in persistent memory.

use std::collections::BTreeMap;
use std::fmt;

use thermocline_base::size::format_size;
use thermocline_base::{CfId, FileId, KeyRange};

use super::state::{Level0Plan, SlicePlan};
use crate::cost::{Arrival, Corrected, CostModel, Decision, Form, UnitCosts};
use crate::tuning::{GAIN_MARGIN, RATE_HORIZON};

/// By family and files of a slice: of how many of its writes how many are updates.
pub type Sampled = BTreeMap<(CfId, Vec<FileId>), (u64, u64)>;

/// What was learned, and flags with hysteresis.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// What steps cost.
    pub units: UnitCosts,
    /// The same before anything was measured.
    usual: UnitCosts,
    /// What merges drop for each update.
    pub corrected: Corrected,
    /// What was drawn from slices.
    pub sampled: Sampled,
    /// The slices that stayed last time, by their first keys.
    kept: Vec<(CfId, Vec<u8>)>,
    /// Whether slices leave until the rest fits.
    pub(super) drains: bool,
    /// Whether flushes skip level 0.
    skips: bool,
    /// When a flush has asked for the last time, in nanoseconds, and how many records had been written by then.
    asked_at: (u64, u64),
    /// What memtables leave for level 0, as was last seen, where that may be more than its share
    /// ([`flush::Sealed::lends`](crate::flush::Sealed::lends)).
    pub lent: Option<u64>,
}

/// Why level 0 is merged, leaves, or is skipped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Because {
    /// An equation says that a merge pays.
    Pays(Decision),
    /// A merge makes room: in level 0, or in blob files.
    Room {
        /// Whether it is for blob files, to which newer runs refer much.
        in_blobs: bool,
        /// About so many records go.
        updates: u64,
        /// All records.
        records: u64,
    },
    /// Level 0 is full, and equation 3 has chosen what stays.
    Warmth {
        /// Bytes of level 0.
        bytes: u64,
        /// Bytes that may stay.
        keep: u64,
        /// Slices that stay.
        stay: usize,
        /// Of so many.
        slices: usize,
    },
    /// Flushes begin to skip level 0, or end to.
    Skips {
        /// Whether they do from now on.
        skips: bool,
        /// Which part of what comes will be superseded there.
        updates: f64,
        /// Reads a second.
        reads: f64,
        /// Records written a second.
        writes: f64,
    },
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Because::Pays(decision) => decision.fmt(f),
            Because::Room {
                in_blobs,
                updates,
                records,
            } => write!(
                f,
                "internal: {}; about {updates} of {records} records go",
                match in_blobs {
                    true => "newer runs refer to much in blob files",
                    false => "level 0 is nearly full",
                }
            ),
            Because::Warmth {
                bytes,
                keep,
                stay,
                slices,
            } => write!(
                f,
                "major: eq. 3, {} of level 0, {} may stay, {stay} of {slices} slices do",
                format_size(*bytes),
                format_size(*keep)
            ),
            Because::Skips {
                skips,
                updates,
                reads,
                writes,
            } => write!(
                f,
                "flush: {}, {:.0} % are updates, {reads:.0} reads/s, {writes:.0} writes/s",
                if *skips { "to the SSD" } else { "to level 0" },
                updates * 100.0
            ),
        }
    }
}

impl Because {
    /// A slice is merged because level 0 will soon be full, or refers to much in blob files.
    pub fn room(slice: &SlicePlan) -> Because {
        Because::Room {
            in_blobs: slice.holds_blobs,
            updates: slice.updates,
            records: slice.records,
        }
    }
}

impl Memory {
    /// Where nothing was measured yet, and steps usually cost this.
    pub fn of(usual: UnitCosts) -> Memory {
        Memory {
            units: usual,
            usual,
            ..Memory::default()
        }
    }

    /// The models, with what steps cost here.
    pub fn model(&self, form: Form) -> CostModel {
        CostModel {
            form,
            units: self.units,
            horizon: RATE_HORIZON,
        }
    }

    /// An internal compaction has read so many records in so many nanoseconds, and dropped some where so many were
    /// expected to be updates.
    pub fn merged(&mut self, (records, nanos): (u64, u64), updates: u64, dropped: u64) {
        self.units.merged(records, nanos);
        self.corrected.learn(updates, dropped);
    }

    /// Whether a slice with these keys stayed last time.
    pub(super) fn was_kept(&self, family: CfId, range: &KeyRange<&[u8]>) -> bool {
        let mut kept = self.kept.iter().filter(|(cf, _)| *cf == family);
        kept.any(|(_, first)| range.first <= &first[..] && !range.ends_before(first))
    }

    /// Notes that level 0 drains, or does not any more; and says why, if some of it `leaves` now.
    pub fn note_drains(&mut self, plan: &Level0Plan, leaves: bool) -> Option<Because> {
        if !plan.drains {
            // While the last ones leave nothing may be left to take.
            self.drains &= plan.bytes > plan.thresholds.keep;
            return None;
        }
        self.drains = true;
        let stay = plan.slices.iter().filter(|slice| slice.stays);
        self.kept = stay.map(|s| (s.family, s.first.clone())).collect();
        leaves.then_some(Because::Warmth {
            bytes: plan.bytes,
            keep: plan.thresholds.keep,
            stay: self.kept.len(),
            slices: plan.slices.len(),
        })
    }

    /// Costs decide nothing, or nothing of level 0 is left in persistent memory: what comes there next begins anew.
    pub fn nothing_drains(&mut self) {
        self.drains = false;
    }

    /// Whether flushes skip level 0 in persistent memory.
    pub fn is_skipped(&self) -> bool {
        self.skips
    }

    /// Decides whether flushes skip level 0 in persistent memory, if this part of the records that they write there would be
    /// superseded there; at the time `now` there were `written` records, ever. They begin to only where level 0 is `full`.
    /// Says why, if that changes.
    pub fn skips(
        &mut self,
        plan: &Level0Plan,
        updates: f64,
        (now, written): (u64, u64),
        full: bool,
    ) -> (bool, Option<Because>) {
        // What comes now is in no rate yet. Of several flushes that follow at once each takes what was written before.
        let (asked_at, before) = std::mem::replace(&mut self.asked_at, (now, written));
        let since = now.saturating_sub(asked_at) as f64 / 1e9;
        let coming = match asked_at > 0 && since > 0.0 {
            true => written.saturating_sub(before) as f64 / since,
            false => 0.0,
        };
        let (reads, writes) = plan.rates;
        let arrival = Arrival {
            updates,
            reads,
            writes: writes.max(coming),
        };
        let decision = self.model(plan.form).arrival(&arrival);
        // With hysteresis, as everywhere.
        let more = Arrival {
            reads: arrival.reads * GAIN_MARGIN,
            ..arrival
        };
        let reads_stay = self.model(plan.form).arrival(&more).due;
        let begins = full && decision.gain < decision.cost && !reads_stay;
        let skips = !decision.due && (self.skips || begins);
        let changes = skips != self.skips;
        self.skips = skips;
        if skips {
            self.units.doubt_internal(&self.usual);
        }
        let because = Because::Skips {
            skips,
            updates,
            reads: arrival.reads,
            writes: arrival.writes,
        };
        (skips, changes.then_some(because))
    }

    /// Has flushes skip level 0 until they find that it is worth it.
    pub fn skip(&mut self) {
        self.skips = true;
    }
}
