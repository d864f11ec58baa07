//! The store as `copies` knows it: what it is given of it, and what is asked of it in the end.

use std::ops::Bound;
use std::path::Path;

use thermocline_base::{CfId, Result, SeqNo};
use thermocline_copies::{
    ChangeFeed, Entries, Exported, Ingested, Installed, NewTables, Store, checkpoint, export,
    ingest,
};
use thermocline_env::Env;
use thermocline_memtable::Direction;

use crate::capture::Capture;
use crate::cursor::Cursor;
use crate::families::table::Family;
use crate::store::Engine;

impl Engine {
    /// Makes `dir` a database of its own with all that is visible now, families, metadata and options
    /// included. Its tables and blob files are hard links where `dir` lies on the same file system, and copies where
    /// not. All of it is durable on return, and in this store, too, all that it has. Writers go on
    /// meanwhile.
    ///
    /// # Errors
    /// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) if `dir` exists and is not empty;
    /// [`Locked`](thermocline_base::Error::Locked) if somebody makes a copy there;
    /// [`Closed`](thermocline_base::Error::Closed); [`Poisoned`](thermocline_base::Error::Poisoned);
    /// [`Unsupported`](thermocline_base::Error::Unsupported) for records that cannot be in tables;
    /// [`Corruption`](thermocline_base::Error::Corruption) of a record; those of the file system. There is no
    /// database in `dir` then (or, where the file system refuses to remove anything either, all of it),
    /// and this store is unharmed.
    pub fn checkpoint(&self, dir: &Path) -> Result<()> {
        checkpoint(self, dir)
    }

    /// Writes what `family` has now within these bounds, the one that comes first in the family's order
    /// first, into one table `path`, for ingestion.
    ///
    /// # Errors
    /// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) if `path` exists, for a family that was dropped, or
    /// if it is too much for one table or has a value over 1 MiB, which a table cannot hold itself;
    /// [`Corruption`](thermocline_base::Error::Corruption); those of the file system. There is no table then.
    pub fn export(
        &self,
        family: Family,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        path: &Path,
    ) -> Result<Exported> {
        export(self, family, bounds, path)
    }

    /// Brings the entries of `tables` into family `cf`, all of them at one moment, above everything that
    /// was written before. Durable on return. The files are read, and stay where they are.
    ///
    /// # Errors
    /// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) if two tables overlap, naming both, for too many
    /// tables, a family that was dropped, or a store that takes no writes;
    /// [`Corruption`](thermocline_base::Error::Corruption) naming the table that is damaged;
    /// [`Unsupported`](thermocline_base::Error::Unsupported) for a table with merges or separated values;
    /// [`OutOfSpace`](thermocline_base::Error::OutOfSpace); those of the file system: then nothing was ingested. A
    /// failed persist poisons the store.
    pub fn ingest<P: AsRef<Path>>(&self, cf: CfId, tables: &[P]) -> Result<Ingested> {
        let _settled = self.inner.common.background.settled_after();
        ingest(self, cf, tables)
    }

    /// What was committed after `since`, the last seqno that the caller has; 0 is the beginning. A group that
    /// `since` lies within is given whole.
    ///
    /// # Errors
    /// [`ChangesGone`](thermocline_base::Error::ChangesGone) with the smallest `since` that can be asked for;
    /// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) if this database has no such change, because it was
    /// lost in a crash, or is another database's: then the caller has what the store has not, and begins anew;
    /// [`Closed`](thermocline_base::Error::Closed).
    pub fn changes_since(&self, since: u64) -> Result<ChangeFeed> {
        ChangeFeed::since(self.inner.feeds.clone(), since)
    }
}

impl Store for Engine {
    type Captured = Capture;
    type Family = Family;
    type Entries = Ascending;

    fn env(&self) -> &Env {
        &self.inner.common.world.env
    }

    fn dir(&self) -> &Path {
        &self.inner.common.dir
    }

    fn db_id(&self) -> [u8; 16] {
        self.inner.common.db_id
    }

    fn check_open(&self) -> Result<()> {
        self.inner.common.check_open()
    }

    fn check_accepts(&self, cf: CfId) -> Result<()> {
        self.inner.common.check_writable()?;
        let families = &self.inner.common.families;
        families.check(cf, families.moment())
    }

    fn flush(&self) -> Result<()> {
        Engine::flush(self).map(drop)
    }

    fn capture(&self) -> Result<Capture> {
        Capture::of(&self.inner)
    }

    fn entries(
        &self,
        family: Family,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<Ascending> {
        // Tables ascend bytewise, whatever the family does.
        let (way, begin, end) = match family.reverse {
            false => (Direction::Forward, from, to),
            true => (Direction::Reverse, to, from),
        };
        Ok(Ascending {
            cursor: self.cursor(family)?,
            way,
            begin: Some(begin.map(<[u8]>::to_vec)),
            end: end.map(<[u8]>::to_vec),
        })
    }

    fn install(
        &self,
        cf: CfId,
        write: &mut dyn FnMut(SeqNo, &mut dyn NewTables) -> Result<()>,
    ) -> Result<Installed> {
        self.inner.ingester.install_new(cf, write)
    }
}

/// A walk over a family in bytewise order.
pub struct Ascending {
    cursor: Cursor,
    /// The way that this is in the family's order.
    way: Direction,
    /// Where it begins, until it has.
    begin: Option<Bound<Vec<u8>>>,
    end: Bound<Vec<u8>>,
}

impl Ascending {
    fn advance(&mut self) -> Result<bool> {
        let (cursor, way) = (&mut self.cursor, self.way);
        match (way, self.begin.take()) {
            (Direction::Forward, None) => cursor.next(),
            (Direction::Reverse, None) => cursor.prev(),
            (_, Some(Bound::Excluded(key))) => cursor.seek_past(&key, way),
            (Direction::Forward, Some(Bound::Included(key))) => cursor.seek(&key),
            (Direction::Forward, Some(Bound::Unbounded)) => cursor.seek_to_first(),
            (Direction::Reverse, Some(Bound::Included(key))) => cursor.seek_for_prev(&key),
            (Direction::Reverse, Some(Bound::Unbounded)) => cursor.seek_to_last(),
        }
    }
}

impl Entries for Ascending {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if !self.advance()? {
            return Ok(None);
        }
        let key = self.cursor.key();
        let within = match &self.end {
            Bound::Included(end) => key <= &end[..],
            Bound::Excluded(end) => key < &end[..],
            Bound::Unbounded => true,
        };
        Ok(within.then(|| (self.cursor.key(), self.cursor.value())))
    }
}
