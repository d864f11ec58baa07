//! Flushes into the base level (FlatLSM §4.4, algorithms 4 and 5): shape `immutables`.
//!
//! Sealed memtables wait until there are several. Then the oldest are flushed, so many that what the base level has is little
//! beside them (`policy::ranges::sinks_bytes`): in level 0 they would only be written once more. What is taken is cut into ranges as an evacuation is ([`evacuate`](super::evacuate)), and each
//! is merged with what level 0 and the base level have of its keys, as ranges are that leave persistent memory
//! ([`along`](super::along)). Several ranges are written at the same time, by a thread each.
//!
//! # Vocabulary
//! A *group* is ranges that follow each other, are held together, written at the same time, and named by one edit.
//!
//! # The argument
//! 1. *Age.* A range takes along all that level 0 and the base level have of its keys, and what it writes goes to the base
//!    level: all that lies above is newer memtables, all below was below.
//! 2. *Groups end between tables* of the base level, as far as that is known when they begin: a table that reached over several
//!    would be written once for each. Where one does all the same, and of level 0, what lies outside stays where it is, as a
//!    reference with a limit. The group holds the hull of all that it takes, and each table of level 0 as a whole, so nobody
//!    else cuts it or moves it meanwhile.
//! 3. *Ranges of a group meet nowhere.* Each reads what memtables and tables have of its own keys; range tombstones are cut
//!    where it ends; its outputs begin and end within it. So what all of them write, in their order, is what one merge over the
//!    group might have written. They are named by one edit since they take the same tables: which of them a table belonged
//!    to could not be said before all are written. A range that is slow so delays its group, and no other.
//! 4. *Level 0 is the way out.* Where a running job is in the way, a range goes to level 0, whence it comes down with the
//!    next flush of its keys, or by a compaction. So does one for which the base level has so much that it does not pay yet, or
//!    more than the disk has room for ([`pick_sinking`]), and a group that fails (`along`, 5). So do families with a compaction
//!    filter or a TTL, which compactions ask, and everything while somebody compacts by hand, who has an end to come to. A flush
//!    waits for no compaction.
//! 5. *One edit names a group*, with all that it takes along ([`edits`](super::edits), `along`, 6). A group ends before that is too
//!    long, were it within a table of the base level; what a single range cannot take along for that goes to level 0.
//! 6. *A crash* finds what any evacuation leaves (`evacuate`): the front stands where a group ends.

use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, KeyRange, Result};
use thermocline_catalog::view::Position;
use thermocline_observe::count::Count;
use thermocline_policy::pick::{Sinking, pick_sinking};
use thermocline_policy::ranges;
use thermocline_version::Place;

use super::along::{Along, NAMED_ALONG_BYTES};
use super::edits::{NAMED_BYTES, hull};
use super::evacuate::{Colds, Cuts, Divided, Span, Taken};
use super::told::Made;
use crate::compact::level_of;
use crate::compact::shape::Levels;
use crate::partitions::share;
use crate::store::{Evacuator, FlushWriter};

/// A flush into the base level.
pub(super) struct Sink<'e> {
    evacuator: &'e Evacuator,
    taken: &'e Taken,
    /// Of a range in memtables, about.
    range_bytes: u64,
    /// What the edit of a group names.
    names: Names,
}

/// Bytes that one edit has of a group, about.
#[derive(Debug, Clone, Copy)]
struct Names {
    /// Of what memtables have.
    memtables: u64,
    /// Of what is taken along.
    along: u64,
}

impl<'e> Sink<'e> {
    /// Writes and names all of it, group by group.
    pub fn flush(evacuator: &'e Evacuator, taken: &'e Taken, made: &mut Made) -> Result<()> {
        let names = Names {
            memtables: NAMED_BYTES,
            along: NAMED_ALONG_BYTES,
        };
        Sink::flush_naming(evacuator, taken, names, made)
    }

    /// As [`Sink::flush`], with edits that name so much.
    fn flush_naming(
        evacuator: &'e Evacuator,
        taken: &'e Taken,
        names: Names,
        made: &mut Made,
    ) -> Result<()> {
        let Divided { spans, bytes } = Sink::ranges(evacuator, taken)?;
        let at_once = evacuator.flush_writer.ranges_at_once() as u64;
        let cut = taken.cut_for_edits(evacuator, spans, names.memtables / at_once)?;
        let sink = Sink {
            evacuator,
            taken,
            range_bytes: bytes / cut.spans.len() as u64,
            names,
        };
        let (mut left, mut named) = (&cut.spans[..], &cut.named[..]);
        while !left.is_empty() {
            let (group, along) = sink.hold_group(left, named)?;
            left = &left[group.len()..];
            named = &named[group.len()..];
            if group.len() > 1 {
                let counted = &evacuator.common.counted;
                counted.add(Count::RangesAhead, group.len() as u64);
            }
            evacuator.flush_along(taken, group, along, &mut None, made)?;
        }
        Ok(())
    }

    /// The ranges, of which each ends where a table of the base level begins, if that is near: it is merged with those.
    fn ranges(evacuator: &Evacuator, taken: &Taken) -> Result<Divided> {
        evacuator.divided(taken, &Colds::new(), Cuts::BelowLevel0)
    }

    /// The next group of these ranges, and what it takes along: as many as there are threads, and those that meet the same
    /// tables; or half as many, and so on, where a job is in the way, or one edit cannot name it all. An edit has `named` bytes
    /// of what memtables have of each range.
    fn hold_group<'s>(
        &self,
        left: &'s [Span],
        named: &[u64],
    ) -> Result<(&'s [Span], Vec<Along<'e>>)> {
        let common = &self.evacuator.common;
        if self.evacuator.pressure.is_relieving() || common.compactions.is_compacting_by_hand() {
            return Ok((&left[..1], Vec::new()));
        }
        // So many may be named by one edit.
        let left = &left[..self.names.fitting(named)];
        let mut len = self.evacuator.flush_writer.ranges_at_once().min(left.len());
        let mut ends_anywhere = false;
        loop {
            let group = match ends_anywhere {
                true => &left[..len],
                false => self.whole_tables(left, len),
            };
            let (along, fit) = self.along(group)?;
            match fit {
                Fit::Fits => return Ok((group, along)),
                // Some of it goes to level 0.
                Fit::TooLong if group.len() == 1 => return Ok((group, along)),
                Fit::TooLong | Fit::Meets => {}
            }
            // Who waits for what was held has its turn.
            drop(along);
            self.evacuator.serve_waiting()?;
            if fit == Fit::TooLong {
                ends_anywhere = true;
                len = group.len() / 2;
            } else if len == 1 {
                return Ok((&left[..1], Vec::new()));
            } else {
                len /= 2;
            }
        }
    }

    /// The first `len` of these ranges, and more, until they end where no table of the base level reaches over.
    fn whole_tables<'s>(&self, left: &'s [Span], mut len: usize) -> &'s [Span] {
        let common = &self.evacuator.common;
        let version = common.catalog.version();
        let is_inside = |at: &Position| {
            let levels = Levels::of(&version, at.cf, None);
            let base = common.compactions.shape.base_level(&levels);
            let tables = version.level(Place::new(at.cf, level_of(base))).into_iter();
            let mut tables = tables.flat_map(|tables| tables.may_have(&at.key));
            tables.any(|table| *table.range.first < *at.key)
        };
        while len < left.len() && left[len - 1].to.as_ref().is_some_and(is_inside) {
            len += 1;
        }
        &left[..len]
    }

    /// What each family takes along, of those that go to the base level, and whether that can be: without what a job is in the way
    /// of, and what would be too much for an edit.
    fn along(&self, group: &[Span]) -> Result<(Vec<Along<'e>>, Fit)> {
        let common = &self.evacuator.common;
        let memtables = &self.taken.memtables;
        let span = Span::over(group);
        let bytes = self.range_bytes * group.len() as u64;
        let families = self.taken.families_in(&span);
        let keys_of = |cf: CfId| memtables.iter().map(|m| m.keys_of(cf)).sum::<u64>();
        let all: u64 = families.iter().map(|cf| keys_of(*cf)).sum();
        let room = self.evacuator.pressure.disk();
        let room = room.map_or(u64::MAX, |disk| disk.beyond_reserve());
        let table_bytes = common.options.table_bytes();
        let (mut along, mut fit, mut named) = (Vec::new(), Fit::Fits, 0u64);
        for cf in families {
            // Filters and ages are compactions' business.
            if common.families.filter(cf).is_some() || common.expires(cf) {
                continue;
            }
            let Some(keys) = span.of(cf) else {
                continue;
            };
            let Some(range) = hull(memtables, cf, keys)? else {
                continue;
            };
            let brings = (share(bytes, keys_of(cf), all), room);
            match self.hold(cf, keys, &range.borrowed(), brings) {
                Ok(None) => {}
                Ok(Some(held)) => {
                    let with = named.saturating_add(held.named(table_bytes));
                    if with > self.names.along {
                        fit = fit.max(Fit::TooLong);
                        continue;
                    }
                    named = with;
                    along.push(held);
                }
                Err(Met) => fit = Fit::Meets,
            }
        }
        Ok((along, fit))
    }

    /// What a family takes along that has so many bytes in this `range` of these keys, on a disk with so much room; `None` if that is
    /// too much.
    fn hold(
        &self,
        cf: CfId,
        (from, to): (&[u8], Option<&[u8]>),
        range: &KeyRange<&[u8]>,
        (bytes, room): (u64, u64),
    ) -> Result<Option<Along<'e>>, Met> {
        let shape = &self.evacuator.common.compactions.shape;
        let mut met = Ok(());
        let held = self
            .evacuator
            .picker
            .hold_along_flush(cf, |levels, running| {
                // What is taken of level 0 is all that it has of these keys, so that nothing older stays above what is written:
                // tables of the base level, too, reach over keys of level 0.
                let all = levels.range_of(from, to);
                let mut level0 = levels.newest_first().iter();
                let is_empty = !level0.any(|table| table.range.overlaps(&all));
                let range = match is_empty || active(Bug::SinkPassesLevel0) {
                    true => range,
                    false => &all,
                };
                let (state, options) = (levels.state(running), shape.pick_options(levels));
                match pick_sinking(&state, &options, range, bytes, room) {
                    Sinking::Goes(along) => Some(along),
                    Sinking::Meets => {
                        met = Err(Met);
                        None
                    }
                    Sinking::Costs => None,
                }
            });
        met.map(|()| {
            let (ends, version, picked) = held?;
            let catalog = &self.evacuator.common.catalog;
            Some(Along::of(catalog, (cf, version), picked, (from, to), ends))
        })
    }
}

impl Names {
    /// How many ranges, of those from the first one on of which it has so many bytes `named`, one edit may have: one at least.
    fn fitting(&self, named: &[u64]) -> usize {
        let mut sum = 0u64;
        let fits = named.iter().take_while(|bytes| {
            sum = sum.saturating_add(**bytes);
            sum <= self.memtables
        });
        fits.count().max(1)
    }
}

/// Whether a group takes along all that it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It does.
    Fits,
    /// One edit cannot name all of it.
    TooLong,
    /// A job is in the way.
    Meets,
}

/// A job is in the way.
#[derive(Debug)]
struct Met;

impl FlushWriter {
    /// How many ranges are written into files at the same time.
    pub(super) fn ranges_at_once(&self) -> usize {
        let fits = ranges::sinking_fits(self.common.options.dram);
        self.at_once_most(fits, 1)
    }
}

#[cfg(test)]
mod tests;
