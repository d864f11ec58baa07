//! Ranges of an evacuation that are written ahead, by several threads.
//!
//! # Vocabulary
//! A *group* is ranges that follow each other, stay in persistent memory, and are written at once. Then they are named,
//! one after the other.
//!
//! # The argument
//! 1. *Order.* The frozen memtables, which do not change, and the tables below a range's keys decide what its tables
//!    have. No range before it has such a key, and range tombstones are cut where ranges end. So it makes no difference
//!    whether earlier ranges are named before it is written or after. Only edits move the front
//!    (`evacuate`, 1), and each edit is made as if there were no group.
//! 2. *A crash* may leave unnamed tables of more than one range. Their zones and files are free, as those of one range.
//! 3. *Room.* Each range has the same part of the promise. A group has so few ranges that this part is not less than
//!    a range takes in memtables, if all ranges are as large. A range that finds no room in its part is written once
//!    more when its turn to be named has come, into all that the others have left. If that is too little, it goes into
//!    files.
//! 4. *Threads* that the system refuses are done without. A fence covers what its own thread wrote: each thread writes
//!    its tables alone, and fences them before it ends.
//! 5. *Failures.* The ranges before the first failed one are named. Tables of the ranges behind it are removed, and
//!    the next flush goes on from the front.
//! 6. *Ranges that leave* are not written ahead, but for those that sink (`sink`), which are held and named together: the tables that one of them takes along may reach into the next range,
//!    which would find them held.
//!
//! A store without threads of its own writes a group in its order, before it names any range of it. So simulations of
//! groups repeat themselves.

use std::panic::resume_unwind;

use thermocline_base::Result;
use thermocline_jobs::Outputs;
use thermocline_policy::ranges;
use thermocline_runtime::cores;
use thermocline_tables::Promise;

use super::along::{Along, check_named};
use super::evacuate::{Span, Taken};
use super::write::To;
use crate::store::FlushWriter;
use crate::sync::thread;

/// The tables that were written for a range, and whether there was room for them.
pub(super) type Written = (Outputs, Result<bool>);

impl FlushWriter {
    /// How many ranges of about `each` bytes in memtables may be in a group.
    pub(super) fn group_most(&self, promise: Option<&Promise>, each: u64) -> usize {
        match promise {
            Some(promise) => self.at_once_most(promise.bytes(), each),
            None => 1,
        }
    }

    /// How many threads may write at the same time, if each takes `each` of `fits`.
    pub(super) fn at_once_most(&self, fits: u64, each: u64) -> usize {
        let asked = usize::try_from(self.common.options.level0.evacuation_threads).unwrap_or(1);
        let cores = if self.common.world.background {
            cores()
        } else {
            0
        };
        ranges::group_most(asked, cores, Some(fits), each)
    }

    /// Writes these ranges into persistent memory, each into its part of `room` bytes.
    pub(super) fn write_group(&self, taken: &Taken, group: &[Span], room: u64) -> Vec<Written> {
        let room = room / group.len().max(1) as u64;
        self.at_once(group, |span| {
            let mut outputs = Outputs::default();
            let done = self.write_pm(taken, span, room, &mut outputs);
            (outputs, done)
        })
    }

    /// Writes these ranges into files, with what they take along together.
    ///
    /// # Errors
    /// The first of those of writing; [`Error::InvalidArgument`](thermocline_base::Error::InvalidArgument) if one edit has no
    /// room for all that is taken along. The caller lets go of the outputs.
    pub(super) fn write_at_once(
        &self,
        taken: &Taken,
        group: &[Span],
        along: &[Along<'_>],
        outputs: &mut Outputs,
    ) -> Result<()> {
        let write = |span: &Span| {
            let (memtables, mut own) = (&taken.memtables, Outputs::default());
            let done = self.write_tables(memtables, span, along, To::Files, &mut own);
            (own, done.map(|()| true))
        };
        for some in group.chunks(self.ranges_at_once()) {
            let mut all = Ok(());
            for (own, done) in self.at_once(some, write) {
                outputs.append(own);
                all = all.and(done.map(|_| ()));
            }
            all?;
        }
        match along {
            [] => Ok(()),
            along => check_named(outputs, along),
        }
    }

    /// Does this with each of these ranges: at the same time, if the store has threads of its own.
    fn at_once(&self, group: &[Span], write: impl Fn(&Span) -> Written + Sync) -> Vec<Written> {
        // This thread writes, too.
        let [first, others @ ..] = group else {
            return Vec::new();
        };
        if !self.common.world.background {
            return group.iter().map(write).collect();
        }
        thread::scope(|scope| {
            let write = &write;
            let begin = |span| {
                let begun =
                    thread::spawn_scoped(scope, "thermocline-evacuate", move || write(span));
                (span, begun)
            };
            let others: Vec<_> = others.iter().map(begin).collect();
            let first = write(first);
            let others = others.into_iter().map(|(span, begun)| match begun {
                Some(begun) => begun.join().unwrap_or_else(|panic| resume_unwind(panic)),
                None => write(span),
            });
            std::iter::once(first).chain(others).collect()
        })
    }
}

#[cfg(test)]
mod tests;
