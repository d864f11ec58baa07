//! The bytes of format version 1, as files with a note beside each field. They stay as they are: a
//! change that is added, or a later version, adds a file of its own.
//!
//! The annotated text is made here from the format's drawing, not by the encoder, and compared
//! with what the encoder writes; the file in the repository pins both.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use thermocline_base::CfId;
use thermocline_base::stages::Stages;
use thermocline_version::{Change, JobDone, Manifest, NextIds, VersionEdit, format};

use crate::common::{DB_ID, REGION_ID, dir, fresh, storage};

const GOLDEN: &str = include_str!("../golden/manifest-v1.txt");
/// A record with the options of a column family, which came later.
const GOLDEN_OPTIONS: &str = include_str!("../golden/manifest-v1-family-options.txt");

/// A record that adopts a staged chain, which came later.
const GOLDEN_ADOPTED: &str = include_str!("../golden/manifest-v1-chain-adopted.txt");

/// And with one of what was done.
const GOLDEN_JOB: &str = include_str!("../golden/manifest-v1-job-done.txt");

/// The edit that holds every kind of change. It also appears in the golden as a record.
pub fn edits() -> [VersionEdit; 2] {
    let created = VersionEdit::from(Change::Created {
        db_id: DB_ID,
        region_id: REGION_ID,
    });
    let everything = VersionEdit::new()
        .with(Change::Options(vec![("pm".into(), "4 GiB".into())]))
        .with(Change::ColumnFamilyCreated {
            id: 0,
            name: "default".into(),
        })
        .with(Change::ColumnFamilyCreated {
            id: 1,
            name: "x".into(),
        })
        .with(Change::ColumnFamilyDropped { id: 1 })
        .with(Change::MemtableCreated { id: 1 })
        .with(Change::ChainOpened {
            chain: 1,
            memtable: 1,
            incarnation: 1,
            nonce: 0x1122_3344_5566_7788,
            base_seqno: 1,
            start: Some(0x10_0000),
        })
        .with(Change::ChainCut {
            chain: 1,
            last_seqno: 99,
            end: 0x10_2000,
        })
        .with(Change::MemtableCreated { id: 2 })
        .with(Change::ChainOpened {
            chain: 2,
            memtable: 2,
            incarnation: 2,
            nonce: 7,
            base_seqno: 0,
            start: None,
        })
        .with(Change::MemtableDropped { id: 1 })
        .with(Change::NextIds(NextIds {
            chain: 10,
            memtable: 11,
            cf: 12,
            incarnation: 13,
            file: 0,
        }));
    [created, everything]
}

/// Cuts bytes into lines of "offset: bytes  # note".
pub struct Dump<'a> {
    bytes: &'a [u8],
    pub at: usize,
    pub text: String,
}

impl Dump<'_> {
    fn field(&mut self, len: usize, note: &str) {
        let mut note = Some(note);
        let end = self.at + len;
        while self.at < end {
            let n = (end - self.at).min(16);
            let hex: Vec<String> = self.bytes[self.at..self.at + n]
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect();
            let comment = note.take().map(|n| format!("  # {n}")).unwrap_or_default();
            let line = format!("{:04x}: {:<47}{comment}", self.at, hex.join(" "));
            writeln!(self.text, "{}", line.trim_end()).unwrap();
            self.at += n;
        }
    }

    fn fields(&mut self, fields: &[(usize, &str)]) {
        for (len, note) in fields {
            self.field(*len, note);
        }
    }

    pub fn change(&mut self, name: &str, fields: &[(usize, &str)]) {
        self.fields(&[(1, name), (4, "  body length")]);
        for (len, note) in fields {
            self.field(*len, &format!("  {note}"));
        }
    }

    pub fn padding(&mut self) {
        let end = self.at.next_multiple_of(format::RECORD_ALIGN);
        self.field(end - self.at, "padding");
    }

    pub fn record(&mut self, name: &str) {
        writeln!(self.text, "\n# record: {name}").unwrap();
        self.fields(&[(4, "payload length"), (4, "CRC32C, seeded by place")]);
    }
}

const OPENED: [(usize, &str); 7] = [
    (8, "chain"),
    (8, "memtable"),
    (4, "incarnation"),
    (8, "nonce"),
    (8, "base seqno"),
    (1, "has a start"),
    (8, "start"),
];
const NEXT: [(usize, &str); 4] = [
    (8, "chain"),
    (8, "memtable"),
    (4, "column family"),
    (4, "incarnation"),
];

/// The header and the first record.
pub fn annotate_begin(manifest: &[u8]) -> Dump<'_> {
    let mut dump = Dump {
        bytes: manifest,
        at: 0,
        text: "# MANIFEST-000001, format version 1: header\n".into(),
    };
    dump.fields(&[
        (8, "magic THCLMANI"),
        (4, "format version"),
        (4, "reserved"),
        (8, "file number"),
        (16, "database id"),
        (8, "durable length"),
        (12, "reserved"),
        (4, "CRC32C of the header"),
    ]);
    dump.record("snapshot");
    dump.change("Created", &[(16, "database id"), (16, "region id")]);
    dump.change("NextIds", &NEXT);
    dump.padding();
    dump
}

fn annotate(manifest: &[u8], current: &[u8]) -> String {
    let mut dump = annotate_begin(manifest);
    dump.record("one of each");
    dump.change(
        "Options",
        &[
            (4, "count"),
            (4, "length"),
            (2, "pm"),
            (4, "length"),
            (5, "4 GiB"),
        ],
    );
    let family = "ColumnFamilyCreated";
    dump.change(family, &[(2, "id"), (7, "default")]);
    dump.change(family, &[(2, "id"), (1, "x")]);
    dump.change("ColumnFamilyDropped", &[(2, "id")]);
    dump.change("MemtableCreated", &[(8, "id")]);
    dump.change("ChainOpened", &OPENED);
    dump.change("ChainCut", &[(8, "chain"), (8, "last seqno"), (8, "end")]);
    dump.change("MemtableCreated", &[(8, "id")]);
    dump.change("ChainOpened", &OPENED);
    dump.change("MemtableDropped", &[(8, "id")]);
    dump.change("NextIds", &NEXT);
    dump.padding();
    assert_eq!(dump.at, manifest.len());
    let mut names = Dump {
        bytes: current,
        at: 0,
        text: "\n# CURRENT\n".into(),
    };
    names.fields(&[
        (16, "MANIFEST-000001"),
        (33, "database id"),
        (9, "CRC32C of the lines before"),
    ]);
    assert_eq!(names.at, current.len());
    dump.text + &names.text
}

/// The bytes of the golden: of the manifest and of `CURRENT`.
fn golden_bytes() -> [Vec<u8>; 2] {
    let (manifest, current) = GOLDEN.split_once("# CURRENT").unwrap();
    [manifest, current].map(bytes_of)
}

pub fn bytes_of(text: &str) -> Vec<u8> {
    text.lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(offset, _)| offset.len() == 4)
        .flat_map(|(_, rest)| {
            let hex = rest.split('#').next().unwrap();
            hex.split_whitespace()
                .map(|b| u8::from_str_radix(b, 16).unwrap())
                .collect::<Vec<_>>()
        })
        .collect()
}

fn with_options() -> VersionEdit {
    VersionEdit::new()
        .with(Change::ColumnFamilyCreated {
            id: 3,
            name: "log".into(),
        })
        .with(Change::ColumnFamilyOptions {
            id: 3,
            options: vec![("reverse".into(), "true".into())],
        })
}

fn annotate_options(manifest: &[u8]) -> String {
    let mut dump = annotate_begin(manifest);
    dump.record("a family with options");
    dump.change("ColumnFamilyCreated", &[(2, "id"), (3, "log")]);
    dump.change(
        "ColumnFamilyOptions",
        &[
            (2, "id"),
            (4, "count"),
            (4, "length"),
            (7, "reverse"),
            (4, "length"),
            (4, "true"),
        ],
    );
    dump.padding();
    assert_eq!(dump.at, manifest.len());
    dump.text
}

#[test]
fn the_options_of_a_family_are_the_golden_and_read_as_what_was_written() {
    let fs = fresh();
    let [created, _] = edits();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created).unwrap();
    manifest.append(&with_options()).unwrap();
    let bytes = fs.contents(manifest.path()).unwrap();
    let text = annotate_options(&bytes);
    assert!(
        text == GOLDEN_OPTIONS,
        "the format has changed; now:\n{text}"
    );
    drop(manifest);
    fs.install(&dir().join("MANIFEST-000001"), &bytes_of(GOLDEN_OPTIONS));
    let (_, state) = Manifest::open(storage(&fs), dir(), true).unwrap();
    assert_eq!(state.family_id("log"), Some(3));
    let stored = [("reverse".to_string(), "true".to_string())];
    assert_eq!(state.family_options(3), stored);
}

fn with_adopted() -> VersionEdit {
    VersionEdit::new()
        .with(Change::MemtableCreated { id: 1 })
        .with(Change::ChainAdopted {
            chain: 3,
            memtable: 1,
            incarnation: 1,
            nonce: 0x1122_3344_5566_7788,
            base_seqno: 5,
            last_seqno: 104,
            end: 0x10_2000,
        })
}

fn annotate_adopted(manifest: &[u8]) -> String {
    let mut dump = annotate_begin(manifest);
    dump.record("a batch that was staged");
    dump.change("MemtableCreated", &[(8, "id")]);
    dump.change(
        "ChainAdopted",
        &[
            (8, "chain"),
            (8, "memtable"),
            (4, "incarnation"),
            (8, "nonce"),
            (8, "base seqno"),
            (8, "last seqno"),
            (8, "end"),
        ],
    );
    dump.padding();
    assert_eq!(dump.at, manifest.len());
    dump.text
}

#[test]
fn an_adopted_chain_is_the_golden_and_reads_as_what_was_written() {
    let fs = fresh();
    let [created, _] = edits();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created).unwrap();
    manifest.append(&with_adopted()).unwrap();
    let bytes = fs.contents(manifest.path()).unwrap();
    let text = annotate_adopted(&bytes);
    assert!(
        text == GOLDEN_ADOPTED,
        "the format has changed; now:\n{text}"
    );
    drop(manifest);
    fs.install(&dir().join("MANIFEST-000001"), &bytes_of(GOLDEN_ADOPTED));
    let (_, state) = Manifest::open(storage(&fs), dir(), true).unwrap();
    let (memtable, chain) = state.chains().next().unwrap();
    assert_eq!((memtable, chain.id, chain.staged), (1, 3, true));
    assert_eq!((chain.base_seqno, chain.nonce), (5, 0x1122_3344_5566_7788));
    let cut = chain.cut.unwrap();
    assert_eq!((cut.last_seqno, cut.end), (104, 0x10_2000));
}

fn job_done() -> JobDone {
    let ms = Duration::from_millis;
    JobDone {
        work: "compact".into(),
        because: "level0".into(),
        unix_s: 1_764_284_400,
        family: Some(CfId(3)),
        from: Some(0),
        to: 6,
        inputs: 5,
        bytes_in: 0x1122,
        tables: 4,
        tables_in_pm: 0,
        bytes_read: 0x1133,
        bytes_written: 0x1111,
        entries_read: 300,
        entries_dropped: 20,
        took: ms(7),
        stages: Stages {
            reading: ms(1),
            writing: ms(2),
            syncing: ms(3),
        },
    }
}

fn annotate_job(manifest: &[u8]) -> String {
    let mut dump = annotate_begin(manifest);
    dump.record("what was done");
    let mut fields = vec![
        (1, "is of one family"),
        (2, "family"),
        (1, "from"),
        (1, "to"),
    ];
    fields.extend(
        [
            "seconds since 1970",
            "inputs",
            "bytes of them",
            "tables",
            "in persistent memory",
        ]
        .map(|name| (8, name)),
    );
    fields.extend(
        [
            "bytes read",
            "bytes written",
            "entries read",
            "entries dropped",
        ]
        .map(|name| (8, name)),
    );
    fields.extend(["ns in all", "reading", "writing", "syncing"].map(|name| (8, name)));
    fields.extend([(4, "length"), (7, "work"), (4, "length"), (6, "why")]);
    dump.change("JobDone", &fields);
    dump.padding();
    assert_eq!(dump.at, manifest.len());
    dump.text
}

#[test]
fn what_was_done_is_the_golden_and_reads_as_what_was_written() {
    let fs = fresh();
    let [created, _] = edits();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created).unwrap();
    manifest
        .append(&Change::JobDone(Arc::new(job_done())).into())
        .unwrap();
    let bytes = fs.contents(manifest.path()).unwrap();
    let text = annotate_job(&bytes);
    assert!(text == GOLDEN_JOB, "the format has changed; now:\n{text}");
    drop(manifest);
    fs.install(&dir().join("MANIFEST-000001"), &bytes_of(GOLDEN_JOB));
    let (_, state) = Manifest::open(storage(&fs), dir(), true).unwrap();
    let read: Vec<JobDone> = state
        .jobs_done()
        .iter()
        .map(|job| (**job).clone())
        .collect();
    assert_eq!(read, [job_done()]);
}

#[test]
fn what_is_written_is_the_golden_byte_for_byte() {
    let fs = fresh();
    let [created, everything] = edits();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created).unwrap();
    manifest.append(&everything).unwrap();
    let bytes = fs.contents(manifest.path()).unwrap();
    let current = fs.contents(&dir().join(format::CURRENT)).unwrap();
    let text = annotate(&bytes, &current);
    assert!(text == GOLDEN, "the format has changed; now:\n{text}");
}

#[test]
fn the_golden_reads_as_what_was_written() {
    let [manifest, current] = golden_bytes();
    let fs = fresh();
    fs.install(&dir().join("MANIFEST-000001"), &manifest);
    fs.install(&dir().join(format::CURRENT), &current);
    let (_, state) = Manifest::open(storage(&fs), dir(), true).unwrap();
    let mut expected = thermocline_version::State::default();
    for edit in edits() {
        expected.apply(&edit).unwrap();
    }
    assert_eq!(state, expected);
    let chains: Vec<_> = state.chains().map(|(_, c)| (c.id, c.base_seqno)).collect();
    assert_eq!(chains, [(2, 100)]);
}

/// Every bit of the golden files: in the record that holds each kind of change once, a flip is
/// cut as a torn append, elsewhere it is an error.
#[test]
fn every_flipped_bit_of_the_golden_is_found() {
    let [manifest, current] = golden_bytes();
    let last_record = 144;
    for (file, bytes) in [("MANIFEST-000001", &manifest), (format::CURRENT, &current)] {
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let fs = fresh();
            fs.install(&dir().join("MANIFEST-000001"), &manifest);
            fs.install(&dir().join(format::CURRENT), &current);
            fs.install(&dir().join(file), &flipped);
            match Manifest::open(storage(&fs), dir(), true) {
                Ok((_, state)) => {
                    assert!(file != format::CURRENT && bit / 8 >= last_record, "{bit}");
                    assert_eq!(state.families().len(), 0);
                }
                Err(_) => assert!(file == format::CURRENT || bit / 8 < last_record, "{bit}"),
            }
        }
    }
}
