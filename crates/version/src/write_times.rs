//! When what was written was written, as far as the manifest knows: a short list of pairs of a seqno and a time.
//!
//! # What a pair says
//! *Whatever has this seqno, or a smaller one, had been written by that time.* So an entry of seqno s was written no later than the
//! time of the first pair with a seqno of s or more; one that has no such pair may be of any age. An entry costs no byte for that.
//!
//! # Invariants
//! 1. **Both rise** from pair to pair, and stay below 2^63: what is larger is damage, and to add to it would overflow. Whoever adds
//!    one has made sure that all it speaks of was written, and would be found after a crash, or that no seqno up to it is ever given
//!    out again: else one that is given out anew would be thought to be older than it is.
//! 2. **Dropping a pair is safe.** What it spoke of is then known by the next one, whose time is later. So whoever asks hears of a
//!    later time, and never of an earlier one.
//! 3. **There are at most [`PAIRS_MAX`].** Of more, that one goes without which the answer is wrong by the least part of the age: the
//!    time between its neighbours, over the time since the older of them, is the smallest. So there are many pairs of the last hours,
//!    and few of the last years. The first and the last one stay.
//!
//! # Rejected
//! - *A time in every entry*, of 4 to 8 bytes, as databases have it that were built for expiry.
//! - *A time for each table.* A merge would have to take the oldest or the newest of its inputs'; with seqnos each entry keeps its own.
//! - *Dropping every second pair of the older half*: the distance of those that stay would double with each time that the list
//!   is full, so that it grows exponentially with age.

use thermocline_base::SeqNo;

use crate::impossible::{Impossible, must, possible_seqno};

/// Pairs that a list has at most: 8 KiB of the manifest. *Derived*: with pairs a minute apart, what is up to ten years old is
/// known to within 6 percent of its age, as a test below shows.
pub const PAIRS_MAX: usize = 512;

/// The last time that a pair can have, in seconds since the beginning of 1970 (UTC): no calendar of an operating system goes
/// beyond.
pub const UNIX_S_MAX: u64 = (1 << 63) - 1;

/// All that has a seqno up to this one was written by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteTime {
    /// The seqno.
    pub seqno: SeqNo,
    /// The time, in seconds since the beginning of 1970 (UTC); at most [`UNIX_S_MAX`].
    pub unix_s: u64,
}

/// See the [module](self).
///
/// ```
/// use thermocline_base::SeqNo;
/// use thermocline_version::{WriteTime, WriteTimes};
/// let pair = |seqno, unix_s| WriteTime { seqno: SeqNo(seqno), unix_s };
/// let times: WriteTimes = [pair(10, 1000), pair(20, 1060)].into_iter().collect();
/// assert_eq!(times.written_by(1059), Some(SeqNo(10)));
/// assert_eq!(times.written_by(1060), Some(SeqNo(20)));
/// assert_eq!(times.written_by(999), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteTimes(Vec<WriteTime>);

impl WriteTimes {
    /// The pairs, oldest first.
    pub fn pairs(&self) -> &[WriteTime] {
        &self.0
    }

    /// The newest pair.
    pub fn last(&self) -> Option<WriteTime> {
        self.0.last().copied()
    }

    /// The last seqno of which it is known that it, and all before it, was written by that time.
    pub fn written_by(&self, unix_s: u64) -> Option<SeqNo> {
        let after = self.0.partition_point(|pair| pair.unix_s <= unix_s);
        Some(self.0[after.checked_sub(1)?].seqno)
    }

    /// Adds a pair, and drops one if there are too many.
    ///
    /// # Errors
    /// What of it cannot be (1): the list is as it was.
    pub(crate) fn add(&mut self, pair: WriteTime) -> Result<(), Impossible> {
        let (seqno, unix_s) = (pair.seqno.0, pair.unix_s);
        must(unix_s <= UNIX_S_MAX, "write time", "below 2^63", unix_s)?;
        let what = "seqno of a write time";
        possible_seqno(seqno, what)?;
        if let Some(last) = self.last() {
            let (behind, after) = (last.seqno.0, last.unix_s);
            must(seqno > behind, what, format_args!("above {behind}"), seqno)?;
            let what = "write time";
            must(unix_s > after, what, format_args!("after {after}"), unix_s)?;
        }
        self.0.push(pair);
        if self.0.len() > PAIRS_MAX {
            self.thin();
        }
        Ok(())
    }

    /// Drops one pair (3).
    fn thin(&mut self) {
        let Some(WriteTime { unix_s: now, .. }) = self.last() else {
            return;
        };
        // What would be late by how much, at which age. Both rise, and the product of two is below 2^126.
        let late = |n: usize| {
            let (before, after) = (self.0[n - 1].unix_s, self.0[n + 1].unix_s);
            (u128::from(after - before), u128::from(now - before))
        };
        let mut inner = 1..self.0.len() - 1;
        let Some(first) = inner.next() else { return };
        let least = inner.fold(first, |least, n| {
            let ((a, of_a), (b, of_b)) = (late(least), late(n));
            match b * of_a < a * of_b {
                true => n,
                false => least,
            }
        });
        self.0.remove(least);
    }
}

impl FromIterator<WriteTime> for WriteTimes {
    /// # Panics
    /// If the pairs do not rise.
    fn from_iter<I: IntoIterator<Item = WriteTime>>(pairs: I) -> WriteTimes {
        let mut times = WriteTimes::default();
        for pair in pairs {
            let added = times.add(pair);
            assert!(added.is_ok(), "write times rise: {pair:?} does not");
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use thermocline_env::simulated::SeededRandom;

    use super::*;

    fn pair(seqno: u64, unix_s: u64) -> WriteTime {
        WriteTime {
            seqno: SeqNo(seqno),
            unix_s,
        }
    }

    /// How late the time is at most, in parts of a thousand of the age at `now`, of what was written between two pairs that are
    /// more than `least` seconds apart.
    fn late(times: &WriteTimes, now: u64, least: u64) -> u64 {
        let gaps = times.pairs().windows(2);
        let gaps = gaps.map(|two| (two[0].unix_s, two[1].unix_s));
        let late = gaps.filter(|(before, after)| after - before > least);
        let late = late.map(|(before, after)| (after - before) * 1000 / (now - before));
        late.max().unwrap_or(0)
    }

    #[test]
    fn what_is_old_is_known_in_proportion_to_its_age() {
        let mut times = WriteTimes::default();
        let minutes = 10 * 365 * 24 * 60;
        // Of the first days there is a pair every minute, later, so that this ends, every hour.
        let (mut minute, mut n, mut worst) = (1, 0, 0);
        while minute < minutes {
            times.add(pair(minute, 60 * minute)).unwrap();
            assert!(times.pairs().len() <= PAIRS_MAX);
            n += 1;
            let apart = if n < 4000 { 1 } else { 60 };
            if n != 4000 {
                worst = worst.max(late(&times, 60 * minute, 2 * 60 * apart));
            }
            minute += apart;
        }
        assert!(n > 80_000, "{n}");
        assert!((10..=60).contains(&worst), "{worst} of a thousand");
        assert_eq!(times.pairs()[0], pair(1, 60));
        assert_eq!(times.pairs().len(), PAIRS_MAX);
    }

    #[test]
    fn nothing_is_ever_thought_to_be_older_than_it_is() {
        let random = SeededRandom::new(7);
        for _ in 0..20 {
            let (mut times, mut all) = (WriteTimes::default(), Vec::new());
            let (mut seqno, mut unix_s) = (0, 1 + random.below(1 << 30));
            for _ in 0..3 * PAIRS_MAX {
                seqno += 1 + random.below(1000);
                unix_s += 1 + random.below(1 << random.below(20));
                times.add(pair(seqno, unix_s)).unwrap();
                all.push(pair(seqno, unix_s));
            }
            for _ in 0..1000 {
                let by = all[0].unix_s - 1 + random.below(unix_s - all[0].unix_s + 9);
                let exact = all.iter().rfind(|pair| pair.unix_s <= by);
                let known = times.written_by(by);
                assert!(known <= exact.map(|pair| pair.seqno));
            }
            assert_eq!(times.written_by(u64::MAX), Some(SeqNo(seqno)));
        }
    }

    #[test]
    fn what_does_not_rise_is_refused() {
        for wrong in [
            pair(5, 21),
            pair(4, 21),
            pair(6, 20),
            pair(6, 19),
            pair(1 << 63, 30),
            pair(u64::MAX, 30),
            pair(6, UNIX_S_MAX + 1),
            pair(6, u64::MAX),
        ] {
            let mut times: WriteTimes = [pair(5, 20)].into_iter().collect();
            times.add(wrong).unwrap_err();
            assert_eq!(times.pairs(), [pair(5, 20)]);
        }
    }

    /// An empty list refuses the same, and nothing overflows between times that lie as far from each other as can be.
    #[test]
    fn times_at_both_ends_are_known_and_those_behind_are_refused() {
        for impossible in [UNIX_S_MAX + 1, u64::MAX] {
            let mut times = WriteTimes::default();
            let refused = times.add(pair(1, impossible)).unwrap_err();
            assert_eq!(refused.what, "write time");
            assert_eq!(refused.got, impossible.to_string());
            assert_eq!(times, WriteTimes::default());
        }
        let few = PAIRS_MAX as u64 - 1;
        let pairs = (0..few).map(|n| pair(1 + n, n));
        let mut times: WriteTimes = pairs.collect();
        let last = pair((1 << 63) - 1, UNIX_S_MAX);
        // One goes for each of the last two.
        for late in [pair(600, UNIX_S_MAX - 9), pair(601, UNIX_S_MAX - 8), last] {
            times.add(late).unwrap();
        }
        assert_eq!(times.pairs().len(), PAIRS_MAX);
        assert_eq!((times.pairs()[0], times.last()), (pair(1, 0), Some(last)));
        assert_eq!(times.written_by(u64::MAX), Some(last.seqno));
        assert_eq!(times.written_by(0), Some(SeqNo(1)));
        // Behind it there is no time any more.
        times.add(pair(last.seqno.0, UNIX_S_MAX)).unwrap_err();
        assert_eq!(times.last(), Some(last));
    }
}
