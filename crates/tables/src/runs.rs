//! The runs of a family: lists of tables that do not overlap, in key order, newest list first.
//!
//! Each level below 0 is a run. Level 0 is cut into as few as its order allows: tables that follow each
//! other by age and do not overlap are one run. So what a flush wrote is one run, however many tables it
//! is, and so are flushes of ranges that do not meet. A cursor has one source for each run and compares as
//! many keys at each step.
//!
//! # Why the newest still comes first
//! The tables of level 0 are cut into pieces of one list, newest first, without changing its order. Of two
//! tables that both have a key, the newer one comes before the older one in the list, and not in the
//! same piece, since the tables of a piece do not overlap. So it lies in an earlier run.

use std::collections::BTreeMap;
use std::ops::Deref;

use thermocline_base::chunked::Chunked;
use thermocline_version::{FamilyTables, Level, LevelTables, TableRef};

use std::sync::Arc;

/// Tables of a level that do not overlap, in key order. It is used as a sequence.
#[derive(Debug, Clone)]
pub struct Run {
    pub level: Level,
    tables: Chunked<Arc<TableRef>>,
}

/// Tables that do not overlap, by their first keys.
type Piece<'a> = BTreeMap<&'a [u8], &'a Arc<TableRef>>;

impl Run {
    fn of_level0(piece: Piece<'_>) -> Run {
        Run {
            level: Level::ZERO,
            tables: piece.into_values().cloned().collect(),
        }
    }
}

impl Deref for Run {
    type Target = Chunked<Arc<TableRef>>;

    fn deref(&self) -> &Chunked<Arc<TableRef>> {
        &self.tables
    }
}

/// The runs of a family, newest first.
pub fn runs_of(family: &FamilyTables) -> Vec<Run> {
    let mut runs = Vec::new();
    for (level, tables) in family.levels() {
        runs_of_level(level, tables, &mut runs);
    }
    runs
}

/// Adds the runs of a level. One below 0 has its list in common with its run, so that costs nothing.
pub fn runs_of_level(level: Level, tables: &LevelTables, runs: &mut Vec<Run>) {
    if level > Level::ZERO {
        if !tables.is_empty() {
            let tables = tables.list().clone();
            runs.push(Run { level, tables });
        }
        return;
    }
    let mut piece = Piece::new();
    for table in tables.iter() {
        if overlaps(&piece, table) {
            runs.push(Run::of_level0(std::mem::take(&mut piece)));
        }
        piece.insert(&table.range.first, table);
    }
    if !piece.is_empty() {
        runs.push(Run::of_level0(piece));
    }
}

/// Whether a table overlaps one of those, which do not overlap each other.
fn overlaps(piece: &Piece<'_>, table: &TableRef) -> bool {
    let first = &*table.range.first;
    // Of those that begin before it the last one reaches furthest.
    let before = piece.range(..=first).next_back();
    let behind = piece.range(first..).next();
    let mut beside = before.into_iter().chain(behind);
    beside.any(|(_, other)| other.range.overlaps(&table.range))
}

/// The table of a run that may have `key`.
#[inline]
pub fn may_have<'a>(run: &'a Run, key: &[u8]) -> Option<&'a Arc<TableRef>> {
    let at = run.position(|table| table.range.ends_before(key));
    run.get(at).filter(|table| table.range.contains(key))
}

#[cfg(test)]
mod tests {
    use thermocline_base::{CfId, FileId, KeyRange, SeqNo};
    use thermocline_testkit::{Replay, Rng, seeds};
    use thermocline_version::{Change, NextIds, Place, State, VersionEdit};

    use super::*;

    const CF: CfId = CfId(0);

    fn table(file: u64, first: u8, last: u8, seqno: u64) -> Arc<TableRef> {
        Arc::new(TableRef {
            file: FileId(file),
            file_bytes: 1000,
            bytes: 1000,
            entries: 10,
            deletes: 0,
            range: KeyRange::inclusive([first], [last]).owned(),
            limited_below: false,
            limited_above: false,
            smallest_seqno: SeqNo(seqno),
            largest_seqno: SeqNo(seqno + 9),
            blobs: vec![],
        })
    }

    /// A family with these tables in level 0, oldest first.
    fn family(tables: &[Arc<TableRef>]) -> Arc<FamilyTables> {
        let mut state = State::default();
        let created = VersionEdit::new()
            .with(Change::Created {
                db_id: [1; 16],
                region_id: [2; 16],
            })
            .with(Change::ColumnFamilyCreated {
                id: CF.0,
                name: "default".into(),
            })
            .with(Change::NextIds(NextIds {
                cf: 1,
                file: 1000,
                ..NextIds::default()
            }));
        state.apply(&created).unwrap();
        for table in tables {
            let added = Change::TableAdded {
                place: Place::new(CF, Level::ZERO),
                table: table.clone(),
            };
            let edit = VersionEdit {
                changes: vec![added],
            };
            state.apply(&edit).unwrap();
        }
        state.version().family(CF).unwrap().clone()
    }

    fn files(runs: &[Run]) -> Vec<Vec<u64>> {
        let of = |run: &Run| run.iter().map(|table| table.file.0).collect();
        runs.iter().map(of).collect()
    }

    #[test]
    fn one_flush_is_one_run_and_flushes_that_overlap_are_several() {
        let tables = [
            // One flush of three tables, another one, and two that do not meet.
            table(1, 10, 19, 100),
            table(2, 20, 29, 100),
            table(3, 30, 39, 100),
            table(4, 15, 25, 200),
            table(5, 10, 19, 300),
            table(6, 20, 29, 400),
        ];
        let runs = runs_of(&family(&tables));
        assert_eq!(files(&runs), [vec![5, 6], vec![4], vec![1, 2, 3]]);
        let hit = |run: usize, key: u8| may_have(&runs[run], &[key]).map(|t| t.file.0);
        assert_eq!(
            (hit(0, 9), hit(0, 10), hit(0, 29)),
            (None, Some(5), Some(6))
        );
        assert_eq!((hit(1, 26), hit(2, 39), hit(2, 40)), (None, Some(3), None));
        assert_eq!((hit(0, 30), hit(2, 30)), (None, Some(3)));
    }

    #[test]
    fn whatever_the_tables_are_the_first_run_that_may_have_a_key_is_the_newest() {
        for seed in seeds(0..300) {
            let _replay = Replay::new("-p thermocline-engine whatever_the_tables_are", seed);
            let mut rng = Rng::new(seed);
            let tables: Vec<_> = (1..20)
                .map(|n| {
                    let first = u8::try_from(rng.below(40)).unwrap();
                    let last = first + u8::try_from(rng.below(8)).unwrap();
                    table(n, first, last, 100 * n)
                })
                .collect();
            let runs = runs_of(&family(&tables));
            for run in &runs {
                let pairs = run.iter().zip(run.iter().skip(1));
                let mut disjoint = pairs.map(|(a, b)| a.range.ends_before(&b.range.first));
                assert!(disjoint.all(|is| is), "{run:?}");
            }
            for key in 0..50u8 {
                let newest_first = tables.iter().rev().filter(|t| t.range.contains(&[key]));
                let newest_first: Vec<u64> = newest_first.map(|t| t.file.0).collect();
                let found = runs.iter().filter_map(|run| may_have(run, &[key]));
                let found: Vec<u64> = found.map(|t| t.file.0).collect();
                assert_eq!(found, newest_first, "{key}");
            }
        }
    }
}
