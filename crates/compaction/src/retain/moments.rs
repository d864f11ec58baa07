//! As of when somebody may read.

use thermocline_base::SeqNo;

/// The moments as of which somebody may read: registered snapshots, and every seqno from the
/// horizon on.
///
/// ```
/// use thermocline_base::SeqNo;
/// use thermocline_compaction::retain::Moments;
/// let moments = Moments::new(vec![SeqNo(3), SeqNo(7)], SeqNo(100));
/// let after = |seqno| moments.at_or_after(SeqNo(seqno)).0;
/// assert_eq!([1, 3, 4, 8, 100, 101].map(after), [3, 3, 7, 100, 100, 101]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moments {
    /// Ascending, all below the horizon.
    snapshots: Vec<SeqNo>,
    horizon: SeqNo,
    written_since: SeqNo,
}

impl Moments {
    /// Those of `snapshots`, in any order, and all from `horizon` on: the lowest seqno that may
    /// still be asked for without being registered. Who registers later must do so at or above it.
    pub fn new(mut snapshots: Vec<SeqNo>, horizon: SeqNo) -> Moments {
        snapshots.retain(|seqno| *seqno < horizon);
        snapshots.sort_unstable();
        snapshots.dedup();
        Moments {
            snapshots,
            horizon,
            written_since: SeqNo::MAX,
        }
    }

    /// The same, and somebody may ask whether a key has been written since `seqno` or since any
    /// later one: a transaction that validates. Without this nobody does.
    #[must_use]
    pub fn with_written_since(self, seqno: SeqNo) -> Moments {
        Moments {
            written_since: seqno,
            ..self
        }
    }

    /// The first moment at or after `seqno`.
    pub fn at_or_after(&self, seqno: SeqNo) -> SeqNo {
        if seqno >= self.horizon {
            return seqno;
        }
        let first = self.snapshots.partition_point(|moment| *moment < seqno);
        self.snapshots.get(first).copied().unwrap_or(self.horizon)
    }

    /// The first moment of all.
    pub fn first(&self) -> SeqNo {
        self.at_or_after(SeqNo::ZERO)
    }

    /// The lowest seqno since which somebody may ask whether a key has been written.
    pub fn written_since(&self) -> SeqNo {
        self.written_since
    }
}
