//! Where entries go: into files, into persistent memory, into another folder, or onto a scale.

mod apart;
mod files;
mod pm;
mod weigh;

use std::task::{Context, Poll};

use thermocline_base::{CfId, Kind, Result};
use thermocline_sst::{KeyRef, Value};

use crate::outputs::Outputs;

pub use apart::Apart;
pub use files::{FileSink, NextFile, reference};
pub use pm::{PmHome, PmSink};
pub use weigh::Scale;

/// Writes tables. Entries come family by family, in the order of keys. The caller says where a table ends, between two
/// keys.
pub trait TableSink {
    /// Adds an entry, or a range tombstone, to the table at hand, and begins one if there is none.
    ///
    /// # Errors
    /// Those of writing.
    fn add(
        &mut self,
        cf: CfId,
        key: KeyRef<'_>,
        kind: Kind,
        value: Value<'_>,
        outputs: &mut Outputs,
    ) -> Result<()>;

    /// Ends the table at hand, if there is one. Its bytes are durable then.
    ///
    /// # Errors
    /// Those of writing.
    fn end_table(&mut self, outputs: &mut Outputs) -> Result<()>;

    /// The family ends here. A table may go on with the next one.
    ///
    /// # Errors
    /// Those of writing.
    fn end_family(&mut self, outputs: &mut Outputs) -> Result<()>;

    /// Bytes of the table at hand.
    fn bytes(&self) -> u64;

    /// Whether the table at hand nears a limit of its format.
    fn is_full(&self) -> bool;

    /// Bytes of DRAM that it takes.
    fn memory(&self) -> u64;

    /// Bytes of range tombstones with which a table should end.
    fn tombstone_bytes_max(&self) -> usize;

    /// Waits, without holding up the thread, until of each file at hand no more than `left` writes are to be made.
    fn poll_written(&self, _left: usize, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Whether it wants nothing more.
    fn has_enough(&self) -> bool {
        false
    }
}
