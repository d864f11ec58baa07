//! How fast this machine is, beside the one on which the usual costs were measured.
//!
//! A short merge of small entries in memory: what internal and major compaction do most, without the devices, which
//! are measured as they are used ([`UnitCosts::merged`](super::UnitCosts::merged)). It takes some tens of
//! microseconds, so long that the clock shows it.

use thermocline_base::{Kind, Result, SeqNo};

use crate::Head;
use crate::merge::{Merge, Source};

/// Entries of each of the sources.
const ENTRIES: u64 = 512;

/// Sources.
const SOURCES: u64 = 4;

/// What an entry took where [`UnitCosts::default`](super::UnitCosts) was measured, in nanoseconds.
const USUAL_NS: f64 = 7.0;

/// A machine is not taken for so many times faster or slower.
const FACTOR_MAX: f64 = 8.0;

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

/// How many times slower than usual, by this clock in nanoseconds; 1 if the clock stands still.
pub(super) fn factor(now_ns: &dyn Fn() -> u64) -> f64 {
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
    match took {
        0 => 1.0,
        _ => (took as f64 / met.max(1) as f64 / USUAL_NS).clamp(1.0 / FACTOR_MAX, FACTOR_MAX),
    }
}
