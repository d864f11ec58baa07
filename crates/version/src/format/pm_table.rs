//! The bytes of what is said of tables in persistent memory, as [`super`] draws them.

use thermocline_base::{CfId, FileId, KeyRange, PmBlob, PmFamily, PmTableMeta, SeqNo};

use super::fields::{Fields, Unreadable, damaged, len32};
use crate::pm_table::PmTableInfo;

pub(super) fn encode(table: &PmTableInfo, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&table.file.0.to_le_bytes());
    let table = &table.meta;
    bytes.extend_from_slice(&table.owner.to_le_bytes());
    bytes.extend_from_slice(&table.zones.to_le_bytes());
    numbers(
        bytes,
        &[
            table.zone_bytes,
            table.bytes,
            table.entries,
            table.range_tombstones,
            table.seqnos.0.0,
            table.seqnos.1.0,
        ],
    );
    bytes.extend_from_slice(&len32(table.families.len()).to_le_bytes());
    for family in &table.families {
        bytes.extend_from_slice(&family.cf.0.to_le_bytes());
        bytes.push(u8::from(family.range.open));
        numbers(
            bytes,
            &[
                family.entries,
                family.deletes,
                family.merges,
                family.range_tombstones,
                family.key_bytes,
                family.value_bytes,
                family.seqnos.0.0,
                family.seqnos.1.0,
            ],
        );
        for key in [&family.range.first, &family.range.last] {
            bytes.extend_from_slice(&len32(key.len()).to_le_bytes());
            bytes.extend_from_slice(key);
        }
    }
    bytes.extend_from_slice(&len32(table.blobs.len()).to_le_bytes());
    for blob in &table.blobs {
        numbers(bytes, &[blob.file.0, blob.values, blob.bytes]);
    }
}

fn numbers(bytes: &mut Vec<u8>, numbers: &[u64]) {
    for number in numbers {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
}

/// Grows as it reads: a count that lies allocates nothing.
pub(super) fn decode(body: &mut Fields<'_>) -> Result<PmTableInfo, Unreadable> {
    let file = FileId(body.u64()?);
    let owner = body.u64()?;
    let zones = body.u32()?;
    let [zone_bytes, bytes, entries, range_tombstones] =
        [body.u64()?, body.u64()?, body.u64()?, body.u64()?];
    let seqnos = (SeqNo(body.u64()?), SeqNo(body.u64()?));
    let mut families = Vec::new();
    for _ in 0..body.u32()? {
        families.push(family(body)?);
    }
    let mut blobs = Vec::new();
    for _ in 0..body.u32()? {
        blobs.push(PmBlob {
            file: FileId(body.u64()?),
            values: body.u64()?,
            bytes: body.u64()?,
        });
    }
    let meta = PmTableMeta {
        owner,
        zones,
        zone_bytes,
        bytes,
        entries,
        range_tombstones,
        seqnos,
        families,
        blobs,
    };
    Ok(PmTableInfo { file, meta })
}

fn family(body: &mut Fields<'_>) -> Result<PmFamily, Unreadable> {
    let cf = CfId(body.u16()?);
    let at = body.at;
    let open = match body.u8()? {
        0 => false,
        1 => true,
        other => return Err(damaged("end of a key range", at, "0 or 1", other)),
    };
    let [entries, deletes, merges, range_tombstones] =
        [body.u64()?, body.u64()?, body.u64()?, body.u64()?];
    let [key_bytes, value_bytes] = [body.u64()?, body.u64()?];
    let seqnos = (SeqNo(body.u64()?), SeqNo(body.u64()?));
    let len = body.len32()?;
    let first = body.take(len)?.to_vec();
    let len = body.len32()?;
    let last = body.take(len)?.to_vec();
    Ok(PmFamily {
        cf,
        entries,
        deletes,
        merges,
        range_tombstones,
        key_bytes,
        value_bytes,
        seqnos,
        range: KeyRange { first, last, open },
    })
}
