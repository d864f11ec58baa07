//! What is kept of families is what it would be if it were reckoned anew, and it is reckoned where it must be.

use thermocline_base::options::Options;
use thermocline_base::{FileId, KeyRange, PmFamily, PmTableMeta, SeqNo};
use thermocline_version::{
    Change, Level, NextIds, Place, PmTableInfo, State, TableRef, VersionEdit, fixture,
};

use super::*;

const FAMILIES: u16 = 3;

/// Bytes that tables in persistent memory may have.
const SHARE: u64 = 10_000;

/// A store without tables.
fn store() -> State {
    let next = NextIds {
        file: 1000,
        chain: 1000,
        ..NextIds::default()
    };
    fixture::store(FAMILIES, next, [])
}

/// Adds a table in persistent memory, newer than those of smaller numbers, to level 0 of a family.
fn add(state: &mut State, cf: CfId, file: u64, bytes: u64) {
    let seqnos = (SeqNo(file), SeqNo(file));
    let family = PmFamily {
        cf,
        entries: 10,
        deletes: 0,
        merges: 0,
        range_tombstones: 0,
        key_bytes: 10,
        value_bytes: 10,
        seqnos,
        range: KeyRange::inclusive(b"a".to_vec(), b"m".to_vec()),
    };
    let meta = PmTableMeta {
        owner: file,
        zones: 1,
        zone_bytes: bytes,
        bytes,
        entries: 10,
        range_tombstones: 0,
        seqnos,
        families: vec![family],
        blobs: vec![],
    };
    let table = TableRef {
        file_bytes: bytes,
        bytes,
        entries: 10,
        ..fixture::table(file, ("a", "m"), (file, file))
    };
    let file = FileId(file);
    let in_pm = Change::PmTableAdded {
        table: Arc::new(PmTableInfo { file, meta }),
    };
    let added = Change::TableAdded {
        place: Place::new(cf, Level::ZERO),
        table: Arc::new(table),
    };
    let edit = VersionEdit::from(in_pm).with(added);
    state.apply(&edit).unwrap();
}

/// Of how many families it was reckoned anew, and how many bytes wait in all.
fn renewed(debts: &mut BTreeMap<CfId, Debt>, state: &State) -> (usize, u64) {
    let geometry = Geometry {
        pm_bytes_max: Some(SHARE),
        ..Geometry::of(&Options::default())
    };
    let sums = |debts: &BTreeMap<CfId, Debt>| {
        let each = debts.iter();
        let each = each.map(|(cf, debt)| (*cf, debt.runs, debt.pending_bytes));
        each.collect::<Vec<_>>()
    };
    let reckoned = renew(debts, &geometry, state.version());
    let mut anew = BTreeMap::new();
    renew(&mut anew, &geometry, state.version());
    assert_eq!(sums(debts), sums(&anew));
    let pending = debts.values().map(|debt| debt.pending_bytes).sum();
    (reckoned, pending)
}

#[test]
fn what_others_have_is_reckoned_anew_where_it_matters() {
    let (mut state, mut debts) = (store(), BTreeMap::new());
    for file in 1..=3 {
        let cf = CfId(u16::try_from(file - 1).unwrap());
        add(&mut state, cf, file, 1000);
    }
    assert_eq!(renewed(&mut debts, &state), (3, 0));
    assert_eq!(renewed(&mut debts, &state), (0, 0));
    // All have less room than before.
    add(&mut state, CfId(1), 4, 2000);
    assert_eq!(renewed(&mut debts, &state), (1, 0));
    // Now they have too much together, and each must give way.
    add(&mut state, CfId(1), 5, 8000);
    let (reckoned, pending) = renewed(&mut debts, &state);
    assert_eq!(reckoned, 3);
    assert!(pending >= 13_000, "{pending}");
    add(&mut state, CfId(0), 6, 1000);
    assert_eq!(renewed(&mut debts, &state).0, 1);
    // One goes, and they still have too much.
    let dropped = Change::ColumnFamilyDropped { id: 2 };
    state.apply(&dropped.into()).unwrap();
    assert_eq!(renewed(&mut debts, &state).0, 0);
    assert_eq!(debts.len(), 2);
    // With another one they do not.
    let dropped = Change::ColumnFamilyDropped { id: 1 };
    state.apply(&dropped.into()).unwrap();
    assert_eq!(renewed(&mut debts, &state), (1, 0));
    assert_eq!(debts.len(), 1);
}

/// A manifest is held to less than 2^64 bytes in a level of a family, and to nothing over families.
#[test]
fn what_families_of_any_size_are_behind_with_is_added_up() {
    let mut state = store();
    for (cf, file) in [(CfId(0), 1), (CfId(1), 2)] {
        let table = TableRef {
            file_bytes: u64::MAX - 1,
            bytes: u64::MAX - 1,
            ..fixture::table(file, ("a", "m"), (file, file))
        };
        let added = Change::TableAdded {
            place: Place::new(cf, Level::ZERO),
            table: Arc::new(table),
        };
        state.apply(&added.into()).unwrap();
    }
    let shape = Shape::new(&Options::default());
    let (_, pending) = Debts::default().of(&shape, state.version());
    assert_eq!(pending, u64::MAX);
}
