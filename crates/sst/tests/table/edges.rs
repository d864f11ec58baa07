//! The ends of the ranges: nothing, one, the longest.

use thermocline_base::{FileId, Kind, RangeTombstone, SeqNo};
use thermocline_env::OpenMode;
use thermocline_sst::{Compression, TablePart, TableWriter, WriteOptions, get, verify_table};
use thermocline_testkit::Rng;

use crate::common::*;

pub fn reads_back(contents: &Contents, options: WriteOptions, what: &str) {
    let fs = fresh();
    contents.write(&fs, 7, options).unwrap();
    assert_same(&read_all(&fs, 7).unwrap(), contents, what);
    let (table, source) = open(&fs, 7).unwrap();
    let part = TablePart::whole(table);
    for entry in &contents.entries {
        let found = get(&part, &entry.key, entry.seqno, &source).unwrap();
        let expected = contents.get(&entry.key, entry.seqno);
        assert_eq!(found.map(kept), expected, "{what}");
    }
    let verified = verify_table(&source.0, identity(7));
    assert!(verified.faults.is_empty(), "{what}: {:?}", verified.faults);
}

pub fn all_options() -> Vec<WriteOptions> {
    let mut all = Vec::new();
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd(3)] {
        for block_bytes in [64, 4096, 1 << 20] {
            all.push(WriteOptions {
                block_bytes,
                compression,
                ..WriteOptions::default()
            });
        }
    }
    all
}

#[test]
fn an_empty_table_has_nothing_and_says_so() {
    for options in all_options() {
        let fs = fresh();
        let meta = Contents::default().write(&fs, 7, options).unwrap();
        let p = &meta.properties;
        assert_eq!((p.entries, p.data_blocks), (0, 0));
        assert!(p.smallest.is_none() && p.largest.is_none() && p.seqnos.is_none());
        reads_back(&Contents::default(), options, "empty");
        let (table, source) = open(&fs, 7).unwrap();
        let part = TablePart::whole(table);
        assert!(get(&part, b"", SeqNo::MAX, &source).unwrap().is_none());
    }
}

#[test]
fn a_table_of_range_tombstones_only_covers_without_reading() {
    let tombstone = RangeTombstone {
        start: b"b".to_vec(),
        end: b"d".to_vec(),
        seqno: SeqNo(5),
    };
    let contents = Contents {
        entries: vec![],
        tombstones: vec![tombstone],
    };
    let fs = fresh();
    let meta = contents.write(&fs, 7, WriteOptions::default()).unwrap();
    let largest = meta.properties.largest.unwrap();
    assert_eq!(
        (&largest.user_key[..], largest.seqno),
        (&b"d"[..], SeqNo::MAX)
    );
    assert_same(&read_all(&fs, 7).unwrap(), &contents, "tombstones");
    let (table, source) = open(&fs, 7).unwrap();
    let part = TablePart::whole(table);
    for (key, at, covered) in [
        ("a", 9, false),
        ("b", 5, true),
        ("c", 4, false),
        ("cc", 9, true),
        ("d", 9, false),
    ] {
        let found = get(&part, key.as_bytes(), SeqNo(at), &source).unwrap();
        let kind = found.map(|f| (f.kind, f.seqno));
        assert_eq!(
            kind,
            covered.then_some((Kind::RangeDelete, SeqNo(5))),
            "{key}"
        );
    }
}

#[test]
fn one_entry_of_any_shape() {
    let long = vec![b'k'; 65_535];
    for options in all_options() {
        for (key, value) in [
            (&b""[..], vec![]),
            (b"", vec![0]),
            (b"\0", vec![1; 5000]),
            (&[0xff; 300], vec![]),
            (&long, vec![]),
            (&long, vec![7; 1 << 20]),
        ] {
            for seqno in [0, 1, u64::MAX - 1] {
                let contents = Contents::of(vec![Entry::put(key, seqno, &value)]);
                reads_back(&contents, options, "one");
            }
        }
    }
}

#[test]
fn the_longest_keys_and_values() {
    let mut rng = Rng::new(1);
    for options in all_options() {
        // Equal up to their last bytes, and wholly different.
        let mut keys: Vec<Vec<u8>> = (0..40u8)
            .map(|n| [&vec![9; 65_534][..], &[n]].concat())
            .collect();
        keys.extend((0..20).map(|_| random_bytes(&mut rng, 65_535)));
        keys.sort();
        let mut entries: Vec<Entry> = Vec::new();
        for (n, key) in keys.iter().enumerate() {
            let len = if n % 7 == 0 { 1 << 20 } else { n };
            entries.push(Entry::put(key, 9, &random_bytes(&mut rng, len)));
        }
        reads_back(&Contents::of(entries), options, "long");
    }
}

#[test]
fn the_index_of_long_keys_has_two_levels() {
    let entries = (0..200u64).map(|n| {
        let key = [&vec![b'k'; 2000][..], format!("{n:05}").as_bytes()].concat();
        Entry::put(&key, n, &[1; 3000])
    });
    reads_back(
        &Contents::of(entries.collect()),
        WriteOptions::default(),
        "two levels",
    );
}

/// On the operating system's files.
#[test]
fn a_real_file() {
    let dir = tempfile::tempdir().unwrap();
    let env = thermocline_env::Env::real();
    let path = dir.path().join(thermocline_sst::table_name(FileId(7)));
    let mut rng = Rng::new(5);
    let contents = random_contents(&mut rng, 2000);
    let options = WriteOptions::default();
    let mut writer = TableWriter::create(&*env.storage, &path, identity(7), CF, options).unwrap();
    for entry in &contents.entries {
        writer
            .add(entry.at(), entry.kind, entry.value.as_value())
            .unwrap();
    }
    let meta = writer.finish().unwrap();
    env.storage
        .sync_dir(dir.path(), thermocline_sst::sites::FILE_NAMED)
        .unwrap();
    let file = env.storage.open(&path, OpenMode::Read).unwrap();
    let verified = verify_table(&file, identity(7));
    assert!(verified.faults.is_empty());
    assert_eq!(verified.entries, meta.properties.entries);
}

/// Cut at the lower limit, tombstones begin there together: the newest stands first, whatever their
/// order was.
#[test]
fn the_tombstones_of_a_part_are_in_order() {
    let range = |start: &[u8], end: &[u8], seqno| RangeTombstone {
        start: start.to_vec(),
        end: end.to_vec(),
        seqno: SeqNo(seqno),
    };
    let contents = Contents {
        entries: vec![],
        tombstones: vec![
            range(b"a", b"m", 3),
            range(b"b", b"p", 9),
            range(b"c", b"k", 5),
            range(b"c", b"d", 1),
            range(b"cc", b"j", 5),
            range(b"h", b"z", 2),
        ],
    };
    let fs = fresh();
    contents.write(&fs, 7, WriteOptions::default()).unwrap();
    let (table, _) = open(&fs, 7).unwrap();
    let part = TablePart::limited(table, Some(b"f"), Some(b"n"));
    let cut: Vec<RangeTombstone> = part.range_tombstones().map(RangeTombstone::owned).collect();
    let expected = [
        range(b"f", b"n", 9),
        range(b"f", b"k", 5),
        range(b"f", b"m", 3),
        range(b"h", b"n", 2),
    ];
    assert_eq!(cut, expected);
}
