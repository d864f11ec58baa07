//! One thread or many, one stretch or many: the indexes are the same.

use std::ops::Bound;
use std::sync::Arc;

use thermocline_art::{Entry, OPERANDS_A_BLOCK};
use thermocline_base::{BatchEntry, Error, Kind};
use thermocline_halloc::{Reserve, Space};

use super::*;
use crate::{Chain, ChainWriter, Direction, ItemBuilder, Lookup, Persist, fixture, item_bytes};

const PM: u64 = 16 << 20;

fn space() -> Arc<Space> {
    fixture::space(PM, 1 << 20)
}

/// Memtables with so many items each, in stretches; of few keys in two families, so that
/// versions of one key lie in several stretches.
struct Store {
    space: Arc<Space>,
    chains: Vec<Chain>,
    /// Of which memtable, and its items.
    stretches: Vec<(usize, Vec<ItemRef>)>,
}

impl Store {
    fn new(memtables: &[&[usize]]) -> Store {
        let space = space();
        let mut store = Store {
            space: space.clone(),
            chains: Vec::new(),
            stretches: Vec::new(),
        };
        let mut seqno = 1;
        for (n, lens) in memtables.iter().enumerate() {
            let chain = Chain::new(&[3; 16], n as u64 + 1, 1, 17, seqno);
            let mut writer = ChainWriter::new(space.clone(), chain, None);
            for &len in *lens {
                let items = (0..len).map(|_| store.item(&mut writer, &mut seqno));
                let items = items.collect();
                store.stretches.push((n, items));
            }
            store.chains.push(chain);
        }
        store
    }

    fn item(&self, writer: &mut ChainWriter, seqno: &mut u64) -> ItemRef {
        let key = (*seqno * 7919 % 101).to_be_bytes();
        let end = (*seqno * 7919 % 101 + *seqno % 13 + 1).to_be_bytes();
        let entries = [0, 1].map(|cf| BatchEntry {
            kind: match *seqno {
                n if n.is_multiple_of(5) => Kind::Delete,
                n if n.is_multiple_of(7) => Kind::RangeDelete,
                _ => Kind::Put,
            },
            cf: CfId(cf),
            key: &key[6 + usize::from(cf)..],
            value: match seqno.is_multiple_of(7) && !seqno.is_multiple_of(5) {
                // Some without an end.
                true if !seqno.is_multiple_of(21) => &end[6 + usize::from(cf)..],
                _ => b"",
            },
        });
        let entries = entries.into_iter();
        let bytes = item_bytes(entries.clone());
        writer.ensure(bytes, Reserve::Keep).unwrap();
        let grant = writer.grant(bytes);
        let first_seqno = *seqno;
        ItemBuilder::default()
            .store(
                self.space.region(),
                &grant,
                entries,
                first_seqno,
                0,
                Persist::Now,
            )
            .unwrap();
        *seqno += 2;
        ItemRef {
            at: grant.at(),
            bytes: bytes.try_into().unwrap(),
            count: 2,
            first_seqno,
        }
    }

    fn replayed(
        &self,
        threads: usize,
        admit: impl Fn(PmOff, CfId, &[u8]) -> Result<bool> + Sync,
    ) -> Result<Vec<Memtable>> {
        self.replayed_for(threads, &[], admit)
    }

    fn replayed_for(
        &self,
        threads: usize,
        moments: &[SeqNo],
        admit: impl Fn(PmOff, CfId, &[u8]) -> Result<bool> + Sync,
    ) -> Result<Vec<Memtable>> {
        let memtables = self.memtables();
        self.replay_into(&memtables, threads, moments, admit)?;
        Ok(memtables)
    }

    /// Those of all memtables, with nothing in them.
    fn memtables(&self) -> Vec<Memtable> {
        let region = self.space.region();
        (1..)
            .zip(&self.chains)
            .map(|(id, chain)| Memtable::new(region.clone(), id, vec![*chain]))
            .collect()
    }

    fn replay_into(
        &self,
        memtables: &[Memtable],
        threads: usize,
        moments: &[SeqNo],
        admit: impl Fn(PmOff, CfId, &[u8]) -> Result<bool> + Sync,
    ) -> Result<u64> {
        let stretches = self.stretches.iter().map(|(n, items)| Stretch {
            memtable: &memtables[*n],
            items,
            indexed: true,
        });
        let stretches: Vec<Stretch<'_>> = stretches.collect();
        replay(&stretches, threads, moments, &admit)
    }
}

/// All that a memtable has: of each family its records in order and its range tombstones, and its counts.
fn contents(memtable: &Memtable) -> (Vec<PmOff>, Vec<String>, u64, u64) {
    let mut all = Vec::new();
    let covers = [CfId(0), CfId(1)].map(|cf| format!("{:?}", memtable.covers(cf)));
    for cf in [CfId(0), CfId(1)] {
        let mut out = Vec::new();
        let more = memtable.scan(
            cf,
            Bound::Unbounded,
            Direction::Forward,
            SeqNo::MAX,
            10_000,
            &mut out,
        );
        assert!(!more.unwrap());
        all.extend(out.into_iter().map(|entry| entry.at));
    }
    (all, covers.to_vec(), memtable.len(), memtable.bytes())
}

#[test]
fn the_indexes_do_not_depend_on_the_threads() {
    let shapes: &[&[&[usize]]] = &[
        &[],
        &[&[0]],
        &[&[1]],
        &[&[3000]],
        &[&[255, 1], &[0, 256], &[257], &[1, 1, 1], &[], &[511, 513]],
        &[&[20][..]; 60],
    ];
    for shape in shapes {
        let store = Store::new(shape);
        let expected: Vec<_> = store.replayed(1, |_, _, _| Ok(true)).unwrap();
        let expected: Vec<_> = expected.iter().map(contents).collect();
        let items: usize = shape.iter().flat_map(|lens| lens.iter()).sum();
        let counted: u64 = expected.iter().map(|(_, _, len, _)| len).sum();
        assert_eq!(counted, 2 * items as u64, "each item once");
        for threads in [2, 3, 8] {
            let found = store.replayed(threads, |_, _, _| Ok(true)).unwrap();
            let found: Vec<_> = found.iter().map(contents).collect();
            assert_eq!(found, expected, "{threads} threads");
        }
    }
}

#[test]
fn of_several_errors_the_first_is_told_and_what_is_not_admitted_is_not_there() {
    let store = Store::new(&[&[40][..]; 40]);
    let bad = |n: usize| store.stretches[n].1[7].at.0 + 48;
    let fails = [bad(9), bad(23), bad(38)];
    for threads in [1, 2, 8] {
        let error = store.replayed(threads, |at, _, _| match fails.contains(&at.0) {
            true => Err(Error::InvalidArgument(at.0.to_string())),
            false => Ok(true),
        });
        assert!(error.unwrap_err().to_string().contains(&bad(9).to_string()));
        let some = store
            .replayed(threads, |_, cf, _| Ok(cf == CfId(1)))
            .unwrap();
        for memtable in some {
            let mut out = Vec::new();
            let all = Bound::Unbounded;
            let forward = Direction::Forward;
            let found = memtable.scan(CfId(0), all, forward, SeqNo::MAX, 10, &mut out);
            assert!(!found.unwrap() && out.is_empty());
            assert_eq!(memtable.len(), 80);
            assert!(memtable.covers(CfId(0)).is_empty());
        }
    }
}

/// Of all that is replayed the newest range tombstone over each key is that of a search through all.
#[test]
fn range_tombstones_come_back_in_their_order() {
    let store = Store::new(&[&[600, 700]]);
    let memtable = store.replayed(3, |_, _, _| Ok(true)).unwrap().remove(0);
    let items = store.stretches.iter().flat_map(|(_, items)| items);
    let mut tombstones = Vec::new();
    for at in items.flat_map(|item| memtable.record_offsets(item).unwrap()) {
        let record = memtable.record(at, true).unwrap();
        if record.kind == Kind::RangeDelete {
            tombstones.push((memtable.records().family(at).unwrap(), record));
        }
    }
    assert!(tombstones.len() > 100);
    for cf in [CfId(0), CfId(1)] {
        let cover = memtable.cover(cf, SeqNo::MAX).unwrap();
        for n in 0..130u64 {
            let key = &n.to_be_bytes()[6 + usize::from(cf.0)..];
            let over = tombstones.iter().filter(|(of, record)| {
                let open = record.value.is_empty();
                *of == cf && record.key <= key && (open || key < record.value)
            });
            let newest = over.map(|(_, record)| record.seqno).max();
            assert_eq!(cover.newest_over(key), newest);
        }
    }
}

/// Who reads at a moment that the replay was told of finds what was there then.
#[test]
fn what_is_needed_at_a_moment_stays() {
    let store = Store::new(&[&[300, 400, 1, 299]]);
    let moments = [0, 1, 2, 77, 500, 501, 1100, 1999, 5000].map(SeqNo);
    for threads in [1, 3] {
        let memtable = store.replayed_for(threads, &moments, |_, _, _| Ok(true));
        let memtable = memtable.unwrap().remove(0);
        let items = store.stretches.iter().flat_map(|(_, items)| items);
        let offsets = items.flat_map(|item| memtable.record_offsets(item).unwrap());
        let offsets: Vec<PmOff> = offsets.collect();
        let record = |at: &PmOff| {
            let family = memtable.records().family(*at).unwrap();
            (family, memtable.record(*at, true).unwrap())
        };
        let records: Vec<_> = offsets.iter().map(record).collect();
        let mut kept = 0;
        for (moment, cf, n) in moments.iter().flat_map(|moment| {
            let keys =
                (0..130u64).flat_map(move |n| [(*moment, CfId(0), n), (*moment, CfId(1), n)]);
            keys.collect::<Vec<_>>()
        }) {
            let key = &n.to_be_bytes()[6 + usize::from(cf.0)..];
            let then = records
                .iter()
                .filter(|(of, r)| *of == cf && r.seqno <= moment);
            let (ranges, own): (Vec<_>, Vec<_>) =
                then.partition(|(_, record)| record.kind == Kind::RangeDelete);
            let over = ranges.iter().filter(|(_, r)| {
                let open = r.value.is_empty();
                r.key <= key && (open || key < r.value)
            });
            let over = over.map(|(_, record)| record.seqno).max();
            let own = own.iter().filter(|(_, record)| record.key == key);
            let newest = own.map(|(_, record)| record.seqno).max();
            match memtable.get(cf, key, moment, true).unwrap() {
                Lookup::Absent => assert_eq!((newest, over), (None, None)),
                Lookup::Covered => assert!(over.is_some() && over > newest),
                Lookup::Record(record) => {
                    assert_eq!(Some(record.seqno), newest);
                    assert!(over < newest);
                    kept += 1;
                }
            }
        }
        assert!(kept > 300, "{kept}");
    }
}

/// A writer that had gone mad, or a forger with the seeds: the bytes are sound, and say nothing sensible.
#[test]
fn a_range_that_ends_before_it_begins_is_corruption() {
    for (start, end, sound) in [
        (&b"k"[..], &b"l"[..], true),
        (b"k", b"", true),
        (b"", b"", true),
        (b"k", b"k", false),
        (b"k", b"j", false),
        (b"k", &[0], false),
    ] {
        let space = space();
        let chain = Chain::new(&[3; 16], 1, 1, 17, 1);
        let mut writer = ChainWriter::new(space.clone(), chain, None);
        let entry = BatchEntry {
            kind: Kind::RangeDelete,
            cf: CfId(0),
            key: start,
            value: end,
        };
        let entries = std::iter::once(entry);
        let bytes = item_bytes(entries.clone());
        writer.ensure(bytes, Reserve::Keep).unwrap();
        let grant = writer.grant(bytes);
        let mut builder = ItemBuilder::default();
        let region = space.region();
        let stored = builder.store(region, &grant, entries, 1, 0, Persist::Now);
        let at = stored.unwrap()[0];
        let memtable = Memtable::new(region.clone(), 1, vec![chain]);
        let items = [ItemRef {
            at: grant.at(),
            bytes: bytes.try_into().unwrap(),
            count: 1,
            first_seqno: 1,
        }];
        let stretch = Stretch {
            memtable: &memtable,
            items: &items,
            indexed: true,
        };
        match replay(&[stretch], 1, &[], &|_, _, _| Ok(true)) {
            Ok(_) => assert!(sound, "{start:?} {end:?}"),
            Err(Error::Corruption { offset, .. }) => assert!(!sound && offset == at.0),
            Err(other) => panic!("{other}"),
        }
        // A byte of the end that has rotted: it is read at once, not when somebody meets it.
        let rotten = at.plus(16 + start.len() as u64);
        fixture::rot(region, rotten, &[end.first().copied().unwrap_or(0) ^ 0x40]);
        let memtable = Memtable::new(region.clone(), 1, vec![chain]);
        let stretch = Stretch {
            memtable: &memtable,
            items: &items,
            indexed: true,
        };
        let again = replay(&[stretch], 1, &[], &|_, _, _| Ok(true));
        assert_eq!(again.is_err(), !sound || !end.is_empty());
    }
}

/// A thread that is interrupted inside a tree keeps what others replace: they wait for it.
#[test]
fn who_settles_waits_for_whoever_is_inside_the_tree() {
    let store = Store::new(&[&[1000]]);
    let memtable = &store.memtables()[0];
    let inside = memtable.tree_or_new(CfId(0)).pin();
    // Each newer version of a key replaces the list of those before.
    let moments: Vec<SeqNo> = (0..2000).map(SeqNo).collect();
    store
        .replay_into(std::slice::from_ref(memtable), 1, &moments, |_, _, _| {
            Ok(true)
        })
        .unwrap();
    let waiting = memtable.index_or_new(CfId(0)).tree.collect();
    assert!(waiting > 2 * memtable.waiting_max(), "{waiting}");
    let has_gone = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let settled = scope.spawn(|| {
            memtable.settle();
            has_gone.load(Ordering::Relaxed)
        });
        (0..1000).for_each(|_| std::thread::yield_now());
        has_gone.store(1, Ordering::Relaxed);
        drop(inside);
        assert_eq!(settled.join().unwrap(), 1);
    });
    assert_eq!(memtable.index_or_new(CfId(0)).tree.collect(), 0);
}

/// A memtable with one record an item, of these kinds and keys.
fn store_of<'a>(records: impl Iterator<Item = (Kind, &'a [u8])>) -> Store {
    let space = space();
    let chain = Chain::new(&[3; 16], 1, 1, 17, 1);
    let mut writer = ChainWriter::new(space.clone(), chain, None);
    let mut builder = ItemBuilder::default();
    let mut items = Vec::new();
    for (first_seqno, (kind, key)) in (1..).zip(records) {
        let entries = std::iter::once(BatchEntry {
            kind,
            cf: CfId(0),
            key,
            value: match kind {
                Kind::Delete => &[],
                _ => b"1",
            },
        });
        let bytes = item_bytes(entries.clone());
        writer.ensure(bytes, Reserve::Keep).unwrap();
        let grant = writer.grant(bytes);
        let region = space.region();
        let stored = builder.store(region, &grant, entries, first_seqno, 0, Persist::Now);
        stored.unwrap();
        items.push(ItemRef {
            at: grant.at(),
            bytes: bytes.try_into().unwrap(),
            count: 1,
            first_seqno,
        });
    }
    Store {
        space,
        chains: vec![chain],
        stretches: vec![(0, items)],
    }
}

/// Looks at what the index has for a key.
fn entry_of<R>(memtable: &Memtable, key: &[u8], look: impl FnOnce(Entry<'_>) -> R) -> R {
    let tree = memtable.tree_or_new(CfId(0));
    let guard = tree.pin();
    let entry = tree.get(&guard, key, memtable.records()).unwrap();
    look(entry.unwrap())
}

/// A counter: threads bring its operands out of order, and no block of them grows.
#[test]
fn operands_of_one_key_lie_in_short_blocks_however_they_come() {
    const N: u64 = 20_000;
    let merges = (0..N).map(|_| (Kind::Merge, &b"counter"[..]));
    let store = store_of(merges);
    let all: Vec<u64> = (1..=N).rev().collect();
    for threads in [1, 4] {
        let memtable = store.replayed(threads, |_, _, _| Ok(true)).unwrap();
        let memtable = &memtable[0];
        assert!(memtable.has_operands());
        entry_of(memtable, b"counter", |entry| {
            let found: Vec<u64> = entry.versions().map(|v| v.seqno.0).collect();
            assert_eq!(found, all, "{threads} threads");
            let longest = entry.blocks().map(<[_]>::len).max();
            assert!(longest.unwrap() <= OPERANDS_A_BLOCK, "{longest:?}");
            for at in [1, 255, 256, 257, 10_000, N] {
                assert_eq!(entry.stack(SeqNo(at)).count() as u64, at);
            }
        });
    }
}

/// Operands and puts of few keys: whoever reads finds the newest, and what that is on.
#[test]
fn operands_and_what_they_are_on_come_back_with_any_threads() {
    const N: u64 = 5000;
    let keys: [&[u8]; 3] = [b"a", b"b", b"bc"];
    let record = |n: u64| {
        let kind = match n * 7919 % 101 {
            0 => Kind::Put,
            1 => Kind::Delete,
            _ => Kind::Merge,
        };
        (kind, usize::try_from(n * 31 % 3).unwrap())
    };
    let store = store_of((1..=N).map(|n| (record(n).0, keys[record(n).1])));
    let readers = [1, 300, 2222, 4999].map(SeqNo);
    let (nobody, some): (&[SeqNo], &[SeqNo]) = (&[], &readers);
    for (threads, moments) in [(1, nobody), (4, nobody), (1, some), (4, some)] {
        let memtables = store.replayed_for(threads, moments, |_, _, _| Ok(true));
        let memtable = &memtables.unwrap().remove(0);
        for (k, key) in keys.iter().enumerate() {
            for at in moments.iter().copied().chain([SeqNo(N)]) {
                let mut open = true;
                let of_key = (1..=at.0).rev().filter(|n| record(*n).1 == k);
                let needed: Vec<u64> = of_key
                    .take_while(|n| std::mem::replace(&mut open, record(*n).0 == Kind::Merge))
                    .collect();
                let found: Vec<u64> = entry_of(memtable, key, |entry| {
                    let records = entry.stack(at).map(|leaf| PmOff(leaf.offset()));
                    let seqnos = records.map(|at| memtable.record(at, true).unwrap().seqno);
                    seqnos.filter(|s| *s <= at).map(|s| s.0).collect()
                });
                assert_eq!(found, needed, "{threads} threads, at {at}");
            }
        }
    }
}
