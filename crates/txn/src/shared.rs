//! What all transactions of a store share: the locks, the limits, and those that are prepared.

use std::collections::BTreeMap;
use std::time::Duration;

use thermocline_base::shown::shown;
use thermocline_base::{Error, Line, Result};
use thermocline_engine::{Claims, RangeClaim, Resolution, WriteOptions};

use crate::footprint::OneKey;
use crate::held::Held;
use crate::life::Life;
use crate::locks::entry::Mode;
use crate::locks::table::{LockTable, Taken};
use crate::memory::{Memory, TOUCHED_BYTES, TRANSACTION_BYTES};
use crate::refusal::{lock_key, lock_range};
use crate::store::{Store, Which};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};

/// Parts of the table of locks: more than cores, so that two transactions seldom meet in one.
const STRIPES: usize = 64;

/// How what a prepared transaction claims is locked.
pub(crate) fn mode_of(writes: bool) -> Mode {
    match writes {
        true => Mode::Exclusive,
        false => Mode::Shared,
    }
}

/// A transaction that is prepared, or about to be.
struct Kept {
    life: Arc<Life>,
    held: Held,
}

/// The name and the locks of a transaction that is about to be prepared. Both are free when this is dropped, by an error or by
/// a panic.
#[must_use]
pub(crate) struct Keeping<'a, S: Store> {
    shared: &'a Shared<S>,
    name: &'a [u8],
    is_prepared: bool,
}

impl<S: Store> Keeping<'_, S> {
    /// It is prepared, and keeps both until it is resolved.
    pub fn prepared(mut self) {
        self.is_prepared = true;
    }
}

impl<S: Store> Drop for Keeping<'_, S> {
    fn drop(&mut self) {
        if !self.is_prepared {
            self.shared.let_go(self.name);
        }
    }
}

/// DRAM for a prepared transaction: its locks, those of writes that it took back included, and the store's list of what it
/// claims.
fn kept_bytes(held: &Held, claims: &Claims) -> u64 {
    let keys = claims.keys().map(|(_, key, _)| key.len());
    let ends = |range: &RangeClaim| range.end.as_ref().map_or(0, |end| end.len());
    let ranges = claims.ranges().iter();
    let ranges = ranges.map(|range| range.start.len() + ends(range));
    let bytes = keys.chain(ranges).sum::<usize>() as u64;
    TRANSACTION_BYTES + held.lock_bytes() + 2 * (TOUCHED_BYTES * claims.len() as u64 + bytes)
}

/// Locks all of it, in a table where nobody has what it writes.
fn lock_again(locks: &LockTable, life: &Arc<Life>, claims: &Claims) -> Held {
    let mut held = Held::default();
    // Of a range that it deletes it had the first key alone.
    let deleted = claims.ranges().iter().filter(|range| range.writes);
    let first = deleted.map(|range| (range.cf, &*range.start, true));
    for (cf, key, writes) in claims.keys().chain(first) {
        let key = lock_key(&OneKey::new(cf, key));
        // Not got, it is not held: what is promised does not depend on locks.
        if let Ok(Taken::Anew) = locks.acquire(life, &key, mode_of(writes), (life.begun_ns, 0)) {
            held.add(life, key);
        }
    }
    for range in claims.ranges() {
        let (start, end) = lock_range(range.cf, &range.start, range.end.as_deref());
        let mut keys = Vec::new();
        let taken = locks.acquire_range(life, (&start, &end), 0, |key| keys.push(key));
        keys.into_iter().for_each(|key| held.add(life, key));
        if let Ok(arrival) = taken {
            held.add_range(life, arrival, (start, end));
        }
    }
    held
}

/// A number that nobody in this process has had before.
fn next_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};

    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What the transactions of a store share.
pub(crate) struct Shared<S: Store> {
    /// Whose they are: another one in each opening of each store. Their own numbers begin anew there.
    pub number: u64,
    pub store: Arc<S>,
    pub locks: LockTable,
    /// What each transaction writes lies apart from what all read.
    pub memory: Line<Memory>,
    /// How many have begun.
    begun: Line<AtomicU64>,
    /// By name: those that are prepared, and those that are about to be.
    prepared: Mutex<BTreeMap<Box<[u8]>, Kept>>,
}

impl<S: Store> std::fmt::Debug for Shared<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transactions")
            .field("locks", &self.locks)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl<S: Store> Shared<S> {
    /// There is no transaction yet.
    pub fn new(store: S) -> Shared<S> {
        let store = Arc::new(store);
        let clock = Arc::clone(&store);
        Shared {
            number: next_number(),
            locks: LockTable::new(STRIPES, move || clock.now_ns()),
            memory: Line(Memory::new(store.memory_max())),
            begun: Line::default(),
            prepared: Mutex::default(),
            store,
        }
    }

    /// Of a transaction that begins now.
    pub fn new_life(&self, expiration: Option<Duration>) -> Life {
        // Relaxed: whoever begins after another one has begun gets a larger number.
        let id = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let expires_ns = expiration.map_or(u64::MAX, |after| {
            let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
            self.store.now_ns().saturating_add(after_ns)
        });
        Life::new(id, self.store.tick_ns(), expires_ns)
    }

    /// A transaction is about to be prepared, with these locks.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is one of this name; [`Error::OutOfSpace`] with the limit. Its locks are free
    /// then.
    pub fn keep<'a>(
        &'a self,
        name: &'a [u8],
        life: &Arc<Life>,
        (mut held, claims): (Held, &Claims),
    ) -> Result<Keeping<'a, S>> {
        held.bytes = kept_bytes(&held, claims);
        let mut prepared = lock(&self.prepared);
        let taken = match prepared.contains_key(name) {
            true => Err(Error::InvalidArgument(format!(
                "transaction '{}' is prepared already, or about to be; give this one another name, or commit that or roll \
                 it back first (Db::prepared lists those that there are)",
                shown(name)
            ))),
            false => self.memory.take(held.bytes),
        };
        if let Err(error) = taken {
            drop(prepared);
            held.release(life, &self.locks);
            return Err(error);
        }
        let _ = life.name.set(name.into());
        let life = Arc::clone(life);
        prepared.insert(name.into(), Kept { life, held });
        Ok(Keeping {
            shared: self,
            name,
            is_prepared: false,
        })
    }

    /// A prepared transaction has ended: its locks are free.
    fn let_go(&self, name: &[u8]) {
        let kept = lock(&self.prepared).remove(name);
        if let Some(mut kept) = kept {
            kept.held.release(&kept.life, &self.locks);
            self.memory.give_back(kept.held.bytes);
        }
    }

    /// What an open has found prepared has its locks again. Nobody else has any.
    pub fn restore(&self) {
        for (name, claims) in self.store.prepared_claims() {
            let life = Arc::new(self.new_life(None));
            // Nobody takes its locks.
            let _ = life.settle();
            let _ = life.name.set(name.clone().into());
            let mut held = lock_again(&self.locks, &life, &claims);
            held.bytes = kept_bytes(&held, &claims);
            self.memory.take_anyway(held.bytes);
            lock(&self.prepared).insert(name.into(), Kept { life, held });
        }
    }

    /// Ends a prepared transaction.
    pub fn resolve(
        &self,
        which: Which<'_>,
        resolution: Resolution,
        mode: WriteOptions,
    ) -> Result<()> {
        self.store.resolve(which, resolution, mode)?;
        let (name, _) = which;
        // Nobody has taken the name meanwhile: it is there until now.
        self.let_go(name);
        Ok(())
    }

    /// How many are prepared.
    pub fn prepared(&self) -> usize {
        lock(&self.prepared).len()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::{CfId, WriteBatch};

    use super::*;
    use crate::memory::LOCK_BYTES;

    const CF: CfId = CfId(3);

    /// Locks outlive the writes that they were taken for, and a transaction that is prepared pays for them as it did before.
    #[test]
    fn who_is_prepared_pays_for_all_its_locks() {
        let table = LockTable::new(8, || 1);
        let life = Arc::new(Life::new(1, 0, u64::MAX));
        let mut batch = WriteBatch::new();
        batch.put(CF, b"kept", b"value").unwrap();
        batch.delete_range(CF, b"d", Some(b"e")).unwrap();
        let claims = Claims::of(batch.iter());
        let mut held = lock_again(&table, &life, &claims);
        let claimed = kept_bytes(&held, &claims);
        let names: Vec<[u8; 4]> = (0..1000u32).map(u32::to_be_bytes).collect();
        for name in &names {
            let key = lock_key(&OneKey::new(CF, name));
            let times = (0, u64::MAX);
            let taken = table.acquire(&life, &key, Mode::Exclusive, times);
            assert_eq!(taken.unwrap(), Taken::Anew);
            held.add(&life, key);
        }
        // Two bytes of each say which family.
        let more = kept_bytes(&held, &claims) - claimed;
        assert_eq!(more, 1000 * (LOCK_BYTES + 4 + 2));
        held.release(&life, &table);
        assert_eq!(held.lock_bytes(), 0);
        assert_eq!(table.counts(), (0, 0, 0));
    }

    /// Who would delete a range that meets one of a prepared transaction waits for that, before an opening and after it, and
    /// whoever only reads a range does not keep others who read there.
    #[test]
    fn a_range_that_is_deleted_has_its_first_key_locked_again() {
        let table = LockTable::new(8, || 1);
        let life = Arc::new(Life::new(1, 0, u64::MAX));
        let mut batch = WriteBatch::new();
        batch.delete_range(CF, b"f", Some(b"g")).unwrap();
        let mut claims = Claims::of(batch.iter());
        claims.read_range(CF, b"r", Some(b"s"));
        let mut held = lock_again(&table, &life, &claims);
        assert_eq!(table.counts(), (1, 2, 0));
        let other = Arc::new(Life::new(2, 0, u64::MAX));
        let lock = |start: &[u8], end: &[u8]| {
            let (start, end) = lock_range(CF, start, Some(end));
            let taken = table.acquire_range(&other, (&start, &end), 0, |_| ());
            taken.map(|arrival| table.release_range(arrival, (&start, &end)))
        };
        assert!(lock(b"a", b"p").is_err());
        assert!(lock(b"p", b"z").is_ok());
        held.release(&life, &table);
        assert!(lock(b"a", b"p").is_ok());
        assert_eq!(table.counts(), (0, 0, 0));
    }
}
