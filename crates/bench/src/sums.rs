//! Sums that stay equal: db_bench's `randomtransaction`.
//!
//! Keys form *sets*. A transaction draws a number, and adds it to the value of one key of each set; a key that is not there
//! counts as 0. So whoever sees all of it or nothing finds the same sum in each set, and a lost update, or half a
//! transaction, leaves them different. Keys are drawn uniformly, and sets come in a random order, so that transactions may
//! wait for each other in a circle. As db_bench's, a run begins with nothing.

use thermocline::{Error, Result, Snapshot};

use crate::oltp::attempts::{Client, Outcome};
use crate::oltp::plan::{OltpPlan, SumsSettings};
use crate::oltp::report::Check;
use crate::oltp::tally::Tally;
use crate::rng::Rng;

/// Bytes of a set's number, with which its keys begin.
const SET_BYTES: usize = 4;
const KEY_BYTES: usize = 16;

/// The largest number that is added.
const ADDED_MAX: u64 = 100;

/// The workload on a store.
pub(crate) struct Sums {
    settings: SumsSettings,
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
        }
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
        client.transact(&mut tally.kinds[0].aborts, |txn| {
            for key in &drawn {
                let before = txn.get_for_update(key)?;
                let before = before.map_or(Ok(0), |value| number(&value))?;
                txn.put(key, before.wrapping_add(added).to_be_bytes())?;
            }
            Ok(Outcome::Commit)
        })
    }

    /// What must be true at the end.
    pub fn check(&self, moment: &Snapshot) -> Result<Vec<Check>> {
        let mut check = Check::new("all sets have the same sum");
        let mut first = None;
        for set in 0..self.settings.sets {
            let mut sum = 0u64;
            for entry in moment.range(key(set, 0)..=key(set, u64::MAX)) {
                let (_, value) = entry?;
                sum = sum.wrapping_add(number(&value)?);
            }
            let first = *first.get_or_insert(sum);
            check.ask(sum == first, || {
                format!("set 0 has {first}, and set {set} has {sum}")
            });
        }
        Ok(vec![check])
    }
}

#[cfg(test)]
mod tests {
    use thermocline::{Db, Options};

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
}
