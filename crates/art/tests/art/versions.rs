//! Version lists against a model that forgets nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::records::{Random, Records};
use thermocline_art::{NodeMemory, OPERANDS_A_BLOCK, Slab, Tree};
use thermocline_base::{Error, SeqNo};

/// Writes the version with this seqno, which is also its number.
fn write(tree: &Tree, records: &Records, key: usize, seqno: u64, readers: &[SeqNo]) {
    let guard = tree.pin();
    let leaf = records.leaf(key, seqno as usize);
    tree.update(&guard, &records.keys[key], records, |present| {
        let Some(present) = present else {
            return Ok(Some(leaf.into()));
        };
        let own = || Ok(SeqNo(records.of(present.leaf()).1 as u64));
        Ok(Some(present.with_version(
            SeqNo(seqno),
            leaf,
            own,
            readers,
        )?))
    })
    .unwrap();
}

/// The seqnos that the tree has for a key, newest first.
fn seqnos(tree: &Tree, records: &Records, key: usize) -> Vec<u64> {
    let guard = tree.pin();
    let entry = tree
        .get(&guard, &records.keys[key], records)
        .unwrap()
        .unwrap();
    match entry.list() {
        None => vec![records.of(entry.leaf()).1 as u64],
        Some(list) => {
            for version in list {
                assert_eq!(records.of(version.leaf), (key, version.seqno.0 as usize));
            }
            assert_eq!(list[0].leaf, entry.leaf());
            list.iter().map(|version| version.seqno.0).collect()
        }
    }
}

/// What is needed after writing `new` to a key that had `old`.
fn trimmed(old: &[u64], new: u64, readers: &[SeqNo]) -> Vec<u64> {
    let mut all: BTreeMap<u64, ()> = old.iter().map(|&s| (s, ())).collect();
    all.insert(new, ());
    let newest = *all.last_key_value().unwrap().0;
    let seen = |r: &SeqNo| all.range(..=r.0).next_back().map(|(&s, ())| s);
    let mut kept: Vec<u64> = readers
        .iter()
        .filter_map(seen)
        .chain([new, newest])
        .collect();
    kept.sort_unstable();
    kept.dedup();
    kept.reverse();
    kept
}

#[test]
fn lists_hold_what_readers_need_and_nothing_else() {
    let mut random = Random(1);
    let keys = vec![b"".to_vec(), b"a".to_vec(), b"aa".to_vec(), b"b".to_vec()];
    let records = Records::new(keys);
    let slab = Arc::new(Slab::new());
    let tree = Tree::with_memory(slab.clone());
    let mut have: Vec<Vec<u64>> = vec![vec![]; 4];
    for _ in 0..20_000 {
        let key = random.below(4);
        let seqno = 1 + random.below(60) as u64;
        let mut readers: Vec<SeqNo> = (0..random.below(9))
            .map(|_| SeqNo(random.below(64) as u64))
            .collect();
        readers.sort_unstable();
        write(&tree, &records, key, seqno, &readers);
        have[key] = trimmed(&have[key], seqno, &readers);
        assert_eq!(seqnos(&tree, &records, key), have[key]);
        assert!(have[key].len() <= readers.len() + 2);
        let guard = tree.pin();
        let entry = tree
            .get(&guard, &records.keys[key], &records)
            .unwrap()
            .unwrap();
        for at in 0..64 {
            let want = have[key].iter().find(|&&s| s <= at).copied();
            let got = entry.at(SeqNo(at)).map(|leaf| records.of(leaf).1 as u64);
            match entry.list() {
                Some(_) => assert_eq!(got, want),
                None => assert_eq!(got, Some(have[key][0])),
            }
        }
    }
    let lists = have.iter().filter(|versions| versions.len() > 1).count();
    assert_eq!(tree.memory().lists, lists as u64);
    tree.collect();
    assert_eq!(tree.memory().live_bytes, slab.usage().used_bytes);
    drop(tree);
    assert_eq!(slab.usage().used_bytes, 0);
}

#[test]
fn long_lists_live_outside_the_slabs_and_are_freed() {
    let records = Records::new(vec![b"key".to_vec()]);
    let slab = Arc::new(Slab::new());
    let tree = Tree::with_memory(slab.clone());
    let readers: Vec<SeqNo> = (1..2000).map(SeqNo).collect();
    for seqno in 1..2000 {
        write(&tree, &records, 0, seqno, &readers);
    }
    assert_eq!(seqnos(&tree, &records, 0).len(), 1999);
    write(&tree, &records, 0, 2000, &[]);
    assert_eq!(seqnos(&tree, &records, 0), [2000]);
    tree.collect();
    assert_eq!(slab.usage().used_bytes, 0);
}

#[test]
fn a_tree_with_only_its_own_memory_frees_long_lists_too() {
    // Checked by the leak checkers that the suite runs under; here it must at least not crash.
    let records = Records::new(vec![b"key".to_vec(), b"other".to_vec()]);
    let tree = Tree::new();
    let readers: Vec<SeqNo> = (1..2000).map(SeqNo).collect();
    for seqno in 1..2000 {
        write(&tree, &records, 0, seqno, &readers);
    }
    write(&tree, &records, 1, 1, &[]);
}

#[test]
fn a_list_that_is_not_stored_is_given_back() {
    let records = Records::new(vec![b"key".to_vec()]);
    let tree = Tree::new();
    write(&tree, &records, 0, 1, &[]);
    let readers = [SeqNo(1)];
    let guard = tree.pin();
    let result = tree.update(&guard, b"key", &records, |present| {
        let leaf = records.leaf(0, 2);
        let own = || Ok(SeqNo(1));
        let list = present
            .unwrap()
            .with_version(SeqNo(2), leaf, own, &readers[..])?;
        drop(list);
        Err(Error::Busy("no".into()))
    });
    assert!(result.is_err());
    let result = tree.update(&guard, b"key", &records, |present| {
        let own = || Err(Error::Busy("the record cannot be read".into()));
        let list = present.unwrap();
        Ok(Some(list.with_version(
            SeqNo(2),
            records.leaf(0, 2),
            own,
            &readers[..],
        )?))
    });
    assert!(result.is_err());
    assert_eq!((tree.memory().lists, tree.memory().live_bytes), (0, 0));
    assert_eq!(seqnos(&tree, &records, 0), [1]);
}

#[test]
fn a_guard_keeps_the_list_that_it_found() {
    let records = Records::new(vec![b"key".to_vec()]);
    let slab = Arc::new(Slab::new());
    let tree = Tree::with_memory(slab.clone());
    let readers = [SeqNo(1), SeqNo(2)];
    for seqno in 1..=3 {
        write(&tree, &records, 0, seqno, &readers);
    }
    let guard = tree.pin();
    let entry = tree.get(&guard, b"key", &records).unwrap().unwrap();
    let before: Vec<_> = entry.list().unwrap().to_vec();
    for seqno in 4..2000 {
        write(&tree, &records, 0, seqno, &readers);
        tree.collect();
    }
    assert_eq!(entry.list().unwrap(), before);
    assert!(slab.usage().used_bytes >= 1990 * 64, "{:?}", slab.usage());
    assert!(tree.memory().retained_bytes >= 1990 * 64);
    drop(guard);
    tree.collect();
    assert_eq!(slab.usage().used_bytes, tree.memory().live_bytes);
    assert_eq!(tree.memory().live_bytes, 64);
}

/// Of a key, all that the tree has, newest first: seqno, and whether it is an operand.
pub fn all_of(tree: &Tree, records: &Records) -> Vec<(u64, bool)> {
    let guard = tree.pin();
    let entry = tree.get(&guard, b"key", records).unwrap().unwrap();
    let only = (records.of(entry.leaf()).1 as u64, entry.leaf().is_operand());
    match entry.list() {
        None => vec![only],
        Some(_) => {
            let all = entry.versions().map(|v| (v.seqno.0, v.leaf.is_operand()));
            all.collect()
        }
    }
}

/// Operands and bases in any order, with any readers: every reader finds all that he needs, nothing that is in the tree
/// was not written, and no block is lost.
#[test]
fn whoever_reads_an_operand_finds_what_it_is_on() {
    let mut random = Random(3);
    for round in 0..300 {
        let records = Records::new(vec![b"key".to_vec()]);
        let slab = Arc::new(Slab::new());
        let tree = Tree::with_memory(slab.clone());
        // All that was written: whether it is an operand. Readers register at what was written then, or earlier.
        let mut written: BTreeMap<u64, bool> = BTreeMap::new();
        let mut readers: Vec<SeqNo> = Vec::new();
        // Some come later than newer ones, as groups that are overtaken do.
        let mut order: Vec<u64> = (1..=200).collect();
        for at in 0..order.len() {
            if random.below(4) == 0 {
                let other = (at + random.below(40)).min(order.len() - 1);
                order.swap(at, other);
            }
        }
        let bases = [2, 10, 200][round % 3];
        for (at, &seqno) in order.iter().enumerate() {
            let is_operand = random.below(bases) != 0;
            // Nobody registers above what has been written without a gap.
            let visible = (1..).take_while(|n| written.contains_key(n)).count() as u64;
            match random.below(12) {
                0 => readers.push(SeqNo(visible)),
                1 if !readers.is_empty() => drop(readers.swap_remove(random.below(readers.len()))),
                _ => {}
            }
            let mut moments = readers.clone();
            // What is visible now, and what may be soon.
            moments.extend((visible..=200).map(SeqNo));
            moments.sort_unstable();
            let guard = tree.pin();
            let leaf = records.leaf(0, seqno as usize);
            let leaf = if is_operand { leaf.as_operand() } else { leaf };
            tree.update(&guard, b"key", &records, |present| {
                let Some(present) = present else {
                    return Ok(Some(leaf.into()));
                };
                let own = || Ok(SeqNo(records.of(present.leaf()).1 as u64));
                let new = present.with_version(SeqNo(seqno), leaf, own, &moments[..])?;
                Ok(Some(new))
            })
            .unwrap();
            drop(guard);
            written.insert(seqno, is_operand);
            let has = all_of(&tree, &records);
            assert!(has.windows(2).all(|pair| pair[0].0 > pair[1].0), "{has:?}");
            assert!(
                has.iter()
                    .all(|(s, operand)| written.get(s) == Some(operand))
            );
            let visible = (1..).take_while(|n| written.contains_key(n)).count() as u64;
            for reader in readers.iter().copied().chain([SeqNo(visible), SeqNo(200)]) {
                let mut open = true;
                let below = written.range(..=reader.0).rev();
                let needed: Vec<u64> = below
                    .take_while(|(_, operand)| std::mem::replace(&mut open, **operand))
                    .map(|(seqno, _)| *seqno)
                    .collect();
                let guard = tree.pin();
                let entry = tree.get(&guard, b"key", &records).unwrap().unwrap();
                let found = entry.stack(reader).map(|leaf| records.of(leaf).1 as u64);
                let found: Vec<u64> = found.filter(|seqno| *seqno <= reader.0).collect();
                assert_eq!(found, needed, "at {reader} after {at} writes: {has:?}");
                let newest = entry.at(reader).map(|leaf| records.of(leaf).1 as u64);
                assert_eq!(newest.filter(|s| *s <= reader.0), needed.first().copied());
            }
            if random.below(8) == 0 {
                tree.collect();
                assert_eq!(tree.memory().live_bytes, slab.usage().used_bytes);
            }
        }
        drop(tree);
        assert_eq!(slab.usage().used_bytes, 0);
    }
}

/// A key that is counted up for ever: each operand costs the same, and a base on top lets go of all of them.
#[test]
fn an_operand_copies_a_block_at_most() {
    let records = Records::new(vec![b"key".to_vec()]);
    let slab = Arc::new(Slab::new());
    let tree = Tree::with_memory(slab.clone());
    let write = |seqno: u64, is_operand: bool| {
        let guard = tree.pin();
        let leaf = records.leaf(0, seqno as usize);
        let leaf = if is_operand { leaf.as_operand() } else { leaf };
        let nobody: &[SeqNo] = &[];
        tree.update(&guard, b"key", &records, |present| {
            let Some(present) = present else {
                return Ok(Some(leaf.into()));
            };
            let own = || Ok(SeqNo(records.of(present.leaf()).1 as u64));
            let new = present.with_version(SeqNo(seqno), leaf, own, nobody)?;
            assert!(
                present
                    .list()
                    .is_none_or(|list| list.len() <= OPERANDS_A_BLOCK)
            );
            Ok(Some(new))
        })
        .unwrap();
    };
    const N: u64 = 20_000;
    (1..=N).for_each(|seqno| write(seqno, true));
    assert_eq!(all_of(&tree, &records).len() as u64, N);
    tree.collect();
    let memory = tree.memory();
    assert!(
        memory.lists >= N / 17 && memory.live_bytes < N * 24,
        "{memory:?}"
    );
    write(N + 1, false);
    assert_eq!(all_of(&tree, &records), [(N + 1, false)]);
    tree.collect();
    assert_eq!((tree.memory().lists, slab.usage().used_bytes), (0, 0));
}
