//! A memtable that is named ahead of need.

use thermocline_memtable::{Chain, Descriptor};
use thermocline_version::Change;
use thermocline_wal::LogWriter;

/// A memtable that the manifest names and nobody uses yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) id: u64,
    pub(super) chain: Chain,
    pub(super) descriptor: Option<Descriptor>,
    /// Of the chain.
    pub(super) log: Option<LogWriter>,
}

impl Prepared {
    /// The cut of its chain, which ends empty behind `last`.
    pub fn cut(&self, last: u64) -> Change {
        Change::ChainCut {
            chain: self.chain.id,
            last_seqno: last,
            end: 0,
        }
    }
}
