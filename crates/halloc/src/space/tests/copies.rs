//! Copies of what lies twice: one that has rotted is named and mended, and crashes leave none.

use super::*;

/// Where the second part begins.
const SECOND: u64 = SPEC.part_bytes_first;

/// Where both copies lie: of the superblock, and of the headers of two parts.
const TWICE: [[u64; 2]; 3] = [[0, 256], [640, 704], [SECOND, SECOND + 64]];

/// Each of these copies, with the other one.
fn each_copy() -> impl Iterator<Item = (u64, u64)> {
    TWICE.into_iter().flat_map(|[a, b]| [(a, b), (b, a)])
}

/// A region of two parts, both with zones, and these.
fn of_two_parts() -> (CrashImage, Vec<Zone>) {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let mut zones: Vec<Zone> = Vec::new();
    while zones.last().is_none_or(|zone| zone.data.0 < SECOND) {
        let ordinal = narrow(zones.len() as u64).unwrap();
        zones.push(space.attach(1, ordinal, 1000, Reserve::Keep).unwrap());
    }
    assert_eq!(lock(&space.state).parts.len(), 2);
    let image = sim.crash();
    assert!(image.pending().is_empty());
    (image, zones)
}

fn memory_of(image: &CrashImage) -> SimPm {
    image.build(PM, Steps::new(), |_, _| 0)
}

fn block(sim: &SimPm, at: u64) -> Vec<u8> {
    let region = Region::open(&region_spec(sim)).unwrap();
    region.bytes(PmOff(at), 64).unwrap().to_vec()
}

/// Where the faults lie that a check is told of.
fn places(space: &Space) -> Vec<u64> {
    let place = |fault: &Error| match fault {
        Error::Corruption {
            what,
            place,
            offset,
            ..
        } => {
            assert!(what.contains("a copy of") && place == "sim", "{fault}");
            *offset
        }
        other => panic!("{other}"),
    };
    space.rotten_copies().unwrap().iter().map(place).collect()
}

/// The same, of a space that is opened to read.
fn found_rotten(sim: &SimPm) -> Vec<u64> {
    let spec = RegionSpec {
        read_only: true,
        ..region_spec(sim)
    };
    let region = Region::open(&spec).unwrap();
    let (space, _) = Space::open(region, &ID, SPEC, |owner| owner == 1).unwrap();
    places(&space)
}

#[test]
fn a_rotten_copy_is_named_until_an_open_for_writing_mends_it() {
    let (image, zones) = of_two_parts();
    assert!(found_rotten(&memory_of(&image)).is_empty());
    for (rotten, other) in each_copy() {
        let was = block(&memory_of(&image), rotten);
        for byte in 0..64 {
            let told = format!("byte {byte} of the copy at {rotten}");
            let sim = memory_of(&image);
            sim.rot(rotten + byte, 0x10);
            let before = block(&sim, rotten);
            assert_eq!(found_rotten(&sim), [rotten], "{told}");
            assert_eq!(block(&sim, rotten), before, "{told}: a check has written");
            let (space, found) = open(&sim, &[1]).unwrap_or_else(|e| panic!("{told}: {e}"));
            assert_eq!(found, zones, "{told}");
            assert!(places(&space).is_empty(), "{told}");
            assert!(found_rotten(&sim).is_empty(), "{told}");
            assert_eq!(block(&sim, rotten), was, "{told}");
            assert_eq!(block(&sim, rotten), block(&sim, other), "{told}");
            assert!(sim.crash().pending().is_empty(), "{told}: not durable");
            // So the other one may rot as well.
            sim.rot(other + byte, 0x10);
            assert_eq!(found_rotten(&sim), [other], "{told}");
            assert_eq!(open(&sim, &[1]).unwrap().1, zones, "{told}");
            assert!(found_rotten(&sim).is_empty(), "{told}");
        }
    }
}

#[test]
fn rot_of_one_copy_of_each_is_mended_at_once() {
    let (image, zones) = of_two_parts();
    let sim = memory_of(&image);
    for [_, b] in TWICE {
        sim.rot(b + 9, 1);
    }
    assert_eq!(found_rotten(&sim), TWICE.map(|[_, b]| b));
    assert_eq!(open(&sim, &[1]).unwrap().1, zones);
    assert!(found_rotten(&sim).is_empty());
}

#[test]
fn two_rotten_copies_are_refused_and_stay_as_they_are() {
    let (image, _) = of_two_parts();
    let says = ["superblock", "part header", "part header"];
    for (pair, says) in TWICE.into_iter().zip(says) {
        for byte in 0..64 {
            let sim = memory_of(&image);
            // Of something else one copy alone: nothing is mended in a region that is refused.
            let single = TWICE.map(|[a, _]| a).into_iter().find(|a| *a != pair[0]);
            for at in pair.into_iter().chain(single) {
                sim.rot(at + byte, 0x10);
            }
            let all = || TWICE.map(|pair| pair.map(|at| block(&sim, at)));
            let before = all();
            let error = open(&sim, &[1]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains(says), "{error}");
            assert_eq!(all(), before, "byte {byte} of {pair:?}");
        }
    }
}

#[test]
fn mending_survives_every_crash() {
    let (image, zones) = of_two_parts();
    for (rotten, other) in each_copy() {
        let sim = memory_of(&image);
        for byte in 0..64 {
            sim.rot(rotten + byte, 0x81);
        }
        let serves = block(&sim, other);
        let images = images(&sim, || drop(open(&sim, &[1]).unwrap()));
        let states = each_state(&images, |point, sim| {
            assert_eq!(block(&sim, other), serves, "{point:?}");
            let left = found_rotten(&sim);
            assert!(left.is_empty() || left == [rotten], "{point:?}: {left:?}");
            let (space, found) = open(&sim, &[1]).unwrap_or_else(|e| panic!("{point:?}: {e}"));
            assert_eq!(found, zones, "{point:?}");
            assert!(places(&space).is_empty(), "{point:?}");
            assert_eq!(block(&sim, rotten), serves, "{point:?}");
        });
        assert!(states > 200, "{states} states");
    }
}

#[test]
fn no_crash_of_a_growth_or_of_giving_back_leaves_a_rotten_copy() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    let grow = || assert!(space.grow(space.region_bytes()).unwrap());
    let mut found = images(&sim, grow);
    found.extend(images(&sim, || assert!(space.give_back().unwrap() > 0)));
    found.extend(images(&sim, grow));
    let states = each_state(&found, |point, sim| {
        let left = found_rotten(&sim);
        assert!(left.is_empty(), "{point:?}: {left:?}");
        drop(open(&sim, &[1]).unwrap_or_else(|e| panic!("{point:?}: {e}")));
        let left = found_rotten(&sim);
        assert!(left.is_empty(), "{point:?}, opened: {left:?}");
    });
    assert!(states > 100, "{states} states");
}

/// No manifest names such a region, so no check sees it. Whoever opens it all the same ends its formatting.
#[test]
fn what_formatting_has_left_undone_an_open_ends() {
    let sim = SimPm::new(PM, Steps::new());
    let images = images(&sim, || drop(create(&sim)));
    let (mut opened, mut undone) = (0, 0);
    each_state(&images, |point, sim| {
        if Region::open(&region_spec(&sim)).unwrap().is_empty() {
            return;
        }
        let was = block(&sim, TWICE[0][1]);
        if let Ok((space, _)) = open(&sim, &[]) {
            assert!(places(&space).is_empty(), "{point:?}");
            opened += 1;
            undone += usize::from(block(&sim, TWICE[0][1]) != was);
        }
    });
    assert!(opened > undone && undone > 0, "{undone} of {opened}");
}

/// A part header or a part word that could not be persisted may be durable all the same: what it counts must stay, whoever grows next.
#[test]
fn nothing_grows_over_parts_whose_count_could_not_be_written() {
    let opens = |sim: &SimPm, told: &str, change: &dyn Fn()| {
        let found = images(sim, change);
        let states = each_state(&found, |point, sim| {
            drop(open(&sim, &[1]).unwrap_or_else(|e| panic!("{told}, {point:?}: {e}")));
        });
        assert!(states > 0, "{told}");
    };
    // The growth itself, both copies of the header, both of the word.
    for sync in 0..5 {
        let sim = SimPm::new(PM, Steps::new());
        let space = create(&sim);
        opens(&sim, &format!("growing, sync {sync}"), &|| {
            let seen = space.region_bytes();
            sim.fail_sync_once_in(sync, 5);
            assert!(space.grow(seen).is_err());
            assert!(space.grow(seen).is_err());
        });
    }
    for sync in 0..2 {
        let sim = SimPm::new(PM, Steps::new());
        let space = create(&sim);
        for _ in 0..2 {
            assert!(space.grow(space.region_bytes()).unwrap());
        }
        opens(&sim, &format!("giving back, sync {sync}"), &|| {
            sim.fail_sync_once_in(sync, 5);
            assert!(space.give_back().is_err());
            assert!(space.grow(space.region_bytes()).is_err());
        });
    }
}

/// Wherever it ends, it is told to be longer than it is.
#[test]
fn a_region_that_was_cut_short_is_told_how_long_it_must_be() {
    let (image, _) = of_two_parts();
    // Where the second part should begin, and within it.
    for len in [SECOND, SECOND + 4096] {
        let sim = memory_of(&image);
        let region = Region::open(&region_spec(&sim)).unwrap();
        // SAFETY: nobody holds a slice of the region.
        unsafe { region.shrink(len) }.unwrap();
        let error = open(&sim, &[1]).unwrap_err();
        let Error::Corruption { expected, got, .. } = &error else {
            panic!("{error}")
        };
        assert!(error.to_string().contains("cut short"), "{error}");
        assert_eq!(*got, format!("{len} bytes"));
        let needed = expected.strip_prefix("at least ");
        let needed = needed.and_then(|text| text.strip_suffix(" bytes"));
        let needed: u64 = needed.unwrap().parse().unwrap();
        assert!(needed > len, "{error}");
    }
}
