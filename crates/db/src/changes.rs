//! Change feeds: what was committed, in its order, for replicas and other followers.

use thermocline_base::{Error, Result};
use thermocline_engine::{Change, ChangeFeed, ChangeOp};

use crate::{Batch, ColumnFamily, Db};

impl Db {
    /// What was committed after the sequence number `since`, in the order of commits: an iterator that ends
    /// where nothing more is durable, and goes on when it is asked again. Whoever keeps the last sequence
    /// number that it was given, with what it made of the changes, can ask for the rest later, also
    /// after this database was reopened or has crashed: what was given once is never taken back, and
    /// nothing else is ever given under its numbers.
    ///
    /// Changes come in groups: each is one batch or several that were committed together, and none is
    /// divided. Changes of column families that were dropped are left out, and making and dropping
    /// families is no change: compare [`Db::column_families`]. What [`Db::ingest`] brings comes as no change
    /// either; who was before it gets the error below.
    ///
    /// A follower begins with 0 while there is everything; or, beside a copy, with the number of a
    /// snapshot ([`crate::Snapshot::seqno`]) that the copy was made from.
    ///
    /// Changes are read where they lie in persistent memory, and are gone when their memtable
    /// has been flushed. The iterator keeps what it has not given, up to `feed.pins_percent_max` of `pm`;
    /// `feed.retain_bytes` are kept in any case. Values in blob files count like all others. Writes that find no
    /// room come first: they take from both. A group that was given is a copy, and keeps no more than the
    /// files of its long values. A database that was opened for reading after a crash gives no more than what
    /// was known to be durable.
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
    ///     // With the changes, so that the two cannot differ.
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
    /// [`Error::ChangesGone`], here or from the iterator, which ends then: something after `since` is not kept
    /// any more; it tells the smallest number that can be asked for. [`Error::InvalidArgument`] if there is no
    /// such change here: it was lost in a crash, or is another database's, and who has it begins anew. [`Error::Corruption`] of a record, naming region and offset.
    pub fn changes_since(&self, since: u64) -> Result<ChangeFeed> {
        self.engine.changes_since(since)
    }
}

impl Batch {
    /// Adds a change of another database's feed, in `cf`, which stands for the change's family here: ranges are
    /// deleted bytewise, in whatever order the keys of either are. An operand is merged, so `cf` must have the merge operator
    /// that the change's family has, and each change must be applied once.
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
