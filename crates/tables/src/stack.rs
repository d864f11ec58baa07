//! What a key whose newest entry is an operand comes to, as far as tables have it.

use thermocline_base::{CfId, Kind, Result, SeqNo};
use thermocline_sst::{BlockSource, KeyRef, Move, SyncCursor, Value};

use crate::any::{AnyCursor, AnyPart};
use crate::{Noted, Tables, runs};

/// An operand that was found.
#[derive(Debug)]
pub struct TableOperand {
    /// When it was written; of several that were folded, the newest.
    pub seqno: SeqNo,
    /// The operand.
    pub bytes: Vec<u8>,
}

impl AsRef<[u8]> for TableOperand {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Appends to `operands`, newest first, those of `key` at or below `seqno`, down to the first entry or range
/// tombstone that is none. Returns the value there, if it is one.
///
/// # Errors
/// Those of reading.
pub fn stack(
    tables: &Tables,
    cf: CfId,
    key: &[u8],
    seqno: SeqNo,
    operands: &mut Vec<TableOperand>,
) -> Result<Option<Vec<u8>>> {
    let runs = tables.runs(cf);
    for run in runs.iter() {
        let Some(table) = runs::may_have(run, key) else {
            continue;
        };
        let place = (cf, KeyRef::new(key, seqno));
        let end = match tables.pm_part(cf, table) {
            Some(part) => {
                let cursor = AnyCursor::<Noted<'_>>::pm(part.clone(), tables.files.verify);
                stack_in(tables, &AnyPart::Pm(part), cursor, place, operands)?
            }
            None => {
                let (part, open) = tables.open(table)?;
                let source = Noted::new(&open.source);
                let cursor = AnyCursor::file(SyncCursor::new(part.clone(), source));
                stack_in(tables, &AnyPart::File(part), cursor, place, operands)?
            }
        };
        if let Some(base) = end {
            return Ok(base);
        }
    }
    Ok(None)
}

/// As [`stack`], in one table. `None`: older tables are to be asked.
fn stack_in<S: BlockSource>(
    tables: &Tables,
    part: &AnyPart,
    mut cursor: AnyCursor<S>,
    (cf, key): (CfId, KeyRef<'_>),
    operands: &mut Vec<TableOperand>,
) -> Result<Option<Option<Vec<u8>>>> {
    let covered = part.covering(key.user_key, key.seqno).map(|t| t.seqno);
    let mut there = cursor.go(Move::Seek(key))?;
    while there && cursor.key().user_key == key.user_key {
        let seqno = cursor.key().seqno;
        if covered.is_some_and(|covered| covered > seqno) {
            break;
        }
        let base = match (cursor.kind(), cursor.value()?) {
            (Kind::Put, Value::Inline(value)) => Some(value.to_vec()),
            (Kind::Put, Value::Blob(blob)) => {
                Some(tables.files.read_blob(cf, key.user_key, blob)?)
            }
            (Kind::Merge, Value::Inline(operand)) => {
                let bytes = operand.to_vec();
                operands.push(TableOperand { seqno, bytes });
                there = cursor.go(Move::Next)?;
                continue;
            }
            _ => None,
        };
        return Ok(Some(base));
    }
    Ok(covered.map(|_| None))
}
