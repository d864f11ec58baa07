//! Operands that come late: what they copy, and what readers find.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::plain::Plain;
use crate::records::{Random, Records};
use crate::versions::all_of;
use thermocline_art::{NodeMemory, OPERANDS_A_BLOCK, Slab, Tree, Version};
use thermocline_base::{Error, Result, SeqNo};

/// Adds versions with these seqnos, newest first, to the one key: a base, or operands, with one update.
fn add(
    tree: &Tree,
    records: &Records,
    new: &[u64],
    is_operand: bool,
    moments: &[SeqNo],
) -> Result<()> {
    let version = |seqno: &u64| {
        let leaf = records.leaf(0, *seqno as usize);
        Version {
            seqno: SeqNo(*seqno),
            leaf: if is_operand { leaf.as_operand() } else { leaf },
        }
    };
    let new: Vec<Version> = new.iter().map(version).collect();
    let guard = tree.pin();
    let updated = tree.update(&guard, b"key", records, |present| {
        let Some(present) = present else {
            return tree.entry_with(&new).map(Some);
        };
        let own = || Ok(SeqNo(records.of(present.leaf()).1 as u64));
        let entry = match &new[..] {
            [one] => present.with_version(one.seqno, one.leaf, own, moments)?,
            several => present.with_versions(several, own, moments)?,
        };
        Ok(Some(entry))
    });
    updated.map(drop)
}

/// The versions of the longest block.
fn longest_block(tree: &Tree, records: &Records) -> usize {
    let guard = tree.pin();
    let entry = tree.get(&guard, b"key", records).unwrap().unwrap();
    entry.blocks().map(<[Version]>::len).max().unwrap_or(1)
}

/// What a reader at `seqno` is answered with, newest first.
fn stack_at(tree: &Tree, records: &Records, seqno: u64) -> Vec<u64> {
    let guard = tree.pin();
    let entry = tree.get(&guard, b"key", records).unwrap().unwrap();
    let found = entry.stack(SeqNo(seqno));
    let found = found.map(|leaf| records.of(leaf).1 as u64);
    found.filter(|found| *found <= seqno).collect()
}

/// A base, the newest operand, and then all between, in their order: each copies a block or two, and no block grows.
#[test]
fn operands_below_a_newer_one_copy_a_block_each() {
    const N: u64 = 20_000;
    let records = Records::new(vec![b"key".to_vec()]);
    let memory = Arc::new(Plain::new());
    let tree = Tree::with_memory(memory.clone());
    add(&tree, &records, &[1], false, &[]).unwrap();
    add(&tree, &records, &[N], true, &[]).unwrap();
    let before = memory.left.load(Ordering::Relaxed);
    for seqno in 2..N {
        add(&tree, &records, &[seqno], true, &[]).unwrap();
        if seqno.is_multiple_of(100) {
            assert!(longest_block(&tree, &records) <= OPERANDS_A_BLOCK);
        }
    }
    let blocks = before - memory.left.load(Ordering::Relaxed);
    assert!(blocks <= 2 * N, "{blocks} blocks of {OPERANDS_A_BLOCK}");
    for at in [1, 2, 17, 1000, N - 1, N] {
        let all: Vec<u64> = (1..=at).rev().collect();
        assert_eq!(stack_at(&tree, &records, at), all);
    }
    tree.collect();
    assert_eq!(tree.memory().live_bytes, memory.usage().used_bytes);
    assert!(tree.memory().lists <= N / OPERANDS_A_BLOCK as u64 + 1);
    add(&tree, &records, &[N + 1], false, &[]).unwrap();
    tree.collect();
    assert_eq!((tree.memory().lists, memory.usage().used_bytes), (0, 0));
}

/// Two runs of operands, an older and a newer one, that come in turns: one by one, or the older one at once.
#[test]
fn runs_of_operands_that_come_in_turns_make_no_long_blocks() {
    const RUN: u64 = 256;
    for at_once in [false, true] {
        let records = Records::new(vec![b"key".to_vec()]);
        let memory = Arc::new(Plain::new());
        let tree = Tree::with_memory(memory.clone());
        add(&tree, &records, &[1], false, &[]).unwrap();
        let (older, newer) = (2..2 + RUN, 2 + RUN..2 + 2 * RUN);
        let before = memory.left.load(Ordering::Relaxed);
        for (older, newer) in older.clone().zip(newer) {
            add(&tree, &records, &[newer], true, &[]).unwrap();
            if !at_once {
                add(&tree, &records, &[older], true, &[]).unwrap();
            }
            assert!(longest_block(&tree, &records) <= OPERANDS_A_BLOCK);
        }
        if at_once {
            let older: Vec<u64> = older.rev().collect();
            add(&tree, &records, &older, true, &[]).unwrap();
        }
        let blocks = before - memory.left.load(Ordering::Relaxed);
        // One by one each copies those of the other run.
        let most = match at_once {
            true => RUN + 2 * RUN / OPERANDS_A_BLOCK as u64 + 2,
            false => RUN * (RUN / OPERANDS_A_BLOCK as u64 + 4),
        };
        assert!(blocks <= most, "{blocks} blocks");
        assert!(longest_block(&tree, &records) <= OPERANDS_A_BLOCK);
        for at in [1, 2, RUN, RUN + 1, RUN + 2, 2 * RUN, 2 * RUN + 1] {
            let all: Vec<u64> = (1..=at).rev().collect();
            assert_eq!(stack_at(&tree, &records, at), all, "at once: {at_once}");
        }
        tree.collect();
        assert_eq!(tree.memory().live_bytes, memory.usage().used_bytes);
    }
}

/// Several at once, in any order, with any readers: as one by one, every reader finds all that he needs.
#[test]
fn whoever_reads_operands_that_came_together_finds_what_they_are_on() {
    const ALL: u64 = 200;
    let mut random = Random(5);
    for round in 0..300 {
        let records = Records::new(vec![b"key".to_vec()]);
        let slab = Arc::new(Slab::new());
        let tree = Tree::with_memory(slab.clone());
        let mut order: Vec<u64> = (1..=ALL).collect();
        for at in 0..order.len() {
            if random.below(3) == 0 {
                let other = (at + random.below(60)).min(order.len() - 1);
                order.swap(at, other);
            }
        }
        let bases = [2, 10, 200][round % 3];
        let mut written: BTreeMap<u64, bool> = BTreeMap::new();
        let mut readers: Vec<SeqNo> = Vec::new();
        while !order.is_empty() {
            let is_operand = random.below(bases) != 0;
            let most = if is_operand { 1 + random.below(40) } else { 1 };
            let mut new: Vec<u64> = order.drain(..most.min(order.len())).collect();
            new.sort_unstable_by(|a, b| b.cmp(a));
            let visible = (1..).take_while(|n| written.contains_key(n)).count() as u64;
            match random.below(3) {
                0 => readers.push(SeqNo(visible)),
                1 if !readers.is_empty() => drop(readers.swap_remove(random.below(readers.len()))),
                _ => {}
            }
            let mut moments = readers.clone();
            moments.extend((visible..=ALL).map(SeqNo));
            moments.sort_unstable();
            add(&tree, &records, &new, is_operand, &moments).unwrap();
            written.extend(new.iter().map(|seqno| (*seqno, is_operand)));
            let has = all_of(&tree, &records);
            assert!(has.windows(2).all(|pair| pair[0].0 > pair[1].0), "{has:?}");
            assert!(has.iter().all(|(s, op)| written.get(s) == Some(op)));
            let visible = (1..).take_while(|n| written.contains_key(n)).count() as u64;
            for at in readers.iter().map(|r| r.0).chain([visible, ALL]) {
                let mut open = true;
                let below = written.range(..=at).rev();
                let needed: Vec<u64> = below
                    .take_while(|(_, operand)| std::mem::replace(&mut open, **operand))
                    .map(|(seqno, _)| *seqno)
                    .collect();
                assert_eq!(stack_at(&tree, &records, at), needed, "{at}: {has:?}");
            }
        }
        tree.collect();
        assert_eq!(tree.memory().live_bytes, slab.usage().used_bytes);
        drop(tree);
        assert_eq!(slab.usage().used_bytes, 0);
    }
}

/// Memory ends in the middle of a list of several blocks: nothing has happened, and no block is lost.
#[test]
fn a_list_of_several_blocks_that_finds_no_memory_is_given_back() {
    let records = Records::new(vec![b"key".to_vec()]);
    let memory = Arc::new(Plain::new());
    let tree = Tree::with_memory(memory.clone());
    add(&tree, &records, &[1], false, &[]).unwrap();
    for seqno in 101..=200 {
        add(&tree, &records, &[seqno], true, &[]).unwrap();
    }
    tree.collect();
    let (before, used) = (all_of(&tree, &records), memory.usage().used_bytes);
    let late: Vec<u64> = (2..=100).rev().collect();
    for left in [0, 1, 5, 11] {
        memory.left.store(left, Ordering::Relaxed);
        let full = add(&tree, &records, &late, true, &[]);
        assert!(matches!(full, Err(Error::OutOfSpace(_))), "{left} blocks");
        assert_eq!(all_of(&tree, &records), before);
        assert_eq!(memory.usage().used_bytes, used);
    }
    memory.left.store(u64::MAX, Ordering::Relaxed);
    add(&tree, &records, &late, true, &[]).unwrap();
    let all: Vec<u64> = (1..=200).rev().collect();
    assert_eq!(stack_at(&tree, &records, 200), all);
}
