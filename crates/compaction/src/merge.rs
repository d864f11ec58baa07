//! What comes next of several sorted sources: a tournament tree of losers.
//!
//! # Invariants
//! 1. **Order.** What [`Merge::head`] shows ascends strictly in the order of [`Head::order`], if it
//!    does in each source and no two sources have the same version of a key.
//! 2. **Nothing lost, nothing twice.** Between two seeks every entry of every source, from the
//!    place sought, is shown once. After a move that failed nothing is shown, and no move but a
//!    seek succeeds: a merge that failed cannot be mistaken for one that has ended.
//! 3. **Newest first.** Two sources with the same version of a key are a broken law of age, which
//!    debug builds assert. Release builds, which may meet such tables from elsewhere, show that of
//!    the newer source first; whoever asks what to retain drops the second.
//! 4. **Bounded.** Memory is three words per source, whatever they hold.
//!
//! # How
//! Inner nodes remember who lost there, so moving the winner on takes one comparison per layer,
//! ⌈log₂ k⌉ in all, where a binary heap takes two. The first eight bytes of each head are kept
//! beside the tree: most comparisons end there, without a call to the source.
//!
//! # Who else merges
//! A reader's cursor (`engine::cursor`) goes both ways, takes one version of each key and jumps over what is hidden, so
//! nearly each step moves several sources and a tournament would be played anew. A merge of indexes
//! (`memtable::merge`) takes all versions of a key from all its few inputs at once.

use std::cmp::Ordering;

use thermocline_base::numbers::first_bytes;
use thermocline_base::{Error, Result, SeqNo};

use crate::head::Head;

/// A sorted sequence of entries that can be walked over: the cursor of a table, of a memtable, of a
/// level.
///
/// A new source stands nowhere: it is sought before anything else.
pub trait Source {
    /// The entry at which it stands, without its value; `None` behind the last one.
    fn head(&self) -> Option<Head<'_>>;

    /// Moves on to the next entry. Called only where there is a head.
    ///
    /// # Errors
    /// Those of reading. The source is then sought before it is used again.
    fn advance(&mut self) -> Result<()>;

    /// Moves, forwards or back, to the first entry not before version `seqno` of `user_key`: of
    /// that key none newer. The empty key at [`SeqNo::MAX`] stands before all.
    ///
    /// # Errors
    /// Those of reading. The source is then sought before it is used again.
    fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<()>;
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn head(&self) -> Option<Head<'_>> {
        (**self).head()
    }

    fn advance(&mut self) -> Result<()> {
        (**self).advance()
    }

    fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<()> {
        (**self).seek(user_key, seqno)
    }
}

/// Several sources as one, which is a source again. See the [module](self).
#[derive(Debug)]
pub struct Merge<S> {
    sources: Vec<S>,
    /// Of each source the first bytes of its head; `None` where it has ended.
    first_bytes: Vec<Option<u64>>,
    /// At 0 the source that stands first; at inner node `n` of the tournament the one that lost
    /// there.
    losers: Vec<usize>,
    /// Whether all sources stand where they should: they have been sought and none has failed
    /// since.
    placed: bool,
}

impl<S: Source> Merge<S> {
    /// Of these sources, the newest first. It stands nowhere yet: seek.
    pub fn new(sources: Vec<S>) -> Merge<S> {
        Merge {
            first_bytes: vec![None; sources.len()],
            losers: vec![0; sources.len()],
            placed: false,
            sources,
        }
    }

    /// The source whose entry is the next one: it has the value.
    pub fn source(&self) -> Option<&S> {
        let first = *self.losers.first().filter(|_| self.placed)?;
        self.first_bytes[first].map(|_| &self.sources[first])
    }

    /// All sources, in the order in which they were given.
    pub fn sources(&self) -> &[S] {
        &self.sources
    }

    fn look(&mut self, n: usize) {
        self.first_bytes[n] = self.sources[n]
            .head()
            .map(|head| first_bytes(head.user_key));
    }

    /// Whether source `a` comes before source `b`.
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (Some(of_a), Some(of_b)) = (self.first_bytes[a], self.first_bytes[b]) else {
            return self.first_bytes[a].is_some();
        };
        match of_a.cmp(&of_b) {
            Ordering::Equal => self.is_before_in_full(a, b),
            order => order.is_lt(),
        }
    }

    fn is_before_in_full(&self, a: usize, b: usize) -> bool {
        let (head_a, head_b) = (self.sources[a].head(), self.sources[b].head());
        let (head_a, head_b) = head_a.zip(head_b).expect("neither has ended");
        let order = head_a.order(&head_b);
        debug_assert!(order.is_ne(), "{head_a:?} is in sources {a} and {b}");
        // Sources are given newest first.
        order.then(a.cmp(&b)).is_lt()
    }

    /// Plays the whole tournament.
    fn play(&mut self) {
        let k = self.sources.len();
        // Who goes on from each node; source `n` enters at leaf `k + n`, and node `n` is above `2n`
        // and `2n + 1`.
        let mut winners: Vec<usize> = (0..k).chain(0..k).collect();
        for node in (1..k).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let (won, lost) = if self.is_before(a, b) { (a, b) } else { (b, a) };
            winners[node] = won;
            self.losers[node] = lost;
        }
        if k > 0 {
            // With one source the root is its leaf.
            self.losers[0] = winners[1];
        }
    }

    /// Plays again the games of source `n`, which has moved.
    fn replay(&mut self, n: usize) {
        let mut won = n;
        let mut node = (n + self.sources.len()) / 2;
        while node > 0 {
            if self.is_before(self.losers[node], won) {
                std::mem::swap(&mut self.losers[node], &mut won);
            }
            node /= 2;
        }
        self.losers[0] = won;
    }
}

impl<S: Source> Source for Merge<S> {
    fn head(&self) -> Option<Head<'_>> {
        self.source()?.head()
    }

    fn advance(&mut self) -> Result<()> {
        if !self.placed {
            let why = "a merge must be sought before it moves on, and again after it failed";
            return Err(Error::InvalidArgument(why.into()));
        }
        if self.source().is_some() {
            let first = self.losers[0];
            self.placed = false;
            self.sources[first].advance()?;
            self.placed = true;
            self.look(first);
            self.replay(first);
        }
        Ok(())
    }

    fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<()> {
        self.placed = false;
        for n in 0..self.sources.len() {
            self.sources[n].seek(user_key, seqno)?;
            self.look(n);
        }
        self.play();
        self.placed = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
