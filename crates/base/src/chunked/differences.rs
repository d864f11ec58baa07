//! How two sequences differ, told by the chunks that they do not share.
//!
//! # Why none is missed, and why it costs what differs
//! Both sequences are in the order of the same key. They are walked together, always on from the smaller key of the
//! next two items: so what only one of them has is met alone, and what both have is met together. That alone would
//! find all differences, with a look at each item.
//!
//! Where both walks are at the begin of one and the same chunk, it is skipped in both. Its items are in both
//! sequences, and chunks that are shared never change. So no difference is in it, and the walks stand where they would
//! have come to.
//!
//! Every chunk that both sequences have is skipped, however the borders of others have moved. Let `k` be the first
//! key in it. In both sequences all items before it have smaller keys, and of two next keys the smaller one goes
//! first. So neither walk goes past `k` before the other one has come to it, and then both are at the begin of the
//! chunk. What is looked at are the items of chunks that only one of the two has, and pointers to the others.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Chunked;

/// What two sequences have with one key, where that is not the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference<'a, T> {
    /// The item of the earlier sequence, if it has one.
    pub before: Option<&'a T>,
    /// The item of the later sequence, if it has one.
    pub after: Option<&'a T>,
}

impl<T> Chunked<T> {
    /// How this sequence differs from `before`, in the order of keys. `key_of` says by what both are in order; in
    /// each of them a key is there once. Items of one key for which `is_same` holds are no difference.
    ///
    /// It looks at items of chunks that the two do not share, and steps over the others.
    ///
    /// ```
    /// use thermocline_base::chunked::Chunked;
    /// let before: Chunked<(u32, &str)> = [(1, "a"), (2, "b")].into_iter().collect();
    /// let mut after = before.clone();
    /// after.set(2, "c");
    /// after.take(&1);
    /// let found = after.differences(&before, |item| item.0, |old, new| old == new);
    /// let found: Vec<_> = found.map(|one| (one.before.copied(), one.after.copied())).collect();
    /// assert_eq!(found, [(Some((1, "a")), None), (Some((2, "b")), Some((2, "c")))]);
    /// ```
    pub fn differences<'a, K: Ord>(
        &'a self,
        before: &'a Chunked<T>,
        key_of: impl Fn(&'a T) -> K,
        is_same: impl Fn(&'a T, &'a T) -> bool,
    ) -> impl Iterator<Item = Difference<'a, T>> {
        let mut walks = (Walk::new(before), Walk::new(self));
        std::iter::from_fn(move || {
            loop {
                let found = next_of(&mut walks, &key_of)?;
                match (found.before, found.after) {
                    (Some(old), Some(new)) if is_same(old, new) => {}
                    _ => return Some(found),
                }
            }
        })
    }
}

/// The next item that is not in a chunk which both have, of the sequence that has the smaller one, or of both.
fn next_of<'a, T, K: Ord>(
    (before, after): &mut (Walk<'a, T>, Walk<'a, T>),
    key_of: &impl Fn(&'a T) -> K,
) -> Option<Difference<'a, T>> {
    while before.begins_as(after) {
        before.skip_chunk();
        after.skip_chunk();
    }
    let order = match (before.item(), after.item()) {
        (Some(old), Some(new)) => key_of(old).cmp(&key_of(new)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => return None,
    };
    let old = order.is_le().then(|| before.step()).flatten();
    let new = order.is_ge().then(|| after.step()).flatten();
    Some(Difference {
        before: old,
        after: new,
    })
}

/// A walk over a sequence.
struct Walk<'a, T> {
    /// What is left, from the chunk of the next item on.
    chunks: &'a [Arc<Vec<T>>],
    /// The place of the next item in the first of those.
    at: usize,
}

impl<'a, T> Walk<'a, T> {
    fn new(sequence: &'a Chunked<T>) -> Walk<'a, T> {
        Walk {
            chunks: &sequence.chunks,
            at: 0,
        }
    }

    /// The next item.
    fn item(&self) -> Option<&'a T> {
        self.chunks.first()?.get(self.at)
    }

    /// Goes on behind the next item, and returns it.
    fn step(&mut self) -> Option<&'a T> {
        let item = self.item()?;
        self.at += 1;
        if self.chunks[0].len() == self.at {
            self.skip_chunk();
        }
        Some(item)
    }

    /// Whether both are at the begin of the same chunk.
    fn begins_as(&self, other: &Walk<'a, T>) -> bool {
        match (self.chunks.first(), other.chunks.first()) {
            (Some(own), Some(others)) => self.at == 0 && other.at == 0 && Arc::ptr_eq(own, others),
            _ => false,
        }
    }

    /// Goes on with the next chunk.
    fn skip_chunk(&mut self) {
        (self.chunks, self.at) = (&self.chunks[1..], 0);
    }
}
