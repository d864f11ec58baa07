//! The ends of the ranges: nothing, one, the longest, many versions; and what a writer refuses.

use std::path::Path;

use thermocline_base::{BlobRef, ErrorKind, FileId, Kind, SeqNo};
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{
    BlockHandle, BlockSource, Compression, FileSource, KeyRef, Table, TablePart, TableWriter,
    Value, WriteOptions, get, verify_table,
};
use thermocline_testkit::Rng;

use crate::common::*;

fn reads_back(contents: &Contents, options: WriteOptions, what: &str) {
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

fn all_options() -> Vec<WriteOptions> {
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
    let tombstone = Tombstone {
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

/// A lookup of any version reads one data block at most.
#[test]
fn many_versions_of_a_key_over_several_blocks() {
    let mut entries = Vec::new();
    for key in ["a", "b", "c"] {
        let versions = if key == "b" { 1000 } else { 3 };
        entries.extend(
            (1..=versions)
                .rev()
                .map(|s| Entry::put(key.as_bytes(), s * 2, &[1; 50])),
        );
    }
    let contents = Contents::of(entries);
    for options in all_options() {
        reads_back(&contents, options, "versions");
    }
    let fs = fresh();
    let meta = contents.write(&fs, 7, WriteOptions::default()).unwrap();
    assert!(meta.properties.data_blocks > 10);
    let (table, source) = open(&fs, 7).unwrap();
    let counting = Counting::new(source);
    let part = TablePart::whole(table);
    for seqno in 0..=2001 {
        for key in ["", "a", "aa", "b", "bb", "c", "d"] {
            counting.reads.set(0);
            let found = get(&part, key.as_bytes(), SeqNo(seqno), &counting).unwrap();
            assert_eq!(found.map(kept), contents.get(key.as_bytes(), SeqNo(seqno)));
            assert!(counting.reads.get() <= 1, "{key} at {seqno}");
        }
    }
}

struct Counting {
    source: FileSource,
    reads: std::cell::Cell<u32>,
}

impl Counting {
    fn new(source: FileSource) -> Counting {
        let reads = std::cell::Cell::new(0);
        Counting { source, reads }
    }
}

impl BlockSource for Counting {
    fn block(
        &self,
        table: &Table,
        handle: BlockHandle,
    ) -> thermocline_base::Result<std::sync::Arc<thermocline_sst::Block>> {
        self.reads.set(self.reads.get() + 1);
        let block = self.source.block(table, handle)?;
        assert!(block.charge() >= 12 && block.kind() == handle.kind);
        Ok(block)
    }
}

/// Without compression, blocks of small entries each lie within one page.
#[test]
fn a_random_read_is_one_page() {
    let entries = (0..5000u64).map(|n| Entry::put(format!("user{n:08}").as_bytes(), n, &[7; 100]));
    let contents = Contents::of(entries.collect());
    let fs = fresh();
    let meta = contents.write(&fs, 7, WriteOptions::default()).unwrap();
    let p = meta.properties;
    let (table, source) = open(&fs, 7).unwrap();
    let part = TablePart::whole(table);
    let pages = Pages(source, std::cell::Cell::new((0, 0)));
    for entry in &contents.entries {
        get(&part, &entry.key, SeqNo::MAX, &pages).unwrap().unwrap();
    }
    let (reads, over) = pages.1.get();
    assert_eq!((reads, over), (5000, 0));
    let lost = meta.bytes - p.data_bytes;
    println!(
        "{} data blocks, {lost} of {} bytes are not theirs",
        p.data_blocks, meta.bytes
    );
    assert!(lost < meta.bytes / 20);
}

/// Counts reads of data blocks, and those on more than one page.
struct Pages(FileSource, std::cell::Cell<(u32, u32)>);

impl BlockSource for Pages {
    fn block(
        &self,
        table: &Table,
        handle: BlockHandle,
    ) -> thermocline_base::Result<std::sync::Arc<thermocline_sst::Block>> {
        if handle.kind == thermocline_sst::BlockKind::Data {
            let (reads, over) = self.1.get();
            let last = handle.offset + u64::from(handle.len) - 1;
            self.1.set((
                reads + 1,
                over + u32::from(handle.offset / 4096 != last / 4096),
            ));
        }
        self.0.block(table, handle)
    }
}

/// A key that is not there is denied without a read, mostly.
#[test]
fn the_filter_spares_reads() {
    let entries = (0..2000u64).map(|n| Entry::put(format!("{n:06}").as_bytes(), n, b"v"));
    let fs = fresh();
    Contents::of(entries.collect())
        .write(&fs, 7, WriteOptions::default())
        .unwrap();
    let (table, source) = open(&fs, 7).unwrap();
    assert!(table.charge() > 2000);
    let counting = Counting::new(source);
    let part = TablePart::whole(table);
    for n in 0..2000 {
        let key = format!("{n:06}x");
        assert!(
            get(&part, key.as_bytes(), SeqNo::MAX, &counting)
                .unwrap()
                .is_none()
        );
    }
    assert!(counting.reads.get() < 40, "{}", counting.reads.get());
}

#[test]
fn what_cannot_be_is_refused_and_the_rest_is_written() {
    let fs = fresh();
    let options = WriteOptions::default();
    let mut writer = TableWriter::create(&fs, &path(7), identity(7), CF, options).unwrap();
    let blob = Value::Blob(BlobRef {
        file: FileId(1),
        offset: 64,
        len: 1,
    });
    let at = |key, seqno| KeyRef::new(key, SeqNo(seqno));
    writer
        .add(at(b"m", 5), Kind::Put, Value::Inline(b"v"))
        .unwrap();
    writer
        .add(at(b"m", 5), Kind::RangeDelete, Value::Inline(b"n"))
        .unwrap();
    let (long, large) = (vec![0x7f; 65_536], vec![0; (1 << 20) + 1]);
    let cases: [(KeyRef<'_>, Kind, Value<'_>, &str); 13] = [
        (
            at(b"m", 5),
            Kind::Put,
            Value::Inline(b""),
            "must not be written after",
        ),
        (
            at(b"m", 6),
            Kind::Put,
            Value::Inline(b""),
            "must not be written after",
        ),
        (
            at(b"a", 1),
            Kind::Delete,
            Value::Inline(b""),
            "must not be written after",
        ),
        (at(b"n", u64::MAX), Kind::Put, Value::Inline(b""), "seqno"),
        (at(&long, 5), Kind::Put, Value::Inline(b""), "65535"),
        (at(b"n", 5), Kind::Put, Value::Inline(&large), "1048576"),
        (at(b"n", 5), Kind::Delete, Value::Inline(b"v"), "Delete"),
        (at(b"n", 5), Kind::Delete, blob, "Delete"),
        (at(b"n", 5), Kind::RangeDelete, blob, "RangeDelete"),
        (at(b"n", 5), Kind::RangeDelete, Value::Inline(b"n"), "empty"),
        (
            at(b"n", 5),
            Kind::RangeDelete,
            Value::Inline(&long),
            "65535",
        ),
        (
            at(b"a", 5),
            Kind::RangeDelete,
            Value::Inline(b"z"),
            "must not be written after",
        ),
        (
            at(b"m", 5),
            Kind::RangeDelete,
            Value::Inline(b"z"),
            "must not be written after",
        ),
    ];
    for (key, kind, value, text) in cases {
        let error = writer.add(key, kind, value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    writer.add(at(b"n", 5), Kind::Merge, blob).unwrap();
    assert_eq!(writer.entries(), 3);
    assert!(writer.bytes() > 0);
    assert_eq!(writer.finish().unwrap().properties.entries, 2);
    assert_eq!(read_all(&fs, 7).unwrap().entries.len(), 2);
}

#[test]
fn options_that_make_no_sense_are_refused_and_no_file_is_made() {
    let right = WriteOptions::default();
    let wrong = [
        WriteOptions {
            block_bytes: 63,
            ..right
        },
        WriteOptions {
            block_bytes: (1 << 20) + 1,
            ..right
        },
        WriteOptions {
            index_block_bytes: 0,
            ..right
        },
        WriteOptions {
            restart_interval: 0,
            ..right
        },
        WriteOptions {
            compression: Compression::Zstd(0),
            ..right
        },
    ];
    for options in wrong {
        let fs = fresh();
        let made = TableWriter::create(&fs, &path(7), identity(7), CF, options);
        assert_eq!(made.unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert!(fs.list(Path::new("/db")).unwrap().is_empty());
    }
}

#[test]
fn a_table_never_overwrites_a_file() {
    let fs = fresh();
    fs.install(&path(7), b"a stranger's");
    let options = WriteOptions::default();
    let made = TableWriter::create(&fs, &path(7), identity(7), CF, options);
    assert_eq!(made.unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(fs.contents(&path(7)).unwrap(), b"a stranger's");
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
