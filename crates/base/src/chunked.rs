//! A sequence in order that is cheap to share: changing a copy leaves most of the memory common.
//!
//! Items lie in chunks of at most [`CHUNK_LEN_MAX`]. A copy shares the list of chunks; a change to
//! one of two copies makes a list of its own (one pointer per chunk) and copies the chunk that it
//! touches. What is loaded in order leaves full chunks; one that was split has half as many items at first, and one with
//! fewer joins a neighbour with which it has no more than that. So a change costs `len / CHUNK_LEN_MAX + CHUNK_LEN_MAX`
//! steps at best, and some four times the first part at worst. Of tens of thousands of tables that is a few
//! kilobytes. A tree would make it logarithmic, with more code and slower iteration.
//!
//! What two copies still share tells how they differ, without a look at the rest:
//! [`Chunked::differences`].
//!
//! # Invariants
//! 1. No chunk is empty, and none is longer than [`CHUNK_LEN_MAX`].
//! 2. `len` is the number of items in all chunks.
//! 3. The order is the callers': they find places by a predicate that holds for a prefix of the
//!    sequence, and insert and remove so that it goes on to. A sequence of pairs is in the order of
//!    what they begin with, each once, if it is changed by [`Chunked::set`] and [`Chunked::take`] alone.
//! 4. Who changes a chunk, or the list of chunks, that somebody else has copies it before. So memory that two
//!    sequences have in common never changes.

mod differences;
mod folded;
mod numbered;

use std::sync::Arc;

pub use differences::Difference;
pub use folded::Folded;
pub use numbered::Numbered;

/// Most items of a chunk.
pub const CHUNK_LEN_MAX: usize = 64;

/// See the [module](self).
///
/// ```
/// use thermocline_base::chunked::Chunked;
/// let mut names: Chunked<(u32, &str)> = [(1, "one"), (3, "three")].into_iter().collect();
/// let before = names.clone();
/// assert_eq!(names.set(2, "two"), None);
/// assert_eq!(names.find(&2), Some(&"two"));
/// assert_eq!((names.len(), before.len()), (3, 2));
/// ```
#[derive(Debug, Clone)]
pub struct Chunked<T> {
    chunks: Arc<Vec<Arc<Vec<T>>>>,
    len: usize,
}

/// A place in a sequence: that of an item, or the one behind the last. The default is the first place. It holds until
/// the sequence is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    chunk: usize,
    at: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Chunked<T> {
        Chunked {
            chunks: Arc::default(),
            len: 0,
        }
    }
}

impl<T: PartialEq> PartialEq for Chunked<T> {
    fn eq(&self, other: &Chunked<T>) -> bool {
        Arc::ptr_eq(&self.chunks, &other.chunks)
            || self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for Chunked<T> {}

impl<T> Chunked<T> {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The place behind all items for which `before` holds, which are a prefix.
    #[inline]
    pub fn position(&self, before: impl Fn(&T) -> bool) -> Position {
        let all_before = |chunk: &Arc<Vec<T>>| chunk.last().is_some_and(&before);
        let chunk = self.chunks.partition_point(all_before);
        let at = self.chunks.get(chunk);
        let at = at.map_or(0, |chunk| chunk.partition_point(&before));
        Position { chunk, at }
    }

    /// The place behind the last item.
    pub fn end(&self) -> Position {
        Position {
            chunk: self.chunks.len(),
            at: 0,
        }
    }

    /// The place behind that of an item; the place behind the last stays what it is.
    pub fn place_after(&self, position: Position) -> Position {
        let Position { chunk, at } = position;
        match self.chunks.get(chunk).map(|chunk| chunk.len()) {
            Some(len) if at + 1 < len => Position { chunk, at: at + 1 },
            Some(_) => Position {
                chunk: chunk + 1,
                at: 0,
            },
            None => position,
        }
    }

    /// The place before `position`, if that is not the first one.
    pub fn place_before(&self, position: Position) -> Option<Position> {
        let Position { chunk, at } = position;
        if let Some(at) = at.checked_sub(1) {
            return Some(Position { chunk, at });
        }
        let chunk = chunk.checked_sub(1)?;
        let at = self.chunks.get(chunk)?.len() - 1;
        Some(Position { chunk, at })
    }

    /// The item at `position`, if it is not the one behind the last.
    #[inline]
    pub fn get(&self, position: Position) -> Option<&T> {
        self.chunks.get(position.chunk)?.get(position.at)
    }

    /// The item before `position`, if that is not the first place.
    pub fn before(&self, position: Position) -> Option<&T> {
        self.get(self.place_before(position)?)
    }

    /// All items in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.iter_from(Position::default())
    }

    /// The items from `position` on.
    pub fn iter_from(&self, position: Position) -> impl DoubleEndedIterator<Item = &T> + Clone {
        let chunks = self.chunks.get(position.chunk..).unwrap_or(&[]);
        let (first, rest) = match chunks.split_first() {
            Some((first, rest)) => (first.get(position.at..).unwrap_or(&[]), rest),
            None => (&[][..], chunks),
        };
        let rest = rest.iter().flat_map(|chunk| chunk.iter());
        first.iter().chain(rest)
    }

    /// How many chunks there are, and how many of them `other` has too, as the same memory: what sharing saves.
    pub fn shared_chunks(&self, other: &Chunked<T>) -> (usize, usize) {
        let theirs: std::collections::HashSet<_> = other.chunks.iter().map(Arc::as_ptr).collect();
        let ours = self.chunks.iter().map(Arc::as_ptr);
        (
            self.chunks.len(),
            ours.filter(|c| theirs.contains(c)).count(),
        )
    }
}

impl<T: Clone> Chunked<T> {
    /// The item at `position`, to be changed without moving in the order.
    pub fn get_mut(&mut self, position: Position) -> Option<&mut T> {
        self.get(position)?;
        let chunk = &mut Arc::make_mut(&mut self.chunks)[position.chunk];
        Arc::make_mut(chunk).get_mut(position.at)
    }

    /// Inserts an item before the one at `position`.
    pub fn insert(&mut self, position: Position, item: T) {
        let Position { mut chunk, mut at } = position;
        let chunks = Arc::make_mut(&mut self.chunks);
        self.len += 1;
        if at == 0 && chunk > 0 && chunks.get(chunk).is_none_or(|c| c.len() == CHUNK_LEN_MAX) {
            // Behind the chunk before is the same place, and there may be room.
            chunk -= 1;
            at = chunks[chunk].len();
        }
        let full = chunks.get(chunk).map(|c| c.len() == CHUNK_LEN_MAX);
        match full {
            Some(false) => Arc::make_mut(&mut chunks[chunk]).insert(at, item),
            // What is loaded in order leaves full chunks.
            Some(true) if at == CHUNK_LEN_MAX && chunk + 1 == chunks.len() => {
                chunks.push(Arc::new(vec![item]));
            }
            Some(true) => {
                let (low, high) = chunks[chunk].split_at(CHUNK_LEN_MAX / 2);
                let mut halves = [low.to_vec(), high.to_vec()];
                match at.checked_sub(CHUNK_LEN_MAX / 2) {
                    Some(at) => halves[1].insert(at, item),
                    None => halves[0].insert(at, item),
                }
                chunks.splice(chunk..=chunk, halves.map(Arc::new));
            }
            None => chunks.push(Arc::new(vec![item])),
        }
    }

    /// Removes the item at `position`, if there is one.
    pub fn remove(&mut self, position: Position) -> Option<T> {
        self.get(position)?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let removed = Arc::make_mut(&mut chunks[position.chunk]).remove(position.at);
        self.len -= 1;
        // Few chunks: one that shrinks joins a neighbour that is as small.
        let small = |chunks: &[Arc<Vec<T>>], low: usize| match chunks.get(low..low + 2) {
            Some([a, b]) => a.len() + b.len() <= CHUNK_LEN_MAX / 2,
            _ => false,
        };
        let joins = [Some(position.chunk), position.chunk.checked_sub(1)];
        if let Some(low) = joins.into_iter().flatten().find(|low| small(chunks, *low)) {
            let high = chunks.remove(low + 1);
            Arc::make_mut(&mut chunks[low]).extend(high.iter().cloned());
        }
        if chunks.get(position.chunk).is_some_and(|c| c.is_empty()) {
            chunks.remove(position.chunk);
        }
        Some(removed)
    }
}

impl<T> FromIterator<T> for Chunked<T> {
    /// The items in the order in which they come, in full chunks.
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Chunked<T> {
        let mut items = items.into_iter().fuse();
        let mut sequence = Chunked::default();
        let mut chunks = Vec::new();
        loop {
            let chunk: Vec<T> = items.by_ref().take(CHUNK_LEN_MAX).collect();
            if chunk.is_empty() {
                break;
            }
            sequence.len += chunk.len();
            chunks.push(Arc::new(chunk));
        }
        sequence.chunks = Arc::new(chunks);
        sequence
    }
}

/// Pairs in the order of what they begin with, each of which is there once.
impl<K: Ord, T> Chunked<(K, T)> {
    /// What is kept under `key`.
    #[inline]
    pub fn find(&self, key: &K) -> Option<&T> {
        let (found, value) = self.get(self.place_of(key))?;
        (found == key).then_some(value)
    }

    /// Where `key` stands or would stand.
    #[inline]
    fn place_of(&self, key: &K) -> Position {
        self.position(|(other, _)| other < key)
    }
}

impl<K: Ord + Clone, T: Clone> Chunked<(K, T)> {
    /// What is kept under `key`, to be changed. What is not there leaves the sequence as it was.
    pub fn find_mut(&mut self, key: &K) -> Option<&mut T> {
        let position = self.place_of(key);
        let (found, _) = self.get(position)?;
        if found != key {
            return None;
        }
        Some(&mut self.get_mut(position)?.1)
    }

    /// Keeps `value` under `key`. Returns what was kept there before.
    pub fn set(&mut self, key: K, value: T) -> Option<T> {
        if let Some(kept) = self.find_mut(&key) {
            return Some(std::mem::replace(kept, value));
        }
        self.insert(self.place_of(&key), (key, value));
        None
    }

    /// Removes what is kept under `key`, and returns it.
    pub fn take(&mut self, key: &K) -> Option<T> {
        let position = self.place_of(key);
        let (found, _) = self.get(position)?;
        if found != key {
            return None;
        }
        Some(self.remove(position)?.1)
    }
}

#[cfg(test)]
mod tests;
