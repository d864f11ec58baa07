//! Where transactions begin and end, and what they leave for the next.
//!
//! There are [`LANES`], and each thread has one that it begins in: what a transaction changes when it begins and ends lies on
//! cache lines that other threads seldom touch. That is the list of those that are open, the count of handles, a little DRAM
//! that the last one had counted, and its lists: with their memory, which this core's caches have, the next begins. Where a
//! lane is full another one is begun in. One that has begun in a lane may end on any thread.
//!
//! # Memory
//! A lane keeps DRAM for a few transactions counted ([`Memory::lane_max`]), which is not reported. It keeps the lists of up to
//! [`KEPT`] transactions that have ended, and none of more than [`Memory::lists_max`] bytes. These come on top of what is
//! counted: a thirty-second of the limit at most.

use thermocline_base::counter::thread_number;
use thermocline_base::{Error, Line, Result};

use crate::life::Life;
use crate::lists::Lists;
use crate::memory::{BEGIN_BYTES, Memory, TRANSACTION_BYTES};
use crate::options::TxnOptions;
use crate::shared::Shared;
use crate::store::Store;
use crate::sync::{Arc, Mutex, lock};

/// Most transactions that are open at a time.
pub const OPEN_MAX: usize = 65_536;

/// More than most machines have cores for one store's writers.
const LANES: usize = 16;

/// Of a lane.
const LANE_OPEN_MAX: usize = OPEN_MAX / LANES;

/// When all transactions of a lane have ended there is memory for this many places in its list of those that are open.
const PLACES_KEPT: usize = 64;

/// Lists of ended transactions that a lane keeps.
const KEPT: usize = 4;

/// An open transaction, in the list of all.
pub(crate) type Listed = (Arc<Life>, TxnOptions);

/// The open transactions of a lane.
#[derive(Default)]
struct Open {
    /// Each keeps its place until it ends.
    all: Vec<Option<Listed>>,
    /// Places that nobody has.
    free: Vec<usize>,
    /// Lists of ended transactions, which have nothing.
    #[expect(
        clippy::vec_box,
        reason = "they go from hand to hand, and are 500 bytes each"
    )]
    kept: Vec<Box<Lists>>,
    /// DRAM that is counted, and that nobody has.
    bytes: u64,
}

impl Open {
    fn len(&self) -> usize {
        self.all.len() - self.free.len()
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

    /// Bytes of DRAM for one that begins.
    ///
    /// # Errors
    /// As [`Memory::take`].
    fn take(&mut self, memory: &Memory) -> Result<u64> {
        let least = TRANSACTION_BYTES + BEGIN_BYTES;
        if self.bytes < least {
            memory.take(least - self.bytes)?;
            self.bytes = least;
        }
        Ok(std::mem::take(&mut self.bytes))
    }

    /// DRAM of one that has ended.
    fn give_back(&mut self, bytes: u64, memory: &Memory) {
        self.bytes += bytes;
        let most = memory.lane_max();
        if self.bytes > most {
            memory.give_back(self.bytes - most);
            self.bytes = most;
        }
    }
}

/// Where some of the transactions of a store begin and end.
pub(crate) struct Lane<S: Store> {
    pub shared: Arc<Shared<S>>,
    open: Line<Mutex<Open>>,
}

impl<S: Store> std::fmt::Debug for Lane<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.shared.fmt(f)
    }
}

/// A transaction that has begun.
pub(crate) struct Begun<S: Store> {
    pub lane: Arc<Lane<S>>,
    pub life: Arc<Life>,
    /// In the lane's list of those that are open.
    pub place: usize,
    /// They have nothing but some memory.
    pub lists: Box<Lists>,
}

impl<S: Store> Lane<S> {
    /// A transaction begins; `None` if the lane is full.
    ///
    /// # Errors
    /// As [`Memory::take`].
    fn enter(self: &Arc<Self>, options: &TxnOptions) -> Result<Option<Begun<S>>> {
        let shared = &*self.shared;
        let mut open = lock(&self.open);
        if open.len() >= LANE_OPEN_MAX {
            return Ok(None);
        }
        let bytes = open.take(&shared.memory)?;
        let life = Arc::new(shared.new_life(options.expiration));
        let place = open.add((Arc::clone(&life), *options));
        let kept = open.kept.pop();
        drop(open);
        let mut lists = kept.unwrap_or_default();
        let held = lists.held.get_mut();
        held.take_memory(bytes, bytes - TRANSACTION_BYTES);
        let lane = Arc::clone(self);
        Ok(Some(Begun {
            lane,
            life,
            place,
            lists,
        }))
    }

    /// The transaction at a place of the list has ended. It holds no locks.
    pub fn leave(&self, place: usize, mut lists: Box<Lists>) {
        let memory = &self.shared.memory;
        let bytes = lists.held.get_mut().forget_memory();
        lists.clear();
        let is_small = lists.capacity() <= memory.lists_max();
        let mut lists = Some(lists);
        let mut open = lock(&self.open);
        open.give_back(bytes, memory);
        let gone = open.remove(place);
        if is_small && open.kept.len() < KEPT {
            open.kept.extend(lists.take());
        }
        drop(open);
        // Not under the lock.
        drop((gone, lists));
    }
}

/// All lanes of a store.
pub(crate) struct Lanes<S: Store> {
    pub shared: Arc<Shared<S>>,
    all: Box<[Arc<Lane<S>>]>,
}

impl<S: Store> std::fmt::Debug for Lanes<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.shared.fmt(f)
    }
}

impl<S: Store> Lanes<S> {
    /// Nobody has begun.
    pub fn new(shared: Shared<S>) -> Lanes<S> {
        let shared = Arc::new(shared);
        let lane = |_| {
            let shared = Arc::clone(&shared);
            let open = Line::default();
            Arc::new(Lane { shared, open })
        };
        let all = (0..LANES).map(lane).collect();
        Lanes { shared, all }
    }

    /// A transaction begins, in this thread's lane if there is room.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if all lanes are full, or as [`Memory::take`].
    pub fn begin(&self, options: &TxnOptions) -> Result<Begun<S>> {
        let home = thread_number() % LANES;
        for lane in self.all[home..].iter().chain(&self.all[..home]) {
            if let Some(begun) = lane.enter(options)? {
                return Ok(begun);
            }
        }
        Err(Error::OutOfSpace(format!(
            "{OPEN_MAX} transactions are open, as many as may be; end some (Db::transactions lists those that are \
             open longest)"
        )))
    }

    /// How many are open, and some that began first, the first first.
    pub fn first(&self, most: usize) -> (usize, Vec<Listed>) {
        let (mut count, mut first) = (0, Vec::<Listed>::new());
        for lane in &self.all {
            let open = lock(&lane.open);
            count += open.len();
            first.extend(open.all.iter().flatten().cloned());
            drop(open);
            if first.len() > most {
                first.select_nth_unstable_by_key(most, |(life, _)| life.id);
                first.truncate(most);
            }
        }
        first.sort_unstable_by_key(|(life, _)| life.id);
        (count, first)
    }

    /// DRAM that transactions have.
    pub fn memory_used(&self) -> u64 {
        let lanes = self.all.iter();
        let unused: u64 = lanes.map(|lane| lock(&lane.open).bytes).sum();
        self.shared.memory.used().saturating_sub(unused)
    }
}
