//! Zones that are attached, or whose pages are asked for, while somebody else makes the region grow or gives its end back.

use super::*;
use crate::SITE_PARTS_WORD;

/// The last part that there can be comes between the look at the parts and the attempt to grow. Its zones are free, so
/// the region is not full.
#[test]
fn a_part_that_comes_while_a_zone_is_looked_for_is_looked_at() {
    let sim = SimPm::new(PM, Steps::new());
    let space = create(&sim);
    assert!(space.grow(space.region_bytes()).unwrap());
    let mut taken = 0;
    while space.has_room_now(1000, Reserve::Keep) {
        space.attach(1, taken, 1000, Reserve::Keep).unwrap();
        taken += 1;
    }
    let seen = space.region_bytes();
    assert!(seen < PM && space.can_grow());
    // Whether the other one is about to count the part, and whether a zone has been looked for.
    let counts = Arc::new(AtomicBool::new(false));
    let looked = Arc::new(AtomicBool::new(false));
    let (told, asked) = (counts.clone(), looked.clone());
    sim.steps().observe(Some(Arc::new(move |point: Point| {
        if point.site == SITE_PARTS_WORD && !told.swap(true, Ordering::SeqCst) {
            while !asked.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
    })));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| space.grow(seen));
        while !counts.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let find = |part: &Part| {
            if !looked.swap(true, Ordering::SeqCst) {
                // Parts do not change under this look. So the other one comes to wait for its end, and has its turn
                // right behind it.
                (0..20_000).for_each(|_| std::thread::yield_now());
            }
            part.find(1000)
        };
        let found = space.attach_found((2, 0), 1000, Reserve::Keep, &[&find]);
        assert!(other.join().unwrap().unwrap());
        assert_eq!(found.unwrap().owner, 2);
    });
    sim.steps().observe(None);
    assert_eq!(space.region_bytes(), PM);
}

/// Pages are asked for without a lock. Meanwhile the part that they are in may be given back, and the device may have room
/// for less when the region grows again.
#[test]
fn pages_of_zones_that_are_not_there_any_more_are_noted_nowhere() {
    let space = create(&SimPm::new(PM, Steps::new()));
    assert!(space.grow(space.region_bytes()).unwrap());
    let mut state = lock(&space.state);
    let before = state.parts.pop().unwrap();
    let zones = before.taken.len();
    state.note_present(1, 0..1);
    let bytes = before.header.bytes / 2;
    state.parts.push(Part::new(PartHeader {
        bytes,
        ..before.header
    }));
    assert!(state.parts[1].taken.len() < zones);
    state.note_present(1, zones - 1..zones);
    assert!(!state.parts[1].present.contains(&true));
    state.note_present(1, 0..1);
    assert!(state.parts[1].present[0]);
}
