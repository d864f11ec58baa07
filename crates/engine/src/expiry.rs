//! Time to live: what of a family has expired by now, and how that is known.
//!
//! # Vocabulary
//! A family may have a *TTL*, given when the store is opened. An entry *has expired* when its TTL has passed since it was written.
//! When that was, the manifest's *write times* say (`version::write_times`): pairs of a seqno and a time. So what of a family has
//! expired is all that has some seqno or a smaller one, and no entry has a time of its own.
//!
//! # What goes, and when
//! Compactions remove what has expired as they remove what a filter says ([`compact::filters`](crate::compact), whose argument
//! holds word for word): nothing older returns, and whoever is registered sees no change. Tables of which everything has expired
//! go unread (`policy::pick::expired`). Until then reads find it. A read that hid it would need the time of each version that
//! it meets, and two reads at one snapshot would differ.
//!
//! In a family with a merge operator each operand expires by itself: the value that it was folded into is as old as its newest part.
//! So what was written counts for its TTL at least, whatever it was merged into.
//!
//! # The argument: nothing expires early
//! 1. *A pair speaks of what was written.* Its seqno is `durable`, loaded before the clock is read. All up to it had been granted by
//!    then, and survives every crash: so none of these seqnos is ever given to something younger. An open begins above the last
//!    pair in any case (`start`); a copy, too, which has the pairs and may have nothing of what they speak of.
//! 2. *A pair is part of an edit* that is appended anyway, and becomes durable with it or not at all. So pairs cost no sync; a store
//!    without TTLs has none, but for one that says where a new incarnation begins (`start`).
//! 3. *An entry's time is never before it was written*: that of the first pair that speaks of it, which comes later (1). Dropping pairs
//!    leaves later ones.
//! 4. *Seqnos stay.* Flushes, compactions and copies give an entry the seqno that it had; a folded one has the newest of its parts.
//!    What is ingested is written when it is ingested.
//!
//! An entry expires late by: the time until its memtable was sealed, or something else was written into the manifest; a
//! hundredth of the store's shortest TTL; and for old pairs of a long list some hundredths of its age.
//!
//! # Clocks
//! All that is said of time is so by the machine's calendar ([`Clock::unix_s`]), as no other clock goes on while nobody runs.
//! - *Set back*: nothing expires early. Times in the list only rise, so there is no pair until the calendar has come to where it was,
//!   and what is written meanwhile expires late by as much.
//! - *Set ahead*, or right after it was back: what was written before counts as older by as much, for nobody can tell that from time that
//!   has passed. Setting it back brings nothing back that has gone. If it was noted meanwhile, times stay ahead, and what was written
//!   then, and later, expires late, as above.
//!
//! # Rejected
//! - *Clocks that never go back*, for the time that a process runs: with each opening the calendar would count again.

use std::collections::BTreeMap;
use std::time::Duration;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result, SeqNo, limits};
use thermocline_env::Clock;
use thermocline_policy::tuning::TTL_PARTS;
use thermocline_version::write_times::UNIX_S_MAX;
use thermocline_version::{WriteTime, WriteTimes};

use crate::sync::Arc;

/// The last time that a calendar is believed to say. A pair that must come behind the one before, whatever the calendar says (`start`),
/// is a second later than that; so there is room for more of them than there will be opens.
pub(crate) const CALENDAR_MAX: u64 = UNIX_S_MAX / 2;

/// The TTLs of a store, in seconds, by the name of the family.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ttls(BTreeMap<String, u64>);

impl Ttls {
    /// Those that were given. A part of a second counts as one.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the family, its TTL and the limit.
    pub fn new(given: Vec<(String, Duration)>) -> Result<Ttls> {
        let mut ttls = BTreeMap::new();
        for (family, ttl) in given {
            let part = u64::from(ttl.subsec_nanos() > 0);
            let seconds = ttl.as_secs().saturating_add(part);
            if ttl.is_zero() || seconds > limits::TTL_SECONDS_MAX {
                return Err(Error::InvalidArgument(format!(
                    "the TTL of column family '{family}' is more than 0 and at most {} seconds (100 years); {ttl:?} was given",
                    limits::TTL_SECONDS_MAX
                )));
            }
            ttls.insert(family, seconds);
        }
        Ok(Ttls(ttls))
    }

    /// That of a family, if it has one.
    pub fn of(&self, family: &str) -> Option<u64> {
        self.0.get(family).copied()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Seconds between two pairs.
    fn step(&self) -> Option<u64> {
        Some((self.0.values().min()? / TTL_PARTS).max(1))
    }
}

/// What expires, and by which clock.
#[derive(Debug)]
pub(crate) struct Expiry {
    ttls: Ttls,
    clock: Arc<dyn Clock>,
}

impl Expiry {
    pub fn new(ttls: Ttls, clock: Arc<dyn Clock>) -> Expiry {
        Expiry { ttls, clock }
    }

    /// Whether a family has a TTL, or will have one when it is made.
    pub fn is_any(&self) -> bool {
        !self.ttls.is_empty()
    }

    /// Time after which more may have expired.
    pub fn step(&self) -> Option<Duration> {
        self.ttls.step().map(Duration::from_secs)
    }

    /// The TTL of a family in seconds, if it has one.
    pub fn ttl(&self, family: &str) -> Option<u64> {
        self.ttls.of(family)
    }

    /// The last seqno of what has expired by now in a family with this TTL, in seconds; `None` if nothing has.
    pub fn expired(&self, ttl: u64, times: &WriteTimes) -> Option<SeqNo> {
        times.written_by(self.clock.unix_s().checked_sub(ttl)?)
    }

    /// The pair that the next edit takes along; `None` if it is too early for one, or the clock says what no calendar does. All
    /// up to `durable`, which the caller has loaded before, survives every crash.
    pub fn next_pair(&self, durable: u64, last: Option<WriteTime>) -> Option<WriteTime> {
        let step = self.ttls.step()?;
        let ahead = match active(Bug::TimesAhead) {
            true => 100,
            false => 0,
        };
        let pair = WriteTime {
            seqno: SeqNo(durable + ahead),
            unix_s: self.clock.unix_s(),
        };
        let is_due = last.is_none_or(|last| {
            pair.seqno > last.seqno && pair.unix_s >= last.unix_s.saturating_add(step)
        });
        let is_possible = pair.unix_s <= CALENDAR_MAX;
        (is_due && is_possible && durable > 0).then_some(pair)
    }
}

#[cfg(test)]
mod tests {
    use thermocline_env::simulated::SimClock;

    use super::*;

    fn ttl(seconds: u64) -> (String, Duration) {
        ("f".into(), Duration::from_secs(seconds))
    }

    #[test]
    fn a_ttl_has_limits_and_its_error_names_them() {
        let more = limits::TTL_SECONDS_MAX + 1;
        for (given, says) in [(0, "0ns was given"), (more, "at most 3155760000 seconds")] {
            let error = Ttls::new(vec![ttl(given)]).unwrap_err().to_string();
            assert!(error.contains("'f'") && error.contains(says), "{error}");
        }
        // Not a TTL of 0, by which all would expire at once.
        let forever = Ttls::new(vec![("f".into(), Duration::MAX)]).unwrap_err();
        assert!(forever.to_string().contains("100 years"), "{forever}");
        let parts = Duration::from_millis(1500);
        let ttls = Ttls::new(vec![("g".into(), parts), ttl(limits::TTL_SECONDS_MAX)]).unwrap();
        assert_eq!((ttls.of("g"), ttls.of("h")), (Some(2), None));
    }

    #[test]
    fn pairs_keep_their_distance_and_wait_for_a_clock_that_was_set_back() {
        let clock = Arc::new(SimClock::new());
        clock.set_unix_s(5000);
        let expiry = Expiry::new(Ttls::new(vec![ttl(1000)]).unwrap(), clock.clone());
        assert_eq!(expiry.next_pair(0, None), None);
        let first = expiry.next_pair(7, None).unwrap();
        assert_eq!((first.seqno, first.unix_s), (SeqNo(7), 5000));
        for (unix_s, durable, is_due) in [
            (5009, 8, false),
            (5010, 7, false),
            (5010, 8, true),
            (4000, 8, false),
        ] {
            clock.set_unix_s(unix_s);
            let pair = expiry.next_pair(durable, Some(first));
            assert_eq!(pair.is_some(), is_due, "{unix_s} {durable}");
        }
        // What no calendar says is not believed: it would leave no room behind it.
        for (unix_s, is_due) in [
            (CALENDAR_MAX, true),
            (CALENDAR_MAX + 1, false),
            (UNIX_S_MAX, false),
            (u64::MAX, false),
        ] {
            clock.set_unix_s(unix_s);
            for last in [None, Some(first)] {
                let pair = expiry.next_pair(8, last);
                assert_eq!(pair.is_some(), is_due, "{unix_s}");
            }
        }
        let last = WriteTime {
            seqno: SeqNo(7),
            unix_s: UNIX_S_MAX,
        };
        assert_eq!(expiry.next_pair(8, Some(last)), None);
        let times = [first].into_iter().collect();
        let all = [(5999, None), (6000, Some(SeqNo(7))), (500, None)];
        for (unix_s, expected) in all.into_iter().chain([(u64::MAX, Some(SeqNo(7)))]) {
            clock.set_unix_s(unix_s);
            let ttl = expiry.ttl("f").unwrap();
            assert_eq!(expiry.expired(ttl, &times), expected, "{unix_s}");
        }
    }
}
