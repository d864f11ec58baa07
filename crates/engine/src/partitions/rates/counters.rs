//! How often partitions are read and written.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_base::CfId;
use thermocline_base::counter::thread_number;
use thermocline_catalog::View;
use thermocline_observe::latency::chosen;
use thermocline_policy::cost::{Counts, Rates};
use thermocline_policy::level0::PartitionRate;
use thermocline_policy::reads::weighs_level0;
use thermocline_policy::tuning::{RATES_REMEMBERED, SCAN_READS, SPLIT_RATES};
use thermocline_version::{Change, PartitionId, Partitions, State, StoredRate, Version};

use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

pub(super) const SHARDS: usize = 16;

/// A partition of a family.
pub(super) type Of = (CfId, PartitionId);

/// Says whether a family has a partition now.
pub(crate) type Exists<'a> = &'a dyn Fn(CfId, PartitionId) -> bool;

/// Reads that were counted by some threads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Shard(pub(super) Mutex<BTreeMap<Of, u64>>);

/// How often partitions are read and written (`partitions::rates`).
#[derive(Debug)]
pub(crate) struct PartitionRates {
    /// One read in so many is counted; 0 is none.
    pub(super) every: u64,
    pub(super) reads: [Shard; SHARDS],
    pub(super) known: Mutex<BTreeMap<Of, Rates>>,
    /// Reads that were counted, and that somebody should look at them. Relaxed: they guard nothing.
    pub(super) noted: AtomicU64,
    pub(super) news: AtomicBool,
}

impl PartitionRates {
    /// That begin with what was `remembered`, as of `now`.
    pub fn new(every: u64, remembered: &[StoredRate], now: u64) -> PartitionRates {
        let known = remembered.iter().map(|rate| {
            let counts = Counts {
                reads: rate.reads as f64 / 1e3,
                writes: rate.writes as f64 / 1e3,
                updates: rate.updates as f64 / 1e3,
            };
            ((rate.cf, rate.partition), Rates::of(now, counts))
        });
        PartitionRates {
            every,
            reads: std::array::from_fn(|_| Shard::default()),
            known: Mutex::new(known.collect()),
            noted: AtomicU64::new(0),
            news: AtomicBool::new(false),
        }
    }

    /// What is to be remembered of them as of `now`: those of the busiest partitions that exist. One that goes just now may be
    /// here still.
    pub(super) fn to_remember(&self, now: u64, state: &State) -> Vec<StoredRate> {
        let stored = |(&(cf, partition), rates): (&Of, &Rates)| {
            let a_second = rates.per_second(now);
            StoredRate {
                cf,
                partition,
                reads: in_a_thousand(a_second.reads),
                writes: in_a_thousand(a_second.writes),
                updates: in_a_thousand(a_second.updates),
            }
        };
        let all = |rate: &StoredRate| rate.reads.saturating_add(rate.writes);
        let mut rates: Vec<_> = lock(&self.known).iter().map(stored).collect();
        rates.retain(|rate| all(rate) > 0 && state.has_partition(rate.cf, rate.partition));
        rates.sort_by_key(|rate| (std::cmp::Reverse(all(rate)), rate.cf, rate.partition));
        rates.truncate(RATES_REMEMBERED);
        rates
    }

    /// A key is read.
    #[inline]
    pub fn read(&self, view: &View, cf: CfId, key: &[u8]) {
        if self.counts() {
            self.note_reads(view.tables.version(), cf, key, 1);
        }
    }

    /// A scan begins at a key.
    #[inline]
    pub fn scan(&self, view: &View, cf: CfId, key: &[u8]) {
        if self.counts() {
            self.note_reads(view.tables.version(), cf, key, SCAN_READS);
        }
    }

    /// Whether this one is counted.
    #[inline]
    fn counts(&self) -> bool {
        match self.every {
            0 => false,
            1 => true,
            every => chosen(every),
        }
    }

    /// Something is read at a key that is as much as so many reads.
    #[cold]
    pub(super) fn note_reads(&self, version: &Version, cf: CfId, key: &[u8], reads: u64) {
        let of = (cf, version.partitions(cf).of(key).id);
        let shard = &self.reads[thread_number() % SHARDS];
        *lock(&shard.0).entry(of).or_default() += self.every * reads;
        let noted = self.noted.fetch_add(1, Ordering::Relaxed) + 1;
        if weighs_level0(noted) {
            self.news.store(true, Ordering::Relaxed);
        }
    }

    /// Whether so many reads were counted that it is worth a look what they have changed.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::Relaxed)
    }

    /// Takes in what was counted by `now`: by threads that read, and of `cf` by a merge. Of what has gone nothing is known
    /// any more, though somebody still reads it in a view from before.
    pub fn take_in(
        &self,
        now: u64,
        exists: Exists<'_>,
        cf: CfId,
        counted: &[(PartitionId, Counts)],
    ) {
        let mut known = lock(&self.known);
        // Asked under the lock: of what goes after that it is said behind this (`merged`, `dropped`).
        let mut add = |(cf, partition): Of, counts: Counts| {
            if exists(cf, partition) {
                known.entry((cf, partition)).or_default().add(now, counts);
            }
        };
        for (partition, counts) in counted {
            add((cf, *partition), *counts);
        }
        for shard in &self.reads {
            for (of, reads) in std::mem::take(&mut *lock(&shard.0)) {
                let reads = Counts {
                    reads: reads as f64,
                    ..Counts::default()
                };
                add(of, reads);
            }
        }
    }

    /// Partitions are about to be made by these changes. What was read of those that had their numbers before, in views from
    /// then, is nobody's. Of what was taken in that was seen to already.
    pub fn make_room(&self, changes: &[Change]) {
        let new = changes.iter().filter_map(|change| match change {
            Change::PartitionCreated { cf, partition, .. } => Some((*cf, *partition)),
            _ => None,
        });
        let new: BTreeSet<Of> = new.collect();
        if new.is_empty() {
            return;
        }
        for shard in &self.reads {
            lock(&shard.0).retain(|of, _| !new.contains(of));
        }
    }

    /// A partition was split: the new one begins within it.
    pub fn split(&self, cf: CfId, of: PartitionId, new: PartitionId) {
        let mut known = lock(&self.known);
        if let Some(rates) = known.remove(&(cf, of)) {
            let (left, right) = rates.split(SPLIT_RATES);
            known.insert((cf, of), left);
            known.insert((cf, new), right);
        }
    }

    /// A partition was merged with the one before it.
    pub fn merged(&self, cf: CfId, into: PartitionId, gone: PartitionId) {
        let mut known = lock(&self.known);
        // What was not taken in goes along.
        for shard in &self.reads {
            let mut shard = lock(&shard.0);
            if let Some(reads) = shard.remove(&(cf, gone)) {
                *shard.entry((cf, into)).or_default() += reads;
            }
        }
        if let Some(gone) = known.remove(&(cf, gone)) {
            let rates = known.entry((cf, into)).or_default();
            *rates = rates.joined(gone);
        }
    }

    /// A family was dropped. What was not taken in of it never is.
    pub fn dropped(&self, cf: CfId) {
        lock(&self.known).retain(|(of, _), _| *of != cf);
    }

    /// What a second has, as of `now`, in each partition of a family in which something happened.
    pub fn per_second(
        &self,
        now: u64,
        exists: Exists<'_>,
        partitions: &Partitions,
        cf: CfId,
    ) -> Vec<PartitionRate> {
        self.take_in(now, exists, cf, &[]);
        let known = lock(&self.known);
        let rate = |partition: thermocline_version::Partition<'_>| {
            let counts = known.get(&(cf, partition.id))?.per_second(now);
            Some(PartitionRate {
                start: partition.start.to_vec(),
                reads: counts.reads,
                writes: counts.writes,
                updates: counts.updates,
            })
        };
        partitions.iter().filter_map(rate).collect()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "less than one in a thousand seconds is none; a float beyond the range saturates"
)]
pub(super) fn in_a_thousand(a_second: f64) -> u64 {
    (a_second * 1e3) as u64
}
