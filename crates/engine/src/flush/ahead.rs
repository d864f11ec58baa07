//! Ranges of an evacuation that are written ahead, by several threads (design §7: "each range evacuated in parallel").
//!
//! # Vocabulary
//! A *group* is ranges that follow each other, stay in persistent memory, and are written at once. Then they are named,
//! one after the other.
//!
//! # The argument
//! 1. *Order.* What a range's tables have is decided by the frozen memtables, which do not change, and by what
//!    lies below its keys. Of the ranges before it none has such a key, and range tombstones are cut where ranges end. So it
//!    makes no difference whether those are named before it is written or after. Only edits move the front
//!    (`evacuate`, 1), and each is made as if there were no group.
//! 2. *A crash* finds the tables of more than one range that nobody names: zones and files that are free, as of one.
//! 3. *Room.* Each has the same part of what is promised, and a group has so few ranges that this is not less than
//!    it takes in memtables, if all are as large. One that finds no room in its part is written once more when its turn
//!    to be named has come, into all that the others have left; if that is too little, into files.
//! 4. *Threads* that the system does not give are done without. A fence covers what its own thread wrote: each writes its
//!    tables alone, and fences them before it ends.
//! 5. *Failures.* The ranges before the first one that failed are named. What was written of those behind it is
//!    gone, and the next flush goes on from the front.
//! 6. *What leaves* is not written ahead: what one range takes along may reach into the next one, which would find it
//!    held.
//!
//! A store without threads of its own writes a group in its order, before it names any of it: so what simulations see
//! of groups repeats itself.

use std::panic::resume_unwind;

use thermocline_base::Result;
use thermocline_jobs::Outputs;
use thermocline_policy::ranges;
use thermocline_runtime::cores;
use thermocline_tables::Promise;

use super::evacuate::{Span, Taken};
use crate::store::FlushWriter;
use crate::sync::thread;

/// What was written of a range, and whether there was room for it.
pub(super) type Written = (Outputs, Result<bool>);

impl FlushWriter {
    /// How many ranges of about `each` bytes in memtables may be in a group.
    pub(super) fn group_most(&self, promise: Option<&Promise>, each: u64) -> usize {
        let asked = usize::try_from(self.common.options.level0.evacuation_threads).unwrap_or(1);
        let cores = if self.common.world.background {
            cores()
        } else {
            0
        };
        ranges::group_most(asked, cores, promise.map(Promise::bytes), each)
    }

    /// Writes these ranges into persistent memory, each into its part of `room` bytes.
    pub(super) fn write_group(&self, taken: &Taken, group: &[Span], room: u64) -> Vec<Written> {
        let room = room / group.len().max(1) as u64;
        let write = |span: &Span| {
            let mut outputs = Outputs::default();
            let done = self.write_pm(taken, span, room, &mut outputs);
            (outputs, done)
        };
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
