//! The memory bound: at most 40 bytes of live and retained memory per key.

use std::ops::Bound;
use std::sync::Arc;

use crate::records::{Random, Records, hostile_keys};
use thermocline_art::{Direction, KeySource, Leaf, NodeMemory, Reckoning, Slab, Tree};
use thermocline_base::{Result, SeqNo};

/// Keys of 16 bytes in one run of memory, numbered.
struct Flat(Vec<[u8; 16]>);

impl KeySource for Flat {
    fn key(&self, leaf: Leaf) -> Result<&[u8]> {
        Ok(&self.0[(leaf.offset() / 8) as usize])
    }

    fn check(&self, _leaf: Leaf) -> Result<()> {
        Ok(())
    }
}

fn holds_the_bound(make: fn(&mut Random) -> [u8; 16]) {
    let mut random = Random(11);
    let source = Flat((0..5_000_000).map(|_| make(&mut random)).collect());
    let tree = Tree::new();
    for (i, key) in source.0.iter().enumerate() {
        let leaf = Leaf::of(key, 8 * i as u64);
        let guard = tree.pin();
        tree.update(&guard, key, &source, |_| Ok(Some(leaf.into())))
            .unwrap();
        drop(guard);
        let count = i + 1;
        // All through, not only at the counts that the bound names.
        if count % 100_000 == 0 {
            let memory = tree.memory();
            let per_key = (memory.live_bytes + memory.retained_bytes) as f64 / tree.len() as f64;
            assert!(
                per_key <= 40.0,
                "{per_key} bytes per key at {count}: {memory:?}"
            );
        }
    }
}

#[test]
fn random_keys_take_at_most_40_bytes() {
    holds_the_bound(|random| {
        let (a, b) = (random.next(), random.next());
        (u128::from(a) << 64 | u128::from(b)).to_be_bytes()
    });
}

#[test]
fn random_digits_take_at_most_40_bytes() {
    holds_the_bound(|random| {
        let (a, b) = (random.next(), random.next());
        std::array::from_fn(|i| b'0' + ((if i < 8 { a } else { b } >> (8 * (i % 8))) % 10) as u8)
    });
}

#[test]
fn growing_stays_within_the_reserved_bound() {
    for (seed, step) in [(1, 1), (2, 10), (3, 300), (4, 5000), (5, 100_000)] {
        let mut random = Random(seed);
        let mut keys = hostile_keys(&mut random);
        keys.extend((0..20_000).map(|_| random.next().to_be_bytes()[..6].to_vec()));
        keys.sort();
        keys.dedup();
        let mut order: Vec<usize> = (0..keys.len()).collect();
        random.shuffle(&mut order);
        let records = Records::new(keys);
        let tree = Tree::new();
        let total = || tree.memory().live_bytes + tree.memory().retained_bytes;
        for some in order.chunks(step) {
            let limit = total() + tree.reserve_bound(some.len() as u64, None);
            let _held = tree.pin();
            for &key in some {
                let guard = tree.pin();
                let leaf = records.leaf(key, 0);
                tree.update(&guard, &records.keys[key], &records, |_| {
                    Ok(Some(leaf.into()))
                })
                .unwrap();
            }
            assert!(total() <= limit, "{} > {limit}", total());
        }
    }
}

#[test]
fn nodes_that_all_grow_at_once_stay_within_the_reserved_bound() {
    const NODES: usize = 2000;
    for children in [4, 16, 48, 128] {
        let keys = (0..NODES).flat_map(|node| {
            (0..=children).map(move |child| vec![(node >> 8) as u8, node as u8, child as u8])
        });
        let records = Records::new(keys.collect());
        let tree = Tree::new();
        let put = |key: usize| {
            let guard = tree.pin();
            let leaf = records.leaf(key, 0);
            tree.update(&guard, &records.keys[key], &records, |_| {
                Ok(Some(leaf.into()))
            })
            .unwrap();
        };
        let is_last = |key: &usize| key % (children + 1) == children;
        (0..records.keys.len())
            .filter(|k| !is_last(k))
            .for_each(put);
        tree.collect();
        let total = || tree.memory().live_bytes + tree.memory().retained_bytes;
        let limit = total() + tree.reserve_bound(NODES as u64, None);
        let _held = tree.pin();
        (0..records.keys.len()).filter(is_last).for_each(put);
        assert!(total() <= limit, "{children}: {} > {limit}", total());
    }
}

#[test]
fn lists_stay_within_the_reserved_bound() {
    const KEYS: usize = 3000;
    let records = Records::new((0..KEYS).map(|i| i.to_be_bytes().to_vec()).collect());
    let tree = Tree::new();
    let total = || tree.memory().live_bytes + tree.memory().retained_bytes;
    for seqno in 1..40 {
        // Every version there is has a reader, so each round makes all lists one longer.
        let readers: Vec<SeqNo> = (1..seqno).map(SeqNo).collect();
        tree.collect();
        let limit = total() + tree.reserve_bound(KEYS as u64, Some(readers.len()));
        let _held = tree.pin();
        for key in 0..KEYS {
            let leaf = records.leaf(key, seqno as usize);
            let guard = tree.pin();
            tree.update(&guard, &records.keys[key], &records, |present| {
                let Some(present) = present else {
                    return Ok(Some(leaf.into()));
                };
                let own = || Ok(SeqNo(1));
                let new = present.with_version(SeqNo(seqno), leaf, own, &readers[..])?;
                Ok(Some(new))
            })
            .unwrap();
        }
        assert!(total() <= limit, "{seqno}: {} > {limit}", total());
    }
    assert_eq!(tree.memory().lists, KEYS as u64);
}

#[test]
fn trees_of_one_memory_stay_within_what_is_reckoned_for_all() {
    let records = Records::new((0..40_000u32).map(|n| n.to_be_bytes().to_vec()).collect());
    for (seed, trees, step) in [(1, 2, 50), (2, 20, 1000), (3, 300, 1000), (4, 300, 10_000)] {
        let mut random = Random(seed);
        let mut order: Vec<usize> = (0..records.keys.len()).collect();
        random.shuffle(&mut order);
        let memory = Arc::new(Slab::new());
        let trees: Vec<Tree> = (0..trees)
            .map(|_| Tree::with_memory(memory.clone()))
            .collect();
        for some in order.chunks(step) {
            let places = some.iter().map(|_| random.below(trees.len()));
            let places: Vec<usize> = places.collect();
            // Of half of them nobody says where they are.
            let (own, anywhere) = places.split_at(places.len() / 2);
            let mut reckoning = Reckoning::new(anywhere.len() as u64, None);
            for (n, tree) in trees.iter().enumerate() {
                let updates = own.iter().filter(|place| **place == n).count();
                reckoning.add(tree, updates as u64);
            }
            let limit = memory.usage().reserved_bytes + reckoning.bytes(&*memory);
            let _held: Vec<_> = trees.iter().map(Tree::pin).collect();
            for (&key, &place) in some.iter().zip(&places) {
                let guard = trees[place].pin();
                let leaf = records.leaf(key, 0);
                trees[place]
                    .update(&guard, &records.keys[key], &records, |_| {
                        Ok(Some(leaf.into()))
                    })
                    .unwrap();
            }
            let now = memory.usage().reserved_bytes;
            assert!(now <= limit, "{seed}: {now} > {limit}");
        }
    }
}

#[test]
fn lists_that_grow_by_groups_stay_within_what_is_reckoned_for_those() {
    const KEYS: usize = 1000;
    let records = Records::new((0..KEYS).map(|i| i.to_be_bytes().to_vec()).collect());
    let memory = Arc::new(Slab::new());
    let tree = Tree::with_memory(memory.clone());
    let total = || tree.memory().live_bytes + tree.memory().retained_bytes;
    for group in 1..40 {
        // Each group writes all keys twice, and somebody reads where it ends.
        let readers: Vec<SeqNo> = (1..=group).map(|n| SeqNo(2 * n + 1)).collect();
        tree.collect();
        let mut reckoning = Reckoning::new(0, Some(10_000)).in_groups(1);
        reckoning.add(&tree, 2 * KEYS as u64);
        let limit = total() + reckoning.bytes(&*memory);
        let _held = tree.pin();
        for key in 0..KEYS {
            for seqno in [2 * group, 2 * group + 1] {
                let leaf = records.leaf(key, seqno as usize);
                let guard = tree.pin();
                tree.update(&guard, &records.keys[key], &records, |present| {
                    let Some(present) = present else {
                        return Ok(Some(leaf.into()));
                    };
                    // Alone is what the first group has written.
                    let own = || Ok(SeqNo(if group == 1 { 2 } else { 3 }));
                    let new = present.with_version(SeqNo(seqno), leaf, own, &readers[..])?;
                    Ok(Some(new))
                })
                .unwrap();
            }
        }
        assert!(total() <= limit, "{group}: {} > {limit}", total());
        // Little more than lists of this length take.
        assert!(limit - total() < 8 << 20, "{group}: {limit}");
    }
    assert_eq!(tree.memory().lists, KEYS as u64);
}

#[test]
fn an_empty_tree_costs_little_and_a_dropped_guard_frees() {
    let tree = Tree::new();
    assert!(tree.memory().live_bytes + tree.memory().retained_bytes < 4096);
    let records = Records::new((0..=255).map(|b| vec![b]).collect());
    let held = tree.pin();
    for key in 0..256 {
        let guard = tree.pin();
        let leaf = records.leaf(key, 0);
        tree.update(&guard, &records.keys[key], &records, |_| {
            Ok(Some(leaf.into()))
        })
        .unwrap();
    }
    assert_eq!(tree.memory().nodes, [0, 0, 0, 0, 1]);
    tree.collect();
    let kept = tree.memory().retained_bytes;
    drop(held);
    tree.collect();
    // Three smaller nodes: their chunks are free, and at least the smallest extent is retained.
    assert!(tree.memory().retained_bytes <= kept);
    let guard = tree.pin();
    let mut count = 0;
    tree.scan(
        &guard,
        Bound::Unbounded,
        Direction::Forward,
        &records,
        |_| {
            count += 1;
            Ok(std::ops::ControlFlow::Continue(()))
        },
    )
    .unwrap();
    assert_eq!(count, 256);
}
