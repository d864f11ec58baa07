//! What a copy has, while its region goes on.

use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use thermocline_base::ErrorKind;
use thermocline_base::options::RegionDemand;
use thermocline_env::hooks::{Hooked, Hooks};
use thermocline_env::{Env, File};
use thermocline_pm::{Emulation, Place};

use super::*;
use crate::{Reserve, Space, SpaceSpec};

const ID: RegionId = [7; 16];
const SPEC: SpaceSpec = SpaceSpec {
    part_bytes_first: 256 << 10,
    pm: 1 << 20,
};

/// A region in a file, with whoever writes to it.
struct Test {
    _home: TempDir,
    place: Place,
    space: Space,
}

impl Test {
    fn new() -> Test {
        let home = tempfile::tempdir().unwrap();
        let place = Place::Path(home.path().join("region"));
        let region = Region::create(&spec(&place, SPEC.pm, false), SPEC.part_bytes_first);
        Test {
            _home: home,
            space: Space::create(region.unwrap(), &ID, SPEC).unwrap(),
            place,
        }
    }

    /// A zone of `owner`, full of `byte`.
    fn attach(&self, owner: u64, byte: u8) -> Zone {
        let zone = self.space.attach(owner, 0, 1000, Reserve::Keep).unwrap();
        self.fill(&zone, byte);
        zone
    }

    fn fill(&self, zone: &Zone, byte: u8) {
        let bytes = vec![byte; index(zone.end.0 - zone.data.0)];
        let region = self.space.region();
        // SAFETY: nobody has a slice of it: a copy reads the file.
        unsafe { region.write(zone.data, &bytes) };
    }

    /// A copy of what `live` have, of which `grows` still grow.
    fn take(&self, copy: &mut RegionCopy, live: &[u64], grows: &[u64]) -> Result<Region> {
        let spec = spec(&self.place, SPEC.pm, true);
        let has = |owners: &[u64], owner: u64| owners.contains(&owner);
        let owners: (Owners<'_>, Owners<'_>) = (&|o| has(live, o), &|o| has(grows, o));
        copy.take(&spec, &ID, owners)
    }
}

fn spec(place: &Place, capacity: u64, read_only: bool) -> RegionSpec {
    RegionSpec {
        env: Env::real(),
        place: place.clone(),
        demand: RegionDemand::Any,
        capacity,
        emulation: Emulation::None,
        read_only,
    }
}

/// What zones have, by owner: all bytes of each are alike.
fn bytes_of(region: &Region, live: &[u64]) -> Vec<(u64, u8)> {
    let opened = Space::open(region.clone(), &ID, SPEC, |owner| live.contains(&owner));
    let (_, zones) = opened.unwrap();
    let byte = |zone: &Zone| {
        let bytes = region.bytes(zone.data, index(zone.end.0 - zone.data.0));
        let bytes = bytes.unwrap();
        assert!(bytes.iter().all(|byte| *byte == bytes[0]));
        (zone.owner, bytes[0])
    };
    zones.iter().map(byte).collect()
}

#[test]
fn it_has_what_the_owners_have_that_are_asked_for_and_no_more() {
    let test = Test::new();
    let [_, other, _] = [(1, 11), (5, 55), (3, 33)].map(|(owner, byte)| test.attach(owner, byte));
    let mut copy = RegionCopy::default();
    let region = test.take(&mut copy, &[1, 3], &[]).unwrap();
    assert_eq!(bytes_of(&region, &[1, 3]), [(1, 11), (3, 33)]);
    // What is not asked for is as if it had never been.
    assert_eq!(bytes_of(&region, &[1, 3, 5]), [(1, 11), (3, 33)]);
    let (space, _) = Space::open(region.clone(), &ID, SPEC, |owner| owner == 3).unwrap();
    assert_eq!(space.highest_owner(), 3);
    let there = region.bytes(other.data, 1000).unwrap();
    assert!(there.iter().all(|byte| *byte == 0));
    assert!(region.is_read_only() && region.kind() == test.space.region().kind());
}

#[test]
fn it_stays_as_it_is_until_it_is_taken_again() {
    let test = Test::new();
    let (settled, growing) = (test.attach(1, 11), test.attach(2, 22));
    let mut copy = RegionCopy::default();
    let region = test.take(&mut copy, &[1, 2], &[2]).unwrap();
    test.fill(&settled, 12);
    test.fill(&growing, 23);
    assert_eq!(bytes_of(&region, &[1, 2]), [(1, 11), (2, 22)]);
    // While somebody has it nothing changes in it, and the next one begins anew.
    let refused = test.take(&mut copy, &[1, 2], &[2]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert_eq!(bytes_of(&region, &[1, 2]), [(1, 11), (2, 22)]);
    let anew = test.take(&mut copy, &[1, 2], &[2]).unwrap();
    assert_eq!(bytes_of(&anew, &[1, 2]), [(1, 12), (2, 23)]);
}

#[test]
fn only_what_may_have_changed_is_copied_again() {
    let test = Test::new();
    let (settled, growing) = (test.attach(1, 11), test.attach(2, 22));
    let mut copy = RegionCopy::default();
    let live = [1, 2, 3, 4];
    drop(test.take(&mut copy, &live, &[2]).unwrap());
    test.fill(&settled, 12);
    test.fill(&growing, 23);
    test.attach(3, 33);
    let region = test.take(&mut copy, &live, &[2]).unwrap();
    assert_eq!(bytes_of(&region, &live), [(1, 11), (2, 23), (3, 33)]);
    drop(region);
    // Its zone is somebody else's now, and another one's life begins in it.
    test.space.release(&[settled]);
    let after = test.attach(4, 44);
    assert_eq!(after.data, settled.data);
    let region = test.take(&mut copy, &live, &[]).unwrap();
    assert_eq!(bytes_of(&region, &live), [(2, 23), (3, 33), (4, 44)]);
    drop(region);
    copy.forget();
    test.fill(&after, 45);
    let region = test.take(&mut copy, &live, &[]).unwrap();
    assert_eq!(bytes_of(&region, &live), [(2, 23), (3, 33), (4, 45)]);
}

/// Somebody who takes an object, and then a zone, once something behind the beginning of the region is read.
#[derive(Debug)]
struct Between(Mutex<Option<Space>>);

impl Hooks for Between {
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut space = self.0.lock().unwrap();
        if let Some(space) = space.take_if(|_| offset > 0) {
            let objects = space.descriptors();
            objects.commit(objects.get().unwrap().unwrap()).unwrap();
            space.attach(2, 0, 1000, Reserve::Keep).unwrap();
        }
        file.read_at(buf, offset)
    }
}

#[test]
fn headers_are_of_the_time_of_the_meta_zone() {
    let Test {
        _home,
        place,
        space,
    } = Test::new();
    let between = Arc::new(Between(Mutex::new(Some(space))));
    let mut spec = spec(&place, SPEC.pm, true);
    spec.env.storage = Hooked::new(Env::real().storage, between);
    let region = RegionCopy::default().take(&spec, &ID, (&|_| true, &|_| true));
    let (copied, zones) = Space::open(region.unwrap(), &ID, SPEC, |owner| owner == 2).unwrap();
    // Whoever has the zone had the object before.
    assert_eq!(
        (zones.len(), copied.descriptors().committed().len()),
        (1, 1)
    );
}

#[test]
fn it_grows_with_its_region() {
    let test = Test::new();
    let mut copy = RegionCopy::default();
    let live: Vec<u64> = (0..100).collect();
    drop(test.take(&mut copy, &live, &[]).unwrap());
    let mut expected = Vec::new();
    while test.space.region_bytes() <= SPEC.part_bytes_first * 2 {
        let owner = expected.len() as u64;
        test.attach(owner, u8::try_from(owner).unwrap());
        expected.push((owner, u8::try_from(owner).unwrap()));
        let region = test.take(&mut copy, &live, &[]).unwrap();
        assert_eq!(bytes_of(&region, &live), expected);
    }
    // One that may have only a part of the addresses.
    let spec = spec(&test.place, 1 << 12, true);
    let region = RegionCopy::default().take(&spec, &ID, (&|_| true, &|_| false));
    assert_eq!(bytes_of(&region.unwrap(), &live), expected);
}

#[test]
fn one_that_was_moved_is_copied_from_where_it_is_now() {
    let test = Test::new();
    let zone = test.attach(1, 11);
    let mut copy = RegionCopy::default();
    drop(test.take(&mut copy, &[1], &[]).unwrap());
    let before = test.place.path().unwrap();
    let after = before.with_extension("moved");
    std::fs::copy(before, &after).unwrap();
    test.fill(&zone, 12);
    let spec = spec(&Place::Path(after), SPEC.pm, true);
    let region = copy.take(&spec, &ID, (&|_| true, &|_| true));
    assert_eq!(bytes_of(&region.unwrap(), &[1]), [(1, 11)]);
}

#[test]
fn another_region_or_none_is_an_error() {
    let test = Test::new();
    let mut copy = RegionCopy::default();
    let mut take = |place: Place, id: &RegionId| {
        let spec = spec(&place, SPEC.pm, true);
        let taken = copy.take(&spec, id, (&|_| true, &|_| false));
        taken.unwrap_err().kind()
    };
    assert_eq!(take(test.place.clone(), &[8; 16]), ErrorKind::Corruption);
    let none = Place::Path(test.place.path().unwrap().with_extension("not"));
    assert_eq!(take(none, &ID), ErrorKind::Io);
    let sim = Place::Sim(thermocline_pm::SimPm::new(1 << 20, Default::default()));
    assert_eq!(take(sim, &ID), ErrorKind::Unsupported);
}
