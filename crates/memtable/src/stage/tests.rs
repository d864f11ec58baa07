//! Staged chains: what readers of the adopted memtable see, and what recovery finds.

use std::ops::Bound;

use thermocline_base::budget::Budget;
use thermocline_base::{Error, Kind};

use super::*;
use crate::{
    ChainPlan, Direction, Lookup, Stretch, WalkOutcome, fixture, replay, walk_incarnation,
};

const PM: u64 = 1 << 20;
const DB: [u8; 16] = [3; 16];

fn space() -> Arc<Space> {
    fixture::space(PM, 256 << 10)
}

fn account() -> Arc<Account> {
    Account::new(Budget::new(u64::MAX), u64::MAX)
}

fn chain(base: u64) -> Chain {
    Chain::new(&DB, 7, 1, 17, base)
}

/// A batch over two families in which keys come more than once, puts, deletes and range deletes.
fn batch(records: u64) -> Vec<(Kind, CfId, Vec<u8>, Vec<u8>)> {
    let record = |n: u64| {
        let key = (n * 7919 % (records / 2 + 1)).to_be_bytes().to_vec();
        let cf = CfId(u16::try_from(n % 2).unwrap());
        let end = (n * 7919 % (records / 2 + 1) + n % 9).to_be_bytes();
        match n % 5 {
            0 => (Kind::Delete, cf, key, Vec::new()),
            1 if !n.is_multiple_of(9) => (Kind::RangeDelete, cf, key, end.to_vec()),
            _ => (Kind::Put, cf, key, vec![n.to_le_bytes()[0]; 300]),
        }
    };
    (0..records).map(record).collect()
}

fn entries(
    batch: &[(Kind, CfId, Vec<u8>, Vec<u8>)],
) -> impl Iterator<Item = BatchEntry<'_>> + Clone {
    batch.iter().map(|(kind, cf, key, value)| BatchEntry {
        kind: *kind,
        cf: *cf,
        key,
        value,
    })
}

/// What a reader at `seqno` finds of everything, by point reads and by scans.
fn read(
    memtable: &Memtable,
    batch: &[(Kind, CfId, Vec<u8>, Vec<u8>)],
    seqno: SeqNo,
) -> Vec<String> {
    let mut found = Vec::new();
    for (_, cf, key, _) in batch {
        let record = match memtable.get(*cf, key, seqno, true).unwrap() {
            Lookup::Absent => None,
            Lookup::Covered => Some((SeqNo::ZERO, Kind::RangeDelete, Vec::new())),
            Lookup::Record(record) => Some((record.seqno, record.kind, record.value.to_vec())),
        };
        found.push(format!("{cf:?} {key:?} {record:?}"));
    }
    for cf in [CfId(0), CfId(1)] {
        found.extend(memtable.cover(cf, seqno).map(|cover| format!("{cover:?}")));
        let mut hits = Vec::new();
        let forward = Direction::Forward;
        let more = memtable.scan(cf, Bound::Unbounded, forward, seqno, 10_000, &mut hits);
        assert!(!more.unwrap());
        for hit in hits {
            let record = memtable.record(hit.at, true).unwrap();
            if record.seqno <= seqno {
                found.push(format!("{cf:?} {:?} {:?}", record.key, record.seqno));
            }
        }
    }
    found
}

/// What recovery makes of the zones of a chain with this cut.
fn recovered(
    space: &Space,
    zones: &[Zone],
    base: u64,
    last: u64,
) -> Result<(Memtable, WalkOutcome)> {
    let plan = ChainPlan {
        chain: chain(base).staged(),
        segments: ChainPlan::segments(None, zones),
        cut: Some(last),
        floor: None,
    };
    let walk = walk_incarnation(space.region(), std::slice::from_ref(&plan), base, 1)?;
    let memtable = Memtable::new(space.region().clone(), 5, vec![plan.chain]);
    let items = walk.chains[0].items.iter();
    let stretches: Vec<_> = items
        .map(|items| Stretch {
            memtable: &memtable,
            items,
            indexed: true,
        })
        .collect();
    replay(&stretches, 2, &[], &|_, _, _| Ok(true))?;
    drop(stretches);
    Ok((memtable, walk))
}

#[test]
fn a_staged_chain_has_the_seqnos_that_its_adoption_gives_it() {
    // The low half wraps within the last.
    for base in [1, 2, 1000, 0xffff_fff0, 0x7_ffff_ff80] {
        let space = space();
        let batch = batch(400);
        let mut stage = Stage::new(&space, chain(1), &account(), 4096);
        for entry in entries(&batch) {
            stage.push(entry).unwrap();
        }
        let staged = stage.complete().unwrap();
        assert_eq!((staged.chain, staged.records), (7, 400));
        let zones = stage.zones().to_vec();
        assert!(zones.len() > 3, "several zones");
        let last = base + 399;
        let memtable = stage.adopted(5, SeqNo(base));
        assert!(memtable.is_sealed() && memtable.id() == 5);
        assert_eq!((memtable.base(), memtable.len()), (SeqNo(base), 400));
        // Of each key the last change of the batch, with the seqno of its place.
        let mut covered = 0;
        for (n, (kind, cf, key, value)) in (0..).zip(&batch) {
            let of_key = |(kind, c, start, end): &(Kind, CfId, Vec<u8>, Vec<u8>)| {
                c == cf
                    && match kind {
                        Kind::RangeDelete => start <= key && key < end,
                        _ => start == key,
                    }
            };
            if batch[n + 1..].iter().any(of_key) {
                continue;
            }
            let at = SeqNo(base + n as u64);
            let found = memtable.get(*cf, key, SeqNo(last), true).unwrap();
            let record = match found {
                Lookup::Record(record) => record,
                Lookup::Covered if *kind == Kind::RangeDelete => {
                    covered += 1;
                    let cover = memtable.cover(*cf, SeqNo(last)).unwrap();
                    assert_eq!(cover.newest_over(key), Some(at));
                    continue;
                }
                found => panic!("{key:?} is {found:?}"),
            };
            assert_eq!(
                (record.seqno, record.kind, record.value),
                (at, *kind, &value[..])
            );
        }
        assert!(covered > 20);
        // Before its first seqno there is nothing of it.
        let before = read(&memtable, &batch, SeqNo(base - 1));
        assert!(
            before.iter().all(|found| found.ends_with("None")),
            "{before:?}"
        );
        // Recovery finds the same.
        let (again, walk) = recovered(&space, &zones, base, last).unwrap();
        assert_eq!((walk.last_seqno, walk.known_durable), (last, last));
        let end = walk.chains[0].end.map(|(_, at)| at);
        assert_eq!(end, Some(staged.end));
        assert_eq!(
            (again.len(), again.bytes()),
            (memtable.len(), memtable.bytes())
        );
        for seqno in [base - 1, base, base + 200, last].map(SeqNo) {
            // Versions of one key: replay keeps the newest, as staging does.
            assert_eq!(read(&again, &batch, seqno), read(&memtable, &batch, seqno));
        }
    }
}

#[test]
fn a_staged_chain_that_lacks_an_item_is_corruption() {
    let space = space();
    let batch = batch(100);
    let mut stage = Stage::new(&space, chain(1), &account(), 4096);
    entries(&batch).for_each(|entry| stage.push(entry).unwrap());
    stage.complete().unwrap();
    let zones = stage.zones().to_vec();
    assert!(recovered(&space, &zones, 10, 109).is_ok());
    for last in [108, 110, 200] {
        // A cut between two items, or behind the last one.
        let error = recovered(&space, &zones, 10, last).unwrap_err();
        assert!(matches!(error, Error::Corruption { .. }), "{error}");
    }
    let error = recovered(&space, &zones[1..], 10, 109).unwrap_err();
    assert!(matches!(error, Error::Corruption { .. }), "{error}");
    // As long as nobody adopts it, its numbers are no seqnos of any other base.
    let error = recovered(&space, &zones[..1], 10, 109).unwrap_err();
    assert!(matches!(error, Error::Corruption { .. }), "{error}");
}

#[test]
fn a_record_for_which_there_is_no_room_may_be_pushed_again() {
    let space = space();
    let mut stage = Stage::new(&space, chain(1), &account(), 8192);
    let value = vec![9; 3000];
    let keys: Vec<[u8; 8]> = (0..1000u64).map(u64::to_be_bytes).collect();
    let mut puts = keys.iter().map(|key| BatchEntry {
        kind: Kind::Put,
        cf: CfId::DEFAULT,
        key,
        value: &value,
    });
    let full = puts.find_map(|put| Some((put, stage.push(put).err()?)));
    let full = full.expect("there are more than fit");
    assert!(matches!(full.1, Error::OutOfSpace(_)), "{}", full.1);
    assert_eq!(space.usage().zones_free, 1, "one stays in reserve");
    assert!(matches!(stage.push(full.0), Err(Error::OutOfSpace(_))));
    // Whoever gives up gives all of it back.
    let zones = stage.zones().to_vec();
    drop(stage);
    space.release(&zones);
    assert_eq!(space.usage().zones_attached, 0);
}

#[test]
fn a_record_larger_than_an_item_is_one_of_its_own() {
    let space = space();
    let value = vec![9; 40_000];
    let put = |key| BatchEntry {
        kind: Kind::Put,
        cf: CfId::DEFAULT,
        key,
        value: &value,
    };
    let mut stage = Stage::new(&space, chain(1), &account(), 4096);
    for key in [b"a", b"b", b"c"] {
        stage.push(put(key)).unwrap();
    }
    let staged = stage.complete().unwrap();
    assert_eq!(staged.records, 3);
    let zones = stage.zones().to_vec();
    let (again, _) = recovered(&space, &zones, 50, 52).unwrap();
    let found = again.get(CfId::DEFAULT, b"b", SeqNo(51), true).unwrap();
    assert!(matches!(found, Lookup::Record(record) if record.value == value));
}

#[test]
fn a_batch_ends_where_memory_is_refused_and_goes_on_where_there_is_room_again() {
    let batch = batch(6000);
    let push = |account: &Arc<Account>| {
        let mut stage = Stage::new(&space(), chain(1), account, 4096);
        let full = entries(&batch).try_for_each(|entry| stage.push(entry));
        (full.unwrap_err(), stage.can_go_on())
    };
    // While a store is opened its account refuses what its budget does not have.
    let (error, goes_on) = push(&Account::new(Budget::new(1000), u64::MAX));
    assert!(matches!(error, Error::OutOfSpace(_)), "{error}");
    assert!(!goes_on, "an item is stored, and not indexed");
    let (error, goes_on) = push(&account());
    assert!(matches!(error, Error::OutOfSpace(_)), "{error}");
    assert!(goes_on, "the region is full");
}
