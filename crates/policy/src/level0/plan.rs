//! What is to be done about level 0 in persistent memory.

use super::memory::Memory;
use super::state::{Budget, Family, Level0Plan, SlicePlan};
use super::weigh::{Weighed, bytes_in_files, share, slices_of, staying_bytes};
use crate::cost::{Candidate, CostModel, Form, Partition, Thresholds, keep};
use crate::scans::level0_share;
use crate::tuning::{FILLING_PERCENT, INTERNAL_TABLES_OVER, ROOM_SHARE, SAMPLES};

/// A rate as a whole number: only what part of two are reads counts.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and what is too large is as large as can be"
)]
fn whole(rate: f64) -> u64 {
    rate as u64
}

/// What costs say of level 0 in persistent memory, of all families, beside the jobs that run.
pub fn plan(budget: &Budget, families: &[Family<'_>], memory: &Memory) -> Level0Plan {
    let budget = &Budget {
        bytes: level0_share(budget.bytes, memory.lent),
        ..*budget
    };
    let (mut slices, mut staying, mut file_bytes) = (Vec::new(), 0, 0u64);
    let (mut reads, mut writes) = (0.0, 0.0);
    for family in families {
        let rates = || family.rates.iter().map(|(rate, _)| rate);
        reads += rates().map(|rate| rate.reads).sum::<f64>();
        writes += rates().map(|rate| rate.writes).sum::<f64>();
        slices.extend(slices_of(family));
        staying += staying_bytes(family);
        file_bytes = file_bytes.saturating_add(bytes_in_files(family));
    }
    let thresholds = Thresholds::new(budget.bytes, slices.len(), whole(reads), whole(writes));
    let full = full_bytes(budget, &thresholds);
    let mut plan = decide(budget, slices, thresholds, (staying, full), memory);
    (plan.rates, plan.file_bytes) = ((reads, writes), file_bytes);
    plan
}

/// Merges must be able to begin until level 0 is full: a part of what they write lies beside what they read.
fn full_bytes(budget: &Budget, thresholds: &Thresholds) -> u64 {
    let part = budget.part_bytes + INTERNAL_TABLES_OVER * budget.table_bytes;
    let limit = budget.bytes_while_merging.saturating_sub(part);
    limit.clamp(thresholds.major, budget.bytes.max(thresholds.major))
}

fn decide(
    budget: &Budget,
    slices: Vec<Weighed<'_>>,
    thresholds: Thresholds,
    (staying, full): (u64, u64),
    memory: &Memory,
) -> Level0Plan {
    let form = budget.form;
    let candidate = |slice: &Weighed<'_>| Candidate {
        bytes: slice.zone_bytes,
        reads: slice.reads,
        kept: memory.was_kept(slice.family, &slice.slice.range),
    };
    let candidates: Vec<Candidate> = slices.iter().map(candidate).collect();
    let bytes: u64 = candidates.iter().map(|candidate| candidate.bytes).sum();
    let bytes = bytes + staying;
    let stays = keep(&candidates, thresholds.keep);
    let model = memory.model(form);
    let asked = slices.into_iter().zip(stays);
    let slices: Vec<SlicePlan> = asked
        .map(|(slice, stays)| SlicePlan {
            stays,
            ..of_slice(budget, slice, &model, &thresholds, memory)
        })
        .collect();
    let leave = slices.iter().any(|slice| slice.free && !slice.stays);
    let filling = bytes >= thresholds.major / 100 * FILLING_PERCENT;
    let makes_room = staying > 0 || slices.iter().any(|slice| slice.makes_room);
    let full_bytes = match filling && makes_room && form == Form::Corrected {
        true => full,
        false => thresholds.major,
    };
    Level0Plan {
        form,
        units: memory.units,
        thresholds,
        bytes,
        file_bytes: 0,
        is_filling: filling,
        full_bytes,
        drains: leave && (bytes >= full_bytes || memory.drains && bytes > thresholds.keep),
        rates: (0.0, 0.0),
        slices,
    }
}

/// What equations 1 and 2 say of a slice, and whether merging it makes room.
fn of_slice(
    budget: &Budget,
    weighed: Weighed<'_>,
    model: &CostModel,
    thresholds: &Thresholds,
    memory: &Memory,
) -> SlicePlan {
    let key = (weighed.family, weighed.files);
    let sampled = memory.sampled.get(&key);
    let updates = sampled.map_or(0, |(some, all)| share(weighed.writes, *some, *all));
    let partition = Partition {
        unsorted: weighed.slice.runs.saturating_sub(1) as u64,
        records: weighed.records,
        bytes: weighed.zone_bytes,
        reads: weighed.reads,
        writes: weighed.writes,
        updates,
    };
    let merges = weighed.slice.runs > 1 && weighed.slice.on_top;
    let gone = memory.corrected.dropped(partition.updates);
    let gone = gone.min(partition.writes as f64);
    let much = gone >= partition.records.max(1) as f64 * ROOM_SHARE;
    SlicePlan {
        family: weighed.family,
        first: weighed.slice.range.first.to_vec(),
        tables: weighed.slice.pm.len(),
        runs: weighed.slice.runs,
        bytes: partition.bytes,
        reads: partition.reads,
        records: partition.records,
        writes: partition.writes,
        updates: partition.updates,
        decisions: merges.then(|| model.internal(&partition, memory.corrected, thresholds)),
        makes_room: model.form == Form::Corrected && merges && much,
        holds_blobs: merges && weighed.blob_bytes >= budget.blob_bytes_max,
        stays: true,
        place: weighed.place,
        free: weighed.slice.free || weighed.slice.on_top,
    }
}

/// Whether it is worth looking how many of a slice's writes are updates: where equation 2 is asked of it, or where level 0
/// will soon be full, since small ones may make room, too.
pub fn wants_samples(plan: &Level0Plan, slice: &SlicePlan) -> bool {
    let decisions = slice.decisions;
    decisions.is_some_and(|decisions| plan.is_filling || decisions.writes.is_some())
}

/// Entries that are drawn from each of so many tables.
pub fn draws(tables: usize) -> u64 {
    (SAMPLES / tables.max(1) as u64).max(1)
}
