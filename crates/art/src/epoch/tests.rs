use crate::epoch::{Domain, SLOTS};
use crate::memory::NodeMemory;
use crate::slab::Slab;

fn retire(domain: &Domain, slab: &Slab) {
    let block = slab.allocate(1000).unwrap();
    // SAFETY: the block is nobody else's.
    unsafe { domain.retire(block, 1000, slab) };
}

#[test]
fn a_guard_keeps_what_was_retired_after_it_and_nothing_older() {
    let (domain, slab) = (Domain::new(), Slab::new());
    retire(&domain, &slab);
    domain.collect(&slab);
    assert_eq!(slab.usage().used_bytes, 0);
    retire(&domain, &slab);
    let guard = domain.pin();
    retire(&domain, &slab);
    domain.collect(&slab);
    // The first was tagged with the guard's own epoch, so it counts as seen.
    assert_eq!(slab.usage().used_bytes, 2048);
    let later = domain.pin();
    drop(guard);
    domain.collect(&slab);
    assert_eq!(slab.usage().used_bytes, 0);
    retire(&domain, &slab);
    domain.collect(&slab);
    assert_eq!(domain.retired_bytes().0, 1024);
    drop(later);
    domain.collect(&slab);
    assert_eq!((slab.usage().used_bytes, domain.retired_bytes().0), (0, 0));
}

#[test]
fn more_guards_than_slots_find_room() {
    let domain = Domain::new();
    let guards: Vec<_> = (0..3 * SLOTS + 1).map(|_| domain.pin()).collect();
    assert_eq!(domain.all().count(), 4 * SLOTS);
    assert_eq!(domain.oldest(), 1);
    for guard in &guards {
        guard.count(|c| &c.keys, 1);
    }
    drop(guards);
    assert_eq!(domain.oldest(), u64::MAX);
    assert_eq!(domain.sum(|c| &c.keys), (3 * SLOTS + 1) as u64);
}
