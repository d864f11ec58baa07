//! The next compaction, of the families in their turn, the first that has something to do.
//!
//! What is deleted or has expired as a whole goes first, as that costs an edit and makes room. Then comes room on a
//! full disk, then room in persistent memory (what would go by a merge need not leave). After that come slices that
//! leave persistent memory, then merges that pay, then, in turns, levels that are too large and values in blob files
//! that have much garbage, or are small and many. Tables with many deletes follow, and what reads have charged comes last.

use std::collections::BTreeMap;

use thermocline_base::{CfId, FileId};

use crate::internal::{due_by_cost, due_for_room, frees_blobs, leave_below, may_begin, pick_cold};
use crate::level0::{self, Level0Plan, SlicePlan};
use crate::memory::Memory;
use crate::pick::{
    Job, PickOptions, Scores, Slice, level0_slices, pick, pick_garbage, pick_internal, pick_read,
    pick_room, pick_tombstones,
};
use crate::situation::{Charged, FamilyLevels, Levels, Relief};
use crate::work::{Because, Decision, Work};

pub(super) fn next(levels: &Levels<'_>, now_ns: u64, memory: &mut Memory) -> Option<Decision> {
    if let Some(decision) = deleted(levels).or_else(|| expired(levels)) {
        return Some(decision);
    }
    if let Some(relief) = &levels.relief {
        // Those first for which there is room, whatever they leave.
        if relief.is_any_running {
            return None;
        }
        let made = for_blob_room(levels).or_else(|| for_room(levels, relief, now_ns, memory));
        if made.is_some() {
            return made;
        }
    }
    if levels.relief.is_none() {
        let made = match levels.level0 {
            Some(plan) => of_level0(levels, plan, memory),
            None => {
                memory.level0.nothing_drains();
                None
            }
        };
        if made.is_some() {
            return made;
        }
    }
    of_levels(levels, now_ns, memory)
        .or_else(|| many_deletes(levels))
        .or_else(|| for_reads(levels))
}

/// Tables with many deletes. On a full disk room is made otherwise, and a compaction by hand takes values along that lie apart.
fn many_deletes(levels: &Levels<'_>) -> Option<Decision> {
    let waits = levels.is_disk_full || levels.is_by_hand;
    let mut families = levels.families.iter().filter(|_| !waits);
    families.find_map(|of| {
        let job = pick_tombstones(of.deleted.moments, &of.state, &of.options)?;
        Some(compact(of, job, 0.0))
    })
}

/// Levels that are too large, and values that move out of blob files, in turns where both are due: neither waits until
/// the other has come to its end. On a full disk values move last, and only where they have room: nothing else frees
/// what was deleted in a part of a file.
fn of_levels(levels: &Levels<'_>, now_ns: u64, memory: &mut Memory) -> Option<Decision> {
    if levels.garbage.is_empty() {
        return by_size(levels, now_ns, memory);
    }
    if let Some(relief) = &levels.relief {
        return by_size(levels, now_ns, memory).or_else(|| {
            let most = memory.gave_up.bytes_max(relief.room, now_ns)?;
            garbage(levels, most.min(relief.room.unwrap_or(u64::MAX)))
        });
    }
    let (collected, decision) = match memory.collected {
        true => match by_size(levels, now_ns, memory) {
            Some(decision) => (false, Some(decision)),
            None => (true, garbage(levels, u64::MAX)),
        },
        false => match garbage(levels, u64::MAX) {
            Some(decision) => (true, Some(decision)),
            None => (false, by_size(levels, now_ns, memory)),
        },
    };
    memory.collected = collected;
    decision
}

/// What moves values out of blob files, in a job of so many bytes at most. Nothing while others move as much as may be there twice.
pub(super) fn garbage(levels: &Levels<'_>, bytes_max: u64) -> Option<Decision> {
    if !levels.may_move {
        return None;
    }
    levels.families.iter().find_map(|of| {
        let own = levels.garbage.iter().filter(|r| r.family == of.family);
        let job = pick_garbage(own, &of.beside_failed(), &of.options, bytes_max)?;
        Some(compact(of, job, 0.0))
    })
}

fn compact(of: &FamilyLevels<'_>, job: Job, score: f64) -> Decision {
    let because = Because::Picked {
        reason: job.reason,
        from: job.from,
        score,
        bytes: job.bytes,
    };
    let work = Work::Compact {
        family: of.family,
        job: Box::new(job),
    };
    Decision::of(work, because)
}

/// Tables in whose range everything is deleted.
fn deleted(levels: &Levels<'_>) -> Option<Decision> {
    let mut families = levels.families.iter();
    families.find_map(|of| {
        let job = of.deleted.pick(&of.beside_failed(), &of.options)?;
        Some(compact(of, job, 0.0))
    })
}

/// Tables that have expired as a whole.
fn expired(levels: &Levels<'_>) -> Option<Decision> {
    let mut families = levels.families.iter();
    families.find_map(|of| {
        let job = of.options.expired?.pick(&of.beside_failed(), &of.options)?;
        Some(compact(of, job, 0.0))
    })
}

impl<'a> Levels<'a> {
    fn family(&self, family: CfId) -> Option<&'a FamilyLevels<'a>> {
        self.families.iter().find(|of| of.family == family)
    }

    fn is_refused(&self, family: CfId, place: usize) -> bool {
        self.refused.contains(&(family, place))
    }
}

/// The slices of families, worked out once for a decision, and only where somebody asks.
#[derive(Default)]
struct Slices<'a>(BTreeMap<CfId, Vec<Slice<'a>>>);

impl<'a> Slices<'a> {
    fn of(&mut self, of: &FamilyLevels<'a>) -> &[Slice<'a>] {
        let slices = || level0_slices(&of.state);
        self.0.entry(of.family).or_insert_with(slices)
    }
}

/// An internal compaction of a slice that refers to blob files, so that values which are overwritten there go from the
/// disk. It needs no room on the disk. Each leaves fewer runs, so they end.
fn for_blob_room(levels: &Levels<'_>) -> Option<Decision> {
    let families = levels.families.iter().filter(|_| !levels.internal_gave_up);
    let of_family = |of: &FamilyLevels<'_>| {
        let slices = level0_slices(&of.state);
        let mut numbered = slices.iter().enumerate();
        numbered.find_map(|(place, slice)| {
            let frees = frees_blobs(slice, &of.state, of.contents);
            let refused = levels.is_refused(of.family, place);
            let job = (frees && !refused).then(|| pick_internal(&of.state, &of.options, slice));
            Some(Work::CompactInternal {
                family: of.family,
                place,
                job: Box::new(job.flatten()?),
                expects: None,
            })
        })
    };
    let work = { families }.find_map(of_family)?;
    Some(Decision::of(work, Because::BlobRoom))
}

/// What brings tombstones down: where there is room for it whatever it leaves, then what may find some.
fn for_room(
    levels: &Levels<'_>,
    relief: &Relief,
    now_ns: u64,
    memory: &mut Memory,
) -> Option<Decision> {
    let most = memory.gave_up.bytes_max(relief.room, now_ns);
    let within = most.map(|most| most.min(relief.room.unwrap_or(u64::MAX)));
    let before = relief.rewrite_before;
    [within, most].into_iter().find_map(|most| {
        levels.families.iter().find_map(|of| {
            let job = pick_room(&of.state, &of.options, before, most.unwrap_or(0))?;
            // What only moves tables needs none.
            let fits = job.trivial || most.is_some();
            fits.then(|| compact(of, job, 0.0))
        })
    })
}

fn of_level0(levels: &Levels<'_>, plan: &Level0Plan, memory: &mut Memory) -> Option<Decision> {
    // What has found no room in this version is left alone.
    let may_merge = !levels.internal_gave_up;
    let mut slices = Slices::default();
    let for_room = may_merge.then(|| {
        due_for_room(plan).into_iter().find_map(|of| {
            let work = merge(levels, &mut slices, of)?;
            Some(Decision::of(
                work,
                Because::Level0(level0::Because::room(of)),
            ))
        })
    });
    if let Some(decision) = for_room.flatten() {
        return Some(decision);
    }
    let cold = plan.drains.then(|| {
        levels.families.iter().find_map(|of| {
            let job = pick_cold(plan, of.family, &of.state, &of.options, of.cursors)?;
            Some((of.family, job))
        })
    });
    let cold = cold.flatten();
    let because = memory.level0.note_drains(plan, cold.is_some());
    if let Some((family, job)) = cold {
        let job = Box::new(job);
        let because = because.map_or(Because::NothingIsDue, Because::Level0);
        return Some(Decision::of(Work::Compact { family, job }, because));
    }
    may_merge
        .then(|| {
            due_by_cost(plan).into_iter().find_map(|(decision, of)| {
                let because = Because::Level0(level0::Because::Pays(decision));
                Some(Decision::of(merge(levels, &mut slices, of)?, because))
            })
        })
        .flatten()
}

/// The merge of a slice, if it may begin and was not refused.
fn merge<'a>(levels: &Levels<'a>, slices: &mut Slices<'a>, planned: &SlicePlan) -> Option<Work> {
    let (family, place) = (planned.family, planned.place);
    if levels.is_refused(family, place) {
        return None;
    }
    let of = levels.family(family)?;
    let slice = slices.of(of).get(place)?;
    if !may_begin(slice, &of.options) {
        return None;
    }
    let job = pick_internal(&of.state, &of.options, slice)?;
    Some(Work::CompactInternal {
        family,
        place,
        job: Box::new(job),
        expects: Some((planned.updates, planned.records)),
    })
}

/// What is too large. Without cost models all of level 0 leaves persistent memory once it has its share, and not only
/// the excess, as in the paper's PMBlade-PM (PM-Blade §VI.B).
fn by_size(levels: &Levels<'_>, now_ns: u64, memory: &mut Memory) -> Option<Decision> {
    let most = match &levels.relief {
        None => Some(u64::MAX),
        Some(relief) => memory.gave_up.bytes_max(relief.room, now_ns),
    };
    if !levels.families.is_empty() {
        let before = memory.leave_below;
        memory.leave_below = leave_below(levels.pm_files, before, levels.is_past_share);
    }
    levels.families.iter().find_map(|of| {
        let mut options = PickOptions {
            // What has given up gives up again.
            bytes_max: most,
            ..of.options
        };
        if memory.leave_below > FileId(0) {
            options.level0_pm_bytes = 1;
        }
        let job = pick(&of.state, &options, of.cursors)?;
        let score = Scores::new(&of.state, &options).score(job.from);
        Some(compact(of, job, score))
    })
}

/// What reads have charged. On a full disk none is done for their sake.
fn for_reads(levels: &Levels<'_>) -> Option<Decision> {
    if levels.is_disk_full {
        return None;
    }
    match levels.charged {
        Charged::None => None,
        Charged::Unknown => Some(Decision::of(Work::LookAtReads, Because::NothingIsDue)),
        Charged::Table {
            family,
            level,
            place,
        } => {
            let of = levels.family(family)?;
            let job = pick_read(&of.state, &of.options, level, place);
            let look = || Decision::of(Work::LookAtReads, Because::NothingIsDue);
            Some(job.map_or_else(look, |job| compact(of, job, 0.0)))
        }
    }
}
