//! What is to be done next, of all parts that are known, and why.
//!
//! Parts are asked in the order of their urgency: room on a full disk, room for the writer, what waits to be flushed,
//! what is done ahead, then what makes reads cheaper and space smaller. A caller that knows one part only gets an
//! answer for that one.

mod compaction;
mod sealed;

#[cfg(test)]
mod tests;

use crate::memory::Memory;
use crate::partitions::{self, Adjustment};
use crate::situation::{Ahead, Indexes, Levels, Partitions, Situation};
use crate::work::{Because, Decision, Work};
use crate::{indexes, seal};

/// What is to be done next.
///
/// ```
/// use thermocline_policy::situation::{Ahead, Situation};
/// use thermocline_policy::work::Work;
/// use thermocline_policy::{Memory, next, seal};
/// let limits = seal::Limits { bytes: 100, blob_bytes: 1000, span: 50 };
/// let ahead = Ahead {
///     active_bytes: 60,
///     limits,
///     next_is_missing: true,
///     next_is_awaited: false,
///     lacks_zones: false,
///     lacks_pages: false,
/// };
/// let situation = Situation { ahead: Some(ahead), ..Situation::default() };
/// let decision = next(&situation, &mut Memory::default());
/// assert_eq!(decision.work, Work::Prepare { grow: false, populate: false, name: true });
/// assert_eq!(decision.because.to_string(), "ahead: the active memtable has 60 bytes");
/// ```
pub fn next(situation: &Situation<'_>, memory: &mut Memory) -> Decision {
    let mut merges_pay_at = None;
    let decision = sealed::next(situation)
        .or_else(|| of_ahead(&situation.ahead?))
        .or_else(|| {
            let (decision, pays_at) = of_indexes(&situation.indexes?);
            merges_pay_at = Some(pays_at);
            decision
        })
        .or_else(|| of_partitions(&situation.partitions?))
        .or_else(|| compaction::next(&situation.levels?, situation.now_ns, memory));
    Decision {
        merges_pay_at,
        ..decision.unwrap_or_else(Decision::nothing)
    }
}

/// What moves values out of blob files next, whatever else is due: for a compaction by hand. None if nothing is due, or
/// jobs hold the tables.
pub fn next_collection(levels: &Levels<'_>) -> Option<Decision> {
    compaction::garbage(levels, u64::MAX)
}

fn of_ahead(ahead: &Ahead) -> Option<Decision> {
    let (bytes, limits) = (ahead.active_bytes, &ahead.limits);
    let name = ahead.next_is_missing && seal::wants_next(bytes, limits, ahead.next_is_awaited);
    let (grow, populate) = (ahead.lacks_zones, ahead.lacks_pages);
    let work = Work::Prepare {
        grow,
        populate,
        name,
    };
    let because = Because::Ahead {
        active_bytes: ahead.active_bytes,
    };
    (grow || populate || name).then(|| Decision::of(work, because))
}

/// And from how many indexes asked on it may pay. A division is for the flush, and waits for no reads.
fn of_indexes(of: &Indexes<'_>) -> (Option<Decision>, u64) {
    let wide = indexes::divide(of.newest_first, &of.width).filter(|_| !of.must);
    if let Some(division) = wide {
        let because = Because::Wide {
            bytes: division.bytes,
            takes: of.width.takes,
        };
        let decision = Decision::of(Work::DivideIndex(division), because);
        return (Some(decision), of.asked);
    }
    let bytes_max = of.width.merged_bytes_max();
    let Some(choice) = indexes::choose(of.newest_first, bytes_max, of.must) else {
        return (None, u64::MAX);
    };
    let pays_at = indexes::pays_at(&choice, of.paid, of.merge_percent);
    let pays = of.must || of.asked >= pays_at;
    let because = Because::Asked {
        asked: of.asked,
        pays_at,
    };
    let decision = || {
        let inputs = &of.newest_first[choice.first..][..choice.count];
        let parts = match of.must {
            true => indexes::merged_parts(inputs, &of.width),
            // What pays is no wider than it may be.
            false => Vec::new(),
        };
        Decision::of(Work::MergeIndexes(choice, parts), because)
    };
    (pays.then(decision), pays_at)
}

fn of_partitions(of: &Partitions<'_>) -> Option<Decision> {
    let family = of.family;
    let waiting = of.waiting;
    let waiting = waiting.filter(|key| partitions::splits_still(of.partitions, key, of.limit));
    let middle = |_| of.middle.map(<[u8]>::to_vec);
    let adjustment = match waiting {
        Some(key) => Adjustment::Split(key.to_vec()),
        None => partitions::next(of.partitions, of.limit, middle)?,
    };
    let limit = of.limit;
    Some(match adjustment {
        Adjustment::Split(key) => {
            let bytes = of.partitions.iter().map(|partition| partition.bytes);
            let bytes = bytes.max().unwrap_or(0);
            let because = Because::Large { bytes, limit };
            Decision::of(Work::SplitPartition { family, key }, because)
        }
        Adjustment::Merge(starts) => {
            let because = Because::Small {
                partitions: starts.len(),
                limit,
            };
            Decision::of(Work::MergePartitions { family, starts }, because)
        }
    })
}
