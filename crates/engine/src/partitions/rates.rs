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
//! # What goes
//! The rates of a partition go with it. Who reads in a view from before counts there still: that is not taken in, and the next
//! one that gets its number does not begin with it.
//!
//! # What is remembered
//! A store that is closed notes the rates of its busiest partitions in the manifest
//! ([`Change::PartitionRates`](thermocline_version::Change)). The next opening goes on with them as if no time had
//! passed: what was hot is most likely hot again. A read-only opening of a closed store shows the same rates. They
//! decide only which work is done first. Where the disk is full, a close does not note them. A store that ends without
//! a close leaves what an earlier close has noted.

pub(crate) mod counters;

use thermocline_base::CfId;
use thermocline_policy::cost::Counts;
use thermocline_version::{Change, PartitionId};

use crate::store::Partitioner;

impl Partitioner {
    /// The change that notes the rates for the next opening, if they are not what is noted.
    pub fn rates_to_remember(&self) -> Option<Change> {
        let now = self.common.now_ns();
        let common = &self.common;
        let exists = |cf, partition| common.has_partition(cf, partition);
        common.rates.take_in(now, &exists, CfId::DEFAULT, &[]);
        let edits = self.common.catalog.edits();
        let rates = self.common.rates.to_remember(now, edits.state());
        let noted = edits.state().rates() == rates;
        (!noted).then(|| Change::PartitionRates(rates.into()))
    }

    /// What merges have counted, of families, is so much lately.
    pub fn counted_by_merge(&self, counted: &[(CfId, Vec<(PartitionId, Counts)>)]) {
        let (common, now) = (&self.common, self.common.now_ns());
        let exists = |cf, partition| common.has_partition(cf, partition);
        for (cf, counted) in counted {
            common.rates.take_in(now, &exists, *cf, counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use thermocline_policy::tuning::RATE_HALF_LIFE_NS;
    use thermocline_version::{State, VersionEdit};

    use super::*;
    use crate::partitions::rates::counters::PartitionRates;
    use crate::sync::lock;
    use thermocline_observe::latency::chosen;
    use thermocline_policy::level0::PartitionRate;
    use thermocline_policy::tuning::RATES_REMEMBERED;

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

    /// Whatever is asked for.
    fn any(_: CfId, _: PartitionId) -> bool {
        true
    }

    fn rates(rates: &PartitionRates, state: &State, now: u64) -> Vec<(Vec<u8>, [f64; 3])> {
        let all = rates.per_second(now, &any, state.version().partitions(CF), CF);
        let shown = |r: PartitionRate| (r.start, [r.reads, r.writes, r.updates].map(f64::round));
        all.into_iter().map(shown).collect()
    }

    #[test]
    fn reads_are_counted_where_they_go_and_fade() {
        let state = version(b"dm");
        let all = PartitionRates::new(1, &[], 0);
        for second in 1..=200 {
            for _ in 0..30 {
                all.note_reads(state.version(), CF, b"e", 1);
            }
            all.note_reads(state.version(), CF, b"zz", 1);
            all.take_in(second * SECOND, &any, CF, &[]);
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
        let remembered = all.to_remember(now, &state);
        let next = PartitionRates::new(1, &remembered, 7);
        assert_eq!(rates(&next, &state, 7), found);
        assert_eq!(next.to_remember(7, &state), remembered);
        assert_eq!(next.to_remember(7 + 100 * RATE_HALF_LIFE_NS, &state), []);
        all.dropped(CF);
        assert_eq!(rates(&all, &state, now), []);
    }

    #[test]
    fn the_busiest_are_remembered() {
        let letters: Vec<u8> = (1..200).collect();
        let state = version(&letters);
        let all = PartitionRates::new(1, &[], 0);
        let counted = (0..200).map(|n| {
            let reads = f64::from(n * 7 % 200) * 1e4;
            let counts = Counts {
                reads,
                ..Counts::default()
            };
            (PartitionId(n), counts)
        });
        all.take_in(1, &any, CF, &counted.collect::<Vec<_>>());
        let remembered = all.to_remember(1, &state);
        assert_eq!(remembered.len(), RATES_REMEMBERED);
        assert_eq!(remembered[0].partition.0 * 7 % 200, 199);
        assert_eq!(remembered[63].partition.0 * 7 % 200, 136);
    }

    /// What is known of what goes just now would be noted at each close, and take the places of others.
    #[test]
    fn only_what_exists_is_remembered() {
        let mut state = version(b"dm");
        let all = PartitionRates::new(1, &[], 0);
        let (merged, dropped) = (PartitionId(2), CfId(7));
        all.merged(CF, PartitionId(1), merged);
        all.dropped(dropped);
        // Who reads on has a view from before.
        let old = state.version().clone();
        for _ in 0..1000 {
            all.note_reads(&old, CF, b"x", 1);
            all.note_reads(&old, dropped, b"x", 1);
        }
        all.note_reads(&old, CF, b"e", 1000);
        all.take_in(1, &any, CF, &[]);
        assert_eq!(all.to_remember(1, &state).len(), 2);
        let gone = Change::PartitionRemoved {
            cf: CF,
            partition: merged,
            start: [b'm'].into(),
        };
        state.apply(&gone.into()).unwrap();
        let remembered = all.to_remember(1, &state);
        let of: Vec<_> = remembered
            .iter()
            .map(|rate| (rate.cf, rate.partition))
            .collect();
        assert_eq!(of, [(CF, PartitionId(1))]);
        // So the next close finds what it would note.
        let noted = Change::PartitionRates(remembered.clone().into());
        state.apply(&noted.into()).unwrap();
        assert_eq!(state.rates(), remembered);
    }

    /// What was known of one that has gone would be kept for as long as the store is open, and be that of the next one which gets
    /// its number.
    #[test]
    fn nothing_is_known_of_what_has_gone() {
        let mut state = version(b"dm");
        let all = PartitionRates::new(1, &[], 0);
        let (merged, dropped) = (PartitionId(2), CfId(7));
        let old = state.version().clone();
        all.note_reads(&old, CF, b"x", 5);
        let gone = Change::PartitionRemoved {
            cf: CF,
            partition: merged,
            start: [b'm'].into(),
        };
        state.apply(&gone.into()).unwrap();
        all.merged(CF, PartitionId(1), merged);
        all.dropped(dropped);
        // Who reads on has a view from before, and so has a job.
        all.note_reads(&old, CF, b"x", 1000);
        all.note_reads(&old, dropped, b"x", 1000);
        let counts = Counts {
            writes: 1000.0,
            ..Counts::default()
        };
        let exists = |cf, partition| state.has_partition(cf, partition);
        all.take_in(1, &exists, CF, &[(merged, counts)]);
        let known: Vec<_> = lock(&all.known).keys().copied().collect();
        assert_eq!(known, [(CF, PartitionId(1))]);
        // What was read before it went is known of the one that has its keys.
        let reads = lock(&all.known)[&(CF, PartitionId(1))].per_second(1).reads;
        assert!(reads > 0.0);
        // Nothing waits to be taken in.
        assert!(all.reads.iter().all(|shard| lock(&shard.0).is_empty()));
    }

    #[test]
    fn a_read_that_is_sampled_counts_for_the_others() {
        let state = version(b"m");
        let all = PartitionRates::new(64, &[], 0);
        let mut sampled = 0;
        for _ in 0..64_000 {
            if chosen(64) {
                all.note_reads(state.version(), CF, b"x", 1);
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
