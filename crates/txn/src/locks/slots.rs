//! Keys and their locks in a table: open addressing, a place at a time from where the key's hash leads.
//!
//! # Invariants
//! 1. Between the place where the hash of a key leads and the place where it lies, none is free. So whoever looks for it
//!    finds it before the first free one. What is taken out is followed by those behind it that would be cut off.
//! 2. A quarter of the places is free at least, and there are at most five times as many as keys, or [`LEAST`].

use thermocline_base::size::index;

use crate::locks::entry::Entry;
use crate::locks::key::LockKey;

/// So many places there are at least, once there was a key.
pub(crate) const LEAST: usize = 8;

/// A key and its lock.
pub(crate) type Slot = (LockKey, Entry);

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// None, or a power of two.
    places: Box<[Option<Slot>]>,
    len: usize,
}

impl Slots {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many there is memory for.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.places.iter().flatten()
    }

    /// Where the hash of a key leads. There are places.
    fn home(&self, key: &LockKey) -> usize {
        index(key.hash() & (self.places.len() as u64 - 1))
    }

    fn behind(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }

    /// The place of a key.
    pub fn find(&self, key: &LockKey) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut at = self.home(key);
        while let Some((own, _)) = &self.places[at] {
            if own == key {
                return Some(at);
            }
            at = self.behind(at);
        }
        None
    }

    /// The key and lock at a place where one was found.
    pub fn at(&self, place: usize) -> &Slot {
        self.places[place].as_ref().expect("a key was found here")
    }

    /// As [`Slots::at`], to be changed.
    pub fn at_mut(&mut self, place: usize) -> &mut Slot {
        self.places[place].as_mut().expect("a key was found here")
    }

    /// Adds a key that is not there.
    pub fn add(&mut self, slot: Slot) -> &mut Entry {
        if 4 * (self.len + 1) > 3 * self.places.len() {
            self.resize((2 * self.places.len()).max(LEAST));
        }
        self.len += 1;
        let free = self.free(&slot.0);
        &mut self.places[free].insert(slot).1
    }

    /// The free place where a key is to lie.
    fn free(&self, key: &LockKey) -> usize {
        let mut at = self.home(key);
        while self.places[at].is_some() {
            at = self.behind(at);
        }
        at
    }

    /// Takes out what was found at a place.
    pub fn remove(&mut self, place: usize) {
        self.places[place] = None;
        self.len -= 1;
        let (mut hole, mut at) = (place, self.behind(place));
        while let Some((key, _)) = &self.places[at] {
            // It may move to the hole if that lies between its home and itself, counted around the end.
            let mask = self.places.len() - 1;
            let from_home = at.wrapping_sub(self.home(key)) & mask;
            if at.wrapping_sub(hole) & mask <= from_home {
                self.places.swap(hole, at);
                hole = at;
            }
            at = self.behind(at);
        }
        if self.places.len() > LEAST && 5 * self.len < self.places.len() {
            self.resize(self.places.len() / 2);
        }
    }

    fn resize(&mut self, places: usize) {
        let fresh = (0..places).map(|_| None).collect();
        let before = std::mem::replace(&mut self.places, fresh);
        for slot in before.into_iter().flatten() {
            let free = self.free(&slot.0);
            self.places[free] = Some(slot);
        }
    }
}
