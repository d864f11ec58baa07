//! Room for the writer: relief, sealing, flushing, rewriting.

use crate::situation::{Sealed, Situation, Writer};
use crate::work::{Because, Decision, Work};
use crate::{indexes, seal};

pub(super) fn next(situation: &Situation<'_>) -> Option<Decision> {
    let deletes = situation.deletes;
    if deletes.is_some_and(|deletes| deletes.wanted && deletes.relieving) {
        return Some(Decision::of(Work::Relief, Because::Deletes));
    }
    let rewrites = situation.rewriting.filter(|plan| plan.rewrites());
    let writer = situation.writer;
    writer
        .and_then(|writer| of_writer(&writer))
        .or_else(|| of_sealed(&situation.sealed?))
        .or_else(|| {
            let plan = rewrites?;
            let because = Because::Lives {
                live: plan.live_bytes?,
                bytes: plan.bytes,
            };
            Some(Decision::of(Work::Rewrite, because))
        })
}

fn of_writer(writer: &Writer) -> Option<Decision> {
    let Writer {
        active,
        limits,
        more,
        ..
    } = writer;
    let due = seal::is_due(active, limits, *more, || writer.has_room);
    if due || seal::is_wide(active, limits) {
        let because = seal::because(active, limits, *more)?;
        return Some(Decision::of(Work::Seal, Because::Seal(because)));
    }
    let (index_bytes, stores) = writer.crowded?;
    let because = Because::Crowded {
        index_bytes,
        stores,
    };
    let seals = writer.dram.seals_for_others(index_bytes, stores);
    seals.then(|| Decision::of(Work::Seal, because))
}

fn of_sealed(of: &Sealed) -> Option<Decision> {
    if of.room_wanted {
        return Some(Decision::of(Work::Flush, Because::RoomWanted));
    }
    let because = of.sealed.plan().because.filter(|_| of.sealed.automatic)?;
    let sealed = of.sealed.bytes;
    let dead = of.dead_in_merged;
    let dead = dead.filter(|dead| indexes::are_made_anew_before_flush(*dead, sealed));
    Some(match (dead, of.wide) {
        (Some(dead), _) => {
            let because = Because::DeadInMerged { dead, sealed };
            Decision::of(Work::RemakeIndexes, because)
        }
        (None, Some(bytes)) => {
            let takes = of.sealed.takes_bytes();
            Decision::of(Work::DivideIndexes, Because::Wide { bytes, takes })
        }
        (None, None) => Decision::of(Work::Flush, Because::Flush(because)),
    })
}
