//! How often each partition is read and written, lately.
//!
//! # Reads
//! One read in so many is counted, chosen at random by its thread (`partition.rate_sample`), and counts for all of
//! them: in the shard of its thread, under a lock that others take only to empty it. The other reads look at nothing
//! but an option and a number of their own thread. A read is a get, or a cursor that goes to a key.
//!
//! # Writes and updates
//! What is written is in order when it is merged, and there it is counted, by one comparison a record ([`Counting`]): a
//! flush counts the records that it reads as writes; what a flush or a compaction leaves out, because something newer
//! stands in its place, was an update. Nothing is counted where a write waits for it.
//!
//! # Decay
//! Each count falls to one half in some seconds (`policy::cost::Rates`), and what comes is put where the clock stands
//! when it is taken in: by a flush or a compaction, or by whoever asks. A split divides the rates of a partition by
//! halves, a merge adds them; the next seconds correct both.
//!
//! # What is remembered
//! A store that is closed notes the rates of its busiest partitions in the manifest
//! ([`Change::PartitionRates`](thermocline_version::Change)), and the next opening goes on with them as
//! if no time had passed: what was hot is most likely hot again, and who looks at a store that nobody has open sees
//! what was. Nothing depends on them but which work is done first; they are left out where the disk is full, and what a
//! store that was not closed had noted before is what stays.

use std::collections::BTreeMap;

use thermocline_base::CfId;
use thermocline_base::counter::thread_number;
use thermocline_catalog::View;
use thermocline_observe::latency::chosen;
use thermocline_policy::cost::{Counts, Rates};
use thermocline_policy::level0::PartitionRate;
use thermocline_policy::reads::weighs_level0;
use thermocline_policy::tuning::{RATES_REMEMBERED, SPLIT_RATES};
use thermocline_version::{Change, PartitionId, Partitions, StoredRate, Version};

use crate::store::Inner;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

const SHARDS: usize = 16;

/// A partition of a family.
type Of = (CfId, PartitionId);

/// Reads that were counted by some threads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<BTreeMap<Of, u64>>);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct PartitionRates {
    /// One read in so many is counted; 0 is none.
    every: u64,
    reads: [Shard; SHARDS],
    known: Mutex<BTreeMap<Of, Rates>>,
    /// Reads that were counted, and that somebody should look at them. Relaxed: they guard nothing.
    noted: AtomicU64,
    news: AtomicBool,
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

    /// What is to be remembered of them as of `now`: those of the busiest partitions.
    fn to_remember(&self, now: u64) -> Vec<StoredRate> {
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
        rates.retain(|rate| all(rate) > 0);
        rates.sort_by_key(|rate| (std::cmp::Reverse(all(rate)), rate.cf, rate.partition));
        rates.truncate(RATES_REMEMBERED);
        rates
    }

    /// A key is read.
    #[inline]
    pub fn read(&self, view: &View, cf: CfId, key: &[u8]) {
        let counts = match self.every {
            0 => false,
            1 => true,
            every => chosen(every),
        };
        if counts {
            self.note_read(view.tables.version(), cf, key);
        }
    }

    #[cold]
    fn note_read(&self, version: &Version, cf: CfId, key: &[u8]) {
        let of = (cf, version.partitions(cf).of(key).id);
        let shard = &self.reads[thread_number() % SHARDS];
        *lock(&shard.0).entry(of).or_default() += self.every;
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

    /// Takes in what was counted by `now`: by threads that read, and of `cf` by a merge.
    pub fn take_in(&self, now: u64, cf: CfId, counted: &[(PartitionId, Counts)]) {
        let mut known = lock(&self.known);
        for (partition, counts) in counted {
            known.entry((cf, *partition)).or_default().add(now, *counts);
        }
        for shard in &self.reads {
            for (of, reads) in std::mem::take(&mut *lock(&shard.0)) {
                let reads = Counts {
                    reads: reads as f64,
                    ..Counts::default()
                };
                known.entry(of).or_default().add(now, reads);
            }
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
        if let Some(gone) = known.remove(&(cf, gone)) {
            let rates = known.entry((cf, into)).or_default();
            *rates = rates.joined(gone);
        }
    }

    /// A family was dropped.
    pub fn dropped(&self, cf: CfId) {
        lock(&self.known).retain(|(of, _), _| *of != cf);
    }

    /// What a second has, as of `now`, in each partition of a family in which something happened.
    pub fn per_second(&self, now: u64, partitions: &Partitions, cf: CfId) -> Vec<PartitionRate> {
        self.take_in(now, cf, &[]);
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
fn in_a_thousand(a_second: f64) -> u64 {
    (a_second * 1e3) as u64
}

impl Inner {
    /// The change that notes the rates for the next opening, if they are not what is noted.
    pub fn rates_to_remember(&self) -> Option<Change> {
        let now = self.now_ns();
        self.rates.take_in(now, CfId::DEFAULT, &[]);
        let rates = self.rates.to_remember(now);
        let noted = self.catalog.edits().state().rates() == rates;
        (!noted).then(|| Change::PartitionRates(rates.into()))
    }

    /// What merges have counted, of families, is so much lately.
    pub fn counted_by_merge(&self, counted: &[(CfId, Vec<(PartitionId, Counts)>)]) {
        let now = self.now_ns();
        for (cf, counted) in counted {
            self.rates.take_in(now, *cf, counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use thermocline_policy::tuning::RATE_HALF_LIFE_NS;
    use thermocline_version::{State, VersionEdit};

    use super::*;

    const CF: CfId = CfId(0);
    const SECOND: u64 = 1_000_000_000;

    /// With partitions from these letters on, with ids from 1.
    fn version(starts: &[u8]) -> State {
        let mut state = State::default();
        let mut edit = VersionEdit::new()
            .with(Change::Created {
                db_id: [1; 16],
                region_id: [2; 16],
            })
            .with(Change::ColumnFamilyCreated {
                id: 0,
                name: "default".into(),
            });
        for (id, start) in (1..).zip(starts) {
            edit = edit.with(Change::PartitionCreated {
                cf: CF,
                partition: PartitionId(id),
                start: [*start].into(),
            });
        }
        state.apply(&edit).unwrap();
        state
    }

    fn rates(rates: &PartitionRates, state: &State, now: u64) -> Vec<(Vec<u8>, [f64; 3])> {
        let all = rates.per_second(now, state.version().partitions(CF), CF);
        let shown = |r: PartitionRate| (r.start, [r.reads, r.writes, r.updates].map(f64::round));
        all.into_iter().map(shown).collect()
    }

    #[test]
    fn reads_are_counted_where_they_go_and_fade() {
        let state = version(b"dm");
        let all = PartitionRates::new(1, &[], 0);
        for second in 1..=200 {
            for _ in 0..30 {
                all.note_read(state.version(), CF, b"e");
            }
            all.note_read(state.version(), CF, b"zz");
            all.take_in(second * SECOND, CF, &[]);
        }
        let now = 200 * SECOND;
        let found = rates(&all, &state, now);
        assert_eq!(found.len(), 2);
        assert!(
            found[0].0 == b"d" && (29.0..=32.0).contains(&found[0].1[0]),
            "{found:?}"
        );
        assert!(found[1].0 == b"m" && found[1].1[0] == 1.0, "{found:?}");
        let later = rates(&all, &state, now + RATE_HALF_LIFE_NS);
        assert!((14.0..=16.0).contains(&later[0].1[0]), "{later:?}");
        // A split halves them, a merge adds them.
        let now = now + 1;
        all.split(CF, PartitionId(1), PartitionId(2));
        all.merged(CF, PartitionId(0), PartitionId(1));
        let found = rates(&all, &state, now);
        assert_eq!(found.len(), 2);
        assert!(
            (14.0..=16.0).contains(&found[0].1[0]) && found[0].0.is_empty(),
            "{found:?}"
        );
        // What is remembered goes on where it was, whatever the clock says.
        let remembered = all.to_remember(now);
        let next = PartitionRates::new(1, &remembered, 7);
        assert_eq!(rates(&next, &state, 7), found);
        assert_eq!(next.to_remember(7), remembered);
        assert_eq!(next.to_remember(7 + 100 * RATE_HALF_LIFE_NS), []);
        all.dropped(CF);
        assert_eq!(rates(&all, &state, now), []);
    }

    #[test]
    fn the_busiest_are_remembered() {
        let all = PartitionRates::new(1, &[], 0);
        let counted = (0..200).map(|n| {
            let reads = f64::from(n * 7 % 200) * 1e4;
            let counts = Counts {
                reads,
                ..Counts::default()
            };
            (PartitionId(n), counts)
        });
        all.take_in(1, CF, &counted.collect::<Vec<_>>());
        let remembered = all.to_remember(1);
        assert_eq!(remembered.len(), RATES_REMEMBERED);
        assert_eq!(remembered[0].partition.0 * 7 % 200, 199);
        assert_eq!(remembered[63].partition.0 * 7 % 200, 136);
    }

    #[test]
    fn a_read_that_is_sampled_counts_for_the_others() {
        let state = version(b"m");
        let all = PartitionRates::new(64, &[], 0);
        let mut sampled = 0;
        for _ in 0..64_000 {
            if chosen(64) {
                all.note_read(state.version(), CF, b"x");
                sampled += 1;
            }
        }
        assert!((700..1300).contains(&sampled), "{sampled}");
        let counted: u64 = all
            .reads
            .iter()
            .flat_map(|s| lock(&s.0).values().copied().collect::<Vec<_>>())
            .sum();
        assert_eq!(counted, sampled * 64);
    }
}
