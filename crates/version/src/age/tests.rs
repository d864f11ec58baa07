use super::*;
use crate::fixture::{self, at, state};

fn table(file: u64, first: &str, last: &str, smallest: u64, largest: u64) -> Arc<TableRef> {
    Arc::new(TableRef {
        file_bytes: 10,
        bytes: 10,
        entries: 1,
        ..fixture::table(file, (first, last), (smallest, largest))
    })
}

type Tables<'a> = &'a [&'a (u8, Arc<TableRef>)];

/// Whether a version with the tables of `before` takes an edit that removes those of `removed` and
/// adds those of `added`.
fn edit(before: Tables<'_>, removed: Tables<'_>, added: Tables<'_>) -> Result<(), String> {
    let add = |&&(level, ref table): &&(u8, Arc<TableRef>)| Change::TableAdded {
        place: at(level),
        table: Arc::clone(table),
    };
    let mut state = state(before.iter().map(add));
    let removals = removed.iter();
    let removals = removals.map(|placed| Change::table_removed(at(placed.0), &placed.1));
    let edit = VersionEdit {
        changes: removals.chain(added.iter().map(add)).collect(),
    };
    let before = Arc::clone(state.version());
    // A debug build asks by itself.
    let answer = state.apply(&edit);
    let answer = answer.and_then(|()| check_age(&before, state.version(), &edit));
    answer.map_err(|e| e.to_string())
}

fn refused(answer: Result<(), String>, why: &str, named: [u64; 2]) {
    let error = answer.unwrap_err();
    assert!(error.contains(why), "{error}");
    for file in named {
        assert!(error.contains(&format!("table {file}, ")), "{error}");
    }
}

#[test]
fn data_does_not_sink_past_a_table_that_stays() {
    let newer = (0, table(1, "a", "z", 50, 59));
    let older = (0, table(2, "m", "p", 30, 39));
    let before = [&newer, &older];
    let merged = (1, table(3, "a", "z", 50, 59));
    let past = "was moved past";
    refused(edit(&before, &[&newer], &[&merged]), past, [1, 2]);
    // Both together, or the older one first.
    edit(&before, &before, &[&(1, table(3, "a", "z", 30, 59))]).unwrap();
    edit(&before, &[&older], &[&(1, older.1.clone())]).unwrap();
    // Or what is moved does not overlap it.
    let apart = (0, table(4, "q", "z", 50, 59));
    edit(&[&apart, &older], &[&apart], &[&(1, apart.1.clone())]).unwrap();
}

#[test]
fn a_level_is_skipped_only_where_there_is_nothing() {
    let moved = (1, table(1, "a", "f", 50, 59));
    let between = (2, table(2, "d", "k", 10, 19));
    let before = [&moved, &between];
    let skips = [&(3, moved.1.clone())];
    refused(edit(&before, &[&moved], &skips), "was moved past", [1, 2]);
    edit(&before, &[&moved], &[&(3, table(3, "a", "c", 50, 59))]).unwrap();
    edit(&before, &before, &[&(3, table(3, "a", "k", 10, 59))]).unwrap();
    // Up is as wrong as down.
    let up = edit(&before, &[&between], &[&(0, between.1.clone())]);
    refused(up, "was moved past", [2, 1]);
}

#[test]
fn what_comes_from_above_all_levels_is_put_below_nothing() {
    let above = (1, table(1, "d", "k", 10, 19));
    let flushed = (2, table(2, "a", "f", 50, 59));
    let below = "was put below";
    refused(edit(&[&above], &[], &[&flushed]), below, [1, 2]);
    edit(&[&above], &[], &[&(2, table(2, "l", "z", 50, 59))]).unwrap();
    edit(&[&above], &[], &[&(0, flushed.1.clone())]).unwrap();
    // A merge with older data of the level does not hide it.
    let old = (2, table(3, "a", "z", 1, 5));
    let before = [&above, &old];
    let merged = (2, table(4, "a", "z", 1, 59));
    refused(edit(&before, &[&old], &[&merged]), below, [1, 4]);
    edit(&before, &[&old], &[&(2, table(4, "a", "z", 1, 5))]).unwrap();
}

#[test]
fn the_ends_of_ranges_show_a_key_that_lies_above_a_newer_one() {
    let deep = (2, table(1, "d", "k", 50, 59));
    let reversed = "above a newer one";
    for (first, last) in [("k", "z"), ("a", "d"), ("d", "k")] {
        let upper = (1, table(2, first, last, 10, 50));
        refused(edit(&[&deep], &[], &[&upper]), reversed, [1, 2]);
    }
    // One that may be newer, one whose end is not known to be a key, one that only spans.
    edit(&[&deep], &[], &[&(1, table(2, "a", "d", 10, 51))]).unwrap();
    let whole = table(2, "a", "z", 10, 50);
    let part = whole.part(Some(b"k"), None).unwrap();
    edit(&[&deep], &[], &[&(1, Arc::new(part))]).unwrap();
    edit(&[&deep], &[], &[&(1, whole)]).unwrap();
    // Also where the deeper one is new.
    let upper = (0, table(2, "k", "z", 10, 19));
    let other = (1, table(3, "k", "z", 50, 59));
    let both = [&other, &upper];
    refused(edit(&[&other], &[], &[&upper]), reversed, [3, 2]);
    assert!(edit(&[], &[], &both).is_err());
}

/// What a day of leveled compaction makes: a table around one that has sunk deeper and is newer.
#[test]
fn a_table_may_lie_above_a_newer_one_between_its_keys() {
    let sunk = (3, table(1, "m", "m", 50, 50));
    let left = (1, table(2, "b", "b", 1, 1));
    let right = (1, table(3, "y", "z", 2, 70));
    let before = [&sunk, &left, &right];
    let inputs = [&left, &right];
    let outputs = [
        &(2, table(4, "b", "y", 1, 2)),
        &(2, table(5, "z", "z", 70, 70)),
    ];
    edit(&before, &inputs, &outputs).unwrap();
}

#[test]
fn a_part_that_stays_has_not_moved() {
    let upper = (0, table(1, "a", "m", 50, 59));
    let beside = (0, table(2, "k", "p", 30, 39));
    let base = (1, table(3, "a", "p", 10, 19));
    let [taken, rest] = upper.1.cut_at(b"g", (1, 2)).unwrap();
    let (taken, rest) = ((0, Arc::new(taken)), (0, Arc::new(rest)));
    // What was below "g" goes down, with all of the table there; from there on nothing has passed the one beside.
    let outputs = [
        (1, table(4, "a", "f", 10, 59)),
        (1, table(5, "h", "p", 10, 19)),
    ];
    let before = [&upper, &beside, &base];
    let removed = [&upper, &base];
    assert_eq!(
        edit(&before, &removed, &[&rest, &outputs[0], &outputs[1]]),
        Ok(())
    );
    let past = "was moved past";
    refused(
        edit(&before, &removed, &[&taken, &outputs[0], &outputs[1]]),
        past,
        [1, 2],
    );
    refused(
        edit(&before, &removed, &[&outputs[0], &outputs[1]]),
        past,
        [1, 2],
    );
    // What is new lies before the part that stays.
    let outputs = [
        (1, table(4, "a", "f", 10, 19)),
        (1, table(5, "h", "p", 10, 59)),
    ];
    let new = "from outside was put below";
    refused(
        edit(&before, &removed, &[&rest, &outputs[0], &outputs[1]]),
        new,
        [5, 2],
    );
}
