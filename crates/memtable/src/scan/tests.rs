use std::sync::Arc;

use thermocline_halloc::Space;

use super::*;
use crate::fixture::{memtable, space};

type Version = (Vec<u8>, u64, bool);

/// All versions of family `cf`, `limit` keys at a time: key, seqno, and whether it is a put.
fn versions(memtable: &Memtable, cf: CfId, limit: usize) -> Vec<Version> {
    let mut rows: Vec<Version> = Vec::new();
    loop {
        let mut chunk = Vec::new();
        let last = rows.last().map(|(key, ..)| key.clone());
        let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let more = memtable
            .scan_versions(cf, from, None, limit, &mut chunk)
            .unwrap();
        for entry in chunk {
            let record = memtable.record(entry.at, true).unwrap();
            let put = record.kind == thermocline_base::Kind::Put;
            rows.push((record.key.to_vec(), record.seqno.0, put));
        }
        if !more {
            return rows;
        }
    }
}

#[test]
fn all_versions_come_in_order_however_many_keys_at_a_time() {
    let space = space(1 << 20, 256 << 10);
    let rows = [
        (0, &b"b"[..], 1, true),
        (0, b"a", 2, true),
        (0, b"b", 3, false),
        (3, b"other", 4, true),
        (0, b"b", 5, true),
        (0, b"", 6, true),
        (0, b"c", 7, true),
        (0, b"c", 8, true),
    ];
    // Somebody reads at 1 to 3: of "c" only the newest is kept.
    let memtable = memtable(&space, 1, &rows, &[1, 2, 3]);
    let row = |key: &[u8], seqno, put| (key.to_vec(), seqno, put);
    let expected = [
        row(b"", 6, true),
        row(b"a", 2, true),
        row(b"b", 5, true),
        row(b"b", 3, false),
        row(b"b", 1, true),
        row(b"c", 8, true),
    ];
    for limit in [1, 2, 3, 4, 5, 100] {
        assert_eq!(versions(&memtable, CfId(0), limit), expected, "{limit}");
    }
    let families: Vec<CfId> = memtable.families().collect();
    assert_eq!(families, [CfId(0), CfId(3)]);
    assert_eq!(versions(&memtable, CfId(3), 1), [row(b"other", 4, true)]);
    assert_eq!(versions(&memtable, CfId(1), 1), []);
}

/// What a reader who is registered at `seqno` needs, `limit` keys at a time: key and seqno.
fn seen(memtable: &Memtable, seqno: u64, limit: usize) -> Vec<(Vec<u8>, u64)> {
    let mut source = Versions::new(memtable, CfId(0), limit).as_of(SeqNo(seqno));
    source.seek(Bound::Unbounded).unwrap();
    let mut rows = Vec::new();
    while let Some(record) = source.head() {
        rows.push((record.key.to_vec(), record.seqno.0));
        source.advance().unwrap();
    }
    rows
}

/// Two keys, and between them three of which a reader at 2 sees none of the two versions that each has.
fn old_around_new(space: &Arc<Space>) -> Memtable {
    let rows = [
        (0, &b"a"[..], 1, true),
        (0, b"z", 2, true),
        (0, b"k", 3, true),
        (0, b"k", 4, true),
        (0, b"l", 5, true),
        (0, b"l", 6, true),
        (0, b"m", 7, true),
        (0, b"m", 8, true),
    ];
    memtable(space, 1, &rows, &[2, 3, 5, 7])
}

/// Else a copy that is made beside writers would lack them.
#[test]
fn what_lies_behind_keys_that_a_reader_does_not_see_is_found() {
    let space = space(1 << 20, 256 << 10);
    let memtable = old_around_new(&space);
    for limit in [1, 2, 3, 4, 100] {
        let expected = [(b"a".to_vec(), 1), (b"z".to_vec(), 2)];
        assert_eq!(seen(&memtable, 2, limit), expected, "{limit}");
        let later = seen(&memtable, 5, limit);
        let seqnos: Vec<u64> = later.iter().map(|(_, seqno)| *seqno).collect();
        assert_eq!(seqnos, [1, 4, 5, 2], "{limit}");
    }
}

/// The keys of an index that one call walks over are as many as it is asked for, whether the reader sees them or not.
#[test]
fn a_scan_ends_at_its_limit_among_keys_that_the_reader_does_not_see() {
    let space = space(1 << 20, 256 << 10);
    let memtable = old_around_new(&space);
    let ways = [
        ("a", Direction::Forward, ["k", "l"]),
        ("z", Direction::Reverse, ["m", "l"]),
    ];
    for (from, direction, expected) in ways {
        let mut out = Vec::new();
        let from = Bound::Excluded(from.as_bytes());
        let more = memtable.scan(CfId(0), from, direction, SeqNo(2), 2, &mut out);
        assert!(more.unwrap(), "{direction:?}");
        let records = out
            .iter()
            .map(|entry| memtable.record(entry.at, true).unwrap());
        let records: Vec<(&[u8], bool)> = records
            .map(|record| (record.key, record.seqno > SeqNo(2)))
            .collect();
        assert_eq!(
            records,
            expected.map(|key| (key.as_bytes(), true)),
            "{direction:?}"
        );
    }
}
