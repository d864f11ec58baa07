use thermocline_testkit::golden::{annotate, bytes, check};
use thermocline_version::{Change, NextIds, VersionEdit};

use super::*;

fn listed() -> Listed {
    let mut state = State::default();
    let ids = NextIds {
        file: 9,
        ..NextIds::default()
    };
    let edit = VersionEdit::new()
        .with(Change::Created {
            db_id: [1; 16],
            region_id: [2; 16],
        })
        .with(Change::NextIds(ids))
        .with(Change::FilesInherited {
            below: 8,
            db_id: [3; 16],
        })
        .with(Change::BlobFileAdded {
            file: FileId(7),
            bytes: 5,
        });
    state.apply(&edit).unwrap();
    Listed {
        id: 4,
        db_id: [3; 16],
        seqno: SeqNo(77),
        files: vec![Stored {
            file: FileId(7),
            kind: FileKind::Blob,
            db_id: [3; 16],
            bytes: 5,
            sum: Sum::Hash(0x0102_0304_0506_0708),
            end: 0x090a_0b0c_0d0e_0f10,
        }],
        state,
    }
}

fn path() -> &'static Path {
    Path::new("/b/BACKUP-000004")
}

/// The bytes of format version 2, which are never to change.
#[test]
fn golden_of_a_list() {
    let bytes = listed().encode();
    let header = [
        (8, "magic"),
        (4, "format version"),
        (4, "CRC32C"),
        (8, "number"),
        (16, "database"),
        (8, "seqno"),
        (8, "length"),
        (8, "files"),
    ];
    let file = [
        (16, "written by database"),
        (8, "number there"),
        (8, "bytes"),
        (8, "hash"),
        (8, "hash of the end"),
        (1, "kind: blob file"),
        (7, "reserved"),
    ];
    let left = bytes.len() - 64 - 56 - 4;
    let edit = [(4, "length of the edit"), (left, "edit")];
    let fields = [&header[..], &file, &edit].concat();
    let text = annotate(&bytes, &fields);
    check("backup-v2", include_str!("backup-v2.txt"), &text);
    assert_eq!(Listed::decode(&bytes, 4, path()).unwrap(), listed());
    let name = listed().files[0].name();
    assert_eq!(
        name,
        "03030303030303030303030303030303-000007-0102030405060708.blob"
    );
    assert!(Stored::is_name(&name) && !Stored::is_name("000007.blob"));
    assert_eq!(
        (list_name(4).as_str(), list_id("BACKUP-000004")),
        ("BACKUP-000004", Some(4))
    );
    assert_eq!(list_id("BACKUP-4"), None);
}

/// A list of version 1, as its golden has it, is read as it always was.
#[test]
fn lists_of_version_1_are_read() {
    let bytes = bytes(include_str!("backup-v1.txt"));
    let read = Listed::decode(&bytes, 4, path()).unwrap();
    let expected = Listed {
        files: vec![Stored {
            sum: Sum::Crc(0x0102_0304),
            end: 0,
            ..listed().files[0]
        }],
        ..listed()
    };
    assert_eq!(read, expected);
    let name = read.files[0].name();
    assert_eq!(
        name,
        "03030303030303030303030303030303-000007-01020304.blob"
    );
    assert!(Stored::is_name(&name));
    assert_eq!(Stored::sum_in(&name), Some(Sum::Crc(0x0102_0304)));
}

#[test]
fn no_flipped_bit_and_no_shorter_list_is_believed() {
    let bytes = listed().encode();
    for at in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        let error = Listed::decode(&flipped, 4, path()).unwrap_err();
        assert!(error.to_string().contains("BACKUP-000004"), "{error}");
    }
    for len in 0..bytes.len() {
        assert!(Listed::decode(&bytes[..len], 4, path()).is_err());
    }
    assert!(Listed::decode(&[&bytes[..], &[0]].concat(), 4, path()).is_err());
    assert!(
        Listed::decode(&bytes, 5, path()).is_err(),
        "in another's place"
    );
}

/// Well-formed, and of nothing that a backup could be of.
#[test]
fn lists_of_no_database_and_of_too_many_bytes_are_refused() {
    let of_nothing = Listed {
        files: Vec::new(),
        state: State::default(),
        ..listed()
    };
    let error = Listed::decode(&of_nothing.encode(), 4, path()).unwrap_err();
    assert!(
        error.to_string().contains("database of a backup"),
        "{error}"
    );
    let mut long = listed();
    long.files = vec![long.files[0]; 2];
    long.files[0].bytes = u64::MAX;
    let error = Listed::decode(&long.encode(), 4, path()).unwrap_err();
    assert!(error.to_string().contains("lengths of files"), "{error}");
}

/// No record has it, so no database could go on behind it.
#[test]
fn a_list_with_a_seqno_that_cannot_be_is_refused() {
    let of = |seqno| Listed {
        seqno: SeqNo(seqno),
        ..listed()
    };
    assert!(Listed::decode(&of((1 << 63) - 1).encode(), 4, path()).is_ok());
    let error = Listed::decode(&of(1 << 63).encode(), 4, path()).unwrap_err();
    assert!(error.to_string().contains("seqno of a backup"), "{error}");
}

/// Whatever the bytes are, with a right checksum: an error or a list, never a panic.
#[test]
fn nonsense_with_a_right_checksum_is_an_error() {
    let valid = listed().encode();
    let mut seed = 1u64;
    let mut random = move || {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        seed >> 33
    };
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut bytes = valid.clone();
        for _ in 0..=random() % 3 {
            let at = usize::try_from(random()).unwrap() % bytes.len();
            bytes[at] = random().to_le_bytes()[0];
        }
        let crc = crc_of(&bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        refused += u32::from(Listed::decode(&bytes, 4, path()).is_err());
    }
    assert!(refused > 10_000, "{refused}");
}
