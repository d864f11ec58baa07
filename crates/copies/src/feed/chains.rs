//! What a store does for feeds, and what its chains say.

use std::collections::BTreeSet;
use std::fmt::Debug;

use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::Arc;
use thermocline_base::{BlobRef, CfId, Error, FileId, Result};
use thermocline_memtable::{Home, Trail};

/// The chains of a store, in which its records lie in the order of commits.
///
/// A feed has a number here for as long as it is kept for: until it is forgotten, or *cut off*, when something that it
/// has not read had to go.
pub trait Chains: Debug + Send + Sync {
    /// Whether the store is open.
    ///
    /// # Errors
    /// [`Error::Closed`].
    fn check_open(&self) -> Result<()>;

    /// How far the store has come.
    fn marks(&self) -> Marks;

    /// Keeps for a new feed all from the seqno on that `from` returns, and returns the feed's number. `from` is given
    /// where records lie, oldest first; to the last one, which has no end, is being written. While it looks none of
    /// them goes, ends or begins.
    ///
    /// # Errors
    /// As [`Chains::check_open`]; those of `from`.
    fn keep(&self, from: &mut dyn FnMut(&[&Trail]) -> Result<u64>) -> Result<u64>;

    /// As [`Chains::keep`], for a feed that goes on. `to` is also told whether the feed is kept for; where it is not
    /// it returns an error.
    ///
    /// # Errors
    /// Those of `to`.
    fn move_on(&self, feed: u64, to: &mut dyn FnMut(&[&Trail], bool) -> Result<u64>) -> Result<()>;

    /// The home of a memtable. `None` if that is gone, or the feed is cut off.
    fn home(&self, feed: u64, memtable: u64) -> Option<Arc<Home>>;

    /// A feed has read all before `next`, and with `ended` all of a chain: something may go.
    fn has_read(&self, feed: u64, next: u64, ended: bool);

    /// Nothing is kept for a feed any more.
    fn forget(&self, feed: u64);

    /// The names of the store's families, for whoever outlives it.
    fn names(&self) -> Arc<dyn FamilyNames>;

    /// Holds these blob files, to which records of a memtable refer whose home the caller has.
    fn hold_long_values(&self, files: BTreeSet<FileId>) -> Box<dyn LongValues>;
}

/// How far a store has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// All up to this seqno is visible.
    pub visible: u64,
    /// All up to this one is durable.
    pub durable: u64,
    /// Of a store that only reads, all up to this one was durable when it was opened; else the largest number.
    pub known_durable: u64,
}

/// The names of families.
pub trait FamilyNames: Debug + Send + Sync {
    /// The name of a family that was not dropped.
    fn name_of(&self, cf: CfId) -> Option<String>;
}

/// Blob files that are held. They stay, with the store's folder, until this goes.
pub trait LongValues: Debug + Send + Sync {
    /// Reads a value of one of them.
    ///
    /// # Errors
    /// Those of reading; [`Error::Corruption`] if that is not the value of `key` in `cf`.
    fn read(&self, cf: CfId, key: &[u8], blob: BlobRef) -> Result<Vec<u8>>;
}

/// The lowest seqno from which on nothing is missing.
fn first_kept(trails: &[&Trail]) -> u64 {
    let mut first = trails.last().map_or(0, |open| open.chain.base);
    let mut before: Option<&Trail> = None;
    for trail in trails {
        if before.is_none_or(|before| !before.is_followed_by(trail)) {
            first = trail.chain.base;
        }
        before = Some(trail);
    }
    first
}

/// The smallest seqno since which nothing is missing: who has all that is durable misses nothing. (Then
/// what is written from now on lies behind the last gap: nothing is in flight where a chain ends.)
pub fn oldest_position(trails: &[&Trail], durable: u64) -> u64 {
    (first_kept(trails) - 1).min(durable)
}

/// Whether nothing is missing behind `since`.
pub(super) fn check_kept(trails: &[&Trail], durable: u64, since: u64) -> Result<()> {
    let oldest = oldest_position(trails, durable);
    match since < oldest {
        true => Err(Error::ChangesGone { since, oldest }),
        false => Ok(()),
    }
}

/// Whether whoever has everything up to `since` has nothing that this store has not (`feed`, invariant 6).
fn check_known(trails: &[&Trail], since: u64, newest: u64) -> Result<()> {
    let open = trails.last().map_or(0, |open| open.chain.base);
    let mut lost = since > newest && since + 1 != open;
    let mut before: Option<&Trail> = None;
    for trail in trails {
        let follows = before.filter(|before| before.is_followed_by(trail));
        let end = follows.and_then(|before| before.last);
        lost |= end.is_some_and(|end| since > end && since + 1 < trail.chain.base);
        before = Some(trail);
    }
    match lost && !active(Bug::FeedAcceptsLost) {
        false => Ok(()),
        true => Err(Error::InvalidArgument(format!(
            "changes since seqno {since} were asked for, and this database, whose newest one is {newest}, has \
             no such change: it was lost when this one crashed or was restored, or is another \
             database's; whoever has it has more than is here, and begins anew from a copy"
        ))),
    }
}

/// The first seqno that a feed gives which was asked for what lies behind `since`.
pub(super) fn begin(trails: &[&Trail], marks: Marks, since: u64) -> Result<u64> {
    check_known(trails, since, marks.visible.max(marks.durable))?;
    check_kept(trails, marks.durable, since)?;
    // Over seqnos that no record has.
    Ok(match since >= marks.durable {
        true => first_kept(trails).max(since + 1),
        false => since + 1,
    })
}

#[cfg(test)]
mod tests;
