//! The tree against a sorted map, on hostile keys, from one thread.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use crate::records::{Random, Records, hostile_keys};
use thermocline_art::{Direction, Entry, NodeMemory, Slab, Tree};
use thermocline_base::{Error, limits};

type Model = BTreeMap<Vec<u8>, usize>;

/// Stores version `version` of a key; returns the version replaced.
fn put(tree: &Tree, records: &Records, key: usize, version: usize) -> Option<usize> {
    let guard = tree.pin();
    let leaf = records.leaf(key, version);
    let mut seen = None;
    let replaced = tree
        .update(&guard, &records.keys[key], records, |present| {
            seen = present.map(Entry::leaf);
            Ok(Some(leaf.into()))
        })
        .unwrap();
    assert_eq!(replaced.map(Entry::leaf), seen);
    seen.map(|leaf| {
        let (number, version) = records.of(leaf);
        assert_eq!(number, key);
        version
    })
}

fn get(tree: &Tree, records: &Records, key: &[u8]) -> Option<usize> {
    let guard = tree.pin();
    let entry = tree.get(&guard, key, records).unwrap()?;
    let (number, version) = records.of(entry.leaf());
    assert_eq!(records.keys[number], key);
    Some(version)
}

fn scan(
    tree: &Tree,
    records: &Records,
    from: Bound<&[u8]>,
    direction: Direction,
    limit: usize,
) -> Vec<(Vec<u8>, usize)> {
    let mut found = Vec::new();
    if limit == 0 {
        return found;
    }
    let guard = tree.pin();
    tree.scan(&guard, from, direction, records, |entry| {
        let (number, version) = records.of(entry.leaf());
        found.push((records.keys[number].clone(), version));
        Ok(if found.len() == limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })
    .unwrap();
    found
}

fn expected(
    model: &Model,
    from: Bound<&[u8]>,
    direction: Direction,
    limit: usize,
) -> Vec<(Vec<u8>, usize)> {
    let own = |(key, version): (&Vec<u8>, &usize)| (key.clone(), *version);
    match direction {
        Direction::Forward => {
            let range = model.range::<[u8], _>((from, Bound::Unbounded));
            range.take(limit).map(own).collect()
        }
        Direction::Reverse => {
            let range = model.range::<[u8], _>((Bound::Unbounded, from));
            range.rev().take(limit).map(own).collect()
        }
    }
}

fn compare_scans(tree: &Tree, records: &Records, model: &Model, bound: &[u8], limit: usize) {
    for direction in [Direction::Forward, Direction::Reverse] {
        for from in [
            Bound::Included(bound),
            Bound::Excluded(bound),
            Bound::Unbounded,
        ] {
            let got = scan(tree, records, from, direction, limit);
            let want = expected(model, from, direction, limit);
            assert!(got == want, "{direction:?} scan from {from:?}");
        }
    }
}

#[test]
fn a_tree_is_a_sorted_map() {
    for seed in 0..6 {
        let mut random = Random(seed);
        let records = Records::new(hostile_keys(&mut random));
        let tree = Tree::new();
        let mut model = Model::new();
        let mut order: Vec<usize> = (0..records.keys.len()).collect();
        match seed {
            0 => {}
            1 => order.reverse(),
            _ => random.shuffle(&mut order),
        }
        for (step, &key) in order.iter().enumerate() {
            assert_eq!(
                get(&tree, &records, &records.keys[key]),
                None,
                "seed {seed}"
            );
            assert_eq!(put(&tree, &records, key, 1), None, "seed {seed}");
            model.insert(records.keys[key].clone(), 1);
            if step % 5 == 0 {
                let again = order[random.below(step + 1)];
                let version = 2 + random.below(5);
                let before = put(&tree, &records, again, version);
                let was = model.insert(records.keys[again].clone(), version);
                assert_eq!(before, was, "seed {seed}");
            }
            if step % 16 == 0 {
                let bound = &records.keys[random.below(records.keys.len())];
                compare_scans(&tree, &records, &model, bound, 12);
            }
        }
        assert_eq!(tree.len(), model.len() as u64);
        for (key, &version) in &model {
            assert_eq!(get(&tree, &records, key), Some(version), "seed {seed}");
        }
        compare_scans(&tree, &records, &model, b"fan-out/48/", usize::MAX);
        for key in records.keys.iter().step_by(7) {
            compare_scans(&tree, &records, &model, key, 5);
            for change in [&[0u8][..], &[0xff], b"/and/fur"] {
                let absent = [key, change].concat();
                if !model.contains_key(&absent) {
                    assert_eq!(get(&tree, &records, &absent), None, "seed {seed}");
                }
                compare_scans(&tree, &records, &model, &absent, 3);
            }
        }
    }
}

#[test]
fn an_update_may_decline_or_fail_and_nothing_changes() {
    let mut random = Random(9);
    let records = Records::new(hostile_keys(&mut random));
    let slab = Arc::new(Slab::new());
    let tree = Tree::with_memory(slab.clone());
    let mut order: Vec<usize> = (0..records.keys.len()).collect();
    random.shuffle(&mut order);
    for (done, &key) in order.iter().enumerate() {
        tree.collect();
        let before = tree.memory().live_bytes;
        assert_eq!(slab.usage().used_bytes, before); // nothing unused is left behind
        let guard = tree.pin();
        let name = &records.keys[key];
        let declined = tree.update(&guard, name, &records, |present| {
            assert!(present.is_none());
            Ok(None)
        });
        assert!(declined.unwrap().is_none());
        let failed = tree.update(&guard, name, &records, |_| Err(Error::Busy("no".into())));
        assert!(matches!(failed, Err(Error::Busy(_))));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = tree.update(&guard, name, &records, |_| {
                std::panic::resume_unwind(Box::new(1))
            });
        }));
        assert!(panicked.is_err());
        drop(guard);
        assert_eq!(get(&tree, &records, name), None);
        assert_eq!(
            (tree.memory().live_bytes, tree.len()),
            (before, done as u64)
        );
        assert_eq!(put(&tree, &records, key, 3), None);
        let guard = tree.pin();
        let failed = tree.update(&guard, name, &records, |_| Err(Error::Busy("no".into())));
        assert!(matches!(failed, Err(Error::Busy(_))));
        assert_eq!(get(&tree, &records, name), Some(3));
    }
}

#[test]
fn a_key_over_the_limit_is_refused() {
    let records = Records::new(vec![vec![0; limits::KEY_LEN_MAX + 1]]);
    let tree = Tree::new();
    let guard = tree.pin();
    let refused = tree.update(&guard, &records.keys[0], &records, |_| unreachable!());
    assert!(matches!(refused, Err(Error::InvalidArgument(_))));
    assert_eq!(get(&tree, &records, &records.keys[0]), None);
}

#[test]
#[should_panic(expected = "a guard of another tree")]
fn a_guard_protects_one_tree_only() {
    let records = Records::new(vec![vec![]]);
    let (tree, other) = (Tree::new(), Tree::new());
    let guard = other.pin();
    let _ = tree.get(&guard, b"", &records);
}

#[test]
fn trees_share_a_memory_and_give_all_of_it_back() {
    let mut random = Random(5);
    let records = Records::new(hostile_keys(&mut random));
    let memory = Arc::new(Slab::new());
    let trees = [0; 3].map(|_| Tree::with_memory(memory.clone()));
    for tree in &trees {
        for key in 0..records.keys.len() {
            put(tree, &records, key, 0);
        }
        tree.collect();
    }
    let used: u64 = trees.iter().map(|tree| tree.memory().live_bytes).sum();
    assert_eq!(memory.usage().used_bytes, used);
    drop(trees);
    assert_eq!(memory.usage().used_bytes, 0);
}
