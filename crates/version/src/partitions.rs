//! Partitions: how the keys of a column family are divided.
//!
//! # Vocabulary
//! - A **partition** is a range of keys: from its **start** up to the start of the next one, the last one
//!   without an end. The one with id 0 is there from the beginning, and starts at the empty key.
//! - Partitions **tile** the keys: each key lies in one.
//!
//! # What belongs to a partition
//! What lies in its range. Tables do not name a partition, and no table has to end at a start: the
//! levels of a family are one set of references in the order of keys, and a partition's levels are the
//! references that overlap its range ([`LevelTables::overlapping`](crate::LevelTables::overlapping)). A reference that
//! reaches over a start is part of both; its bytes are divided among the partitions that it reaches into,
//! as its index says, when somebody asks for their sizes. Two parts of one table, limited at the start, are as good, and a
//! split by size makes such parts ([`Version::cut_at`](crate::Version::cut_at)): then work on one side needs nothing of the other.
//!
//! So ten thousand partitions cost ten thousand keys, and neither files, nor references, nor edits that
//! name each of them. With references that belong to one partition each, a flush of ten records in ten
//! thousand partitions would bring as many as it has records, and one compaction of them all would take
//! as many away.
//!
//! # Invariants
//! [`State::apply`](crate::State::apply) keeps them or refuses the edit.
//!
//! 1. **Tiling.** Starts ascend, none but that of partition 0 is empty, and partition 0 is never
//!    removed. Removing one gives its range to the one before it; creating one takes the range from its
//!    start on from the one in which that lies. So every key is in exactly one, at any moment.
//! 2. **Bounded.** At most [`limits::PARTITIONS_MAX`] in a family; no start is longer than a key.
//! 3. **Ids.** No two partitions of a family have the same. One may come back when its partition has gone.
//! 4. **Shared.** An edit copies one chunk for each partition that it touches, and the list of chunks:
//!    a few kilobytes of 65,535 partitions.
//! 5. **With their family.** Dropping a family drops its partitions.
//!
//! # Readers and law of age
//! Neither looks at partitions: a split or merge changes no answer, and moves no data between levels.
//! Where a split cuts references, removal and parts stand in one edit, which the law of age sees as
//! what it is: the same data in the same level.

use std::ops::Bound;
use std::sync::Arc;

use thermocline_base::chunked::{Chunked, Position};
use thermocline_base::limits;

use crate::impossible::{Impossible, must};
use crate::table::PartitionId;

/// A partition: see the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition<'a> {
    /// Its id.
    pub id: PartitionId,
    /// Its first key.
    pub start: &'a [u8],
    /// The first key behind it; `None` of the last one.
    pub end: Option<&'a [u8]>,
}

impl Partition<'_> {
    /// Whether `key` lies in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start <= key && self.end.is_none_or(|end| key < end)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Start {
    key: Arc<[u8]>,
    id: PartitionId,
}

/// The partitions of a family: see the [module](self). By default it is one, of all keys.
///
/// ```
/// use thermocline_version::{Partitions, PartitionId};
/// let whole = Partitions::default();
/// assert_eq!(whole.len(), 1);
/// assert_eq!(whole.of(b"any").id, PartitionId::WHOLE);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partitions {
    /// Of all but partition 0, by key.
    starts: Chunked<Start>,
    /// The same ones' ids, ascending.
    ids: Chunked<PartitionId>,
}

impl Partitions {
    /// How many there are: at least one.
    pub fn len(&self) -> usize {
        self.starts.len() + 1
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Ids that are free, each once: those above all others first, then those that came back. There are more
    /// than a family can have partitions.
    pub fn free_ids(&self) -> impl Iterator<Item = PartitionId> + '_ {
        let behind = self.ids.position(|_| true);
        let last = self.ids.before(behind).unwrap_or(&PartitionId::WHOLE);
        // An edit that nobody here made could have given out the last of all.
        let above = last.0.checked_add(1).map(|first| first..=u32::MAX);
        let below = (1..last.0).map(PartitionId).filter(|id| !self.has(*id));
        above.into_iter().flatten().map(PartitionId).chain(below)
    }

    /// Whether one has this id.
    pub fn has(&self, id: PartitionId) -> bool {
        let found = self.ids.get(self.ids.position(|other| *other < id));
        id == PartitionId::WHOLE || found == Some(&id)
    }

    /// The one in which `key` lies.
    pub fn of(&self, key: &[u8]) -> Partition<'_> {
        let behind = self.starts.position(|start| *start.key <= *key);
        between(self.starts.before(behind), self.starts.get(behind))
    }

    /// All of them, in the order of keys.
    pub fn iter(&self) -> impl Iterator<Item = Partition<'_>> {
        self.overlapping(Bound::Unbounded, Bound::Unbounded)
    }

    /// Those in which keys from `from` to `to` lie, in the order of keys; at least that of `from`.
    pub fn overlapping<'a>(
        &'a self,
        from: Bound<&[u8]>,
        to: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = Partition<'a>> {
        let first = self.starts.position(|start| match from {
            Bound::Included(from) | Bound::Excluded(from) => *start.key <= *from,
            Bound::Unbounded => false,
        });
        // The first one begins before `from`, and the others behind it.
        let mut next = self.starts.before(first);
        let mut starts = self.starts.iter_from(first).peekable();
        let mut begun = false;
        std::iter::from_fn(move || {
            let start = match begun {
                false => next.take(),
                true => {
                    let start = starts.next_if(|start| match to {
                        Bound::Included(to) => *start.key <= *to,
                        Bound::Excluded(to) => *start.key < *to,
                        Bound::Unbounded => true,
                    });
                    Some(start?)
                }
            };
            begun = true;
            Some(between(start, starts.peek().copied()))
        })
    }

    /// The one that starts at `key`.
    pub fn starting_at(&self, key: &[u8]) -> Option<PartitionId> {
        if key.is_empty() {
            return Some(PartitionId::WHOLE);
        }
        let start = self.starts.get(self.position(key))?;
        (*start.key == *key).then_some(start.id)
    }

    /// The one that ends where another one starts; `None` if none starts there, or nothing lies before it.
    pub fn before(&self, start: &[u8]) -> Option<Partition<'_>> {
        let at = self.position(start);
        let starts = self.starts.get(at).filter(|found| *found.key == *start);
        starts.map(|found| between(self.starts.before(at), Some(found)))
    }

    pub(crate) fn create(&mut self, id: PartitionId, key: &[u8]) -> Result<(), Impossible> {
        let what = "id of a created partition";
        must(!self.has(id), what, "one that is free", id.0)?;
        let (len, most) = (key.len(), limits::KEY_LEN_MAX);
        let what = "length of a partition's start";
        must(
            (1..=most).contains(&len),
            what,
            format_args!("1 to {most}"),
            len,
        )?;
        let (count, most) = (self.len(), limits::PARTITIONS_MAX);
        let what = "partitions of a family before another one";
        must(count < most, what, format_args!("below {most}"), count)?;
        let twice = self.starting_at(key).is_some();
        let what = "start of a created partition";
        must(!twice, what, "one at which none starts", key.escape_ascii())?;
        let start = Start {
            key: key.into(),
            id,
        };
        self.starts.insert(self.position(key), start);
        let at = self.ids.position(|other| *other < id);
        self.ids.insert(at, id);
        Ok(())
    }

    pub(crate) fn remove(&mut self, id: PartitionId, key: &[u8]) -> Result<(), Impossible> {
        let found = self.starting_at(key);
        let there = id != PartitionId::WHOLE && found == Some(id);
        let what = "removed partition";
        let got = format_args!("partition {} from \"{}\" on", id.0, key.escape_ascii());
        must(there, what, "one that exists and is not the first", got)?;
        self.starts.remove(self.position(key));
        self.ids.remove(self.ids.position(|other| *other < id));
        Ok(())
    }

    /// Where the start `key` stands or would stand.
    fn position(&self, key: &[u8]) -> Position {
        self.starts.position(|start| *start.key < *key)
    }

    #[cfg(test)]
    pub(crate) fn shared_chunks(&self, other: &Partitions) -> (usize, usize) {
        self.starts.shared_chunks(&other.starts)
    }
}

/// The partition that begins at one start and ends at the next.
fn between<'a>(start: Option<&'a Start>, next: Option<&'a Start>) -> Partition<'a> {
    Partition {
        id: start.map_or(PartitionId::WHOLE, |start| start.id),
        start: start.map_or(&[], |start| &start.key),
        end: next.map(|next| &*next.key),
    }
}

#[cfg(test)]
mod tests;
