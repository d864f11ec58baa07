//! Items of a sequence by number.
//!
//! A chunk has any number of items up to [`CHUNK_LEN_MAX`], so where an item stands follows from how many all chunks
//! before it have. That is added up once, in a step for each chunk. Beside it stands in which chunk each
//! `CHUNK_LEN_MAX`th item is: from there it is a few chunks, since two beside each other that have few items are joined.

use super::{CHUNK_LEN_MAX, Chunked, Position};

/// Items of a sequence by number: see [`Chunked::numbered`].
#[derive(Debug)]
pub struct Numbered<'a, T> {
    sequence: &'a Chunked<T>,
    /// The number of the first item of each chunk, and of all items.
    starts: Vec<usize>,
    /// In which chunk the items 0, [`CHUNK_LEN_MAX`], twice that and so on are.
    chunks: Vec<usize>,
}

impl<T> Chunked<T> {
    /// Its items by number.
    ///
    /// ```
    /// use thermocline_base::chunked::Chunked;
    /// let sequence: Chunked<u32> = (0..1000).map(|n| 2 * n).collect();
    /// let numbered = sequence.numbered();
    /// assert_eq!(numbered.at(700), &1400);
    /// assert_eq!(numbered.number_of(sequence.position(|item| *item < 1400)), 700);
    /// ```
    pub fn numbered(&self) -> Numbered<'_, T> {
        let mut starts = Vec::with_capacity(self.chunks.len() + 1);
        let mut chunks = Vec::with_capacity(self.len.div_ceil(CHUNK_LEN_MAX));
        let mut next = 0;
        for (n, chunk) in self.chunks.iter().enumerate() {
            starts.push(next);
            next += chunk.len();
            while chunks.len() * CHUNK_LEN_MAX < next {
                chunks.push(n);
            }
        }
        starts.push(next);
        Numbered {
            sequence: self,
            starts,
            chunks,
        }
    }
}

impl<'a, T> Numbered<'a, T> {
    /// The item of this number.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn at(&self, number: usize) -> &'a T {
        let mut chunk = self.chunks[number / CHUNK_LEN_MAX];
        while self.starts[chunk + 1] <= number {
            chunk += 1;
        }
        &self.sequence.chunks[chunk][number - self.starts[chunk]]
    }

    /// The number of the item at a place, or of items before the place behind the last.
    #[inline]
    pub fn number_of(&self, position: Position) -> usize {
        self.starts[position.chunk] + position.at
    }
}
