use thermocline_base::{FileId, KeyRange, SeqNo};
use thermocline_version::{Change, Level, NextIds, Place, State, TableRef, VersionEdit};

use super::*;

/// A level of one table of a hundred bytes.
fn level() -> Arc<LevelTables> {
    let place = Place::new(CfId(0), Level(1));
    let table = TableRef {
        file: FileId(1),
        file_bytes: 100,
        bytes: 100,
        entries: 10,
        deletes: 0,
        range: KeyRange::inclusive("a", "m").owned(),
        limited_below: false,
        limited_above: false,
        smallest_seqno: SeqNo(1),
        largest_seqno: SeqNo(1),
        blobs: vec![],
    };
    let edit = VersionEdit::new()
        .with(Change::Created {
            db_id: [1; 16],
            region_id: [2; 16],
        })
        .with(Change::ColumnFamilyCreated {
            id: 0,
            name: "default".into(),
        })
        .with(Change::NextIds(NextIds {
            cf: 1,
            file: 10,
            ..NextIds::default()
        }))
        .with(Change::TableAdded {
            place,
            table: Arc::new(table),
        });
    let mut state = State::default();
    state.apply(&edit).unwrap();
    Arc::clone(state.version().level(place).unwrap())
}

#[test]
fn what_is_asked_for_is_kept_and_what_is_gone_does_not_pile_up() {
    let (sums, level) = (LevelSums::default(), level());
    let again = || Arc::new(LevelTables::clone(&level));
    let kept = || lock(&sums.before).of.len();
    for family in 0..1000 {
        assert_eq!(*sums.before((CfId(family), 1), &again()), [0, 100]);
        assert!(kept() <= 2 * SWEEP_MIN);
    }
    let levels: Vec<_> = (0..1000).map(|family| (CfId(family), again())).collect();
    let ask = || {
        let asked = levels.iter();
        let asked = asked.map(|(cf, level)| sums.before((*cf, 2), level));
        asked.collect::<Vec<_>>()
    };
    let (first, second) = (ask(), ask());
    let mut pairs = first.iter().zip(&second);
    assert!(pairs.all(|(a, b)| Arc::ptr_eq(a, b)));
    assert!(kept() <= 1000 + 2 * SWEEP_MIN);
}
