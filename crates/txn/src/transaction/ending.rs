//! How a transaction ends: committed, prepared, or without a trace.

use thermocline_base::Result;
use thermocline_engine::{Claims, Durability, Entries, Footprint, WriteOptions};

use crate::footprint::{OneKey, Span};
use crate::prepared::Prepared;
use crate::refusal::ended;
use crate::shared::mode_of;
use crate::store::{Moment, Store};
use crate::sync::Arc;
use crate::transaction::Transaction;

impl<S: Store> Transaction<S> {
    /// When its commit is acknowledged, unless it is told otherwise.
    pub fn durability(&self) -> Durability {
        self.options.durability
    }

    /// Writes all of it as one, durably as its options say. One that has written nothing is over, and nothing else
    /// happens. Whatever the answer, the transaction has ended, and its locks are free.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Conflict`] naming a key that somebody else changed, or if the transaction had expired or was rolled back
    /// to break a deadlock; those of a write: nothing was written. [`thermocline_base::Error::Poisoned`]: the outcome is unknown.
    pub fn commit(self) -> Result<()> {
        let durability = self.options.durability;
        self.commit_with(durability.into())
    }

    /// As [`Transaction::commit`], with options of its own.
    ///
    /// # Errors
    /// As [`Transaction::commit`]; [`thermocline_base::Error::Busy`] if the options ask not to wait.
    pub fn commit_with(mut self, options: WriteOptions) -> Result<()> {
        self.finish(options)
    }

    /// As [`Transaction::commit_with`], for a caller that still needs its store then. It must not be used any more.
    ///
    /// # Errors
    /// As [`Transaction::commit_with`].
    pub fn finish(&mut self, options: WriteOptions) -> Result<()> {
        let done = self.write_all(options);
        self.end();
        done
    }

    fn write_all(&self, options: WriteOptions) -> Result<()> {
        let settled = self.life().settle();
        settled.map_err(|why| ended(self.life().id, why))?;
        let writes = self.reading.writes();
        if writes.is_empty() {
            return Ok(());
        }
        match writes.batch() {
            Some(batch) => self.write_changes(batch.iter(), options),
            None => self.write_changes(writes.changes(), options),
        }
    }

    fn write_changes<'a>(&self, changes: impl Entries<'a>, options: WriteOptions) -> Result<()> {
        match &*self.reading.moment_if_any() {
            // It has read nothing: wherever its writes come to lie, it began right before.
            None => self.shared().store.write(changes, options),
            Some(moment) => moment.write(changes, options, &self.reading.footprint()),
        }
    }

    /// Its locks are free, and what it had serves others.
    fn end(&mut self) {
        if let Some(mut lists) = self.reading.take_lists() {
            let held = lists.held.get_mut();
            held.release(&self.reading.life, &self.reading.shared().locks);
            self.reading.lane.leave(self.place, lists);
        }
    }

    /// Prepares it under a name: see [`Prepared`]. Whatever the answer, this value has ended; after an error the
    /// transaction is rolled back.
    ///
    /// # Errors
    /// As [`Transaction::commit`]; [`thermocline_base::Error::Conflict`] if it writes or relies on what another prepared transaction claims,
    /// too; [`thermocline_base::Error::Busy`] if it locks nothing as it goes, and somebody has what it locks now; [`thermocline_base::Error::InvalidArgument`] for
    /// a name that is taken, empty or too long; [`thermocline_base::Error::OutOfSpace`] if transactions have all the DRAM that they may have.
    pub fn prepare(self, name: &[u8]) -> Result<Prepared<S>> {
        self.ready()?;
        let mut claims = Claims::of(self.reading.writes().changes());
        self.reading.lists().touched.borrow().add_to(&mut claims);
        self.lock_claims(&claims)?;
        let settled = self.life().settle();
        settled.map_err(|why| ended(self.life().id, why))?;
        let held = self.held().take();
        self.shared().memory.give_back(held.bytes);
        let keeping = self.shared().keep(name, self.life(), (held, &claims))?;
        let moment = self.reading.moment_if_any();
        let footprint = self.reading.footprint();
        let since = moment.as_ref().map(|m| (m, &footprint as &dyn Footprint));
        let what = (self.reading.writes().changes(), claims);
        let last = self.shared().store.prepare(name, what, since)?;
        keeping.prepared();
        let shared = Arc::clone(&self.reading.lane.shared);
        Ok(Prepared::new(shared, (name, last)))
    }

    /// Locks what it has not locked yet: for as long as it is prepared others wait for it.
    fn lock_claims(&self, claims: &Claims) -> Result<()> {
        for (cf, key, writes) in claims.keys() {
            self.lock(&OneKey::new(cf, key), mode_of(writes))?;
        }
        for range in claims.ranges() {
            let span = Span {
                cf: range.cf,
                start: range.start.to_vec(),
                end: range.end.as_ref().map(|end| end.to_vec()),
            };
            match range.writes {
                true => self.lock_deleted(&span)?,
                false => self.lock_range(&span)?,
            }
        }
        Ok(())
    }

    /// Ends it without a trace.
    pub fn rollback(self) {}
}

impl<S: Store> Drop for Transaction<S> {
    fn drop(&mut self) {
        self.end();
    }
}
