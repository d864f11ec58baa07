use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use crate::budget::Budget;

/// Waits until so many wait for a place.
fn await_waiting(budget: &Budget, n: usize) {
    while budget.waiting() != n {
        thread::yield_now();
    }
}

/// One that waits for a place as long as it takes.
fn waits<'scope>(
    scope: &'scope Scope<'scope, '_>,
    budget: &'scope Budget,
    depth: usize,
) -> ScopedJoinHandle<'scope, ()> {
    let before = budget.waiting();
    let waits = scope.spawn(move || budget.enter_within(depth, || None));
    await_waiting(budget, before + 1);
    waits
}

#[test]
fn who_waits_is_given_a_place_in_its_order() {
    let budget = Budget::default();
    budget.enter(false);
    thread::scope(|scope| {
        let mut waiting: Vec<_> = (0..3).map(|_| waits(scope, &budget, 1)).collect();
        for left in (0..3).rev() {
            assert!(waiting.iter().all(|waits| !waits.is_finished()));
            budget.leave(false);
            // The place is given when `leave` returns, to the first one only.
            assert_eq!((budget.taken(), budget.waiting()), (1, left));
            waiting.remove(0).join().unwrap();
        }
    });
    budget.leave(false);
    assert_eq!((budget.taken(), budget.is_awaited()), (0, false));
}

#[test]
fn who_allows_more_passes_who_allows_less() {
    let budget = Budget::default();
    (0..3).for_each(|_| budget.enter(false));
    thread::scope(|scope| {
        let careful = waits(scope, &budget, 1);
        let other = waits(scope, &budget, 3);
        budget.leave(false);
        other.join().unwrap();
        assert_eq!((budget.taken(), budget.waiting()), (3, 1));
        // A read finds room that none of those who wait may have.
        assert!(budget.enter_if_room(4));
        assert!(!budget.enter_if_room(4));
        (0..3).for_each(|_| budget.leave(false));
        assert_eq!((budget.taken(), budget.waiting()), (1, 1));
        budget.leave(false);
        careful.join().unwrap();
    });
    assert_eq!((budget.taken(), budget.is_awaited()), (1, false));
}

#[test]
fn the_first_keeps_others_waiting_but_takes_no_room_of_reads() {
    let budget = Budget::default();
    budget.enter(true);
    thread::scope(|scope| {
        let waits = waits(scope, &budget, 8);
        assert!(budget.enter_if_room(8));
        budget.leave(false);
        assert_eq!((budget.taken(), budget.waiting()), (1, 1));
        budget.leave(true);
        waits.join().unwrap();
    });
    assert_eq!(budget.taken(), 1);
}

#[test]
fn readers_take_room_and_make_it() {
    let budget = Budget::default();
    let shard = budget.enter_clients(3);
    assert!(!budget.enter_if_room(3));
    thread::scope(|scope| {
        let waits = waits(scope, &budget, 2);
        budget.leave_clients(shard, 1);
        assert_eq!(budget.waiting(), 1);
        budget.leave_clients(shard, 1);
        waits.join().unwrap();
    });
    assert_eq!((budget.taken(), budget.clients()), (1, 1));
    assert!(!budget.is_awaited());
}

#[test]
fn readers_of_many_threads_count_together_wherever_they_end() {
    const READERS: usize = 40;
    let budget = Budget::default();
    thread::scope(|scope| {
        let begin = (0..READERS).map(|_| scope.spawn(|| budget.enter_clients(1)));
        let begin: Vec<_> = begin.collect();
        let shards = begin.into_iter().map(|begins| begins.join().unwrap());
        let shards: Vec<usize> = shards.collect();
        assert!(shards.iter().any(|shard| *shard != shards[0]));
        assert_eq!(budget.clients(), READERS);
        assert!(!budget.enter_if_room(READERS));
        let waits = waits(scope, &budget, 1);
        for (n, shard) in shards.into_iter().enumerate() {
            assert_eq!((budget.clients(), budget.waiting()), (READERS - n, 1));
            budget.leave_clients(shard, 1);
        }
        // The last one has given the place before it went on.
        assert_eq!((budget.taken(), budget.waiting()), (1, 0));
        waits.join().unwrap();
    });
    assert_eq!((budget.clients(), budget.is_awaited()), (0, false));
}

#[test]
fn who_is_out_of_patience_goes_without_room_and_keeps_its_place() {
    let budget = Budget::default();
    budget.enter(false);
    let mut looks = 0;
    budget.enter_within(1, || {
        looks += 1;
        Some(Duration::from_micros(10 * u64::from(looks < 3)))
    });
    assert_eq!(looks, 3);
    assert_eq!((budget.taken(), budget.waiting()), (2, 0));
    assert!(!budget.is_awaited());
    // There is room only once both have ended.
    budget.leave(false);
    assert!(!budget.enter_if_room(1));
    budget.leave(false);
    assert!(budget.enter_if_room(1));
}
