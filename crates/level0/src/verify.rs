//! Checking all of a table.
//!
//! Whatever a table's checksums say, what passes here answers alike however it is asked: entries ascend, each
//! group begins with what its run and the prefix layer say, separators separate, and pieces, groups and
//! values lie one behind the other without gaps, so that no byte but the zeros between is unaccounted for.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use thermocline_base::numbers::len_of;
use thermocline_base::{BlobRef, CfId, FileId, KeyRange, Kind, PmBlob, PmFamily, Result, SeqNo};
use thermocline_pm::PmOff;

use crate::cursor::PmCursor;
use crate::format::{ARRAY_ALIGN, HEADER_LEN, array_len};
use crate::meta::{cover, empty};
use crate::search::Group;
use crate::table::{PmPart, PmTable, place};

/// What was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// Entries.
    pub entries: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Bytes that were read and found to be what was written.
    pub bytes: u64,
}

/// The entry before, over groups, runs and pieces.
type Before = Option<(CfId, Vec<u8>, SeqNo)>;

/// Is shown where values lie in blob files, each with the place in the region of the group whose entry says so.
pub type NoteBlob<'a> = &'a mut dyn FnMut(BlobRef, PmOff);

/// What was found so far, to be held against what the edit says.
struct Found<'a> {
    before: Before,
    families: Vec<PmFamily>,
    /// By file.
    blobs: BTreeMap<FileId, PmBlob>,
    notes: NoteBlob<'a>,
}

impl Found<'_> {
    /// Counts a value that lies in a blob file, as an entry of the group at `at` says.
    fn blob(&mut self, to: BlobRef, at: PmOff) {
        (self.notes)(to, at);
        let used = self.blobs.entry(to.file).or_insert(PmBlob {
            file: to.file,
            values: 0,
            bytes: 0,
        });
        used.values += 1;
        used.bytes = used.bytes.saturating_add(u64::from(to.len));
    }
}

/// Checks every byte of a table that is open.
///
/// # Errors
/// [`thermocline_base::Error::Corruption`] with region and offset of the first that is wrong.
pub fn verify_table(table: &std::sync::Arc<PmTable>) -> Result<Verified> {
    verify_table_with(table, &mut |_, _| ())
}

/// As [`verify_table`]; and shows `notes` what entries refer to in blob files. Whether that is there it does not look.
///
/// # Errors
/// As [`verify_table`].
pub fn verify_table_with(table: &std::sync::Arc<PmTable>, notes: NoteBlob<'_>) -> Result<Verified> {
    let mut found = Found {
        before: None,
        families: Vec::new(),
        blobs: BTreeMap::new(),
        notes,
    };
    let mut bytes = 0;
    for piece in 0..table.pieces.len() {
        check_piece(table, piece, &mut found)?;
        bytes += u64::from(table.pieces[piece].header.end);
    }
    check_meta(table, found)?;
    Ok(Verified {
        entries: table.meta().entries,
        range_tombstones: table.meta().range_tombstones,
        bytes,
    })
}

fn check_piece(
    table: &std::sync::Arc<PmTable>,
    number: usize,
    found: &mut Found<'_>,
) -> Result<()> {
    let piece = &table.pieces[number];
    let header = &piece.header;
    let (mut group_at, mut value_at) = (header.groups_at, u32::try_from(HEADER_LEN).unwrap_or(0));
    let mut array_at = len_of(header.arrays_at);
    let mut entries = 0;
    for run in piece.runs.clone() {
        let head = &table.runs[run];
        zeros(table, number, array_at, len_of(head.array), ARRAY_ALIGN)?;
        array_at = len_of(head.array) + array_len(len_of(head.groups), head.prefix_len);
        let cf = head.cf;
        for n in 0..head.groups {
            let group = table.group(run, n, true)?;
            if group.entry.at != group_at {
                let at = place(piece, group_at);
                return Err(table.damaged("a group", at, group_at, group.entry.at));
            }
            group_at = check_group(table, cf, &group, found, &mut value_at)?;
            entries += group.bytes.count as u64;
        }
    }
    if array_at != len_of(header.runs_at) {
        let at = place(piece, header.runs_at);
        return Err(table.damaged("arrays", at, header.runs_at, array_at));
    }
    if value_at != header.groups_at || entries != header.entries {
        let got = format!("{entries}, with values up to {value_at}");
        let expected = format!("{}, with values up to {}", header.entries, header.groups_at);
        return Err(table.damaged("entries of a piece", piece.base, expected, got));
    }
    zeros(
        table,
        number,
        len_of(group_at),
        len_of(header.arrays_at),
        256,
    )?;
    let end = len_of(header.end);
    zeros(table, number, end, end.next_multiple_of(64), 64)
}

/// Zeros stand from one place of a piece to another, fewer than `most`.
fn zeros(table: &PmTable, piece: usize, from: usize, to: usize, most: usize) -> Result<()> {
    let base = table.pieces[piece].base;
    let at = base.plus(from as u64);
    let len = to.checked_sub(from).filter(|len| *len < most);
    let Some(len) = len else {
        return Err(table.damaged(
            "what stands between",
            at,
            "few zeros",
            format!("{from} to {to}"),
        ));
    };
    let bytes = table.region().bytes(at, len)?;
    match bytes.iter().all(|&byte| byte == 0) {
        true => Ok(()),
        false => Err(table.damaged("what stands between", at, "zeros", "other bytes")),
    }
}

/// Checks one group; returns where it ends in the piece.
fn check_group(
    table: &std::sync::Arc<PmTable>,
    cf: CfId,
    group: &Group<'_>,
    found: &mut Found<'_>,
    value_at: &mut u32,
) -> Result<u32> {
    let wrong = |what: &str, at: PmOff| table.damaged(what, at, "what was written", "other bytes");
    let piece = table.piece_of(group.run);
    let part = PmPart::whole(table.clone(), cf);
    let mut cursor = PmCursor::new(part, true);
    cursor.enter(group)?;
    let first = (cf, cursor.user_key().to_vec(), cursor.seqno());
    check_begin(table, group, &first, &found.before)
        .ok_or_else(|| wrong("the begin of a group", group.place))?;
    check_prefix(table, group, &first.1).ok_or_else(|| wrong("a prefix", group.place))?;
    let mut count = 0;
    loop {
        count += 1;
        let (key, seqno, kind) = (cursor.user_key(), cursor.seqno(), cursor.kind());
        let value = cursor.value()?;
        if let Some((at, len)) = cursor.apart() {
            if at != *value_at {
                return Err(wrong("the place of a value", place(piece, at)));
            }
            *value_at = at + len;
        }
        if let crate::Value::Blob(to) = value {
            found.blob(to, group.place);
        }
        let families = &mut found.families;
        if families.last().is_none_or(|family| family.cf != cf) {
            families.push(empty(cf, key));
        }
        let family = families.last_mut().expect("it was just made");
        family.entries += 1;
        family.deletes += u64::from(kind == Kind::Delete);
        family.merges += u64::from(kind == Kind::Merge);
        family.key_bytes += key.len() as u64;
        if let crate::Value::Inline(bytes) = value {
            family.value_bytes += bytes.len() as u64;
        }
        cover(family, KeyRange::inclusive(key, key), seqno);
        found.before = Some((cf, key.to_vec(), seqno));
        if !cursor.step_within_group() {
            break;
        }
    }
    if count != group.bytes.count {
        return Err(wrong("entries of a group", group.place));
    }
    let len = u32::try_from(group.bytes.len()).unwrap_or(u32::MAX);
    Ok(group.entry.at.saturating_add(len))
}

/// Whether the first entry of a group lies behind the one before; and of a run's first group, whether the separator separates.
fn check_begin(
    table: &PmTable,
    group: &Group<'_>,
    first: &(CfId, Vec<u8>, SeqNo),
    before: &Before,
) -> Option<()> {
    let order = |a: &(CfId, Vec<u8>, SeqNo), b: &(CfId, &[u8], SeqNo)| -> Ordering {
        (a.0, &a.1[..]).cmp(&(b.0, b.1)).then(b.2.cmp(&a.2))
    };
    let is_behind = |place: &(CfId, &[u8], SeqNo)| {
        before
            .as_ref()
            .is_none_or(|last| order(last, place).is_lt())
    };
    if !is_behind(&(first.0, &first.1, first.2)) {
        return None;
    }
    if group.number == 0 {
        let run = &table.runs[group.run];
        let separator = (run.cf, run.separator(), run.separator_seqno);
        let behind = is_behind(&separator);
        let not_above = order(first, &separator).is_ge();
        return (behind && not_above).then_some(());
    }
    Some(())
}

/// Whether the prefix layer has what the key says, and nothing else.
fn check_prefix(table: &PmTable, group: &Group<'_>, key: &[u8]) -> Option<()> {
    let run = &table.runs[group.run];
    let rest = key.strip_prefix(run.shared())?;
    let mut prefix = [0; crate::format::PREFIX_MAX];
    let len = rest.len().min(run.prefix_len);
    prefix[..len].copy_from_slice(&rest[..len]);
    (prefix == group.entry.prefix).then_some(())
}

/// Holds what was found against what the edit says.
fn check_meta(table: &PmTable, found: Found<'_>) -> Result<()> {
    let meta = table.meta();
    let mut families = found.families;
    // All that the table has, whatever the edit says of their families.
    for (cf, all) in table.tombstones_by_family() {
        for tombstone in all.iter() {
            let known = families.iter().position(|family| family.cf == *cf);
            let at = known.unwrap_or_else(|| {
                families.push(empty(*cf, tombstone.start));
                families.len() - 1
            });
            let family = &mut families[at];
            family.range_tombstones += 1;
            let range = KeyRange::until(tombstone.start, tombstone.end);
            cover(family, range, tombstone.seqno);
        }
    }
    families.sort_by_key(|family| family.cf);
    let seqnos = families.iter().map(|family| family.seqnos);
    let seqnos = seqnos.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let at = table.pieces[0].base;
    if families != meta.families || seqnos != Some(meta.seqnos) {
        let got = format!("{families:?}");
        return Err(table.damaged("families", at, format!("{:?}", meta.families), got));
    }
    // As its writer counts them.
    let ends = table.pieces.iter().map(|piece| len_of(piece.header.end));
    let bytes: usize = ends.map(|end| end.next_multiple_of(ARRAY_ALIGN)).sum();
    if bytes as u64 != meta.bytes {
        return Err(table.damaged("bytes", at, meta.bytes, bytes));
    }
    // A blob file of which the edit does not say that the table refers to it goes when nobody else does.
    let (blobs, said): (Vec<PmBlob>, _) = (found.blobs.into_values().collect(), &meta.blobs);
    let mut places = 0..blobs.len().max(said.len());
    if let Some(n) = places.find(|n| blobs.get(*n) != said.get(*n)) {
        let (said, got) = (shown(said.get(n)), shown(blobs.get(n)));
        return Err(table.damaged("blob files", at, said, got));
    }
    Ok(())
}

/// What a table refers to in a blob file, for messages.
fn shown(blob: Option<&PmBlob>) -> String {
    blob.map_or_else(
        || "no more".to_string(),
        |of| {
            format!(
                "{} values of {} bytes in blob file {}",
                of.values, of.bytes, of.file
            )
        },
    )
}
