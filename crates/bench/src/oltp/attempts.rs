//! A transaction, made until it goes through.

use thermocline::{Db, Error, Result, Transaction, TxnOptions};

use crate::oltp::report::Aborts;
use crate::watch::Watch;

/// What a transaction wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Commit,
    /// It takes back what it has done, as its input says.
    RollBack,
}

/// One thread's way to the store.
pub(crate) struct Client<'a> {
    pub db: &'a Db,
    pub options: TxnOptions,
    pub watch: &'a Watch,
}

impl Client<'_> {
    /// Makes a transaction until nobody was faster. `None` if the run was stopped before that.
    pub fn transact(
        &self,
        aborts: &mut Aborts,
        mut work: impl FnMut(&mut Transaction) -> Result<Outcome>,
    ) -> Result<Option<Outcome>> {
        loop {
            let mut txn = self.db.transaction(self.options)?;
            let outcome = work(&mut txn).and_then(|outcome| {
                match outcome {
                    Outcome::Commit => txn.commit()?,
                    Outcome::RollBack => txn.rollback(),
                }
                Ok(outcome)
            });
            match outcome {
                Ok(outcome) => return Ok(Some(outcome)),
                // The engine says which conflict it was in words only.
                Err(Error::Conflict(why)) if why.starts_with("deadlock") => aborts.deadlock += 1,
                Err(Error::Conflict(_)) => aborts.conflict += 1,
                Err(Error::Busy(_)) => aborts.lock_timeout += 1,
                Err(error) => return Err(error),
            }
            if self.watch.is_stopped() {
                return Ok(None);
            }
            aborts.retries += 1;
        }
    }
}
