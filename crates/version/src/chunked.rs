//! A sequence in order that is cheap to share: changing a copy leaves most of the memory common.
//!
//! Items lie in chunks of at most [`CHUNK_LEN_MAX`]. A copy shares the list of chunks; a change to
//! one of two copies makes a list of its own (one pointer per chunk) and copies the chunk that it
//! touches, so it costs `len / CHUNK_LEN_MAX + CHUNK_LEN_MAX` steps. Of tens of thousands of tables
//! that is a few kilobytes. A tree would make it logarithmic, with more code and slower iteration.
//!
//! # Invariants
//! 1. No chunk is empty, and none is longer than [`CHUNK_LEN_MAX`].
//! 2. `len` is the number of items in all chunks.
//! 3. The order is the callers': they find places by a predicate that holds for a prefix of the
//!    sequence, and insert and remove so that it goes on to.

use std::sync::Arc;

/// Most items of a chunk.
pub(crate) const CHUNK_LEN_MAX: usize = 64;

/// See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct Chunked<T> {
    chunks: Arc<Vec<Arc<Vec<T>>>>,
    len: usize,
}

/// A place in a sequence: that of an item, or the one behind the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
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
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The place behind all items for which `before` holds, which are a prefix.
    pub(crate) fn position(&self, before: impl Fn(&T) -> bool) -> Position {
        let all_before = |chunk: &Arc<Vec<T>>| chunk.last().is_some_and(&before);
        let chunk = self.chunks.partition_point(all_before);
        let at = self.chunks.get(chunk);
        let at = at.map_or(0, |chunk| chunk.partition_point(&before));
        Position { chunk, at }
    }

    /// The item at `position`, if it is not the one behind the last.
    pub(crate) fn get(&self, position: Position) -> Option<&T> {
        self.chunks.get(position.chunk)?.get(position.at)
    }

    /// The item before `position`, if that is not the first place.
    pub(crate) fn before(&self, position: Position) -> Option<&T> {
        match position.at.checked_sub(1) {
            Some(at) => self.chunks.get(position.chunk)?.get(at),
            None => self.chunks.get(position.chunk.checked_sub(1)?)?.last(),
        }
    }

    /// All items in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.iter_from(Position { chunk: 0, at: 0 })
    }

    /// The items from `position` on.
    pub(crate) fn iter_from(
        &self,
        position: Position,
    ) -> impl DoubleEndedIterator<Item = &T> + Clone {
        let chunks = self.chunks.get(position.chunk..).unwrap_or(&[]);
        let (first, rest) = match chunks.split_first() {
            Some((first, rest)) => (first.get(position.at..).unwrap_or(&[]), rest),
            None => (&[][..], chunks),
        };
        let rest = rest.iter().flat_map(|chunk| chunk.iter());
        first.iter().chain(rest)
    }

    /// How many chunks there are, and how many of them `other` has too, as the same memory.
    #[cfg(test)]
    pub(crate) fn shared_chunks(&self, other: &Chunked<T>) -> (usize, usize) {
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
    pub(crate) fn get_mut(&mut self, position: Position) -> Option<&mut T> {
        self.get(position)?;
        let chunk = &mut Arc::make_mut(&mut self.chunks)[position.chunk];
        Arc::make_mut(chunk).get_mut(position.at)
    }

    /// Inserts an item before the one at `position`.
    pub(crate) fn insert(&mut self, position: Position, item: T) {
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
    pub(crate) fn remove(&mut self, position: Position) -> Option<T> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<T>(sequence: &Chunked<T>) {
        let lens: Vec<_> = sequence.chunks.iter().map(|c| c.len()).collect();
        assert!(
            lens.iter().all(|n| (1..=CHUNK_LEN_MAX).contains(n)),
            "{lens:?}"
        );
        assert_eq!(lens.iter().sum::<usize>(), sequence.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 200,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn it_does_what_a_sorted_vector_does_and_copies_stay_as_they_were(
            steps in prop::collection::vec((0u32..400, 0..10), 1..1200),
        ) {
            let mut sequence = Chunked::default();
            let mut model: Vec<u32> = Vec::new();
            let mut kept = Vec::new();
            for (n, (value, lot)) in steps.into_iter().enumerate() {
                let position = sequence.position(|item| *item < value);
                let at = model.partition_point(|item| *item < value);
                prop_assert_eq!(sequence.get(position), model.get(at));
                prop_assert_eq!(sequence.before(position), at.checked_sub(1).map(|at| &model[at]));
                prop_assert!(sequence.iter_from(position).eq(&model[at..]));
                prop_assert!(sequence.iter_from(position).rev().eq(model[at..].iter().rev()));
                // Grows first, shrinks then.
                if lot < if n < 600 { 7 } else { 3 } {
                    sequence.insert(position, value);
                    model.insert(at, value);
                } else {
                    let removed = sequence.remove(position);
                    prop_assert_eq!(removed, (at < model.len()).then(|| model.remove(at)));
                }
                check(&sequence);
                if n % 100 == 0 {
                    kept.push((sequence.clone(), model.clone()));
                }
            }
            for (sequence, model) in &kept {
                prop_assert!(sequence.iter().eq(model));
            }
        }
    }

    #[test]
    fn a_change_copies_one_chunk_and_loading_in_order_fills_them() {
        let mut sequence = Chunked::default();
        for n in 0..100_000 {
            sequence.insert(sequence.position(|item| *item < n), n);
        }
        check(&sequence);
        assert_eq!(sequence.chunks.len(), 100_000usize.div_ceil(CHUNK_LEN_MAX));
        let before = sequence.clone();
        assert_eq!(
            sequence.remove(sequence.position(|item| *item < 5000)),
            Some(5000)
        );
        *sequence
            .get_mut(sequence.position(|item| *item < 70_000))
            .unwrap() = 70_000;
        let (chunks, shared) = sequence.shared_chunks(&before);
        assert_eq!(shared, chunks - 2);
        assert_eq!(before.len(), 100_000);
        for _ in 0..sequence.len() {
            sequence
                .remove(sequence.position(|item| *item < 0))
                .unwrap();
            check(&sequence);
        }
        assert_eq!(sequence, Chunked::default());
    }
}
