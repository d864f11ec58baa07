use super::*;

const CF: CfId = CfId(3);

fn put(writes: &mut Writes, key: &[u8], value: &[u8]) -> Result<()> {
    let write = Write::Value(Some(value.into()));
    writes.set(&OneKey::new(CF, key), &write)
}

/// Keys that are written, written again, hidden and taken back, asked about more and more often: with an order of them and
/// without one.
#[test]
fn writes_are_put_in_order_only_for_many_questions_and_found_without_one() {
    let mut writes = Writes::default();
    for key in [b"a", b"c", b"c", b"e"] {
        put(&mut writes, key, b"v").unwrap();
    }
    // The order that hiding them made is forgotten.
    let span = Span {
        cf: CF,
        start: b"e".to_vec(),
        end: None,
    };
    let range = writes.deletion(span).unwrap();
    writes.delete_range(range);
    writes.ordered.take();
    let has = |writes: &Writes, cf: CfId, from: &[u8], to: Bound<&'static [u8]>| {
        writes.has_within(cf, (Bound::Included(from), to))
    };
    let before = |end: &'static [u8]| Bound::Excluded(end);
    let questions = [
        (b"b", Bound::Unbounded, true),
        (b"b", before(b"c"), false),
        (b"d", Bound::Unbounded, false),
        (b"c", before(b"b"), false),
    ];
    for (from, to, there) in questions {
        assert!(writes.ordered.get().is_none());
        assert_eq!(has(&writes, CF, from, to), there, "{from:?} {to:?}");
    }
    for cf in [CF, CfId(4)] {
        assert_eq!(has(&writes, cf, b"a", before(b"b")), cf == CF);
        assert!(writes.ordered.get().is_some());
    }
    writes.clear();
    assert!(!has(&writes, CF, b"", Bound::Unbounded) && writes.ordered.get().is_none());
}

/// What a write replaces is not written.
#[test]
fn a_write_that_takes_the_place_of_another_one_counts_once() {
    let mut writes = Writes::default();
    put(&mut writes, b"k", &[7; 1000]).unwrap();
    // As if there were others, up to 100 bytes from the limit.
    writes.bytes = limits::BATCH_BYTES_MAX - 100 - ENTRY_BYTES;
    put(&mut writes, b"k", &[8; 1000]).unwrap();
    put(&mut writes, b"k", &[9; 1100]).unwrap();
    let error = put(&mut writes, b"k", &[9; 1101]).unwrap_err().to_string();
    let over = limits::BATCH_BYTES_MAX + 1;
    assert!(error.contains(&over.to_string()), "{error}");
    assert!(put(&mut writes, b"j", b"").is_err());
}

/// What a range hides is not written.
#[test]
fn a_range_counts_without_what_it_hides() {
    let mut writes = Writes::default();
    put(&mut writes, b"k", &[7; 1000]).unwrap();
    // As if there were others, up to 100 bytes from the limit.
    writes.bytes = limits::BATCH_BYTES_MAX - 100 - ENTRY_BYTES;
    let deletion = |writes: &Writes, first: u8, len: usize| {
        writes.deletion(Span {
            cf: CF,
            start: vec![first; len],
            end: None,
        })
    };
    let error = deletion(&writes, b'a', 1102).unwrap_err().to_string();
    let over = limits::BATCH_BYTES_MAX + 1;
    assert!(error.contains(&over.to_string()), "{error}");
    assert!(deletion(&writes, b'l', 1000).is_err());
    let range = deletion(&writes, b'a', 1101).unwrap();
    writes.delete_range(range);
    assert_eq!(writes.bytes, limits::BATCH_BYTES_MAX - ENTRY_BYTES);
}

/// A range that is taken back has hidden one that lies within it, which still counts.
#[test]
fn ranges_within_one_that_is_taken_back_still_cover_their_keys() {
    let mut writes = Writes::default();
    let delete = |writes: &mut Writes, start: &[u8], end: Option<&[u8]>| {
        let span = Span {
            cf: CF,
            start: start.to_vec(),
            end: end.map(<[u8]>::to_vec),
        };
        let range = writes.deletion(span).unwrap();
        writes.delete_range(range);
    };
    let covered = |writes: &Writes| -> Vec<bool> {
        let keys = [b"b", b"c", b"d", b"x"];
        keys.iter().map(|key| writes.covers(CF, *key)).collect()
    };
    assert_eq!(covered(&writes), [false; 4]);
    delete(&mut writes, b"c", Some(&b"d"[..]));
    assert_eq!(covered(&writes), [false, true, false, false]);
    let savepoint = writes.savepoint((1, 1));
    for end in [Some(&b"e"[..]), None] {
        delete(&mut writes, b"a", end);
        assert_eq!(covered(&writes), [true, true, true, end.is_none()]);
        assert!(!writes.covers(CfId(4), b"c"));
    }
    writes.rollback_to((1, 1), savepoint).unwrap();
    assert_eq!(covered(&writes), [false, true, false, false]);
}

/// Nothing of it is copied for that, however much was written again and deleted.
#[test]
fn what_is_written_is_gone_through_where_it_lies() {
    let mut writes = Writes::default();
    for key in [b"a", b"c", b"e"] {
        put(&mut writes, key, b"v").unwrap();
    }
    let log = writes.batch().expect("all of it counts");
    assert_eq!((log.len(), writes.changes().len()), (3, 3));
    put(&mut writes, b"c", b"w").unwrap();
    let span = Span {
        cf: CF,
        start: b"e".to_vec(),
        end: None,
    };
    let range = writes.deletion(span).unwrap();
    writes.delete_range(range);
    put(&mut writes, b"f", b"x").unwrap();
    assert!(writes.batch().is_none());
    let changes = writes.changes();
    assert_eq!(changes.len(), 4);
    let all: Vec<_> = changes.clone().map(|c| (c.kind, c.key, c.value)).collect();
    let expected: [(Kind, &[u8], &[u8]); 4] = [
        (Kind::RangeDelete, b"e", b""),
        (Kind::Put, b"a", b"v"),
        (Kind::Put, b"c", b"w"),
        (Kind::Put, b"f", b"x"),
    ];
    assert_eq!(all, expected);
    for (change, number) in changes.skip(1).zip([0, 3, 4]) {
        assert!(std::ptr::eq(change.value, writes.log.get(number).value));
    }
}
