//! Sums that stay equal: db_bench's `randomtransaction`.
//!
//! Keys form *sets*. A transaction draws a number, and adds it to the value of one key of each set; a key that is not there
//! counts as 0. So whoever sees all of it or nothing finds the same sum in each set, and a lost update, or half a
//! transaction, leaves them different; a whole one that is lost leaves less than was added. Keys are drawn uniformly, and
//! sets come in a random order, so that transactions may wait for each other in a circle. As db_bench's, a run begins with
//! nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use thermocline::{Db, Error, Result, Snapshot};

use crate::oltp::attempts::{Client, Outcome};
use crate::oltp::plan::{OltpPlan, SumsSettings};
use crate::oltp::report::Check;
use crate::oltp::tally::Tally;
use crate::rng::Rng;

/// Bytes of a set's number, with which its keys begin.
const SET_BYTES: usize = 4;
/// Bytes of a key, and of a value.
pub(crate) const KEY_BYTES: usize = 16;
pub(crate) const VALUE_BYTES: usize = size_of::<u64>();

/// The largest number that is added.
const ADDED_MAX: u64 = 100;

/// The workload on a store.
pub(crate) struct Sums {
    settings: SumsSettings,
    /// What was in each set, and what transactions that committed have added to it.
    added: AtomicU64,
}

fn key(set: u64, number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    // As many sets as there may be fit.
    key[..SET_BYTES].copy_from_slice(&set.to_be_bytes()[8 - SET_BYTES..]);
    key[KEY_BYTES - 8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn number(value: &[u8]) -> Result<u64> {
    let bytes = value.try_into().map_err(|_| {
        let bytes = value.len();
        Error::InvalidArgument(format!(
            "the database has a value of {bytes} bytes, which randomtransaction has not written"
        ))
    })?;
    Ok(u64::from_be_bytes(bytes))
}

impl Sums {
    /// Names of the kinds.
    pub const KINDS: &[&str] = &["add"];

    pub fn new(plan: &OltpPlan) -> Sums {
        Sums {
            settings: plan.sums,
            added: AtomicU64::new(0),
        }
    }

    /// Goes on with what is there.
    pub fn resume(&self, db: &Db) -> Result<()> {
        let there = sum_of(&db.snapshot(), 0)?;
        self.added.store(there, Ordering::Relaxed);
        Ok(())
    }

    /// Makes one transaction.
    pub fn transact(
        &self,
        client: &Client<'_>,
        rng: &mut Rng,
        tally: &mut Tally,
    ) -> Result<Option<Outcome>> {
        let SumsSettings { keys, sets } = self.settings;
        let added = rng.between(1, ADDED_MAX);
        // Each set once, from a random one on, in either direction.
        let (from, backward) = (rng.below(sets), rng.below(2) == 1);
        let step = if backward { sets - 1 } else { 1 };
        let drawn = (0..sets).map(|n| key((from + n * step) % sets, rng.below(keys)));
        let drawn: Vec<_> = drawn.collect();
        let done = client.transact(&mut tally.kinds[0].aborts, |txn| {
            for key in &drawn {
                let before = txn.get_for_update(key)?;
                let before = before.map_or(Ok(0), |value| number(&value))?;
                txn.put(key, before.wrapping_add(added).to_be_bytes())?;
            }
            Ok(Outcome::Commit)
        })?;
        if done == Some(Outcome::Commit) {
            // Relaxed: it is read when all threads have ended.
            self.added.fetch_add(added, Ordering::Relaxed);
        }
        Ok(done)
    }

    /// What must be true at the end.
    pub fn check(&self, moment: &Snapshot) -> Result<Vec<Check>> {
        let mut same = Check::new("all sets have the same sum");
        let mut whole = Check::new("a set has all that was added to it");
        let first = sum_of(moment, 0)?;
        for set in 0..self.settings.sets {
            let sum = sum_of(moment, set)?;
            same.ask(sum == first, || {
                format!("set 0 has {first}, and set {set} has {sum}")
            });
        }
        let added = self.added.load(Ordering::Relaxed);
        whole.ask(first == added, || {
            format!("set 0 has {first}, and {added} were added")
        });
        Ok(vec![same, whole])
    }
}

/// Of all numbers of a set.
fn sum_of(moment: &Snapshot, set: u64) -> Result<u64> {
    let mut sum = 0u64;
    for entry in moment.range(key(set, 0)..=key(set, u64::MAX)) {
        let (_, value) = entry?;
        sum = sum.wrapping_add(number(&value)?);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use thermocline::Options;

    use super::*;
    use crate::oltp::plan::OltpWorkload;

    #[test]
    fn a_key_of_another_sum_is_found() {
        let home = tempfile::tempdir().unwrap();
        let options = Options {
            pm: 64 << 20,
            ..Options::default()
        };
        let db = Db::open(home.path().join("db"), options).unwrap();
        let sums = Sums::new(&OltpPlan::new(OltpWorkload::RandomTransaction));
        let faults = || sums.check(&db.snapshot()).unwrap()[0].faults;
        db.put(key(0, 7), 5u64.to_be_bytes()).unwrap();
        db.put(key(1, 9), 5u64.to_be_bytes()).unwrap();
        assert_eq!(faults(), 0);
        db.put(key(1, 99_999), 1u64.to_be_bytes()).unwrap();
        assert_eq!(faults(), 1);
        db.put(key(0, 0), [1]).unwrap();
        let error = sums.check(&db.snapshot()).unwrap_err();
        assert!(error.to_string().contains("1 bytes"), "{error}");
    }

    /// Sums that are equal say nothing of a transaction of which nothing is there.
    #[test]
    fn a_transaction_that_is_lost_as_a_whole_is_found() {
        let home = tempfile::tempdir().unwrap();
        let options = Options {
            pm: 64 << 20,
            ..Options::default()
        };
        let db = Db::open(home.path().join("db"), options).unwrap();
        let sums = Sums::new(&OltpPlan::new(OltpWorkload::RandomTransaction));
        let faults = || -> Vec<u64> {
            let checks = sums.check(&db.snapshot()).unwrap();
            checks.iter().map(|check| check.faults).collect()
        };
        let put = |value: u64| {
            for set in 0..sums.settings.sets {
                db.put(key(set, 7), value.to_be_bytes()).unwrap();
            }
        };
        assert_eq!(faults(), [0, 0]);
        put(5);
        sums.resume(&db).unwrap();
        assert_eq!(faults(), [0, 0]);
        put(3);
        assert_eq!(faults(), [0, 1]);
    }
}
