//! What fits whole, and what fits in pieces alone.

use super::*;

/// Parts have 256, 512 and 256 KiB; in each but the first the part's header and a zone's take 384 bytes.
#[test]
fn what_fits_in_pieces_alone_is_told_from_what_fits_whole() {
    const LARGEST: u64 = (512 << 10) - 384;
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let needs = |bytes: u64| space.needs_pieces(bytes);
    // Before it has grown, and when it has.
    for _ in 0..2 {
        assert!(!needs(0) && !needs(16 << 10) && !needs(LARGEST));
        assert!(needs(LARGEST + 1) && needs(PM - 1));
        assert!(!needs(PM), "that fits in no way");
        assert!(space.pieces_alone(LARGEST).is_none());
        while space.grow(space.region_bytes()).unwrap() {}
    }
    assert_eq!(space.region_bytes(), PM);
    // Zones of 16 KiB, but for those of 32 in the second part.
    let mut taken = Vec::new();
    while let Ok(zone) = space.attach(1, narrow(taken.len() as u64).unwrap(), 1000, Reserve::Use) {
        taken.push(zone);
    }
    assert_eq!(taken.len(), 15 + 16 + 16);
    let in_pieces = |bytes: u64| space.pieces_alone(bytes).is_some();
    assert!(!in_pieces(20 << 10), "nothing is free");
    // One is kept back.
    space.release(&[taken[0], taken[2]]);
    assert!(!in_pieces(20 << 10) && !in_pieces(15 << 10));
    space.release(&[taken[4]]);
    assert!(in_pieces(20 << 10) && in_pieces(30 << 10) && !in_pieces(32 << 10));
    assert!(!in_pieces(15 << 10), "that fits any zone");
    // Side by side.
    space.release(&[taken[3]]);
    assert!(!in_pieces(20 << 10) && !in_pieces(47 << 10) && !in_pieces(60 << 10));
    assert!(space.attach(2, 0, 47 << 10, Reserve::Keep).is_ok());
}

/// Of zones that lie side by side as many bytes are for data as whoever goes on behind the first one finds.
#[test]
fn free_zones_side_by_side_have_one_header() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let mut taken = Vec::new();
    while let Ok(zone) = space.attach(1, narrow(taken.len() as u64).unwrap(), 1000, Reserve::Use) {
        taken.push(zone);
    }
    // Of the first part two times four, and the one that is kept back.
    for free in [0..4, 5..9, 10..11] {
        space.release(&taken[free]);
    }
    let run = 4 * (16 << 10) - ZONE_HEADER_BYTES;
    assert!(space.pieces_alone(2 * run + 1).is_none());
    let mut pieces = space.pieces_alone(2 * run).unwrap();
    for expected in [Some(run), Some(run), None] {
        assert_eq!(pieces.take(0, run), expected);
    }
}

/// With one part alone the zone that is kept back is one of that part.
#[test]
fn a_part_alone_keeps_one_of_its_own_zones() {
    let spec = SpaceSpec {
        part_bytes_first: PM,
        pm: PM,
    };
    let sim = SimPm::new(PM, Steps::new());
    let region = Region::create(&region_spec(&sim), Space::first_part_bytes(&spec)).unwrap();
    let space = Space::create(region, &ID, spec).unwrap();
    // Sixteen zones: the meta zone, and the one that is kept back.
    let longest = 14 * (64 << 10) - ZONE_HEADER_BYTES;
    assert!(!space.needs_pieces(longest) && space.needs_pieces(longest + 1));
    assert!(space.attach(1, 0, longest + 1, Reserve::Keep).is_err());
    assert!(space.attach(1, 0, longest, Reserve::Keep).is_ok());
}

/// What the longest run is follows the limit, and the parts that come and go.
#[test]
fn the_longest_run_is_that_of_the_region_as_it_may_be() {
    const LARGEST: u64 = (512 << 10) - 384;
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let first = 15 * (16 << 10) - ZONE_HEADER_BYTES;
    let second = (256 << 10) - 384;
    // As it may be, a part behind the first, and the first alone, which keeps a zone.
    for (limit, longest) in [
        (PM, LARGEST),
        (512 << 10, second),
        (256 << 10, first - (16 << 10)),
        (PM, LARGEST),
    ] {
        space.set_limit(limit);
        assert!(!space.needs_pieces(longest), "{limit}");
        assert_eq!(space.needs_pieces(longest + 1), longest + 1 < limit);
    }
    // Parts that are there count, whatever the limit is.
    while space.grow(space.region_bytes()).unwrap() {}
    space.set_limit(512 << 10);
    assert!(!space.needs_pieces(LARGEST));
    space.set_limit(PM);
    assert!(space.give_back().unwrap() > 0);
    assert!(!space.needs_pieces(LARGEST) && space.needs_pieces(LARGEST + 1));
    drop(space);
    let (space, _) = open(&sim, &[]).unwrap();
    assert!(!space.needs_pieces(LARGEST) && space.needs_pieces(LARGEST + 1));
}

/// Where the device lets the region not grow, pieces are what is left.
#[test]
fn a_part_that_the_device_refuses_holds_nothing_whole() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let disk = SimFs::new(Steps::new());
    sim.lie_on(&disk);
    disk.limit(disk.used());
    let mut taken = Vec::new();
    for ordinal in 0..15 {
        taken.push(space.attach(1, ordinal, 1000, Reserve::Use).unwrap());
    }
    let apart = [taken[0], taken[2], taken[4], taken[6]];
    space.release(&apart);
    // It is not known yet.
    assert!(space.pieces_alone(40 << 10).is_none());
    assert!(space.attach(2, 0, 40 << 10, Reserve::Keep).is_err());
    assert!(space.pieces_alone(40 << 10).is_some());
    disk.limit(u64::MAX);
    assert!(space.attach(2, 0, 40 << 10, Reserve::Keep).is_ok());
}

/// However many zones are free, until growth has brought it or was refused.
#[test]
fn a_run_that_was_wanted_is_lacking() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let lacks = || space.lacks(|_| 1).zones;
    assert!(!lacks());
    // The second part has it, and no part the other one.
    assert!(space.want_run(300 << 10) && !space.want_run(600 << 10));
    assert!(lacks());
    let disk = SimFs::new(Steps::new());
    sim.lie_on(&disk);
    disk.limit(disk.used());
    assert!(space.grow(space.region_bytes()).is_err());
    assert!(!lacks(), "whoever wants it says so again");
    assert!(space.want_run(300 << 10) && lacks());
    disk.limit(u64::MAX);
    assert!(space.grow(space.region_bytes()).unwrap());
    assert!(!lacks());
    // Nobody remembers it: it is taken, and not lacking.
    assert!(space.attach(1, 0, 300 << 10, Reserve::Keep).is_ok());
    assert!(!lacks());
}

/// It is attached once there is another zone to keep back, however short the part is that brings one.
#[test]
fn a_run_that_is_all_that_is_free_waits_for_a_short_part() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    assert!(space.grow(space.region_bytes()).unwrap());
    for ordinal in 0..15 {
        assert!(space.attach(1, ordinal, 1000, Reserve::Use).is_ok());
    }
    // All of the second part. The third one is half as long.
    let bytes = 490 << 10;
    assert!(!space.has_room_now(bytes, Reserve::Keep));
    assert!(space.want_run(bytes) && !space.want_run(600 << 10));
    let lacks = || space.lacks(|_| 1).zones;
    assert!(lacks());
    assert!(space.grow(space.region_bytes()).unwrap());
    assert!(space.has_room_now(bytes, Reserve::Keep) && !lacks());
    assert!(space.attach(2, 0, bytes, Reserve::Keep).is_ok());
    assert!(!space.want_run(bytes), "no part is to come");
}

#[test]
fn of_pieces_is_taken_what_would_be_attached() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let mut taken = Vec::new();
    while let Ok(zone) = space.attach(1, narrow(taken.len() as u64).unwrap(), 1000, Reserve::Use) {
        taken.push(zone);
    }
    // Two side by side, and one that stays.
    taken.retain(|zone| zone.ordinal % 3 != 2);
    space.release(&taken);
    let mut pieces = space.pieces_alone(100 << 10).unwrap();
    let sizes = [10u64 << 10, 10 << 10, 20 << 10, 40 << 10, 60 << 10];
    let (mut attached, mut widened) = (0, 0);
    // The zone at hand, and what is left of it.
    let (mut last, mut left) = (None::<Zone>, 0);
    for (ordinal, &bytes) in (0..).zip(sizes.iter().cycle()) {
        if left >= bytes {
            left -= bytes;
            continue;
        }
        let widen = |zone: &Zone| {
            let wider = space.widen_by_sixteenth(zone, left, bytes, Reserve::Keep);
            Some((wider.unwrap()?, zone.end))
        };
        let found = match last.as_ref().and_then(widen) {
            Some((wider, end)) => {
                widened += 1;
                Some((wider, left + (wider.end.0 - end.0)))
            }
            None => {
                let zone = space.attach_wide(2, ordinal, bytes, Reserve::Keep);
                zone.ok().map(|zone| (zone, zone.end.0 - zone.data.0))
            }
        };
        let has = found.map(|(_, has)| has);
        assert_eq!(pieces.take(left, bytes), has, "{ordinal}: {bytes}");
        let Some((zone, has)) = found else {
            break;
        };
        (last, left) = (Some(zone), has - bytes);
        attached += 1;
    }
    assert!(attached > 10 && widened > 2, "{attached}, {widened}");
    // And down to the one that is kept back. Of the zone at hand so little is left that nobody goes on behind it.
    while pieces.take(0, 1000).is_some() {
        assert!(space.attach_wide(3, attached, 1000, Reserve::Keep).is_ok());
        attached += 1;
    }
    assert_eq!(space.usage().zones_free, 1);
}
