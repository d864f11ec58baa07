//! What the next compaction of a family does, in words.

use thermocline::size::format_size;
use thermocline::{CompactionPlan, CompactionReason};

use crate::text::count;

/// Why it is due, and what it does.
pub(super) fn text(next: &CompactionPlan) -> String {
    let tables = count(next.tables as u64, "table");
    let tables = format!("{tables} with {}", format_size(next.bytes));
    format!("due ({}): {}", next.because, does(next, &tables))
}

/// What it does with these tables.
fn does(next: &CompactionPlan, tables: &str) -> String {
    let (from, to) = (next.from, next.to);
    match next.reason {
        CompactionReason::Internal => {
            format!("merges {tables} of level 0 inside persistent memory")
        }
        CompactionReason::Spill => {
            format!("moves {tables} of level 0 out of persistent memory into files of level 0")
        }
        CompactionReason::Deleted => {
            format!("drops {tables} of level {from} unread: everything in them is deleted")
        }
        CompactionReason::Expired => {
            format!("drops {tables} of level {from} unread: everything in them has expired")
        }
        CompactionReason::Garbage if from == to => {
            format!("writes {tables} of level {from} anew, values in blob files among them")
        }
        _ if from == to => format!("writes {tables} of level {from} anew"),
        _ if next.moved => format!("moves {tables} from level {from} into level {to}"),
        _ => format!("merges {tables} from level {from} into level {to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(reason: CompactionReason, (from, to): (usize, usize), moved: bool) -> String {
        text(&CompactionPlan {
            reason,
            because: "why".to_string(),
            from,
            to,
            tables: 2,
            bytes: 2 << 20,
            moved,
        })
    }

    #[test]
    fn each_job_is_named_by_what_it_does() {
        for (reason, levels, moved, says) in [
            (
                CompactionReason::Internal,
                (0, 0),
                false,
                "merges 2 tables with 2 MiB of level 0 inside persistent memory",
            ),
            (
                CompactionReason::Spill,
                (0, 0),
                false,
                "moves 2 tables with 2 MiB of level 0 out of persistent memory into files of level 0",
            ),
            (
                CompactionReason::Deleted,
                (0, 0),
                false,
                "drops 2 tables with 2 MiB of level 0 unread: everything in them is deleted",
            ),
            (
                CompactionReason::Expired,
                (3, 3),
                false,
                "drops 2 tables with 2 MiB of level 3 unread: everything in them has expired",
            ),
            (
                CompactionReason::Garbage,
                (5, 5),
                false,
                "writes 2 tables with 2 MiB of level 5 anew, values in blob files among them",
            ),
            (
                CompactionReason::Room,
                (6, 6),
                false,
                "writes 2 tables with 2 MiB of level 6 anew",
            ),
            (
                CompactionReason::LevelSize,
                (4, 5),
                true,
                "moves 2 tables with 2 MiB from level 4 into level 5",
            ),
            (
                CompactionReason::Level0,
                (0, 6),
                false,
                "merges 2 tables with 2 MiB from level 0 into level 6",
            ),
        ] {
            assert_eq!(told(reason, levels, moved), format!("due (why): {says}"));
        }
    }
}
