//! Tables whose filters have prefixes: what they deny is not there, and little that is not there is let through.

use std::collections::BTreeSet;
use std::num::NonZeroU8;
use std::ops::Bound;

use thermocline_base::SeqNo;
use thermocline_base::bounds::{behind_prefix, is_behind, is_below};
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{FileSource, TablePart, WriteOptions, get, verify_table};
use thermocline_testkit::Rng;

use crate::common::*;

fn with_prefixes(len: u8) -> WriteOptions {
    WriteOptions {
        prefix_len: NonZeroU8::new(len),
        ..WriteOptions::default()
    }
}

/// Keys of eight bytes in some thousand prefixes of three, and one that is too short to have one.
fn contents(rng: &mut Rng) -> Contents {
    let mut keys = BTreeSet::from([b"k".to_vec()]);
    while keys.len() < 5000 {
        let prefix = u16::try_from(rng.below(2000)).unwrap().to_be_bytes();
        keys.insert([&b"p"[..], &prefix, &random_bytes(rng, 5)].concat());
    }
    Contents::of(
        keys.iter()
            .map(|key| Entry::put(key, 1, b"value"))
            .collect(),
    )
}

#[test]
fn a_prefix_that_is_there_is_never_denied_and_others_mostly_are() {
    let fs = fresh();
    let contents = contents(&mut Rng::new(3));
    contents.write(&fs, 7, with_prefixes(3)).unwrap();
    let (table, _) = open(&fs, 7).unwrap();
    assert_eq!(table.properties().prefix_len, NonZeroU8::new(3));
    let there: BTreeSet<&[u8]> = contents
        .entries
        .iter()
        .filter_map(|e| e.key.get(..3))
        .collect();
    let (mut absent, mut wrong) = (0, 0);
    for n in 0..10_000u16 {
        let prefix = [&b"p"[..], &n.to_be_bytes()].concat();
        let end = behind_prefix(&prefix).unwrap();
        let (begin, end) = (Bound::Included(&prefix[..]), Bound::Excluded(&end[..]));
        let denied = table.denied_prefix((begin, end));
        assert!(denied.is_none_or(|denied| denied == prefix));
        match there.contains(&prefix[..]) {
            true => assert_eq!(denied, None, "{n}"),
            false => {
                absent += 1;
                wrong += u32::from(denied.is_none());
            }
        }
        // What reaches further is not denied, whatever is there.
        assert_eq!(table.denied_prefix((begin, Bound::Unbounded)), None);
        assert_eq!(table.denied_prefix((Bound::Included(&b"k"[..]), end)), None);
    }
    // One in 256 would be 33 of 8,200.
    assert!(absent > 8000 && wrong < 70, "{wrong} of {absent}");
}

#[test]
fn without_prefixes_nothing_is_denied() {
    let without = WriteOptions {
        filter: false,
        ..with_prefixes(3)
    };
    for options in [WriteOptions::default(), without] {
        let fs = fresh();
        contents(&mut Rng::new(4)).write(&fs, 7, options).unwrap();
        let (table, _) = open(&fs, 7).unwrap();
        assert_eq!(table.properties().prefix_len, None);
        let absent = Bound::Included(&b"absent"[..]);
        assert_eq!(table.denied_prefix((absent, absent)), None);
    }
}

/// Whatever the keys are: those that are shorter than a prefix, that are one, and that have many versions.
#[test]
fn a_range_that_is_denied_has_no_entry() {
    let mut denied = 0;
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let n = 1 + rng.below(200);
        let contents = random_contents(&mut rng, n);
        let options = WriteOptions {
            filter: true,
            prefix_len: NonZeroU8::new(*rng.pick(&[1, 2, 4])),
            ..random_options(&mut rng)
        };
        let fs = fresh();
        contents.write(&fs, 7, options).unwrap();
        let file = fs.open(&path(7), OpenMode::Read).unwrap();
        let faults = verify_table(&file, identity(7)).faults;
        assert!(faults.is_empty(), "{seed}: {faults:?}");
        let (table, _) = open(&fs, 7).unwrap();
        for _ in 0..300 {
            let (from, to) = (random_key(&mut rng, 6), random_key(&mut rng, 6));
            let bound = |key, rng: &mut Rng| match rng.one_in(2) {
                true => Bound::Included(key),
                false => Bound::Excluded(key),
            };
            let range = (bound(&from[..], &mut rng), bound(&to[..], &mut rng));
            if table.denied_prefix(range).is_some() {
                denied += 1;
                let mut entries = contents.entries.iter();
                let within = |e: &Entry| !is_below(&e.key, range.0) && !is_behind(&e.key, range.1);
                assert!(!entries.any(within), "{seed}: {range:?}");
            }
        }
        let part = TablePart::whole(table);
        let source = FileSource(file);
        for key in contents.entries.iter().map(|e| &e.key) {
            let found = get(&part, key, SeqNo(u64::MAX - 1), &source).unwrap();
            assert_eq!(found.map(kept), contents.get(key, SeqNo(u64::MAX - 1)));
        }
    }
    assert!(denied > 100, "{denied}");
}
