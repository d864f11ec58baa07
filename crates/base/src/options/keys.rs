//! The keys of `partition.keys`, and their text.

use crate::error::{Error, Result};
use crate::limits;
use crate::size::format_given;

/// Bytes of all keys at which families are divided, at most: an edit of the manifest names those of a family, and
/// another one has them as text, four characters for a byte.
const KEYS_BYTES_MAX: usize = 4 << 20;

/// Checks that keys can be those of `partition.keys`.
pub(super) fn check(keys: &[Vec<u8>]) -> Result<()> {
    let refused = |why: String| Err(Error::InvalidArgument(why));
    let most = limits::PARTITIONS_MAX - 1;
    if keys.len() > most {
        return refused(format!(
            "partition.keys has at most {most} keys; {} were given",
            keys.len()
        ));
    }
    if !keys.is_sorted_by(|a, b| a < b) {
        return refused("the keys of partition.keys ascend, and none stands there twice".into());
    }
    let bytes: usize = keys.iter().map(Vec::len).sum();
    if bytes > KEYS_BYTES_MAX {
        return refused(format!(
            "the keys of partition.keys have at most {} together; {} were given",
            format_given(KEYS_BYTES_MAX as u64),
            format_given(bytes as u64)
        ));
    }
    let most = limits::KEY_LEN_MAX;
    match keys.iter().find(|key| !(1..=most).contains(&key.len())) {
        Some(key) => refused(format!(
            "a key of partition.keys has 1 to {most} bytes; one has {}",
            key.len()
        )),
        None => Ok(()),
    }
}

/// Prints keys as `partition.keys` has them: with commas between, and with all but printable ASCII escaped as in a
/// byte string of Rust; a comma within a key is `\x2c`.
pub(super) fn print(keys: &[Vec<u8>]) -> String {
    let shown = |key: &Vec<u8>| key.escape_ascii().to_string().replace(',', "\\x2c");
    keys.iter().map(shown).collect::<Vec<_>>().join(",")
}

/// Reads what [`print`](fn@print) gives. An empty text has no keys.
pub(super) fn parse(text: &str) -> Result<Vec<Vec<u8>>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Result<Vec<Vec<u8>>> = text.split(',').map(unescape).collect();
    let keys = keys?;
    check(&keys)?;
    Ok(keys)
}

fn unescape(text: &str) -> Result<Vec<u8>> {
    let bad = || {
        Error::InvalidArgument(format!(
            "'{text}' is no key of partition.keys: behind a backslash comes one more, a quotation mark, n, r, \
             t, or x and two hexadecimal digits"
        ))
    };
    let mut key = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            key.push(byte);
            continue;
        }
        key.push(match bytes.next() {
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(byte @ (b'\\' | b'\'' | b'"')) => byte,
            Some(b'x') => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(bytes.next()), digit(bytes.next()));
                let value = high.zip(low).map(|(high, low)| high * 16 + low);
                let value = value.and_then(|value| u8::try_from(value).ok());
                value.ok_or_else(bad)?
            }
            _ => return Err(bad()),
        });
    }
    Ok(key)
}
