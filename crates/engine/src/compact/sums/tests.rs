use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use thermocline_base::FileId;
use thermocline_base::chunked::CHUNK_LEN_MAX;
use thermocline_policy::pick::{
    self, Expired, Job, PickOptions, Table, Tables, pick_room, pick_tombstones,
};
use thermocline_testkit::{Replay, Rng, seeds};
use thermocline_version::fixture::{self, at};
use thermocline_version::{Change, NextIds, State};

use super::*;
use crate::compact::shape::Levels;

/// Tables of each level of a large store, by their places.
const TABLES: u64 = 1000;

/// The place of the table of which pickers are to find something.
const ONE: usize = 700;

/// A level of one table of a hundred bytes.
fn level() -> Arc<LevelTables> {
    let table = TableRef {
        bytes: 100,
        file_bytes: 100,
        ..fixture::table(1, ("a", "m"), (1, 1))
    };
    let state = fixture::state([Change::TableAdded {
        place: at(1),
        table: Arc::new(table),
    }]);
    Arc::clone(state.version().level(at(1)).unwrap())
}

/// A store with so many tables in each of the levels 1 and 2, of which each has the keys of one in the other level; as they
/// are once `change` was told level and place.
fn large(mut change: impl FnMut(u8, u64, &mut TableRef)) -> State {
    let next = NextIds {
        file: 10 * TABLES,
        ..NextIds::default()
    };
    let places = [1, 2].into_iter();
    let places = places.flat_map(|level| (0..TABLES).map(move |n| (level, n)));
    let tables = places.map(|(level, n)| {
        // What lies above is newer.
        let seqno = 10 * TABLES * u64::from(3 - level) + n;
        let keys = (2 * n, 2 * n + 1);
        let keys = (keys.0.to_be_bytes(), keys.1.to_be_bytes());
        let file = TABLES * u64::from(level) + n;
        let mut table = fixture::table(file, keys, (seqno, seqno));
        change(level, n, &mut table);
        let table = Arc::new(table);
        Change::TableAdded {
            place: at(level),
            table,
        }
    });
    fixture::store(1, next, tables)
}

/// Compares stretches with a look at each table.
fn check(tables: &LevelTables, stretches: &[Stretch]) {
    let all: Vec<&Arc<TableRef>> = tables.iter().collect();
    let mut next = 0;
    for stretch in stretches {
        let Range { start, end } = stretch.places;
        assert!(start == next && start < end && end - start <= CHUNK_LEN_MAX);
        let (mut deletes, mut entries, mut newest) = (0_u64, u64::MAX, SeqNo::MAX);
        for table in &all[start..end] {
            deletes = deletes.max(table.deletes);
            entries = entries.min(table.entries);
            newest = newest.min(table.largest_seqno);
        }
        assert_eq!(stretch.deletes_max, deletes);
        assert_eq!(stretch.entries_min, entries);
        assert_eq!(stretch.newest_min, newest);
        next = end;
    }
    assert_eq!(next, all.len());
}

/// Levels, and at which of their tables somebody has looked.
#[derive(Debug)]
struct Looks<'l> {
    levels: &'l dyn Tables,
    at: RefCell<BTreeSet<(usize, usize)>>,
}

impl Tables for Looks<'_> {
    fn level_count(&self) -> usize {
        self.levels.level_count()
    }

    fn level0(&self) -> &[Table<'_>] {
        self.levels.level0()
    }

    fn len_of(&self, level: usize) -> usize {
        self.levels.len_of(level)
    }

    fn table(&self, level: usize, place: usize) -> Table<'_> {
        self.at.borrow_mut().insert((level, place));
        self.levels.table(level, place)
    }

    fn bytes_of(&self, level: usize) -> u64 {
        self.levels.bytes_of(level)
    }

    fn deletes_of(&self, level: usize) -> u64 {
        self.levels.deletes_of(level)
    }

    fn stretches(&self, level: usize) -> &[Stretch] {
        self.levels.stretches(level)
    }
}

/// What a picker picks, and at how many tables of levels 1 and 2 it looks.
type Picked = (Option<Job>, [usize; 2]);

/// What is picked because of deletes, because of what has expired up to a seqno, and for room.
fn picked(levels: &Levels<'_>, up_to: u64) -> [Picked; 3] {
    let options = PickOptions {
        last_level: 2,
        ..PickOptions::default()
    };
    let expired = Expired {
        up_to: SeqNo(up_to),
        seen: None,
    };
    let ask = |picker: &dyn Fn(&pick::State<'_>) -> Option<Job>| {
        let looks = Looks {
            levels,
            at: RefCell::default(),
        };
        let job = picker(&pick::State {
            levels: &looks,
            running: &[],
        });
        let at = looks.at.into_inner();
        let in_level = |level: usize| at.iter().filter(|place| place.0 == level).count();
        (job, [1, 2].map(in_level))
    };
    [
        ask(&|state| pick_tombstones(&[], state, &options)),
        ask(&|state| expired.pick(state, &options)),
        ask(&|state| pick_room(state, &options, FileId(0), u64::MAX)),
    ]
}

/// What is picked of a store with stretches and without: the same.
fn both(state: &State, up_to: u64) -> [[Picked; 3]; 2] {
    let sums = LevelSums::default();
    let [with, without] = [true, false].map(|stretched| {
        let levels = Levels::of(state.version(), CfId(0), None);
        if stretched {
            levels.with_stretches(&sums, true);
        }
        for level in [1, 2] {
            assert_eq!(levels.stretches(level).is_empty(), !stretched);
        }
        picked(&levels, up_to)
    });
    for (with, without) in with.iter().zip(&without) {
        assert_eq!(with.0, without.0);
    }
    [with, without]
}

/// Most tables of a level at which a picker looks that passes over stretches: those of one of them; of each the first and
/// the last, and as many as it takes to find by halving where the tables begin and end that lie below.
fn few() -> usize {
    let tables = usize::try_from(TABLES).unwrap();
    let halvings = usize::try_from(tables.ilog2()).unwrap() + 1;
    CHUNK_LEN_MAX + tables.div_ceil(CHUNK_LEN_MAX) * (2 + 2 * halvings)
}

#[test]
fn pickers_pass_over_stretches_in_which_nothing_is_due() {
    // One table has many deletes, another one has expired.
    let state = large(|level, n, table| match (level, n == ONE as u64) {
        (1, true) => table.deletes = 60,
        (2, true) => (table.smallest_seqno, table.largest_seqno) = (SeqNo(1), SeqNo(1)),
        _ => {}
    });
    let [with, without] = both(&state, 1);
    // In which level each of them finds it.
    for ((with, without), level) in with.iter().zip(&without).zip([1, 2, 1]) {
        let job = with.0.as_ref().unwrap();
        assert_eq!((job.from, &job.inputs[..]), (level, &[ONE][..]));
        assert!(without.1[level - 1] > ONE, "{without:?}");
        assert!(with.1.iter().all(|looks| *looks <= few()), "{with:?}");
    }
}

#[test]
fn pickers_that_find_nothing_look_at_few_tables() {
    // Each has a delete, which is too few for what lies below.
    let state = large(|_, _, table| table.deletes = 1);
    let [[tombstones, expired, _], [all, all_expired, _]] = both(&state, 0);
    assert_eq!((&tombstones.0, &expired.0), (&None, &None));
    let tables = usize::try_from(TABLES).unwrap();
    assert_eq!((all.1, all_expired.1), ([tables; 2], [tables; 2]));
    assert!(
        tombstones.1[0] <= 2 * tables.div_ceil(CHUNK_LEN_MAX),
        "{tombstones:?}"
    );
    assert!(tombstones.1[1] <= few(), "{tombstones:?}");
    assert_eq!(expired.1, [0, 0]);
}

#[test]
fn stretches_are_what_a_look_at_each_table_finds() {
    for seed in seeds(0..4) {
        let _replay = Replay::new("-p thermocline-engine stretches_are_what_a_look", seed);
        let mut rng = Rng::new(seed);
        let mut draw = move |table: &mut TableRef| {
            table.entries = 1 + rng.below(100) as u64;
            table.deletes = table.entries.min(rng.below(50) as u64);
            table.largest_seqno = table.smallest_seqno.plus(rng.below(500) as u64);
        };
        let mut state = large(|_, _, table| draw(table));
        let (sums, mut rng, mut gone) = (LevelSums::default(), Rng::new(!seed), Vec::new());
        let look = |state: &State| {
            let level = state.version().level(at(1)).unwrap();
            check(level, sums.stretches((CfId(0), 1), level).all());
            level.len()
        };
        let mut len = look(&state);
        for _ in 0..100 {
            // One goes, or comes back as another one.
            let change = match gone.pop() {
                Some(table) if rng.one_in(2) => {
                    let mut table = TableRef::clone(&table);
                    draw(&mut table);
                    Change::TableAdded {
                        place: at(1),
                        table: Arc::new(table),
                    }
                }
                kept => {
                    gone.extend(kept);
                    let level = state.version().level(at(1)).unwrap();
                    let table = level.iter().nth(rng.below(len)).unwrap();
                    gone.push(TableRef::clone(table));
                    Change::table_removed(at(1), table)
                }
            };
            state.apply(&change.into()).unwrap();
            len = look(&state);
        }
    }
}

#[test]
fn what_is_asked_for_is_kept_and_what_is_gone_does_not_pile_up() {
    let (sums, level) = (LevelSums::default(), level());
    let again = || Arc::new(LevelTables::clone(&level));
    let kept = || lock(&sums.before).of.len();
    for family in 0..1000 {
        assert_eq!(*sums.before((CfId(family), 1), &again()), [0, 100]);
        assert!(kept() <= 2 * SUMS_KEPT_MIN);
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
    assert!(kept() <= 1000 + 2 * SUMS_KEPT_MIN);
}
