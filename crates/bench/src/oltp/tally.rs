//! What was done, by kind and by second.

use hdrhistogram::Histogram;
use thermocline::{Error, Result};

use crate::oltp::report::Aborts;

/// Longest latency that is told apart, in nanoseconds; a longer one counts as this.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// What was done of one kind.
pub(crate) struct Done {
    pub latency_ns: Histogram<u64>,
    pub committed: u64,
    /// Rolled back on purpose.
    pub rolled_back: u64,
    pub aborts: Aborts,
}

/// What a thread, or all of them, did.
pub(crate) struct Tally {
    pub kinds: Vec<Done>,
    /// Transactions that were done in each second.
    pub seconds: Vec<u64>,
    /// Of the workload, for people: what was found, what was skipped.
    pub notes: Vec<u64>,
}

impl Tally {
    pub fn new(kinds: usize, notes: usize) -> Result<Tally> {
        let done = |_| {
            let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
                .map_err(|e| Error::InvalidArgument(format!("the latency histogram: {e}")))?;
            Ok(Done {
                latency_ns,
                committed: 0,
                rolled_back: 0,
                aborts: Aborts::default(),
            })
        };
        Ok(Tally {
            kinds: (0..kinds).map(done).collect::<Result<_>>()?,
            seconds: Vec::new(),
            notes: vec![0; notes],
        })
    }

    /// One is done: how long it took, and in which second.
    pub fn done(&mut self, kind: usize, nanos: u64, second: usize, rolled_back: bool) {
        let done = &mut self.kinds[kind];
        let nanos = nanos.clamp(1, LATENCY_NS_MAX);
        done.latency_ns.saturating_record(nanos);
        match rolled_back {
            true => done.rolled_back += 1,
            false => done.committed += 1,
        }
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, 0);
        }
        self.seconds[second] += 1;
    }

    pub fn add(&mut self, other: &Tally) {
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.latency_ns += &theirs.latency_ns;
            mine.committed += theirs.committed;
            mine.rolled_back += theirs.rolled_back;
            mine.aborts.add(&theirs.aborts);
        }
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), 0);
        }
        for (mine, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            *mine += theirs;
        }
        for (mine, theirs) in self.notes.iter_mut().zip(&other.notes) {
            *mine += theirs;
        }
    }

    /// All that were done, the ones that were rolled back on purpose included.
    pub fn ops(&self) -> u64 {
        let each = self.kinds.iter();
        each.map(|done| done.committed + done.rolled_back).sum()
    }
}
