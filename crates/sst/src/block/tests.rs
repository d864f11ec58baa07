//! Payloads that a checksum would not tell from right ones.

use super::*;
use crate::format::{DATA_LEN_MAX, INDEX_LEN_MAX, RUN_LEN_MAX};

type Written<'a> = (usize, &'a [u8], u8, u64, &'a [u8]);

/// The payload with these entries (shared, rest of the key, tag, seqno, value), whatever they say,
/// and restart points at the entries of these numbers, or behind the last.
fn payload(head: &[u8], entries: &[Written<'_>], restarts: &[usize]) -> Vec<u8> {
    let mut bytes = head.to_vec();
    let mut offsets = Vec::new();
    for (shared, rest, tag, seqno, value) in entries {
        offsets.push(bytes.len() - head.len());
        entry::encode(&mut bytes, *shared, rest, *tag, *seqno, value);
    }
    offsets.push(bytes.len() - head.len());
    for restart in restarts {
        let offset = u32::try_from(offsets[*restart]).unwrap();
        bytes.extend_from_slice(&offset.to_le_bytes());
    }
    bytes.extend_from_slice(&u32::try_from(restarts.len()).unwrap().to_le_bytes());
    bytes
}

fn is_data(entries: &[Written<'_>], restarts: &[usize]) -> bool {
    Block::data(payload(&[], entries, restarts)).is_ok()
}

#[test]
fn keys_must_ascend_and_share_what_is_there() {
    let first = (0, &b"kk"[..], 1, 5, &b"v"[..]);
    for (second, right) in [
        ((2, &b"a"[..], 1, 9, &b""[..]), true),
        ((1, b"l", 1, 9, b""), true),
        ((0, b"l", 1, 9, b""), true),
        ((2, b"", 1, 4, b""), true),
        ((0, b"kk", 1, 0, b""), true),
        ((2, b"", 1, 5, b""), false),
        ((2, b"", 1, 6, b""), false),
        ((1, b"j", 1, 1, b""), false),
        ((1, b"", 1, 1, b""), false),
        ((0, b"", 1, 1, b""), false),
        ((3, b"", 1, 1, b""), false),
        ((65_535, b"", 1, 1, b""), false),
        ((2, b"a", 1, u64::MAX, b""), false),
    ] {
        assert_eq!(is_data(&[first, second], &[0]), right, "{second:?}");
    }
}

#[test]
fn restart_points_lie_on_entries_that_share_nothing() {
    let whole = (0, &b"a"[..], 1, 5, &b"v"[..]);
    let shares = (1, &b"b"[..], 1, 5, &b"v"[..]);
    let other = (0, &b"b"[..], 1, 5, &b"v"[..]);
    for (entries, restarts, right) in [
        (vec![whole, shares], vec![0], true),
        (vec![whole, other], vec![0], true),
        (vec![whole, other], vec![0, 1], true),
        (vec![whole, shares], vec![0, 1], false),
        (vec![shares], vec![0], false),
        (vec![whole, other], vec![1], false),
        (vec![whole, other], vec![1, 0], false),
        (vec![whole, other], vec![0, 0], false),
        (vec![whole, other], vec![0, 2], false),
        (vec![whole, other], vec![], false),
        (vec![], vec![0], false),
        (vec![], vec![], false),
    ] {
        assert_eq!(
            is_data(&entries, &restarts),
            right,
            "{entries:?} {restarts:?}"
        );
    }
}

#[test]
fn more_restart_points_than_bytes_are_refused() {
    let bytes = payload(&[], &[(0, b"a", 1, 5, b"v")], &[0]);
    for count in [0, 2, 3, 4, 1 << 30, u32::MAX] {
        let mut bytes = bytes.clone();
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&count.to_le_bytes());
        assert!(Block::data(bytes).is_err(), "{count}");
    }
    for len in 0..bytes.len() {
        assert!(Block::data(bytes[..len].to_vec()).is_err(), "{len}");
    }
}

#[test]
fn tags_and_values_are_what_a_data_block_may_hold() {
    for (tag, len, right) in [
        (1, 0, true),
        (1, 9, true),
        (2, 0, true),
        (2, 1, false),
        (3, 9, true),
        (4, 9, false),
        (0, 0, false),
        (5, 0, false),
        (16, 20, false),
        (17, 20, true),
        (17, 19, false),
        (17, 21, false),
        (18, 20, false),
        (19, 20, true),
        (20, 20, false),
        (33, 9, false),
        (129, 9, false),
    ] {
        let value = vec![1; len];
        assert_eq!(
            is_data(&[(0, b"k", tag, 5, &value)], &[0]),
            right,
            "{tag} {len}"
        );
    }
}

#[test]
fn handles_ascend_and_lie_within_the_blocks() {
    let handle = |offset: u64, len: u32| {
        let mut value = Vec::new();
        let kind = BlockKind::Data;
        entry::encode_handle(&mut value, BlockHandle { offset, len, kind });
        value
    };
    let is_index = |handles: &[Vec<u8>]| {
        let keys = [b"a", b"b", b"c"];
        let entries = handles
            .iter()
            .zip(keys)
            .map(|(h, k)| (0, &k[..], 0, 0, &h[..]));
        let entries: Vec<_> = entries.collect();
        Block::index(payload(&[1, 0, 0, 0], &entries, &[0]), 1000).is_ok()
    };
    assert!(is_index(&[handle(0, 12)]));
    assert!(is_index(&[
        handle(0, 100),
        handle(100, 100),
        handle(300, 700)
    ]));
    assert!(!is_index(&[handle(0, 11)]));
    assert!(!is_index(&[handle(0, 1001)]));
    assert!(!is_index(&[handle(u64::MAX, 12)]));
    assert!(!is_index(&[handle(u64::MAX - 11, u32::MAX)]));
    assert!(!is_index(&[handle(100, 100), handle(0, 100)]));
    assert!(!is_index(&[handle(0, 100), handle(99, 100)]));
    assert!(!is_index(&[[handle(0, 100), vec![0]].concat()]));
    assert!(!is_index(&[handle(0, 100)[..1].to_vec()]));
    // The tag of a data entry; levels and reserved bytes that are not.
    let value = handle(0, 12);
    for (head, tag, right) in [
        ([1, 0, 0, 0], 0, true),
        ([1, 1, 0, 0], 0, true),
        ([1, 0, 0, 0], 1, false),
        ([1, 2, 0, 0], 0, false),
        ([1, 0, 1, 0], 0, false),
        ([1, 0, 0, 1], 0, false),
    ] {
        let bytes = payload(&head, &[(0, b"k", tag, 0, &value)], &[0]);
        assert_eq!(Block::index(bytes, 1000).is_ok(), right, "{head:?} {tag}");
    }
    assert!(Block::index(payload(&[1, 0, 0, 0], &[], &[]), 0).is_ok());
    // A learned index is a root, and no block below one.
    let learned = Block::index(payload(&[2, 0, 0, 0], &[], &[]), 0);
    assert!(matches!(learned, Err(Unreadable::Damaged { .. })));
    let newer = Block::index(payload(&[3, 0, 0, 0], &[], &[]), 0);
    assert!(matches!(newer, Err(Unreadable::Newer(_))));
}

/// What follows a handle takes so much memory before it knows better.
#[test]
fn a_handle_is_of_no_longer_block_than_there_can_be() {
    for (level, most) in [(0, DATA_LEN_MAX), (1, INDEX_LEN_MAX)] {
        for (more, right) in [(0, true), (1, false), (1 << 31, false)] {
            let len = u32::try_from(most + TRAILER_LEN + more).unwrap();
            let (mut value, kind) = (Vec::new(), BlockKind::Data);
            let offset = 0;
            entry::encode_handle(&mut value, BlockHandle { offset, len, kind });
            let bytes = payload(&[1, level, 0, 0], &[(0, b"k", 0, 0, &value)], &[0]);
            assert_eq!(Block::index(bytes, 1 << 40).is_ok(), right, "{level} {len}");
        }
    }
}

#[test]
fn a_run_between_restart_points_is_not_longer_than_it_may_be() {
    for (len, right) in [(RUN_LEN_MAX, true), (RUN_LEN_MAX + 1, false)] {
        let keys: Vec<[u8; 2]> = (0..2 * len)
            .map(|n| u16::try_from(n).unwrap().to_be_bytes())
            .collect();
        let entries = keys.iter().map(|k| (0, &k[..], 1, 5, &b""[..]));
        let entries: Vec<_> = entries.collect();
        assert_eq!(is_data(&entries, &[0, len]), right, "{len}");
    }
}
