//! Tables that move and are cut, beside those that come and go: against the same model, with
//! versions held meanwhile.

use std::sync::Arc;

use proptest::prelude::*;
use thermocline_base::FileId;
use thermocline_version::{Change, Level, Place, State, TableRef, VersionEdit};

use crate::model::{apply, begun, check_snapshot, config};
use crate::{pm_tables, tables};

/// What to do with tables that exist, beside what [`tables::change`] makes up.
#[derive(Debug, Clone)]
enum Step {
    Change(Change),
    Remove(usize),
    Move(usize, u8),
    /// Cut in two at a letter; the second part may go to another level.
    Cut(usize, u8, u8),
    /// Below the letter it stays; what lies above becomes another file, perhaps in another level.
    Leave(usize, u8, u64, u8),
    Family(u16),
    /// To a family of a table in persistent memory.
    Refer(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let nth = 0usize..8;
    prop_oneof![
        8 => tables::change().prop_map(Step::Change),
        2 => nth.clone().prop_map(Step::Remove),
        3 => (nth.clone(), 0u8..4).prop_map(|(n, level)| Step::Move(n, level)),
        3 => (nth.clone(), b'b'..b'h', 0u8..4).prop_map(|(n, at, level)| Step::Cut(n, at, level)),
        3 => (nth.clone(), b'b'..b'h', 0u64..8, 0u8..4)
            .prop_map(|(n, at, file, level)| Step::Leave(n, at, file, level)),
        1 => (1u16..4).prop_map(Step::Family),
        2 => pm_tables::change().prop_map(Step::Change),
        4 => (nth, 0usize..3).prop_map(|(n, family)| Step::Refer(n, family)),
    ]
}

impl Step {
    fn changes(&self, state: &State) -> Vec<Change> {
        let nth = |n: usize| {
            let all = state.version().tables().count();
            let found = state.version().tables().nth(n % all.max(1));
            found.map(|(place, table)| (place, Arc::clone(table)))
        };
        let leveled = |place: Place, level: u8| Place {
            level: Level(level),
            ..place
        };
        match self {
            Step::Change(change) => vec![change.clone()],
            Step::Family(id) if state.families().contains_key(id) => {
                vec![Change::ColumnFamilyDropped { id: *id }]
            }
            Step::Family(id) => {
                let (id, name) = (*id, id.to_string());
                vec![Change::ColumnFamilyCreated { id, name }]
            }
            Step::Refer(n, family) => {
                let all = state.version().pm_table_count();
                let found = state.version().pm_tables().nth(n % all.max(1));
                let refer = found.map(|(table, _)| pm_tables::reference(table, *family));
                refer.into_iter().collect()
            }
            Step::Remove(n) => {
                let found = nth(*n).map(|(at, table)| Change::table_removed(at, &table));
                found.into_iter().collect()
            }
            Step::Move(n, level) => nth(*n).map_or_else(Vec::new, |(place, table)| {
                let removed = Change::table_removed(place, &table);
                let place = leveled(place, *level);
                vec![removed, Change::TableAdded { place, table }]
            }),
            Step::Cut(n, at, level) => nth(*n).map_or_else(Vec::new, |(place, table)| {
                let at = [*at];
                let halves = [table.part(None, Some(&at)), table.part(Some(&at), None)];
                let places = [place, leveled(place, *level)];
                let mut changes = vec![Change::table_removed(place, &table)];
                for (place, half) in places.into_iter().zip(halves) {
                    changes.extend(half.map(|mut table| {
                        // Half of the blobs' bytes each, so that both fit.
                        table.blobs.iter_mut().for_each(|b| b.bytes /= 2);
                        let table = Arc::new(table);
                        Change::TableAdded { place, table }
                    }));
                }
                changes
            }),
            Step::Leave(n, at, file, level) => nth(*n).map_or_else(Vec::new, |(place, table)| {
                let at = [*at];
                let mut changes = vec![Change::table_removed(place, &table)];
                let stays = table.part(None, Some(&at)).map(|mut part| {
                    part.blobs.clear();
                    (place, part)
                });
                let leaves = table.part(Some(&at), None).map(|part| {
                    let whole = TableRef {
                        file: FileId(*file),
                        bytes: part.file_bytes,
                        limited_below: false,
                        limited_above: false,
                        blobs: Vec::new(),
                        ..part
                    };
                    (leveled(place, *level), whole)
                });
                changes.extend(stays.into_iter().chain(leaves).map(|(place, table)| {
                    let table = Arc::new(table);
                    Change::TableAdded { place, table }
                }));
                changes
            }),
        }
    }
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn tables_move_and_are_cut_as_in_the_model_and_versions_that_are_held_stay_as_they_were(
        steps in prop::collection::vec(prop::collection::vec(step(), 1..3), 1..60),
    ) {
        let mut state = State::default();
        let (first, mut model) = begun();
        state.apply(&first).unwrap();
        let mut held = Vec::new();
        for (n, steps) in steps.iter().enumerate() {
            let changes = steps.iter().flat_map(|step| step.changes(&state)).collect();
            let before = Arc::clone(state.version());
            if !apply(&mut state, &mut model, &VersionEdit { changes })? {
                continue;
            }
            model.tables.check(state.version())?;
            tables::check_since(&before, state.version())?;
            if n % 8 == 0 {
                check_snapshot(&state)?;
                held.push((Arc::clone(state.version()), model.tables.clone()));
            }
        }
        for (version, then) in &held {
            then.check(version)?;
            tables::check_since(version, state.version())?;
            tables::check_since(state.version(), version)?;
        }
    }
}
