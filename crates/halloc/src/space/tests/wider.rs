//! Zones that are made wider by those behind them.

use super::*;

/// What has to be left of a zone for that.
const LEFT: u64 = (16 << 10) / 4;

/// More than that, and less than there is with another zone.
const ITEM: u64 = 10_000;

/// A zone behind which one lies of an owner that is gone, and what it is when it was made wider, which `at_each` watches.
fn widened(sim: &SimPm, at_each: impl Fn() + Send + Sync + 'static) -> [Zone; 2] {
    let space = create(sim);
    let gone = [0, 1].map(|ordinal| space.attach(9, ordinal, ITEM, Reserve::Keep).unwrap());
    space.release(&gone);
    let zone = space.attach(3, 0, ITEM, Reserve::Keep).unwrap();
    assert_eq!((zone.data, zone.end), (gone[0].data, gone[0].end));
    sim.steps().observe(Some(Arc::new(move |_| at_each())));
    let wider = space.widen(&zone, LEFT, ITEM, Reserve::Keep).unwrap();
    sim.steps().observe(None);
    [zone, wider.unwrap()]
}

#[test]
fn a_zone_is_made_wider_by_the_free_ones_behind_it() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let zone = space.attach(5, 0, ITEM, Reserve::Keep).unwrap();
    let widen = |zone: &Zone, left| space.widen(zone, left, ITEM, Reserve::Keep).unwrap();
    assert_eq!(widen(&zone, LEFT - 1), None, "too little is left");
    let wider = widen(&zone, LEFT).unwrap();
    assert_eq!((wider.data, wider.run), (zone.data, 2));
    assert_eq!(wider.end, zone.end.plus(16 << 10));
    assert_eq!(wider.generation, zone.generation);
    let other = space.attach(6, 0, ITEM, Reserve::Keep).unwrap();
    assert_eq!(other.data, wider.end.plus(ZONE_HEADER_BYTES));
    assert_eq!(widen(&wider, LEFT), None, "others have what lies behind");
    let (again, zones) = open(&sim, &[5, 6]).unwrap();
    assert_eq!(zones, [wider, other]);
    assert_eq!(again.usage().zones_attached, 3);
    space.release(&[wider]);
    assert_eq!(space.usage().zones_attached, 1);
}

/// Chains get a sixteenth of a part, where so many zones are free, and else what they need; tables never more than that.
#[test]
fn a_sixteenth_is_taken_where_there_is_one() {
    const PART: u64 = 32 << 20;
    const ZONE: u64 = 1 << 20;
    let spec = SpaceSpec {
        part_bytes_first: PART,
        pm: PART,
    };
    let sim = SimPm::new(PART, Steps::new());
    let region = Region::create(
        &RegionSpec {
            capacity: PART,
            ..region_spec(&sim)
        },
        Space::first_part_bytes(&spec),
    );
    let space = Space::create(region.unwrap(), &ID, spec).unwrap();
    let wide = |zone: &Zone| {
        let can = space.can_widen(zone, ZONE, ZONE + 1, Reserve::Keep);
        let wider = space.widen_by_sixteenth(zone, ZONE, ZONE + 1, Reserve::Keep);
        let wider = wider.unwrap();
        assert_eq!(can, wider.is_some());
        wider
    };
    // Of these the last one stays.
    let mut gone = Vec::new();
    for ordinal in 0..7 {
        gone.push(space.attach(2, ordinal, 1000, Reserve::Keep).unwrap());
    }
    assert_eq!(gone.pop().unwrap().first, 7);
    space.release(&gone);
    let chain = space.attach_wide(1, 0, 1000, Reserve::Keep).unwrap();
    let chain = wide(&chain).unwrap();
    assert_eq!((chain.first, chain.run), (1, 4));
    let chain = space.widen(&chain, ZONE, ZONE + 1, Reserve::Keep).unwrap();
    let chain = chain.unwrap();
    assert_eq!(chain.run, 5);
    let chain = wide(&chain).unwrap();
    assert_eq!(chain.run, 6, "there is one alone");
    assert_eq!(wide(&chain), None, "others have what lies behind");
}

/// An open sees no header that lies within a run. Were one there the newest, its generation would be given out again, and in
/// that very zone.
#[test]
fn a_zone_that_somebody_had_later_makes_no_older_one_wider() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let zone = space.attach(3, 0, ITEM, Reserve::Keep).unwrap();
    let gone = space.attach(9, 0, ITEM, Reserve::Keep).unwrap();
    space.release(&[gone]);
    let wider = space.widen(&zone, LEFT, ITEM, Reserve::Keep).unwrap();
    let (again, zones) = open(&sim, &[3]).unwrap();
    again.release(&zones);
    for ordinal in 0..2 {
        let next = again.attach(4, ordinal, ITEM, Reserve::Keep).unwrap();
        assert!(next.generation > gone.generation, "generations only rise");
    }
    assert_eq!(wider, None);
}

/// The zone that is kept back is no exception, and a part ends where it ends.
#[test]
fn the_zone_that_is_kept_back_makes_none_wider_but_for_deletes() {
    let space = create(&SimPm::new(PM, Steps::new()));
    let mut zones = Vec::new();
    while let Ok(zone) = space.attach(1, narrow(zones.len() as u64).unwrap(), 1000, Reserve::Keep) {
        zones.push(zone);
    }
    let last = zones.last().unwrap();
    let widen = |zone: &Zone, reserve| space.widen(zone, LEFT, ITEM, reserve).unwrap();
    assert_eq!(widen(last, Reserve::Keep), None);
    let wider = widen(last, Reserve::Use).unwrap();
    assert_eq!((wider.end, wider.run), (PmOff(PM), 2));
    assert_eq!(space.usage().zones_free, 0);
    assert_eq!(widen(&wider, Reserve::Use), None);
}

#[test]
fn a_zone_that_is_made_wider_is_there_after_every_crash() {
    let sim = SimPm::new(PM, Steps::new());
    let found = Arc::new(Mutex::new(Vec::new()));
    let (sink, watched) = (found.clone(), sim.clone());
    let [zone, wider] = widened(&sim, move || sink.lock().unwrap().push(watched.crash()));
    let (mut narrow, mut wide) = (0, 0);
    for image in found.lock().unwrap().iter() {
        for choice in image.choices(4096, 64, 1, |_| true) {
            let sim = image.build(PM, Steps::new(), |i, _| choice[i]);
            let (space, zones) = open(&sim, &[3]).unwrap();
            match zones[..] == [wider] {
                true => wide += 1,
                false => narrow += 1,
            }
            assert!(zones == [zone] || zones == [wider], "{zones:?}");
            assert_eq!(space.usage().zones_attached, u64::from(zones[0].run));
            space.repersist(&zones).unwrap();
            assert_eq!(open(&sim, &[3]).unwrap().1, zones);
        }
    }
    assert!(narrow > 2 && wide > 2, "{narrow} and {wide}");
}

/// A process that was killed leaves a first copy that can be read and is not durable. Who opens the region then stores both
/// copies again, and may crash, too: one of them is whole at any time, or what was acknowledged in the zone would be lost.
#[test]
fn what_was_made_wider_by_a_killed_process_is_stored_again_copy_by_copy() {
    let sim = SimPm::new(PM, Steps::new());
    let found = Arc::new(Mutex::new(Vec::new()));
    let (sink, watched) = (found.clone(), sim.clone());
    let [zone, wider] = widened(&sim, move || {
        sink.lock().unwrap().push(watched.fork(Steps::new()));
    });
    let (mut open_words, mut states) = (0, 0);
    for killed in found.lock().unwrap().iter() {
        open_words += killed.crash().pending().len();
        let (space, zones) = open(killed, &[3]).unwrap();
        assert_eq!(zones, [wider], "it can be read");
        let images = images(killed, || space.repersist(&zones).unwrap());
        states += each_state(&images, |point, sim| {
            let (_, zones) = open(&sim, &[3]).unwrap();
            assert!(zones == [zone] || zones == [wider], "{point:?}: {zones:?}");
        });
    }
    assert!(open_words > 2 && states > 8, "{open_words}, {states}");
}
