//! Key sources that fail or have rotted: never a silent "not found", never a changed tree.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::plain::Plain;

use crate::records::{Random, Records, hostile_keys};
use thermocline_art::{Direction, Entry, NodeMemory, Tree};
use thermocline_base::{Error, ErrorKind, Result};

fn put(tree: &Tree, records: &Records, key: usize) -> Result<()> {
    let guard = tree.pin();
    let leaf = records.leaf(key, 0);
    tree.update(&guard, &records.keys[key], records, |_| {
        Ok(Some(leaf.into()))
    })?;
    Ok(())
}

fn get(tree: &Tree, records: &Records, key: usize) -> Result<bool> {
    let guard = tree.pin();
    let found = tree.get(&guard, &records.keys[key], records)?;
    assert!(found.is_none_or(|entry| entry.leaf() == records.leaf(key, 0)));
    Ok(found.is_some())
}

fn all(tree: &Tree, records: &Records, from: Bound<&[u8]>) -> Result<Vec<usize>> {
    let guard = tree.pin();
    let mut found = Vec::new();
    tree.scan(&guard, from, Direction::Forward, records, |entry| {
        found.push(records.of(entry.leaf()).0);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// Runs `call` with the source failing at its first, second, … call until it succeeds.
fn with_each_call_failing<T>(records: &Records, mut call: impl FnMut() -> Result<T>) -> T {
    for fuse in 0.. {
        records.fuse.store(fuse, Ordering::Relaxed);
        let result = call();
        records.fuse.store(u64::MAX, Ordering::Relaxed);
        match result {
            Ok(value) => return value,
            Err(Error::Busy(text)) if text == "injected" => {}
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!()
}

#[test]
fn a_failing_source_changes_nothing_and_its_error_arrives() {
    let mut random = Random(3);
    let records = Records::new(hostile_keys(&mut random));
    let tree = Tree::new();
    let mut order: Vec<usize> = (0..records.keys.len()).collect();
    random.shuffle(&mut order);
    for (done, &key) in order.iter().enumerate() {
        with_each_call_failing(&records, || {
            let (len, live) = (tree.len(), tree.memory().live_bytes);
            let result = put(&tree, &records, key);
            if result.is_err() {
                assert_eq!((tree.len(), tree.memory().live_bytes), (len, live));
            }
            result
        });
        assert!(with_each_call_failing(&records, || get(
            &tree, &records, key
        )));
        if done % 40 == 0 {
            let mut present = order[..=done].to_vec();
            present.sort_unstable();
            assert_eq!(all(&tree, &records, Bound::Unbounded).unwrap(), present);
            let from = Bound::Included(&records.keys[key][..]);
            let found = with_each_call_failing(&records, || all(&tree, &records, from));
            assert_eq!(
                found,
                present[present.iter().position(|&k| k == key).unwrap()..]
            );
        }
    }
}

#[test]
fn a_rotten_key_is_an_error_and_never_not_found() {
    let mut random = Random(4);
    let mut records = Records::new(hostile_keys(&mut random));
    let tree = Tree::new();
    for key in 0..records.keys.len() {
        put(&tree, &records, key).unwrap();
    }
    for key in (0..records.keys.len()).step_by(3) {
        if records.keys[key].is_empty() {
            continue; // it has no bytes to rot
        }
        records.rotten.insert(key);
        let error = get(&tree, &records, key).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let error = put(&tree, &records, key).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let from = Bound::Included(&records.keys[key][..]);
        assert_eq!(
            all(&tree, &records, from).unwrap_err().kind(),
            ErrorKind::Corruption
        );
        records.rotten.remove(&key);
    }
}

#[test]
fn a_rotten_neighbour_does_not_shape_the_tree() {
    let mut records = Records::new(vec![
        b"shared/abcdefgh-1".to_vec(),
        b"shared/abcdefgh-2".to_vec(),
    ]);
    let tree = Tree::new();
    put(&tree, &records, 0).unwrap();
    records.rotten.insert(0);
    let live = tree.memory().live_bytes;
    assert_eq!(
        put(&tree, &records, 1).unwrap_err().kind(),
        ErrorKind::Corruption
    );
    assert_eq!((tree.len(), tree.memory().live_bytes), (1, live));
    // Another fingerprint: the record need not be read, and is not this key's.
    assert!(!get(&tree, &records, 1).unwrap());
    records.rotten.clear();
    put(&tree, &records, 1).unwrap();
    assert!(get(&tree, &records, 0).unwrap() && get(&tree, &records, 1).unwrap());
}

#[test]
fn keys_with_one_fingerprint_are_told_apart_by_their_records() {
    // 300 keys of which many share a fingerprint with another: every hit on a stranger is checked.
    let mut random = Random(6);
    let mut of_print = std::collections::HashMap::new();
    let mut keys = Vec::new();
    while keys.len() < 300 {
        let key = random.next().to_be_bytes().to_vec();
        let print = thermocline_art::fingerprint(&key);
        if let Some(other) = of_print.insert(print, key.clone()) {
            keys.extend([other, key]);
        }
    }
    keys.sort();
    keys.dedup();
    let records = Records::new(keys);
    let tree = Tree::new();
    for key in 0..records.keys.len() {
        assert!(!get(&tree, &records, key).unwrap());
        put(&tree, &records, key).unwrap();
    }
    for key in 0..records.keys.len() {
        assert!(get(&tree, &records, key).unwrap());
    }

    // Two keys of one fingerprint under one leaf: the stranger's record is checked before the
    // answer is "absent", and its rot is reported.
    let pairs = Records::new(records.keys.clone());
    let (a, b) = (0..300)
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .find(|&(a, b)| pairs.leaf(a, 0).fingerprint() == pairs.leaf(b, 0).fingerprint())
        .unwrap();
    let mut pairs = pairs;
    let tree = Tree::new();
    put(&tree, &pairs, a).unwrap();
    assert!(!get(&tree, &pairs, b).unwrap());
    assert_eq!(pairs.checks.load(Ordering::Relaxed), 1);
    pairs.rotten.insert(a);
    assert_eq!(
        get(&tree, &pairs, b).unwrap_err().kind(),
        ErrorKind::Corruption
    );
    pairs.rotten.clear();
    put(&tree, &pairs, b).unwrap();
    assert!(get(&tree, &pairs, a).unwrap() && get(&tree, &pairs, b).unwrap());
}

#[test]
fn a_leaf_for_another_key_is_refused_in_place() {
    let records = Records::new(vec![b"a".to_vec(), b"b".to_vec()]);
    let tree = Tree::new();
    let wrong = records.leaf(1, 0);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let guard = tree.pin();
        let _ = tree.update(&guard, b"a", &records, |_| Ok(Some(wrong.into())));
    }));
    assert!(result.is_err());
    put(&tree, &records, 0).unwrap();
    let guard = tree.pin();
    let found = tree.get(&guard, b"a", &records).unwrap();
    assert_eq!(found.map(Entry::leaf), Some(records.leaf(0, 0)));
}

#[test]
fn rot_that_keeps_the_fingerprint_ends_in_an_error_not_in_a_loop() {
    let path = |middle: &[u8], end: &[u8]| [&[b'p'; 40][..], middle, end].concat();
    let long = [b'q'; 40];
    let keys = vec![
        path(b"0", b""),
        path(b"a", &[&long[..], b"1"].concat()),
        path(b"a", &[&long[..], b"2"].concat()),
        path(b"a", &[&long[..], b"3"].concat()),
    ];
    // The sample of the lower node reads as a key that leaves the path early.
    let print = thermocline_art::fingerprint(&keys[1]);
    let rotten = (0u64..)
        .map(|n| [&b"pppp!"[..], &n.to_be_bytes()].concat())
        .find(|key| thermocline_art::fingerprint(key) == print)
        .unwrap();
    let mut records = Records::new(keys);
    let tree = Tree::new();
    for key in 0..3 {
        put(&tree, &records, key).unwrap();
    }
    records.swapped = Some((1, rotten));
    assert_eq!(
        put(&tree, &records, 3).unwrap_err().kind(),
        ErrorKind::Corruption
    );
    records.swapped = None;
    put(&tree, &records, 3).unwrap();
    assert!((0..4).all(|key| get(&tree, &records, key).unwrap()));
}

#[test]
fn memory_that_runs_out_changes_nothing() {
    let mut random = Random(12);
    let records = Records::new(hostile_keys(&mut random));
    let memory = Arc::new(Plain::new());
    let tree = Tree::with_memory(memory.clone());
    let mut order: Vec<usize> = (0..records.keys.len()).collect();
    random.shuffle(&mut order);
    let mut refused = 0;
    for (done, &key) in order.iter().enumerate() {
        memory.left.store(0, Ordering::Relaxed);
        let live = tree.memory().live_bytes;
        if let Err(error) = put(&tree, &records, key) {
            refused += 1;
            assert_eq!(error.kind(), ErrorKind::OutOfSpace);
            assert_eq!((tree.len(), tree.memory().live_bytes), (done as u64, live));
            assert!(!get(&tree, &records, key).unwrap());
            memory.left.store(1, Ordering::Relaxed); // an update makes at most one node
            put(&tree, &records, key).unwrap();
        }
    }
    assert!(refused > 100);
    let all_keys: Vec<usize> = (0..records.keys.len()).collect();
    assert_eq!(all(&tree, &records, Bound::Unbounded).unwrap(), all_keys);
    drop(tree);
    assert_eq!(memory.usage().used_bytes, 0);
}

#[test]
fn a_key_that_rots_into_another_is_not_inserted_beside_itself() {
    let key = b"this key".to_vec();
    let print = thermocline_art::fingerprint(&key);
    let rotten = (0u64..)
        .map(|n| n.to_be_bytes().to_vec())
        .find(|other| thermocline_art::fingerprint(other) == print)
        .unwrap();
    let mut records = Records::new(vec![key]);
    let tree = Tree::new();
    put(&tree, &records, 0).unwrap();
    records.swapped = Some((0, rotten));
    records.rotten.insert(0);
    assert_eq!(
        put(&tree, &records, 0).unwrap_err().kind(),
        ErrorKind::Corruption
    );
    assert_eq!(
        get(&tree, &records, 0).unwrap_err().kind(),
        ErrorKind::Corruption
    );
    assert_eq!(tree.len(), 1);
}
