//! What a check of hand-made memtables finds.

use std::sync::Arc;

use thermocline_halloc::Space;

use super::*;
use crate::fixture::{self, Registered, Row, memtable};

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

/// Who reads, and whether the memtable is needed then.
struct Case {
    readers: Vec<u64>,
    settled: u64,
    is_oldest: bool,
    needed: bool,
}

fn case(readers: &[u64], settled: u64, is_oldest: bool, needed: bool) -> Case {
    Case {
        readers: readers.to_vec(),
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
        let found = NeededCheck::new(old, readers, around).keys(&Position::default(), 100);
        let needed = found.unwrap() != Checked::Nothing;
        assert_eq!(needed, case.needed, "case {i}");
    }
}

#[test]
fn a_version_is_needed_until_its_successor_is_settled_and_no_reader_is_between() {
    let space = space();
    let old = memtable(&space, 1, &[(0, b"k", 5, true)], &[]);
    let new = memtable(&space, 2, &[(0, b"k", 9, true)], &[]);
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
    let old = memtable(&space, 1, rows, &[]);
    let cases = [case(&[], 9, true, false), case(&[], 9, false, true)];
    check(&old, &[], &cases);
    // What a reader before the tombstone sees is in the list.
    let rows: &[Row<'_>] = &[(0, b"k", 3, true), (0, b"k", 5, false)];
    let old = memtable(&space, 2, rows, &[4]);
    let cases = [
        case(&[4], 9, true, true),
        case(&[2, 5], 9, true, false),
        case(&[], 9, true, false),
    ];
    check(&old, &[], &cases);
}

#[test]
fn the_first_memtable_that_has_the_key_tells_its_next_version() {
    let space = space();
    let old = memtable(&space, 1, &[(7, b"k", 5, true)], &[]);
    let other = memtable(&space, 2, &[(0, b"k", 6, true), (7, b"l", 7, true)], &[]);
    let rows: &[Row<'_>] = &[(7, b"k", 10, true), (7, b"k", 12, true)];
    let next = memtable(&space, 3, rows, &[11]);
    let newest = memtable(&space, 4, &[(7, b"k", 20, true)], &[]);
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
    let old = memtable(&space, 1, &rows, &[]);
    let rows: Vec<Row<'_>> = (100..)
        .zip(&all)
        .map(|(s, &(cf, key))| (cf, key, s, true))
        .collect();
    let whole = memtable(&space, 2, &rows, &[]);
    let readers = readers(1000, NOBODY);
    for lacking in 0..all.len() {
        let mut rows = rows.clone();
        rows.remove(lacking);
        let new = memtable(&space, 3, &rows, &[]);
        for limit in 1..=all.len() {
            let mut position = Position::default();
            let mut around = Neighbours {
                newer: &[&new],
                is_oldest: true,
            };
            let mut steps = 0;
            loop {
                let found = NeededCheck::new(&old, readers, around)
                    .keys(&position, limit)
                    .unwrap();
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
                        let again = NeededCheck::new(&old, readers, around)
                            .keys(&at, limit)
                            .unwrap();
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
            let found = NeededCheck::new(&old, readers, around)
                .keys(&position, rest + 1)
                .unwrap();
            assert_eq!(found, Checked::Nothing);
            let found = NeededCheck::new(&old, readers, around)
                .keys(&position, rest)
                .unwrap();
            assert!(matches!(found, Checked::SoFar(_)), "{found:?}");
        }
    }
}

#[test]
fn a_record_that_cannot_be_read_is_an_error() {
    let space = space();
    let old = memtable(&space, 1, &[(0, b"key", 5, true)], &[]);
    let new = memtable(&space, 2, &[(0, b"key", 9, true)], &[]);
    let readers = readers(10, NOBODY);
    for damaged in [&new, &old] {
        let entry = &damaged.index(CfId(0)).unwrap().tree;
        let guard = entry.pin();
        let leaf = entry
            .get(&guard, b"key", damaged.records())
            .unwrap()
            .unwrap()
            .leaf();
        let at = thermocline_pm::PmOff(leaf.offset() + 4);
        fixture::rot(space.region(), at, &[1, 0, 0, 0]);
        let around = Neighbours {
            newer: &[&new],
            is_oldest: true,
        };
        let found = NeededCheck::new(&old, readers, around).keys(&Position::default(), 10);
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
    let old = memtable(&space, 1, rows, &[4]);
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
        let found = NeededCheck::new(&old, readers, around).keys(&Position::default(), 10);
        assert_eq!(found.unwrap() != Checked::Nothing, needed, "{gone:?}");
    }
}

/// Adds a range tombstone.
fn delete_range(memtable: &Memtable, start: &[u8], end: &[u8], seqno: u64, readers: &[u64]) {
    let keep = || Registered(readers.iter().map(|&r| SeqNo(r)).collect());
    memtable
        .insert_range(CfId(0), start, end, SeqNo(seqno), keep)
        .unwrap();
}

#[test]
fn a_range_tombstone_is_the_next_version_of_what_it_covers() {
    let space = space();
    // In its own memtable, in the next one, and in one where the key has versions too.
    for place in 0..4 {
        let old = memtable(&space, 1, &[(0, b"k", 5, true)], &[]);
        let rows: &[Row<'_>] = match place {
            2 => &[(0, b"k", 12, true)],
            3 => &[(0, b"k", 7, true), (0, b"k", 12, true)],
            _ => &[(0, b"x", 6, true)],
        };
        let new = memtable(&space, 2, rows, &[8]);
        let (to, seqno) = if place == 0 { (&old, 9) } else { (&new, 9) };
        delete_range(to, b"j", b"l", seqno, &[]);
        let next = if place == 3 { 7 } else { 9 };
        let cases = [
            case(&[], 9, true, false),
            case(&[], next - 1, true, true),
            case(&[4, next, 20], 20, true, false),
            case(&[5], 20, true, true),
            case(&[next - 1], 20, true, true),
        ];
        check(&old, &[&new], &cases);
        // Over another key it says nothing.
        let other = memtable(&space, 3, &[(0, b"l", 5, true), (0, b"k", 6, true)], &[]);
        check(&other, &[&new], &[case(&[], 20, true, true)]);
    }
}

#[test]
fn a_range_tombstone_is_needed_unless_it_hides_nothing_or_newer_ones_cover_it() {
    let space = space();
    let make = |readers: &[u64]| {
        let old = memtable(&space, 1, &[(0, b"k", 3, true)], &[]);
        delete_range(&old, b"b", b"p", 5, readers);
        old
    };
    let old = make(&[]);
    let cases = [case(&[], 9, true, false), case(&[], 9, false, true)];
    check(&old, &[], &cases);
    // A newer one over a part, over all, in pieces, without an end.
    type Range<'a> = (&'a [u8], &'a [u8]);
    let pieces: [(&[Range<'_>], bool); 6] = [
        (&[(b"c", b"p")], false),
        (&[(b"b", b"o")], false),
        (&[(b"b", b"p")], true),
        (&[(b"a", b"g"), (b"g", b"z")], true),
        (&[(b"a", b"g"), (b"h", b"z")], false),
        (&[(b"", b"")], true),
    ];
    for (ranges, whole) in pieces {
        let next = memtable(&space, 2, &[(0, b"x", 8, true)], &[]);
        let newest = memtable(&space, 3, &[(0, b"x", 12, true)], &[]);
        for (n, (start, end)) in ranges.iter().enumerate() {
            let to = if n == 0 { &next } else { &newest };
            delete_range(to, start, end, 10 + n as u64, &[]);
        }
        let last = 9 + ranges.len() as u64;
        let cases = [
            case(&[], 20, false, !whole),
            case(&[], last - 1, false, true),
            case(&[5], 20, false, true),
            case(&[2, last, 15], 20, false, !whole),
        ];
        check(&old, &[&next, &newest], &cases);
    }
    // What is painted over in its own memtable, and kept for a reader.
    let old = make(&[]);
    delete_range(&old, b"a", b"z", 7, &[6]);
    let whole = memtable(&space, 2, &[], &[]);
    delete_range(&whole, b"a", b"z", 9, &[]);
    let cases = [
        case(&[6], 20, false, true),
        case(&[2, 9], 20, false, false),
        case(&[7], 20, false, true),
        case(&[], 20, false, false),
        case(&[], 8, false, true),
    ];
    check(&old, &[&whole], &cases);
}

/// Memtables of one family made at random, against what each reader is answered without them.
#[test]
fn what_is_not_needed_changes_no_answer() {
    use thermocline_testkit::Rng;
    let mut rng = Rng::new(77);
    let keys: Vec<Vec<u8>> = (b'a'..b'h').map(|letter| vec![letter]).collect();
    let (mut dead, mut tombstones) = (0, 0);
    for _ in 0..400 {
        let space = space();
        let mut seqno = 0;
        let mut registered: Vec<u64> = (0..rng.below(3)).map(|_| rng.below(24) as u64).collect();
        registered.sort_unstable();
        let mut all: Vec<Memtable> = Vec::new();
        for id in 1..=3 {
            let memtable = memtable(&space, id, &[], &[]);
            all.push(memtable);
            for _ in 0..rng.below(8) {
                seqno += 1;
                let memtable = all.last().unwrap();
                let at = rng.below(keys.len());
                if rng.below(3) == 0 {
                    let end = keys.get(at + 1 + rng.below(4)).map_or(&[][..], |key| key);
                    delete_range(memtable, &keys[at], end, seqno, &registered);
                    continue;
                }
                let row = (0, &keys[at][..], seqno, rng.below(4) > 0);
                fixture::add(&space, memtable, row, &registered);
            }
        }
        let moments = Registered(registered.iter().map(|&r| SeqNo(r)).collect());
        let oldest = &all[0];
        let newer: Vec<&Memtable> = all[1..].iter().collect();
        for is_oldest in [true, false] {
            let around = Neighbours {
                newer: &newer,
                is_oldest,
            };
            let readers = readers(seqno, &moments);
            let found = NeededCheck::new(oldest, readers, around).keys(&Position::default(), 100);
            if found.unwrap() != Checked::Nothing {
                continue;
            }
            dead += 1;
            tombstones += usize::from(!is_oldest && !oldest.covers(CfId(0)).is_empty());
            // Below lies an older version of every key, unless it is the oldest.
            let answer = |memtables: &[&Memtable], key: &[u8], at: u64| {
                for memtable in memtables {
                    match memtable.get(CfId(0), key, SeqNo(at), true).unwrap() {
                        crate::Lookup::Absent => {}
                        crate::Lookup::Covered => return None,
                        crate::Lookup::Record(record) => {
                            return (record.kind == Kind::Put).then_some(record.seqno);
                        }
                    }
                }
                (!is_oldest).then_some(SeqNo::ZERO)
            };
            let mut with: Vec<&Memtable> = all.iter().collect();
            with.reverse();
            let without = &with[..2];
            for key in &keys {
                for &at in registered.iter().chain([&seqno]) {
                    assert_eq!(answer(&with, key, at), answer(without, key, at), "{at}");
                }
            }
        }
    }
    assert!(dead > 50 && tombstones > 5, "{dead} {tombstones}");
}
