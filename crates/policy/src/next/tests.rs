//! Parts alone and together.

use proptest::prelude::*;
use thermocline_base::{CfId, FileId, KeyRange, SeqNo};

use super::*;
use crate::collect::Refers;
use crate::cost::Form;
use crate::flush::Dram;
use crate::level0::{self, Budget, Content, Family, Level0Plan};
use crate::pick::{Cursors, DeletedRanges, Held, PickOptions, Reason, State, Table, level0_slices};
use crate::scans::Scans;
use crate::situation::{Charged, Deletes, FamilyLevels, Levels, Relief, Sealed};
use crate::{flush, tuning};

fn sealed(bytes: u64) -> Sealed {
    Sealed {
        sealed: flush::Sealed {
            automatic: true,
            memtables: 2,
            memtables_due: 0,
            bytes,
            taken_bytes: 0,
            blob_bytes: 0,
            blob_bytes_due: 1 << 30,
            pm_bytes: 1000,
            sealed_percent: 50,
            alone_percent: 50,
            tables: None,
            skips: false,
            descriptors_free: 60,
            dram: Dram {
                used: 0,
                limit: 1000,
                percent: 60,
                held_by_all: 0,
                budget: 1000,
            },
            scans: Scans::default(),
        },
        dead_in_merged: None,
        wide: None,
        room_wanted: false,
    }
}

/// A memtable may be due to be sealed long before it is half full of bytes.
#[test]
fn the_next_memtable_is_named_for_whoever_awaits_it() {
    let mut ahead = Ahead {
        active_bytes: 10,
        limits: seal::Limits {
            bytes: 100,
            blob_bytes: 1000,
            span: 50,
        },
        next_is_missing: true,
        next_is_awaited: false,
        lacks_zones: false,
        lacks_pages: false,
    };
    assert!(of_ahead(&ahead).is_none());
    ahead.next_is_awaited = true;
    let work = of_ahead(&ahead).map(|decision| decision.work);
    let named = Work::Prepare {
        grow: false,
        populate: false,
        name: true,
    };
    assert_eq!(work, Some(named));
    ahead.next_is_missing = false;
    assert!(of_ahead(&ahead).is_none());
}

#[test]
fn what_is_urgent_comes_first_and_says_why() {
    let mut memory = Memory::default();
    let mut situation = Situation {
        sealed: Some(sealed(500)),
        ..Situation::default()
    };
    let decision = next(&situation, &mut memory);
    assert_eq!(decision.work, Work::Flush);
    assert_eq!(
        decision.because.to_string(),
        "flush: 500 bytes are sealed, of 500"
    );
    let dead = Some(125);
    situation.sealed = situation.sealed.map(|sealed| Sealed {
        dead_in_merged: dead,
        ..sealed
    });
    assert_eq!(next(&situation, &mut memory).work, Work::RemakeIndexes);
    // What is wide is divided behind that, but not for a writer that found no room.
    let of_wide = |dead_in_merged, room_wanted| {
        let of = Sealed {
            dead_in_merged,
            wide: Some(300),
            room_wanted,
            ..sealed(500)
        };
        let situation = Situation {
            sealed: Some(of),
            ..Situation::default()
        };
        next(&situation, &mut Memory::default()).work
    };
    assert_eq!(of_wide(dead, false), Work::RemakeIndexes);
    assert_eq!(of_wide(None, false), Work::DivideIndexes);
    assert_eq!(of_wide(None, true), Work::Flush);
    situation.deletes = Some(Deletes {
        wanted: true,
        relieving: true,
    });
    assert_eq!(next(&situation, &mut memory).work, Work::Relief);
    let nothing = next(&Situation::default(), &mut memory);
    assert_eq!(nothing, Decision::nothing());
}

/// A division is for a flush that is near: no read pays for it. What must be merged is.
#[test]
fn an_index_is_divided_unless_it_must_be_merged() {
    let wide = indexes::Index {
        keys: 9,
        bytes: 90,
        dead: 1,
        may: true,
        memtables: &[30, 30, 30],
    };
    let near = indexes::Width {
        is_far: false,
        takes: 30,
        bytes_max: 50,
    };
    let of = |width, must| {
        let of = Indexes {
            newest_first: &[wide],
            width,
            asked: 0,
            paid: 0,
            merge_percent: 100,
            must,
        };
        of_indexes(&of).0
    };
    let divided = of(near, false).unwrap();
    let Work::DivideIndex(division) = &divided.work else {
        panic!("{divided:?}");
    };
    assert_eq!((division.place, &division.parts[..]), (0, &[1, 1, 1][..]));
    assert_eq!(
        divided.because.to_string(),
        "indexes: 90 bytes share one, and a flush takes 30"
    );
    let far = indexes::Width {
        is_far: true,
        ..near
    };
    assert_eq!(of(far, false), None);
    // It comes divided, or each pointer would be moved twice before one flush.
    for (width, expected) in [(near, &[1, 1, 1][..]), (far, &[][..])] {
        match of(width, true).unwrap().work {
            Work::MergeIndexes(choice, parts) => {
                assert_eq!((choice.first, choice.count, &parts[..]), (0, 1, expected));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A table of level 0, the `n`th to come there.
fn table(n: u64, bytes: u64) -> Table<'static> {
    Table {
        file: FileId(n),
        range: KeyRange::inclusive(b"a", b"z"),
        bytes,
        smallest_seqno: SeqNo(n),
        largest_seqno: SeqNo(n),
        entries: 1,
        deletes: u64::from(bytes == 0),
        in_pm: false,
    }
}

/// Level 0 of one family with this many runs of so many bytes. With `relief` the disk is full.
fn with_runs<T>(
    (runs, bytes): (u64, u64),
    charged: Charged,
    relief: Option<Relief>,
    then: impl FnOnce(Situation<'_>) -> T,
) -> T {
    let level0 = (1..=runs).rev().map(|n| table(n, bytes));
    with_level0(level0.collect(), charged, relief, then)
}

/// The same with these tables.
fn with_level0<T>(
    level0: Vec<Table<'static>>,
    charged: Charged,
    relief: Option<Relief>,
    then: impl FnOnce(Situation<'_>) -> T,
) -> T {
    let tables = [level0];
    let cursors = Cursors::default();
    let families = [FamilyLevels {
        family: CfId::DEFAULT,
        state: State {
            levels: &tables,
            running: &[],
        },
        running: &[],
        options: PickOptions::default(),
        cursors: &cursors,
        contents: &[],
        deleted: DeletedRanges::default(),
    }];
    let levels = Levels {
        families: &families,
        level0: None,
        pm_files: &[],
        is_past_share: false,
        relief,
        is_disk_full: relief.is_some(),
        is_by_hand: false,
        internal_gave_up: false,
        refused: &[],
        charged,
        garbage: &[],
        may_move: true,
    };
    then(Situation {
        levels: Some(levels),
        now_ns: 1,
        ..Situation::default()
    })
}

/// Where level 0 lies in persistent memory only by what is rewritten, costs are not asked once the last of it has left. What is rewritten
/// next has the whole share: else a part of it would leave at once, each time.
#[test]
fn level_0_drains_no_more_once_nothing_of_it_is_left() {
    const ZONE: u64 = 64 << 10;
    let keys: [&[u8]; 10] = [b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9"];
    // That of ten tables, of which nine are too many, and four may stay then.
    let budget = Budget {
        form: Form::Corrected,
        bytes: 10 * ZONE,
        bytes_while_merging: 12 * ZONE,
        part_bytes: ZONE,
        table_bytes: ZONE,
        blob_bytes_max: 1 << 20,
    };
    let planned = |count: usize, memory: &Memory| {
        let numbered = keys[..count].iter().zip((1..=count as u64).rev());
        let tables = numbered.map(|(key, n)| Table {
            range: KeyRange::inclusive(*key, *key),
            in_pm: true,
            ..table(n, ZONE)
        });
        let levels = [tables.collect::<Vec<_>>()];
        let content = Content {
            entries: 1000,
            zone_bytes: Some(ZONE),
            blob_bytes: 0,
        };
        let family = Family {
            family: CfId::DEFAULT,
            state: State {
                levels: &levels,
                running: &[],
            },
            contents: &vec![content; count],
            rates: &[],
        };
        level0::plan(&budget, &[family], &memory.level0)
    };
    let ask = |plan: Option<&Level0Plan>, memory: &mut Memory| {
        with_runs((0, 0), Charged::None, None, |given| {
            let mut situation = given;
            situation.levels.as_mut().unwrap().level0 = plan;
            next(&situation, memory);
        });
    };
    let mut memory = Memory::default();
    let full = planned(10, &memory);
    assert!(full.drains && !planned(6, &memory).drains);
    ask(Some(&full), &mut memory);
    assert!(planned(6, &memory).drains, "until four are left");
    ask(None, &mut memory);
    assert!(!planned(6, &memory).drains);
}

#[test]
fn reads_are_looked_at_when_nothing_else_is_due() {
    let work = |runs: u64, charged: Charged| {
        with_runs((runs, 1 << 20), charged, None, |situation| {
            next(&situation, &mut Memory::default()).work
        })
    };
    let runs = tuning::LEVEL0_RUNS as u64;
    assert_eq!(work(runs - 1, Charged::Unknown), Work::LookAtReads);
    assert_eq!(work(runs - 1, Charged::None), Work::Nothing);
    let table = Charged::Table {
        family: CfId::DEFAULT,
        level: 0,
        place: 0,
    };
    assert!(matches!(work(runs - 1, table), Work::Compact { job, .. } if job.from == 0));
    assert!(matches!(work(runs, Charged::Unknown), Work::Compact { .. }));
}

/// A job of tables with nothing but range tombstones reads no bytes. Where it has found no room on a full disk it is put off
/// as a larger one is, and not picked again at once.
#[test]
fn a_job_of_no_bytes_that_gave_up_is_put_off() {
    let room = 1 << 20;
    let relief = Some(Relief {
        room: Some(room),
        is_any_running: false,
        rewrite_before: FileId(0),
    });
    // So few that a rewrite finds room, or so many that they are too many.
    for runs in [2, tuning::LEVEL0_RUNS as u64] {
        with_runs((runs, 0), Charged::None, relief, |situation| {
            let mut memory = Memory::default();
            let work = next(&situation, &mut memory).work;
            assert!(matches!(work, Work::Compact { job, .. } if job.bytes == 0 && !job.trivial));
            memory.gave_up.gave_up(0, room, 1);
            assert_eq!(next(&situation, &mut memory).work, Work::Nothing, "{runs}");
            memory.gave_up.forget();
            assert!(next(&situation, &mut memory).is_something());
        });
    }
}

/// What gave up is put off, and a smaller job of the same family is not. If a family had but the job that comes first, nothing would be
/// done on a full disk as long as that is too large.
#[test]
fn smaller_jobs_of_a_family_are_tried_where_one_gave_up() {
    let room = 1 << 20;
    let relief = Some(Relief {
        room: Some(room),
        is_any_running: false,
        rewrite_before: FileId(0),
    });
    let slices: [(&[u8], &[u8], u64); 3] = [
        (b"a", b"c", 9 << 20),
        (b"f", b"h", 9 << 20),
        (b"p", b"r", 1 << 20),
    ];
    let runs = tuning::LEVEL0_RUNS as u64;
    let tables = (1..=3 * runs).rev().map(|n| {
        let (first, last, bytes) = slices[usize::try_from(n % 3).unwrap()];
        Table {
            range: KeyRange::inclusive(first, last),
            ..table(n, bytes)
        }
    });
    let tables: Vec<Table<'static>> = tables.collect();
    let mut memory = Memory::default();
    let mut bytes = || {
        with_level0(tables.clone(), Charged::None, relief, |situation| {
            let bytes = match next(&situation, &mut memory).work {
                Work::Compact { job, .. } => Some(job.bytes),
                _ => None,
            };
            memory.gave_up.gave_up(bytes.unwrap_or(0), room, 1);
            bytes
        })
    };
    assert_eq!(bytes(), Some(19 * (runs << 20)), "all of them");
    assert_eq!(bytes(), Some(9 * (runs << 20)), "as many as are smaller");
    assert_eq!(bytes(), Some(runs << 20), "the one that is smaller");
    assert_eq!(bytes(), None);
}

proptest! {
    #[test]
    fn the_same_situation_is_decided_alike(runs in 0u64..12, bytes in 0u64..900) {
        with_runs((runs, 1 << 20), Charged::None, None, |situation| {
            let situation = Situation { sealed: Some(sealed(bytes)), ..situation };
            let mut memory = Memory::default();
            let first = next(&situation, &mut memory);
            let again = next(&situation, &mut memory.clone());
            prop_assert_eq!(&first, &again);
            prop_assert_eq!(first.is_something(), bytes >= 500 || runs >= tuning::LEVEL0_RUNS as u64);
            Ok(())
        })?;
    }
}

#[test]
fn collection_and_what_is_too_large_take_turns() {
    let garbage = [Refers {
        family: CfId::DEFAULT,
        level: 0,
        place: 0,
        bytes: 5,
    }];
    let of = |runs, relief: Option<Relief>, memory: &mut Memory| {
        with_runs((runs, 9), Charged::None, relief, |given| {
            let mut situation = given;
            let levels = situation.levels.as_mut().unwrap();
            levels.garbage = &garbage;
            match next(&situation, memory).work {
                Work::Compact { job, .. } => Some(job.reason),
                _ => None,
            }
        })
    };
    let mut memory = Memory::default();
    let turns: Vec<_> = (0..4).map(|_| of(9, None, &mut memory)).collect();
    let (garbage, size) = (Some(Reason::Garbage), Some(Reason::Level0));
    assert_eq!(turns, [garbage, size, garbage, size]);
    // Where nothing is too large, moves of values wait for no turn.
    let turns: Vec<_> = (0..3).map(|_| of(1, None, &mut memory)).collect();
    assert_eq!(turns, [garbage; 3]);
    // On a full disk it comes last, and where it has room.
    let full = |room| Relief {
        room: Some(room),
        is_any_running: false,
        rewrite_before: FileId(0),
    };
    assert_eq!(of(9, Some(full(1 << 40)), &mut memory), size);
    assert_eq!(of(1, Some(full(1 << 40)), &mut memory), garbage);
    assert_eq!(of(1, Some(full(0)), &mut memory), None);
    memory.gave_up.gave_up(1, 1 << 40, 0);
    assert_eq!(of(1, Some(full(1 << 40)), &mut memory), None);
}

/// Each has its values there twice until it ends.
#[test]
fn values_wait_while_others_move_as_much_as_may_be_there_twice() {
    let garbage = [Refers {
        family: CfId::DEFAULT,
        level: 0,
        place: 0,
        bytes: 5,
    }];
    let of = |runs, may_move| {
        with_runs((runs, 9), Charged::None, None, |given| {
            let mut situation = given;
            let levels = situation.levels.as_mut().unwrap();
            levels.garbage = &garbage;
            levels.may_move = may_move;
            let collection = next_collection(levels).is_some();
            match next(&situation, &mut Memory::default()).work {
                Work::Compact { job, .. } => (collection, Some(job.reason)),
                _ => (collection, None),
            }
        })
    };
    assert_eq!(of(1, true), (true, Some(Reason::Garbage)));
    assert_eq!(of(1, false), (false, None));
    // Others have their turn.
    assert_eq!(of(9, false), (false, Some(Reason::Level0)));
}

/// What rests is no job that will write a file: what lies above it may be merged.
#[test]
fn a_table_that_rests_is_no_file_to_come() {
    let levels = [vec![table(2, 1 << 20), table(1, 1 << 20)]];
    let files = |running: &[Held]| {
        let state = State {
            levels: &levels,
            running,
        };
        let slices = level0_slices(&state);
        (slices[0].files, slices[0].free)
    };
    assert_eq!(files(&[]), (2, true));
    assert_eq!(files(&[Held::resting(0, &levels[0][1])]), (2, false));
}
