//! The value of a row.
//!
//! ```text
//! version: 1 (1)
//! columns of the table when the row was written, those of the key included (varint)
//! a bit for each of these columns that is not of the key, the lowest bits first: 1 for NULL; zeros to the byte
//! the values of those that are not NULL, in the order of columns:
//!     u64               varint
//!     i64, decimal      varint of (n << 1) ^ (n >> 63)
//!     f64               8, the lowest byte first
//!     bool              0 or 1 (1)
//!     text, bytes       length (varint), bytes
//! ```
//!
//! If the table has got more columns since, they are NULL. A value is refused if it has a column that the reader does
//! not know, a NULL where none may be, or bytes left over.

use thermocline_base::varint::{put_varint, varint, varlen};

use crate::field::{Decimal, Field, Type};
use crate::format::Flaw;
use crate::schema::Column;

const VERSION: u8 = 1;

/// The value of a row: `row` has all columns, and `is_key` says which of them lie in its key.
pub(crate) fn encode(row: &[Field], is_key: &[bool]) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_varint(&mut out, row.len() as u64);
    let values = || row.iter().zip(is_key).filter(|(_, is_key)| !**is_key);
    let bits = out.len();
    out.resize(bits + values().count().div_ceil(8), 0);
    for (i, (field, _)) in values().enumerate() {
        if field.is_null() {
            out[bits + i / 8] |= 1 << (i % 8);
        }
    }
    for (field, _) in values() {
        put(&mut out, field);
    }
    out
}

fn put(out: &mut Vec<u8>, field: &Field) {
    match field {
        Field::Null => {}
        Field::U64(n) => put_varint(out, *n),
        Field::I64(n) => put_signed(out, *n),
        Field::Decimal(n) => put_signed(out, n.units),
        Field::F64(n) => out.extend_from_slice(&n.to_le_bytes()),
        Field::Bool(is) => out.push(u8::from(*is)),
        Field::Text(text) => put_bytes(out, text.as_bytes()),
        Field::Bytes(bytes) => put_bytes(out, bytes),
    }
}

fn put_signed(out: &mut Vec<u8>, n: i64) {
    // The sign in the lowest bit, so that small negative numbers are short.
    put_varint(out, ((n << 1) ^ (n >> 63)).cast_unsigned());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// How many columns the table had when this value was written, if it says so.
pub(crate) fn columns(bytes: &[u8]) -> Option<usize> {
    match bytes.first() {
        Some(&VERSION) => varlen(bytes, &mut 1),
        _ => None,
    }
}

/// Reads a value into `row`, which has the columns of the key already.
pub(crate) fn decode(
    bytes: &[u8],
    (columns, is_key): (&[Column], &[bool]),
    row: &mut [Field],
) -> Result<(), Flaw> {
    let short = |at: usize, what: &str| Flaw::new(at, what, "the end, or a number too large");
    let version = *bytes.first().ok_or_else(|| short(0, "a version"))?;
    if version != VERSION {
        return Err(Flaw::new(0, VERSION, version));
    }
    let mut at = 1;
    let count = varlen(bytes, &mut at).ok_or_else(|| short(1, "a number of columns"))?;
    if count > columns.len() {
        return Err(Flaw::new(
            1,
            format!("at most {} columns", columns.len()),
            count,
        ));
    }
    // Columns that came later are nullable.
    let missing = |column: &usize| !is_key[*column] && !columns[*column].is_nullable;
    if let Some(column) = (count..columns.len()).find(missing) {
        let name = &columns[column].name;
        return Err(Flaw::new(1, format!("a value of column '{name}'"), "none"));
    }
    let values = || (0..count).filter(|column| !is_key[*column]);
    let bits = at;
    at += values().count().div_ceil(8);
    let nulls = bytes.get(bits..at);
    let nulls = nulls.ok_or_else(|| short(bits, "a bit for each column"))?;
    let is_null = |i: usize| nulls[i / 8] >> (i % 8) & 1 == 1;
    if (values().count()..8 * nulls.len()).any(is_null) {
        return Err(Flaw::new(
            bits,
            "zeros behind the last column's bit",
            "ones",
        ));
    }
    for (i, column) in values().enumerate() {
        row[column] = match is_null(i) {
            false => value(bytes, &mut at, &columns[column])?,
            true if columns[column].is_nullable => Field::Null,
            true => {
                let name = &columns[column].name;
                return Err(Flaw::new(
                    bits,
                    format!("a value of column '{name}'"),
                    "NULL",
                ));
            }
        };
    }
    match bytes.len() - at {
        0 => Ok(()),
        more => Err(Flaw::new(at, "the end", format!("{more} bytes more"))),
    }
}

fn value(bytes: &[u8], at: &mut usize, column: &Column) -> Result<Field, Flaw> {
    let begin = *at;
    let flaw = |got: &str| Flaw::new(begin, format!("{} '{}'", column.kind, column.name), got);
    let short = || flaw("the end, or a number too large");
    Ok(match column.kind {
        Type::U64 => Field::U64(varint(bytes, at).ok_or_else(short)?),
        Type::I64 => Field::I64(signed(bytes, at).ok_or_else(short)?),
        Type::Decimal(scale) => {
            Field::Decimal(Decimal::new(signed(bytes, at).ok_or_else(short)?, scale))
        }
        Type::F64 => {
            let eight = bytes.get(*at..).and_then(<[u8]>::first_chunk::<8>);
            let n = f64::from_le_bytes(*eight.ok_or_else(short)?);
            *at += 8;
            if n.is_nan() || (n == 0.0 && n.is_sign_negative()) {
                return Err(flaw("NaN or -0"));
            }
            Field::F64(n)
        }
        Type::Bool => {
            let byte = *bytes.get(*at).ok_or_else(short)?;
            *at += 1;
            match byte {
                0 => Field::Bool(false),
                1 => Field::Bool(true),
                other => return Err(flaw(&other.to_string())),
            }
        }
        Type::Bytes => Field::Bytes(long(bytes, at).ok_or_else(short)?),
        Type::Text => {
            let text = String::from_utf8(long(bytes, at).ok_or_else(short)?);
            Field::Text(text.map_err(|_| flaw("bytes that are not UTF-8"))?)
        }
    })
}

fn signed(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let n = varint(bytes, at)?;
    Some((n >> 1).cast_signed() ^ -((n & 1).cast_signed()))
}

fn long(bytes: &[u8], at: &mut usize) -> Option<Vec<u8>> {
    let len = varlen(bytes, at)?;
    let value = bytes.get(*at..at.checked_add(len)?)?.to_vec();
    *at += len;
    Some(value)
}
