//! One job, step by step. See the [crate](crate).

use std::iter::Peekable;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec::IntoIter;

use thermocline_base::filter::Verdict;
use thermocline_base::merge::MergeOperator;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, Error, Kind, RangeTombstone, Result, SeqNo};
use thermocline_compaction::Head;
use thermocline_compaction::merge::{Merge, Source};
use thermocline_compaction::output::Cutter;
use thermocline_compaction::retain::{Decision, Moments, RangesBelow, Retain};
use thermocline_policy::steps;
use thermocline_sst::{KeyRef, Value};
use thermocline_tables::Work;
use thermocline_version::TableRef;

use crate::counting::Counting;
use crate::filtering::Filter;
use crate::folding::{Folding, Kept};
use crate::outputs::{Filtered, Outputs};
use crate::prefixes::Prefixes;
use crate::sink::TableSink;
use crate::source::Input;
use crate::writing::Writing;

/// Whether the record of a key in a family belongs to a family that is there.
pub type Exists<'a> = &'a dyn Fn(CfId, &[u8]) -> bool;

/// What is to become of a merge.
pub struct Recipe<'a> {
    /// Whose entries they are.
    pub cf: CfId,
    /// Where tables end.
    pub cutter: Cutter<'a>,
    /// The moments at which somebody may read.
    pub moments: Moments,
    /// All range tombstones of the sources.
    pub tombstones: Vec<RangeTombstone>,
    /// What lies below the outputs.
    pub below: RangesBelow,
    /// The last seqno that is durable and visible: a newer entry is refused.
    pub settled: SeqNo,
    /// Records of families that are not there are left out.
    pub exists: Exists<'a>,
    /// Notes those of what is written.
    pub prefixes: Option<Prefixes<'a>>,
    /// Counts what is read.
    pub counting: Option<Counting<'a>>,
    /// The family's merge operator, if it has one.
    pub operator: Option<Arc<dyn MergeOperator>>,
    /// The family's compaction filter, where it is to be asked.
    pub filter: Option<Filter<'a>>,
}

/// What a step has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There is more to do.
    More {
        /// Bytes written until now, by this job and by others with the same outputs.
        written: u64,
    },
    /// That was all, or all that the sink wanted.
    Done,
}

/// Merges sources into tables. Nothing is lost if it is dropped between two steps but what it has made.
pub struct Job<'a> {
    merge: Merge<Input<'a>>,
    keeping: Keeping<'a>,
    settled: SeqNo,
    /// Records that were passed.
    passed: u64,
    /// Bytes that were written when the last step ended.
    looked: u64,
    /// Whether a step has ended before the record at hand.
    rested: bool,
    /// Whether a step ends where an input is about to be used up.
    rests_when_short: bool,
    /// Bytes of DRAM that range tombstones take until its end.
    tombstone_bytes: u64,
}

impl<'a> Job<'a> {
    /// Writes what stays of `sources`, which are given newest first, into `sink`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn new(
        sources: Vec<Input<'a>>,
        recipe: Recipe<'a>,
        sink: &'a mut dyn TableSink,
    ) -> Result<Job<'a>> {
        let folding = recipe
            .operator
            .map(|operator| Folding::new(operator, recipe.moments.clone(), recipe.below.clone()));
        let all = bytes_of(&recipe.tombstones);
        let retain = Retain::new(recipe.moments, recipe.tombstones, recipe.below);
        let tombstones = retain.tombstones().to_vec();
        // Those that stay are there once more, and once more to be written.
        let tombstone_bytes = all + 2 * bytes_of(&tombstones);
        let mut merge = Merge::new(sources);
        merge.seek(b"", SeqNo::MAX)?;
        Ok(Job {
            merge,
            keeping: Keeping {
                retain,
                tombstones: tombstones.into_iter().peekable(),
                writing: Writing::new(recipe.cf, recipe.cutter, sink),
                cf: recipe.cf,
                exists: recipe.exists,
                prefixes: recipe.prefixes,
                counting: recipe.counting,
                folding,
                filter: recipe.filter,
            },
            settled: recipe.settled,
            passed: 0,
            looked: 0,
            rested: false,
            rests_when_short: false,
            tombstone_bytes,
        })
    }

    /// The same; its steps end, too, where an input is about to be used up, so that nobody waits for more of it within a step.
    pub(crate) fn resting_when_short(self) -> Job<'a> {
        Job {
            rests_when_short: true,
            ..self
        }
    }

    /// Waits, without holding up the thread, until no input is about to be used up.
    pub(crate) fn poll_more(&self, context: &mut Context<'_>) -> Poll<()> {
        let waiting = self.merge.sources().iter();
        match waiting
            .filter(|input| input.poll_more(context).is_pending())
            .count()
        {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// As [`TableSink::poll_written`].
    pub(crate) fn poll_written(&self, left: usize, context: &mut Context<'_>) -> Poll<()> {
        self.keeping.writing.poll_written(left, context)
    }

    /// Bytes of DRAM that it takes now.
    pub fn memory(&self) -> u64 {
        let folding = self.keeping.folding.as_ref().map_or(0, Folding::memory);
        let filter = self.keeping.filter.as_ref().map_or(0, |f| (f.memory)());
        let read: u64 = self.merge.sources().iter().map(Input::memory).sum();
        self.keeping.writing.memory() + folding + filter + read + self.tombstone_bytes
    }

    /// Goes on for some records. The caller lets go of the outputs in every case.
    ///
    /// # Errors
    /// Those of reading and writing; [`Error::Busy`] for an entry that is not settled.
    pub fn step(&mut self, outputs: &mut Outputs) -> Result<Step> {
        loop {
            let Some((input, head)) = self.merge.source().and_then(|s| Some((s, s.head()?))) else {
                self.keeping.end(outputs)?;
                return Ok(Step::Done);
            };
            if head.seqno > self.settled {
                // Its group will soon be settled.
                return Err(Error::Busy(
                    "records are in flight that would be written into a table".into(),
                ));
            }
            let written = outputs.bytes + self.keeping.writing.bytes();
            let next = self.passed + 1;
            let is_short = self.rests_when_short && input.is_short();
            let due = is_short || steps::ends(next, written.saturating_sub(self.looked));
            if due && !self.rested {
                (self.rested, self.looked) = (true, written);
                return Ok(Step::More { written });
            }
            (self.rested, self.passed) = (false, next);
            if !self.keeping.pass(input, head, outputs)? {
                self.keeping.writing.stop(outputs)?;
                self.keeping.count(outputs);
                return Ok(Step::Done);
            }
            self.merge.advance()?;
        }
    }
}

/// Bytes of DRAM that these take.
fn bytes_of(tombstones: &[RangeTombstone]) -> u64 {
    let keys = tombstones.iter().map(|t| t.start.len() + t.end.len());
    (keys.sum::<usize>() + size_of_val(tombstones)) as u64
}

/// What becomes of records.
struct Keeping<'a> {
    retain: Retain<RangesBelow>,
    tombstones: Peekable<IntoIter<RangeTombstone>>,
    writing: Writing<'a>,
    cf: CfId,
    exists: Exists<'a>,
    prefixes: Option<Prefixes<'a>>,
    counting: Option<Counting<'a>>,
    folding: Option<Folding>,
    filter: Option<Filter<'a>>,
}

impl Keeping<'_> {
    /// Writes the record at which `input` stands, or leaves it out. Returns whether the sink wants more: else the record
    /// is still to be written.
    fn pass(&mut self, input: &Input<'_>, head: Head<'_>, outputs: &mut Outputs) -> Result<bool> {
        let key = head.user_key;
        let (decision, verdict, filtered) = self.decide(input, head, outputs)?;
        let kind = match verdict {
            Verdict::Remove => Kind::Delete,
            _ => head.kind,
        };
        if decision == Decision::Drop {
            self.count_record((input, head), false, outputs);
            outputs.dropped += 1;
            return Ok(true);
        }
        if let Some(prefixes) = &mut self.prefixes {
            prefixes.meet(key);
        }
        if let Some(at) = self.go_to(key, outputs)? {
            // The next job reads what lies from there on again, counts it, and asks the filter.
            outputs.ended_at = Some(at);
            outputs.filtered = filtered;
            return Ok(false);
        }
        self.count_record((input, head), true, outputs);
        if let Decision::KeepAfterDelete(seqno) = decision {
            // It counted as one that was left out.
            outputs.dropped -= 1;
            let nothing = Value::Inline(b"");
            let kind = Kind::Delete;
            match self.folding.as_mut().filter(|f| f.takes(key, kind)) {
                Some(folding) => {
                    let user_key = key;
                    folding.take(
                        Head {
                            user_key,
                            seqno,
                            kind,
                        },
                        nothing,
                    );
                }
                None => {
                    let delete = KeyRef::new(key, seqno);
                    self.writing.add(delete, kind, nothing, outputs)?;
                }
            }
        }
        let value = match &verdict {
            Verdict::Keep => input.value()?,
            Verdict::Remove => Value::Inline(b""),
            Verdict::Change(value) => Value::Inline(value),
        };
        if let Some(folding) = &mut self.folding
            && folding.takes(key, kind)
        {
            folding.take(head, value);
            return Ok(true);
        }
        let key = KeyRef::new(key, head.seqno);
        self.writing.add(key, kind, value, outputs)?;
        Ok(true)
    }

    /// Goes to a key that ascends. Returns where the last table has ended, if the sink wants nothing more.
    fn go_to(&mut self, key: &[u8], outputs: &mut Outputs) -> Result<Option<Vec<u8>>> {
        let ended_at = self.begin_tombstones(Some(key), outputs)?;
        if ended_at.is_some() {
            return Ok(ended_at);
        }
        self.writing.go_to(key, outputs)?;
        Ok(self.writing.ends_with())
    }

    /// Begins the range tombstones that begin up to `key`, or all that are left. Returns where the last table has ended, if the
    /// sink wants nothing more: from there on they are still to be written.
    fn begin_tombstones(
        &mut self,
        key: Option<&[u8]>,
        outputs: &mut Outputs,
    ) -> Result<Option<Vec<u8>>> {
        let begins = |t: &RangeTombstone| key.is_none_or(|key| *t.start <= *key);
        while let Some(tombstone) = self.tombstones.next_if(begins) {
            self.writing.begin_tombstone(tombstone, outputs)?;
            let ended_at = self.writing.ends_with();
            if ended_at.is_some() {
                return Ok(ended_at);
            }
        }
        Ok(None)
    }

    /// The record at which `input` stands was read, and stays or was replaced.
    #[inline]
    fn count_record(
        &mut self,
        (input, head): (&Input<'_>, Head<'_>),
        stays: bool,
        outputs: &mut Outputs,
    ) {
        outputs.entries_read += 1;
        outputs.memtable_bytes += input.memtable_bytes();
        if let Some(counting) = &mut self.counting {
            counting.meet(head.user_key, head.seqno, stays);
        }
    }

    /// What becomes of a record, what the filter says of it, and what that had done before. If it stays, the key before has ended.
    fn decide(
        &mut self,
        input: &Input<'_>,
        head: Head<'_>,
        outputs: &mut Outputs,
    ) -> Result<(Decision, Verdict, Filtered)> {
        let key = head.user_key;
        let decision = match (self.exists)(self.cf, key) {
            true => match self.retain.decide(head) {
                Some(decision) => decision,
                None => return Err(input.disordered(head)),
            },
            false => Decision::Drop,
        };
        if decision == Decision::Drop {
            return Ok((decision, Verdict::Keep, outputs.filtered));
        }
        if self.folding.as_ref().is_some_and(|f| f.is_behind(key)) {
            self.write_folded(outputs)?;
        }
        let filtered = outputs.filtered;
        let verdict = self.ask_filter(input, head, outputs)?;
        let decision = match verdict {
            Verdict::Remove if active(Bug::FilterUncovers) => Decision::Drop,
            Verdict::Remove => self.retain.remove(decision),
            _ => decision,
        };
        Ok((decision, verdict, filtered))
    }

    /// What the filter says about an entry that stays, if it is a value and no collected operand lies on it.
    fn ask_filter(
        &self,
        input: &Input<'_>,
        head: Head<'_>,
        outputs: &mut Outputs,
    ) -> Result<Verdict> {
        let Some(filter) = &self.filter else {
            return Ok(Verdict::Keep);
        };
        let (key, kind) = (head.user_key, head.kind);
        if kind != Kind::Put || self.folding.as_ref().is_some_and(|f| f.takes(key, kind)) {
            return Ok(Verdict::Keep);
        }
        filter.ask(key, head.seqno, input.value()?, outputs)
    }

    /// Writes what is left of a key whose operands were collected.
    fn write_folded(&mut self, outputs: &mut Outputs) -> Result<()> {
        let Some(folding) = &mut self.folding else {
            return Ok(());
        };
        let mut folded = folding.fold();
        outputs.dropped += folded.gone;
        if let (Some(filter), Some(newest)) = (&self.filter, folded.entries.first_mut())
            && newest.kind == Kind::Put
        {
            match filter.ask(&folded.key, newest.seqno, newest.value.as_value(), outputs)? {
                Verdict::Keep => {}
                Verdict::Change(value) => newest.value = Kept::Inline(value),
                Verdict::Remove => {
                    (newest.kind, newest.value) = (Kind::Delete, Kept::Inline(Vec::new()));
                    if folded.entries.len() == 1 && folding.is_needless(&folded) {
                        folded.entries.clear();
                        outputs.dropped += 1;
                    }
                }
            }
        }
        for entry in &folded.entries {
            let key = KeyRef::new(&folded.key, entry.seqno);
            self.writing
                .add(key, entry.kind, entry.value.as_value(), outputs)?;
        }
        Ok(())
    }

    /// All records were passed.
    fn end(&mut self, outputs: &mut Outputs) -> Result<()> {
        self.write_folded(outputs)?;
        let mut ended_at = self.begin_tombstones(None, outputs)?;
        if ended_at.is_none() {
            ended_at = self.writing.go_to_end(outputs)?;
        }
        if ended_at.is_some() {
            // Range tombstones that lie from there on are the next job's.
            self.writing.stop(outputs)?;
            outputs.ended_at = ended_at;
        } else {
            self.writing.finish(outputs)?;
        }
        self.count(outputs);
        Ok(())
    }

    /// Says what was counted.
    fn count(&mut self, outputs: &mut Outputs) {
        let counted = self.counting.take().map(Counting::into_counts);
        outputs.counted.push((self.cf, counted.unwrap_or_default()));
        let met = self.prefixes.take().map(Prefixes::into_met);
        let met = met.unwrap_or_default();
        if !met.is_empty() {
            outputs.prefixes.push((self.cf, met));
        }
    }
}

/// Runs a job to its end. Charges the DRAM that it takes to `work`. Between steps it calls `pace` with the bytes
/// written until now; an error of `pace` ends the job.
///
/// # Errors
/// As [`Job::step`]; those of `pace`.
pub(crate) fn run(
    mut job: Job<'_>,
    mut work: Work,
    pace: &mut dyn FnMut(u64) -> Result<()>,
    outputs: &mut Outputs,
) -> Result<()> {
    // It may have more range tombstones than records.
    work.cover_bytes(job.memory());
    while let Step::More { written } = job.step(outputs)? {
        pace(written)?;
        work.cover_bytes(job.memory());
    }
    Ok(())
}

/// `tables` as what lies below a job.
pub fn below<'v>(tables: impl IntoIterator<Item = &'v Arc<TableRef>>) -> RangesBelow {
    RangesBelow::new(tables.into_iter().map(|table| table.range.borrowed()))
}

#[cfg(test)]
mod tests;
