//! What the tests share: random contents, the model, and the format's checksums written anew from
//! its drawing.

use std::cmp::Reverse;
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::checksum::{crc32c, seeded};
use thermocline_base::{BlobRef, CfId, FileId, Kind, RangeTombstone, Result, SeqNo, Steps};
use thermocline_env::sim::SimFs;
use thermocline_env::{File, OpenMode, Storage};
use thermocline_sst::{
    Compression, Creation, FileSource, Found, FoundValue, Identity, IndexKind, KeyRef, SyncCursor,
    Table, TableMeta, TablePart, TableWriter, Value, WriteOptions, open_table,
};
use thermocline_testkit::Rng;

pub const DB_ID: [u8; 16] = *b"0123456789abcdef";
pub const CF: CfId = CfId(3);

pub fn identity(file: u64) -> Identity {
    Identity::new(DB_ID, FileId(file))
}

pub fn path(file: u64) -> PathBuf {
    Path::new("/db").join(thermocline_sst::table_name(FileId(file)))
}

/// A file system with the empty folder.
pub fn fresh() -> SimFs {
    let fs = SimFs::new(Steps::new());
    fs.create_dir_all(Path::new("/db")).unwrap();
    fs
}

/// A value that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    Inline(Vec<u8>),
    Blob(BlobRef),
}

impl Kept {
    pub fn as_value(&self) -> Value<'_> {
        match self {
            Kept::Inline(bytes) => Value::Inline(bytes),
            Kept::Blob(blob) => Value::Blob(*blob),
        }
    }
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Vec<u8>,
    pub seqno: SeqNo,
    pub kind: Kind,
    pub value: Kept,
}

impl Entry {
    pub fn put(key: &[u8], seqno: u64, value: &[u8]) -> Entry {
        Entry {
            key: key.to_vec(),
            seqno: SeqNo(seqno),
            kind: Kind::Put,
            value: Kept::Inline(value.to_vec()),
        }
    }

    pub fn at(&self) -> KeyRef<'_> {
        KeyRef::new(&self.key, self.seqno)
    }
}

/// What a table holds: the model.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// In order.
    pub entries: Vec<Entry>,
    /// In order.
    pub tombstones: Vec<RangeTombstone>,
}

impl Contents {
    /// Puts of these keys and values.
    pub fn of(entries: Vec<Entry>) -> Contents {
        let tombstones = Vec::new();
        Contents {
            entries,
            tombstones,
        }
    }

    pub fn write(
        &self,
        storage: &dyn Storage,
        file: u64,
        options: WriteOptions,
    ) -> Result<TableMeta> {
        let mut writer = TableWriter::create(storage, &path(file), identity(file), CF, options)?;
        self.add_to(&mut writer)?;
        writer.finish()
    }

    /// Adds all of it.
    pub fn add_to(&self, writer: &mut TableWriter) -> Result<()> {
        // Range tombstones may come before, between and behind entries.
        let (mut entries, mut tombstones) = (self.entries.iter(), self.tombstones.iter());
        let mut turn = 0;
        loop {
            turn += 1;
            match (entries.len(), tombstones.len()) {
                (0, 0) => return Ok(()),
                (0, _) => add_range(writer, tombstones.next().unwrap())?,
                (_, 1..) if turn % 3 == 0 => add_range(writer, tombstones.next().unwrap())?,
                _ => {
                    let entry = entries.next().unwrap();
                    writer.add(entry.at(), entry.kind, entry.value.as_value())?;
                }
            }
        }
    }

    /// The newest at or below `seqno`: seqno, kind and value.
    pub fn get(&self, key: &[u8], seqno: SeqNo) -> Option<(SeqNo, Kind, Option<Kept>)> {
        let entry = self
            .entries
            .iter()
            .find(|e| e.key == key && e.seqno <= seqno);
        let covers =
            |t: &&RangeTombstone| &t.start[..] <= key && key < &t.end[..] && t.seqno <= seqno;
        let tombstone = self.tombstones.iter().filter(covers).map(|t| t.seqno).max();
        match (entry, tombstone) {
            (Some(e), t) if t.is_none_or(|t| t <= e.seqno) => {
                let value = (e.kind != Kind::Delete).then(|| e.value.clone());
                Some((e.seqno, e.kind, value))
            }
            (_, Some(t)) => Some((t, Kind::RangeDelete, None)),
            (_, None) => None,
        }
    }

    /// What of it lies within limits.
    pub fn limited(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Contents {
        let within = |key: &[u8]| lower.is_none_or(|l| l <= key) && upper.is_none_or(|u| key < u);
        let cut = |t: &RangeTombstone| RangeTombstone {
            start: lower.map_or(&t.start[..], |l| l.max(&t.start)).to_vec(),
            end: upper.map_or(&t.end[..], |u| u.min(&t.end)).to_vec(),
            seqno: t.seqno,
        };
        let tombstones = self.tombstones.iter().map(cut).filter(|t| t.start < t.end);
        let mut tombstones: Vec<RangeTombstone> = tombstones.collect();
        let order = |t: &RangeTombstone| (t.start.clone(), Reverse((t.seqno, t.end.clone())));
        tombstones.sort_by_key(order);
        tombstones.dedup_by_key(|t| (t.start.clone(), t.seqno));
        Contents {
            entries: self
                .entries
                .iter()
                .filter(|e| within(&e.key))
                .cloned()
                .collect(),
            tombstones,
        }
    }
}

pub fn add_range(writer: &mut TableWriter, t: &RangeTombstone) -> Result<()> {
    let start = KeyRef::new(&t.start, t.seqno);
    writer.add(start, Kind::RangeDelete, Value::Inline(&t.end))
}

/// A random key: short ones of few letters, so that many are equal or prefixes of each other.
pub fn random_key(rng: &mut Rng, len_max: usize) -> Vec<u8> {
    (0..rng.below(len_max + 1))
        .map(|_| b"\x00ab\xff"[rng.below(4)])
        .collect()
}

pub fn random_bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect()
}

/// Random contents of up to `n` entries and a few range tombstones.
pub fn random_contents(rng: &mut Rng, n: usize) -> Contents {
    let key_len = 1 + rng.below(6);
    let value_max = *rng.pick(&[0, 3, 30, 300, 3000]);
    let many_versions = rng.one_in(4);
    let mut keys: Vec<(Vec<u8>, SeqNo)> = (0..n)
        .map(|_| {
            let len = if many_versions { 1 } else { key_len };
            (random_key(rng, len), SeqNo(rng.below(4 * n + 1) as u64))
        })
        .collect();
    keys.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    keys.dedup();
    let entries = keys.into_iter().map(|(key, seqno)| {
        let kind = *rng.pick(&[Kind::Put, Kind::Put, Kind::Put, Kind::Delete, Kind::Merge]);
        let value = match kind {
            Kind::Delete => Kept::Inline(vec![]),
            _ if rng.one_in(10) => Kept::Blob(BlobRef {
                file: FileId(100 + rng.below(3) as u64),
                offset: 64 + (rng.next_u64() >> 20) / 8 * 8,
                len: 1 << 20,
            }),
            _ => {
                let len = rng.below(value_max + 1);
                match rng.one_in(2) {
                    true => Kept::Inline(random_bytes(rng, len)),
                    false => Kept::Inline(vec![b'x'; len]),
                }
            }
        };
        Entry {
            key,
            seqno,
            kind,
            value,
        }
    });
    let entries = entries.collect();
    let mut tombstones = Vec::new();
    for _ in 0..rng.below(6) {
        let (start, end) = (random_key(rng, key_len), random_key(rng, key_len));
        let seqno = SeqNo(rng.below(4 * n + 1) as u64);
        if start < end {
            tombstones.push(RangeTombstone { start, end, seqno });
        }
    }
    tombstones.sort_by(|a, b| a.start.cmp(&b.start).then(b.seqno.cmp(&a.seqno)));
    tombstones.dedup_by(|a, b| (&a.start, a.seqno) == (&b.start, b.seqno));
    Contents {
        entries,
        tombstones,
    }
}

pub fn random_options(rng: &mut Rng) -> WriteOptions {
    WriteOptions {
        block_bytes: *rng.pick(&[64, 100, 256, 1024, 4096, 4096, 65_536, 1 << 20]),
        index_block_bytes: *rng.pick(&[64, 300, 4 << 10]),
        restart_interval: *rng.pick(&[1, 2, 3, 16, 16, 127, 128]),
        compression: *rng.pick(&[
            Compression::None,
            Compression::Lz4,
            Compression::Zstd(1),
            Compression::Zstd(9),
        ]),
        filter: !rng.one_in(4),
        prefix_len: NonZeroU8::new(*rng.pick(&[0, 0, 1, 3])),
        creation: *rng.pick(&[Creation::Flush, Creation::Compaction, Creation::Ingest]),
        write_bytes: (64 << 10) << rng.below(3),
        index: *rng.pick(&[IndexKind::Binary, IndexKind::Learned]),
    }
}

pub fn open(storage: &dyn Storage, file: u64) -> Result<(Arc<Table>, FileSource)> {
    let opened: Arc<dyn File> = storage.open(&path(file), OpenMode::Read)?;
    Ok((open_table(&*opened, identity(file))?, FileSource(opened)))
}

/// What a lookup found, in the model's words.
pub fn kept(found: Found) -> (SeqNo, Kind, Option<Kept>) {
    let value = match found.value {
        FoundValue::Inline(bytes) => Some(Kept::Inline(bytes.to_vec())),
        FoundValue::Blob(blob) => Some(Kept::Blob(blob)),
        FoundValue::None => None,
    };
    (found.seqno, found.kind, value)
}

/// The entry that a cursor is at.
pub fn entry_of<S: thermocline_sst::BlockSource>(cursor: &SyncCursor<S>) -> Entry {
    let (kind, value) = cursor.value();
    Entry {
        key: cursor.key().user_key.to_vec(),
        seqno: cursor.key().seqno,
        kind,
        value: match value {
            Value::Inline(bytes) => Kept::Inline(bytes.to_vec()),
            Value::Blob(blob) => Kept::Blob(blob),
        },
    }
}

/// Reads everything: all entries forward and back, and all range tombstones.
pub fn read_all(storage: &dyn Storage, file: u64) -> Result<Contents> {
    let (table, source) = open(storage, file)?;
    let part = TablePart::whole(table);
    let mut cursor = SyncCursor::new(part.clone(), &source);
    let (mut entries, mut back) = (Vec::new(), Vec::new());
    let mut more = cursor.first()?;
    while more {
        entries.push(entry_of(&cursor));
        more = cursor.next()?;
    }
    let mut more = cursor.last()?;
    while more {
        back.push(entry_of(&cursor));
        more = cursor.prev()?;
    }
    back.reverse();
    assert_eq!(entries, back, "forward and back differ");
    let tombstones = part.range_tombstones().map(RangeTombstone::owned).collect();
    Ok(Contents {
        entries,
        tombstones,
    })
}

pub fn assert_same(found: &Contents, expected: &Contents, what: &str) {
    assert_eq!(found.entries, expected.entries, "{what}");
    assert_eq!(found.tombstones, expected.tombstones, "{what}");
}

/// The checksum seed of a table, as the drawing has it.
pub fn table_seed(file: u64) -> u64 {
    mixed_seed(file, 0x9fb2_1c65_1e98_df25)
}

pub fn mixed_seed(file: u64, factor: u64) -> u64 {
    let half = |at: usize| u64::from_le_bytes(DB_ID[at..at + 8].try_into().unwrap());
    half(0) ^ half(8).rotate_left(32) ^ file.wrapping_mul(factor)
}

/// Makes the checksum of the block at `offset`, of `len` bytes, right again.
pub fn reseal(bytes: &mut [u8], file: u64, offset: usize, len: usize) {
    let end = offset + len - 4;
    let crc = crc32c(seeded(table_seed(file), offset as u64), &bytes[offset..end]);
    bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Makes the checksum of the footer right again.
pub fn reseal_footer(bytes: &mut [u8]) {
    let at = bytes.len() - 80;
    let crc = crc32c(crc32c(0, &bytes[at..at + 64]), &bytes[at + 68..]);
    bytes[at + 64..at + 68].copy_from_slice(&crc.to_le_bytes());
}

/// Table 7, whose properties are not compressed, as it was written before the last of them was: the checksum of all blocks.
pub fn without_sum(bytes: &[u8]) -> Vec<u8> {
    let (at, len) = meta_blocks(bytes)[3];
    let end = at + len - 12;
    let sum = end - 9;
    assert_eq!(bytes[sum..sum + 5], [9, 4, 0, 0, 0]);
    let mut older = [&bytes[..sum], &bytes[end..]].concat();
    let payload = u32::try_from(sum - at).unwrap();
    older[sum + 4..sum + 8].copy_from_slice(&payload.to_le_bytes());
    reseal(&mut older, 7, at, len - 9);
    let footer = older.len() - 80;
    let file_len = older.len() as u64;
    older[footer + 24..footer + 32].copy_from_slice(&file_len.to_le_bytes());
    older[footer + 52..footer + 56].copy_from_slice(&(payload + 12).to_le_bytes());
    reseal_footer(&mut older);
    older
}

pub fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

pub fn u64_at(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
}

/// Where filter, range tombstones, index root and properties lie: offset and length.
pub fn meta_blocks(bytes: &[u8]) -> [(usize, usize); 4] {
    let footer = bytes.len() - 80;
    let mut at = u64_at(bytes, footer + 32);
    [0, 1, 2, 3].map(|n| {
        let len = u32_at(bytes, footer + 40 + 4 * n);
        at += len;
        (at - len, len)
    })
}

/// Offset and length of the data blocks, and index blocks of level 0, of table 7: where checksums hold.
pub fn data_blocks(bytes: &[u8]) -> Vec<(usize, usize)> {
    let end = meta_blocks(bytes)[0].0;
    let (mut at, mut found) = (0, Vec::new());
    while at < end {
        // Of each length the sum of what lies before its last four bytes: that of the one before, and one byte more.
        let mut crc = crc32c(seeded(table_seed(7), at as u64), &bytes[at..at + 8]);
        let len = (12..=end - at).find(|len| {
            let sum = at + len - 4;
            let is_sum = crc.to_le_bytes() == bytes[sum..sum + 4];
            crc = crc32c(crc, &bytes[sum..sum + 1]);
            is_sum
        });
        match len {
            Some(len) => {
                found.push((at, len));
                at += len;
            }
            // Zeros before a page.
            None => at += 1,
        }
    }
    found
}
