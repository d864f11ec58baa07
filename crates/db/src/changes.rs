//! Change feeds: committed changes in the order of commits, for replicas and other followers.

use thermocline_base::{Error, Result};
use thermocline_engine::{Change, ChangeGroup, ChangeOp};

use crate::{Batch, ColumnFamily, Db};

/// Committed groups in the order of commits, from a sequence number on: what [`Db::changes_since`] returns.
///
/// The iterator ends where no more is durable, and goes on when it is asked again later. After an error it ends for
/// good.
#[derive(Debug)]
pub struct ChangeFeed(thermocline_engine::ChangeFeed);

impl ChangeFeed {
    /// The last sequence number that was given, or passed over because it has no record. A feed that is to be resumed
    /// begins from it.
    pub fn position(&self) -> u64 {
        self.0.position()
    }
}

impl Iterator for ChangeFeed {
    type Item = Result<ChangeGroup>;

    fn next(&mut self) -> Option<Result<ChangeGroup>> {
        self.0.next()
    }
}

impl Db {
    /// The id of the database. It stays for as long as the database does. A copy has another one: a checkpoint, and each
    /// database that is restored from a backup ([`crate::BackupInfo::db_id`] is that of the original).
    ///
    /// A follower keeps it beside its position ([`Db::changes_since`]).
    ///
    /// ```
    /// # use thermocline::{Db, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// db.checkpoint(folder.path().join("monday"))?;
    /// let monday = Db::open(folder.path().join("monday"), Options::default())?;
    /// assert_ne!(monday.id(), db.id());
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn id(&self) -> [u8; 16] {
        self.engine.id()
    }

    /// The changes committed after the sequence number `since`, in the order of commits. The iterator ends where no
    /// more is durable, and goes on when it is asked again. A follower stores the last sequence number of the last group that it was
    /// given ([`ChangeGroup::last`]), together with what it made of the changes. With that number it can ask for the rest later, also after
    /// this database was reopened or has crashed. A change that was given is never taken back, and nothing else is
    /// ever given under its number.
    ///
    /// Changes come in groups. A group is one batch, or several that were committed together, and is never divided: whoever asks
    /// since a number within one gets all of it. The number of a group's last change may be one within it, if a dropped family had the rest.
    /// Changes of dropped column families are left out. Making and dropping families is no change: compare
    /// [`Db::column_families`]. Entries that [`Db::ingest`] brings come as no change, either; a follower that was
    /// before the ingestion gets the error below.
    ///
    /// A follower begins with 0 while all changes are kept. Otherwise it begins with a copy, and with the last number that
    /// the copy has: [`Db::checkpoint`] returns it, and a backup says it ([`crate::BackupInfo::seqno`]). A feed that was opened
    /// before the copy is made keeps the changes that come meanwhile.
    ///
    /// A number is one of this database, and does not say so. A copy numbers its changes on from its original's, so both have
    /// changes of the same numbers that differ. Whoever followed the original farther than to where the copy was made, and
    /// asks the copy, gets an error while the copy has not come that far; **later it gets the copy's changes, and lacks some, without
    /// an error**. So a follower keeps [`Db::id`] beside its position, and compares. Where the id is another one, as after a
    /// backup was restored, it begins anew; unless it has come exactly as far as the copy: then it goes on, with the new id.
    ///
    /// Changes are read where they lie in persistent memory, and are gone when their memtable has been flushed. The
    /// iterator keeps changes that it has not given, up to `feed.pins_percent_max` of `pm`; `feed.retain_bytes` are
    /// kept in any case. Values in blob files count like all others. A write that finds no room comes first: it takes
    /// from both. A given group is a copy, and keeps no more than the files of its long values. A database that was
    /// opened for reading after a crash gives only changes that were known to be durable.
    ///
    /// ```
    /// # use thermocline::{CfOptions, Db, Durability, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// # let replica = Db::open(folder.path().join("replica"), Options::default())?;
    /// db.put("order:42", "paid")?;
    /// db.delete("order:41")?;
    /// let mut feed = db.changes_since(0)?;
    /// for group in feed.by_ref() {
    ///     let group = group?;
    ///     let mut batch = replica.batch();
    ///     for change in group.changes() {
    ///         let change = change?;
    ///         let cf = replica.column_family(&change.family, CfOptions::default())?;
    ///         batch.apply(&cf, &change);
    ///     }
    ///     // The position lies in the same batch as the changes, so that the two cannot differ.
    ///     batch.set_metadata(group.last().to_le_bytes());
    ///     batch.commit(Durability::Immediate)?;
    /// }
    /// assert_eq!(replica.get("order:42")?.as_deref(), Some(b"paid".as_slice()));
    /// let position = feed.position();
    ///
    /// db.put("order:43", "open")?;
    /// assert_eq!(db.changes_since(position)?.count(), 1);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ChangesGone`], here or from the iterator, which ends then: a change after `since` is not kept any
    /// more. The error has the smallest number that can be asked for. [`Error::InvalidArgument`] if this database has
    /// no change `since`: it was lost in a crash, or is another database's, and the follower begins anew.
    /// [`Error::Corruption`] of a record, naming region and offset; [`Error::Closed`].
    pub fn changes_since(&self, since: u64) -> Result<ChangeFeed> {
        self.engine.changes_since(since).map(ChangeFeed)
    }
}

impl Batch {
    /// Adds a change of another database's feed, in `cf`, which stands for the change's family here. A range is
    /// deleted bytewise, whatever the order of either family's keys. An operand is merged: `cf` must have the merge
    /// operator of the change's family, and each change must be applied once.
    pub fn apply(&mut self, cf: &ColumnFamily, change: &Change<'_>) -> &mut Batch {
        if let ChangeOp::Merge { key, operand } = &change.op {
            return self.merge_cf(cf, key, operand);
        }
        self.add_in(cf, |id, writes| match &change.op {
            ChangeOp::Put { key, value } => writes.put(id, key, value),
            ChangeOp::Delete { key } => writes.delete(id, key),
            ChangeOp::DeleteRange { from, to } => writes.delete_range(id, from, *to),
            ChangeOp::Metadata { value } => writes.set_metadata(id, value),
            _ => Err(Error::Unsupported(format!(
                "a change of kind {} cannot be applied",
                change.op.name()
            ))),
        })
    }
}
