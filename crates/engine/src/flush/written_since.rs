//! How many threads have written since the flush before, for `policy::training`.

use thermocline_base::counter::SHARDS;
use thermocline_observe::count::{Count, Counted};

use crate::sync::{Mutex, lock};

/// Who has written between the last two flushes. Nothing is locked under its lock.
#[derive(Debug, Default)]
pub(crate) struct WrittenSince(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Bytes that each part of the threads had written when a flush last began.
    before: [u64; SHARDS],
    /// How many of the parts had written more than when the flush before began.
    writers: u64,
}

impl WrittenSince {
    /// A flush begins. If nobody has written since the one before, who wrote before that counts still: it is what they
    /// wrote that is flushed, again or the rest of it.
    pub fn flush_begins(&self, counted: &Counted) {
        let now = counted.parts(Count::UserBytes);
        let mut known = lock(&self.0);
        let parts = now.iter().zip(&known.before);
        let writers: u64 = parts.map(|(now, before)| u64::from(now > before)).sum();
        if writers > 0 {
            *known = Known {
                before: now,
                writers,
            };
        }
    }

    /// How many threads had written when the last flush began: at most [`SHARDS`]. After an opening nobody has.
    pub fn writers(&self) -> u64 {
        lock(&self.0).writers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_count_who_have_written_since_the_flush_before() {
        let (counted, since) = (Counted::default(), WrittenSince::default());
        since.flush_begins(&counted);
        assert_eq!(since.writers(), 0);
        // One thread, however often.
        for _ in 0..3 {
            counted.add(Count::UserBytes, 10);
        }
        since.flush_begins(&counted);
        assert_eq!(since.writers(), 1);
        since.flush_begins(&counted);
        assert_eq!(since.writers(), 1, "nobody has written since");
        // Numbers of other tests' threads may lie between these.
        std::thread::scope(|scope| {
            for _ in 0..SHARDS {
                scope.spawn(|| counted.add(Count::UserBytes, 1));
            }
        });
        since.flush_begins(&counted);
        let writers = since.writers();
        assert!(writers > 1 && writers <= SHARDS as u64, "{writers}");
        counted.add(Count::UserBytes, 1);
        since.flush_begins(&counted);
        assert_eq!(since.writers(), 1);
    }
}
