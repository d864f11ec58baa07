//! What one store has in the cache, and in which order that came: so a store that must make room among its own blocks finds
//! them without a look at those of others, however many there are.
//!
//! A store that is alone has no use for an order, and one that never makes room has none either. So it is kept from when
//! it is first needed, which takes one look at all of the cache, until the store is alone.
//!
//! The cache lets blocks go by itself and tells nobody. So a place in the order is a guess, and whoever comes to it looks
//! whether the entry that stood there is still in.

use std::collections::VecDeque;
use std::sync::Arc;

use thermocline_base::FileId;
use thermocline_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// By what an entry is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    pub store: u64,
    pub file: FileId,
    pub offset: u64,
}

/// Where an entry stands in the order of its store.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub key: Key,
    /// That of the entry: another one may come to be found by the same key.
    turn: u64,
}

/// An order has room for so many places though there are fewer.
const ROOM_MIN: usize = 64;

/// Entries by the order in which they came, or had their second chance.
#[derive(Debug, Default)]
pub struct Order {
    places: Mutex<VecDeque<Place>>,
}

impl Order {
    /// How many places there are.
    pub fn places(&self) -> usize {
        lock(&self.places).len()
    }

    /// The place that comes first is no more in the order.
    pub fn take_first(&self) -> Option<Place> {
        let mut places = lock(&self.places);
        let first = places.pop_front();
        // The room of many that have gone is not charged to anybody, so it does not stay.
        let len = places.len().max(ROOM_MIN);
        if places.capacity() / 4 > len {
            places.shrink_to(2 * len);
        }
        first
    }

    /// Adds the last place. How many there are then.
    pub fn add(&self, place: Place) -> usize {
        let mut places = lock(&self.places);
        places.push_back(place);
        places.len()
    }

    /// Adds places before all others, by when their entries came.
    fn add_before(&self, mut older: Vec<Place>) {
        older.sort_unstable_by_key(|place| place.turn);
        let mut all = VecDeque::from(older);
        let mut places = lock(&self.places);
        all.append(&mut places);
        *places = all;
    }

    fn clear(&self) {
        *lock(&self.places) = VecDeque::new();
    }
}

/// Of one store. Counts are relaxed: they decide how much goes, and nothing else.
#[derive(Debug, Default)]
pub struct Own {
    bytes: AtomicU64,
    entries: AtomicU64,
    /// How many have come.
    turns: AtomicU64,
    /// Whether what comes has a place in its order.
    ordered: AtomicBool,
    /// Held by whoever changes that.
    ordering: Mutex<()>,
    /// Data blocks, and values.
    pub data: Order,
    /// Index blocks, which go after them.
    pub indexes: Order,
}

impl Own {
    /// Bytes that its entries take.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many there are.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether what comes is to have a place. To be asked once it is found in the cache.
    #[inline]
    pub fn is_ordered(&self) -> bool {
        self.ordered.load(Ordering::Relaxed)
    }

    /// Orders are kept from here on. `all` looks at all of the cache, and gives the places of data and of index blocks.
    pub fn begin_order(&self, all: impl FnOnce() -> [Vec<Place>; 2]) {
        // Who makes room as well waits, or he would find none.
        let _one = lock(&self.ordering);
        if self.is_ordered() {
            return;
        }
        self.clear();
        // Before the look: what it does not find came into the cache behind it, and sees this. What sees this and is found
        // has two places, of which the second is taken for that of one that has gone.
        self.ordered.store(true, Ordering::Relaxed);
        let [data, indexes] = all();
        self.data.add_before(data);
        self.indexes.add_before(indexes);
    }

    /// Orders are not kept any more.
    pub fn end_order(&self) {
        let _one = lock(&self.ordering);
        self.ordered.store(false, Ordering::Relaxed);
        self.clear();
    }

    /// Clears the orders if all entries but `others`, which have no place yet, have gone.
    pub fn clear_if_gone(&self, others: u64) {
        if self.entries() > others {
            return;
        }
        for order in [&self.data, &self.indexes] {
            let mut places = lock(&order.places);
            // Asked again: whoever has a place was counted before it was given one under this lock.
            if self.entries() <= others {
                *places = VecDeque::new();
            }
        }
    }

    fn clear(&self) {
        self.data.clear();
        self.indexes.clear();
    }
}

/// That an entry is its store's, for as long as it is there.
#[derive(Debug)]
pub struct Owned {
    bytes: u64,
    turn: u64,
    /// Whether it was found since it was looked at. Relaxed: a guess.
    used: AtomicBool,
    of: Arc<Own>,
}

impl Owned {
    /// Of so many bytes.
    pub fn new(bytes: u64, of: &Arc<Own>) -> Owned {
        of.bytes.fetch_add(bytes, Ordering::Relaxed);
        of.entries.fetch_add(1, Ordering::Relaxed);
        Owned {
            bytes,
            turn: of.turns.fetch_add(1, Ordering::Relaxed),
            used: AtomicBool::new(false),
            of: of.clone(),
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The entry was found.
    #[inline]
    pub fn was_found(&self) {
        // Not written where it is set: others read it, too.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was found since this was asked last.
    pub fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Its place in the order, if it is found by `key`.
    pub fn place(&self, key: Key) -> Place {
        Place {
            key,
            turn: self.turn,
        }
    }

    /// Whether it is the one that stood there.
    pub fn stood_at(&self, place: Place) -> bool {
        self.turn == place.turn
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.of.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.of.entries.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A store that has a way to the cache, counted as long as it has one.
#[derive(Debug)]
pub struct Living(Arc<AtomicU64>);

impl Living {
    /// One more of `all`.
    pub fn new(all: &Arc<AtomicU64>) -> Living {
        all.fetch_add(1, Ordering::Relaxed);
        Living(all.clone())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(turn: u64) -> Place {
        let key = Key {
            store: 0,
            file: FileId(1),
            offset: 8 * turn,
        };
        Place { key, turn }
    }

    #[test]
    fn the_room_of_places_that_have_gone_is_given_back() {
        let order = Order::default();
        for turn in 0..10_000 {
            assert_eq!(order.add(place(turn)) as u64, turn + 1);
        }
        assert!(lock(&order.places).capacity() >= 10_000);
        for turn in 0..9_990 {
            assert_eq!(order.take_first().map(|first| first.turn), Some(turn));
            let places = lock(&order.places);
            assert!(places.capacity() <= 4 * places.len().max(ROOM_MIN) + 3);
        }
        assert_eq!(order.places(), 10);
    }

    #[test]
    fn what_was_there_before_the_order_comes_first_in_it() {
        let own = Own::default();
        own.begin_order(|| {
            own.data.add(place(3));
            [vec![place(2), place(0), place(1)], Vec::new()]
        });
        own.begin_order(|| panic!("it is kept already"));
        let first = || own.data.take_first().map(|first| first.turn);
        assert_eq!([first(), first(), first()], [Some(0), Some(1), Some(2)]);
        assert!(own.is_ordered());
        own.end_order();
        assert!(!own.is_ordered());
        assert_eq!(own.data.places(), 0);
    }
}
