//! The walk on chains made by hand: what it keeps, what it cuts, what it calls corruption.

use std::path::Path;

use thermocline_base::checksum::{crc32c, hash64_seeded};
use thermocline_base::options::{Emulation, RegionDemand};
use thermocline_base::planted::plant;
use thermocline_base::size::index;
use thermocline_base::{BatchEntry, CfId, ErrorKind, Kind, SeqNo, Steps};
use thermocline_env::Env;
use thermocline_halloc::{Reserve, Space, SpaceSpec, Zone};
use thermocline_pm::{Place, RegionSpec, SimPm};

use super::item::SEQNO_END;
use super::*;
use crate::format::{ItemHeader, item_crc_start};
use crate::{ChainWriter, ItemBuilder, Memtable, Persist, Stretch, replay};

mod wider;

const PM: u64 = 1 << 20;
const DB: [u8; 16] = [3; 16];

struct Fixture {
    sim: SimPm,
    space: std::sync::Arc<Space>,
    writer: ChainWriter,
    zones: Vec<Zone>,
    next: u64,
}

fn chain(id: u64, base: u64) -> Chain {
    Chain::new(&DB, id, 1, 17, base)
}

impl Fixture {
    fn new() -> Fixture {
        let sim = SimPm::new(PM, Steps::new());
        let spec = RegionSpec {
            env: Env::real(),
            place: Place::Sim(sim.clone()),
            demand: RegionDemand::Any,
            capacity: PM,
            emulation: Emulation::None,
            read_only: false,
        };
        let space_spec = SpaceSpec {
            part_bytes_first: 256 << 10,
            pm: PM,
        };
        let region = Region::create(&spec, Space::first_part_bytes(&space_spec)).unwrap();
        assert_eq!(region.path(), Path::new("sim"));
        let space = std::sync::Arc::new(Space::create(region, &[9; 16], space_spec).unwrap());
        let writer = ChainWriter::new(space.clone(), chain(1, 1), None);
        Fixture {
            sim,
            space,
            writer,
            zones: Vec::new(),
            next: 1,
        }
    }

    /// Appends an item of `n` puts with values of `len` bytes; returns where it begins.
    fn item(&mut self, n: u64, len: usize, published: u64) -> PmOff {
        let keys: Vec<Vec<u8>> = (0..n)
            .map(|i| (self.next + i).to_be_bytes().to_vec())
            .collect();
        let value = vec![7u8; len];
        let entries = keys.iter().map(|key| BatchEntry {
            kind: Kind::Put,
            cf: CfId::DEFAULT,
            key,
            value: &value,
        });
        let bytes = crate::item_bytes(entries.clone());
        if let Some(zone) = self.writer.ensure(bytes, Reserve::Keep).unwrap() {
            // It may be one that was made wider.
            self.zones.retain(|had| had.data != zone.data);
            self.zones.push(zone);
        }
        let grant = self.writer.grant(bytes);
        let region = self.space.region();
        ItemBuilder::default()
            .store(region, &grant, entries, self.next, published, Persist::Now)
            .unwrap();
        let at = grant.at();
        self.next += n;
        at
    }

    fn plan(&self) -> ChainPlan {
        ChainPlan {
            chain: chain(1, 1),
            segments: ChainPlan::segments(None, &self.zones),
            cut: None,
            floor: None,
        }
    }

    fn walk(&self) -> Result<WalkOutcome> {
        walk_incarnation(self.space.region(), &[self.plan()], 1, 1)
    }
}

#[test]
fn all_items_are_found_across_zones_by_one_thread_or_many() {
    let mut f = Fixture::new();
    for i in 0..200 {
        f.item(1 + i % 3, 100 + usize::try_from(i).unwrap() * 7, i / 2);
    }
    assert!(f.zones.len() > 3);
    for threads in [1, 4] {
        let walk = walk_incarnation(f.space.region(), &[f.plan()], 1, threads).unwrap();
        assert_eq!(walk.last_seqno, f.next - 1);
        assert_eq!(walk.known_durable, 99);
        let memtable = Memtable::new(f.space.region().clone(), 1, vec![chain(1, 1)]);
        for items in &walk.chains[0].items {
            let memtable = &memtable;
            replay(
                &[Stretch {
                    memtable,
                    items,
                    indexed: true,
                }],
                threads,
                &[],
                &|_, _, _| Ok(true),
            )
            .unwrap();
        }
        assert_eq!(memtable.len(), f.next - 1);
        for seqno in 1..f.next {
            let found = memtable.get(CfId::DEFAULT, &seqno.to_be_bytes(), SeqNo::MAX, true);
            let crate::Lookup::Record(record) = found.unwrap() else {
                panic!("{seqno} is lost")
            };
            assert_eq!(record.seqno, SeqNo(seqno));
        }
    }
}

#[test]
fn a_torn_tail_is_cut_and_what_was_published_is_not() {
    let mut f = Fixture::new();
    let items: Vec<PmOff> = (0..5).map(|i| f.item(1, 100, i)).collect();
    // The last item's value is torn: nothing vouches for it.
    f.sim.rot(items[4].0 + 100, 1);
    let walk = f.walk().unwrap();
    assert_eq!((walk.last_seqno, walk.known_durable), (4, 4));
    assert_eq!(
        walk.seqno_seen, 5,
        "its header was readable: its seqno is used up"
    );
    // The last but one's header is damaged; the last vouches for it.
    f.sim.rot(items[3].0 + 8, 1);
    let error = f.walk().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("seqno 4"), "{error}");
    let _planted = plant(Bug::CutBelowPublished);
    assert_eq!(
        f.walk().unwrap().last_seqno,
        3,
        "the planted bug loses it silently"
    );
}

/// Zones before the last one that follows may have a rest, and miss nothing.
#[test]
fn a_missing_item_is_told_where_it_was() {
    let mut f = Fixture::new();
    // What they leave is not worth going on behind the zone.
    f.item(1, 13_000, 0);
    f.item(1, 13_000, 1);
    // This one fills the second zone.
    let left = index(f.writer.state().left);
    f.item(1, left - ITEM_HEADER - RECORD_HEADER - 8, 2);
    assert_eq!((f.zones.len(), f.writer.state().left), (2, 0));
    let lost = f.item(1, 100, 3);
    f.item(1, 100, 4);
    assert_eq!(f.walk().unwrap().last_seqno, 5);
    f.sim.rot(lost.0 + 8, 1);
    let error = f.walk().unwrap_err();
    assert!(error.to_string().contains("seqno 4"), "{error}");
    let is_there = matches!(error, Error::Corruption { offset, .. } if offset == lost.0);
    assert!(is_there, "{error}");
}

#[test]
fn a_gap_ends_the_walk() {
    let mut f = Fixture::new();
    f.item(1, 100, 0);
    let lost = f.item(1, 100, 0);
    f.item(1, 100, 0);
    // The middle item never arrived; the one behind it did. Nothing was published.
    for at in 0..192 {
        let byte = f.space.region().bytes(lost.plus(at), 1).unwrap()[0];
        f.sim.rot(lost.0 + at, byte);
    }
    assert_eq!(f.walk().unwrap().last_seqno, 1);
    assert_eq!(f.walk().unwrap().seqno_seen, 3);
}

#[test]
fn rule_1_an_item_with_another_first_seqno_is_not_accepted() {
    let mut f = Fixture::new();
    f.item(1, 100, 0);
    f.next += 5;
    f.item(1, 100, 0);
    assert_eq!(f.walk().unwrap().last_seqno, 1);
    let _planted = plant(Bug::WalkAcceptsGap);
    assert_eq!(
        f.walk().unwrap().last_seqno,
        7,
        "the planted bug goes on behind the gap"
    );
}

#[test]
fn an_item_of_an_earlier_life_of_the_zone_is_not_accepted() {
    let mut f = Fixture::new();
    f.item(1, 100, 0);
    // The same bytes, in a zone that says it lives again.
    let mut plan = f.plan();
    plan.segments[0].zone_generation += 1;
    let walk = || walk_incarnation(f.space.region(), std::slice::from_ref(&plan), 1, 1).unwrap();
    assert_eq!(walk().last_seqno, 0);
    let _planted = plant(Bug::StaleZoneGeneration);
    assert_eq!(walk().last_seqno, 1, "the planted bug takes it");
}

#[test]
fn a_cut_or_floor_above_what_is_there_is_corruption_and_below_it_cuts() {
    let mut f = Fixture::new();
    for _ in 0..4 {
        f.item(2, 50, 0);
    }
    for (cut, floor) in [(Some(10), None), (None, Some(10))] {
        let plan = ChainPlan {
            cut,
            floor,
            ..f.plan()
        };
        let error = walk_incarnation(f.space.region(), &[plan], 1, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
    let plan = ChainPlan {
        cut: Some(4),
        ..f.plan()
    };
    assert_eq!(
        walk_incarnation(f.space.region(), &[plan], 1, 1)
            .unwrap()
            .last_seqno,
        4
    );
    let plan = ChainPlan {
        floor: Some(8),
        ..f.plan()
    };
    let walk = walk_incarnation(f.space.region(), &[plan], 1, 1).unwrap();
    assert_eq!((walk.last_seqno, walk.known_durable), (8, 8));
}

#[test]
fn nonsense_with_sound_checksums_is_cut_or_an_error_and_never_a_panic() {
    let mut accepted = 0;
    for seed in 0..4000u64 {
        let draw = |n: u64| hash64_seeded(&n.to_le_bytes(), seed);
        let mut f = Fixture::new();
        let items: Vec<PmOff> = (0..4).map(|i| f.item(1 + i % 2, 40, i)).collect();
        let victim = items[index(draw(1) % 4)];
        for i in 0..1 + draw(2) % 3 {
            let at = victim.0 + 4 + draw(10 + i) % 120;
            f.sim.rot(at, 1 << (draw(20 + i) % 8));
        }
        if seed % 2 == 0 {
            reseal(&f, victim);
        }
        match f.walk() {
            Ok(walk) => {
                accepted += 1;
                let memtable = Memtable::new(f.space.region().clone(), 1, vec![chain(1, 1)]);
                for items in &walk.chains[0].items {
                    // Whatever was accepted can be read, or is an error.
                    let memtable = &memtable;
                    if replay(
                        &[Stretch {
                            memtable,
                            items,
                            indexed: true,
                        }],
                        1,
                        &[],
                        &|_, _, _| Ok(true),
                    )
                    .is_err()
                    {
                        break;
                    }
                }
                let mut all = Vec::new();
                let _ = memtable.scan(
                    CfId::DEFAULT,
                    std::ops::Bound::Unbounded,
                    crate::Direction::Forward,
                    SeqNo::MAX,
                    100,
                    &mut all,
                );
                for entry in all {
                    let _ = memtable.record(entry.at, true);
                }
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "seed {seed}: {error}"),
        }
    }
    assert!(accepted > 100, "{accepted} accepted");
}

/// Makes an item's checksum right for whatever its header and record headers now say.
fn reseal(f: &Fixture, at: PmOff) {
    let region = f.space.region();
    let header_bytes = region.bytes(at, ITEM_HEADER).unwrap().to_vec();
    let header = ItemHeader::decode(&header_bytes);
    let mut crc = crc32c(item_crc_start(chain(1, 1).seed, at.0), &header_bytes[4..]);
    let mut record = at.plus(ITEM_HEADER as u64);
    for _ in 0..header.count.min(64) {
        let Ok(bytes) = region.bytes(record, RECORD_HEADER) else {
            return;
        };
        let head = RecordHeader::decode(bytes);
        let Ok(bytes) = region.bytes(record, head.head_len()) else {
            return;
        };
        crc = crc32c(crc, bytes);
        record = record.plus(head.padded() as u64);
    }
    crate::fixture::rot(region, at, &crc.to_le_bytes());
}

#[test]
fn a_damaged_empty_item_loses_nothing() {
    let mut f = Fixture::new();
    f.item(1, 100, 0);
    let empty = f.item(0, 0, 1);
    f.item(1, 100, 1);
    assert_eq!(f.walk().unwrap().last_seqno, 2);
    f.sim.rot(empty.0 + 17, 1);
    // Nothing vouches for the write behind the empty item, and still it is there.
    assert_eq!(f.walk().unwrap().last_seqno, 2);
}

/// Three chains of one incarnation of which the middle one's memtable was dropped.
struct Gapped {
    f: Fixture,
    plans: Vec<ChainPlan>,
}

impl Gapped {
    fn new() -> Gapped {
        let mut f = Fixture::new();
        let mut plans = Vec::new();
        for id in 1..=3 {
            let of = Chain::new(&DB, id, 1, 17, f.next);
            f.writer = ChainWriter::new(f.space.clone(), of, None);
            f.zones.clear();
            for i in 0..4 {
                f.item(1 + i % 2, 100, f.next - 1);
            }
            plans.push(ChainPlan {
                chain: of,
                segments: ChainPlan::segments(None, &f.zones),
                cut: (id < 3).then(|| f.next - 1),
                floor: None,
            });
        }
        plans.remove(1);
        Gapped { f, plans }
    }

    fn walk(&self) -> Result<WalkOutcome> {
        walk_incarnation(self.f.space.region(), &self.plans, 1, 1)
    }

    fn assert_lost(&self, seqno: u64) {
        let error = self.walk().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let says = format!("the item with seqno {seqno} is missing");
        assert!(error.to_string().contains(&says), "{error}");
    }
}

#[test]
fn the_walk_steps_over_dropped_memtables_to_the_base_behind_them() {
    let g = Gapped::new();
    let walk = g.walk().unwrap();
    assert_eq!((walk.last_seqno, g.f.next - 1), (18, 18));
    assert_eq!(walk.chains[0].last_seqno, 6);
    let firsts = walk.chains[1].items.iter().flatten().map(|i| i.first_seqno);
    assert_eq!(firsts.collect::<Vec<_>>(), [13, 14, 16, 17]);
    // A chain behind the gap into which nothing was written yet uses up no less.
    let mut g = Gapped::new();
    g.plans[1].segments.clear();
    let walk = g.walk().unwrap();
    assert_eq!((walk.last_seqno, walk.seqno_seen), (12, 12));
    assert_eq!(walk.known_durable, 12);
}

#[test]
fn what_is_missing_before_a_gap_is_corruption() {
    // The manifest does not say that the chain before the gap is complete.
    let mut g = Gapped::new();
    g.plans[0].cut = None;
    g.assert_lost(7);
    // Its last item is gone; nothing vouches for it but the cut.
    let mut g = Gapped::new();
    let last = g.walk().unwrap().chains[0].items[0][3];
    g.f.sim.rot(last.at.0 + 8, 1);
    g.assert_lost(5);
    g.plans[0].cut = Some(4);
    assert_eq!(g.walk().unwrap().chains[0].last_seqno, 4);
    // The chain behind the gap begins before the one before it ends.
    let mut g = Gapped::new();
    g.plans[1].chain.base = 6;
    g.assert_lost(7);
}

#[test]
fn behind_a_gap_rules_1_and_2_hold() {
    // Not at the base that the manifest gives: later items vouch for what should be there.
    let mut g = Gapped::new();
    g.plans[1].chain.base = 12;
    g.assert_lost(12);
    // The first item behind the gap is damaged; later ones vouch for it.
    let g = Gapped::new();
    let items = g.walk().unwrap().chains[1].items[0].clone();
    g.f.sim.rot(items[0].at.0 + 8, 1);
    g.assert_lost(13);
    // The last one is a torn tail.
    let g = Gapped::new();
    g.f.sim.rot(items[3].at.0 + 100, 1);
    assert_eq!(g.walk().unwrap().last_seqno, 16);
}

/// Recovery goes on behind the highest seqno of any item, and a manifest refuses what lies near the end of all numbers.
#[test]
fn an_item_behind_the_last_seqno_is_none() {
    let mut f = Fixture::new();
    f.item(3, 100, 0);
    f.next = SEQNO_END - 2;
    f.item(2, 100, 0);
    assert_eq!(f.walk().unwrap().seqno_seen, SEQNO_END - 1);
    for first in [SEQNO_END - 1, 1 << 63, u64::MAX - 8] {
        f.next = first;
        f.item(2, 100, 0);
        let walk = f.walk().unwrap();
        assert_eq!((walk.last_seqno, walk.seqno_seen), (3, SEQNO_END - 1));
    }
}

/// An opening that is killed before it has written leaves one, and all of these begin in the same rest of a zone.
#[test]
fn a_complete_chain_without_records_is_not_searched() {
    let f = Fixture::new();
    let zone = f.space.attach(2, 0, 1000, Reserve::Keep).unwrap();
    let mut plan = ChainPlan {
        chain: chain(2, 5),
        segments: ChainPlan::segments(None, &[zone]),
        cut: Some(4),
        floor: None,
    };
    let reads = |plan: &ChainPlan| {
        f.sim.track_reads(true);
        let plans = std::slice::from_ref(plan);
        let walk = walk_incarnation(f.space.region(), plans, 5, 1).unwrap();
        assert_eq!(
            (walk.last_seqno, walk.known_durable),
            (4, plan.cut.unwrap_or(0))
        );
        f.sim.reads()
    };
    let read = reads(&plan);
    assert!(read.iter().all(|at| *at < zone.data.0 + LINE), "{read:?}");
    // One that has no cut may have items behind a bad place, which tell what was durable.
    plan.cut = None;
    assert!(reads(&plan).contains(&(zone.end.0 - LINE)));
}
