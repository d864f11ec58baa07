//! PM tables: opened, checked, walked both ways, asked for every key.

use std::sync::{Arc, OnceLock};

use thermocline_base::{BlobRef, CfId, FileId, Kind, Result, SeqNo, Steps};
use thermocline_halloc::{Reserve, Space, SpaceSpec, Zone};
use thermocline_level0::{
    FoundValue, GroupSize, PmCursor, PmPart, PmTable, PmTableMeta, PmTableWriter, TableIdentity,
    Value, WriteOptions, verify_table,
};
use thermocline_pm::{Region, SimPm};

use super::digest::Digest;
use super::items::region_spec;
use super::refusal::refused;
use crate::seal::pm_table::{TABLE, seal};
use crate::seal::{DB_ID, region::REGION_ID};
use crate::target::{Answer, SEAL, Target};

pub(super) const TARGET: Target = Target {
    name: "pm_table",
    run,
    samples,
    beginnings: Some(|_| Vec::new()),
    runs: 100_000,
};

const REGION: u64 = 64 << 10;
const SPEC: SpaceSpec = SpaceSpec {
    part_bytes_first: REGION,
    pm: REGION,
};

/// Of the first byte, above [`SEAL`]: which sample's entry in the manifest it is.
const WHICH: u8 = 6;

/// A table as it was written.
struct Sample {
    meta: PmTableMeta,
    zones: Vec<Zone>,
    /// Of its zones, one behind the other; of the last one no more than it uses.
    bytes: Vec<u8>,
}

type Row<'a> = (u16, &'a [u8], u64, Kind, Value<'a>);

/// Everything that a table may have, in few bytes.
fn mixed(writer: &mut PmTableWriter) -> Result<()> {
    let blob = BlobRef {
        file: FileId(3),
        offset: 64,
        len: 2 << 20,
    };
    let apart = [0x61; 50];
    let rows: [Row<'_>; 12] = [
        (0, b"", 4, Kind::Put, Value::Inline(b"of the empty key")),
        (0, b"table/a", 9, Kind::Put, Value::Inline(b"new")),
        (0, b"table/a", 2, Kind::Delete, Value::Inline(b"")),
        (0, b"table/b", 8, Kind::Merge, Value::Inline(&apart)),
        (0, b"table/b", 7, Kind::Put, Value::Blob(blob)),
        (0, b"table/b\0", 7, Kind::Put, Value::Inline(b"")),
        (0, b"table/bb", 3, Kind::Put, Value::Inline(&apart)),
        (0, b"table/c", 1, Kind::Put, Value::Inline(b"under a range")),
        (0, b"table/d", 99, Kind::Put, Value::Inline(b"z")),
        (0, &[0xff; 30], 5, Kind::Put, Value::Inline(b"y")),
        (9, b"another family", 6, Kind::Put, Value::Inline(b"x")),
        (9, b"another key", 6, Kind::Delete, Value::Inline(b"")),
    ];
    for (cf, key, seqno, kind, value) in rows {
        writer.add(CfId(cf), key, SeqNo(seqno), kind, value)?;
    }
    for (cf, start, seqno, end) in [
        (0, "table/b", 20, "table/d"),
        (0, "table/c", 6, "table/d"),
        (9, "m", 3, "n"),
    ] {
        let end = Value::Inline(end.as_bytes());
        writer.add(
            CfId(cf),
            start.as_bytes(),
            SeqNo(seqno),
            Kind::RangeDelete,
            end,
        )?;
    }
    Ok(())
}

/// Numbers, with `versions` of each.
fn numbers(writer: &mut PmTableWriter, count: u32, versions: u64) -> Result<()> {
    for n in 0..count {
        let key = format!("key/{:05}", n * 7);
        for seqno in (1..=versions).rev() {
            let value = Value::Inline(&[7; 40][..(n % 40) as usize]);
            writer.add(CfId(0), key.as_bytes(), SeqNo(seqno), Kind::Put, value)?;
        }
    }
    Ok(())
}

fn write(n: usize) -> Result<Sample> {
    let sim = SimPm::new(REGION, Steps::new());
    let region = Region::create(&region_spec(&sim, REGION), REGION)?;
    let space = Arc::new(Space::create(region, &REGION_ID, SPEC)?);
    let options = WriteOptions {
        group_size: if n == 1 {
            GroupSize::Sixteen
        } else {
            GroupSize::Eight
        },
        reserve: Reserve::Use,
        ..WriteOptions::default()
    };
    let identity = TableIdentity::new(DB_ID, TABLE);
    let mut writer = PmTableWriter::new(space.clone(), identity, options);
    match n {
        0 => mixed(&mut writer)?,
        1 => numbers(&mut writer, 120, 1)?,
        2 => numbers(&mut writer, 9, 20)?,
        // Over two zones.
        _ => numbers(&mut writer, 700, 1)?,
    }
    let written = writer.finish()?.expect("it has entries");
    assert_eq!(written.zones.len(), if n == 3 { 2 } else { 1 });
    let mut bytes = Vec::new();
    for zone in &written.zones {
        let len = usize::try_from(zone.end.0 - zone.data.0).expect("zones are small");
        bytes.extend_from_slice(space.region().bytes(zone.data, len)?);
    }
    while bytes.last_chunk::<64>() == Some(&[0; 64]) {
        bytes.truncate(bytes.len() - 64);
    }
    Ok(Sample {
        meta: written.meta,
        zones: written.zones,
        bytes,
    })
}

fn all() -> &'static [Sample] {
    static ALL: OnceLock<Vec<Sample>> = OnceLock::new();
    ALL.get_or_init(|| {
        let all = (0..4).map(|n| write(n).expect("a sample can be written"));
        all.collect()
    })
}

fn samples() -> Vec<Vec<u8>> {
    let with_flags = |(n, sample): (u8, &Sample)| [&[n << 1], &sample.bytes[..]].concat();
    (0..).zip(all()).map(with_flags).collect()
}

fn run(input: &[u8]) -> Answer {
    let Some((&flags, mut bytes)) = input.split_first() else {
        return Answer::Refused;
    };
    let sample = &all()[usize::from((flags & WHICH) >> 1)];
    let sim = SimPm::new(REGION, Steps::new());
    let spec = region_spec(&sim, REGION);
    let region = Region::create(&spec, REGION).expect("a simulated region can be made");
    for zone in &sample.zones {
        let len = usize::try_from(zone.end.0 - zone.data.0).expect("zones are small");
        let (piece, rest) = bytes.split_at(len.min(bytes.len()));
        bytes = rest;
        let mut piece = piece.to_vec();
        if flags & SEAL != 0 {
            seal(&mut piece, zone.generation, zone.data.0);
        }
        if !piece.is_empty() {
            super::items::store_bytes(&region, zone.data, &piece);
        }
    }
    match read(&region, sample) {
        Ok(digest) => Answer::Read(digest),
        Err(error) => refused(&error, thermocline_base::size::index(REGION)),
    }
}

fn read(region: &Region, sample: &Sample) -> Result<u64> {
    let table = PmTable::open(region, DB_ID, sample.meta.clone(), &sample.zones)?;
    let verified = verify_table(&table);
    let mut digest = Digest::default();
    for family in &sample.meta.families {
        let walked = walk(&table, family.cf, verified.is_ok());
        if verified.is_ok() {
            digest.number(walked?);
        } else if let Err(error) = walked {
            refused(&error, thermocline_base::size::index(REGION));
        }
    }
    verified.map(|_| digest.0)
}

/// Walks over a family both ways and asks for each entry; whether all agree is of interest only in a table
/// that is `sound`.
fn walk(table: &Arc<PmTable>, cf: CfId, sound: bool) -> Result<u64> {
    let part = PmPart::whole(table.clone(), cf);
    let mut digest = Digest::default();
    let mut keys = Vec::new();
    let mut cursor = PmCursor::new(part.clone(), true);
    let mut there = cursor.first()?;
    while there {
        let (key, seqno) = (cursor.user_key().to_vec(), cursor.seqno());
        digest.add(&key);
        digest.number(seqno.0);
        digest.number(u64::from(cursor.kind() as u8));
        match cursor.value()? {
            Value::Inline(bytes) => digest.add(bytes),
            Value::Blob(to) => digest.add(to.to_string().as_bytes()),
        }
        keys.push((key, seqno));
        there = cursor.next()?;
    }
    for tombstone in part.range_tombstones() {
        digest.add(tombstone.start);
        digest.add(tombstone.end);
        digest.number(tombstone.seqno.0);
    }
    let mut back = Vec::new();
    let mut there = cursor.last()?;
    while there {
        back.push((cursor.user_key().to_vec(), cursor.seqno()));
        there = cursor.prev()?;
    }
    back.reverse();
    assert!(!sound || back == keys, "back and forward are not the same");
    for (key, seqno) in keys.iter().step_by(1 + keys.len() / 60) {
        let found = part.get(key, *seqno, true)?;
        let answer = found.as_ref().map(|found| (found.seqno, found.kind));
        let covering = part.covering(key, *seqno).map(|t| t.seqno);
        let covered = covering.filter(|over| over > seqno);
        let expected = covered.unwrap_or(*seqno);
        assert!(
            !sound || answer.is_some_and(|(own, _)| own == expected),
            "{answer:?}"
        );
        if let Some(FoundValue::Inline(bytes)) = found.map(|found| found.value) {
            let _ = bytes.len();
        }
        let there = cursor.seek(key, *seqno)?;
        assert!(!sound || there && (cursor.user_key(), cursor.seqno()) == (&key[..], *seqno));
    }
    Ok(digest.0)
}
