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
