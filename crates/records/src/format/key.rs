//! Keys that order as their tuples do.
//!
//! ```text
//! nullable column   0 for NULL; or 1 and the value
//! u64, bool         number of bytes n from 0 to 8 (1), n bytes, the highest first and not zero; bool is 0 or 1
//! i64, decimal      not negative: 0x10 + n (1), n bytes as above; else 0x0f - n (1), n bytes of -1 - value, inverted
//! f64               8 bytes, the highest first: sign bit inverted, or all bits if it was set
//! text, bytes       the bytes, 0 as 0 0xff, then 0 0
//! ```
//!
//! **Order.** Of two values of one type let the first differing byte be at `i`. Integers: a longer number is larger,
//! and its length comes first; negative numbers are the other way round. Text: if neither ended before `i`, bytes
//! decide; 0 0xff and a byte above 0 order as 0 and that byte do. If one ended at `i`, it has 0 0 there, and the
//! other has 0 0xff or more. So the shorter one is first, as it is in a comparison of bytes.
//!
//! **No value's bytes begin another's** of the same type: lengths come first, or 0 0 ends. So the first differing
//! column decides the order of tuples, and a tuple's bytes begin another's exactly if the tuple is a prefix of the
//! other.
//!
//! Each value has one form. The reader refuses all others, so equal tuples have equal keys.

use crate::field::{Decimal, Field, Type};
use crate::format::Flaw;
use crate::schema::Column;

const NULL: u8 = 0;
const VALUE: u8 = 1;
const NOT_NEGATIVE: u8 = 0x10;
const NEGATIVE: u8 = 0x0f;
const ESCAPED: u8 = 0xff;
const END: u8 = 0;
const SIGN: u64 = 1 << 63;

/// Appends a value that fits its column.
pub(crate) fn put(out: &mut Vec<u8>, column: &Column, field: &Field) {
    if column.is_nullable {
        out.push(if field.is_null() { NULL } else { VALUE });
    }
    match field {
        Field::Null => {}
        Field::U64(n) => put_number(out, *n, 0),
        Field::Bool(is) => put_number(out, u64::from(*is), 0),
        Field::I64(n) => put_signed(out, *n),
        Field::Decimal(n) => put_signed(out, n.units),
        Field::F64(n) => {
            let bits = n.to_bits();
            let ordered = if bits & SIGN == 0 { bits ^ SIGN } else { !bits };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        Field::Text(text) => put_bytes(out, text.as_bytes()),
        Field::Bytes(bytes) => put_bytes(out, bytes),
    }
}

/// The bytes of `n` that are not leading zeros.
fn significant(bytes: &[u8; 8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

fn len_byte(bytes: &[u8]) -> u8 {
    u8::try_from(bytes.len()).expect("a number has at most 8 bytes")
}

fn put_number(out: &mut Vec<u8>, n: u64, tag: u8) {
    let bytes = n.to_be_bytes();
    let bytes = significant(&bytes);
    out.push(tag + len_byte(bytes));
    out.extend_from_slice(bytes);
}

fn put_signed(out: &mut Vec<u8>, n: i64) {
    if n >= 0 {
        return put_number(out, n.unsigned_abs(), NOT_NEGATIVE);
    }
    let bytes = (!n).unsigned_abs().to_be_bytes();
    let bytes = significant(&bytes);
    out.push(NEGATIVE - len_byte(bytes));
    out.extend(bytes.iter().map(|byte| !byte));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        out.push(byte);
        if byte == END {
            out.push(ESCAPED);
        }
    }
    out.extend_from_slice(&[END, END]);
}

/// A place in a key.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { bytes, at }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    fn byte(&mut self, what: &str) -> Result<u8, Flaw> {
        let byte = self.bytes.get(self.at).copied();
        let byte = byte.ok_or_else(|| Flaw::new(self.at, what, "the end"))?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8], Flaw> {
        let bytes = self.bytes.get(self.at..self.at + len);
        let bytes = bytes.ok_or_else(|| Flaw::new(self.at, what, "the end"))?;
        self.at += len;
        Ok(bytes)
    }

    /// The value of a column.
    pub fn field(&mut self, column: &Column) -> Result<Field, Flaw> {
        if column.is_nullable {
            let at = self.at;
            match self.byte("0 (NULL) or 1 (a value)")? {
                NULL => return Ok(Field::Null),
                VALUE => {}
                other => return Err(Flaw::new(at, "0 (NULL) or 1 (a value)", other)),
            }
        }
        Ok(match column.kind {
            Type::U64 => Field::U64(self.unsigned()?),
            Type::Bool => {
                let at = self.at;
                match self.unsigned()? {
                    0 => Field::Bool(false),
                    1 => Field::Bool(true),
                    n => return Err(Flaw::new(at, "0 or 1", n)),
                }
            }
            Type::I64 => Field::I64(self.signed()?),
            Type::Decimal(scale) => Field::Decimal(Decimal::new(self.signed()?, scale)),
            Type::F64 => Field::F64(self.float()?),
            Type::Bytes => Field::Bytes(self.escaped()?),
            Type::Text => {
                let at = self.at;
                let text = String::from_utf8(self.escaped()?);
                Field::Text(text.map_err(|_| Flaw::new(at, "text in UTF-8", "other bytes"))?)
            }
        })
    }

    /// The number of `len` bytes, each combined with `mask`.
    fn number(&mut self, len: u8, mask: u8) -> Result<u64, Flaw> {
        let at = self.at;
        let bytes = self.take(usize::from(len), "a number")?;
        let n = bytes
            .iter()
            .fold(0, |n: u64, byte| n << 8 | u64::from(byte ^ mask));
        if bytes.first().is_some_and(|byte| byte ^ mask == 0) {
            return Err(Flaw::new(
                at,
                "a number in its shortest form",
                "a leading zero",
            ));
        }
        Ok(n)
    }

    fn unsigned(&mut self) -> Result<u64, Flaw> {
        let at = self.at;
        match self.byte("a length")? {
            len @ 0..=8 => self.number(len, 0),
            other => Err(Flaw::new(at, "a length from 0 to 8", other)),
        }
    }

    fn signed(&mut self) -> Result<i64, Flaw> {
        let at = self.at;
        let tag = self.byte("a sign and length")?;
        let (n, is_negative) = match tag {
            0x10..=0x18 => (self.number(tag - NOT_NEGATIVE, 0)?, false),
            0x07..=0x0f => (self.number(NEGATIVE - tag, 0xff)?, true),
            _ => return Err(Flaw::new(at, "a sign and length from 7 to 24", tag)),
        };
        let n = i64::try_from(n).map_err(|_| Flaw::new(at, "a number of 63 bits", n))?;
        Ok(if is_negative { !n } else { n })
    }

    fn float(&mut self) -> Result<f64, Flaw> {
        let at = self.at;
        let bytes = self.take(8, "8 bytes")?;
        let ordered = bytes
            .iter()
            .fold(0, |n: u64, byte| n << 8 | u64::from(*byte));
        let bits = if ordered & SIGN == 0 {
            !ordered
        } else {
            ordered ^ SIGN
        };
        let n = f64::from_bits(bits);
        if n.is_nan() || bits == SIGN {
            return Err(Flaw::new(at, "a number, and no -0", n));
        }
        Ok(n)
    }

    fn escaped(&mut self) -> Result<Vec<u8>, Flaw> {
        let mut out = Vec::new();
        loop {
            match self.byte("bytes that end with 0 0")? {
                END => {}
                byte => {
                    out.push(byte);
                    continue;
                }
            }
            let at = self.at;
            match self.byte("bytes that end with 0 0")? {
                END => return Ok(out),
                ESCAPED => out.push(0),
                other => return Err(Flaw::new(at, "0 or 0xff behind a 0", other)),
            }
        }
    }

    /// Nothing may follow.
    pub fn end(&self) -> Result<(), Flaw> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            more => Err(Flaw::new(self.at, "the end", format!("{more} bytes more"))),
        }
    }
}
