//! What calls promise: refusals, space, memory, determinism, what is held.

use std::sync::Arc;

use thermocline_base::{BlobRef, CfId, ErrorKind, FileId, Kind, SeqNo};
use thermocline_level0::{
    FoundValue, GroupSize, PmPart, PmTable, PmTableWriter, TableIdentity, Value, WriteOptions,
    Written, verify_table,
};

use crate::world::*;

fn put(
    writer: &mut PmTableWriter,
    cf: u16,
    key: &[u8],
    seqno: u64,
) -> thermocline_base::Result<()> {
    writer.add(
        CfId(cf),
        key,
        SeqNo(seqno),
        Kind::Put,
        Value::Inline(b"value"),
    )
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let (_, space) = space(1 << 20, 256 << 10);
    let mut writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
    put(&mut writer, 3, b"m", 5).unwrap();
    let mut refused = |cf: u16, key: &[u8], seqno: u64, kind: Kind, value: Value<'_>| {
        let answer = writer.add(CfId(cf), key, SeqNo(seqno), kind, value);
        assert_eq!(
            answer.unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{cf} {kind:?}"
        );
    };
    let none = Value::Inline(b"");
    let blob = Value::Blob(BlobRef {
        file: FileId(1),
        offset: 64,
        len: 9,
    });
    refused(3, b"m", 5, Kind::Put, none);
    refused(3, b"m", 6, Kind::Put, none);
    refused(3, b"l", 1, Kind::Put, none);
    refused(2, b"z", 1, Kind::Put, none);
    refused(3, b"n", u64::MAX, Kind::Put, none);
    refused(3, &vec![b'n'; 65_536], 1, Kind::Put, none);
    refused(
        3,
        b"n",
        1,
        Kind::Put,
        Value::Inline(&vec![0; (1 << 20) + 1]),
    );
    refused(3, b"n", 1, Kind::Delete, Value::Inline(b"x"));
    refused(3, b"n", 1, Kind::Delete, blob);
    refused(3, b"n", 1, Kind::RangeDelete, blob);
    refused(3, b"n", 1, Kind::RangeDelete, Value::Inline(b"n"));
    refused(3, b"n", 1, Kind::RangeDelete, none);
    writer
        .add(
            CfId(3),
            b"n",
            SeqNo(4),
            Kind::RangeDelete,
            Value::Inline(b"p"),
        )
        .unwrap();
    let same = writer.add(
        CfId(3),
        b"n",
        SeqNo(4),
        Kind::RangeDelete,
        Value::Inline(b"q"),
    );
    assert!(same.unwrap_err().to_string().contains("range tombstone"));
    put(&mut writer, 3, b"m", 4).unwrap();
    put(&mut writer, 4, b"", 1).unwrap();
    assert_eq!(writer.entries(), 4);
    let written = writer.finish().unwrap().unwrap();
    assert_eq!(written.meta.families.len(), 2);
    let table = open(&space, &written).unwrap();
    assert_eq!(thermocline_level0::verify_table(&table).unwrap().entries, 3);
}

/// In a family that nobody names they hide nothing, and no sum tells: the entries of the other one reach over their seqno.
#[test]
fn range_tombstones_of_a_family_that_the_manifest_does_not_name_are_damage() {
    let (_, space) = space(1 << 20, 256 << 10);
    let mut writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
    put(&mut writer, 3, b"m", 9).unwrap();
    put(&mut writer, 3, b"n", 1).unwrap();
    let end = Value::Inline(b"p");
    writer
        .add(CfId(4), b"n", SeqNo(5), Kind::RangeDelete, end)
        .unwrap();
    let mut written = writer.finish().unwrap().unwrap();
    let verify = |written: &Written| verify_table(&open(&space, written).unwrap());
    assert_eq!(verify(&written).unwrap().range_tombstones, 1);
    written.meta.families.retain(|family| family.cf == CfId(3));
    let error = verify(&written).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("families"), "{error}");
}

#[test]
fn a_table_of_nothing_is_none_and_takes_no_zone() {
    let (_, space) = space(1 << 20, 256 << 10);
    let writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
    assert!(writer.finish().unwrap().is_none());
    assert_eq!(space.usage().zones_attached, 0);
}

#[test]
fn a_writer_that_is_dropped_gives_its_zones_back() {
    let (sim, space) = space(4 << 20, 1 << 20);
    let mut writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
    for n in 0..300u32 {
        // Values that lie apart are stored as they come.
        let (key, value) = (format!("{n:09}"), Value::Inline(&[7; 300]));
        let seqno = SeqNo(1);
        writer
            .add(CfId(0), key.as_bytes(), seqno, Kind::Put, value)
            .unwrap();
    }
    assert!(!sim.crash().pending().is_empty(), "stores are under way");
    assert!(space.usage().zones_attached > 1);
    drop(writer);
    assert_eq!(space.usage().zones_attached, 0);
    assert!(sim.crash().pending().is_empty(), "a store may still arrive");
}

#[test]
fn a_region_that_is_full_can_be_tried_again() {
    let (_, space) = space(256 << 10, 256 << 10);
    let mut writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
    let other = space
        .attach(99, 0, 1000, thermocline_halloc::Reserve::Keep)
        .unwrap();
    let mut n = 0u32;
    let error = loop {
        match put(&mut writer, 0, format!("{n:060}").as_bytes(), 1) {
            Ok(()) => n += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::OutOfSpace);
    space.release(&[other]);
    put(&mut writer, 0, format!("{n:060}").as_bytes(), 1).unwrap();
    let written = writer.finish().unwrap().unwrap();
    assert_eq!(written.meta.entries, u64::from(n) + 1);
    let table = open(&space, &written).unwrap();
    thermocline_level0::verify_table(&table).unwrap();
}

#[test]
fn a_failed_fence_is_an_error_and_its_zones_are_kept() {
    for fail in 0..3 {
        let (sim, space) = space(1 << 20, 256 << 10);
        let mut writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
        put(&mut writer, 0, b"a", 1).unwrap();
        sim.fail_fence_in(fail);
        let mut failed = None;
        for n in 0..1000u32 {
            let key = format!("b{n:09}");
            let value = Value::Inline(&[7; 300]);
            if let Err(e) = writer.add(CfId(0), key.as_bytes(), SeqNo(1), Kind::Put, value) {
                failed = Some(e);
                break;
            }
        }
        let failed = failed.or_else(|| writer.finish().err());
        assert_eq!(failed.unwrap().kind(), ErrorKind::Poisoned);
        assert!(
            space.usage().zones_attached > 0,
            "a store may still arrive there"
        );
    }
}

#[test]
fn dram_is_bounded_whatever_the_table_has() {
    let (_, space) = space(64 << 20, 1 << 20);
    let mut writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
    let mut most = 0;
    for n in 0..200_000u32 {
        let key = format!("{:020}{n:08}", n / 7);
        let value = Value::Inline(&[9; 60]);
        writer
            .add(CfId(0), key.as_bytes(), SeqNo(1), Kind::Put, value)
            .unwrap();
        most = most.max(writer.memory());
    }
    let written = writer.finish().unwrap().unwrap();
    let zone = written
        .zones
        .iter()
        .map(|zone| zone.end.0 - zone.data.0)
        .max()
        .unwrap();
    println!("{} bytes of table, {most} of memory", written.meta.bytes);
    assert!(written.meta.bytes > 12 << 20);
    assert!(most < 3 * zone, "{most} for zones of {zone}");
    // Zones are filled.
    let (bytes, of) = (written.meta.bytes, written.meta.zone_bytes);
    assert!(bytes > of / 100 * 90, "{bytes} of {of}");
}

#[test]
fn the_same_entries_give_the_same_bytes() {
    let bytes = || {
        let mut rng = thermocline_testkit::Rng::new(3);
        let model = model(&mut rng, Keys::Tables, 500);
        let (_, space) = space(4 << 20, 1 << 20);
        let written = model
            .write(&space, options(GroupSize::Eight))
            .unwrap()
            .unwrap();
        let zones = written.zones.iter();
        let bytes: Vec<u8> = zones
            .flat_map(|zone| {
                let len = usize::try_from(zone.end.0 - zone.data.0).unwrap();
                space.region().bytes(zone.data, len).unwrap().to_vec()
            })
            .collect();
        (bytes, written.meta)
    };
    assert!(bytes() == bytes());
}

#[test]
fn values_as_large_as_they_may_be_lie_in_runs_of_zones() {
    let (_, space) = space(64 << 20, 1 << 20);
    let mut writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
    let value = |n: u8| vec![n; 1 << 20];
    for n in 0..20 {
        let value = value(n);
        writer
            .add(CfId(0), &[n], SeqNo(1), Kind::Put, Value::Inline(&value))
            .unwrap();
    }
    let written = writer.finish().unwrap().unwrap();
    // They are a little longer than zones of a mebibyte, and lie behind each other.
    let of = written.meta.zone_bytes;
    assert!(of <= 22 << 20, "{of} for 20 MiB");
    let table = open(&space, &written).unwrap();
    let part = PmPart::whole(table, CfId(0));
    for n in 0..20 {
        let found = part.get(&[n], SeqNo(1), true).unwrap().unwrap();
        let FoundValue::Inline(bytes) = found.value else {
            panic!("{n} has a value");
        };
        assert!(*bytes == value(n)[..]);
    }
}

/// Each large value comes where more than a quarter of the zone is left, and is too long for that. A piece that went on behind its zone
/// each time would have all keys between them in DRAM.
#[test]
fn large_values_between_many_keys_take_no_more_memory_than_a_zone_has() {
    let (_, space) = space(16 << 20, 16 << 20);
    let mut writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
    let (value, mut key) = (vec![7u8; 460_000], vec![0u8; 1000]);
    let mut most = 0;
    for n in 0..10 * 601u32 {
        key[..4].copy_from_slice(&n.to_be_bytes());
        let value = if n % 601 == 600 { &value[..] } else { &[] };
        writer
            .add(CfId(0), &key, SeqNo(1), Kind::Put, Value::Inline(value))
            .unwrap();
        most = most.max(writer.memory());
    }
    assert!(most < 2 << 20, "{most}");
    // The first one went on all the same.
    let first = writer.zones()[0];
    assert!(first.end.0 - first.data.0 > 1 << 20);
    let written = writer.finish().unwrap().unwrap();
    let verified = verify_table(&open(&space, &written).unwrap()).unwrap();
    assert_eq!(verified.entries, 10 * 601);
}

#[test]
fn a_value_outlives_everything_but_the_table_that_it_holds() {
    let (_, space) = space(1 << 20, 256 << 10);
    let mut writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
    let value = [5; 900];
    writer
        .add(CfId(0), b"key", SeqNo(1), Kind::Put, Value::Inline(&value))
        .unwrap();
    let written = writer.finish().unwrap().unwrap();
    let table = open(&space, &written).unwrap();
    let absent = table.get(CfId(0), b"kez", SeqNo(9), true).unwrap();
    assert!(absent.is_none());
    let found = table.get(CfId(0), b"key", SeqNo(9), true).unwrap();
    let found = found.expect("it is there");
    assert_eq!(Arc::strong_count(&table), 2, "the value holds the table");
    let FoundValue::Inline(pinned) = found.value else {
        panic!("it has a value");
    };
    assert!(*pinned == value && Arc::ptr_eq(pinned.table(), &table));
    // It is not a copy.
    let there = space.region().bytes(pinned.at(), value.len()).unwrap();
    assert!(std::ptr::eq(there, &*pinned));
}

#[test]
fn a_table_is_found_by_its_own_identity_and_zones_only() {
    let (_, space) = space(1 << 20, 256 << 10);
    let write = |table: u64| {
        let identity = TableIdentity::new(DB_ID, table);
        let mut writer = PmTableWriter::new(space.clone(), identity, WriteOptions::default());
        for n in 0..1000u32 {
            put(&mut writer, 0, format!("{n:020}").as_bytes(), 1).unwrap();
        }
        writer.finish().unwrap().unwrap()
    };
    let (one, other) = (write(5), write(6));
    let region = space.region();
    let refused = |meta: &thermocline_level0::PmTableMeta, zones: &[thermocline_halloc::Zone]| {
        let error = PmTable::open(region, DB_ID, meta.clone(), zones).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    };
    refused(&one.meta, &other.zones);
    refused(&one.meta, &one.zones[1..]);
    refused(&one.meta, &[]);
    let mut swapped = one.zones.clone();
    swapped[0] = other.zones[0];
    refused(&one.meta, &swapped);
    let mut another = DB_ID;
    another[0] ^= 1;
    let error = PmTable::open(region, another, one.meta.clone(), &one.zones).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let mut another = one.meta.clone();
    another.owner += 1;
    refused(&another, &one.zones);
    let mut another = one.meta.clone();
    another.entries += 1;
    refused(&another, &one.zones);
    // Whatever the order in which they are given.
    let mut zones = one.zones.clone();
    zones.reverse();
    let table = PmTable::open(region, DB_ID, one.meta.clone(), &zones).unwrap();
    thermocline_level0::verify_table(&table).unwrap();
    assert!(table.charge() > 0 && table.charge() < 4096);
}

/// Of a table that the manifest says to have fewer pieces, or more, the error names what is wrong with the last one there.
#[test]
fn a_last_piece_that_is_none_is_named() {
    let (_, space) = space(1 << 20, 256 << 10);
    let mut writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
    for n in 0..3000u32 {
        let key = format!("{n:020}");
        writer
            .add(
                CfId(0),
                key.as_bytes(),
                SeqNo(1),
                Kind::Put,
                Value::Inline(&[1; 30]),
            )
            .unwrap();
    }
    let written = writer.finish().unwrap().unwrap();
    let count = written.zones.len();
    assert!(count > 2, "{count}");
    let mut meta = written.meta.clone();
    meta.zones -= 1;
    let last = &written.zones[count - 1];
    meta.zone_bytes -= last.end.0 - last.data.0 + thermocline_halloc::ZONE_HEADER_BYTES;
    let zones = &written.zones[..count - 1];
    let error = PmTable::open(space.region(), DB_ID, meta, zones).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let text = error.to_string();
    for part in ["the last one", "one that others follow"] {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
}

#[test]
fn sizes_before_keys_ascend() {
    let (_, space) = space(16 << 20, 256 << 10);
    let mut writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
    for n in 0..20_000u32 {
        put(&mut writer, 0, &n.to_be_bytes(), 1).unwrap();
    }
    let written = writer.finish().unwrap().unwrap();
    let table = open(&space, &written).unwrap();
    let before = |n: u32| table.approximate_bytes_before(CfId(0), &n.to_be_bytes());
    let places: Vec<u64> = (0..=20).map(|n| before(n * 1000)).collect();
    assert!(places.is_sorted() && places[0] == 0, "{places:?}");
    let all = written.meta.bytes;
    for (n, place) in (0..).zip(&places) {
        let about = all * n / 20;
        assert!(place.abs_diff(about) <= all / 50, "{places:?} of {all}");
    }
    // Within a piece, too: to a group.
    let places: Vec<u64> = (0..=20).map(|n| before(n * 32)).collect();
    assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
}

#[test]
fn all_of_a_family_lies_before_the_next_one() {
    let (_, space) = space(16 << 20, 4 << 20);
    let mut writer = PmTableWriter::new(space.clone(), identity(), WriteOptions::default());
    for cf in [0, 2] {
        for n in 0..1000u32 {
            put(&mut writer, cf, &n.to_be_bytes(), 1).unwrap();
        }
    }
    let written = writer.finish().unwrap().unwrap();
    let table = open(&space, &written).unwrap();
    // Of families that it does not have, too.
    let places = [0, 1, 2, 3].map(|cf| table.approximate_bytes_before(CfId(cf), b""));
    let all = written.meta.bytes;
    for (place, about) in places.into_iter().zip([0, all / 2, all / 2, all]) {
        assert!(place.abs_diff(about) <= all / 10, "{places:?} of {all}");
    }
    assert_eq!(places[1], places[2]);
}
