use thermocline_base::Error;
use thermocline_env::simulated::SimClock;
use thermocline_exec::{BufPool, UnderWay};
use thermocline_policy::tuning::{CLIENTS_HALF_LIFE_NS, JOBS_SHARE_MIN};

use super::*;

fn go_on() -> Result<()> {
    Ok(())
}

#[test]
fn time_passes_as_the_rate_says_and_nobody_sleeps_for_long() {
    let clock = Arc::new(SimClock::new());
    let pace = Pace::new(1 << 20, clock.clone());
    for _ in 0..8 {
        pace.spent(256 << 10, &go_on).unwrap();
    }
    let ms = clock.now_ns() / 1_000_000;
    assert!((1990..=2000).contains(&ms), "{ms}");
    // A pause is not made up for.
    clock.advance_ns(10 * NANOS);
    pace.spent(1 << 20, &go_on).unwrap();
    let ms = clock.now_ns() / 1_000_000;
    assert!((12_990..=13_000).contains(&ms), "{ms}");
    let naps = std::cell::Cell::new(0);
    let closed = pace.spent(1 << 30, &|| {
        naps.set(naps.get() + 1);
        match naps.get() {
            3 => Err(Error::Closed),
            _ => Ok(()),
        }
    });
    assert!(matches!(closed, Err(Error::Closed)));
    assert!(clock.now_ns() / 1_000_000 - ms <= 2 * JOB_NAP_MS);
    Pace::new(0, clock.clone())
        .spent(1 << 40, &|| Err(Error::Closed))
        .unwrap();
}

/// A job works ten times for so long; returns the part of the time that it has worked.
fn part_worked(clock: &SimClock, job: &mut Paced<'_>, work_ns: u64) -> f64 {
    let begun = clock.now_ns();
    for _ in 0..10 {
        clock.advance_ns(work_ns);
        job.spent(1 << 20, &go_on).unwrap();
    }
    let all = clock.now_ns() - begun;
    (10 * work_ns) as f64 / all as f64
}

#[test]
fn a_job_gives_way_to_reads_of_clients_as_far_as_nobody_needs_it() {
    let clock = Arc::new(SimClock::new());
    let reader = BatchReader::counted(BufPool::new(0), UnderWay::default());
    let pace = Pace::new(0, clock.clone()).giving_way(true);
    let mut job = pace.begin(Some(&reader));
    let work = 20_000_000;
    assert_eq!(part_worked(&clock, &mut job, work), 1.0);
    assert!(!pace.has_held_since(0));
    let begun = clock.now_ns();
    let reads = [reader.one_under_way(), reader.one_under_way()];
    // Long enough for what was before to be forgotten.
    clock.advance_ns(20 * CLIENTS_HALF_LIFE_NS);
    job.spent(1, &go_on).unwrap();
    let part = part_worked(&clock, &mut job, work);
    assert!((part - JOBS_SHARE_MIN).abs() < 0.01, "{part}");
    assert!(pace.has_held_since(begun));
    assert_eq!(pace.percent(&reader), Some(5));
    pace.needs(0.5);
    let part = part_worked(&clock, &mut job, work);
    assert!((part - 0.525).abs() < 0.03, "{part}");
    // Writers would be delayed.
    pace.needs(1.0);
    assert_eq!(part_worked(&clock, &mut job, work), 1.0);
    pace.needs(0.0);
    drop(reads);
    clock.advance_ns(20 * CLIENTS_HALF_LIFE_NS);
    job.spent(1, &go_on).unwrap();
    assert!(part_worked(&clock, &mut job, work) > 0.99);
}

#[test]
fn a_job_that_rests_goes_on_when_writers_need_it_and_hears_of_closing() {
    let clock = Arc::new(SimClock::new());
    let reader = BatchReader::counted(BufPool::new(0), UnderWay::default());
    let _reads = [reader.one_under_way(), reader.one_under_way()];
    let pace = Pace::new(0, clock.clone()).giving_way(true);
    clock.advance_ns(20 * CLIENTS_HALF_LIFE_NS);
    let mut job = pace.begin(Some(&reader));
    clock.advance_ns(JOB_WORK_NS_MAX);
    let begun = clock.now_ns();
    let naps = std::cell::Cell::new(0);
    let needed = || -> Result<()> {
        naps.set(naps.get() + 1);
        if naps.get() == 3 {
            pace.needs(1.0);
        }
        Ok(())
    };
    job.spent(1, &needed).unwrap();
    assert_eq!((naps.get(), clock.now_ns() - begun), (3, 3 * JOB_LOOK_NS));
    pace.needs(0.0);
    clock.advance_ns(JOB_WORK_NS_MAX);
    let closed = job.spent(1, &|| Err(Error::Closed));
    assert!(matches!(closed, Err(Error::Closed)));
}

#[test]
fn nobody_rests_who_is_not_to() {
    let clock = Arc::new(SimClock::new());
    let reader = BatchReader::counted(BufPool::new(0), UnderWay::default());
    let _reads = [reader.one_under_way(), reader.one_under_way()];
    let usual = Pace::new(0, clock.clone());
    let gives_way = Pace::new(0, clock.clone()).giving_way(true);
    assert_eq!(usual.percent(&reader), None);
    let usual = usual.begin(Some(&reader));
    let by_hand = gives_way.begin(None);
    for mut job in [usual, by_hand] {
        clock.advance_ns(NANOS);
        job.spent(1, &|| Err(Error::Closed)).unwrap();
    }
}

#[test]
fn a_job_that_looks_often_has_its_share_too() {
    let clock = Arc::new(SimClock::new());
    let reader = BatchReader::counted(BufPool::new(0), UnderWay::default());
    let _reads = [reader.one_under_way(), reader.one_under_way()];
    let pace = Pace::new(0, clock.clone()).giving_way(true);
    clock.advance_ns(20 * CLIENTS_HALF_LIFE_NS);
    pace.needs(0.75);
    let mut job = pace.begin(Some(&reader));
    // Each time it is to rest for a third of a millisecond.
    let part = part_worked(&clock, &mut job, JOB_WORK_NS_MIN);
    assert!((part - 0.7625).abs() < 0.03, "{part}");
}

#[test]
fn no_job_rests_while_somebody_waits_for_it() {
    let clock = Arc::new(SimClock::new());
    let reader = BatchReader::counted(BufPool::new(0), UnderWay::default());
    let _reads = [reader.one_under_way(), reader.one_under_way()];
    let pace = Pace::new(0, clock.clone()).giving_way(true);
    clock.advance_ns(20 * CLIENTS_HALF_LIFE_NS);
    let mut job = pace.begin(Some(&reader));
    let work = 20_000_000;
    let waits = [pace.hurry(), pace.hurry()];
    for wait in waits {
        assert_eq!(part_worked(&clock, &mut job, work), 1.0);
        drop(wait);
    }
    let part = part_worked(&clock, &mut job, work);
    assert!((part - JOBS_SHARE_MIN).abs() < 0.01, "{part}");
    // One that rests already hears of it.
    clock.advance_ns(JOB_WORK_NS_MAX);
    let begun = clock.now_ns();
    let hurry = std::cell::Cell::new(None);
    let naps = std::cell::Cell::new(0);
    let comes = || -> Result<()> {
        naps.set(naps.get() + 1);
        if naps.get() == 2 {
            hurry.set(Some(pace.hurry()));
        }
        Ok(())
    };
    job.spent(1, &comes).unwrap();
    assert_eq!((naps.get(), clock.now_ns() - begun), (2, 2 * JOB_LOOK_NS));
}
