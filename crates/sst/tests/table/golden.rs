//! The bytes themselves: annotated, kept for every released version of the format.

use std::path::Path;

use thermocline_base::{BlobRef, CfId, FileId, Kind, RangeTombstone, SeqNo};
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{
    BlobFile, BlobRecords, BlobWriter, Compression, Creation, WriteOptions, read_blob,
    verify_blobs, verify_table,
};
use thermocline_testkit::golden;

use crate::common::*;

const TABLE: &str = include_str!("../golden/table-v1.txt");
const SUMMED: &str = include_str!("../golden/table-v1-summed.txt");
const BLOBS: &str = include_str!("../golden/blobs-v1.txt");
const BLOBS_LZ4: &str = include_str!("../golden/blobs-v1-lz4.txt");
const BLOBS_ZSTD: &str = include_str!("../golden/blobs-v1-zstd.txt");
const SHARED: &str = include_str!("../golden/table-v1-shared-keys.txt");
const TWO_LEVELS: &str = include_str!("../golden/table-v1-two-levels.txt");
const LZ4: &str = include_str!("../golden/table-v1-lz4.txt");
const ZSTD: &str = include_str!("../golden/table-v1-zstd.txt");

/// Names the fields of a table that is not compressed.
struct Dump<'a> {
    bytes: &'a [u8],
    at: usize,
    fields: Vec<(usize, String)>,
}

impl Dump<'_> {
    fn field(&mut self, len: usize, name: impl Into<String>) {
        if len > 0 {
            self.fields.push((len, name.into()));
            self.at += len;
        }
    }

    fn varint(&mut self, name: &str) -> usize {
        let (mut n, mut len) = (0, 0);
        loop {
            let byte = self.bytes[self.at + len];
            n |= usize::from(byte & 0x7f) << (7 * len);
            len += 1;
            if byte < 0x80 {
                break;
            }
        }
        self.field(len, format!("{name} {n}"));
        n
    }

    fn text(&mut self, len: usize, name: &str) {
        let text = self.bytes[self.at..self.at + len]
            .escape_ascii()
            .to_string();
        self.field(len, format!("{name} {text}"));
    }

    fn trailer(&mut self, what: &str) {
        self.field(1, format!("{what}: compression"));
        self.field(1, "  kind of block");
        self.field(2, "  reserved");
        self.field(4, "  length of the payload");
        self.field(4, "  CRC32C, seeded by place");
    }

    /// Entries, restart points and trailer of the block that ends at `end`.
    fn entries(&mut self, end: usize, what: &str) {
        let restarts = u32_at(self.bytes, end - 16);
        while self.at < end - 16 - 4 * restarts {
            self.varint(&format!("{what} entry: shared"));
            let rest = self.varint("  rest of the key");
            let value = self.varint("  value");
            let tag = self.bytes[self.at];
            self.field(1, format!("  tag {tag}"));
            self.varint("  seqno");
            self.text(rest, "  key");
            match tag {
                0 => {
                    self.varint("  offset");
                    self.varint("  length");
                }
                17 | 19 => {
                    self.field(8, "  blob: file");
                    self.field(8, "  blob: offset");
                    self.field(4, "  blob: length");
                }
                _ => self.text(value, "  value"),
            }
        }
        for n in 0..restarts {
            self.field(4, format!("restart point {n}"));
        }
        self.field(4, "number of restart points");
        self.trailer(what);
    }

    fn index(&mut self, end: usize) {
        self.field(1, "index: kind");
        self.field(1, "  level");
        self.field(2, "  reserved");
        self.entries(end, "index");
    }

    fn properties(&mut self, end: usize) {
        let numbers = |names: &[&str]| names.iter().map(|n| (8, n.to_string())).collect::<Vec<_>>();
        while self.at < end - 12 {
            let tag = self.bytes[self.at];
            let len = u32_at(self.bytes, self.at + 1);
            let bodies = match tag {
                0x81 => vec![
                    (16, "database id".into()),
                    (8, "file id".into()),
                    (2, "column family".into()),
                ],
                0x82 => numbers(&[
                    "entries",
                    "deletes",
                    "merges",
                    "range tombstones",
                    "user keys",
                    "bytes of keys",
                    "bytes of inline values",
                    "data blocks",
                    "bytes of data blocks",
                ]),
                0x83 => numbers(&["smallest seqno", "largest seqno"]),
                0x84 => vec![(8, "smallest: seqno".into()), (len - 8, "  key".into())],
                0x85 => vec![(8, "largest: seqno".into()), (len - 8, "  key".into())],
                0x86 => numbers(&["blob file", "values", "bytes"]),
                0x09 => vec![(4, "CRC32C of the CRC32Cs of all other blocks".into())],
                _ => vec![
                    (1, "creation".into()),
                    (1, "compression".into()),
                    (4, "block size".into()),
                    (2, "restart interval".into()),
                ],
            };
            self.field(1, "property");
            self.field(4, "  length of the body");
            bodies
                .into_iter()
                .for_each(|(len, name)| self.field(len, format!("  {name}")));
        }
        self.trailer("properties");
    }

    fn footer(&mut self) {
        for (len, name) in [
            (16, "footer: database id"),
            (8, "  file id"),
            (8, "  length of the file"),
            (8, "  offset of the filter"),
            (4, "  length of the filter"),
            (4, "  length of the range tombstones"),
            (4, "  length of the index root"),
            (4, "  length of the properties"),
            (8, "  reserved"),
            (4, "  CRC32C of the footer"),
            (4, "  format version"),
            (8, "  magic THCLTABL"),
        ] {
            self.field(len, name);
        }
    }
}

/// Draws a table of data blocks that each end at one of `data_ends`.
fn annotate(bytes: &[u8], data_ends: &[usize]) -> String {
    let mut dump = Dump {
        bytes,
        at: 0,
        fields: Vec::new(),
    };
    for end in data_ends {
        dump.entries(*end, "data");
    }
    let [filter, tombstones, index, properties] = meta_blocks(bytes).map(|(at, len)| at + len);
    dump.field(1, "filter: kind");
    dump.field(3, "  reserved");
    dump.field(8, "  seed");
    dump.field(4, "  length of a segment");
    dump.field(4, "  length of all first segments");
    dump.field(filter - 12 - dump.at, "  fingerprints");
    dump.trailer("filter");
    while dump.at < tombstones - 12 {
        let start = dump.varint("range tombstone: length of the start");
        let end = dump.varint("  length of the end");
        dump.varint("  seqno");
        dump.text(start, "  start");
        dump.text(end, "  end");
    }
    dump.trailer("range tombstones");
    dump.index(index);
    dump.properties(properties);
    dump.footer();
    let fields: Vec<_> = dump
        .fields
        .iter()
        .map(|(len, name)| (*len, &name[..]))
        .collect();
    golden::annotate(bytes, &fields)
}

/// The bytes of a golden.
fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in text.lines() {
        let drawn = line.split(" ; ").next().unwrap();
        let mut words = drawn.split_whitespace();
        assert_eq!(words.next().unwrap().parse(), Ok(bytes.len()));
        let words: Vec<_> = words.collect();
        match words[..] {
            ["00", "×", n] => bytes.resize(bytes.len() + n.parse::<usize>().unwrap(), 0),
            _ => bytes.extend(words.iter().map(|w| u8::from_str_radix(w, 16).unwrap())),
        }
    }
    bytes
}

/// One entry of each kind, over two blocks that share a user key.
fn everything() -> Contents {
    let blob = |kind, seqno: u64| Entry {
        key: b"blob".to_vec(),
        seqno: SeqNo(seqno),
        kind,
        value: Kept::Blob(BlobRef {
            file: FileId(5),
            offset: 64,
            len: 2_000_000,
        }),
    };
    let empty = |key: &[u8], seqno, kind| Entry {
        kind,
        ..Entry::put(key, seqno, b"")
    };
    let entries = vec![
        Entry::put(b"", 3, b"empty key"),
        Entry::put(b"apple", 300, b"new"),
        Entry::put(b"apple", 2, b"old"),
        empty(b"applet", 9, Kind::Delete),
        blob(Kind::Put, 70_000),
        blob(Kind::Merge, 69_999),
        empty(b"z", 1, Kind::Merge),
    ];
    let tombstone = |start: &[u8], end: &[u8], seqno| RangeTombstone {
        start: start.to_vec(),
        end: end.to_vec(),
        seqno: SeqNo(seqno),
    };
    let tombstones = vec![
        tombstone(b"a", b"c", 8),
        tombstone(b"a", b"b", 5),
        tombstone(b"y", b"zz", 200),
    ];
    Contents {
        entries,
        tombstones,
    }
}

fn options() -> WriteOptions {
    WriteOptions {
        block_bytes: 128,
        restart_interval: 2,
        creation: Creation::Compaction,
        ..WriteOptions::default()
    }
}

#[test]
fn a_table_is_the_golden_byte_for_byte_and_reads_as_what_was_written() {
    let fs = fresh();
    let meta = everything().write(&fs, 7, options()).unwrap();
    let p = &meta.properties;
    assert_eq!(p.data_blocks, 2);
    let bytes = fs.contents(&path(7)).unwrap();
    let ends: Vec<usize> = data_blocks(&bytes)
        .iter()
        .map(|(at, len)| at + len)
        .collect();
    golden::check("table", SUMMED, &annotate(&bytes, &ends));
    assert_eq!(bytes_of(SUMMED), bytes);
    golden::check("older", TABLE, &annotate(&without_sum(&bytes), &ends));
    for golden in [TABLE, SUMMED] {
        fs.install(&path(7), &bytes_of(golden));
        assert_same(&read_all(&fs, 7).unwrap(), &everything(), "golden");
        let (table, _) = open(&fs, 7).unwrap();
        let is_older = golden == TABLE;
        assert_eq!(table.properties().blocks_crc.is_none(), is_older);
    }
}

/// Texts that compress, over enough blocks for two levels of index.
fn text() -> Contents {
    let entries = (0..60u64).map(|n| {
        let value = format!("the value of number {n}, the value of number {n}, and once more {n}");
        Entry::put(format!("key{n:04}").as_bytes(), n, value.as_bytes())
    });
    Contents::of(entries.collect())
}

fn text_options(compression: Compression) -> WriteOptions {
    WriteOptions {
        block_bytes: 256,
        index_block_bytes: 64,
        compression,
        ..WriteOptions::default()
    }
}

/// As one field: the parts are the same as in the annotated golden.
fn draw(bytes: &[u8]) -> String {
    let rows = bytes
        .chunks(32)
        .map(|row| (row.len(), "bytes"))
        .collect::<Vec<_>>();
    golden::annotate(bytes, &rows)
}

#[test]
fn a_table_of_two_levels_is_the_golden() {
    let fs = fresh();
    text()
        .write(&fs, 7, text_options(Compression::None))
        .unwrap();
    let bytes = fs.contents(&path(7)).unwrap();
    let root = meta_blocks(&bytes)[2].0;
    assert_eq!(bytes[root..root + 4], [1, 1, 0, 0]);
    let older = without_sum(&bytes);
    golden::check("table of two levels", TWO_LEVELS, &draw(&older));
}

/// Of range tombstones, keys that stand before are not written again; this came later than the others.
#[test]
fn a_table_whose_range_tombstones_share_keys_is_the_golden() {
    let range = |start: &[u8], end: &[u8], seqno| RangeTombstone {
        start: start.to_vec(),
        end: end.to_vec(),
        seqno: SeqNo(seqno),
    };
    let contents = Contents {
        entries: vec![Entry::put(b"key", 3, b"value")],
        tombstones: vec![
            range(b"aaaa", b"zzzz", 9),
            range(b"aaaa", b"zzzz", 8),
            range(b"aaaa", b"mm", 7),
            range(b"bb", b"mm", 6),
            range(b"bb", b"c", 5),
        ],
    };
    let fs = fresh();
    contents.write(&fs, 7, options()).unwrap();
    let bytes = fs.contents(&path(7)).unwrap();
    let older = without_sum(&bytes);
    golden::check("table with shared keys", SHARED, &draw(&older));
    fs.install(&path(7), &bytes_of(SHARED));
    assert_same(&read_all(&fs, 7).unwrap(), &contents, "golden");
}

/// What compressors make of the same bytes may change from release to release; what was written once
/// must be read for ever.
#[test]
fn compressed_tables_of_old_are_read() {
    for (golden, compression) in [
        (TWO_LEVELS, Compression::None),
        (LZ4, Compression::Lz4),
        (ZSTD, Compression::Zstd(3)),
    ] {
        let fs = fresh();
        text().write(&fs, 7, text_options(compression)).unwrap();
        let now = fs.contents(&path(7)).unwrap();
        assert!(
            !golden.is_empty(),
            "no golden yet; the bytes now:\n{}",
            draw(&now)
        );
        fs.install(&path(7), &bytes_of(golden));
        assert_same(&read_all(&fs, 7).unwrap(), &text(), "golden");
        let file = fs.open(&path(7), OpenMode::Read).unwrap();
        assert!(verify_table(&file, identity(7)).faults.is_empty());
        let (table, _) = open(&fs, 7).unwrap();
        assert_eq!(table.properties().codec, compression.codec());
    }
}

#[test]
fn a_blob_file_is_the_golden_byte_for_byte_and_reads_as_what_was_written() {
    let fs = fresh();
    let path = Path::new("/db/000009.blob");
    let mut writer = BlobWriter::create(&fs, path, identity(9)).unwrap();
    let long = writer.append(CfId(2), b"key", b"the value").unwrap();
    let empty = writer.append(CF, b"", b"").unwrap();
    writer.finish().unwrap();
    let bytes = fs.contents(path).unwrap();
    let mut fields = vec![
        (8, "magic THCLBLOB"),
        (4, "format version"),
        (4, "reserved"),
        (8, "file id"),
        (16, "database id"),
        (20, "reserved"),
        (4, "CRC32C of the header"),
    ];
    let record = [
        (4, "record: CRC32C of the header, seeded by place"),
        (4, "  CRC32C of the value, seeded by place"),
        (4, "  CRC32C of the key, seeded by place"),
        (4, "  length of the value"),
        (2, "  length of the key"),
        (2, "  column family"),
        (12, "  reserved"),
    ];
    fields.extend(record);
    fields.extend([(9, "  the value"), (3, "  key"), (4, "  zeros")]);
    fields.extend(record);
    golden::check("blob file", BLOBS, &golden::annotate(&bytes, &fields));
    fs.install(path, &bytes_of(BLOBS));
    let file = fs.open(path, OpenMode::Read).unwrap();
    let blobs = BlobFile::open(&*file, identity(9)).unwrap();
    assert_eq!(read_blob(&blobs, &*file, long).unwrap(), b"the value");
    assert_eq!(read_blob(&blobs, &*file, empty).unwrap(), b"");
}

/// Values in blob files may be compressed; that came later. What was written once must be read for ever.
#[test]
fn compressed_blobs_of_old_are_read() {
    let text = b"thermocline ".repeat(40);
    let path = Path::new("/db/000009.blob");
    for (golden, compression) in [
        (BLOBS_LZ4, Compression::Lz4),
        (BLOBS_ZSTD, Compression::Zstd(3)),
    ] {
        let fs = fresh();
        let writer = BlobWriter::create(&fs, path, identity(9)).unwrap();
        let mut writer = writer.compressed(compression).unwrap();
        let now = writer.append(CfId(2), b"key", &text).unwrap();
        writer.finish().unwrap();
        assert!(
            !golden.is_empty(),
            "no golden yet; the bytes now:\n{}",
            draw(&fs.contents(path).unwrap())
        );
        let bytes = bytes_of(golden);
        fs.install(path, &bytes);
        let file = fs.open(path, OpenMode::Read).unwrap();
        let blobs = BlobFile::open(&*file, identity(9)).unwrap();
        let records = BlobRecords::new(&blobs, &*file, bytes.len() as u64);
        let records: Vec<_> = records.map(|record| record.unwrap().blob).collect();
        assert_eq!((records.len(), records[0].offset), (1, now.offset));
        assert_eq!(read_blob(&blobs, &*file, records[0]).unwrap(), text);
        let verified = verify_blobs(&file, identity(9), bytes.len() as u64);
        assert!(verified.faults.is_empty(), "{:?}", verified.faults);
    }
}
