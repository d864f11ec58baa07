//! A whole table: opened, checked, walked over in both directions, looked up in.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::{BlobRef, CfId, FileId, Kind, Result, SeqNo, Steps};
use thermocline_env::sim::SimFs;
use thermocline_env::{File, Storage};
use thermocline_sst::{
    Compression, FileSource, FoundValue, Identity, IndexKind, KeyRef, SyncCursor, TablePart,
    TableWriter, Value, WriteOptions, get, open_table, verify_table,
};
use thermocline_testkit::golden;

use super::digest::Digest;
use super::refusal::refused;
use crate::file::Bytes;
use crate::seal::{DB_ID, table as seal};
use crate::target::{Answer, SEAL, Target};

pub(super) const TARGET: Target = Target {
    name: "table",
    run,
    samples,
    beginnings: Some(|_| Vec::new()),
    runs: 500_000,
};

/// Entries that are walked over at most: compressed, a small input holds many.
const STEPS_MAX: usize = 20_000;

fn identity() -> Identity {
    Identity::new(DB_ID, FileId(seal::FILE))
}

fn samples() -> Vec<Vec<u8>> {
    let goldens = [
        include_str!("../../../sst/tests/golden/table-v1.txt"),
        include_str!("../../../sst/tests/golden/table-v1-summed.txt"),
        include_str!("../../../sst/tests/golden/table-v1-two-levels.txt"),
        include_str!("../../../sst/tests/golden/table-v1-shared-keys.txt"),
        include_str!("../../../sst/tests/golden/table-v1-lz4.txt"),
        include_str!("../../../sst/tests/golden/table-v1-zstd.txt"),
        include_str!("../../../sst/tests/golden/table-v1-learned.txt"),
    ];
    let goldens = goldens.map(golden::bytes);
    let written = [
        written(Compression::None, IndexKind::Binary),
        written(Compression::Lz4, IndexKind::Binary),
        written(Compression::None, IndexKind::Learned),
    ];
    let empty = table(|_| Ok(()), WriteOptions::default());
    let all = goldens.into_iter().chain(written).chain([empty]);
    all.map(|bytes| [&[0][..], &bytes].concat()).collect()
}

fn table(fill: impl Fn(&mut TableWriter) -> Result<()>, options: WriteOptions) -> Vec<u8> {
    let (fs, path) = (SimFs::new(Steps::new()), Path::new("/db/000007.sst"));
    let written = || {
        fs.create_dir_all(Path::new("/db"))?;
        let mut writer = TableWriter::create(&fs, path, identity(), CfId(3), options)?;
        fill(&mut writer)?;
        writer.finish()
    };
    written().expect("a sample can be written");
    fs.contents(path).expect("it was written")
}

/// Small blocks, two levels of index, several versions of keys, every kind, range tombstones that share
/// keys.
fn written(compression: Compression, index: IndexKind) -> Vec<u8> {
    let options = WriteOptions {
        block_bytes: 128,
        index_block_bytes: 64,
        restart_interval: 3,
        compression,
        index,
        ..WriteOptions::default()
    };
    let fill = |table: &mut TableWriter| {
        for n in 0..4 {
            let key = KeyRef::new(b"key02", SeqNo(99 - n));
            table.add(key, Kind::RangeDelete, Value::Inline(b"key33"))?;
        }
        for n in 0..90u64 {
            let key = format!("key{:02}", n / 3);
            let key = KeyRef::new(key.as_bytes(), SeqNo(90 - n % 3));
            let blob = BlobRef {
                file: FileId(8 + n % 2),
                offset: 64 * n,
                len: 77,
            };
            match n % 7 {
                5 => table.add(key, Kind::Delete, Value::Inline(b""))?,
                6 => table.add(key, Kind::Put, Value::Blob(blob))?,
                3 => table.add(key, Kind::Merge, Value::Inline(b"operand"))?,
                _ => table.add(key, Kind::Put, Value::Inline(b"value, value, value"))?,
            }
        }
        Ok(())
    };
    table(fill, options)
}

/// An entry, as a cursor shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    key: Vec<u8>,
    seqno: SeqNo,
    kind: Kind,
    value: Vec<u8>,
    blob: Option<BlobRef>,
}

impl Entry {
    fn at(&self) -> KeyRef<'_> {
        KeyRef::new(&self.key, self.seqno)
    }
}

type Source = FileSource;

fn entry_at(cursor: &SyncCursor<Source>) -> Entry {
    let (kind, value) = cursor.value();
    let (value, blob) = match value {
        Value::Inline(bytes) => (bytes.to_vec(), None),
        Value::Blob(blob) => (Vec::new(), Some(blob)),
    };
    Entry {
        key: cursor.key().user_key.to_vec(),
        seqno: cursor.key().seqno,
        kind,
        value,
        blob,
    }
}

fn run(input: &[u8]) -> Answer {
    let Some((flags, bytes)) = input.split_first() else {
        return Answer::Refused;
    };
    let mut bytes = bytes.to_vec();
    if flags & SEAL != 0 {
        seal::seal(&mut bytes);
    }
    let len = bytes.len();
    let counted = Bytes::new("000007.sst", &bytes);
    let file: Arc<dyn File> = counted.clone();
    let verified = verify_table(&file, identity());
    // It opens the table, which reads its end, and then reads every block once.
    assert!(
        counted.bytes_read() <= 2 * len as u64 + 80,
        "a check reads on and on"
    );
    for fault in &verified.faults {
        refused(fault, len);
    }
    let sound = verified.faults.is_empty();
    let read = open_table(&*file, identity()).and_then(|table| {
        let part = TablePart::whole(table);
        use_it(&part, &FileSource(Arc::clone(&file)), sound)
    });
    match read {
        Ok(digest) if sound => Answer::Read(digest),
        // A check found what readers did not meet.
        Ok(_) => Answer::Refused,
        Err(error) => {
            assert!(!sound, "a check did not find: {error}");
            refused(&error, len)
        }
    }
}

/// Everything that a reader can do. Where a check has found nothing (`sound`), what is read agrees with
/// itself; else nothing is expected of it but that it ends.
fn use_it(part: &TablePart, source: &Source, sound: bool) -> Result<u64> {
    let mut digest = Digest::default();
    let mut cursor = SyncCursor::new(part.clone(), source.clone());
    let (mut entries, mut whole) = (Vec::new(), true);
    let mut more = cursor.first()?;
    while more && whole {
        entries.push(entry_at(&cursor));
        more = cursor.next()?;
        whole = entries.len() < STEPS_MAX;
    }
    if whole {
        let mut back = Vec::new();
        let mut more = cursor.last()?;
        while more && back.len() <= entries.len() {
            back.push(entry_at(&cursor));
            more = cursor.prev()?;
        }
        back.reverse();
        assert!(!sound || entries == back, "forward and back differ");
        let p = part.table().properties();
        assert!(
            !sound || p.entries == entries.len() as u64,
            "entries are not counted right"
        );
    }
    for entry in &entries {
        digest.add(&entry.key);
        digest.number(entry.seqno.0);
        digest.number(u64::from(entry.kind as u8));
        digest.add(&entry.value);
        let blob = entry
            .blob
            .map_or([0; 3], |b| [b.file.0, b.offset, u64::from(b.len)]);
        blob.into_iter().for_each(|n| digest.number(n));
    }
    let tombstones: Vec<_> = part.range_tombstones().collect();
    for t in &tombstones {
        digest.add(t.start);
        digest.add(t.end);
        digest.number(t.seqno.0);
    }
    let every = entries.len().div_ceil(40).max(1);
    for (n, entry) in entries.iter().enumerate().step_by(every) {
        look_up(part, source, entry, &entries, sound)?;
        let there = cursor.seek(entry.at())? && entry_at(&cursor) == *entry;
        let before = cursor.prev()? && n > 0 && entry_at(&cursor) == entries[n - 1];
        assert!(
            !sound || there && before == (n > 0),
            "a seek went elsewhere"
        );
        let there = cursor.seek_for_prev(entry.at())? && entry_at(&cursor) == *entry;
        assert!(!sound || there, "a seek back went elsewhere");
    }
    within_limits(part, source, &entries, sound && whole)?;
    Ok(digest.0)
}

/// Looks up the version that the entry is.
fn look_up(
    part: &TablePart,
    source: &Source,
    entry: &Entry,
    entries: &[Entry],
    sound: bool,
) -> Result<()> {
    for seqno in [entry.seqno, SeqNo::MAX] {
        let found = get(part, &entry.key, seqno, source)?;
        if !sound {
            continue;
        }
        let newest = entries.partition_point(|e| e.at() < KeyRef::new(&entry.key, seqno));
        let newest = &entries[newest];
        let covers = part
            .range_tombstones()
            .filter(|t| t.start <= &entry.key[..] && &entry.key[..] < t.end && t.seqno <= seqno);
        let found = found.expect("an entry is found");
        let covered = covers.map(|t| t.seqno).max().filter(|t| *t > newest.seqno);
        if let Some(covered) = covered {
            assert_eq!((found.kind, found.seqno), (Kind::RangeDelete, covered));
            continue;
        }
        assert_eq!((found.kind, found.seqno), (newest.kind, newest.seqno));
        match found.value {
            FoundValue::Inline(value) => assert_eq!(value[..], newest.value[..]),
            FoundValue::Blob(blob) => assert_eq!(Some(blob), newest.blob),
            FoundValue::None => assert_eq!(newest.kind, Kind::Delete),
        }
    }
    Ok(())
}

/// A part has what lies between its limits, and no more.
fn within_limits(part: &TablePart, source: &Source, entries: &[Entry], sound: bool) -> Result<()> {
    let (Some(first), Some(last)) = (entries.get(entries.len() / 3), entries.last()) else {
        return Ok(());
    };
    let (lower, upper) = (&first.key[..], &last.key[..]);
    let limited = TablePart::limited(Arc::clone(part.table()), Some(lower), Some(upper));
    let mut cursor = SyncCursor::new(limited.clone(), source.clone());
    let mut count = 0;
    let mut more = cursor.first()?;
    while more && count <= entries.len() {
        assert!(
            limited.limits().hold(cursor.key().user_key),
            "a part reaches over its limits"
        );
        count += 1;
        more = cursor.next()?;
    }
    let expected = entries
        .iter()
        .filter(|e| limited.limits().hold(&e.key))
        .count();
    assert!(
        !sound || count == expected,
        "a part has {count} entries, not {expected}"
    );
    for t in limited.range_tombstones() {
        assert!(lower <= t.start && t.start < t.end && t.end <= upper);
    }
    Ok(())
}
