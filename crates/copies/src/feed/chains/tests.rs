use thermocline_base::ErrorKind;
use thermocline_base::planted::plant;
use thermocline_memtable::Chain;

use super::*;

/// A chain of a memtable and an incarnation, from `base` to `last`; the last one is written to.
fn trail((memtable, incarnation): (u64, u32), base: u64, last: Option<u64>) -> Trail {
    let chain = Chain::new(&[1; 16], base, incarnation, 0, base);
    match last {
        Some(last) => Trail::complete(memtable, chain, vec![], None, last),
        None => Trail::open(memtable, chain, vec![]),
    }
}

fn marks(visible: u64, durable: u64) -> Marks {
    Marks {
        visible,
        durable,
        known_durable: u64::MAX,
    }
}

#[test]
fn what_lies_before_the_last_gap_is_gone() {
    let all = [
        trail((1, 1), 1, Some(9)),
        // One was dropped between.
        trail((3, 1), 20, Some(29)),
        trail((4, 1), 30, Some(39)),
        trail((5, 1), 40, None),
    ];
    let trails: Vec<&Trail> = all.iter().collect();
    assert_eq!(oldest_position(&trails, 45), 19);
    assert_eq!(begin(&trails, marks(45, 45), 19).unwrap(), 20);
    let error = begin(&trails, marks(45, 45), 5).unwrap_err();
    assert!(
        matches!(
            error,
            Error::ChangesGone {
                since: 5,
                oldest: 19
            }
        ),
        "{error}"
    );
    let _bug = plant(Bug::FeedAcceptsGap);
    assert_eq!(begin(&trails, marks(45, 45), 5).unwrap(), 6);
}

#[test]
fn seqnos_that_a_crash_took_are_nobodys() {
    // An opening, whose chain lies in the same memtable, far behind.
    let all = [trail((1, 1), 1, Some(9)), trail((1, 2), 100, None)];
    let trails: Vec<&Trail> = all.iter().collect();
    let begin = |since| begin(&trails, marks(9, 9), since);
    assert_eq!(begin(3).unwrap(), 4);
    assert_eq!(begin(9).unwrap(), 10);
    assert_eq!(begin(99).unwrap(), 100);
    for lost in [10, 50, 98, 100, u64::MAX] {
        assert_eq!(begin(lost).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let _bug = plant(Bug::FeedAcceptsLost);
    assert_eq!(begin(50).unwrap(), 51);
}

#[test]
fn who_has_all_that_is_durable_misses_nothing() {
    // All before was ingested or flushed.
    let all = [trail((7, 1), 1000, None)];
    let trails: Vec<&Trail> = all.iter().collect();
    assert_eq!(oldest_position(&trails, 999), 999);
    assert_eq!(begin(&trails, marks(999, 999), 999).unwrap(), 1000);
    assert_eq!(begin(&trails, marks(1004, 1001), 1003).unwrap(), 1004);
    assert!(begin(&trails, marks(1004, 1001), 1005).is_err());
}
