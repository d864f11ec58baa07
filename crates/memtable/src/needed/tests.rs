//! What a check of hand-made generations finds.

use std::sync::Arc;

use thermocline_halloc::Space;

use super::*;
use crate::fixture::{self, Registered, Row, generation};

const PM: u64 = 1 << 20;

fn space() -> Arc<Space> {
    fixture::space(PM, 256 << 10)
}

const NOBODY: &Registered = &Registered(Vec::new());

fn readers(settled: u64, registered: &Registered) -> Readers<'_> {
    Readers {
        settled: SeqNo(settled),
        moments: registered,
        exists: &|_, _| true,
    }
}

/// Who reads, and whether the generation is needed then.
struct Case {
    readers: &'static [u64],
    settled: u64,
    is_oldest: bool,
    needed: bool,
}

fn case(readers: &'static [u64], settled: u64, is_oldest: bool, needed: bool) -> Case {
    Case {
        readers,
        settled,
        is_oldest,
        needed,
    }
}

fn check(old: &Memtable, newer: &[&Memtable], cases: &[Case]) {
    for (i, case) in cases.iter().enumerate() {
        let registered = Registered(case.readers.iter().map(|&r| SeqNo(r)).collect());
        let readers = readers(case.settled, &registered);
        let around = Neighbours {
            newer,
            is_oldest: case.is_oldest,
        };
        let found = old.check_needed(&Position::default(), 100, readers, around);
        let needed = found.unwrap() != Checked::Nothing;
        assert_eq!(needed, case.needed, "case {i}");
    }
}

#[test]
fn a_version_is_needed_until_its_successor_is_settled_and_no_reader_is_between() {
    let space = space();
    let old = generation(&space, 1, &[(0, b"k", 5, true)], &[]);
    let new = generation(&space, 2, &[(0, b"k", 9, true)], &[]);
    let cases = [
        case(&[], 9, true, false),
        case(&[], 8, true, true),
        case(&[4, 9, 20], 20, true, false),
        case(&[4, 5, 9], 20, true, true),
        case(&[8], 20, false, true),
    ];
    check(&old, &[&new], &cases);
    check(&old, &[], &[case(&[], 20, true, true)]);
}

#[test]
fn a_newest_tombstone_is_needed_while_it_hides_something() {
    let space = space();
    let rows: &[Row<'_>] = &[(0, b"k", 5, false)];
    let old = generation(&space, 1, rows, &[]);
    let cases = [case(&[], 9, true, false), case(&[], 9, false, true)];
    check(&old, &[], &cases);
    // What a reader before the tombstone sees is in the list.
    let rows: &[Row<'_>] = &[(0, b"k", 3, true), (0, b"k", 5, false)];
    let old = generation(&space, 2, rows, &[4]);
    let cases = [
        case(&[4], 9, true, true),
        case(&[2, 5], 9, true, false),
        case(&[], 9, true, false),
    ];
    check(&old, &[], &cases);
}

#[test]
fn the_first_generation_that_has_the_key_tells_its_next_version() {
    let space = space();
    let old = generation(&space, 1, &[(7, b"k", 5, true)], &[]);
    let other = generation(&space, 2, &[(0, b"k", 6, true), (7, b"l", 7, true)], &[]);
    let rows: &[Row<'_>] = &[(7, b"k", 10, true), (7, b"k", 12, true)];
    let next = generation(&space, 3, rows, &[11]);
    let newest = generation(&space, 4, &[(7, b"k", 20, true)], &[]);
    let cases = [
        case(&[], 20, true, false),
        case(&[], 10, true, false),
        case(&[], 9, true, true),
        case(&[9], 20, true, true),
        case(&[10, 11, 12, 19], 20, true, false),
    ];
    check(&old, &[&other, &next, &newest], &cases);
    check(&old, &[&other], &[case(&[], 20, true, true)]);
}

/// Families far apart, checked in steps of every size: each key is met once, and a check that
/// stopped at a key that is needed goes on with that very key.
#[test]
fn a_check_goes_on_where_it_stopped() {
    let space = space();
    let families = [0u16, 1, 255, 256, 700, u16::MAX];
    let keys: [&[u8]; 4] = [b"", b"a", b"ab", b"b"];
    let all: Vec<(u16, &[u8])> = families
        .iter()
        .flat_map(|&cf| keys.map(|key| (cf, key)))
        .collect();
    let rows: Vec<Row<'_>> = (1..)
        .zip(&all)
        .map(|(s, &(cf, key))| (cf, key, s, true))
        .collect();
    let old = generation(&space, 1, &rows, &[]);
    let rows: Vec<Row<'_>> = (100..)
        .zip(&all)
        .map(|(s, &(cf, key))| (cf, key, s, true))
        .collect();
    let whole = generation(&space, 2, &rows, &[]);
    let readers = readers(1000, NOBODY);
    for lacking in 0..all.len() {
        let mut rows = rows.clone();
        rows.remove(lacking);
        let new = generation(&space, 3, &rows, &[]);
        for limit in 1..=all.len() {
            let mut position = Position::default();
            let mut around = Neighbours {
                newer: &[&new],
                is_oldest: true,
            };
            let mut steps = 0;
            loop {
                let found = old.check_needed(&position, limit, readers, around).unwrap();
                steps += 1;
                assert!(steps <= all.len(), "it ends");
                position = match found {
                    Checked::SoFar(at) => at,
                    Checked::Needed(at) => {
                        let (cf, key) = all[lacking];
                        let from = Bound::Included(key.to_vec());
                        assert_eq!(at, Position { cf: CfId(cf), from });
                        // Somebody writes the key.
                        around.newer = &[];
                        let again = old.check_needed(&at, limit, readers, around).unwrap();
                        assert_eq!(again, Checked::Needed(at.clone()));
                        break position = at;
                    }
                    Checked::Nothing => panic!("{lacking} is needed"),
                };
            }
            assert_eq!(steps, lacking / limit + 1);
            let around = Neighbours {
                newer: &[&whole],
                is_oldest: true,
            };
            let rest = all.len() - lacking;
            let found = old
                .check_needed(&position, rest + 1, readers, around)
                .unwrap();
            assert_eq!(found, Checked::Nothing);
            let found = old.check_needed(&position, rest, readers, around).unwrap();
            assert!(matches!(found, Checked::SoFar(_)), "{found:?}");
        }
    }
}

#[test]
fn a_record_that_cannot_be_read_is_an_error() {
    let space = space();
    let old = generation(&space, 1, &[(0, b"key", 5, true)], &[]);
    let new = generation(&space, 2, &[(0, b"key", 9, true)], &[]);
    let readers = readers(10, NOBODY);
    for damaged in [&new, &old] {
        let entry = damaged.tree(CfId(0)).unwrap();
        let guard = entry.pin();
        let leaf = entry
            .get(&guard, b"key", damaged.records())
            .unwrap()
            .unwrap()
            .leaf();
        space
            .region()
            .write(thermocline_pm::PmOff(leaf.offset() + 4), &[1, 0, 0, 0]);
        let around = Neighbours {
            newer: &[&new],
            is_oldest: true,
        };
        let found = old.check_needed(&Position::default(), 10, readers, around);
        assert_eq!(
            found.unwrap_err().kind(),
            thermocline_base::ErrorKind::Corruption
        );
    }
}

#[test]
fn what_belongs_to_a_dropped_family_is_not_needed() {
    let space = space();
    let rows: &[Row<'_>] = &[(1, b"k", 3, true), (1, b"k", 5, true), (2, b"k", 6, true)];
    let old = generation(&space, 1, rows, &[4]);
    let registered = Registered(vec![SeqNo(4), SeqNo(7)]);
    let around = Neighbours {
        newer: &[],
        is_oldest: false,
    };
    for (gone, needed) in [(&[1u16][..], true), (&[2], true), (&[1, 2], false)] {
        let exists = |cf: CfId, key: &[u8]| {
            assert_eq!(key, b"k");
            !gone.contains(&cf.0)
        };
        let readers = Readers {
            exists: &exists,
            ..readers(9, &registered)
        };
        let found = old.check_needed(&Position::default(), 10, readers, around);
        assert_eq!(found.unwrap() != Checked::Nothing, needed, "{gone:?}");
    }
}
