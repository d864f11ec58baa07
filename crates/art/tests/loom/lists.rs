//! Version lists: replaced as a whole, and kept while a reader may look at one.
//!
//! Seen to fail when a list that was replaced is released at once.

use thermocline_base::SeqNo;

use crate::check;
use crate::keys::{Indexed, Keys, number};
use crate::leaf::Leaf;
use crate::sync::thread;
use crate::versions::Version;

/// Version `n` of the one key has seqno `n` and leads to record `n`.
const KEYS: &[&[u8]] = &[b"k", b"k", b"k", b"k", b"k", b"k", b"k"];

/// Writes version `n` and keeps what a reader at seqno 0 sees.
fn write(indexed: &Indexed, n: u64) {
    let leaf = Leaf::of(KEYS[0], 8 * n);
    let guard = indexed.tree.pin();
    let written = indexed
        .tree
        .update(&guard, KEYS[0], &Keys(KEYS), |present| {
            let present = present.expect("it has one at the beginning");
            let only = present.leaf().offset() / 8;
            Ok(Some(present.with_version(
                SeqNo(n),
                leaf,
                || Ok(SeqNo(only)),
                &[SeqNo(0)][..],
            )?))
        });
    written.unwrap();
}

/// The versions that a reader finds.
fn versions(indexed: &Indexed) -> Vec<usize> {
    let guard = indexed.tree.pin();
    let entry = indexed
        .tree
        .get(&guard, KEYS[0], &Keys(KEYS))
        .unwrap()
        .unwrap();
    let Some(list) = entry.list() else {
        return vec![number(entry.leaf())];
    };
    list.iter()
        .map(|version| {
            assert_eq!(version.seqno.0, number(version.leaf) as u64);
            number(version.leaf)
        })
        .collect()
}

#[test]
fn a_reader_sees_one_list_whole() {
    check("lists replaced and released beside a reader", 3, || {
        let indexed = Indexed::new(KEYS, 1);
        write(&indexed, 1);
        let writer = {
            let indexed = indexed.clone();
            thread::spawn(move || {
                write(&indexed, 2);
                write(&indexed, 3);
                indexed.tree.collect();
            })
        };
        let first = versions(&indexed);
        assert!((1..=3).any(|n| first == [n, 0]), "{first:?}");
        let second = versions(&indexed);
        assert!(
            second[0] >= first[0] && second[1] == 0,
            "{first:?} {second:?}"
        );
        writer.join().unwrap();
        assert_eq!(versions(&indexed), [3, 0]);
    });
}

#[test]
fn no_version_is_lost_between_two_writers() {
    check("two writers of one key", 3, || {
        let indexed = Indexed::new(KEYS, 1);
        let writers = [1, 2].map(|n| {
            let indexed = indexed.clone();
            thread::spawn(move || write(&indexed, n as u64))
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        let seen = versions(&indexed);
        // Whoever comes second keeps its own version, even if it is not the newest.
        assert!(seen == [2, 0] || seen == [2, 1, 0], "{seen:?}");
        indexed.tree.collect();
        assert_eq!(indexed.tree.memory().lists, 1);
    });
}

/// Version `n` is an operand, or a base that hides all before; nobody reads in the past.
fn stack_up(indexed: &Indexed, n: u64, is_operand: bool) {
    let leaf = Leaf::of(KEYS[0], 8 * n);
    let leaf = if is_operand { leaf.as_operand() } else { leaf };
    let guard = indexed.tree.pin();
    let written = indexed
        .tree
        .update(&guard, KEYS[0], &Keys(KEYS), |present| {
            let present = present.expect("it has one at the beginning");
            let only = present.leaf().offset() / 8;
            let nobody: &[SeqNo] = &[];
            let new = present.with_version(SeqNo(n), leaf, || Ok(SeqNo(only)), nobody)?;
            Ok(Some(new))
        });
    written.unwrap();
}

/// Seen to fail when `retire` gives back a block that the new list shares.
#[test]
fn a_reader_sees_operands_and_what_they_are_on() {
    check(
        "a chain of blocks that grows and goes beside a reader",
        3,
        || {
            let indexed = Indexed::new(KEYS, 1);
            stack_up(&indexed, 1, true);
            stack_up(&indexed, 2, true);
            let writer = {
                let indexed = indexed.clone();
                thread::spawn(move || {
                    stack_up(&indexed, 3, true);
                    stack_up(&indexed, 4, false);
                    indexed.tree.collect();
                })
            };
            let guard = indexed.tree.pin();
            let entry = indexed.tree.get(&guard, KEYS[0], &Keys(KEYS));
            let entry = entry.unwrap().unwrap();
            let seen: Vec<usize> = entry.stack(SeqNo::MAX).map(number).collect();
            let whole = [&[2, 1, 0][..], &[3, 2, 1, 0], &[4]].contains(&&*seen);
            assert!(whole, "{seen:?}");
            drop(guard);
            writer.join().unwrap();
            indexed.tree.collect();
            assert_eq!(indexed.tree.memory().lists, 0);
        },
    );
}

/// Versions 2 and 3 are operands that come later than those above them, with one update.
fn stack_below(indexed: &Indexed) {
    let late = [3, 2].map(|n| Version {
        seqno: SeqNo(n),
        leaf: Leaf::of(KEYS[0], 8 * n).as_operand(),
    });
    let guard = indexed.tree.pin();
    let written = indexed
        .tree
        .update(&guard, KEYS[0], &Keys(KEYS), |present| {
            let present = present.expect("it has some");
            let nobody: &[SeqNo] = &[];
            let new = present.with_versions(&late, || unreachable!("it has a list"), nobody)?;
            Ok(Some(new))
        });
    written.unwrap();
}

/// The blocks above are copied, and the one below is shared.
#[test]
fn a_reader_sees_operands_that_come_late_all_or_none() {
    check("operands below newer ones beside a reader", 3, || {
        let indexed = Indexed::new(KEYS, 1);
        for n in [1, 4, 5] {
            stack_up(&indexed, n, true);
        }
        let writer = {
            let indexed = indexed.clone();
            thread::spawn(move || {
                stack_below(&indexed);
                stack_up(&indexed, 6, false);
                indexed.tree.collect();
            })
        };
        let guard = indexed.tree.pin();
        let entry = indexed.tree.get(&guard, KEYS[0], &Keys(KEYS));
        let entry = entry.unwrap().unwrap();
        let seen: Vec<usize> = entry.stack(SeqNo::MAX).map(number).collect();
        let whole = [&[5, 4, 1, 0][..], &[5, 4, 3, 2, 1, 0], &[6]].contains(&&*seen);
        assert!(whole, "{seen:?}");
        drop(guard);
        writer.join().unwrap();
        indexed.tree.collect();
        assert_eq!(indexed.tree.memory().lists, 0);
    });
}
