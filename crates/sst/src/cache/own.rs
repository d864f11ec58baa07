//! What one store has in the cache, and in which order that came: so a store that must make room among its own blocks finds
//! them without a look at those of others, however many there are.
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
        lock(&self.places).pop_front()
    }

    pub fn add(&self, place: Place) {
        lock(&self.places).push_back(place);
    }
}

/// Of one store. Counts are relaxed: they decide how much goes, and nothing else.
#[derive(Debug, Default)]
pub struct Own {
    bytes: AtomicU64,
    entries: AtomicU64,
    /// How many have come.
    turns: AtomicU64,
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
