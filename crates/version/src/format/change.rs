//! The bytes of edits and their changes, as [`super`] draws them.

use std::sync::Arc;

use thermocline_base::{CfId, FileId};

use super::fields::{Fields, Unreadable, damaged, len32};
use super::{FORMAT_VERSION, job_done, pm_table, table, tag};
use crate::edit::{Change, NextIds, StoredRate, VersionEdit};
use crate::table::PartitionId;
use crate::write_times::WriteTime;

const CHANGE_HEADER_LEN: usize = 5;
/// Of a tag: a reader that does not know it must stop.
pub(super) const CRITICAL: u8 = 0x80;

/// The bytes of an edit.
pub fn encode_edit(edit: &VersionEdit) -> Vec<u8> {
    let mut bytes = Vec::new();
    for change in &edit.changes {
        encode_change(change, &mut bytes);
    }
    bytes
}

/// Adds the bytes of one change.
pub fn encode_change(change: &Change, bytes: &mut Vec<u8>) {
    let header_at = bytes.len();
    bytes.extend_from_slice(&[0; CHANGE_HEADER_LEN]);
    let tag = encode_body(change, bytes);
    let body_len = len32(bytes.len() - header_at - CHANGE_HEADER_LEN);
    bytes[header_at] = tag;
    bytes[header_at + 1..header_at + CHANGE_HEADER_LEN].copy_from_slice(&body_len.to_le_bytes());
}

fn encode_body(change: &Change, bytes: &mut Vec<u8>) -> u8 {
    match change {
        Change::Created { db_id, region_id } => {
            bytes.extend_from_slice(db_id);
            bytes.extend_from_slice(region_id);
            tag::CREATED
        }
        Change::Options(options) => {
            encode_options(options, bytes);
            tag::OPTIONS
        }
        Change::NextIds(next) => {
            bytes.extend_from_slice(&next.chain.to_le_bytes());
            bytes.extend_from_slice(&next.memtable.to_le_bytes());
            bytes.extend_from_slice(&next.cf.to_le_bytes());
            bytes.extend_from_slice(&next.incarnation.to_le_bytes());
            if next.file == 0 {
                return tag::NEXT_IDS;
            }
            bytes.extend_from_slice(&next.file.to_le_bytes());
            tag::NEXT_IDS_WITH_FILES
        }
        Change::LongValues => tag::LONG_VALUES,
        Change::PreparedTransactions => tag::PREPARED_TRANSACTIONS,
        Change::WriteTimes(times) => {
            encode_write_times(times, bytes);
            tag::WRITE_TIMES
        }
        Change::PartitionRates(rates) => {
            encode_rates(rates, bytes);
            tag::PARTITION_RATES
        }
        Change::JobDone(job) => {
            job_done::encode(job, bytes);
            tag::JOB_DONE
        }
        Change::FilesInherited { below, db_id } => {
            bytes.extend_from_slice(&below.to_le_bytes());
            bytes.extend_from_slice(db_id);
            tag::FILES_INHERITED
        }
        Change::ColumnFamilyCreated { .. }
        | Change::ColumnFamilyDropped { .. }
        | Change::ColumnFamilyOptions { .. }
        | Change::PartitionCreated { .. }
        | Change::PartitionRemoved { .. } => encode_families(change, bytes),
        Change::MemtableCreated { .. }
        | Change::MemtableDropped { .. }
        | Change::FlushedUpTo { .. }
        | Change::Evacuated { .. } => encode_memtables(change, bytes),
        Change::ChainOpened { .. } | Change::ChainCut { .. } | Change::ChainAdopted { .. } => {
            encode_chains(change, bytes)
        }
        Change::TableAdded { .. }
        | Change::TableRemoved { .. }
        | Change::BlobFileAdded { .. }
        | Change::BlobValues { .. }
        | Change::BlobFileRemoved { .. }
        | Change::PmTableAdded { .. }
        | Change::PmTableRemoved { .. } => encode_files(change, bytes),
    }
}

/// A change of a family, or of how it is divided.
fn encode_families(change: &Change, bytes: &mut Vec<u8>) -> u8 {
    match change {
        Change::ColumnFamilyCreated { id, name } => {
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
            tag::CF_CREATED
        }
        Change::ColumnFamilyDropped { id } => {
            bytes.extend_from_slice(&id.to_le_bytes());
            tag::CF_DROPPED
        }
        Change::ColumnFamilyOptions { id, options } => {
            bytes.extend_from_slice(&id.to_le_bytes());
            encode_options(options, bytes);
            tag::CF_OPTIONS
        }
        Change::PartitionCreated {
            cf,
            partition,
            start,
        } => {
            encode_partition(*cf, *partition, start, bytes);
            tag::PARTITION_CREATED
        }
        Change::PartitionRemoved {
            cf,
            partition,
            start,
        } => {
            encode_partition(*cf, *partition, start, bytes);
            tag::PARTITION_REMOVED
        }
        other => unreachable!("{other:?} is encoded elsewhere"),
    }
}

/// A change of which memtables there are, or of how far they are flushed.
fn encode_memtables(change: &Change, bytes: &mut Vec<u8>) -> u8 {
    match change {
        Change::MemtableCreated { id } => {
            bytes.extend_from_slice(&id.to_le_bytes());
            tag::MEMTABLE_CREATED
        }
        Change::MemtableDropped { id } => {
            bytes.extend_from_slice(&id.to_le_bytes());
            tag::MEMTABLE_DROPPED
        }
        Change::FlushedUpTo { seqno } => {
            bytes.extend_from_slice(&seqno.to_le_bytes());
            tag::FLUSHED_UP_TO
        }
        Change::Evacuated {
            above,
            up_to,
            cf,
            key,
        } => {
            bytes.extend_from_slice(&above.to_le_bytes());
            bytes.extend_from_slice(&up_to.to_le_bytes());
            bytes.extend_from_slice(&cf.0.to_le_bytes());
            bytes.extend_from_slice(key);
            tag::EVACUATED
        }
        other => unreachable!("{other:?} is encoded elsewhere"),
    }
}

/// A change of a chain.
fn encode_chains(change: &Change, bytes: &mut Vec<u8>) -> u8 {
    match change {
        Change::ChainOpened {
            chain,
            memtable,
            incarnation,
            nonce,
            base_seqno,
            start,
        } => {
            bytes.extend_from_slice(&chain.to_le_bytes());
            bytes.extend_from_slice(&memtable.to_le_bytes());
            bytes.extend_from_slice(&incarnation.to_le_bytes());
            bytes.extend_from_slice(&nonce.to_le_bytes());
            bytes.extend_from_slice(&base_seqno.to_le_bytes());
            bytes.push(u8::from(start.is_some()));
            bytes.extend_from_slice(&start.unwrap_or(0).to_le_bytes());
            tag::CHAIN_OPENED
        }
        Change::ChainCut {
            chain,
            last_seqno,
            end,
        } => {
            for number in [chain, last_seqno, end] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            tag::CHAIN_CUT
        }
        Change::ChainAdopted {
            chain,
            memtable,
            incarnation,
            nonce,
            base_seqno,
            last_seqno,
            end,
        } => {
            bytes.extend_from_slice(&chain.to_le_bytes());
            bytes.extend_from_slice(&memtable.to_le_bytes());
            bytes.extend_from_slice(&incarnation.to_le_bytes());
            for number in [nonce, base_seqno, last_seqno, end] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            tag::CHAIN_ADOPTED
        }
        other => unreachable!("{other:?} is encoded elsewhere"),
    }
}

/// A change of a table or a blob file.
fn encode_files(change: &Change, bytes: &mut Vec<u8>) -> u8 {
    match change {
        Change::TableAdded { place, table } => {
            table::encode_place(*place, bytes);
            table::encode(table, bytes);
            tag::TABLE_ADDED
        }
        Change::TableRemoved {
            place,
            file,
            smallest,
        } => {
            table::encode_place(*place, bytes);
            bytes.extend_from_slice(&file.0.to_le_bytes());
            bytes.extend_from_slice(smallest);
            tag::TABLE_REMOVED
        }
        Change::BlobFileAdded { file, bytes: size } => {
            bytes.extend_from_slice(&file.0.to_le_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
            tag::BLOB_FILE_ADDED
        }
        Change::BlobValues {
            file,
            bytes: values,
        } => {
            bytes.extend_from_slice(&file.0.to_le_bytes());
            bytes.extend_from_slice(&values.to_le_bytes());
            tag::BLOB_VALUES
        }
        Change::BlobFileRemoved { file } => {
            bytes.extend_from_slice(&file.0.to_le_bytes());
            tag::BLOB_FILE_REMOVED
        }
        Change::PmTableAdded { table } => {
            pm_table::encode(table, bytes);
            tag::PM_TABLE_ADDED
        }
        Change::PmTableRemoved { file } => {
            bytes.extend_from_slice(&file.0.to_le_bytes());
            tag::PM_TABLE_REMOVED
        }
        other => unreachable!("{other:?} is encoded elsewhere"),
    }
}

fn encode_partition(cf: CfId, partition: PartitionId, start: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&cf.0.to_le_bytes());
    bytes.extend_from_slice(&partition.0.to_le_bytes());
    bytes.extend_from_slice(start);
}

fn encode_rates(rates: &[StoredRate], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&len32(rates.len()).to_le_bytes());
    for rate in rates {
        bytes.extend_from_slice(&rate.cf.0.to_le_bytes());
        bytes.extend_from_slice(&rate.partition.0.to_le_bytes());
        for number in [rate.reads, rate.writes, rate.updates] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
}

fn encode_write_times(times: &[WriteTime], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&len32(times.len()).to_le_bytes());
    for time in times {
        bytes.extend_from_slice(&time.seqno.0.to_le_bytes());
        bytes.extend_from_slice(&time.unix_s.to_le_bytes());
    }
}

fn encode_options(options: &[(String, String)], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&len32(options.len()).to_le_bytes());
    for text in options.iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend_from_slice(&len32(text.len()).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
}

/// Reads an edit. Allocates no more than the length of `bytes`, up to a small factor.
///
/// # Errors
/// What is wrong with it, or the tag that only a newer version knows.
pub fn decode_edit(bytes: &[u8]) -> Result<VersionEdit, Unreadable> {
    let mut fields = Fields { bytes, at: 0 };
    let mut changes = Vec::new();
    while fields.at < bytes.len() {
        let tag_at = fields.at;
        let tag = fields.u8()?;
        let len = fields.len32()?;
        let end = fields.at.saturating_add(len);
        if end > bytes.len() {
            let room = bytes.len() - fields.at;
            return Err(damaged("length of a change", tag_at + 1, room, len));
        }
        let mut body = Fields {
            bytes: &bytes[..end],
            at: fields.at,
        };
        fields.at = end;
        match decode_body(tag, &mut body)? {
            Some(change) => changes.push(change),
            None if tag & CRITICAL == 0 => continue,
            None => {
                return Err(Unreadable::Newer(format!(
                    "the manifest holds a change of kind {tag:#04x}, which a newer format version \
                     than {FORMAT_VERSION} wrote"
                )));
            }
        }
        if body.at != end {
            return Err(damaged("end of a change", body.at, body.at, end));
        }
    }
    Ok(VersionEdit { changes })
}

/// The change of a tag; `None` if nobody knows it.
fn decode_body(tag: u8, body: &mut Fields<'_>) -> Result<Option<Change>, Unreadable> {
    for decode in [
        decode_store,
        decode_families,
        decode_memtables,
        decode_files,
    ] {
        let change = decode(tag, body)?;
        if change.is_some() {
            return Ok(change);
        }
    }
    Ok(None)
}

/// A change of the database as a whole.
fn decode_store(tag: u8, body: &mut Fields<'_>) -> Result<Option<Change>, Unreadable> {
    Ok(Some(match tag {
        tag::CREATED => Change::Created {
            db_id: body.array()?,
            region_id: body.array()?,
        },
        tag::OPTIONS => Change::Options(body.options()?),
        tag::NEXT_IDS | tag::NEXT_IDS_WITH_FILES => Change::NextIds(NextIds {
            chain: body.u64()?,
            memtable: body.u64()?,
            cf: body.u32()?,
            incarnation: body.u32()?,
            file: match tag {
                tag::NEXT_IDS => 0,
                // Where no file was ever made the shorter change says so.
                _ => body.number_from_1("next file id")?,
            },
        }),
        tag::LONG_VALUES => Change::LongValues,
        tag::PREPARED_TRANSACTIONS => Change::PreparedTransactions,
        tag::WRITE_TIMES => Change::WriteTimes(body.write_times()?),
        tag::PARTITION_RATES => Change::PartitionRates(body.rates()?),
        tag::JOB_DONE => Change::JobDone(job_done::decode(body)?),
        tag::FILES_INHERITED => Change::FilesInherited {
            below: body.u64()?,
            db_id: body.array()?,
        },
        _ => return Ok(None),
    }))
}

/// A change of a family, or of how it is divided.
fn decode_families(tag: u8, body: &mut Fields<'_>) -> Result<Option<Change>, Unreadable> {
    Ok(Some(match tag {
        tag::CF_CREATED => Change::ColumnFamilyCreated {
            id: body.u16()?,
            name: body.text_of(body.bytes.len() - body.at)?,
        },
        tag::CF_DROPPED => Change::ColumnFamilyDropped { id: body.u16()? },
        tag::CF_OPTIONS => Change::ColumnFamilyOptions {
            id: body.u16()?,
            options: body.options()?,
        },
        tag::PARTITION_CREATED => Change::PartitionCreated {
            cf: CfId(body.u16()?),
            partition: PartitionId(body.u32()?),
            start: body.take(body.bytes.len() - body.at)?.into(),
        },
        tag::PARTITION_REMOVED => Change::PartitionRemoved {
            cf: CfId(body.u16()?),
            partition: PartitionId(body.u32()?),
            start: body.take(body.bytes.len() - body.at)?.into(),
        },
        _ => return Ok(None),
    }))
}

/// A change of which memtables there are, of their chains, or of how far they are flushed.
fn decode_memtables(tag: u8, body: &mut Fields<'_>) -> Result<Option<Change>, Unreadable> {
    Ok(Some(match tag {
        tag::MEMTABLE_CREATED => Change::MemtableCreated { id: body.u64()? },
        tag::MEMTABLE_DROPPED => Change::MemtableDropped { id: body.u64()? },
        tag::CHAIN_OPENED => Change::ChainOpened {
            chain: body.u64()?,
            memtable: body.u64()?,
            incarnation: body.u32()?,
            nonce: body.u64()?,
            base_seqno: body.u64()?,
            start: body.optional_u64()?,
        },
        tag::CHAIN_CUT => Change::ChainCut {
            chain: body.u64()?,
            last_seqno: body.u64()?,
            end: body.u64()?,
        },
        tag::CHAIN_ADOPTED => Change::ChainAdopted {
            chain: body.u64()?,
            memtable: body.u64()?,
            incarnation: body.u32()?,
            nonce: body.u64()?,
            base_seqno: body.u64()?,
            last_seqno: body.u64()?,
            end: body.u64()?,
        },
        tag::FLUSHED_UP_TO => Change::FlushedUpTo { seqno: body.u64()? },
        tag::EVACUATED => Change::Evacuated {
            above: body.u64()?,
            up_to: body.u64()?,
            cf: CfId(body.u16()?),
            key: body.take(body.bytes.len() - body.at)?.into(),
        },
        _ => return Ok(None),
    }))
}

/// A change of a table or a blob file.
fn decode_files(tag: u8, body: &mut Fields<'_>) -> Result<Option<Change>, Unreadable> {
    Ok(Some(match tag {
        tag::TABLE_ADDED => Change::TableAdded {
            place: table::decode_place(body)?,
            table: Arc::new(table::decode(body)?),
        },
        tag::TABLE_REMOVED => Change::TableRemoved {
            place: table::decode_place(body)?,
            file: FileId(body.u64()?),
            smallest: body.take(body.bytes.len() - body.at)?.into(),
        },
        tag::BLOB_FILE_ADDED => Change::BlobFileAdded {
            file: FileId(body.u64()?),
            bytes: body.u64()?,
        },
        tag::BLOB_VALUES => Change::BlobValues {
            file: FileId(body.u64()?),
            bytes: body.u64()?,
        },
        tag::BLOB_FILE_REMOVED => Change::BlobFileRemoved {
            file: FileId(body.u64()?),
        },
        tag::PM_TABLE_ADDED => Change::PmTableAdded {
            table: Arc::new(pm_table::decode(body)?),
        },
        tag::PM_TABLE_REMOVED => Change::PmTableRemoved {
            file: FileId(body.u64()?),
        },
        _ => return Ok(None),
    }))
}
