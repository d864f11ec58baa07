//! What costs say of level 0 in persistent memory, as `explain` tells it.

use serde_json::{Value, json};
use thermocline::size::format_size;
use thermocline::{CostDecision, CostForm, Level0Plan, SlicePlan};
use thermocline_bench::grouped;

use crate::text::{count, escape};

/// Slices of which something is told: those for which a merge comes nearest to paying.
const SLICES: usize = 10;

fn decisions(slice: &SlicePlan) -> impl Iterator<Item = CostDecision> {
    let both = slice.decisions.map(|d| [Some(d.reads), d.writes]);
    both.into_iter().flatten().flatten()
}

fn nearest(plan: &Level0Plan) -> Vec<&SlicePlan> {
    let mut slices: Vec<&SlicePlan> = plan.slices.iter().collect();
    let worth = |slice: &SlicePlan| {
        let worth = |d: CostDecision| d.gain / d.cost.max(1.0);
        decisions(slice).map(worth).fold(0.0, f64::max)
    };
    slices.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    slices.truncate(SLICES);
    slices
}

/// One sentence about all of it, and one about each slice.
pub(super) fn sentences(plan: &Level0Plan) -> Vec<String> {
    let (of, units) = (&plan.thresholds, &plan.units);
    let drains = match plan.drains {
        true => "drains now",
        false => "nothing leaves now",
    };
    let mut all = vec![format!(
        "level 0 in persistent memory: {} of zones in {}; eq. 3: from {} on slices leave until {} stay, {drains}; eq. 2 is \
         asked from {} on; a search takes {:.2} µs, a record {:.2} µs to merge there and {:.2} µs to compact",
        format_size(plan.bytes),
        count(plan.slices.len() as u64, "slice"),
        format_size(of.major),
        format_size(of.keep),
        format_size(of.write),
        units.search / 1e3,
        units.internal / 1e3,
        units.major / 1e3,
    )];
    all.extend(nearest(plan).into_iter().map(slice_text));
    all
}

fn slice_text(slice: &SlicePlan) -> String {
    let mut from = String::new();
    match slice.first.is_empty() {
        true => from.push_str("the first key"),
        false => escape(&slice.first, &mut from),
    }
    let stays = match slice.stays {
        true => "stays longest",
        false => "leaves first",
    };
    let mut text = format!(
        "slice from {from} on: {} of zones in {}, {}, {:.0} reads a second, {stays}",
        format_size(slice.bytes),
        count(slice.runs as u64, "run"),
        count(slice.records, "record"),
        slice.reads
    );
    if slice.writes > 0 {
        text += &format!(
            ", {} of {} newer ones overwrite",
            grouped(slice.updates),
            grouped(slice.writes)
        );
    }
    for decision in decisions(slice) {
        let due = if decision.due { "due" } else { "not due" };
        text += &format!("; {decision}, {due}");
    }
    text
}

/// The same.
pub(super) fn as_json(plan: &Level0Plan) -> Value {
    let decision = |d: CostDecision| {
        json!({
            "text": d.to_string(),
            "gain_ns": d.gain,
            "cost_ns": d.cost,
            "due": d.due,
        })
    };
    let slices = nearest(plan).into_iter().map(|slice| {
        json!({
            "first": slice.first.escape_ascii().to_string(),
            "tables": slice.tables,
            "runs": slice.runs,
            "bytes": slice.bytes,
            "reads_per_s": slice.reads,
            "records": slice.records,
            "writes": slice.writes,
            "updates": slice.updates,
            "decisions": decisions(slice).map(decision).collect::<Vec<Value>>(),
            "stays": slice.stays,
        })
    });
    json!({
        "form": match plan.form {
            CostForm::Corrected => "corrected",
            CostForm::Printed => "printed",
        },
        "bytes": plan.bytes,
        "write_bytes_due": plan.thresholds.write,
        "major_bytes_due": plan.thresholds.major,
        "keep_bytes": plan.thresholds.keep,
        "drains": plan.drains,
        "search_ns": plan.units.search,
        "internal_ns": plan.units.internal,
        "major_ns": plan.units.major,
        "slices": plan.slices.len(),
        "nearest": slices.collect::<Vec<Value>>(),
    })
}
