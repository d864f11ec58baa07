//! A transaction, from its beginning to its end.

mod ending;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ops::Bound;

use thermocline_base::batch::{check_key, check_value};
use thermocline_base::{Error, Result, merge};
use thermocline_engine::{Family, Footprint};

use crate::footprint::{OneKey, Span};
use crate::held::Held;
use crate::lane::Begun;
use crate::life::Life;
use crate::locks::entry::Mode;
use crate::locks::table::{Refused, Taken};
use crate::memory::{LOCK_BYTES, SAVEPOINT_BYTES, TOUCHED_BYTES, write_bytes};
use crate::options::{Isolation, Locking, TxnOptions};
use crate::reading::{Reading, ValueOf};
use crate::refusal::{ended, lock_key, lock_range, refused};
use crate::scan::Scan;
use crate::shared::Shared;
use crate::store::{Moment, Place, Store};
use crate::sync::Arc;
use crate::writes::{Owner, Savepoint, Write};

/// A transaction. Dropped, it is rolled back.
#[derive(Debug)]
pub struct Transaction<S: Store> {
    options: TxnOptions,
    reading: Reading<S>,
    /// In its lane's list of those that are open.
    place: usize,
}

impl<S: Store> Transaction<S> {
    pub(crate) fn new(begun: Begun<S>, options: TxnOptions) -> Transaction<S> {
        Transaction {
            options,
            reading: Reading::new(begun.lane, begun.life, begun.lists),
            place: begun.place,
        }
    }

    fn shared(&self) -> &Shared<S> {
        self.reading.shared()
    }

    /// The store that it is of.
    pub fn store(&self) -> &S {
        &self.shared().store
    }

    fn held(&self) -> &RefCell<Held> {
        &self.reading.lists().held
    }

    fn life(&self) -> &Arc<Life> {
        &self.reading.life
    }

    /// Its number: a transaction that began later has a larger one.
    pub fn id(&self) -> u64 {
        self.life().id
    }

    fn locks(&self) -> bool {
        self.options.locking == Locking::Pessimistic
    }

    fn is_serializable(&self) -> bool {
        self.options.isolation == Isolation::Serializable
    }

    /// Whether it may go on.
    fn ready(&self) -> Result<()> {
        let standing = self.life().check();
        standing.map_err(|why| ended(self.life().id, why))
    }

    fn take_memory(&self, bytes: u64) -> Result<()> {
        self.reading.take_memory(bytes)
    }

    /// Takes the snapshot now that its first read would take.
    ///
    /// # Errors
    /// If the store is closed or has failed.
    pub fn take_snapshot(&mut self) -> Result<u64> {
        self.ready()?;
        self.reading.fix();
        Ok(self.reading.moment()?.seqno().0)
    }

    /// What a refused lock comes to.
    fn not_locked(&self, why: &Refused) -> Error {
        if matches!(why, Refused::Deadlock(_)) {
            self.life().break_off();
            self.held()
                .borrow_mut()
                .release(self.life(), &self.shared().locks);
        }
        let store = &*self.shared().store;
        let times = (self.options.lock_timeout, store.now_ns());
        refused(why, self.life().id, times, |cf| store.family_name(cf))
    }

    fn lock(&self, key: &OneKey<'_>, mode: Mode) -> Result<()> {
        let own = lock_key(key);
        if mode == Mode::Shared && self.held().borrow().covers(own.bytes(), None) {
            return Ok(());
        }
        let cost = LOCK_BYTES + own.bytes().len() as u64;
        self.take_memory(cost)?;
        let times = (
            self.shared().store.tick_ns(),
            self.options.lock_timeout_ns(),
        );
        let locks = &self.shared().locks;
        let taken = locks.acquire(self.life(), &own, mode, times);
        match taken {
            Ok(Taken::Anew) => self.held().borrow_mut().add(self.life(), own),
            Ok(Taken::Before) => self.held().borrow_mut().spare += cost,
            Err(why) => {
                self.held().borrow_mut().spare += cost;
                return Err(self.not_locked(&why));
            }
        }
        // It may have waited for long.
        self.ready()
    }

    /// Locks a range against changes.
    fn lock_range(&self, span: &Span) -> Result<()> {
        let (start, end) = lock_range(span.cf, &span.start, span.end.as_deref());
        if self.held().borrow().covers(&start, Some(&end)) {
            return Ok(());
        }
        let cost = LOCK_BYTES + (start.len() + end.len()) as u64;
        self.take_memory(cost)?;
        let wait_ns = self.options.lock_timeout_ns();
        let mut keys = Vec::new();
        let taken =
            self.shared()
                .locks
                .acquire_range(self.life(), (&start, &end), wait_ns, |key| keys.push(key));
        for key in keys {
            // Few, and they are locked: the limit may be passed by them.
            let cost = LOCK_BYTES + key.bytes().len() as u64;
            self.reading.take_memory_anyway(cost);
            self.held().borrow_mut().add(self.life(), key);
        }
        let arrival = taken.map_err(|why| {
            self.held().borrow_mut().spare += cost;
            self.not_locked(&why)
        })?;
        self.held()
            .borrow_mut()
            .add_range(self.life(), arrival, (start, end));
        self.ready()
    }

    /// Does what `call` does, or locks nothing: what that had locked before it was refused is given back, and nobody waits for it.
    fn all_or_nothing<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = self.held().borrow().locked();
        let done = call();
        if done.is_err() {
            self.back_to(before);
        }
        done
    }

    /// Gives back what was locked since there were so many keys and ranges.
    fn back_to(&self, before: (usize, usize)) {
        let table = &self.shared().locks;
        self.held().borrow_mut().back_to(self.life(), table, before);
    }

    /// What was just locked must be as its moment has it. Where it has changed since, and all that was read so far is
    /// locked and has not, the moment moves to the present: as if the transaction had begun later.
    fn settle_moment(&self, locked: &dyn Footprint) -> Result<()> {
        let changed = match &*self.reading.moment_if_any() {
            None => return Ok(()),
            Some(moment) => moment.check(locked),
        };
        let Err(conflict @ Error::Conflict(_)) = changed else {
            return changed;
        };
        if self.reading.is_fixed() {
            return Err(conflict);
        }
        let now = self.shared().store.moment()?;
        if let Some(before) = &*self.reading.moment_if_any() {
            before.check(&self.reading.footprint())?;
        }
        // By a write that is not visible yet.
        now.check(locked)?;
        self.reading.set_moment(now);
        Ok(())
    }

    /// The key must not change until the commit.
    fn touch(&self, key: &OneKey<'_>) -> Result<()> {
        if self.reading.lists().touched.borrow().has(key) {
            return Ok(());
        }
        self.take_memory(TOUCHED_BYTES + key.key.len() as u64)?;
        self.reading.lists().touched.borrow_mut().add(key);
        Ok(())
    }

    /// Prepares a read of a key.
    fn before_read(&self, key: &OneKey<'_>) -> Result<()> {
        if !self.is_serializable() {
            self.reading.fix();
            return Ok(());
        }
        self.before_lasting_read(key, Mode::Shared)
    }

    /// Prepares a read of a key that is to hold until the commit, beside others that only read it or alone.
    fn before_lasting_read(&self, key: &OneKey<'_>, mode: Mode) -> Result<()> {
        self.all_or_nothing(|| {
            self.lock_as_seen(key, mode)?;
            self.touch(key)
        })
    }

    /// If it locks, locks a key, which must be as its moment has it.
    fn lock_as_seen(&self, key: &OneKey<'_>, mode: Mode) -> Result<()> {
        if self.locks() {
            self.lock(key, mode)?;
            self.settle_moment(key)?;
        }
        Ok(())
    }

    /// The value of a key: its own, or the one at its snapshot.
    ///
    /// # Errors
    /// Those of reading. Of a serializable transaction that locks: [`Error::Busy`] naming who holds the key,
    /// [`Error::Conflict`] if it was changed since the snapshot, or the transaction was rolled back to break a deadlock.
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<ValueOf<S>>> {
        self.ready()?;
        check_key(key)?;
        let key = OneKey::new(family.id, key);
        if self.reading.asks_moment(&key) {
            self.before_read(&key)?;
        }
        self.reading.look(&key)
    }

    /// The values of several keys, in their order, each as [`Transaction::get`] gives it: all are locked, where it
    /// locks, before the first is read. What lies on the device is read together.
    ///
    /// # Errors
    /// As [`Transaction::get`], for the first key that is refused or else fails.
    pub fn multi_get<'k>(
        &self,
        keys: impl Iterator<Item = Result<(Family, &'k [u8])>>,
    ) -> Result<Vec<Option<ValueOf<S>>>> {
        self.ready()?;
        let mut all = Vec::with_capacity(keys.size_hint().0);
        let lasts = |key: &OneKey<'_>| self.is_serializable() && self.reading.asks_moment(key);
        self.all_or_nothing(|| {
            for named in keys {
                let (family, key) = named?;
                check_key(key)?;
                let key = OneKey::new(family.id, key);
                if lasts(&key) {
                    self.lock_as_seen(&key, Mode::Shared)?;
                } else if self.reading.asks_moment(&key) {
                    self.reading.fix();
                }
                all.push(key);
            }
            // Of a key that is given back again nothing was read.
            self.reading.touch_all(all.iter().filter(|key| lasts(key)))
        })?;
        self.reading.look_all(&all)
    }

    /// As [`Transaction::get`]; the key does not change until the transaction ends, or the commit is refused.
    ///
    /// # Errors
    /// As [`Transaction::put`], and those of reading.
    pub fn get_for_update(&mut self, family: Family, key: &[u8]) -> Result<Option<ValueOf<S>>> {
        self.ready()?;
        check_key(key)?;
        let key = OneKey::new(family.id, key);
        self.before_lasting_read(&key, Mode::Exclusive)?;
        self.reading.look(&key)
    }

    /// As [`Transaction::get_for_update`], beside others that want only this of the key.
    ///
    /// # Errors
    /// As [`Transaction::get_for_update`].
    pub fn get_for_share(&mut self, family: Family, key: &[u8]) -> Result<Option<ValueOf<S>>> {
        self.ready()?;
        check_key(key)?;
        let key = OneKey::new(family.id, key);
        match self.reading.writes().get(&key).is_none() {
            true => self.before_lasting_read(&key, Mode::Shared)?,
            // What is promised of it outlives its own write, which may be taken back.
            false => self.touch(&key)?,
        }
        self.reading.look(&key)
    }

    /// Sets a key.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] past a limit; [`Error::Busy`] naming who holds the key, [`Error::Conflict`] if it was
    /// changed since the snapshot, [`Error::Closed`] if the store is closed while it waits; nothing has changed then.
    /// [`Error::Conflict`] if the transaction was rolled back to break a deadlock.
    pub fn put(&mut self, family: Family, key: &[u8], value: &[u8]) -> Result<()> {
        check_value(value)?;
        let write = Write::Value(Some(value.into()));
        self.write(&OneKey::new(family.id, key), &write)
    }

    /// Merges an operand into the value of a key, which is not read.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`Error::InvalidArgument`] if the family has no merge operator, or that does not take the
    /// operand, or cannot merge it into what the transaction wrote before, or what its operands of the key come to is
    /// longer than an operand may be.
    pub fn merge(&mut self, family: Family, key: &[u8], operand: &[u8]) -> Result<()> {
        self.ready()?;
        check_key(key)?;
        let operator = self.shared().store.merge_operator(family.id)?;
        merge::check_operand(&*operator, operand)?;
        let key = OneKey::new(family.id, key);
        let write = self.reading.writes().merged(&key, operand, &*operator)?;
        self.write(&key, &write)
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, family: Family, key: &[u8]) -> Result<()> {
        self.write(&OneKey::new(family.id, key), &Write::Value(None))
    }

    fn write(&mut self, key: &OneKey<'_>, write: &Write<'_>) -> Result<()> {
        self.ready()?;
        check_key(key.key)?;
        let bytes = write_bytes(key.key.len() + write.len());
        let before = self.held().borrow().locked();
        self.all_or_nothing(|| {
            self.lock_as_seen(key, Mode::Exclusive)?;
            self.take_memory(bytes)
        })?;
        let written = self.reading.lists_mut().writes.set(key, write);
        if written.is_err() {
            self.held().borrow_mut().spare += bytes;
            self.back_to(before);
        }
        written
    }

    /// Deletes the keys from `start` up to, and not with, `end`, or all from `start` on. One that locks locks each key
    /// that is there, the first key of the range in any case, and the range against new ones.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_range(&mut self, family: Family, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        self.ready()?;
        if end.is_some_and(|end| end <= start) {
            return Ok(());
        }
        [start].into_iter().chain(end).try_for_each(check_key)?;
        let span = Span {
            cf: family.id,
            start: start.to_vec(),
            end: end.map(<[u8]>::to_vec),
        };
        let range = self.all_or_nothing(|| {
            if self.locks() {
                self.lock_deleted(&span)?;
                self.settle_moment(&span)?;
                self.lock_all(family, &span)?;
            }
            let range = self.reading.writes().deletion(span)?;
            self.take_memory(range.cost())?;
            Ok(range)
        })?;
        self.reading.lists_mut().writes.delete_range(range);
        Ok(())
    }

    /// Locks a range that is to be deleted against changes. Its first key is locked alone before, whether it is there or not:
    /// where two such ranges meet, one has the first key of the other. So the second waits, though nobody else would keep
    /// it where no key is there.
    fn lock_deleted(&self, span: &Span) -> Result<()> {
        self.lock(&OneKey::new(span.cf, &span.start), Mode::Exclusive)?;
        self.lock_range(span)
    }

    /// Locks each key of a range that nobody else changes.
    fn lock_all(&self, family: Family, span: &Span) -> Result<()> {
        let mut place = self.reading.place(family)?;
        let until = span.end.as_deref();
        let until = until.map_or(Bound::Unbounded, Bound::Excluded);
        let mut found = place.seek(Bound::Included(&span.start), until, true)?;
        while found && span.has(span.cf, place.key()) {
            self.lock(&OneKey::new(span.cf, place.key()), Mode::Exclusive)?;
            found = place.step(until, true)?;
        }
        Ok(())
    }

    /// The entries whose keys lie from `start` up to, and not with, `end`, from both ends, in the family's order: its
    /// own over those of its snapshot.
    pub fn scan(&self, family: Family, start: &[u8], end: Option<&[u8]>) -> Scan<'_, S> {
        if end.is_some_and(|end| end <= start) {
            return Scan::empty();
        }
        let span = Span {
            cf: family.id,
            start: start.to_vec(),
            end: end.map(<[u8]>::to_vec),
        };
        let begun = self.before_scan(&span);
        Scan::new(&self.reading, family, (span, begun))
    }

    /// Prepares reading a range. Returns whether it is to be noted what of it was read.
    fn before_scan(&self, span: &Span) -> Result<bool> {
        self.ready()?;
        if !self.is_serializable() {
            self.reading.fix();
            return Ok(false);
        }
        self.all_or_nothing(|| {
            if self.locks() {
                self.lock_range(span)?;
                self.settle_moment(span)?;
            }
            self.take_memory(2 * (TOUCHED_BYTES + span.bytes() as u64))
        })?;
        if !self.locks() {
            return Ok(true);
        }
        // What an iterator has given is of this moment.
        self.reading.fix();
        self.reading
            .lists()
            .touched
            .borrow_mut()
            .add_span(span.clone());
        Ok(false)
    }

    /// A point to which its writes can be taken back. It counts among what the transaction has of DRAM, and is made also
    /// where the limit is reached.
    pub fn savepoint(&mut self) -> Savepoint {
        let owner = self.owner();
        self.reading.take_memory_anyway(SAVEPOINT_BYTES);
        self.reading.lists_mut().writes.savepoint(owner)
    }

    /// Nothing is taken back to this savepoint any more. What it costs is free, unless others were made since.
    pub fn forget(&mut self, savepoint: Savepoint) {
        let owner = self.owner();
        let freed = self.reading.lists_mut().writes.forget(owner, savepoint);
        self.held().borrow_mut().spare += freed;
    }

    /// Whose its savepoints are.
    fn owner(&self) -> Owner {
        (self.shared().number, self.id())
    }

    /// Takes back all writes since a savepoint, which stays and can be rolled back to again. Nobody is refused for what
    /// was taken back. Locks that were taken since are kept, and what was read since still counts.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a savepoint of another transaction, or one made after another that was rolled back
    /// to.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.ready()?;
        let owner = self.owner();
        let writes = &mut self.reading.lists_mut().writes;
        let freed = writes.rollback_to(owner, savepoint)?;
        self.held().borrow_mut().spare += freed;
        Ok(())
    }

    /// Whether it has written nothing.
    pub fn is_empty(&self) -> bool {
        self.reading.writes().is_empty()
    }
}
