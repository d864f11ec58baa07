//! Options of partitions.

use super::{DIVISIONS, OptionRow, Options, Unit};
use crate::CfOptions;
use crate::error::{Error, Result};
use crate::limits;
use crate::size::format_size;

option_group! {
    /// Options of partitions, which divide the keys of each column family (design §10).
    PartitionOptions, "partition" {
        /// By what keys are divided. `size`: a partition that has grown past `partition.bytes` on the SSD is
        /// split, and neighbours that have shrunk to a quarter of it together are merged. `prefix`: each
        /// prefix of `partition.prefix_len` bytes that a flush meets gets a partition. `keys`: at
        /// `partition.keys`. Whatever partitions there are already stay.
        by: Division = 0, 0 => 3;
        /// Bytes on the SSD past which a partition is split. 0 derives it: 32 tables.
        bytes: Bytes = 0, 0 => 1 << 60;
        /// Bytes of a key that say which partition it belongs to. A shorter key makes none.
        prefix_len: Count = 8, 1 => 255;
        /// One read in so many, chosen at random, is counted for how often each partition is read; 0 counts none.
        rate_sample: Count = 64, 0 => 65_536;
    }
}

/// By what keys are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionBy {
    /// By nothing.
    None,
    /// By how much lies where.
    Size,
    /// By their first bytes.
    Prefix,
    /// At given keys.
    Keys,
}

impl PartitionBy {
    const ALL: [PartitionBy; 4] = [
        PartitionBy::None,
        PartitionBy::Size,
        PartitionBy::Prefix,
        PartitionBy::Keys,
    ];

    /// Its word, as `partition.by` takes it.
    pub fn name(self) -> &'static str {
        DIVISIONS[self as usize]
    }

    /// That of this word.
    pub fn named(word: &str) -> Option<PartitionBy> {
        Self::ALL.into_iter().find(|by| by.name() == word)
    }
}

impl PartitionOptions {
    /// By what keys are divided.
    pub fn by(&self) -> PartitionBy {
        let place = usize::try_from(self.by).unwrap_or(usize::MAX);
        PartitionBy::ALL
            .get(place)
            .copied()
            .unwrap_or(PartitionBy::Keys)
    }
}

/// How the keys of one family are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Division {
    /// By what.
    pub by: PartitionBy,
    /// Bytes on the SSD past which a partition is split.
    pub bytes: u64,
    /// Bytes of a prefix.
    pub prefix_len: usize,
}

/// Bytes of all keys at which families are divided, at most: an edit of the manifest names those of a family, and
/// another one has them as text, four characters for a byte.
const KEYS_BYTES_MAX: usize = 4 << 20;

/// A partition is not smaller than so many tables, so that some end within it.
const TABLES_MIN: u64 = 4;

impl Options {
    /// Bytes on the SSD past which a partition is split.
    pub fn partition_bytes(&self) -> u64 {
        match self.partition.bytes {
            0 => self.table_bytes().saturating_mul(32),
            bytes => bytes,
        }
    }

    /// How a family of these options is divided. What does not fit the tables of today, where it did once,
    /// is made to.
    pub fn division(&self, own: &CfOptions) -> Division {
        let least = self.table_bytes().saturating_mul(TABLES_MIN);
        let bytes = own.partition_bytes.filter(|bytes| *bytes > 0);
        let len = own
            .partition_prefix_len
            .unwrap_or(self.partition.prefix_len);
        Division {
            by: own.partition_by.unwrap_or(self.partition.by()),
            bytes: bytes.unwrap_or(self.partition_bytes()).max(least),
            prefix_len: usize::try_from(len).unwrap_or(usize::MAX),
        }
    }

    /// Whether a family can be made with these options.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], as for the database's own.
    pub fn check_division(&self, own: &CfOptions) -> Result<()> {
        let mut with = self.clone();
        if let Some(by) = own.partition_by {
            with.partition.by = by as u64;
        }
        with.partition.bytes = own.partition_bytes.unwrap_or(self.partition.bytes);
        if let Some(len) = own.partition_prefix_len {
            with.set("partition.prefix_len", &len.to_string())?;
        }
        with.validate_partitions()
    }

    pub(super) fn validate_partitions(&self) -> Result<()> {
        let refused = |why: String| Err(Error::InvalidArgument(why));
        let least = self.table_bytes().saturating_mul(TABLES_MIN);
        let by = self.partition.by();
        if by == PartitionBy::Size && self.partition_bytes() < least {
            return refused(format!(
                "partition.bytes is at least {}, which is {TABLES_MIN} tables; {} was given",
                format_size(least),
                format_size(self.partition_bytes())
            ));
        }
        if by == PartitionBy::Keys && self.partition_keys.is_empty() {
            return refused("partition.by=keys needs partition.keys".into());
        }
        check_keys(&self.partition_keys)
    }
}

fn check_keys(keys: &[Vec<u8>]) -> Result<()> {
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
            format_size(KEYS_BYTES_MAX as u64),
            format_size(bytes as u64)
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

/// Keys as `partition.keys` has them: with commas between, and what is no printable ASCII escaped
/// as in a byte string of Rust; a comma within a key is `\x2c`.
pub(super) fn print_keys(keys: &[Vec<u8>]) -> String {
    let shown = |key: &Vec<u8>| key.escape_ascii().to_string().replace(',', "\\x2c");
    keys.iter().map(shown).collect::<Vec<_>>().join(",")
}

/// Reads what [`print_keys`] gives. Nothing is no key.
pub(super) fn parse_keys(text: &str) -> Result<Vec<Vec<u8>>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Result<Vec<Vec<u8>>> = text.split(',').map(unescape).collect();
    let keys = keys?;
    check_keys(&keys)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back_whatever_bytes_they_have() {
        let all: Vec<u8> = (0..=255).collect();
        let mut keys = vec![b"a,b".to_vec(), all, b"\\x2c".to_vec(), vec![0xff, 0xfe]];
        keys.sort();
        let mut options = Options::default();
        options.set("partition.by", "keys").unwrap();
        options.set("partition.keys", &print_keys(&keys)).unwrap();
        assert_eq!(options.partition_keys, keys);
        options.validate().unwrap();
        let mut again = Options::default();
        for (name, value) in options.effective() {
            again.set(name, &value).unwrap();
        }
        assert_eq!(again, options);
        options.set("partition.keys", "").unwrap();
        assert!(options.partition_keys.is_empty());
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        let mut options = Options::default();
        let long = "k".repeat(limits::KEY_LEN_MAX + 1);
        for (name, value, says) in [
            ("partition.by", "hash", "none, size, prefix or keys"),
            ("partition.keys", "b,a", "ascend"),
            ("partition.keys", "a,a", "ascend"),
            ("partition.keys", ",a", "1 to 65535 bytes; one has 0"),
            ("partition.keys", &long, "one has 65536"),
            ("partition.keys", "a\\q", "behind a backslash"),
            ("partition.keys", "a\\x4", "behind a backslash"),
            ("partition.keys", "a\\x+4", "behind a backslash"),
            ("partition.prefix_len", "0", "between 1 and 255"),
            ("partition.prefix_len", "256", "between 1 and 255"),
        ] {
            let error = options.set(name, value).unwrap_err().to_string();
            assert!(error.contains(says), "{name}={value}: {error}");
        }
        assert_eq!(options, Options::default());
        let with = |settings: &[(&str, &str)]| {
            let mut options = Options::default();
            for (name, value) in settings {
                options.set(name, value).unwrap();
            }
            options.validate().map_err(|error| error.to_string())
        };
        let error = with(&[("partition.by", "keys")]).unwrap_err();
        assert!(error.contains("needs partition.keys"), "{error}");
        let small = [("partition.by", "size"), ("partition.bytes", "1MiB")];
        let error = with(&small).unwrap_err();
        assert!(error.contains("4 tables"), "{error}");
        with(&[("partition.by", "size")]).unwrap();
        with(&small[1..]).unwrap();
        with(&[("partition.by", "prefix"), ("partition.prefix_len", "4")]).unwrap();
        // More than an edit has room for as text, though each is short enough.
        let key = |n: u16| [&n.to_be_bytes()[..], &[0; 60_000]].concat();
        let long = Options {
            partition_keys: (0..100).map(key).collect(),
            ..Options::default()
        };
        let error = long.validate().unwrap_err().to_string();
        assert!(error.contains("at most 4 MiB together"), "{error}");
    }
}
