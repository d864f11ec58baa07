use super::change::CRITICAL;
use super::*;
use std::sync::Arc;
use std::time::Duration;

use thermocline_base::stages::Stages;
use thermocline_base::{CfId, FileId, KeyRange, PmBlob, PmFamily, PmTableMeta, SeqNo};

use crate::edit::{Change, NextIds, StoredRate, VersionEdit};
use crate::job_done::JobDone;
use crate::pm_table::PmTableInfo;
use crate::table::{BlobBytes, Level, PartitionId, Place, TableRef};
use crate::write_times::WriteTime;

const HEADER: Header = Header {
    file_no: 7,
    db_id: *b"0123456789abcdef",
    durable_len: 1234,
};

fn job_done() -> JobDone {
    JobDone {
        work: "compact".into(),
        because: "größer".into(),
        unix_s: 1,
        family: Some(CfId::METADATA),
        from: Some(0),
        to: 7,
        inputs: 2,
        bytes_in: 3,
        tables: 4,
        tables_in_pm: 5,
        bytes_read: 6,
        bytes_written: 7,
        entries_read: 8,
        entries_dropped: 9,
        took: Duration::from_nanos(10),
        stages: Stages {
            reading: Duration::from_secs(11),
            writing: Duration::from_nanos(u64::MAX),
            syncing: Duration::from_nanos(13),
        },
    }
}

/// One change of each kind, with edge values.
fn all_changes() -> Vec<Change> {
    let opened = |start| Change::ChainOpened {
        chain: 1,
        memtable: u64::MAX,
        incarnation: 3,
        nonce: 4,
        base_seqno: 5,
        start,
    };
    vec![
        Change::Created {
            db_id: [1; 16],
            region_id: [0xff; 16],
        },
        Change::Options(vec![]),
        Change::Options(vec![("a".into(), "".into()), ("ü".into(), "1 GiB".into())]),
        Change::ColumnFamilyCreated {
            id: u16::MAX,
            name: "größer".into(),
        },
        Change::ColumnFamilyCreated {
            id: 0,
            name: "".into(),
        },
        Change::ColumnFamilyDropped { id: 258 },
        Change::ColumnFamilyOptions {
            id: 259,
            options: vec![],
        },
        Change::ColumnFamilyOptions {
            id: 0,
            options: vec![("reverse".into(), "true".into()), ("".into(), "ü".into())],
        },
        Change::MemtableCreated { id: 1 << 40 },
        Change::MemtableDropped { id: 0 },
        opened(None),
        opened(Some(0)),
        opened(Some(u64::MAX)),
        Change::ChainCut {
            chain: 1,
            last_seqno: 2,
            end: 3,
        },
        Change::ChainAdopted {
            chain: 1,
            memtable: u64::MAX,
            incarnation: 3,
            nonce: 4,
            base_seqno: 5,
            last_seqno: 6,
            end: 7,
        },
        Change::NextIds(NextIds {
            chain: 1,
            memtable: 2,
            cf: 3,
            incarnation: 4,
            file: 0,
        }),
        Change::NextIds(NextIds {
            file: 5,
            ..NextIds::default()
        }),
        added(table()),
        added(table().part(None, Some(b"b")).unwrap()),
        added(table().part(Some(b"b"), None).unwrap()),
        Change::TableRemoved {
            place: PLACE,
            file: FileId(1),
            smallest: Box::default(),
        },
        Change::table_removed(PLACE, &table()),
        Change::BlobFileAdded {
            file: FileId(6),
            bytes: u64::MAX,
        },
        Change::BlobValues {
            file: FileId(6),
            bytes: u64::MAX,
        },
        Change::BlobFileRemoved { file: FileId(7) },
        Change::FlushedUpTo { seqno: 9 },
        Change::Evacuated {
            above: 9,
            up_to: u64::MAX,
            cf: CfId(0x102),
            key: (*b"m\0").into(),
        },
        Change::Evacuated {
            above: 0,
            up_to: 1,
            cf: CfId(0),
            key: Box::default(),
        },
        Change::PmTableAdded {
            table: Arc::new(pm_table()),
        },
        Change::PmTableRemoved {
            file: FileId(u64::MAX),
        },
        Change::LongValues,
        Change::PreparedTransactions,
        Change::WriteTimes([].into()),
        Change::WriteTimes(
            [1, u64::MAX]
                .map(|n| WriteTime {
                    seqno: SeqNo(n),
                    unix_s: n - 1,
                })
                .into(),
        ),
        Change::JobDone(Arc::default()),
        Change::JobDone(Arc::new(job_done())),
        Change::PartitionRates([].into()),
        Change::PartitionRates(
            [1, 2]
                .map(|n| StoredRate {
                    cf: CfId(n),
                    partition: PartitionId(u32::MAX - u32::from(n)),
                    reads: u64::MAX,
                    writes: 3,
                    updates: u64::from(n),
                })
                .into(),
        ),
        Change::FilesInherited {
            below: 8,
            db_id: [3; 16],
        },
        Change::PartitionCreated {
            cf: CfId(0x102),
            partition: PartitionId(0x0304_0506),
            start: (*b"m\0").into(),
        },
        Change::PartitionRemoved {
            cf: CfId(0),
            partition: PartitionId(u32::MAX),
            start: Box::default(),
        },
    ]
}

const PLACE: Place = Place {
    cf: CfId(0x102),
    partition: PartitionId(0x0304_0506),
    level: Level(u8::MAX),
};

fn table() -> TableRef {
    let blob = |file| BlobBytes {
        file: FileId(file),
        bytes: file + 1,
    };
    TableRef {
        file: FileId(9),
        file_bytes: 10,
        bytes: 10,
        entries: 11,
        deletes: u64::MAX,
        range: KeyRange::inclusive("a", "c\0").owned(),
        limited_below: false,
        limited_above: false,
        smallest_seqno: SeqNo(12),
        largest_seqno: SeqNo(u64::MAX),
        blobs: vec![blob(3), blob(4)],
    }
}

fn pm_table() -> PmTableInfo {
    let family = |cf, smallest: &str, largest: &str, open| PmFamily {
        cf: CfId(cf),
        entries: 7,
        deletes: 2,
        merges: 1,
        range_tombstones: 3,
        key_bytes: 100,
        value_bytes: u64::MAX,
        seqnos: (SeqNo(5), SeqNo(6)),
        range: KeyRange {
            first: smallest.into(),
            last: largest.into(),
            open,
        },
    };
    PmTableInfo {
        file: FileId(20),
        meta: PmTableMeta {
            owner: 21,
            zones: 22,
            zone_bytes: 23,
            bytes: 24,
            entries: 14,
            range_tombstones: 6,
            seqnos: (SeqNo(5), SeqNo(6)),
            families: vec![family(0, "", "k", false), family(65535, "a", "b", true)],
            blobs: vec![PmBlob {
                file: FileId(3),
                values: 2,
                bytes: 4096,
            }],
        },
    }
}

fn added(table: TableRef) -> Change {
    let table = Arc::new(table);
    Change::TableAdded {
        place: PLACE,
        table,
    }
}

/// What is read but means nothing, or something that is not there yet, has no second encoding.
#[test]
fn table_references_of_unknown_kinds_are_refused() {
    let encoded = |table: TableRef| encode_edit(&added(table).into());
    let whole = encoded(table());
    // Behind tag, length and place.
    let (kind_at, flags_at) = (12, 13);
    assert_eq!(whole[kind_at..=flags_at], [1, 0]);
    let with = |bytes: &[u8], kind: u8, flags: u8| {
        let mut bytes = bytes.to_vec();
        (bytes[kind_at], bytes[flags_at]) = (kind, flags);
        decode_edit(&bytes)
    };
    match with(&whole, 3, 0).unwrap_err() {
        Unreadable::Newer(text) => assert!(text.contains("virtual table"), "{text}"),
        other => panic!("{other:?}"),
    }
    for (kind, flags) in [
        (0, 0),
        (4, 0),
        (2, 0),
        (1, 2),
        (1, 7),
        (1, 8),
        (2, 4),
        (1, 0x80),
    ] {
        let error = with(&whole, kind, flags).unwrap_err();
        let damaged = matches!(error, Unreadable::Damaged { at: 12 | 13, .. });
        assert!(damaged, "{kind} {flags}: {error:?}");
    }
    with(&whole, 1, 1).unwrap();
    let part = encoded(table().part(Some(b"b"), None).unwrap());
    assert_eq!(part[kind_at..=flags_at], [2, 2]);
    assert!(with(&part, 1, 0).is_err());
    with(&part, 2, 7).unwrap();
    // A partition without a number, and a number of files that says nothing.
    assert!(decode_edit(&[0x91, 5, 0, 0, 0, 1, 0, 2, 0, 0]).is_err());
    let none = [&[0x8c, 32, 0, 0, 0][..], &[0; 32]].concat();
    assert!(decode_edit(&none).is_err());
}

fn all_in_one() -> VersionEdit {
    VersionEdit {
        changes: all_changes(),
    }
}

#[test]
fn every_change_comes_back_alone_and_together() {
    for change in all_changes() {
        let edit = VersionEdit::from(change);
        assert_eq!(decode_edit(&encode_edit(&edit)).unwrap(), edit);
    }
    let edit = all_in_one();
    assert_eq!(decode_edit(&encode_edit(&edit)).unwrap(), edit);
    assert_eq!(decode_edit(&[]).unwrap(), VersionEdit::new());
}

/// Below the checksum: whatever the bytes are, the answer is an edit that encodes to them or an
/// error.
#[test]
fn a_damaged_edit_is_an_error_or_another_edit_with_these_very_bytes() {
    let bytes = encode_edit(&all_in_one());
    let (mut errors, mut others) = (0, 0);
    let mut try_bytes = |bytes: &[u8]| match decode_edit(bytes) {
        Ok(edit) => {
            let unknown = bytes.len() - encode_edit(&edit).len();
            assert!(unknown > 0 || encode_edit(&edit) == bytes);
            others += 1;
        }
        Err(Unreadable::Damaged { at, .. }) => {
            assert!(at <= bytes.len());
            errors += 1;
        }
        Err(Unreadable::Newer(_)) => errors += 1,
    };
    for len in 0..bytes.len() {
        try_bytes(&bytes[..len]);
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            try_bytes(&flipped);
        }
    }
    assert!(errors > 500 && others > 500, "{errors} {others}");
}

#[test]
fn an_unknown_change_is_passed_over_only_if_it_says_so() {
    let known = Change::MemtableCreated { id: 1 };
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&[0x05, 3, 0, 0, 0, 9, 9, 9]);
    encode_change(&known, &mut bytes);
    assert_eq!(decode_edit(&bytes).unwrap(), known.into());
    bytes[0] |= CRITICAL;
    bytes[0] |= 0x40;
    match decode_edit(&bytes).unwrap_err() {
        Unreadable::Newer(text) => {
            assert!(text.contains("0xc5") && text.contains("version than 1"))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn lengths_that_lie_allocate_nothing() {
    // A count of four billion options in a body of four bytes.
    let bytes = [tag::OPTIONS, 4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    assert!(decode_edit(&bytes).is_err());
    let bytes = [tag::CF_OPTIONS, 6, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff];
    assert!(decode_edit(&bytes).is_err());
    let bytes = [tag::CF_CREATED, 0xff, 0xff, 0xff, 0xff, 1];
    assert!(decode_edit(&bytes).is_err());
    // As many blob files, and a key of four gigabytes.
    let table = encode_edit(&added(table()).into());
    let blobs_at = table.len() - 32 - 4;
    for at in [blobs_at, blobs_at - 6] {
        let mut lies = table.clone();
        lies[at..at + 4].fill(0xff);
        assert!(decode_edit(&lies).is_err());
    }
    // Families and blob files of a table in persistent memory, and its keys.
    let change = Change::PmTableAdded {
        table: Arc::new(pm_table()),
    };
    let table = encode_edit(&change.into());
    let families_at = 5 + 68;
    let keys_at = families_at + 4 + 3 + 64;
    for at in [families_at, keys_at, table.len() - 24 - 4] {
        let mut lies = table.clone();
        lies[at..at + 4].fill(0xff);
        assert!(decode_edit(&lies).is_err(), "{at}");
    }
    // A body longer than its fields.
    let bytes = [tag::CF_DROPPED, 3, 0, 0, 0, 1, 0, 0];
    assert!(decode_edit(&bytes).is_err());
}

#[test]
fn every_flipped_bit_of_a_header_is_found() {
    let bytes = HEADER.encode();
    assert_eq!(Header::decode(&bytes).unwrap(), HEADER);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        let error = Header::decode(&flipped).unwrap_err();
        assert!(matches!(error, Unreadable::Damaged { .. }), "{error:?}");
    }
}

/// With a checksum that is right, what the fields say still counts.
#[test]
fn a_resealed_header_of_a_newer_version_or_with_reserved_bytes_is_refused() {
    let reseal = |at: usize, value: u8| {
        let mut bytes = HEADER.encode();
        bytes[at] = value;
        let crc = crc32c(0, &bytes[..HEADER_CRC_AT]);
        bytes[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        Header::decode(&bytes)
    };
    match reseal(8, 9).unwrap_err() {
        Unreadable::Newer(text) => {
            assert!(text.contains("version 9") && text.contains("version 1"));
        }
        other => panic!("{other:?}"),
    }
    assert!(reseal(8, 0).is_err());
    for at in (12..16).chain(48..60) {
        assert!(reseal(at, 1).is_err(), "reserved byte {at}");
    }
}

#[test]
fn a_record_is_whole_only_in_its_place() {
    let payload = b"thirteen byte";
    let record = HEADER.encode_record(payload, 64);
    assert_eq!(record.len(), 24);
    assert_eq!(
        HEADER.decode_record(&record, 64),
        Some((&payload[..], record.len()))
    );
    let mut longer = record.clone();
    longer.extend_from_slice(b"the next one");
    assert!(HEADER.decode_record(&longer, 64).is_some());
    assert_eq!(HEADER.decode_record(&record, 72), None, "another offset");
    let other = Header {
        file_no: 8,
        ..HEADER
    };
    assert_eq!(other.decode_record(&record, 64), None, "another file");
    for byte in 0..16 {
        let mut db_id = HEADER.db_id;
        db_id[byte] ^= 1;
        let other = Header { db_id, ..HEADER };
        assert_eq!(other.decode_record(&record, 64), None, "another database");
    }
    for len in 0..record.len() {
        assert_eq!(HEADER.decode_record(&record[..len], 64), None);
    }
    for bit in 0..record.len() * 8 {
        let mut flipped = record.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(HEADER.decode_record(&flipped, 64), None, "bit {bit}");
    }
    assert_eq!(HEADER.decode_record(&[0; 64], 64), None, "zeros");
}

#[test]
fn every_flipped_bit_and_every_cut_of_current_is_found() {
    let db_id = *b"\0\x01\x02\x03456789abcdef";
    for file_no in [1, 999_999, 1_000_000, u64::MAX] {
        let bytes = encode_current(file_no, &db_id);
        assert!(bytes.len() <= CURRENT_LEN_MAX);
        assert_eq!(decode_current(&bytes).unwrap(), (file_no, db_id));
        for len in 0..bytes.len() {
            assert!(decode_current(&bytes[..len]).is_err());
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_current(&flipped).is_err(), "bit {bit}");
        }
        assert!(decode_current(&[&bytes[..], b"\n"].concat()).is_err());
    }
    for foreign in [&b"MANIFEST-000004\n"[..], b"", b"\n\n\n\n", b"\xff\xfe"] {
        assert!(decode_current(foreign).is_err());
    }
}

#[test]
fn only_names_that_we_write_are_manifests() {
    for name in [
        "MANIFEST-",
        "MANIFEST-1",
        "MANIFEST-0000001",
        "MANIFEST-+00001",
        "MANIFEST-00000a",
        "MANIFEST-000001.bak",
        "manifest-000001",
        "MANIFEST-99999999999999999999",
    ] {
        assert_eq!(manifest_no(name), None, "{name}");
    }
    assert_eq!(manifest_no("MANIFEST-1234567"), Some(1_234_567));
}
