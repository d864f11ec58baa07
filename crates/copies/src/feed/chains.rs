//! The part of a store that feeds need, and questions about its chains.

use std::collections::BTreeSet;
use std::fmt::Debug;

use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::Arc;
use thermocline_base::{BlobRef, CfId, Error, FileId, Result};
use thermocline_memtable::{Home, Trail};

/// The chains of a store, in which its records lie in the order of commits.
///
/// A feed has a number here for as long as memtables are kept for it: until it is forgotten, or *cut off*, because a
/// memtable had to go that it has not read.
pub trait Chains: Debug + Send + Sync {
    /// Whether the store is open.
    ///
    /// # Errors
    /// [`Error::Closed`].
    fn check_open(&self) -> Result<()>;

    /// What keeps everything where it lies until it is dropped, were the store closed and opened again meanwhile.
    ///
    /// # Errors
    /// [`Error::Closed`].
    fn hold(&self) -> Result<Box<dyn Debug + Send>>;

    /// How far the store has come.
    fn marks(&self) -> Marks;

    /// Keeps all records from the seqno on that `from` returns, for a new feed, and returns the feed's number. `from`
    /// is given the places of records, oldest first; the last one has no end, since it is being written. While it
    /// looks no place goes, ends or begins.
    ///
    /// # Errors
    /// As [`Chains::check_open`]; those of `from`.
    fn keep(&self, from: &mut dyn FnMut(&[&Trail]) -> Result<u64>) -> Result<u64>;

    /// As [`Chains::keep`], for a feed that goes on. `to` is also told whether anything is kept for the feed. If not
    /// it returns an error.
    ///
    /// # Errors
    /// Those of `to`.
    fn move_on(&self, feed: u64, to: &mut dyn FnMut(&[&Trail], bool) -> Result<u64>) -> Result<()>;

    /// The home of a memtable, which the store, while it is open, keeps for whoever has it; see [`Chains::hold`]. `None`
    /// if the memtable is gone, the feed is cut off, or the store is closed.
    fn home(&self, feed: u64, memtable: u64) -> Option<Arc<Home>>;

    /// The feed has read everything before `next`, and with `ended` a whole chain: memtables may go.
    fn has_read(&self, feed: u64, next: u64, ended: bool);

    /// Nothing is kept for a feed any more.
    fn forget(&self, feed: u64);

    /// The names of the store's families, for groups that outlive the store.
    fn names(&self) -> Arc<dyn FamilyNames>;

    /// Holds these blob files. Records of a memtable whose home the caller has refer to them.
    fn hold_long_values(&self, files: BTreeSet<FileId>) -> Box<dyn LongValues>;
}

/// How far a store has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// All writes up to this seqno are visible.
    pub visible: u64,
    /// All writes up to this one are durable.
    pub durable: u64,
    /// For a store that only reads, all writes up to this one were durable when it was opened; otherwise the largest
    /// number.
    pub known_durable: u64,
}

/// The names of families.
pub trait FamilyNames: Debug + Send + Sync {
    /// The name of a family that was not dropped.
    fn name_of(&self, cf: CfId) -> Option<String>;
}

/// Held blob files. They stay, with the store's folder, until this is dropped.
pub trait LongValues: Debug + Send + Sync {
    /// Reads a value of one of these files.
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

/// The smallest seqno since which nothing is missing. A follower that has everything durable misses nothing. (Later
/// writes then lie behind the last gap: nothing is in flight where a chain ends.)
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

/// Whether a follower with everything up to `since` has nothing that this store has not (`feed`, invariant 6).
fn check_known(trails: &[&Trail], since: u64, newest: u64) -> Result<()> {
    let open = trails.last().map_or(0, |open| open.chain.base);
    let mut lost = since > newest && since.checked_add(1) != Some(open);
    let mut before: Option<&Trail> = None;
    for trail in trails {
        let follows = before.filter(|before| before.is_followed_by(trail));
        let end = follows.and_then(|before| before.last);
        lost |= end.is_some_and(|end| since > end && since.saturating_add(1) < trail.chain.base);
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

/// The first seqno that a feed gives that was asked for the changes behind `since`.
pub(super) fn begin(trails: &[&Trail], marks: Marks, since: u64) -> Result<u64> {
    check_known(trails, since, marks.visible.max(marks.durable))?;
    check_kept(trails, marks.durable, since)?;
    // Over seqnos without records.
    Ok(match since >= marks.durable {
        true => first_kept(trails).max(since + 1),
        false => since + 1,
    })
}

#[cfg(test)]
mod tests;
