use std::collections::BTreeMap;

use proptest::prelude::*;
use thermocline_base::{CfId, FileId, KeyRange};

use super::*;
use crate::edit::{Change, VersionEdit};
use crate::fixture::{self, at, state};
use crate::state::State;
use crate::table::{BlobBytes, TableRef};
use crate::version::Joined;

const CF: CfId = CfId(0);

fn created(id: u32, start: &[u8]) -> Change {
    Change::PartitionCreated {
        cf: CF,
        partition: PartitionId(id),
        start: start.into(),
    }
}

fn removed(id: u32, start: &[u8]) -> Change {
    Change::PartitionRemoved {
        cf: CF,
        partition: PartitionId(id),
        start: start.into(),
    }
}

fn partitions(state: &State) -> &Partitions {
    state.version().partitions(CF)
}

fn next_id(state: &State) -> u32 {
    partitions(state).free_ids().next().unwrap().0
}

fn again(state: &State) -> State {
    let mut again = State::default();
    for edit in state.snapshot() {
        again.apply(&edit).unwrap();
    }
    again
}

fn check(all: &Partitions, model: &BTreeMap<Vec<u8>, u32>, keys: &[Vec<u8>]) {
    assert_eq!(all.len(), model.len());
    let listed: Vec<_> = all.iter().map(|p| (p.start.to_vec(), p.id.0)).collect();
    let expected: Vec<_> = model.iter().map(|(k, id)| (k.clone(), *id)).collect();
    assert_eq!(listed, expected);
    for key in keys {
        let of = all.of(key);
        let (start, id) = model.range(..=key.clone()).next_back().unwrap();
        assert_eq!((of.start, of.id.0), (&start[..], *id));
        let behind = (Bound::Excluded(key.clone()), Bound::Unbounded);
        let end = model.range(behind).next().map(|(k, _)| &k[..]);
        assert_eq!(of.end, end);
        assert!(of.contains(key));
        assert_eq!(all.starting_at(key).map(|id| id.0), model.get(key).copied());
        let ends_there = model.range(..key.clone()).next_back();
        let ends_there = ends_there.filter(|_| model.contains_key(key));
        let found = all.before(key).map(|p| (p.start.to_vec(), p.id.0));
        assert_eq!(found, ends_there.map(|(start, id)| (start.clone(), *id)));
        for to in keys.iter().filter(|to| *to >= key) {
            for (bound, included) in [
                (Bound::Included(&to[..]), true),
                (Bound::Excluded(&to[..]), false),
            ] {
                let found = all.overlapping(Bound::Included(key), bound);
                let found: Vec<u32> = found.map(|p| p.id.0).collect();
                let expected = model.iter().filter(|(first, _)| {
                    **first == *start || *first > start && (*first < to || included && *first == to)
                });
                let expected: Vec<u32> = expected.map(|(_, id)| *id).collect();
                assert_eq!(found, expected, "{key:?} {bound:?}");
            }
        }
    }
}

/// A table with every key of one letter from `first` to `last`.
fn table(file: u64, first: u8, last: u8, seqno: u64) -> TableRef {
    TableRef {
        deletes: 3,
        blobs: vec![BlobBytes {
            file: FileId(999),
            bytes: 40,
        }],
        ..fixture::table(file, ([first], [last]), (seqno, seqno + 9))
    }
}

/// The files that a read of `key` may ask, newest first.
fn asked(state: &State, key: u8) -> Vec<u64> {
    let family = state.version().family(CF).into_iter();
    let levels = family.flat_map(|family| family.levels());
    let tables = levels.flat_map(|(_, tables)| {
        let tables: Vec<u64> = tables.may_have(&[key]).map(|t| t.file.0).collect();
        tables
    });
    tables.collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn they_tile_the_keys_and_every_edit_does_what_a_map_does(
        steps in prop::collection::vec((prop::collection::vec(0u8..3, 0..3), 0..10), 1..60),
    ) {
        let mut state = state([]);
        let mut model = BTreeMap::from([(Vec::new(), 0)]);
        let mut keys = vec![vec![], vec![0], vec![1, 1], vec![2, 2, 2]];
        let mut kept: Vec<(State, BTreeMap<Vec<u8>, u32>)> = Vec::new();
        for (key, lot) in steps {
            let next = next_id(&state);
            if lot < 7 {
                let applied = state.apply(&created(next, &key).into());
                prop_assert_eq!(applied.is_ok(), !model.contains_key(&key));
                if applied.is_ok() {
                    model.insert(key.clone(), next);
                }
            } else {
                let id = model.get(&key).copied();
                let applied = state.apply(&removed(id.unwrap_or(1), &key).into());
                prop_assert_eq!(applied.is_ok(), id.is_some_and(|id| id > 0));
                if applied.is_ok() {
                    model.remove(&key);
                }
            }
            keys.push(key);
            kept.push((state.clone(), model.clone()));
        }
        for (state, model) in kept.iter().rev().take(10) {
            check(partitions(state), model, &keys[..keys.len().min(12)]);
            prop_assert_eq!(&again(state), state);
        }
    }

    #[test]
    fn cutting_at_starts_changes_no_answer_and_loses_no_byte(
        tables in prop::collection::vec((0u8..40, 0u8..8), 1..12),
        deep in prop::collection::vec(0u8..40, 0..4),
        cuts in prop::collection::vec((1u8..44, 0u64..5), 1..8),
        singly in 0usize..8,
    ) {
        let blob = Change::BlobFileAdded { file: FileId(999), bytes: 100_000 };
        let mut state = state([blob]);
        for (n, (first, len)) in (1..).zip(&tables) {
            let table = std::sync::Arc::new(table(n, *first, first + len, 100 * n));
            let edit = Change::TableAdded { place: at(0), table };
            state.apply(&edit.into()).unwrap();
        }
        for (n, first) in (100..).zip(&deep) {
            let table = std::sync::Arc::new(table(n, *first, first + 3, 1));
            // Some overlap, and are refused.
            let _ = state.apply(&Change::TableAdded { place: at(2), table }.into());
        }
        let before = state.clone();
        let sums = |state: &State| {
            let tables: Vec<_> = state.version().tables().collect();
            let bytes: u64 = tables.iter().map(|(_, t)| t.bytes).sum();
            (bytes, state.version().file_count())
        };
        for (key, below) in cuts {
            let id = next_id(&state);
            let version = state.version().clone();
            let cut = version.cut_at(CF, &[key], |_, _| Some((below, 4)));
            let over = version.reaching_over(CF, &[key]).count();
            prop_assert_eq!(cut.len(), 3 * over);
            let mut edit = VersionEdit { changes: cut };
            if partitions(&state).starting_at(&[key]).is_none() {
                edit = edit.with(created(id, &[key]));
            }
            state.apply(&edit).unwrap();
            prop_assert_eq!(state.version().reaching_over(CF, &[key]).count(), 0);
            for (_, part) in state.version().tables() {
                prop_assert!(part.deletes > 0 && part.entries >= part.deletes);
            }
        }
        prop_assert_eq!(sums(&state), sums(&before));
        for key in 0..50 {
            prop_assert_eq!(asked(&state, key), asked(&before, key), "{}", key);
        }
        prop_assert_eq!(&again(&state), &state);
        // And back, some one by one and the others at once: what was cut is whole again.
        let starts = partitions(&state).iter().skip(1).map(|p| (p.id.0, p.start.to_vec()));
        let starts: Vec<_> = starts.collect();
        let (single, others) = starts.split_at(singly.min(starts.len()));
        for group in single.chunks(1).chain([others]) {
            let keys: Vec<_> = group.iter().map(|(_, start)| start.clone()).collect();
            // Nothing is joined that may not be, and then nothing is lost either.
            prop_assert!(state.version().joined_at(CF, &keys, |_, _| false).is_empty());
            let joined = state.version().joined_at(CF, &keys, |_, _| true);
            let changes = joined.into_iter().flat_map(Joined::changes);
            let changes = changes.chain(group.iter().map(|(id, start)| removed(*id, start)));
            state.apply(&VersionEdit { changes: changes.collect() }).unwrap();
            prop_assert_eq!(&again(&state), &state);
        }
        let of = |state: &State| -> Vec<_> {
            let tables = state.version().tables();
            tables.map(|(at, t)| (at, t.file, t.range.clone(), t.is_part(), t.bytes, t.blobs.len())).collect()
        };
        prop_assert_eq!(of(&state), of(&before));
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let state = state([
        created(1, b"m"),
        created(5, b"d"),
        created(6, b"x"),
        removed(6, b"x"),
    ]);
    let long = vec![0; limits::KEY_LEN_MAX + 1];
    let of_other = Change::PartitionCreated {
        cf: CfId(9),
        partition: PartitionId(8),
        start: (*b"a").into(),
    };
    for (change, what) in [
        (created(5, b"a"), "one that is free"),
        (created(0, b"a"), "one that is free"),
        (created(8, b"m"), "one at which none starts"),
        (created(8, b""), "length of a partition's start"),
        (created(8, &long), "length of a partition's start"),
        (removed(0, b""), "not the first"),
        (removed(1, b"d"), "removed partition"),
        (removed(6, b"x"), "removed partition"),
        (of_other, "family of a partition"),
    ] {
        let mut touched = state.clone();
        let edit = VersionEdit::from(created(7, b"z")).with(change);
        let error = touched.apply(&edit).unwrap_err().to_string();
        assert!(error.contains(what), "{edit:?}: {error}");
        assert_eq!(touched, state);
    }
    let free = |state: &State| -> Vec<u32> {
        let ids = partitions(state).free_ids();
        ids.take(4).map(|id| id.0).collect()
    };
    assert_eq!(free(&state), [6, 7, 8, 9]);
    // Numbers that nobody gives out so early are no reason to have none.
    let mut state = state;
    let near = u32::MAX - 1;
    state.apply(&created(near, b"z").into()).unwrap();
    assert_eq!(free(&state), [u32::MAX, 2, 3, 4]);
    state.apply(&created(u32::MAX, b"y").into()).unwrap();
    assert_eq!(free(&state), [2, 3, 4, 6]);
}

#[test]
fn a_dropped_family_takes_its_partitions_along() {
    let mut state = state([Change::ColumnFamilyCreated {
        id: 1,
        name: "other".into(),
    }]);
    let edit = Change::PartitionCreated {
        cf: CfId(1),
        partition: PartitionId(1),
        start: (*b"m").into(),
    };
    state.apply(&edit.into()).unwrap();
    assert_eq!(state.version().partitions(CfId(1)).len(), 2);
    let edit = Change::ColumnFamilyDropped { id: 1 };
    state.apply(&edit.into()).unwrap();
    assert_eq!(state.version().divided().count(), 0);
    assert_eq!(again(&state), state);
}

#[test]
fn as_many_as_there_may_be_cost_an_edit_one_chunk() {
    let key = |n: usize| format!("{n:08}");
    let all =
        (1..limits::PARTITIONS_MAX).map(|n| created(u32::try_from(n).unwrap(), key(n).as_bytes()));
    let mut state = state(all);
    let id = next_id(&state);
    let error = state.apply(&created(id, b"x").into()).unwrap_err();
    assert!(error.to_string().contains("below 65535"), "{error}");
    let before = partitions(&state).clone();
    state
        .apply(&removed(777, key(777).as_bytes()).into())
        .unwrap();
    state.apply(&created(id, b"x").into()).unwrap();
    let (chunks, shared) = partitions(&state).shared_chunks(&before);
    assert!(shared >= chunks - 2, "{shared} of {chunks}");
    assert_eq!(before.of(b"00000778").id, PartitionId(778));
    assert_eq!(before.of(b"000007775").id, PartitionId(777));
    assert_eq!(partitions(&state).of(b"000007775").id, PartitionId(776));
    assert_eq!(again(&state), state);
}

/// Of parts in a row those are joined that may be, and no others.
#[test]
fn parts_in_a_row_become_one_as_far_as_they_may() {
    let whole = std::sync::Arc::new(TableRef {
        blobs: vec![],
        ..table(1, 10, 60, 100)
    });
    let mut state = state([Change::TableAdded {
        place: at(1),
        table: whole,
    }]);
    for key in [20, 30, 40, 50] {
        let cut = state.version().cut_at(CF, &[key], |_, _| Some((1, 2)));
        state.apply(&VersionEdit { changes: cut }).unwrap();
    }
    let joined = |keys: &[u8], may: &dyn Fn(&KeyRange) -> bool| -> Vec<(usize, u8, u8)> {
        let keys: Vec<_> = keys.iter().map(|key| vec![*key]).collect();
        let all = state
            .version()
            .joined_at(CF, &keys, |_, whole| may(&whole.range));
        let shown = |j: &Joined| {
            let range = &j.whole.range;
            (j.parts.len(), range.first[0], range.last[0])
        };
        let shown: Vec<_> = all.iter().map(shown).collect();
        let changes = all.into_iter().flat_map(Joined::changes).collect();
        state.clone().apply(&VersionEdit { changes }).unwrap();
        shown
    };
    assert_eq!(joined(&[20, 30, 40, 50], &|_| true), [(5, 10, 60)]);
    assert_eq!(joined(&[20, 30, 50], &|_| true), [(3, 10, 40), (2, 40, 60)]);
    assert_eq!(joined(&[20, 40], &|_| true), [(2, 10, 30), (2, 30, 50)]);
    assert_eq!(joined(&[25, 60], &|_| true), []);
    // A job works from 30 on, up to 40.
    let beside = |range: &KeyRange| range.ends_before(&[30]) || *range.first >= [40][..];
    assert_eq!(
        joined(&[20, 30, 40, 50], &beside),
        [(2, 10, 30), (2, 40, 60)]
    );
}
