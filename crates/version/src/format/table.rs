//! The bytes of table references, as [`super`] draws them.

use thermocline_base::{CfId, FileId, KeyRange, SeqNo};

use super::fields::{Fields, Unreadable, damaged, len32};
use crate::table::{BlobBytes, Level, PartitionId, Place, TableRef};

const WHOLE: u8 = 1;
const PART: u8 = 2;
/// Never written.
const VIRTUAL: u8 = 3;

const OPEN: u8 = 1;
const LIMITED_BELOW: u8 = 2;
const LIMITED_ABOVE: u8 = 4;

pub(super) fn encode_place(place: Place, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&place.cf.0.to_le_bytes());
    bytes.extend_from_slice(&place.partition.0.to_le_bytes());
    bytes.push(place.level.0);
}

pub(super) fn decode_place(body: &mut Fields<'_>) -> Result<Place, Unreadable> {
    Ok(Place {
        cf: CfId(body.u16()?),
        partition: PartitionId(body.u32()?),
        level: Level(body.u8()?),
    })
}

pub(super) fn encode(table: &TableRef, bytes: &mut Vec<u8>) {
    bytes.push(if table.is_part() { PART } else { WHOLE });
    let flags = [
        (table.range.open, OPEN),
        (table.limited_below, LIMITED_BELOW),
        (table.limited_above, LIMITED_ABOVE),
    ];
    let set = flags.iter().filter(|(set, _)| *set);
    bytes.push(set.map(|(_, flag)| flag).sum());
    for number in [
        table.file.0,
        table.file_bytes,
        table.entries,
        table.deletes,
        table.smallest_seqno.0,
        table.largest_seqno.0,
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for key in [&table.range.first, &table.range.last] {
        bytes.extend_from_slice(&len32(key.len()).to_le_bytes());
        bytes.extend_from_slice(key);
    }
    bytes.extend_from_slice(&len32(table.blobs.len()).to_le_bytes());
    for blob in &table.blobs {
        bytes.extend_from_slice(&blob.file.0.to_le_bytes());
        bytes.extend_from_slice(&blob.bytes.to_le_bytes());
    }
    if table.is_part() {
        bytes.extend_from_slice(&table.bytes.to_le_bytes());
    }
}

pub(super) fn decode(body: &mut Fields<'_>) -> Result<TableRef, Unreadable> {
    let kind_at = body.at;
    let kind = body.u8()?;
    if kind == VIRTUAL {
        return Err(Unreadable::Newer(
            "the manifest holds a virtual table (a key range over parent tables), which a version \
             that delays compactions wrote; this program reads tables and parts of tables"
                .into(),
        ));
    }
    let flags = body.u8()?;
    let (below, above) = (flags & LIMITED_BELOW > 0, flags & LIMITED_ABOVE > 0);
    let open = flags & OPEN > 0;
    let known = flags & !(OPEN | LIMITED_BELOW | LIMITED_ABOVE) == 0;
    if !known || above && !open {
        return Err(damaged(
            "flags of a table reference",
            kind_at + 1,
            "known ones",
            flags,
        ));
    }
    if kind != if below || above { PART } else { WHOLE } {
        let expected = "1, or 2 if limited";
        return Err(damaged(
            "kind of a table reference",
            kind_at,
            expected,
            kind,
        ));
    }
    let file = FileId(body.u64()?);
    let file_bytes = body.u64()?;
    let [entries, deletes] = [body.u64()?, body.u64()?];
    let [smallest_seqno, largest_seqno] = [SeqNo(body.u64()?), SeqNo(body.u64()?)];
    let smallest = key(body)?;
    let largest = key(body)?;
    let blobs = blobs(body)?;
    Ok(TableRef {
        file,
        file_bytes,
        bytes: if kind == PART {
            body.u64()?
        } else {
            file_bytes
        },
        entries,
        deletes,
        range: KeyRange {
            first: smallest.into(),
            last: largest.into(),
            open,
        },
        limited_below: below,
        limited_above: above,
        smallest_seqno,
        largest_seqno,
        blobs,
    })
}

fn key<'a>(body: &mut Fields<'a>) -> Result<&'a [u8], Unreadable> {
    let len = body.len32()?;
    body.take(len)
}

/// Grows as it reads: a count that lies allocates nothing.
fn blobs(body: &mut Fields<'_>) -> Result<Vec<BlobBytes>, Unreadable> {
    let count = body.u32()?;
    let mut blobs = Vec::new();
    for _ in 0..count {
        blobs.push(BlobBytes {
            file: FileId(body.u64()?),
            bytes: body.u64()?,
        });
    }
    Ok(blobs)
}
