//! Several threads at once: what is acknowledged is found, scans are sorted and complete.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use crate::plain::Plain;
use crate::records::{Random, Records, hostile_keys};
use thermocline_art::{Direction, Entry, NodeMemory, Slab, Tree};
use thermocline_base::SeqNo;

/// Hostile keys, random ones, and counting ones, so that all kinds of nodes grow and split.
fn records(seed: u64, more: usize) -> Records {
    let mut random = Random(seed);
    let mut keys = hostile_keys(&mut random);
    for i in 0..more {
        keys.push(random.next().to_be_bytes().to_vec());
        keys.push(format!("counter/{:08}", i * 7919 % 1_000_003).into_bytes());
    }
    keys.sort();
    keys.dedup();
    Records::new(keys)
}

fn put(tree: &Tree, records: &Records, key: usize, version: usize) {
    let guard = tree.pin();
    let leaf = records.leaf(key, version);
    tree.update(&guard, &records.keys[key], records, |_| {
        Ok(Some(leaf.into()))
    })
    .unwrap();
}

fn find(tree: &Tree, records: &Records, key: usize) -> Option<usize> {
    let guard = tree.pin();
    let entry = tree.get(&guard, &records.keys[key], records).unwrap()?;
    let (number, version) = records.of(entry.leaf());
    assert_eq!(number, key);
    Some(version)
}

/// Scans everything and checks order; returns the keys seen.
fn scan(tree: &Tree, records: &Records, direction: Direction, from: Bound<&[u8]>) -> Vec<usize> {
    let guard = tree.pin();
    let mut seen = Vec::new();
    tree.scan(&guard, from, direction, records, |entry| {
        seen.push(records.of(entry.leaf()).0);
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    let sorted = match direction {
        Direction::Forward => seen.is_sorted_by(|a, b| a < b),
        Direction::Reverse => seen.is_sorted_by(|a, b| a > b),
    };
    assert!(sorted);
    seen
}

#[test]
fn writers_readers_and_scanners_at_once() {
    const WRITERS: usize = 2;
    for seed in 0..4 {
        let records = records(seed, 6_000);
        let count = records.keys.len();
        let mut order: Vec<usize> = (0..count).collect();
        Random(seed).shuffle(&mut order);
        let stable = count / 4;
        let slab: Arc<dyn NodeMemory> = match seed % 2 {
            0 => Arc::new(Slab::new()),
            _ => Arc::new(Plain::new()),
        };
        let tree = Tree::with_memory(slab.clone());
        for &key in &order[..stable] {
            put(&tree, &records, key, 0);
        }
        // How many of its keys each writer has been acknowledged.
        let done: [AtomicUsize; WRITERS] = [const { AtomicUsize::new(0) }; WRITERS];
        let share = |writer: usize| order[stable..].iter().skip(writer).step_by(WRITERS);
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (tree, records, done) = (&tree, &records, &done);
                let share = share(writer);
                scope.spawn(move || {
                    for (i, &key) in share.enumerate() {
                        put(tree, records, key, 1);
                        assert_eq!(find(tree, records, key), Some(1));
                        done[writer].store(i + 1, Ordering::Release);
                    }
                });
            }
            let mut random = Random(seed + 100);
            let mut stable_sorted = order[..stable].to_vec();
            stable_sorted.sort_unstable();
            while done
                .iter()
                .map(|d| d.load(Ordering::Acquire))
                .sum::<usize>()
                < count - stable
            {
                for _ in 0..200 {
                    let writer = random.below(WRITERS);
                    let acknowledged = done[writer].load(Ordering::Acquire);
                    if acknowledged > 0 {
                        let key = *share(writer).nth(random.below(acknowledged)).unwrap();
                        assert_eq!(find(&tree, &records, key), Some(1));
                    }
                    let key = order[random.below(stable)];
                    assert_eq!(find(&tree, &records, key), Some(0));
                }
                let from = random.below(count);
                let bound = Bound::Included(&records.keys[from][..]);
                let mut seen = scan(&tree, &records, Direction::Forward, bound);
                let at = stable_sorted.partition_point(|&key| key < from);
                let mut seen_stable = seen
                    .iter()
                    .filter(|k| stable_sorted.binary_search(k).is_ok());
                assert!(
                    stable_sorted[at..]
                        .iter()
                        .all(|k| seen_stable.next() == Some(k))
                );
                seen = scan(&tree, &records, Direction::Reverse, bound);
                let mut seen_stable = seen
                    .iter()
                    .filter(|k| stable_sorted.binary_search(k).is_ok());
                let at = stable_sorted.partition_point(|&key| key <= from);
                assert!(
                    stable_sorted[..at]
                        .iter()
                        .rev()
                        .all(|k| seen_stable.next() == Some(k))
                );
            }
        });
        assert_eq!(tree.len(), count as u64);
        assert_eq!(
            scan(&tree, &records, Direction::Forward, Bound::Unbounded),
            (0..count).collect::<Vec<_>>()
        );
        tree.collect();
        assert_eq!(tree.memory().live_bytes, slab.usage().used_bytes);
        drop(tree);
        assert_eq!(slab.usage().used_bytes, 0);
    }
}

#[test]
fn everybody_inserts_the_same_keys() {
    let records = records(77, 2_000);
    let tree = Tree::new();
    let inserted = AtomicU64::new(0);
    thread::scope(|scope| {
        for writer in 0..3 {
            let (tree, records, inserted) = (&tree, &records, &inserted);
            scope.spawn(move || {
                let mut order: Vec<usize> = (0..records.keys.len()).collect();
                Random(writer % 2).shuffle(&mut order);
                for key in order {
                    let guard = tree.pin();
                    let leaf = records.leaf(key, writer as usize);
                    tree.update(&guard, &records.keys[key], records, |present| {
                        if present.is_some() {
                            return Ok(None);
                        }
                        inserted.fetch_add(1, Ordering::Relaxed);
                        Ok(Some(leaf.into()))
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(inserted.load(Ordering::Relaxed), records.keys.len() as u64);
    assert_eq!(tree.len(), records.keys.len() as u64);
    for key in 0..records.keys.len() {
        assert!(find(&tree, &records, key).is_some());
    }
}

#[test]
fn hot_keys_count_every_write_and_readers_see_whole_lists() {
    hot_keys(Arc::new(Slab::new()));
    hot_keys(Arc::new(Plain::new()));
}

fn hot_keys(slab: Arc<dyn NodeMemory>) {
    const WRITES: usize = 20_000;
    let records = Records::new((0..8).map(|i| format!("hot/{i}").into_bytes()).collect());
    let tree = Tree::with_memory(slab.clone());
    for key in 0..8 {
        put(&tree, &records, key, 0);
    }
    let next = AtomicU64::new(1);
    let stop = AtomicUsize::new(0);
    thread::scope(|scope| {
        for writer in 0..2u64 {
            let (tree, records, next, stop) = (&tree, &records, &next, &stop);
            scope.spawn(move || {
                let mut random = Random(writer);
                for _ in 0..WRITES {
                    let key = random.below(8);
                    let guard = tree.pin();
                    tree.update(&guard, &records.keys[key], records, |present| {
                        let present = present.unwrap();
                        let seqno = SeqNo(next.fetch_add(1, Ordering::Relaxed));
                        let readers = [SeqNo(0), SeqNo(seqno.0 / 2), SeqNo(seqno.0 - 1)];
                        let leaf = records.leaf(key, seqno.0 as usize);
                        let own = || Ok(SeqNo(records.of(present.leaf()).1 as u64));
                        Ok(Some(present.with_version(
                            seqno,
                            leaf,
                            own,
                            &readers[..],
                        )?))
                    })
                    .unwrap();
                }
                stop.fetch_add(1, Ordering::Release);
            });
        }
        while stop.load(Ordering::Acquire) < 2 {
            for key in 0..8 {
                let guard = tree.pin();
                let entry = tree
                    .get(&guard, &records.keys[key], &records)
                    .unwrap()
                    .unwrap();
                // The first version is kept for the reader at 0 in every list there ever is.
                assert_eq!(entry.at(SeqNo(0)), Some(records.leaf(key, 0)));
                for version in entry.list().unwrap_or_default() {
                    assert_eq!(records.of(version.leaf), (key, version.seqno.0 as usize));
                }
            }
        }
    });
    let guard = tree.pin();
    let newest = (0..8)
        .map(|key| {
            tree.get(&guard, &records.keys[key], &records)
                .unwrap()
                .unwrap()
        })
        .map(Entry::leaf)
        .map(|leaf| records.of(leaf).1)
        .max();
    assert_eq!(newest, Some(2 * WRITES));
    drop(guard);
    tree.collect();
    assert_eq!(tree.memory().live_bytes, slab.usage().used_bytes);
    // Garbage was reclaimed on the way, not piled up.
    assert!(slab.usage().reserved_bytes < 2 << 20, "{:?}", slab.usage());
}
