//! The schema at rest.
//!
//! ```text
//! version: 1 (1)
//! generation (varint)
//! columns (varint), each: name, type (1), digits behind the point (1; 0 but for decimals), nullable (1)
//! columns of the primary key (varint), the number of each (varint)
//! indexes (varint), each: name, space (1), unique (1), state (1), columns (varint), the number of each (varint)
//! CRC-32C of all before it (4)
//! ```
//!
//! A name is its length (varint) and UTF-8. Types: 1 i64, 2 u64, 3 f64, 4 decimal, 5 bool, 6 text, 7 bytes. States:
//! 1 building, 2 ready, 3 dropping.

use thermocline_base::varint::{put_varint, varint, varlen};

use crate::field::{DECIMAL_SCALE_MAX, Type};
use crate::format::{Flaw, INDEX_FIRST, INDEX_LAST};
use crate::schema::{COLUMNS_MAX, Column, INDEXES_MAX, NAME_LEN_MAX};

const VERSION: u8 = 1;

/// The state of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Writes maintain it; rows from before may be missing.
    Building = 1,
    /// Every row has its entry.
    Ready = 2,
    /// Nobody reads or writes it; its entries go.
    Dropping = 3,
}

/// An index, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredIndex {
    pub name: String,
    /// The first byte of its entries' keys.
    pub space: u8,
    pub is_unique: bool,
    pub state: State,
    pub columns: Vec<usize>,
}

/// A schema, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub generation: u64,
    pub columns: Vec<Column>,
    pub key: Vec<usize>,
    pub indexes: Vec<StoredIndex>,
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    put_varint(out, name.len() as u64);
    out.extend_from_slice(name.as_bytes());
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[usize]) {
    put_varint(out, numbers.len() as u64);
    for number in numbers {
        put_varint(out, *number as u64);
    }
}

fn type_bytes(kind: Type) -> [u8; 2] {
    match kind {
        Type::I64 => [1, 0],
        Type::U64 => [2, 0],
        Type::F64 => [3, 0],
        Type::Decimal(scale) => [4, scale],
        Type::Bool => [5, 0],
        Type::Text => [6, 0],
        Type::Bytes => [7, 0],
    }
}

fn type_of(bytes: [u8; 2]) -> Option<Type> {
    Some(match bytes {
        [1, 0] => Type::I64,
        [2, 0] => Type::U64,
        [3, 0] => Type::F64,
        [4, scale] if scale <= DECIMAL_SCALE_MAX => Type::Decimal(scale),
        [5, 0] => Type::Bool,
        [6, 0] => Type::Text,
        [7, 0] => Type::Bytes,
        _ => return None,
    })
}

impl Stored {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.generation);
        put_varint(&mut out, self.columns.len() as u64);
        for column in &self.columns {
            put_name(&mut out, &column.name);
            out.extend_from_slice(&type_bytes(column.kind));
            out.push(u8::from(column.is_nullable));
        }
        put_numbers(&mut out, &self.key);
        put_varint(&mut out, self.indexes.len() as u64);
        for index in &self.indexes {
            put_name(&mut out, &index.name);
            out.push(index.space);
            out.push(u8::from(index.is_unique));
            out.push(index.state as u8);
            put_numbers(&mut out, &index.columns);
        }
        let sum = crc(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads it.
    pub fn decode(bytes: &[u8]) -> Result<Stored, Flaw> {
        let (content, sum) = bytes
            .split_last_chunk::<4>()
            .ok_or_else(|| Flaw::new(0, "a schema", format!("{} bytes", bytes.len())))?;
        let (stored, counted) = (u32::from_le_bytes(*sum), crc(content));
        if stored != counted {
            return Err(Flaw::new(content.len(), counted, stored));
        }
        let mut reader = Parser {
            bytes: content,
            at: 0,
        };
        let version = reader.byte(&[VERSION])?;
        debug_assert_eq!(version, VERSION);
        let generation = reader.number()?;
        let columns = (0..reader.len(COLUMNS_MAX)?)
            .map(|_| reader.column())
            .collect::<Result<Vec<_>, _>>()?;
        let key = reader.numbers(columns.len())?;
        let indexes = (0..reader.len(INDEXES_MAX)?)
            .map(|_| reader.index(columns.len()))
            .collect::<Result<Vec<_>, _>>()?;
        if reader.at != content.len() {
            return Err(Flaw::new(reader.at, "the end", "more bytes"));
        }
        Ok(Stored {
            generation,
            columns,
            key,
            indexes,
        })
    }
}

fn crc(bytes: &[u8]) -> u32 {
    thermocline_base::checksum::crc32c(0, bytes)
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn flaw(&self, expected: impl ToString, got: impl ToString) -> Flaw {
        Flaw::new(self.at, expected, got)
    }

    /// A byte that is one of these; any byte if the list is empty.
    fn byte(&mut self, of: &[u8]) -> Result<u8, Flaw> {
        let byte = self.bytes.get(self.at).copied();
        let byte = byte.ok_or_else(|| self.flaw("a byte", "the end"))?;
        if !of.is_empty() && !of.contains(&byte) {
            return Err(self.flaw(format!("one of {of:?}"), byte));
        }
        self.at += 1;
        Ok(byte)
    }

    fn flag(&mut self) -> Result<bool, Flaw> {
        Ok(self.byte(&[0, 1])? == 1)
    }

    fn number(&mut self) -> Result<u64, Flaw> {
        let mut at = self.at;
        let n = varint(self.bytes, &mut at).ok_or_else(|| self.flaw("a number", "none"))?;
        self.at = at;
        Ok(n)
    }

    fn len(&mut self, most: usize) -> Result<usize, Flaw> {
        let mut at = self.at;
        let n = varlen(self.bytes, &mut at).ok_or_else(|| self.flaw("a number", "none"))?;
        if n > most {
            return Err(self.flaw(format!("at most {most}"), n));
        }
        self.at = at;
        Ok(n)
    }

    /// Numbers of columns out of `count`: at least one, and none twice.
    fn numbers(&mut self, count: usize) -> Result<Vec<usize>, Flaw> {
        let begin = self.at;
        let len = self.len(count)?;
        let mut numbers = Vec::with_capacity(len);
        for _ in 0..len {
            let at = self.at;
            let n = self.len(count)?;
            if n == count || numbers.contains(&n) {
                return Err(Flaw::new(at, "the number of another column", n));
            }
            numbers.push(n);
        }
        match numbers.is_empty() {
            true => Err(Flaw::new(begin, "at least one column", "none")),
            false => Ok(numbers),
        }
    }

    fn name(&mut self) -> Result<String, Flaw> {
        let len = self.len(NAME_LEN_MAX)?;
        let bytes = self.bytes.get(self.at..self.at + len);
        let bytes = bytes.ok_or_else(|| self.flaw("a name", "the end"))?;
        let name = String::from_utf8(bytes.to_vec());
        let name = name.map_err(|_| self.flaw("a name in UTF-8", "other bytes"))?;
        self.at += len;
        Ok(name)
    }

    fn column(&mut self) -> Result<Column, Flaw> {
        let name = self.name()?;
        let at = self.at;
        let kind = [self.byte(&[])?, self.byte(&[])?];
        let kind =
            type_of(kind).ok_or_else(|| Flaw::new(at, "a type of columns", format!("{kind:?}")))?;
        let is_nullable = self.flag()?;
        Ok(Column {
            name,
            kind,
            is_nullable,
        })
    }

    fn index(&mut self, columns: usize) -> Result<StoredIndex, Flaw> {
        let name = self.name()?;
        let at = self.at;
        let space = self.byte(&[])?;
        if !(INDEX_FIRST..=INDEX_LAST).contains(&space) {
            return Err(Flaw::new(at, "a space from 2 to 254", space));
        }
        let is_unique = self.flag()?;
        let states = [State::Building, State::Ready, State::Dropping];
        let state = self.byte(&states.map(|state| state as u8))?;
        Ok(StoredIndex {
            name,
            space,
            is_unique,
            state: states[usize::from(state) - 1],
            columns: self.numbers(columns)?,
        })
    }
}
