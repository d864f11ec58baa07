//! A cursor over a table, and a part of one, wherever it lies.

use thermocline_base::{Kind, RangeTombstone, Result, SeqNo};
use thermocline_level0::{PmCursor, PmPart};
use thermocline_sst::{BlockSource, KeyRef, Move, SyncCursor, TablePart, Value};

/// A cursor over a table in a file or in persistent memory. Both move alike.
#[derive(Debug)]
pub enum AnyCursor<S: BlockSource> {
    /// In a file.
    File(Box<SyncCursor<S>>),
    /// In persistent memory.
    Pm(Box<PmCursor>),
}

impl<S: BlockSource> AnyCursor<S> {
    /// One over a file.
    pub fn file(cursor: SyncCursor<S>) -> AnyCursor<S> {
        AnyCursor::File(Box::new(cursor))
    }

    /// One over a part of a PM table; with `verify` checksums are compared.
    pub fn pm(part: PmPart, verify: bool) -> AnyCursor<S> {
        AnyCursor::Pm(Box::new(PmCursor::new(part, verify)))
    }

    /// Whether it stands at an entry.
    #[inline]
    pub fn is_at_entry(&self) -> bool {
        match self {
            AnyCursor::File(cursor) => cursor.is_at_entry(),
            AnyCursor::Pm(cursor) => cursor.is_at_entry(),
        }
    }

    /// The key of the entry at which it is.
    #[inline]
    pub fn key(&self) -> KeyRef<'_> {
        match self {
            AnyCursor::File(cursor) => cursor.key(),
            AnyCursor::Pm(cursor) => KeyRef::new(cursor.user_key(), cursor.seqno()),
        }
    }

    /// The kind of that entry.
    #[inline]
    pub fn kind(&self) -> Kind {
        match self {
            AnyCursor::File(cursor) => cursor.value().0,
            AnyCursor::Pm(cursor) => cursor.kind(),
        }
    }

    /// Its value, checked.
    #[inline]
    pub fn value(&self) -> Result<Value<'_>> {
        Ok(match self {
            AnyCursor::File(cursor) => cursor.value().1,
            AnyCursor::Pm(cursor) => match cursor.value()? {
                thermocline_level0::Value::Inline(bytes) => Value::Inline(bytes),
                thermocline_level0::Value::Blob(to) => Value::Blob(to),
            },
        })
    }

    /// Moves it; whether it stands at an entry then.
    pub fn go(&mut self, to: Move<'_>) -> Result<bool> {
        match self {
            AnyCursor::File(cursor) => cursor.go(to),
            AnyCursor::Pm(cursor) => match to {
                Move::First => cursor.first(),
                Move::Last => cursor.last(),
                Move::Seek(key) => cursor.seek(key.user_key, key.seqno),
                Move::SeekForPrev(key) => cursor.seek_for_prev(key.user_key, key.seqno),
                Move::Next => cursor.next(),
                Move::Prev => cursor.prev(),
            },
        }
    }

    /// Moves it to the newest entry of the next key, from an entry; whether it stands at one then. `left` is memory to use.
    pub fn next_key(&mut self, left: &mut Vec<u8>) -> Result<bool> {
        let cursor = match self {
            AnyCursor::File(cursor) => cursor,
            AnyCursor::Pm(cursor) => return cursor.next_key(left),
        };
        left.clear();
        left.extend_from_slice(cursor.key().user_key);
        // Mostly there is one version.
        while cursor.go(Move::Next)? {
            if cursor.key().user_key != *left {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A table, or a part of it.
#[derive(Debug, Clone)]
pub enum AnyPart {
    /// In a file.
    File(TablePart),
    /// In persistent memory.
    Pm(PmPart),
}

impl AnyPart {
    /// This part of a table in a file, if that table has range tombstones.
    pub fn file_with_ranges(part: &TablePart) -> Option<AnyPart> {
        let mut ranges = part.table().range_tombstones();
        ranges.next().map(|_| AnyPart::File(part.clone()))
    }

    /// This part of a PM table, if that table has range tombstones.
    pub fn pm_with_ranges(part: &PmPart) -> Option<AnyPart> {
        let mut ranges = part.table().range_tombstones(part.cf());
        ranges.next().map(|_| AnyPart::Pm(part.clone()))
    }

    /// The newest range tombstone, at or below `at`, that covers `key`, within the limits.
    pub fn covering(&self, key: &[u8], at: SeqNo) -> Option<RangeTombstone<&[u8]>> {
        match self {
            AnyPart::File(part) => part.covering(key, at),
            AnyPart::Pm(part) => part.covering(key, at),
        }
    }

    /// Of those, at or below `at`, that begin before `key` and end there or behind it: the one that begins first, within the limits.
    pub fn reaching(&self, key: &[u8], at: SeqNo) -> Option<RangeTombstone<&[u8]>> {
        match self {
            AnyPart::File(part) => part.reaching(key, at),
            AnyPart::Pm(part) => part.reaching(key, at),
        }
    }

    /// Adds all of them, within the limits.
    pub fn add_ranges(&self, all: &mut Vec<RangeTombstone>) {
        match self {
            AnyPart::File(part) => all.extend(part.range_tombstones().map(RangeTombstone::owned)),
            AnyPart::Pm(part) => all.extend(part.range_tombstones().map(RangeTombstone::owned)),
        }
    }
}
