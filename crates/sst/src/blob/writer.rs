//! Writing a blob file.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::numbers::len32;
use thermocline_base::{BlobRef, CfId, Error, Result, limits};
use thermocline_env::meter::Meter;
use thermocline_env::{File, Storage};

use super::format::{RECORD_ALIGN, RecordHeader, Stored, encode_header};
use crate::compress::{Compression, Compressor, TAG_NONE};
use crate::identity::Identity;
use crate::output::{CHUNK_BYTES, Output};
use crate::sites;

/// A finished blob file: what an edit needs to name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobMeta {
    /// Database and file.
    pub identity: Identity,
    /// Bytes of the file.
    pub bytes: u64,
    /// Values in it.
    pub values: u64,
    /// Their bytes, as stored.
    pub value_bytes: u64,
}

/// Appends values to a blob file.
pub struct BlobWriter {
    out: Output,
    compressor: Compressor,
    identity: Identity,
    values: u64,
    value_bytes: u64,
}

impl BlobWriter {
    /// Makes the file `path`, which must not exist.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(storage: &dyn Storage, path: &Path, identity: Identity) -> Result<BlobWriter> {
        let mut out = Output::create(storage, path, CHUNK_BYTES)?;
        out.append(&encode_header(&identity))?;
        Ok(BlobWriter {
            out,
            compressor: Compressor::plain(),
            identity,
            values: 0,
            value_bytes: 0,
        })
    }

    /// The same, with values of at most 1 MiB compressed where that makes them an eighth smaller.
    ///
    /// # Errors
    /// As [`crate::TableWriter::create`] of the compression.
    pub fn compressed(self, compression: Compression) -> Result<BlobWriter> {
        compression.validate()?;
        Ok(BlobWriter {
            compressor: Compressor::new(compression)?,
            ..self
        })
    }

    /// The same; `meter` counts from now on how long writing takes.
    #[must_use]
    pub fn metered(mut self, meter: Arc<Meter>) -> BlobWriter {
        self.out.metered(meter);
        self
    }

    /// The same, with the file that `wrap` makes of its own. Nothing of it is written yet.
    #[must_use]
    pub fn through(mut self, wrap: impl FnOnce(Arc<dyn File>) -> Arc<dyn File>) -> BlobWriter {
        self.out.wrap(wrap);
        self
    }

    /// Appends the value of `key` of the family `cf`. The reference may be used once
    /// [`BlobWriter::sync`] or [`BlobWriter::finish`] has returned.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if key or value are over the limits, [`Error::Poisoned`] if an
    /// earlier call failed, those of the file system.
    pub fn append(&mut self, cf: CfId, key: &[u8], value: &[u8]) -> Result<BlobRef> {
        self.out.check()?;
        for (what, len, max) in [
            ("key", key.len(), limits::KEY_LEN_MAX),
            ("value", value.len(), limits::VALUE_LEN_MAX),
        ] {
            if len > max {
                let text = format!("a {what} has at most {max} bytes, not {len}");
                return Err(Error::InvalidArgument(text));
            }
        }
        let offset = self.out.len();
        let seed = self.identity.blob_seed();
        let small;
        let mut stored = Stored {
            bytes: value,
            codec: TAG_NONE,
            raw_len: value.len(),
        };
        // A longer one is not copied.
        if value.len() <= limits::VALUE_INLINE_MAX {
            (small, stored.codec) = self.compressor.compress(value);
            stored.bytes = &small;
        }
        let header = RecordHeader::encode((cf, key), stored, (seed, offset));
        self.out.append(&header)?;
        self.out.append(stored.bytes)?;
        self.out.append(key)?;
        let end = self.out.len();
        let padding = end.next_multiple_of(RECORD_ALIGN) - end;
        self.out
            .pad(usize::try_from(padding).expect("less than eight"))?;
        self.values += 1;
        self.value_bytes += stored.bytes.len() as u64;
        Ok(BlobRef {
            file: self.identity.file,
            offset,
            len: len32(stored.bytes.len()),
        })
    }

    /// Bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        self.out.len()
    }

    /// About how many bytes of memory it takes now.
    pub fn memory(&self) -> u64 {
        (size_of::<BlobWriter>() + self.out.memory()) as u64 + self.compressing()
    }

    /// Bytes of that which compress values, and are never written.
    pub fn compressing(&self) -> u64 {
        self.compressor.memory() as u64
    }

    /// Makes all values so far durable; more may follow. The name is the caller's, as with
    /// [`crate::TableWriter::finish`].
    ///
    /// # Errors
    /// [`Error::Poisoned`] if an earlier call failed, those of the file system. After one, what was
    /// appended since the last sync must not be referred to.
    pub fn sync(&mut self) -> Result<()> {
        self.out.sync(sites::BLOBS_WRITTEN)
    }

    /// Makes all values durable.
    ///
    /// # Errors
    /// As [`BlobWriter::sync`].
    pub fn finish(mut self) -> Result<BlobMeta> {
        self.sync()?;
        Ok(BlobMeta {
            identity: self.identity,
            bytes: self.out.len(),
            values: self.values,
            value_bytes: self.value_bytes,
        })
    }
}
