//! Zones that are attached while somebody else makes the region grow.

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
