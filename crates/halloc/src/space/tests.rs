//! Space under crashes at every point, in every state that the model allows.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use thermocline_base::options::RegionDemand;
use thermocline_base::planted::plant;
use thermocline_base::{ErrorKind, Point, Steps};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::sim::CrashImage;
use thermocline_pm::{Emulation, Place, RegionSpec, SimPm};

use super::*;
use crate::format::{ZONE_HEADER_BYTES, ZoneHeader};

mod beside;
mod copies;
mod pieces;
mod wider;

const ID: RegionId = [7; 16];
const PM: u64 = 1 << 20;
const SPEC: SpaceSpec = SpaceSpec {
    part_bytes_first: 256 << 10,
    pm: PM,
};

fn region_spec(sim: &SimPm) -> RegionSpec {
    RegionSpec {
        env: Env::real(),
        place: Place::Sim(sim.clone()),
        demand: RegionDemand::Any,
        capacity: PM,
        emulation: Emulation::None,
        read_only: false,
    }
}

fn create(sim: &SimPm) -> Space {
    let spec = region_spec(sim);
    let region = Region::create(&spec, Space::first_part_bytes(&SPEC)).unwrap();
    Space::create(region, &ID, SPEC).unwrap()
}

fn open(sim: &SimPm, live: &[u64]) -> Result<(Space, Vec<Zone>)> {
    let region = Region::open(&region_spec(sim)).unwrap();
    Space::open(region, &ID, SPEC, |owner| live.contains(&owner))
}

/// Runs `work` and collects the crash images at every point of it: where the region's file may be longer than the region, of
/// longer files, too.
fn images(sim: &SimPm, work: impl FnOnce()) -> Vec<(Point, CrashImage)> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let (sink, watched) = (found.clone(), sim.clone());
    sim.steps().observe(Some(Arc::new(move |point| {
        let image = watched.crash();
        let longer = image.longer();
        let all = [image].into_iter().chain(longer);
        sink.lock().unwrap().extend(all.map(|image| (point, image)));
    })));
    work();
    sim.steps().observe(None);
    Arc::into_inner(found)
        .unwrap_or_else(|| unreachable!("the observer is gone"))
        .into_inner()
        .unwrap()
}

fn each_state(images: &[(Point, CrashImage)], mut check: impl FnMut(Point, SimPm)) -> usize {
    let mut seen = BTreeSet::new();
    for (point, image) in images {
        for choice in image.choices(4096, 64, point.step, |_| true) {
            if seen.insert((point.step, image.digest(|i, _| choice[i]))) {
                check(*point, image.build(PM, Steps::new(), |i, _| choice[i]));
            }
        }
    }
    seen.len()
}

#[test]
fn zones_are_found_again_by_owner_and_order() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let mut given = Vec::new();
    for (owner, ordinal) in [(5, 0), (9, 0), (5, 1), (5, 2)] {
        given.push(space.attach(owner, ordinal, 1000, Reserve::Keep).unwrap());
    }
    let big = space.attach(9, 1, 40 << 10, Reserve::Keep).unwrap();
    assert!(big.end.0 - big.data.0 >= 40 << 10);
    let (reopened, zones) = open(&sim, &[5]).unwrap();
    let expected: Vec<Zone> = given.iter().copied().filter(|z| z.owner == 5).collect();
    assert_eq!(zones, expected);
    assert_eq!(reopened.usage().zones_attached, 3);
    let next = reopened.attach(6, 0, 1000, Reserve::Keep).unwrap();
    assert!(next.generation > big.generation, "generations only rise");
    let (_, zones) = open(&sim, &[6, 9]).unwrap();
    assert!(zones.contains(&next));
    let (_, zones) = open(&sim, &[5, 6, 9]).unwrap();
    assert_eq!(zones.len(), 5, "one of 9 has been taken since");
    for owner in 0..11 {
        let of_owner = zones.iter().copied().filter(|zone| zone.owner == owner);
        let of_owner: Vec<Zone> = of_owner.collect();
        assert_eq!(Zone::of_owner(&zones, owner), of_owner, "{owner}");
    }
}

#[test]
fn a_full_region_says_so_and_keeps_one_zone_for_deletes() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let mut n = 0;
    let error = loop {
        match space.attach(1, n, 1000, Reserve::Keep) {
            Ok(_) => n += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::OutOfSpace);
    assert!(error.to_string().contains("1 MiB"), "{error}");
    assert_eq!(space.usage().region_bytes, PM);
    assert_eq!(space.usage().zones_free, 1);
    space.attach(1, n, 1000, Reserve::Use).unwrap();
    assert!(space.attach(1, n + 1, 1000, Reserve::Use).is_err());
    let (_, zones) = open(&sim, &[1]).unwrap();
    assert_eq!(zones.len() as u64, space.usage().zones_attached);
    space.release(&zones);
    assert_eq!(space.usage().zones_attached, 0);
}

#[test]
fn attaching_and_growing_survive_every_crash() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let owned = Arc::new(Mutex::new(Vec::new()));
    let found = images(&sim, || {
        for ordinal in 0..40 {
            let zone = space.attach(3, ordinal, 9000, Reserve::Keep).unwrap();
            owned.lock().unwrap().push(zone);
        }
    });
    let states = each_state(&found, |point, sim| {
        let (again, zones) = open(&sim, &[3]).unwrap_or_else(|e| panic!("at {point:?}: {e}"));
        let all = owned.lock().unwrap();
        assert!(all.starts_with(&zones), "at {point:?}");
        let usage = again.usage();
        assert_eq!(usage.zones_attached, zones.len() as u64);
        // What is free can be attached, and nothing overlaps.
        let ordinal = u32::try_from(zones.len()).unwrap();
        again.attach(3, ordinal, 9000, Reserve::Keep).unwrap();
        let (_, zones) = open(&sim, &[3]).unwrap();
        assert_eq!(zones.len() as u64, u64::from(ordinal) + 1, "at {point:?}");
    });
    assert!(states > 300, "{states} states");
}

#[test]
fn formatting_survives_every_crash_or_says_that_it_is_no_region() {
    let sim = SimPm::new(PM, Steps::new());
    let found = images(&sim, || drop(create(&sim)));
    each_state(&found, |point, sim| match open(&sim, &[]) {
        Ok((space, zones)) => {
            assert!(zones.is_empty());
            space.attach(1, 0, 100, Reserve::Keep).unwrap();
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corruption, "at {point:?}: {error}");
        }
    });
}

#[test]
fn objects_are_whole_or_free_after_every_crash() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let pool = space.descriptors();
    let first = pool.get().unwrap().unwrap();
    pool.commit(first).unwrap();
    let found = images(&sim, || {
        let second = pool.get().unwrap().unwrap();
        // SAFETY: nobody reads an object that was just given out.
        unsafe { space.region().write(pool.object(second), &[9; 128]) };
        space
            .region()
            .persist(pool.object(second), 128, SITE_FORMAT)
            .unwrap();
        pool.commit(second).unwrap();
        pool.release(first).unwrap();
        let third = pool.get().unwrap().unwrap();
        pool.commit(third).unwrap();
    });
    let states = each_state(&found, |point, sim| {
        let (space, _) = open(&sim, &[]).unwrap_or_else(|e| panic!("at {point:?}: {e}"));
        let pool = space.descriptors();
        let committed = pool.committed();
        assert_eq!(pool.free() + committed.len(), 64, "a leak at {point:?}");
        if committed.contains(&1) {
            assert_eq!(space.region().bytes(pool.object(1), 128).unwrap(), [9; 128]);
        }
        while let Some(index) = pool.get().unwrap() {
            assert!(!pool.check(index) && !committed.contains(&index));
        }
    });
    assert!(states > 30, "{states} states");
}

#[test]
fn every_flipped_byte_of_the_meta_zone_is_reported_or_unused() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let object = space.descriptors().get().unwrap().unwrap();
    space.descriptors().commit(object).unwrap();
    let zone = space.attach(4, 0, 100, Reserve::Keep).unwrap();
    let image = sim.crash();
    for at in 0..2048 {
        let sim = image.build(PM, Steps::new(), |_, _| 0);
        sim.rot(at, 0x10);
        match open(&sim, &[4]) {
            Ok((space, zones)) => {
                assert_eq!(zones, vec![zone], "byte {at}");
                assert_eq!(space.descriptors().committed(), vec![object], "byte {at}");
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}"),
        }
    }
    for at in zone.data.0 - ZONE_HEADER_BYTES..zone.data.0 {
        let sim = image.build(PM, Steps::new(), |_, _| 0);
        sim.rot(at, 1);
        assert_eq!(
            open(&sim, &[4]).unwrap().1,
            vec![zone],
            "the other copy serves, byte {at}"
        );
    }
}

#[test]
fn a_stale_zone_header_is_not_believed() {
    // A zone lived once, was released, and lives again: the crash after copy A of its new header
    // leaves two valid copies with different owners.
    let run = || {
        let sim = SimPm::new(PM, Steps::new());
        let space = create(&sim);
        let old = space.attach(1, 0, 100, Reserve::Keep).unwrap();
        space.release(&[old]);
        let found = images(&sim, || {
            space.attach(2, 0, 100, Reserve::Keep).unwrap();
        });
        let mut wrong = 0;
        each_state(&found, |_, sim| {
            let (_, zones) = open(&sim, &[2]).unwrap();
            let full = sim.crash();
            let copies = [0, 64].map(|c| {
                let at = PmOff(old.data.0 - ZONE_HEADER_BYTES);
                let region = Region::open(&region_spec(&sim)).unwrap();
                let block = region.bytes(at.plus(c), 64).unwrap().to_vec();
                ZoneHeader::decode(&block, region_seed(&ID), at)
            });
            let newest = copies
                .iter()
                .flatten()
                .max_by_key(|h| h.generation)
                .unwrap();
            wrong += usize::from(zones.is_empty() == (newest.owner == 2));
            assert!(full.pending().is_empty());
        });
        wrong
    };
    assert_eq!(run(), 0);
    let _planted = plant(Bug::StaleZoneGeneration);
    assert!(run() > 0, "the planted bug was not caught");
}

#[test]
fn a_zone_that_is_there_twice_is_named_with_its_owner() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let twice = [(); 2].map(|()| space.attach(5, 3, 1000, Reserve::Keep).unwrap());
    let error = open(&sim, &[5]).unwrap_err();
    let Error::Corruption { what, offset, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(what, "zone 3 of owner 5");
    assert!(twice.map(|zone| zone.data.0).contains(offset));
}

#[test]
fn strangers_and_damage_are_told_apart() {
    let sim = SimPm::new(PM, Steps::new());
    drop(create(&sim));
    let region = Region::open(&region_spec(&sim)).unwrap();
    let error = Space::open(region, &[8; 16], SPEC, |_| true)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("another database") && error.contains(&"07".repeat(16)),
        "{error}"
    );
    let blank = SimPm::new(PM, Steps::new());
    Region::create(&region_spec(&blank), 256 << 10).unwrap();
    let error = open(&blank, &[]).unwrap_err().to_string();
    assert!(error.contains("not a Thermocline region"), "{error}");
}

#[test]
fn pages_are_asked_for_ahead_of_need_and_once() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let present = |space: &Space| -> usize {
        let state = lock(&space.state);
        let zones = state.parts.iter().flat_map(Part::free_zones);
        zones.filter(|(_, present)| *present).count()
    };
    let lacks_pages = |zones: u64| space.lacks(|_| zones).pages;
    assert!(lacks_pages(2), "of a new region no page is there");
    space.populate_ahead(2);
    assert_eq!(present(&space), 2);
    assert!(!lacks_pages(2) && lacks_pages(3));
    // The first free zone is attached next, and is one of the two.
    let zone = space.attach(1, 0, 64, Reserve::Keep).unwrap();
    assert_eq!(present(&space), 1);
    assert!(lacks_pages(2));
    space.populate_ahead(2);
    // Given back, its pages are still there.
    space.release(&[zone]);
    assert_eq!(present(&space), 3);
    space.populate_ahead(u64::MAX);
    assert!(!lacks_pages(u64::MAX), "nothing more to ask for");
}

/// Parts at the end of which nothing is attached go back to the device. Whatever a crash leaves of that is a region that
/// has what was attached, and can grow again.
#[test]
fn the_free_end_goes_back_and_can_be_had_again() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let kept = space.attach(1, 0, 1000, Reserve::Keep).unwrap();
    let mut others = Vec::new();
    while let Ok(zone) = space.attach(2, narrow(others.len() as u64).unwrap(), 1000, Reserve::Keep)
    {
        others.push(zone);
    }
    let full = space.region_bytes();
    assert_eq!((full, space.give_back().unwrap()), (PM, 0), "it is in use");
    space.release(&others);
    let images = images(&sim, || assert!(space.give_back().unwrap() > 0));
    let usage = space.usage();
    assert!(
        usage.region_bytes < full && usage.zones_free >= 2,
        "{usage:?}"
    );
    assert_eq!(space.region().len(), usage.region_bytes);
    assert_eq!(space.give_back().unwrap(), 0);
    let grows = |space: &Space| {
        let mut zones = Vec::new();
        while let Ok(zone) =
            space.attach(3, narrow(zones.len() as u64).unwrap(), 1000, Reserve::Keep)
        {
            let bytes = space.region().bytes(zone.data, 64).unwrap();
            assert!(zone.generation > kept.generation && zone.data != kept.data);
            assert_eq!(bytes.len(), 64);
            zones.push(zone);
        }
        assert_eq!(zones.len(), others.len());
        assert_eq!(space.region_bytes(), PM);
    };
    let states = each_state(&images, |point, sim| {
        let (space, zones) = open(&sim, &[1]).unwrap_or_else(|e| panic!("{point:?}: {e}"));
        assert_eq!(zones, [kept], "{point:?}");
        grows(&space);
    });
    assert!(states > 2, "{states}");
    // Nothing has made it durable that the file was cut.
    let longer = sim.crash().longer();
    assert_eq!(longer.len(), 2);
    for image in longer {
        let sim = image.build(PM, Steps::new(), |_, _| 0);
        let (space, zones) = open(&sim, &[1]).unwrap();
        assert_eq!(zones, [kept]);
        assert!(space.region().len() > space.region_bytes());
        grows(&space);
    }
    grows(&space);
}

/// A growth that was cut short has made the region's file longer, and perhaps by what was to be left on the disk. No part has
/// it, so where the disk is full nothing else would give it back.
#[test]
fn what_an_interrupted_growth_has_left_goes_back_too() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let kept = space.attach(1, 0, 1000, Reserve::Keep).unwrap();
    let bytes = space.region_bytes();
    let longer = bytes + (64 << 10);
    space.region().grow(bytes, longer).unwrap();
    drop(space);
    let (space, zones) = open(&sim, &[1]).unwrap();
    assert_eq!(zones, [kept]);
    assert_eq!(
        (space.region().len(), space.region_bytes()),
        (longer, bytes)
    );
    assert_eq!(space.give_back().unwrap(), 64 << 10);
    assert_eq!((space.region().len(), space.region_bytes()), (bytes, bytes));
    assert_eq!(space.give_back().unwrap(), 0);
    assert!(space.grow(bytes).unwrap(), "it can grow again");
    drop(space);
    let (_, zones) = open(&sim, &[1]).unwrap();
    assert_eq!(zones, [kept]);
}

/// As far as the device has room the region grows, in parts that are not too small; what it says then names the device.
#[test]
fn it_grows_as_far_as_its_device_has_room() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let began = space.region_bytes();
    space.set_device_limit(began + (8 << 10), 0);
    assert!(!space.can_grow() && !space.lacks(|_| 100).zones);
    space.set_device_limit(began + (300 << 10), 0);
    assert_eq!(space.usage().limit_bytes, began + (300 << 10));
    let mut count = 0;
    let error = loop {
        match space.attach(2, count, 1000, Reserve::Keep) {
            Ok(_) => count += 1,
            Err(error) => break error.to_string(),
        }
    };
    let has = space.region_bytes();
    assert!(has > began && has <= began + (300 << 10), "{has}");
    assert!(error.contains("its disk must keep room"), "{error}");
    space.set_device_limit(u64::MAX, 0);
    assert!(space.attach(2, count, 1000, Reserve::Keep).is_ok());
}

/// A device that refuses growth is remembered until it has room.
#[test]
fn a_device_without_room_is_remembered_until_it_has_some() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let disk = SimFs::new(Steps::new());
    sim.lie_on(&disk);
    disk.limit(disk.used() + 1000);
    let had = space.region_bytes();
    assert!(!space.is_growth_refused());
    let error = space.grow(had).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert!(space.is_growth_refused() && space.can_grow());
    assert!(space.has_room(200 << 10) && !space.has_room(300 << 10));
    let full = space.full(1000);
    assert!(full.to_string().contains("found no room to grow"), "{full}");
    // Who needs a zone hears of both.
    let refused = space.attach(1, 0, 300 << 10, Reserve::Keep).unwrap_err();
    assert!(refused.to_string().contains("cannot grow"), "{refused}");
    assert!(space.says_full(&full) && space.says_full(&refused) && !space.says_full(&error));
    disk.limit(u64::MAX);
    assert!(space.grow(had).unwrap());
    assert!(!space.is_growth_refused() && space.has_room(300 << 10));
    let full = space.full(1000).to_string();
    assert!(full.contains("raise pm"), "{full}");
}

#[test]
fn a_region_of_a_store_that_is_closed_does_not_grow() {
    let space = create(&SimPm::new(PM, Steps::new()));
    let had = space.region_bytes();
    space.stop_growth();
    let refused = space.grow(had).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
    assert_eq!(space.region_bytes(), had);
    // What is free may be taken.
    let mut attached = 0;
    let refused = loop {
        match space.attach(1, attached, 1, Reserve::Use) {
            Ok(_) => attached += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
    assert!(attached > 0);
}

/// Sixteenths of a part lie one behind the other from its first zone on, and leave no zone between them that nobody takes; where
/// no neighbours are free any more, single zones are taken.
#[test]
fn sixteenths_of_a_part_leave_nothing_between_them() {
    const PART: u64 = 32 << 20;
    let spec = SpaceSpec {
        part_bytes_first: PART,
        pm: 2 * PART,
    };
    let sim = SimPm::new(2 * PART, Steps::new());
    let region = Region::create(
        &RegionSpec {
            capacity: 2 * PART,
            ..region_spec(&sim)
        },
        Space::first_part_bytes(&spec),
    );
    let space = Space::create(region.unwrap(), &ID, spec).unwrap();
    let mut zones = Vec::new();
    while let Ok(zone) =
        space.attach_wide(1, narrow(zones.len() as u64).unwrap(), 1000, Reserve::Use)
    {
        zones.push(zone);
    }
    let runs: Vec<u32> = zones.iter().map(|zone| zone.run).collect();
    // The first zone of all is the meta zone.
    assert_eq!(runs, [&[2; 15][..], &[1], &[2; 16]].concat());
    assert_eq!(space.usage().zones_free, 0);
    // Every second one is free.
    let single: Vec<Zone> = zones.drain(..).filter(|zone| zone.first % 4 == 1).collect();
    space.release(&single[..2]);
    let wide = space.attach_wide(2, 0, 1000, Reserve::Use).unwrap();
    assert_eq!(wide.run, 2);
    let narrow = space.attach(2, 1, 1000, Reserve::Use).unwrap();
    assert_eq!(narrow.run, 1);
    let last = space.attach_wide(2, 2, 1000, Reserve::Use).unwrap();
    assert_eq!(last.run, 1, "no two lie side by side");
}

/// The first part may be larger than any that growth adds.
#[test]
fn a_region_with_a_large_first_part_grows() {
    const FIRST: u64 = 96 << 20;
    let spec = SpaceSpec {
        part_bytes_first: FIRST,
        pm: 2 * FIRST,
    };
    let sim = SimPm::new(spec.pm, Steps::new());
    let region = Region::create(
        &RegionSpec {
            capacity: spec.pm,
            ..region_spec(&sim)
        },
        Space::first_part_bytes(&spec),
    );
    let space = Space::create(region.unwrap(), &ID, spec).unwrap();
    let mut sizes = vec![space.region_bytes()];
    while space.grow(space.region_bytes()).unwrap() {
        sizes.push(space.region_bytes());
    }
    assert_eq!(sizes, [FIRST, FIRST + (64 << 20), 2 * FIRST]);
}
