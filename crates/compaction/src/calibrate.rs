//! How fast this machine merges.
//!
//! A short merge of small entries in memory is what internal and major compaction do most. The devices are measured as they
//! are used (`policy::cost::UnitCosts`). The merge takes some tens of microseconds, so long that the clock shows it.

use thermocline_base::{Kind, Result, SeqNo};

use crate::Head;
use crate::merge::{Merge, Source};

/// Entries of each of the sources.
const ENTRIES: u64 = 512;

/// Sources.
const SOURCES: u64 = 4;

/// Every so many keys.
struct Keys {
    key: [u8; 16],
    at: u64,
    seqno: SeqNo,
}

impl Keys {
    fn go_to(&mut self, at: u64) {
        self.at = at;
        self.key[8..].copy_from_slice(&at.to_be_bytes());
    }
}

impl Source for Keys {
    fn head(&self) -> Option<Head<'_>> {
        (self.at < ENTRIES).then_some(Head {
            user_key: &self.key,
            seqno: self.seqno,
            kind: Kind::Put,
        })
    }

    fn advance(&mut self) -> Result<()> {
        self.go_to(self.at + 1);
        Ok(())
    }

    fn seek(&mut self, _: &[u8], _: SeqNo) -> Result<()> {
        self.go_to(0);
        Ok(())
    }
}

/// Nanoseconds that each entry of the merge has taken by this clock; `None` if the clock stands still. Takes less than a
/// millisecond.
///
/// ```
/// use std::time::Instant;
/// use thermocline_compaction::calibrate::entry_ns;
/// assert_eq!(entry_ns(&|| 7), None);
/// let begun = Instant::now();
/// let took = entry_ns(&|| begun.elapsed().as_nanos().try_into().unwrap());
/// assert!(took.unwrap() > 0.0);
/// ```
pub fn entry_ns(now_ns: &dyn Fn() -> u64) -> Option<f64> {
    let source = |n| Keys {
        key: [0; 16],
        at: 0,
        seqno: SeqNo(SOURCES - n),
    };
    let mut merge = Merge::new((0..SOURCES).map(source).collect());
    let begun = now_ns();
    let mut met = 0u64;
    if merge.seek(b"", SeqNo::MAX).is_ok() {
        while let Some(head) = merge.head() {
            met += u64::from(head.seqno.0 > 0);
            if merge.advance().is_err() {
                break;
            }
        }
    }
    let took = now_ns().saturating_sub(begun);
    (took > 0).then(|| took as f64 / met.max(1) as f64)
}
