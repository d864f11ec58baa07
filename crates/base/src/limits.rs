//! Every limit of the public interface, one constant each. The API checks them and the documents
//! quote them from here. What is typed before there is a database can be checked here, too.

use crate::error::{Error, Result};

pub use crate::batch::check_key;

/// Longest key, in bytes. A key may be empty.
pub const KEY_LEN_MAX: usize = 65_535;

/// Longest value, in bytes.
pub const VALUE_LEN_MAX: usize = 256 << 20;

/// Longest value that a memtable or table holds itself, in bytes; a longer one lies in a blob file.
pub const VALUE_INLINE_MAX: usize = 1 << 20;

/// Most bytes (keys, values and headers) in one write batch.
pub const BATCH_BYTES_MAX: usize = 1 << 30;

/// Most column families that a database may have in its life. Their ids lie below; the last number
/// that an id could have is the engine's own.
pub const COLUMN_FAMILIES_MAX: usize = 65_535;

/// Most partitions of a column family.
pub const PARTITIONS_MAX: usize = 65_535;

/// Longest metadata of a column family, in bytes.
pub const METADATA_LEN_MAX: usize = 64 << 10;

/// Longest name of a column family, in bytes.
pub const CF_NAME_LEN_MAX: usize = 255;

/// Longest name of a prepared transaction, in bytes.
pub const PREPARED_NAME_LEN_MAX: usize = 64;

/// Longest operand of a merge, in bytes. A merged value may have [`VALUE_LEN_MAX`].
pub const MERGE_OPERAND_LEN_MAX: usize = 64 << 10;

/// Longest time to live of a column family, in seconds: 100 years.
pub const TTL_SECONDS_MAX: u64 = 100 * 31_557_600;

/// Longest name of a merge operator, in bytes.
pub const MERGE_NAME_LEN_MAX: usize = 64;

/// Memtables at a time: a region has room for so many descriptors.
pub const MEMTABLES_MAX: u32 = 64;

/// Checks the name of a column family against its limit.
///
/// # Errors
/// [`Error::InvalidArgument`] with the limit and the length.
pub fn check_family_name(name: &str) -> Result<()> {
    match (1..=CF_NAME_LEN_MAX).contains(&name.len()) {
        true => Ok(()),
        false => Err(Error::InvalidArgument(format!(
            "the name of a column family has 1 to {CF_NAME_LEN_MAX} bytes; this one has {}",
            name.len()
        ))),
    }
}
