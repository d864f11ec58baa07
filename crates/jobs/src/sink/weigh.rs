//! Writing nowhere, to learn how much it would be.

use thermocline_base::{BatchEntry, CfId, Kind, Result};
use thermocline_memtable::{BLOB_REF_LEN, item_bytes};
use thermocline_policy::tuning::TOMBSTONES_PARTS;
use thermocline_sst::{KeyRef, TOMBSTONES_LEN_MAX, Value};

use super::TableSink;
use crate::outputs::Outputs;

/// Counts what would be written, as bytes of records in a memtable, until that is more than it wants to know.
#[derive(Debug)]
pub struct Scale {
    bytes: u64,
    most: u64,
}

impl Scale {
    /// It has enough when it has seen more than `most` bytes.
    pub fn new(most: u64) -> Scale {
        Scale { bytes: 0, most }
    }

    /// What would be written; `None` if that is more than it wanted to know.
    pub fn bytes(&self) -> Option<u64> {
        (self.bytes <= self.most).then_some(self.bytes)
    }
}

impl TableSink for Scale {
    fn add(
        &mut self,
        cf: CfId,
        key: KeyRef<'_>,
        kind: Kind,
        value: Value<'_>,
        _: &mut Outputs,
    ) -> Result<()> {
        let value = match value {
            Value::Inline(bytes) => bytes,
            Value::Blob(_) => &[0; BLOB_REF_LEN],
        };
        // As if it was written alone.
        self.bytes += item_bytes(std::iter::once(BatchEntry {
            kind,
            cf,
            key: key.user_key,
            value,
        }));
        Ok(())
    }

    fn end_table(&mut self, _: &mut Outputs) -> Result<()> {
        Ok(())
    }

    fn end_family(&mut self, _: &mut Outputs) -> Result<()> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }

    fn is_full(&self) -> bool {
        false
    }

    fn memory(&self) -> u64 {
        0
    }

    fn tombstone_bytes_max(&self) -> usize {
        TOMBSTONES_LEN_MAX / TOMBSTONES_PARTS
    }

    fn has_enough(&self) -> bool {
        self.bytes > self.most
    }
}
