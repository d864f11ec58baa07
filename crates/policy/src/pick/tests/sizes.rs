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
        let job = pick(&state, &options, &Cursors::default()).unwrap();
        assert_eq!((job.from, job.bytes), (0, u64::MAX));
    }
}

/// So is what a job has of two of them, or of blob files.
#[test]
fn jobs_of_levels_of_any_size_are_picked() {
    let table = |file, deletes| Table {
        file: FileId(file),
        range: KeyRange::inclusive(&b"a"[..], &b"b"[..]),
        bytes: u64::MAX - 1,
        smallest_seqno: SeqNo(9 - file),
        largest_seqno: SeqNo(9 - file),
        entries: u64::MAX - 1,
        deletes,
        in_pm: false,
    };
    let levels = [
        vec![table(1, u64::MAX - 1)],
        vec![table(2, 0)],
        vec![table(3, 0)],
    ];
    let state = State {
        levels: &levels,
        running: &[],
    };
    let options = PickOptions {
        last_level: 2,
        dynamic: false,
        ..PickOptions::default()
    };
    let bytes = |job: Option<Job>| job.unwrap().bytes;
    let cursors = Cursors::default();
    assert_eq!(bytes(pick(&state, &options, &cursors)), u64::MAX);
    let deletes = pick_tombstones(&[], &state, &options);
    assert_eq!(bytes(deletes), u64::MAX);
    let refers = crate::collect::Refers {
        family: thermocline_base::CfId::DEFAULT,
        level: 2,
        place: 0,
        bytes: 7,
    };
    let moves = pick_garbage([refers].iter(), &state, &options, u64::MAX);
    assert_eq!(bytes(moves), u64::MAX);
    let expired = Expired {
        up_to: SeqNo(9),
        seen: None,
    };
    assert_eq!(expired.bytes(&state), (u64::MAX, u64::MAX));
}
