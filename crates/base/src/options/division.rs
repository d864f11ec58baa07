//! How the keys of a family are divided into partitions.

use std::num::NonZeroU8;

use crate::CfOptions;
use crate::error::{Error, Result};
use crate::options::all::Options;
use crate::options::keys;
use crate::options::partition_by::PartitionBy;
use crate::size::format_given;

/// The division of the keys of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Division {
    /// The kind of division.
    pub by: PartitionBy,
    /// Bytes on the SSD past which a partition is split.
    pub bytes: u64,
    /// Bytes of a prefix.
    pub prefix_len: usize,
}

impl Division {
    /// How many bytes the prefixes have that the filters of tables have beside keys: those that divide the keys.
    pub fn filter_prefix(&self) -> Option<NonZeroU8> {
        let by_prefix = self.by == PartitionBy::Prefix;
        let len = u8::try_from(self.prefix_len).ok();
        len.filter(|_| by_prefix).and_then(NonZeroU8::new)
    }
}

/// A partition is at least as large as this many tables, so that some end within it.
const TABLES_MIN: u64 = 4;

impl Options {
    /// Bytes on the SSD past which a partition is split.
    pub fn partition_bytes(&self) -> u64 {
        match self.partition.bytes {
            0 => self.table_bytes().saturating_mul(32),
            bytes => bytes,
        }
    }

    /// The division of a family with these options. A value that fitted the tables of an earlier opening, and does
    /// not fit today's, is made to fit.
    pub fn division(&self, own: &CfOptions) -> Division {
        let least = self.table_bytes().saturating_mul(TABLES_MIN);
        let bytes = own.partition_bytes.filter(|bytes| *bytes > 0);
        let len = own
            .partition_prefix_len
            .unwrap_or(self.partition.prefix_len);
        Division {
            by: own.partition_by.unwrap_or(self.partition.by),
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
            with.partition.by = by;
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
        let by = self.partition.by;
        if by == PartitionBy::Size && self.partition_bytes() < least {
            return refused(format!(
                "partition.bytes is at least {}, which is {TABLES_MIN} tables; {} was given",
                format_given(least),
                format_given(self.partition_bytes())
            ));
        }
        if by == PartitionBy::Keys && self.partition_keys.is_empty() {
            return refused("partition.by=keys needs partition.keys".into());
        }
        keys::check(&self.partition_keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    #[test]
    fn keys_are_read_back_whatever_bytes_they_have() {
        let all: Vec<u8> = (0..=255).collect();
        let mut keys = vec![b"a,b".to_vec(), all, b"\\x2c".to_vec(), vec![0xff, 0xfe]];
        keys.sort();
        let mut options = Options::default();
        options.set("partition.by", "keys").unwrap();
        options.set("partition.keys", &keys::print(&keys)).unwrap();
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
