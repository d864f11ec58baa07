//! In-memory compaction: when indexes of sealed memtables are merged, and how the result comes into the
//! view (`memtable::merge` says how it is made).
//!
//! Which are merged, and when that pays, is decided by `policy::indexes`; and which are *divided* by age again, since a flush is
//! near that would take more with them than it must. Dividing is a merge of one index into several, with the same steps and
//! invariants. Where flushing is due, and much of what waits for it is
//! dead memtables that merged indexes keep, those are made anew before ([`Merger::merge_instead`]), in parts at once if a flush stays
//! near; and what is still wide is divided ([`Merger::divide_before_flush`]).
//!
//! # A flush comes before a division has ended
//! A flush that is due waits for a division, and begins one where there is none: moving pointers takes less than writing what a
//! wide index leads to beyond what the flush would take. It has not taken anything yet, and holds no lock but the merges' turn.
//! A flush that somebody waits for, since he found no room or asked for it, does not wait: it takes all, ends the division as it
//! ends a merge, and takes the wide index whole. A division that finds no DRAM is given up as a merge is, and then the flush that
//! is due takes the index whole, too: an index stays in the view until all of its parts are there. So nobody waits for memory,
//! nor a writer without room for a division.
//!
//! # Who does it
//! A job thread. It gives way: a flush that takes memtables ends it, without a result. Where there are no
//! threads the writer that seals does it.
//!
//! # Steps
//! 1. *Choose* the inputs. None that a flush has taken, none that readers of an earlier opening may read,
//!    none that has range tombstones or operands.
//! 2. *Merge*, some keys at a time, with no lock held but [`Merges::turn`]. Before each step its DRAM is
//!    promised. Where there is not enough, or so much that a flush would be due, there is no merge.
//! 3. *Go over*, under the writer's lock: one view with the merged index, or the parts, in the place of the inputs.
//!    Memtables that it has nothing of are dead (`reclaim`).
//!
//! # Invariants
//! 1. *Neighbours only.* Inputs follow each other in the view, and the merged index takes their place: so the
//!    view's order stays that of age. Others only come in front of them meanwhile. An input that has left
//!    the view was found dead or flushed: then the merged index is good only if it leads to nothing of it.
//! 2. *Flushed as a whole.* What a flush has taken is not merged with what it has not, nor while it lasts
//!    with anything, nor while some of it is evacuated (`flush::evacuate`). A merge that is under way when it begins
//!    is waited for. So an index is flushed, or not.
//! 3. *Readers miss nothing.* A merge learns what is settled, then who reads (in this order:
//!    `memtable::needed::Readers`), and leaves out only what a settled version follows. Whoever registers
//!    later reads at what is visible then, or later, and needs no version that was left out. One that is
//!    not registered loads the view first: it has the inputs or the merged index, in which the newest
//!    version of each key is the same, and the one before if that is not settled (a batch is in the view
//!    before it is visible).
//! 4. *Range tombstones keep their place.* A memtable that has some is no input, and an index of
//!    older ones is never merged with one of younger ones: so what it hides is behind it, and nothing else.
//! 5. *Parts are neighbours.* What one index is divided into takes its place, newest first, in one view: by 1 nobody finds a part
//!    without the others (`memtable::merge` has the rest of the argument).
//! 6. *Nothing persistent changes.* After a crash memtables come back by themselves.

use std::time::Duration;

use thermocline_base::{CfId, Error, Result};
use thermocline_catalog::View;
use thermocline_catalog::owned::Standing;
use thermocline_commit::readers::Moments;
use thermocline_memtable::{Memtable, Merging, Readers, Without};
use thermocline_observe::count::Count;
use thermocline_observe::event::Event;
use thermocline_policy::indexes::{self, Width};
use thermocline_policy::situation::{self, Situation};
use thermocline_policy::tuning::MERGE_KEYS;
use thermocline_policy::work::{Decision, Work};
use thermocline_runtime::Job;

use crate::store::Merger;
use crate::sync::{Arc, Ordering, lock, try_lock};
use crate::write::writer::Writer;

/// Keys that are merged under one promise of DRAM. Unit tests have few keys.
const STEP: usize = if cfg!(test) { 16 } else { MERGE_KEYS };

/// What is to be merged, or divided.
#[derive(Debug)]
struct Choice {
    /// Newest first.
    inputs: Vec<Arc<Memtable>>,
    /// The newest memtable of each part but the newest one, oldest first; of none, what is merged becomes one.
    ends: Vec<u64>,
    /// Of all of them.
    keys: u64,
    decision: Decision,
}

/// What somebody wants of indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// What is due: a division for the next flush, or a merge that pays.
    Due,
    /// A division, if one is due.
    Divided,
    /// A merge that leaves dead memtables out, whether it pays or not.
    Anew,
}

impl Merger {
    /// Has indexes merged soon, if that pays. May be called under the writer's lock.
    pub fn want_merge(&self) {
        if self.common.merges_by_itself() && self.choice(Wanted::Due).is_some() {
            self.common.background.request_job(Job::Merge);
        }
    }

    /// Merges indexes once, if that pays; whether it did. The caller does not hold the writer's lock.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`]. A record that cannot be read is for its reader to hear of.
    pub fn merge_if_due(&self) -> Result<bool> {
        let Some(_turn) = try_lock(&self.common.merges.turn) else {
            // Reads ask for no merge while one is asked for, and this was the one.
            self.common.merges.look_again();
            return Ok(false);
        };
        self.merge_due(Wanted::Due, None)
    }

    /// As [`Merger::merge_if_due`], as often as it pays, for whoever holds the writer's lock.
    pub fn merge_inline(&self, writer: &mut Writer) -> Result<()> {
        let Some(_turn) = try_lock(&self.common.merges.turn) else {
            return Ok(());
        };
        while self.merge_due(Wanted::Due, Some(&mut *writer))? {}
        Ok(())
    }

    /// There is no room, and no flush to make some: makes indexes anew, whatever that costs, that dead
    /// memtables have in common with others. Returns whether there were any.
    ///
    /// # Errors
    /// As [`Merger::merge_if_due`].
    pub fn merge_for_room(&self, writer: &mut Writer) -> Result<bool> {
        let turn = try_lock(&self.common.merges.turn).filter(|_| self.common.dead_in_merged() > 0);
        match turn {
            Some(_turn) => self.merge_due(Wanted::Anew, Some(writer)),
            None => Ok(false),
        }
    }

    /// Flushing is due, and much of what waits for it is dead, and kept by merged indexes: those are made
    /// anew, and it goes without. The caller holds no lock.
    ///
    /// # Errors
    /// As [`Merger::merge_if_due`].
    pub fn merge_instead(&self) -> Result<()> {
        let merged = match try_lock(&self.common.merges.turn) {
            Some(_turn) => self.merge_due(Wanted::Anew, None)?,
            None => false,
        };
        match merged {
            true => self.reclaimer.reclaim_readable(),
            false => Ok(()),
        }
    }

    /// Flushing is due, and would take wide indexes as a whole: those are divided. The caller holds no lock.
    ///
    /// # Errors
    /// As [`Merger::merge_if_due`].
    pub fn divide_before_flush(&self) -> Result<()> {
        let mut divided = false;
        {
            // Whoever has the turn may be dividing them.
            let _turn = lock(&self.common.merges.turn);
            while self.merge_due(Wanted::Divided, None)? {
                divided = true;
            }
        }
        match divided {
            true => self.reclaimer.reclaim_readable(),
            false => Ok(()),
        }
    }

    /// Persistent memory of the memtables of an index that is to be divided, if there is one.
    pub fn wide_bytes(&self) -> Option<u64> {
        let view = self.common.catalog.view_to_keep();
        match self.decision(&view, Wanted::Divided).0.work {
            Work::DivideIndex(division) => Some(division.bytes),
            _ => None,
        }
    }

    /// What is to be done with the indexes of this view, and what is known of each.
    fn decision(&self, view: &View, wanted: Wanted) -> (Decision, Vec<Standing>) {
        if !self.common.options.level0.shape().merges_indexes() {
            return (Decision::nothing(), Vec::new());
        }
        let standing = self.common.reclaim.standing(&view.memtables[1..]);
        let decision = self.decision_on(&self.indexes_of(view, &standing), wanted);
        (decision, standing)
    }

    fn decision_on(&self, newest_first: &[indexes::Index<'_>], wanted: Wanted) -> Decision {
        let known = situation::Indexes {
            newest_first,
            width: self.width(wanted),
            asked: self.common.counted.get(Count::Asked),
            paid: self.common.merges.paid.load(Ordering::Relaxed),
            merge_percent: self.common.options.level0.merge_percent,
            must: wanted == Wanted::Anew,
        };
        self.common.compactions.costs.next(&Situation {
            indexes: Some(known),
            ..Situation::default()
        })
    }

    /// How wide indexes may be that are made now.
    fn width(&self, wanted: Wanted) -> Width {
        let dead = match wanted {
            Wanted::Anew => self.common.dead_in_merged(),
            Wanted::Due | Wanted::Divided => 0,
        };
        let width = self.flush_due.index_width_without(dead);
        // Where nothing is flushed there is no flush to make parts for.
        let is_far = width.is_far || wanted == Wanted::Anew && !self.common.flushes();
        Width { is_far, ..width }
    }

    /// What is to be merged or divided, if that is wanted.
    fn choice(&self, wanted: Wanted) -> Option<Choice> {
        let view = self.common.catalog.view_to_keep();
        let (decision, standing) = self.decision(&view, wanted);
        let pays_at = decision.merges_pay_at.unwrap_or(u64::MAX);
        self.common.merges.next.store(pays_at, Ordering::Relaxed);
        let choice = Choice::of(&view, &standing, decision)?;
        let is_wanted = wanted != Wanted::Divided || choice.divides();
        (is_wanted && self.has_dram_for(&choice.inputs)).then_some(choice)
    }

    /// Returns whether anything was merged or divided. Whoever holds the writer's lock gives the `writer`; for others it stands
    /// still for a moment where that is needed.
    fn merge_due(&self, wanted: Wanted, mut writer: Option<&mut Writer>) -> Result<bool> {
        let Some(choice) = self.choice(wanted) else {
            return Ok(false);
        };
        let inputs = &choice.inputs;
        self.common.decided(&choice.decision);
        let begun = self.common.now_ns();
        let merged = self.merge_indexes(&choice, writer.as_deref_mut());
        // What it was promised others may have, once this store is idle. Perhaps nobody writes.
        self.common.written();
        if let Err(Error::Corruption { .. }) = merged {
            // It would be there next time, too.
            self.common.reclaim.note_unreadable(inputs[0].id());
        }
        let Ok(Some(merging)) = merged else {
            // Its inputs stay as they are.
            return self.common.check_writable().map(|()| false);
        };
        let merged = merging.finish();
        let (parts, after): (usize, u64) = (merged.len(), merged.iter().map(Memtable::keys).sum());
        let held_up = writer.is_none().then(|| self.memtables.hold_writer_up());
        // Again, since the store may have been closed meanwhile.
        let open = self.common.check_writable();
        let installed = open.map(|()| self.install_index(inputs, merged));
        drop(held_up);
        if matches!(installed, Ok(true)) {
            self.tell(&choice, (parts, after), begun);
        }
        installed
    }

    /// What was chosen is done since `begun`: so many indexes have come, with so many keys.
    fn tell(&self, choice: &Choice, (parts, keys_after): (usize, u64), begun: u64) {
        let (merges, keys) = (&self.common.merges, choice.keys);
        let took = Duration::from_nanos(self.common.now_ns().saturating_sub(begun));
        merges.look_again();
        if matches!(choice.decision.work, Work::DivideIndex(_)) {
            return self.common.events.emit(Event::IndexDivided {
                parts,
                keys,
                keys_after,
                took,
            });
        }
        let asked = self.common.counted.get(Count::Asked);
        merges.paid.store(asked, Ordering::Relaxed);
        self.common.counted.add(Count::Merges, 1);
        self.common.counted.add(Count::MergedKeys, keys);
        self.common.events.emit(Event::IndexesMerged {
            indexes: choice.inputs.len(),
            keys,
            keys_after,
            took,
        });
    }

    #[cfg(test)]
    fn chosen(&self) -> Option<Choice> {
        use thermocline_policy::work::Because;
        let view = self.common.catalog.view_to_keep();
        let standing = self.common.reclaim.standing(&view.memtables[1..]);
        let bytes_max = self.flush_due.index_width().merged_bytes_max();
        let decided = indexes::choose(&self.indexes_of(&view, &standing), bytes_max, false)?;
        let work = Work::MergeIndexes(decided, Vec::new());
        let decision = Decision::of(work, Because::NothingIsDue);
        Choice::of(&view, &standing, decision)
    }

    /// The sealed indexes by their numbers, newest first.
    fn indexes_of<'s>(&self, view: &View, standing: &'s [Standing]) -> Vec<indexes::Index<'s>> {
        let front = view.front();
        let index = |(m, of): (&Arc<Memtable>, &'s Standing)| {
            let fits = of.lives.len() <= 1 || self.has_dram_for(std::slice::from_ref(m));
            indexes::Index {
                keys: m.keys(),
                bytes: of.bytes,
                dead: if m.is_merged() { of.dead } else { 0 },
                may: of.may_move
                    && !front.is_some_and(|front| front.takes(m))
                    && !m.has_tombstones()
                    && !m.has_operands(),
                memtables: if fits { &of.lives_bytes[..] } else { &[] },
            }
        };
        view.memtables[1..]
            .iter()
            .zip(standing)
            .map(index)
            .collect()
    }

    fn has_dram_for(&self, inputs: &[Arc<Memtable>]) -> bool {
        let more: u64 = inputs.iter().map(|m| m.index_bytes()).sum();
        let used = self.memtables.used_or_promised() + more;
        let fits = !self.common.flushes() || indexes::leaves_flushes(&self.common.dram(), used);
        fits && self.common.account.has_ample_room_for(used)
    }

    /// Merges to the end; `None` if there is not enough DRAM, or a flush wants its inputs.
    fn merge_indexes(
        &self,
        choice: &Choice,
        mut writer: Option<&mut Writer>,
    ) -> Result<Option<Merging>> {
        let inputs = &choice.inputs;
        // In this order: see `memtable::needed::Readers`.
        let settled = self.common.settled();
        let moments = Moments::copied(&self.common.commits.ring, &self.common.commits.readers);
        let readers = moments.count();
        let exists = |cf: CfId, key: &[u8]| self.common.families.exists(cf, key);
        let homes = inputs.iter().flat_map(|m| m.homes());
        let dead = self.common.reclaim.dead_of(homes.map(|home| home.id()));
        let dead = |id| dead.contains(&id);
        let without = Without {
            readers: Readers {
                settled,
                moments: &moments,
                exists: &exists,
            },
            dead: &dead,
        };
        // A memtable that was sealed a moment ago is in the view before its zones are known; both
        // happen under the writer's lock.
        if writer.is_none() {
            drop(self.memtables.hold_writer_up());
        }
        let zones = |id| self.common.reclaim.zones(id);
        let (inputs, ends) = (inputs.clone(), choice.ends.clone());
        let Some(mut merging) = Merging::new(inputs, ends, zones, &self.common.account) else {
            return Ok(None);
        };
        // A key may come into any of the parts.
        let step = (STEP / merging.parts()).max(1);
        loop {
            self.common.check_writable()?;
            if self.common.merges.gives_way() {
                return Ok(None);
            }
            let bound = merging.bound(step, readers);
            let promised = match writer.as_deref_mut() {
                Some(writer) => self.memtables.reserve_staged_dram(writer, bound, false),
                None => self.memtables.reserve_index_dram(bound),
            };
            let Ok(promised) = promised else {
                return Ok(None);
            };
            let more = merging.step(step, without);
            // Release: behind what the step has taken.
            self.memtables
                .staging
                .fetch_sub(promised, Ordering::Release);
            if !more? {
                return Ok(Some(merging));
            }
        }
    }

    /// Lets readers see the merged index, or the parts, newest first, if nothing speaks against that (invariant 1). Returns
    /// whether it did. The caller holds the writer's lock.
    fn install_index(&self, inputs: &[Arc<Memtable>], merged: Vec<Memtable>) -> bool {
        let view = self.common.catalog.view_to_keep();
        let is_input = |m: &Arc<Memtable>| inputs.iter().any(|input| Arc::ptr_eq(input, m));
        let Some(at) = view.memtables.iter().position(is_input) else {
            return false;
        };
        let there = view.memtables.iter().filter(|m| is_input(m));
        let there: Vec<u64> = there
            .flat_map(|m| m.homes())
            .map(|home| home.id())
            .collect();
        let leads: Vec<u64> = merged
            .iter()
            .flat_map(|m| m.homes())
            .map(|home| home.id())
            .collect();
        if leads.iter().any(|id| !there.contains(id)) {
            return false;
        }
        let dead = there.iter().copied().filter(|id| !leads.contains(id));
        self.common.reclaim.found_dead(dead);
        let mut memtables = view.memtables.clone();
        memtables.retain(|m| !is_input(m));
        memtables.splice(at..at, merged.into_iter().map(Arc::new));
        self.reclaimer.go_over_to(&view, memtables);
        true
    }
}

impl Choice {
    /// Of this view, if that is the decision.
    fn of(view: &View, standing: &[Standing], decision: Decision) -> Option<Choice> {
        let sealed = &view.memtables[1..];
        let (inputs, ends, keys) = match &decision.work {
            Work::MergeIndexes(decided, parts) => {
                let (first, count) = (decided.first, decided.count);
                let oldest_first = standing[first..][..count].iter().rev();
                let lives = oldest_first.flat_map(|of| &of.lives).copied();
                let ends = ends(&lives.collect::<Vec<u64>>(), parts);
                (&sealed[first..][..count], ends, decided.keys)
            }
            Work::DivideIndex(decided) => {
                let inputs = std::slice::from_ref(&sealed[decided.place]);
                let ends = ends(&standing[decided.place].lives, &decided.parts);
                (inputs, ends, decided.keys)
            }
            _ => return None,
        };
        Some(Choice {
            inputs: inputs.to_vec(),
            ends,
            keys,
            decision,
        })
    }

    /// Whether it has parts come of it.
    fn divides(&self) -> bool {
        !self.ends.is_empty()
    }
}

/// The last of each part but the newest, where parts have so many of these, oldest first.
fn ends(oldest_first: &[u64], parts: &[usize]) -> Vec<u64> {
    let mut behind = 0usize;
    let ends = parts.iter().filter_map(|count| {
        behind += *count;
        oldest_first.get(behind.checked_sub(1)?).copied()
    });
    let mut ends: Vec<u64> = ends.collect();
    ends.pop();
    ends
}

pub(crate) mod merges;
#[cfg(test)]
mod tests;
