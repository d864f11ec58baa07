//! When a level between level 0 and the base level begins to be used.

use super::*;

/// The level to which level 0 goes, which brings so many bytes, with so many in the last level.
fn goes_to(level0: u64, last: u64, options: &PickOptions) -> usize {
    let levels = [
        level(&[(b"a", b"z", level0)]),
        vec![],
        vec![],
        vec![],
        level(&[(b"a", b"m", last / 2), (b"n", b"z", last - last / 2)]),
    ];
    let state = State {
        levels: &levels,
        running: &[],
    };
    let job = pick(&state, options, &Cursors::default()).unwrap();
    assert_eq!((job.from, job.reason), (0, Reason::Level0));
    assert_eq!(job.bytes, if job.to == 4 { level0 + last } else { level0 });
    job.to
}

/// Level 0 of one run is due by its size.
const DUE: PickOptions = PickOptions {
    level0_bytes: 1,
    ..SMALL
};

#[test]
fn a_level_between_begins_where_level_0_brings_little_to_much() {
    // With a multiplier of 10 from 70 / 9 on for each byte.
    assert_eq!(goes_to(90, 700, &DUE), 4);
    assert_eq!(goes_to(90, 701, &DUE), 3);
    // A level of less than half of the base is none.
    assert_eq!(goes_to(10, 499, &DUE), 4);
    assert_eq!(goes_to(10, 500, &DUE), 3);
    // With 20 from 260 / 19 on, with 2 from 22 / 5.
    let of = |multiplier| PickOptions { multiplier, ..DUE };
    assert_eq!(
        (goes_to(76, 1040, &of(20)), goes_to(76, 1041, &of(20))),
        (4, 3)
    );
    assert_eq!((goes_to(40, 176, &of(2)), goes_to(40, 177, &of(2))), (4, 3));
    // Where sizes are fixed level 1 is the base.
    let fixed = PickOptions {
        dynamic: false,
        ..DUE
    };
    let levels = [level(&[(b"a", b"z", 10)]), level(&[(b"a", b"z", 99)])];
    let state = State {
        levels: &levels,
        running: &[],
    };
    let job = pick(&state, &fixed, &Cursors::default()).unwrap();
    assert_eq!((job.from, job.to), (0, 1));
}

#[test]
fn once_it_has_tables_it_is_the_base_level_and_has_its_part() {
    let levels = [
        level(&[(b"a", b"f", 300)]),
        vec![],
        vec![],
        level(&[(b"g", b"k", 30)]),
        level(&[(b"a", b"z", 500)]),
    ];
    let state = State {
        levels: &levels,
        running: &[],
    };
    let scores = Scores::new(&state, &DUE);
    assert_eq!((scores.base_level(), scores.target(3)), (3, Some(50)));
    // However much level 0 brings.
    let job = pick(&state, &DUE, &Cursors::default()).unwrap();
    assert_eq!((job.from, job.to, job.overlapped.len()), (0, 3, 0));
}
