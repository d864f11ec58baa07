//! What was learned of costs.

use std::collections::VecDeque;

use thermocline_base::options::{Costs as Choice, Options};
use thermocline_compaction::calibrate::entry_ns;
use thermocline_env::Clock;
use thermocline_policy::cost::{Equation, Form, UnitCosts};
use thermocline_policy::flush::Sealed;
use thermocline_policy::level0::{self, Because, Level0Plan};
use thermocline_policy::ranges::{self, Coming, Leaving};
use thermocline_policy::situation::Situation;
use thermocline_policy::work::{self, Decision};
use thermocline_policy::{self as policy, Memory};

use crate::report::CostUse;
use crate::sync::{Mutex, lock};

/// Decisions that are remembered.
pub(super) const REMEMBERED: usize = 8;

/// What is known of costs.
#[derive(Debug)]
pub(crate) struct Costs {
    pub(super) form: Option<Form>,
    /// What newer runs of a slice may refer to in blob files, in bytes.
    pub(super) blob_bytes_max: u64,
    /// A leaf in the order of locks.
    pub(super) known: Mutex<Known>,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) memory: Memory,
    /// Whatever it is worth.
    #[cfg(test)]
    pub(super) always_bypass: bool,
    /// The last ones, as text.
    pub(super) decided: VecDeque<String>,
    pub(super) by_reads: u64,
    pub(super) by_writes: u64,
    pub(super) by_room: u64,
    pub(super) by_warmth: u64,
}

impl Costs {
    /// Takes less than a millisecond of this clock's time, where it is asked at all.
    pub fn new(options: &Options, clock: &dyn Clock) -> Costs {
        let form = match (options.level0_pm_bytes(), options.level0.internal) {
            (None, _) | (_, Choice::Off) => None,
            (_, Choice::Corrected) => Some(Form::Corrected),
            (_, Choice::Printed) => Some(Form::Printed),
        };
        let mut known = Known::default();
        if form.is_some() {
            let usual = UnitCosts::calibrated(entry_ns(&|| clock.now_ns()));
            known.memory.level0 = level0::Memory::of(usual);
        }
        Costs {
            form,
            blob_bytes_max: options.blob.generation_bytes,
            known: Mutex::new(known),
        }
    }

    /// Whether costs decide anything.
    pub fn decide(&self) -> bool {
        self.form.is_some()
    }

    /// Whether they do as the paper prints it.
    pub fn are_printed(&self) -> bool {
        self.form == Some(Form::Printed)
    }

    /// An internal compaction has read so many records in so many nanoseconds, and dropped some where so many were
    /// expected to be updates.
    pub fn merged(&self, read: (u64, u64), updates: u64, dropped: u64) {
        lock(&self.known)
            .memory
            .level0
            .merged(read, updates, dropped);
    }

    /// A major compaction has taken so many records of level 0 in so many nanoseconds.
    pub fn moved(&self, records: u64, nanos: u64) {
        lock(&self.known).memory.level0.units.moved(records, nanos);
    }

    /// What steps are thought to take.
    #[cfg(test)]
    pub fn units(&self) -> UnitCosts {
        lock(&self.known).memory.level0.units
    }

    /// This is done now.
    pub fn decided(&self, decision: &Decision) {
        if let work::Because::Level0(because) = &decision.because {
            lock(&self.known).note(because);
        }
    }

    /// The disk has become full anew: jobs that have given up are tried again.
    pub fn forget_given_up(&self) {
        lock(&self.known).memory.gave_up.forget();
    }

    /// So much waits to be flushed. Returns what that leaves for level 0, where that may be more than its share.
    pub fn memtables_are(&self, sealed: &Sealed) -> Option<u64> {
        let mut known = lock(&self.known);
        let lent = &mut known.memory.level0.lent;
        *lent = sealed.lends(*lent);
        *lent
    }

    /// A compaction of so many bytes has given up, which began with so much room.
    pub fn job_gave_up(&self, bytes: u64, room: u64, now: u64) {
        lock(&self.known).memory.gave_up.gave_up(bytes, room, now);
    }

    /// A flush writes something new.
    pub fn flushes(&self) {
        lock(&self.known).memory.level0.corrected.age();
    }

    /// What is to be done next, with all that was learned.
    pub fn next(&self, situation: &Situation<'_>) -> Decision {
        policy::next(situation, &mut lock(&self.known).memory)
    }

    /// The same, without learning anything.
    pub fn would_be_next(&self, situation: &Situation<'_>) -> Decision {
        let mut memory = lock(&self.known).memory.clone();
        policy::next(situation, &mut memory)
    }

    /// What a flush does not leave in persistent memory.
    pub fn leaving(&self, plan: &Level0Plan, coming: &Coming<'_>) -> Leaving {
        let mut known = lock(&self.known);
        #[cfg(test)]
        if known.always_bypass {
            return Leaving::all(plan);
        }
        let leaving = ranges::leaving(plan, coming, &mut known.memory.level0);
        if let Some(because) = &leaving.because {
            known.note(because);
        }
        leaving
    }

    #[cfg(test)]
    pub fn bypass_always(&self) {
        let mut known = lock(&self.known);
        known.memory.level0.skip();
        known.always_bypass = true;
    }

    /// Whether flushes bypass level 0 in persistent memory.
    pub fn bypasses(&self) -> bool {
        lock(&self.known).memory.level0.is_skipped()
    }

    /// What was decided.
    pub fn usage(&self) -> CostUse {
        let known = lock(&self.known);
        CostUse {
            by_reads: known.by_reads,
            by_writes: known.by_writes,
            by_room: known.by_room,
            by_warmth: known.by_warmth,
            last: known.decided.iter().cloned().collect(),
        }
    }
}

impl Known {
    pub(super) fn note(&mut self, because: &Because) {
        match because {
            Because::Pays(decision) if decision.equation == Equation::Reads => self.by_reads += 1,
            Because::Pays(_) => self.by_writes += 1,
            Because::Room { .. } => self.by_room += 1,
            Because::Warmth { .. } => self.by_warmth += 1,
            Because::Skips { .. } => {}
        }
        if self.decided.len() == REMEMBERED {
            self.decided.pop_front();
        }
        self.decided.push_back(because.to_string());
    }
}
