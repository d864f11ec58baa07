//! What follows from the items of each chunk, kept for the chunks that the next sequence shares.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::Chunked;

/// What was made of the items of each chunk of a sequence: see [`Chunked::folded`].
#[derive(Debug)]
pub struct Folded<T, F> {
    /// In their order. As long as they are known here no other chunk is the same memory.
    chunks: Vec<(Weak<Vec<T>>, F)>,
}

impl<T, F> Default for Folded<T, F> {
    /// That of an empty sequence.
    fn default() -> Folded<T, F> {
        Folded { chunks: Vec::new() }
    }
}

impl<T, F> Folded<T, F> {
    /// What was made of each chunk, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &F> {
        self.chunks.iter().map(|(_, made)| made)
    }
}

impl<T> Chunked<T> {
    /// What `fold` makes of the items of each chunk; what is `known` of chunks of another sequence that this one shares is
    /// not made again.
    ///
    /// ```
    /// use thermocline_base::chunked::{Chunked, Folded};
    /// let sequence: Chunked<u32> = (0..1000).collect();
    /// let sums = sequence.folded(&Folded::default(), |items| items.iter().sum::<u32>());
    /// assert_eq!(sums.iter().sum::<u32>(), 499_500);
    /// ```
    pub fn folded<F: Clone>(&self, known: &Folded<T, F>, fold: impl Fn(&[T]) -> F) -> Folded<T, F> {
        let known = known.chunks.iter();
        let known: HashMap<*const Vec<T>, &F> =
            known.map(|(chunk, made)| (chunk.as_ptr(), made)).collect();
        let chunks = self.chunks.iter().map(|chunk| {
            let made = known.get(&Arc::as_ptr(chunk)).copied().cloned();
            let made = made.unwrap_or_else(|| fold(&chunk[..]));
            (Arc::downgrade(chunk), made)
        });
        Folded {
            chunks: chunks.collect(),
        }
    }
}
