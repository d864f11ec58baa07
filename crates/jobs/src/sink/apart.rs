//! Values that lie apart from the tables of a job: in blob files that it writes beside them.
//!
//! # Which values
//! - *Long ones* go into a blob file when they are first written into a table on the SSD. From then on tables have references,
//!   and what is compacted again is those.
//! - *Those of files that are collected* ([`Apart::victims`]) move out of them: into a new file, or into the table if they
//!   are no longer than what lies there now.
//!
//! # The argument
//! A reference is in a table before its blob file is durable. Nobody reads that table yet: the job's edit names both,
//! blob files first, and comes when all files of the job are durable, and their names ([crate], invariant 1). A job
//! that fails leaves files that nobody names: they are pinned until then, and what is neither pinned nor named goes. A
//! value that moves keeps key, seqno and kind, so that no reader can tell. A reader that still has the old reference
//! holds a version that names its file.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use thermocline_base::limits::VALUE_INLINE_MAX;
use thermocline_base::numbers::len_of;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{BlobRef, CfId, FileId, Kind, Result};
use thermocline_catalog::Catalog;
use thermocline_exec::{Behind, PIECES_MAX};
use thermocline_sst::{BlobWriter, Compression, Value};
use thermocline_tables::{ValuesInOrder, Writes};
use thermocline_version::FileKind;

use crate::outputs::Outputs;

/// What lies apart, and how.
#[derive(Clone)]
pub struct Apart<'a> {
    /// A put of a value of so many bytes lies apart.
    pub bytes_min: usize,
    /// A longer value that lay apart stays apart, whatever its kind.
    pub inline_max: usize,
    /// How values are compressed.
    pub compression: Compression,
    /// A blob file ends with the value with which it has so many bytes.
    pub file_bytes: u64,
    /// Values in these files move, ascending.
    pub victims: Vec<FileId>,
    /// Whose writes they are.
    pub writes: Writes,
    /// Reads what moves.
    pub read: &'a ValuesInOrder<'a>,
}

/// Writes the blob files beside the tables of one family.
pub(super) struct Aside<'a> {
    apart: Apart<'a>,
    /// The file at hand.
    file: Option<Begun>,
    /// A value that came back into its table.
    inline: Vec<u8>,
}

/// A blob file that was begun, and the same, if it is written behind.
type Begun = (BlobWriter, Option<Arc<Behind>>);

impl<'a> Aside<'a> {
    pub fn new(apart: Apart<'a>) -> Aside<'a> {
        Aside {
            apart,
            file: None,
            inline: Vec::new(),
        }
    }

    /// What the table has as the value of an entry.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn place<'v>(
        &'v mut self,
        catalog: &Catalog,
        (cf, key, kind): (CfId, &[u8], Kind),
        value: Value<'v>,
        outputs: &mut Outputs,
    ) -> Result<Value<'v>> {
        match value {
            Value::Inline(bytes) if kind == Kind::Put && bytes.len() >= self.apart.bytes_min => {
                let blob = self.write(catalog, (cf, key), bytes, outputs)?;
                Ok(Value::Blob(blob))
            }
            Value::Blob(blob) if self.moves(blob) => {
                let is_long = len_of(blob.len) > VALUE_INLINE_MAX;
                let carried = || catalog.table_files.carry(u64::from(blob.len));
                let _carried = is_long.then(carried);
                let bytes = self.apart.read.read(key, blob)?;
                outputs.moved += 1;
                let most = self.apart.inline_max.min(VALUE_INLINE_MAX);
                if bytes.len() <= most && bytes.len() < self.apart.bytes_min {
                    self.inline = bytes;
                    return Ok(Value::Inline(&self.inline));
                }
                let blob = self.write(catalog, (cf, key), &bytes, outputs)?;
                Ok(Value::Blob(blob))
            }
            other => Ok(other),
        }
    }

    fn moves(&self, blob: BlobRef) -> bool {
        let is_victim = self.apart.victims.binary_search(&blob.file).is_ok();
        is_victim && !active(Bug::CollectMovesNothing)
    }

    fn write(
        &mut self,
        catalog: &Catalog,
        (cf, key): (CfId, &[u8]),
        value: &[u8],
        outputs: &mut Outputs,
    ) -> Result<BlobRef> {
        let (mut file, behind) = match self.file.take() {
            Some(file) => file,
            None => begin(catalog, &self.apart, outputs)?,
        };
        let before = file.bytes();
        let blob = file.append(cf, key, value)?;
        outputs.bytes += file.bytes() - before;
        let is_full = file.bytes() >= self.apart.file_bytes;
        self.file = Some((file, behind));
        if is_full {
            self.finish(outputs)?;
        }
        Ok(blob)
    }

    /// Ends the file at hand. Its bytes are durable then.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(&mut self, outputs: &mut Outputs) -> Result<()> {
        if let Some((file, _)) = self.file.take() {
            outputs.blobs.push(file.finish()?);
        }
        Ok(())
    }

    /// As [`TableSink::poll_written`](super::TableSink::poll_written).
    pub fn poll_written(&self, left: usize, context: &mut Context<'_>) -> Poll<()> {
        match &self.file {
            Some((_, Some(behind))) => pin!(behind.written(left)).poll(context),
            _ => Poll::Ready(()),
        }
    }

    /// Bytes of DRAM that it takes.
    pub fn memory(&self) -> u64 {
        let file = self.file.as_ref().map_or(0, |(file, behind)| {
            // What waits to be written, or is being, is as large as what is collected.
            let more = behind.as_ref().map_or(0, |_| PIECES_MAX as u64 + 1);
            file.memory() + (file.memory() - file.compressing()) * more
        });
        file + self.inline.capacity() as u64 + self.apart.read.memory()
    }
}

fn begin(catalog: &Catalog, apart: &Apart<'_>, outputs: &mut Outputs) -> Result<Begun> {
    let file = catalog.pin_file(FileKind::Blob)?;
    outputs.files.push(file);
    let files = &*catalog.table_files;
    let path = files.blob_path(file);
    let made = BlobWriter::create(&*files.blob_storage, &path, files.identity(file));
    let made = made.map_err(|error| catalog.not_made(file, error))?;
    let mut behind = None;
    let made = made.through(|file| {
        let (file, own) = files.new_files.begin_of_job(file, apart.writes);
        behind = own;
        file
    });
    let made = made.metered(apart.read.meter().clone());
    Ok((made.compressed(apart.compression)?, behind))
}
