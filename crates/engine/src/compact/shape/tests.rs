//! Tests of what tables are made like.

use super::*;

#[test]
fn filters_are_wrong_less_often_above_the_last_level() {
    let shape = Shape::new(&Options::default());
    let of = |level, last| {
        shape
            .write_options(level, last, Creation::Compaction)
            .filter
    };
    assert_eq!(
        [of(0, usize::MAX), of(0, 6), of(5, 6)],
        [FilterKind::Fuse16; 3]
    );
    assert_eq!([of(6, 6), of(1, 1)], [FilterKind::Fuse8; 2]);
}
