//! Tables beside a model: whatever is asked, they answer alike.

use std::sync::Arc;

use thermocline_base::{CfId, Kind, SeqNo};
use thermocline_level0::{
    Found, FoundValue, GroupSize, PmCursor, PmPart, PmTable, Value, verify_table,
};
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Rng, seeds};

use crate::world::*;

fn content_of(found: &Found) -> Option<Content> {
    match &found.value {
        FoundValue::Inline(bytes) => Some(Content::Bytes(bytes.to_vec())),
        FoundValue::Blob(to) => Some(Content::Blob(*to)),
        FoundValue::None => None,
    }
}

type Row = (Vec<u8>, u64, Kind, Content);

fn row(cursor: &PmCursor) -> Row {
    let content = match cursor.value().unwrap() {
        Value::Inline(bytes) => Content::Bytes(bytes.to_vec()),
        Value::Blob(to) => Content::Blob(to),
    };
    let key = cursor.user_key().to_vec();
    (key, cursor.seqno().0, cursor.kind(), content)
}

fn rows(model: &Model, cf: u16, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Vec<Row> {
    let own = model.entries.iter().filter(|((own, key, _), _)| {
        *own == cf
            && lower.is_none_or(|lower| lower <= &key[..])
            && upper.is_none_or(|upper| &key[..] < upper)
    });
    own.map(|((_, key, left), (kind, content))| {
        (key.clone(), u64::MAX - left, *kind, content.clone())
    })
    .collect()
}

fn check_gets(rng: &mut Rng, table: &Arc<PmTable>, model: &Model, keys: Keys) {
    let known: Vec<&(u16, Vec<u8>, u64)> = model.entries.keys().collect();
    for round in 0..300 {
        let (cf, key, seqno) = match rng.below(3) {
            0 => (
                u16::try_from(rng.below(3) * 7).unwrap(),
                key(rng, keys),
                SeqNo::MAX.0,
            ),
            _ => {
                let (cf, key, left) = *rng.pick(&known);
                let own = u64::MAX - left;
                let around = [own, own.saturating_sub(1), own + 1, u64::MAX, 0];
                (*cf, key.clone(), *rng.pick(&around))
            }
        };
        let part = PmPart::whole(table.clone(), CfId(cf));
        let found = part.get(&key, SeqNo(seqno), round % 2 == 0).unwrap();
        let found = found.map(|found| (found.kind, found.seqno.0, content_of(&found)));
        let expected = model.newest(cf, &key, seqno.min(u64::MAX - 1));
        assert_eq!(found, expected, "{} at {seqno}", key.escape_ascii());
        let before = PmPart::limited(table.clone(), CfId(cf), None, Some(&key));
        let outside = before.get(&key, SeqNo(seqno), true).unwrap();
        assert!(outside.is_none(), "{} lies behind it", key.escape_ascii());
    }
}

fn check_walks(rng: &mut Rng, table: &Arc<PmTable>, model: &Model, keys: Keys) {
    for cf in [0, 7, 14] {
        let limit = |rng: &mut Rng| rng.one_in(2).then(|| key(rng, keys));
        let (lower, upper) = (limit(rng), limit(rng));
        let (lower, upper) = (lower.as_deref(), upper.as_deref());
        let expected = rows(model, cf, lower, upper);
        let part = PmPart::limited(table.clone(), CfId(cf), lower, upper);
        let mut cursor = PmCursor::new(part, true);
        assert!(!cursor.next().unwrap() && !cursor.prev().unwrap());
        let mut forward = Vec::new();
        let mut there = cursor.first().unwrap();
        while there {
            forward.push(row(&cursor));
            there = cursor.next().unwrap();
        }
        assert!(
            forward == expected,
            "{} of {} forward",
            forward.len(),
            expected.len()
        );
        let (mut newest, mut left) = (Vec::new(), Vec::new());
        let mut there = cursor.first().unwrap();
        while there {
            newest.push(row(&cursor));
            there = cursor.next_key(&mut left).unwrap();
        }
        let mut newest_expected = expected.clone();
        newest_expected.dedup_by(|older, newer| older.0 == newer.0);
        assert!(
            newest == newest_expected,
            "{} of {} keys",
            newest.len(),
            newest_expected.len()
        );
        let mut back = Vec::new();
        let mut there = cursor.last().unwrap();
        while there {
            back.push(row(&cursor));
            there = cursor.prev().unwrap();
        }
        back.reverse();
        assert!(
            back == expected,
            "{} of {} back",
            back.len(),
            expected.len()
        );
        for _ in 0..60 {
            check_seek(rng, &mut cursor, &expected, keys);
        }
    }
}

/// A seek to somewhere, either way, and some steps.
fn check_seek(rng: &mut Rng, cursor: &mut PmCursor, expected: &[Row], keys: Keys) {
    let (key, seqno) = match expected.is_empty() || rng.one_in(3) {
        true => (key(rng, keys), *rng.pick(&[0, 5, u64::MAX])),
        false => {
            let (key, seqno, ..) = rng.pick(expected);
            let around = [*seqno, seqno + 1, seqno - 1, 0, u64::MAX];
            (key.clone(), *rng.pick(&around))
        }
    };
    let below = |row: &Row| (&row.0, u64::MAX - row.1) < (&key, u64::MAX - seqno);
    let mut at = expected.partition_point(below);
    let there = if rng.one_in(2) {
        cursor.seek(&key, SeqNo(seqno)).unwrap()
    } else {
        let is_it = expected
            .get(at)
            .is_some_and(|row| (&row.0, row.1) == (&key, seqno));
        at = if is_it { at } else { at.wrapping_sub(1) };
        cursor.seek_for_prev(&key, SeqNo(seqno)).unwrap()
    };
    assert_eq!(
        there,
        at < expected.len(),
        "{} at {seqno}",
        key.escape_ascii()
    );
    for _ in 0..rng.below(40) {
        assert_eq!(cursor.is_at_entry(), at < expected.len());
        let Some(row_expected) = expected.get(at) else {
            assert!(!cursor.next().unwrap() && !cursor.prev().unwrap());
            return;
        };
        assert_eq!(&row(cursor), row_expected);
        let found = cursor.found().unwrap();
        assert_eq!(
            (found.seqno.0, found.kind),
            (row_expected.1, row_expected.2)
        );
        assert_eq!(content_of(&found).is_none(), found.kind == Kind::Delete);
        match rng.below(4) {
            0 | 1 => {
                at = at.wrapping_sub(1);
                cursor.prev().unwrap();
            }
            2 => {
                at += 1;
                cursor.next().unwrap();
            }
            _ => {
                at = expected.partition_point(|row| row.0 <= row_expected.0);
                cursor.next_key(&mut Vec::new()).unwrap();
            }
        }
    }
}

/// Range tombstones, as they were written and as limits cut them.
fn check_ranges(table: &Arc<PmTable>, model: &Model) {
    for cf in [0, 7, 14] {
        let found = table.range_tombstones(CfId(cf));
        let found: Vec<_> = found
            .map(|t| (t.start.to_vec(), t.end.to_vec(), t.seqno.0))
            .collect();
        let own = model.ranges.iter().filter(|((own, ..), _)| *own == cf);
        let expected: Vec<_> = own
            .map(|((_, start, left), end)| (start.clone(), end.clone(), u64::MAX - left))
            .collect();
        assert_eq!(found, expected);
    }
}

fn check_meta(table: &PmTable, model: &Model) {
    let meta = table.meta();
    assert_eq!(meta.entries, model.entries.len() as u64);
    assert_eq!(meta.range_tombstones, model.ranges.len() as u64);
    let seqnos = || {
        let entries = model.entries.keys().map(|place| u64::MAX - place.2);
        entries.chain(model.ranges.keys().map(|place| u64::MAX - place.2))
    };
    assert_eq!(Some(meta.seqnos.0.0), seqnos().min());
    assert_eq!(Some(meta.seqnos.1.0), seqnos().max());
    for family in &meta.families {
        let cf = family.cf.0;
        let keys = || {
            let entries = model.entries.keys().filter(|place| place.0 == cf);
            let ranges = model.ranges.iter().filter(|(place, _)| place.0 == cf);
            let starts = ranges.clone().map(|(place, _)| (&place.1, true));
            let ends = ranges.map(|(_, end)| (end, true));
            let starts = starts.chain(entries.clone().map(|place| (&place.1, true)));
            (starts, ends.chain(entries.map(|place| (&place.1, false))))
        };
        assert_eq!(Some(&family.range.first), keys().0.map(|key| key.0).min());
        let largest = keys().1.map(|(key, open)| (key, !open)).max();
        assert_eq!(Some((&family.range.last, !family.range.open)), largest);
    }
}

fn one(seed: u64) {
    println!("THERMOCLINE_SEED={seed} cargo test -p thermocline-level0 --test table drawn");
    let mut rng = Rng::new(seed);
    let keys = KINDS[usize::try_from(seed).unwrap() % KINDS.len()];
    let most = match keys {
        Keys::Long => 60,
        _ => *rng.pick(&[3, 40, 3000]),
    };
    let count = 1 + rng.below(most);
    let model = model(&mut rng, keys, count);
    let group_size = *rng.pick(&[GroupSize::Eight, GroupSize::Sixteen]);
    // Zones of 16 KiB, 64 KiB or 1 MiB.
    let first = *rng.pick(&[256 << 10, 1 << 20, 16 << 20]);
    let (sim, space) = space(64 << 20, first);
    let written = model.write(&space, options(group_size)).unwrap().unwrap();
    assert!(written.meta.bytes <= written.meta.zone_bytes);
    assert_eq!(space.usage().zones_attached > 0, !written.zones.is_empty());
    let (space, zones) = reopen(&sim, 64 << 20, first, true).unwrap();
    assert_eq!(zones, written.zones);
    let table = open(&space, &written).unwrap();
    let verified = verify_table(&table).unwrap();
    assert_eq!(verified.entries, model.entries.len() as u64);
    check_meta(&table, &model);
    check_ranges(&table, &model);
    check_gets(&mut rng, &table, &model, keys);
    check_walks(&mut rng, &table, &model, keys);
}

#[test]
fn drawn_tables_answer_as_the_model_does() {
    for seed in seeds(0..explored(40, 240)) {
        one(seed);
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// Keys and versions as proptest draws and shrinks them.
    #[test]
    fn any_entries_are_found(
        rows in proptest::collection::vec(
            (
                0u16..3,
                proptest::collection::vec(proptest::sample::select(vec![0u8, 1, 97, 255]), 0..6),
                1u64..9,
                proptest::option::of(0usize..50),
            ),
            1..200,
        ),
        at in 0u64..10,
    ) {
        let mut model = Model::default();
        for (cf, key, seqno, value) in rows {
            match value {
                None => model.put(cf, &key, seqno, Kind::Delete, Content::Bytes(Vec::new())),
                Some(len) => model.put(cf, &key, seqno, Kind::Put, Content::Bytes(vec![7; len])),
            }
        }
        let (_, space) = space(4 << 20, 256 << 10);
        let written = model.write(&space, options(GroupSize::Eight)).unwrap().unwrap();
        let table = open(&space, &written).unwrap();
        verify_table(&table).unwrap();
        for (cf, key, _) in model.entries.keys() {
            let part = PmPart::whole(table.clone(), CfId(*cf));
            let found = part.get(key, SeqNo(at), true).unwrap();
            let found = found.map(|found| (found.kind, found.seqno.0, content_of(&found)));
            proptest::prop_assert_eq!(found, model.newest(*cf, key, at));
        }
        for cf in 0..3 {
            let mut cursor = PmCursor::new(PmPart::whole(table.clone(), CfId(cf)), true);
            let mut found = Vec::new();
            let mut there = cursor.first().unwrap();
            while there {
                found.push(row(&cursor));
                there = cursor.next().unwrap();
            }
            proptest::prop_assert_eq!(found, rows_of(&model, cf));
        }
    }
}

fn rows_of(model: &Model, cf: u16) -> Vec<Row> {
    rows(model, cf, None, None)
}
