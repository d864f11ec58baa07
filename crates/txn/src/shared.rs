//! What the transactions of a store share: the locks, the limits, and the list of those that are open.

use std::collections::BTreeMap;

use thermocline_base::shown::shown;
use thermocline_base::{Error, Line, Result};
use thermocline_engine::{Claims, RangeClaim, Resolution, WriteOptions};

use crate::footprint::OneKey;
use crate::held::Held;
use crate::life::{Life, TxnId};
use crate::locks::entry::Mode;
use crate::locks::table::{LockTable, Taken};
use crate::memory::{BEGIN_BYTES, LOCK_BYTES, Memory, TOUCHED_BYTES, TRANSACTION_BYTES};
use crate::options::TxnOptions;
use crate::refusal::{lock_key, lock_range};
use crate::store::Store;
use crate::sync::{Arc, Mutex, lock};

/// Most transactions that are open at a time.
pub const OPEN_MAX: usize = 65_536;

/// Parts of the table of locks: more than cores, so that two transactions seldom meet in one.
const STRIPES: usize = 64;

/// When all transactions have ended there is memory for this many places in the list of those that are open.
const PLACES_KEPT: usize = 1024;

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

/// DRAM for a prepared transaction: its locks, and the store's list of what it claims.
fn kept_bytes(claims: &Claims) -> u64 {
    let keys = claims.keys().map(|(_, key, _)| 3 * key.len());
    let ends = |range: &RangeClaim| range.end.as_ref().map_or(0, |end| end.len());
    let ranges = claims.ranges().iter();
    let ranges = ranges.map(|range| 3 * (range.start.len() + ends(range)));
    let bytes = keys.chain(ranges).sum::<usize>() as u64;
    TRANSACTION_BYTES + (LOCK_BYTES + 2 * TOUCHED_BYTES) * claims.len() as u64 + bytes
}

/// Locks all of it, in a table where nobody has what it writes.
fn lock_again(locks: &LockTable, life: &Arc<Life>, claims: &Claims) -> Held {
    let mut held = Held::default();
    for (cf, key, writes) in claims.keys() {
        let key = lock_key(&OneKey::new(cf, key));
        // Not got, it is not held: what is promised does not depend on locks.
        if let Ok(Taken::Anew) = locks.acquire(life, &key, mode_of(writes), 0) {
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

/// An open transaction, in the list of all.
type Listed = (Arc<Life>, TxnOptions);

/// The open transactions.
#[derive(Default)]
struct Open {
    /// Each keeps its place until it ends.
    all: Vec<Option<Listed>>,
    /// Places that nobody has.
    free: Vec<usize>,
    /// How many have begun.
    begun: TxnId,
}

impl Open {
    fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    fn next_id(&mut self) -> TxnId {
        self.begun += 1;
        self.begun
    }

    fn add(&mut self, listed: Listed) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.all[place] = Some(listed);
        place
    }

    /// Returns who had the place.
    fn remove(&mut self, place: usize) -> Option<Listed> {
        let listed = self.all[place].take();
        self.free.push(place);
        if self.len() == 0 && self.all.len() > PLACES_KEPT {
            self.all = Vec::new();
            self.free = Vec::new();
        }
        listed
    }

    /// Those that began first, the first first.
    fn first(&self, most: usize) -> Vec<Listed> {
        let mut all: Vec<&Listed> = self.all.iter().flatten().collect();
        if all.len() > most {
            all.select_nth_unstable_by_key(most, |(life, _)| life.id);
            all.truncate(most);
        }
        all.sort_unstable_by_key(|(life, _)| life.id);
        all.into_iter().cloned().collect()
    }
}

/// A transaction that has begun.
pub(crate) struct Begun {
    pub life: Arc<Life>,
    /// In the list of those that are open.
    pub place: usize,
    /// With what it begins: no locks, and some memory.
    pub held: Held,
}

/// What the transactions of a store share.
pub(crate) struct Shared<S: Store> {
    pub store: Arc<S>,
    pub locks: LockTable,
    /// What each transaction writes lies apart from what all read.
    pub memory: Line<Memory>,
    open: Line<Mutex<Open>>,
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
            locks: LockTable::new(STRIPES, move || clock.now_ns()),
            memory: Line(Memory::new(store.memory_max())),
            open: Line::default(),
            prepared: Mutex::default(),
            store,
        }
    }

    /// How many transactions are open, and some of those that are open longest.
    pub fn first(&self, most: usize) -> (usize, Vec<Listed>) {
        let open = lock(&self.open);
        (open.len(), open.first(most))
    }

    /// A transaction begins.
    pub fn enter(&self, options: &TxnOptions) -> Result<Begun> {
        let bytes = TRANSACTION_BYTES + BEGIN_BYTES;
        self.memory.take(bytes)?;
        let now_ns = self.store.now_ns();
        let expires_ns = options.expiration.map_or(u64::MAX, |after| {
            now_ns.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
        });
        let mut open = lock(&self.open);
        if open.len() >= OPEN_MAX {
            drop(open);
            self.memory.give_back(bytes);
            return Err(Error::OutOfSpace(format!(
                "{OPEN_MAX} transactions are open, as many as may be; end some (Db::transactions lists those that are \
                 open longest)"
            )));
        }
        let life = Arc::new(Life::new(open.next_id(), now_ns, expires_ns));
        let place = open.add((Arc::clone(&life), *options));
        let held = Held::with_memory(bytes, BEGIN_BYTES);
        Ok(Begun { life, place, held })
    }

    /// A transaction is about to be prepared, with these locks.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is one of this name; [`Error::OutOfSpace`] with the limit. Its locks are free
    /// then.
    pub fn keep(
        &self,
        name: &[u8],
        life: &Arc<Life>,
        (mut held, claims): (Held, &Claims),
    ) -> Result<()> {
        held.bytes = kept_bytes(claims);
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
        Ok(())
    }

    /// A prepared transaction has ended: its locks are free.
    pub fn let_go(&self, name: &[u8]) {
        let kept = lock(&self.prepared).remove(name);
        if let Some(mut kept) = kept {
            kept.held.release(&kept.life, &self.locks);
            self.memory.give_back(kept.held.bytes);
        }
    }

    /// What an open has found prepared has its locks again. Nobody else has any.
    pub fn restore(&self) {
        for (name, claims) in self.store.prepared_claims() {
            let id = lock(&self.open).next_id();
            let life = Arc::new(Life::new(id, self.store.now_ns(), u64::MAX));
            // Nobody takes its locks.
            let _ = life.settle();
            let _ = life.name.set(name.clone().into());
            let mut held = lock_again(&self.locks, &life, &claims);
            held.bytes = kept_bytes(&claims);
            self.memory.take_anyway(held.bytes);
            lock(&self.prepared).insert(name.into(), Kept { life, held });
        }
    }

    /// Ends a prepared transaction.
    pub fn resolve(&self, name: &[u8], resolution: Resolution, mode: WriteOptions) -> Result<()> {
        self.store.resolve(name, resolution, mode)?;
        self.let_go(name);
        Ok(())
    }

    /// How many are prepared.
    pub fn prepared(&self) -> usize {
        lock(&self.prepared).len()
    }

    /// The transaction at a place of the list of those that are open has ended.
    pub fn leave(&self, place: usize) {
        let gone = lock(&self.open).remove(place);
        // Not under the lock.
        drop(gone);
    }
}
