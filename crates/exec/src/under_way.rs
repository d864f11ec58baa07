//! How much is under way.

use std::sync::Arc;

use thermocline_base::counter::thread_number;
use thermocline_base::sync::{AtomicUsize, Ordering, SCHEDULED};

/// All reads that find nothing in the cache count here, so threads add to lines of their own. A schedule has no lines, and would
/// have as many steps more where they are summed up.
const SHARDS: usize = if SCHEDULED { 1 } else { 16 };

/// Counts what is under way. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct UnderWay(Arc<[Shard; SHARDS]>);

// Relaxed: a number by which nothing is guarded.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(AtomicUsize);

/// So many are under way for as long as this is held.
#[derive(Debug)]
pub struct Counted<'a> {
    /// Where they were added, whoever ends it.
    shard: &'a Shard,
    n: usize,
}

/// One more is, for as long as this is held, wherever that is.
#[derive(Debug)]
pub(crate) struct Held {
    count: UnderWay,
    shard: usize,
}

impl UnderWay {
    /// How many there are now; about, while others come and go.
    pub fn now(&self) -> usize {
        let shards = self.0.iter();
        shards.map(|shard| shard.0.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn add(&self, n: usize) -> Counted<'_> {
        let shard = &self.0[own_shard()];
        shard.0.fetch_add(n, Ordering::Relaxed);
        Counted { shard, n }
    }

    pub(crate) fn hold(&self) -> Held {
        let shard = own_shard();
        self.0[shard].0.fetch_add(1, Ordering::Relaxed);
        Held {
            count: self.clone(),
            shard,
        }
    }
}

fn own_shard() -> usize {
    thread_number() % SHARDS
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.shard.0.fetch_sub(self.n, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.count.0[self.shard].0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_thread_begins_another_one_ends() {
        let count = UnderWay::default();
        let held: Vec<_> = (0..3).map(|_| count.hold()).collect();
        let added = count.add(4);
        std::thread::scope(|scope| {
            let count = &count;
            scope.spawn(move || {
                drop(held);
                assert_eq!(count.now(), 4);
                drop(added);
                let _own = count.add(2);
                assert_eq!(count.now(), 2);
            });
        });
        assert_eq!(count.now(), 0);
    }
}
