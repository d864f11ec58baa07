//! The ranges of a flush, one after the other or in groups: what stays, what leaves, and in which order they are named.
//!
//! One promise of persistent memory is for all of them. What stays is written into it in groups ([`ahead`](super::ahead)); what
//! leaves, or finds no room in it, is written alone, with what it takes along ([`along`](super::along)).

use thermocline_base::Result;
use thermocline_jobs::Outputs;
use thermocline_observe::count::Count;
use thermocline_policy::ranges::{self, Fate, Range};
use thermocline_tables::Promise;

use super::along::Along;
use super::edits::NAMED_BYTES;
use super::evacuate::{Cuts, Divided, Span, Taken, positions};
use super::sink::Sink;
use super::told::Made;
use crate::partitions::waiting::Waiter;
use crate::store::Evacuator;

impl Evacuator {
    /// Writes and names all of it, range by range. The promise is one for all ranges: what the first ones have
    /// written is not in the way of the others.
    pub(super) fn flush_ranges(
        &self,
        taken: &Taken,
        mut promise: Option<Promise>,
        made: &mut Made,
    ) -> Result<()> {
        let shape = self.common.options.level0.shape();
        let evacuates = shape.evacuates_by_range() && !self.common.compactions.costs.are_printed();
        self.common.compactions.costs.flushes();
        if ranges::sinks(shape, promise.is_some()) {
            return Sink::flush(self, taken, made);
        }
        let leaving = self.leaving(taken)?;
        if leaving.all {
            promise = None;
        }
        let colds = positions(&leaving.colds);
        let Divided { spans, bytes } = match leaving.alone || !shape.evacuates_by_range() {
            true => Divided {
                spans: vec![taken.rest()],
                bytes: taken.memtables.iter().map(|m| m.bytes()).sum(),
            },
            false => self.divided(taken, &colds, Cuts::OfLevel0)?,
        };
        let spans = taken.cut_for_edits(self, spans, NAMED_BYTES)?.spans;
        let takes = |span: &Span| leaving.all || span.is_cold(&colds);
        let each = bytes / spans.len() as u64;
        let of = |span: &Span, promise: &Option<Promise>| Range {
            evacuates,
            leaves: takes(span),
            bytes: each,
            promised: promise.as_ref().map(Promise::bytes),
            relieving: self.pressure.is_relieving(),
        };
        let mut spans = spans.into_iter().peekable();
        while let Some(span) = spans.next() {
            if of(&span, &promise).asks_again() {
                // The ranges before may have made room.
                drop(promise.take());
                promise = self.flush_writer.promise_for_flush(taken)?;
            }
            let range = of(&span, &promise);
            let fate = range.fate();
            if fate != Fate::Stays {
                let must = leaving.all || fate == Fate::LacksRoom;
                let along = self.along_of(taken, &span, each, must);
                if leaving.all || !along.is_empty() {
                    self.flush_along(taken, &[span], along, &mut promise, made)?;
                    continue;
                }
            }
            let mut group = vec![span];
            let most = self.flush_writer.group_most(promise.as_ref(), each);
            while !range.leaves && group.len() < most {
                match spans.next_if(|span| !takes(span)) {
                    Some(span) => group.push(span),
                    None => break,
                }
            }
            self.flush_group(taken, &group, &mut promise, made)?;
        }
        Ok(())
    }

    /// Writes and names ranges that leave persistent memory together, with what they take along.
    pub(super) fn flush_along(
        &self,
        taken: &Taken,
        group: &[Span],
        mut along: Vec<Along<'_>>,
        promise: &mut Option<Promise>,
        made: &mut Made,
    ) -> Result<()> {
        let mut outputs = Outputs::default();
        let held = !along.is_empty();
        let done = self
            .flush_writer
            .write_away(taken, group, &mut along, promise, &mut outputs);
        let span = Span::over(group);
        let done = self.name_written(taken, &span, (&outputs, done), &along, promise, made);
        drop(along);
        if held && done.is_ok() {
            self.sweeper.unlink_obsolete();
            self.sweeper.release_pm_tables();
            self.serve_waiting()?;
        } else if held {
            self.common.compactions.forget_waiting(Waiter::Size);
        }
        // Beside the ranges that follow. Who found no job beside this one may find one now.
        self.common.want_compaction();
        done
    }

    /// Writes and names ranges that stay, several at once ([`ahead`](super::ahead)).
    fn flush_group(
        &self,
        taken: &Taken,
        group: &[Span],
        promise: &mut Option<Promise>,
        made: &mut Made,
    ) -> Result<()> {
        let room = promise.as_ref().map(Promise::bytes);
        let written = match (group, room) {
            (_, Some(room)) if group.len() > 1 => {
                self.common
                    .counted
                    .add(Count::RangesAhead, group.len() as u64);
                self.flush_writer.write_group(taken, group, room)
            }
            // To be written when it is named.
            _ => group
                .iter()
                .map(|_| (Outputs::default(), Ok(false)))
                .collect(),
        };
        let mut behind: u64 = written
            .iter()
            .map(|(outputs, _)| outputs.zone_bytes())
            .sum();
        let mut all = Ok(());
        for (span, (mut outputs, done)) in group.iter().zip(written) {
            behind -= outputs.zone_bytes();
            if all.is_err() {
                // Those behind one that failed are not named.
                self.making.release(&outputs);
                continue;
            }
            let done = done.and_then(|had_room| match had_room {
                true => Ok(()),
                false => {
                    let room = promise.as_ref().map(|p| p.bytes().saturating_sub(behind));
                    self.flush_writer
                        .write_level0(taken, span, room, &mut outputs)
                }
            });
            all = self.name_written(taken, span, (&outputs, done), &[], promise, made);
            // Beside the ranges that follow.
            self.common.want_compaction();
        }
        all
    }

    /// Names what was written of a range.
    fn name_written(
        &self,
        taken: &Taken,
        span: &Span,
        (outputs, done): (&Outputs, Result<()>),
        along: &[Along<'_>],
        promise: &mut Option<Promise>,
        made: &mut Made,
    ) -> Result<()> {
        made.add(outputs, along);
        let done = done.and_then(|()| self.name_tables(taken, span, (outputs, along), made));
        self.making.release(outputs);
        done?;
        if let Some(promise) = promise {
            promise.kept(outputs.zone_bytes());
        }
        self.count_flush(outputs, along);
        Ok(())
    }

    /// A split that waits for what was held here has its turn now, as behind a job.
    pub(super) fn serve_waiting(&self) -> Result<()> {
        let _gate = self.common.compactions.gate.enter();
        let adjusted = self.partitioner.adjust_waiting_by_size();
        adjusted.inspect_err(|_| self.common.compactions.forget_waiting(Waiter::Size))
    }
}
