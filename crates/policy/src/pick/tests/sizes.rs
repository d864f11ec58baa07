//! Levels of any size.

use super::*;

/// A manifest is held to less than 2^64 bytes in each level, and to nothing else.
#[test]
fn levels_of_any_size_are_added_up() {
    let table = |file| Table {
        file: FileId(file),
        range: KeyRange::inclusive(&b"a"[..], &b"b"[..]),
        bytes: u64::MAX - 1,
        smallest_seqno: SeqNo(9 - file),
        largest_seqno: SeqNo(9 - file),
        entries: 1,
        deletes: 0,
        in_pm: false,
    };
    let levels = [vec![table(1)], vec![table(2)], vec![table(3)]];
    let state = State {
        levels: &levels,
        running: &[],
    };
    for dynamic in [false, true] {
        let options = PickOptions {
            last_level: 2,
            dynamic,
            ..PickOptions::default()
        };
        assert_eq!(base_and_above(&state, &options), u64::MAX);
        assert_eq!(pending_bytes(&state, &options), u64::MAX);
    }
}
