//! How a table is written.

use std::num::NonZeroU8;

use thermocline_base::{Error, IndexKind, Result};

use crate::compress::Compression;
use crate::format::RUN_LEN_MAX;
use crate::properties::Creation;

/// How a table is written. Per table: the caller decides by level.
///
/// ```
/// use thermocline_sst::{Compression, WriteOptions};
/// let options = WriteOptions { compression: Compression::Lz4, ..WriteOptions::default() };
/// assert!(options.validate().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Bytes that a data block may take as stored without compression, trailer included; a block with
    /// a single larger entry takes more. 64 to 1 MiB, default 4 KiB.
    pub block_bytes: usize,
    /// Bytes that an index block may take as stored without compression, trailer included; one of few
    /// long keys takes more. An index that needs more has two levels. 64 to 1 MiB, default 4 KiB.
    pub index_block_bytes: usize,
    /// Which index it has, if that fits (see [`crate::IndexUse`]). Default: a binary one.
    pub index: IndexKind,
    /// Entries from one restart point to the next in data blocks. 1 to 128, default 16.
    pub restart_interval: u16,
    /// How blocks are compressed. Default: not.
    pub compression: Compression,
    /// Whether a filter is built. Default: yes.
    pub filter: bool,
    /// How many bytes the prefixes have that the filter has beside keys, so that a range of keys that begin alike can be
    /// denied ([`crate::Table::denied_prefix`]). Default: it has none.
    pub prefix_len: Option<NonZeroU8>,
    /// Why the table is made.
    pub creation: Creation,
    /// Bytes that are collected before they are written: memory, against calls of the file system. A
    /// multiple of 4 KiB from 64 KiB to 16 MiB, default 256 KiB.
    pub write_bytes: usize,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions {
            block_bytes: 4 << 10,
            index_block_bytes: 4 << 10,
            index: IndexKind::Binary,
            restart_interval: 16,
            compression: Compression::None,
            filter: true,
            prefix_len: None,
            creation: Creation::Flush,
            write_bytes: 256 << 10,
        }
    }
}

impl WriteOptions {
    /// The same, with prefixes of so many bytes in the filter.
    #[must_use]
    pub fn with_prefixes(self, prefix_len: Option<NonZeroU8>) -> WriteOptions {
        WriteOptions { prefix_len, ..self }
    }

    /// Refuses nonsense.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the option, its value and the limits.
    pub fn validate(&self) -> Result<()> {
        let sizes = [
            ("block_bytes", self.block_bytes),
            ("index_block_bytes", self.index_block_bytes),
        ];
        for (name, bytes) in sizes {
            if !(64..=1 << 20).contains(&bytes) {
                return Err(Error::InvalidArgument(format!(
                    "{name} of a table is {bytes}, but must be from 64 to 1048576"
                )));
            }
        }
        let bytes = self.write_bytes;
        if !(64 << 10..=16 << 20).contains(&bytes) || !bytes.is_multiple_of(4096) {
            return Err(Error::InvalidArgument(format!(
                "write_bytes of a table is {bytes}, but must be a multiple of 4096 from 65536 to \
                 16777216"
            )));
        }
        let interval = usize::from(self.restart_interval);
        if !(1..=RUN_LEN_MAX).contains(&interval) {
            return Err(Error::InvalidArgument(format!(
                "restart_interval of a table is {interval}, but must be from 1 to {RUN_LEN_MAX}"
            )));
        }
        self.compression.validate()
    }
}
