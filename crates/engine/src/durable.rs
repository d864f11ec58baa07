//! The durable watermark: every write up to it has been persisted.
//!
//! A write may be acknowledged only when the watermark covers it **and all before it** (design §14,
//! rule 6): recovery cuts at the first item that is missing, so an item is safe only if its
//! predecessors are. Persists may finish in any order; the watermark moves over the finished ones
//! that are contiguous.

use std::collections::BTreeMap;

use thermocline_base::SeqNo;
use thermocline_base::planted::{Bug, active};

/// Tracks which writes have been persisted.
#[derive(Debug, Clone, Default)]
pub struct Watermark {
    durable: u64,
    /// Finished stretches above it: first seqno to last.
    finished: BTreeMap<u64, u64>,
}

impl Watermark {
    /// Everything up to `durable` is persisted.
    pub fn new(durable: SeqNo) -> Watermark {
        Watermark {
            durable: durable.0,
            finished: BTreeMap::new(),
        }
    }

    /// The records `first..=last` have been persisted. Returns whether they may be acknowledged.
    pub fn finish(&mut self, first: SeqNo, last: SeqNo) -> bool {
        if first.0 == self.durable + 1 {
            self.durable = last.0;
        } else {
            self.finished.insert(first.0, last.0);
        }
        while let Some((&next, &end)) = self.finished.first_key_value() {
            if next != self.durable + 1 {
                break;
            }
            self.finished.remove(&next);
            self.durable = end;
        }
        self.durable >= last.0 || active(Bug::AckOutOfOrder)
    }

    /// The last seqno that is persisted together with all before it.
    pub fn durable(&self) -> SeqNo {
        SeqNo(self.durable)
    }

    /// Continues at `next`: no seqno between is ever given out.
    pub fn skip_to(&mut self, next: SeqNo) {
        assert!(
            self.finished.is_empty() && next.0 > self.durable,
            "nothing is in flight"
        );
        self.durable = next.0 - 1;
    }
}
