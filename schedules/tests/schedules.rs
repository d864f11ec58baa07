//! The workload in many orders, and with bugs planted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{available_parallelism, scope};

use thermocline_base::planted::Bug;
use thermocline_schedules::awaited::{Meets, awaited};
use thermocline_schedules::key::one_key;
use thermocline_schedules::reached::Reached;
use thermocline_schedules::run::{BATCH, Choice, Orders, explored, find, run, run_twice, times};

/// The allocator of these tests, which make and drop a great deal (decision 179).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Most seeds that a planted bug may take.
const SEEDS_OF_BUG: u64 = 100;

/// Runs so many seeds, on all processors: the test that begins last has all of them to itself.
fn many(orders: Orders, seeds: u64) {
    let reached: Arc<Reached> = Arc::default();
    let (seeds, next) = (explored(seeds), AtomicU64::new(0));
    let share = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            run(Choice { orders, seed }, &reached);
        }
    };
    scope(|scope| {
        for _ in 1..available_parallelism().map_or(1, |all| all.get()) {
            scope.spawn(share);
        }
        share();
    });
    let counts = reached.all().map(|(what, count)| {
        assert!(count > 0, "no {what}");
        format!("{count} {what}")
    });
    println!("schedules: {orders:?}: {}", counts.join(", "));
}

#[test]
fn any_thread_at_any_step() {
    many(Orders::Random, 60);
}

#[test]
fn two_preemptions_at_any_places() {
    many(Orders::Pct(3), 80);
}

#[test]
fn five_preemptions_at_any_places() {
    many(Orders::Pct(6), 60);
}

#[test]
fn executions_depend_on_the_order_alone() {
    for seed in 1..4 {
        run_twice(seed, BATCH / 2);
    }
}

fn finds(bug: Bug) {
    let executions = find(bug, SEEDS_OF_BUG);
    let executions = executions.unwrap_or_else(|| panic!("{bug:?} was not found"));
    println!("schedules: {bug:?} was found by execution {executions}");
}

#[test]
fn versions_that_are_purged_under_a_reader_are_missed() {
    finds(Bug::PurgePastReader);
}

#[test]
fn a_filter_under_a_reader_is_noticed() {
    finds(Bug::FilterForgetsReaders);
}

#[test]
fn an_acknowledgement_out_of_order_is_noticed() {
    finds(Bug::AckOutOfOrder);
}

#[test]
fn an_acknowledgement_of_what_is_only_visible_is_noticed() {
    finds(Bug::AckAtVisible);
}

#[test]
fn a_seal_over_groups_in_flight_is_noticed() {
    finds(Bug::SealWhileOpen);
}

#[test]
fn publishing_before_persisting_is_noticed() {
    finds(Bug::PublishBeforePersist);
}

#[test]
fn numbers_that_are_reserved_over_those_of_others_are_noticed() {
    finds(Bug::StaleReservation);
}

/// Executions with futures, of each way to choose orders.
const FUTURES: u64 = 480;

fn futures(meets: Meets) {
    for orders in [Orders::Random, Orders::Pct(3), Orders::Pct(6)] {
        let executions = usize::try_from(explored(FUTURES)).unwrap();
        let waited = awaited(meets, Choice { orders, seed: 1 }, executions);
        assert!(waited > 0, "no read of a future has waited");
        println!("schedules: {orders:?}: {waited} reads of futures had to wait, {meets:?}");
    }
}

#[test]
fn futures_find_what_reads_find_that_wait() {
    futures(Meets::Sound);
}

#[test]
fn errors_come_to_the_futures_that_met_them() {
    futures(Meets::Damage);
}

/// Executions with one key.
const ONE_KEY: usize = 5_000;

#[test]
fn a_get_sees_all_that_a_batch_does_to_its_key() {
    for put_last in [false, true] {
        let executions = explored(ONE_KEY as u64);
        one_key(put_last, usize::try_from(executions).unwrap(), None).unwrap();
    }
}

#[test]
fn half_of_what_a_batch_does_to_a_key_is_noticed() {
    for put_last in [false, true] {
        assert!(one_key(put_last, ONE_KEY, Some(Bug::HalfSeen)).is_err());
    }
}

/// Repeats the executions that a failure has named; without `SCHEDULE` does nothing.
#[test]
fn again() {
    if let Ok(choice) = std::env::var("SCHEDULE") {
        let choice = Choice::parse(&choice).expect("SCHEDULE is random/SEED or pctDEPTH/SEED");
        run(choice, &Arc::default());
    }
}

/// With none at all every test here would pass.
#[test]
fn no_executions_cannot_be_asked_for() {
    for (text, asked) in [
        ("1", Some(1)),
        ("12", Some(12)),
        ("0", None),
        ("", None),
        ("-1", None),
    ] {
        assert_eq!(times(text), asked, "{text}");
    }
}
