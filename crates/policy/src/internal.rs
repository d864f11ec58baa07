//! What of level 0 in persistent memory is merged next, or leaves, in which order.

use std::collections::BTreeSet;

use thermocline_base::{CfId, FileId};

use crate::cost::{Decision, Form};
use crate::level0::{Content, Level0Plan, SlicePlan, newer_blob_bytes};
use crate::pick::{
    Cursors, Job, PickOptions, Slice, State, level0_slices, pick_slices, pick_spill,
};
use crate::tuning::{PM_PIECE_BYTES, TABLES_AT_ENDS, TABLES_OF_ONE};

/// The slices that are to be merged for room: where level 0 will soon be full, or where a slice refers to much in blob
/// files. The first are those of which the largest part goes.
pub fn due_for_room(plan: &Level0Plan) -> Vec<&SlicePlan> {
    let makes_room = |of: &SlicePlan| of.holds_blobs || plan.is_filling && of.makes_room;
    let free = |of: &&SlicePlan| of.free && makes_room(of);
    let mut due: Vec<&SlicePlan> = plan.slices.iter().filter(free).collect();
    let share = |of: &SlicePlan| of.updates as f64 / of.records.max(1) as f64;
    due.sort_by(|a, b| share(b).total_cmp(&share(a)));
    due
}

/// The slices whose merge pays, and the decision that says so. The first are those that pay most.
pub fn due_by_cost(plan: &Level0Plan) -> Vec<(Decision, &SlicePlan)> {
    let due = plan.slices.iter().filter(|slice| slice.free);
    let mut due: Vec<(Decision, &SlicePlan)> = due
        .filter_map(|slice| Some((slice.decisions?.due()?, slice)))
        .collect();
    let worth = |decision: &Decision| decision.gain / decision.cost.max(1.0);
    due.sort_by(|(a, _), (b, _)| worth(b).total_cmp(&worth(a)));
    due
}

/// Whether a slice that is due may be merged. It may not where it has so many files that they are to be taken down:
/// merges would never leave them free for that.
pub fn may_begin(slice: &Slice<'_>, options: &PickOptions) -> bool {
    slice.files < options.level0_tables
}

/// Whether a merge of a slice lets go of something in blob files: for a disk that is full.
pub fn frees_blobs(slice: &Slice<'_>, state: &State<'_>, contents: &[Content]) -> bool {
    let merges = slice.free && slice.on_top && slice.runs > 1;
    merges && newer_blob_bytes(slice, state, contents) > 0
}

/// The job that takes slices of a family which do not stay.
pub fn pick_cold(
    plan: &Level0Plan,
    family: CfId,
    state: &State<'_>,
    options: &PickOptions,
    cursors: &Cursors,
) -> Option<Job> {
    let slices = level0_slices(state);
    let own = plan.slices.iter().filter(|slice| slice.family == family);
    let leaves = own.filter(|slice| slice.free && !slice.stays);
    let leaves: BTreeSet<&[usize]> = leaves
        .filter_map(|slice| Some(&slices.get(slice.place)?.tables[..]))
        .collect();
    let wanted = |slice: &[usize]| leaves.contains(slice);
    let spill = match plan.form {
        Form::Corrected => pick_spill(state, options, cursors, &wanted, false),
        // As in the paper.
        Form::Printed => None,
    };
    spill.or_else(|| pick_slices(state, options, cursors, &wanted))
}

/// What a merge of a slice reads, in persistent memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inputs {
    /// Bytes of their zones.
    pub zone_bytes: u64,
    /// Bytes of the largest zone, or run of zones, on average of a table's.
    pub largest_zone: u64,
}

/// The persistent memory for one part of a slice: as much as that may take until its last table ends. All parts
/// together have no more bytes than the inputs, plus an unfilled zone for each table; tables that end early count, too.
pub fn bytes_of_part(inputs: &Inputs, part_bytes: u64, table_bytes: u64) -> u64 {
    let Inputs {
        zone_bytes: all,
        largest_zone: zone,
    } = *inputs;
    // Large values make zones wider, and leave no more of those unfilled.
    let zone = zone.min(PM_PIECE_BYTES);
    let over = table_bytes.saturating_mul(TABLES_AT_ENDS);
    let part = part_bytes.saturating_add(over.saturating_add(zone));
    let tables = (all / table_bytes.max(1)).saturating_mul(TABLES_OF_ONE) + TABLES_AT_ENDS;
    part.min(all.saturating_add(zone.saturating_mul(tables)))
}

/// Without cost models: tables in persistent memory leave if their numbers are smaller than this; 0 where none do. Once
/// the tables there are past their share, all that are there leave, as in the paper's PMBlade-PM (PM-Blade §VI.B),
/// until none of those is left.
pub fn leave_below(files: &[FileId], before: FileId, past_share: bool) -> FileId {
    match past_share {
        _ if files.iter().any(|file| *file < before) => before,
        true => files
            .iter()
            .max()
            .map_or(FileId(0), |last| FileId(last.0 + 1)),
        false => FileId(0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A table of large values may lie in one run of zones.
    #[test]
    fn a_part_is_not_promised_as_much_more_as_a_table_is_wide() {
        let bytes = |zone: u64| {
            let inputs = Inputs {
                zone_bytes: 44 << 20,
                largest_zone: zone << 20,
            };
            bytes_of_part(&inputs, 8 << 20, 4 << 20)
        };
        assert_eq!(bytes(2), 18 << 20);
        assert_eq!(bytes(22), 21 << 20);
    }

    proptest! {
        #[test]
        fn a_part_is_never_promised_more_than_all_of_it_may_take(
            all in 0u64..1 << 30,
            zone in 1u64..1 << 20,
            part in 1u64..1 << 26,
            table in 1u64..1 << 24,
        ) {
            let inputs = Inputs { zone_bytes: all, largest_zone: zone };
            let bytes = bytes_of_part(&inputs, part, table);
            prop_assert!(bytes <= part + 2 * table + zone);
            prop_assert!(bytes >= all.min(part));
            let more = Inputs { zone_bytes: all + 1, ..inputs };
            prop_assert!(bytes_of_part(&more, part, table) >= bytes);
        }

        #[test]
        fn what_leaves_leaves_as_a_whole(files in proptest::collection::vec(1u64..50, 0..10), before in 0u64..60) {
            let files: Vec<FileId> = files.into_iter().map(FileId).collect();
            let any_below = |below: u64| files.iter().any(|file| file.0 < below);
            let below = leave_below(&files, FileId(before), true);
            // Whatever was to leave does, and what came later stays.
            prop_assert!(below.0 >= before || !any_below(before));
            let next = leave_below(&files, below, false);
            prop_assert_eq!(next, if any_below(below.0) { below } else { FileId(0) });
        }
    }
}
