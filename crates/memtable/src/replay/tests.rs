//! One thread or many, one stretch or many: the indexes are the same.

use std::ops::Bound;
use std::sync::Arc;

use thermocline_base::{BatchEntry, Error, Kind};
use thermocline_halloc::{Reserve, Space};

use super::*;
use crate::{Chain, ChainWriter, Direction, ItemBuilder, Persist, fixture, item_bytes};

const PM: u64 = 16 << 20;

fn space() -> Arc<Space> {
    fixture::space(PM, 1 << 20)
}

/// Generations with so many items each, in stretches; of few keys in two families, so that
/// versions of one key lie in several stretches.
struct Store {
    space: Arc<Space>,
    chains: Vec<Chain>,
    /// Of which generation, and its items.
    stretches: Vec<(usize, Vec<ItemRef>)>,
}

impl Store {
    fn new(generations: &[&[usize]]) -> Store {
        let space = space();
        let mut store = Store {
            space: space.clone(),
            chains: Vec::new(),
            stretches: Vec::new(),
        };
        let mut seqno = 1;
        for (g, lens) in generations.iter().enumerate() {
            let chain = Chain::new(&[3; 16], g as u64 + 1, 1, 17, seqno);
            let mut writer = ChainWriter::new(space.clone(), chain, None);
            for &len in *lens {
                let items = (0..len).map(|_| store.item(&mut writer, &mut seqno));
                let items = items.collect();
                store.stretches.push((g, items));
            }
            store.chains.push(chain);
        }
        store
    }

    fn item(&self, writer: &mut ChainWriter, seqno: &mut u64) -> ItemRef {
        let key = (*seqno * 7919 % 101).to_be_bytes();
        let entries = [0, 1].map(|cf| BatchEntry {
            kind: if seqno.is_multiple_of(5) {
                Kind::Delete
            } else {
                Kind::Put
            },
            cf: CfId(cf),
            key: &key[6 + usize::from(cf)..],
            value: b"",
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
        let region = self.space.region();
        let memtables: Vec<Memtable> = (1..)
            .zip(&self.chains)
            .map(|(id, chain)| Memtable::new(region.clone(), id, vec![*chain]))
            .collect();
        let stretches: Vec<Stretch<'_>> = self
            .stretches
            .iter()
            .map(|(g, items)| Stretch {
                memtable: &memtables[*g],
                items,
            })
            .collect();
        replay(&stretches, threads, admit)?;
        Ok(memtables)
    }
}

/// All that a memtable has: of each family its records in order, and its counts.
fn contents(memtable: &Memtable) -> (Vec<PmOff>, u64, u64) {
    let mut all = Vec::new();
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
    (all, memtable.len(), memtable.bytes())
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
        let counted: u64 = expected.iter().map(|(_, len, _)| len).sum();
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
        }
    }
}
