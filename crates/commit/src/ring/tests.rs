use crate::ring::{Range, Ring};
use crate::sync::Ordering;

fn range(at: u64) -> Option<Range> {
    Some(Range { at, bytes: 64 })
}

#[test]
fn watermarks_move_over_contiguous_groups_only() {
    let ring = Ring::new(10, 4);
    let tickets: Vec<u64> = (11..14).map(|last| ring.grant(last, 1)).collect();
    assert_eq!((ring.groups(), ring.records()), (3, 3));
    ring.finish(tickets[1], None);
    ring.finish(tickets[2], None);
    assert_eq!((ring.visible(), ring.durable()), (10, 10));
    let mut open = Vec::new();
    ring.boundaries(|last| open.push(last));
    assert_eq!(open, [11, 12, 13]);
    ring.finish(tickets[0], None);
    assert_eq!((ring.visible(), ring.durable()), (13, 13));
    assert!(ring.groups() == 0 && ring.wait_empty() && ring.wait_visible(13));
}

#[test]
fn durable_waits_for_what_is_deferred() {
    let ring = Ring::new(0, 4);
    let (a, b, c) = (ring.grant(1, 1), ring.grant(2, 1), ring.grant(3, 1));
    ring.finish(b, None);
    ring.finish(a, range(0));
    assert_eq!((ring.visible(), ring.durable()), (2, 0));
    let mut taken = Vec::new();
    let up_to = ring.take_deferred(&mut taken);
    assert_eq!((&taken[..], up_to), (&[Range { at: 0, bytes: 64 }][..], 2));
    ring.finish(c, range(64));
    assert_eq!((ring.visible(), ring.durable()), (3, 0));
    ring.persisted(up_to);
    assert_eq!((ring.visible(), ring.durable()), (3, 2));
    let d = ring.grant(4, 1);
    ring.finish(d, None);
    assert_eq!((ring.visible(), ring.durable()), (4, 2));
    let up_to = ring.take_deferred(&mut taken);
    ring.persisted(up_to);
    assert_eq!((ring.durable(), taken.len()), (4, 1));
    let e = ring.grant(5, 1);
    ring.finish(e, None);
    assert_eq!(ring.durable(), 5);
}

/// What would grow it under its lock grows it once.
#[test]
fn the_next_list_has_the_memory_of_the_one_before() {
    let ring = Ring::new(0, 1);
    let mut list = Vec::with_capacity(16);
    let memory = list.as_ptr();
    let take = |list: &mut Vec<Range>| {
        let up_to = ring.take_deferred(list);
        ring.persisted(up_to);
    };
    let write = |last: u64| ring.finish(ring.grant(last, 1), range(128 * last));
    write(1);
    take(&mut list);
    assert_eq!(list, [Range { at: 128, bytes: 64 }]);
    assert_ne!(list.as_ptr(), memory);
    for last in 2..10 {
        write(last);
    }
    take(&mut list);
    assert_eq!((list.len(), list[0].at, ring.durable()), (8, 256, 9));
    assert_eq!((list.as_ptr(), list.capacity()), (memory, 16));
    // A long one is given up before it is the next.
    let mut long = Vec::with_capacity(1 << 16);
    write(10);
    take(&mut long);
    write(11);
    take(&mut list);
    assert!(list.capacity() < 1 << 16, "{}", list.capacity());
}

#[test]
fn slots_are_used_again_and_a_full_ring_has_no_room() {
    let ring = Ring::new(0, 2);
    for round in 0..5 {
        let (a, b) = (ring.grant(2 * round + 1, 1), ring.grant(2 * round + 2, 1));
        assert!(!ring.has_room());
        ring.finish(b, None);
        assert!(!ring.has_room() && ring.visible() == 2 * round);
        ring.finish(a, None);
        assert!(ring.has_room() && ring.visible() == 2 * round + 2);
    }
}

#[test]
fn a_failure_wakes_whoever_waits() {
    let ring = std::sync::Arc::new(Ring::new(0, 1));
    let last = ring.grant(1, 1) + 1;
    let waiting = ring.clone();
    let waiter = std::thread::spawn(move || waiting.wait_visible(last));
    while ring.parked.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    ring.fail();
    assert!(!waiter.join().unwrap());
    assert!(!ring.wait_for_room() && !ring.wait_empty());
}
