//! Transactions between the two halves of their commit.

use thermocline_base::Result;
use thermocline_engine::{Engine, Operation};

use crate::WriteOptions;

/// A prepared transaction: the first half of its two-phase commit is done. Made by
/// [`Transaction::prepare`](crate::Transaction::prepare).
///
/// Several databases, or other services, may have to do something together or not at all. Then each *prepares* its
/// part. Once all have prepared, each is told to commit. A prepared part must be able to commit and to roll back,
/// whatever happens meanwhile. So
///
/// - a prepared transaction survives crashes, and is in checkpoints and backups. After an opening
///   [`Db::prepared`](crate::Db::prepared) lists it, and [`Db::commit_prepared`](crate::Db::commit_prepared) and
///   [`Db::roll_back_prepared`](crate::Db::roll_back_prepared) end it by its name.
/// - nobody else changes what it writes or relies on. Plain writes, batches, ingested tables and the commits of other
///   transactions are refused with [`Error::Conflict`](crate::Error::Conflict), and so is dropping such a column
///   family. Pessimistic transactions wait for its locks, as for those of any other transaction.
/// - its commit is never refused because of what others do. It needs room, as any batch of its size does.
///
/// Nobody sees its writes before it is committed. If this value is dropped, the transaction stays prepared.
///
/// ```
/// use thermocline::{Db, ErrorKind, Options, TxnOptions};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("db");
/// let db = Db::open(&path, Options::default())?;
/// let mut txn = db.transaction(TxnOptions::pessimistic())?;
/// txn.put("alice", "7")?;
/// let prepared = txn.prepare("transfer 42")?;
/// assert_eq!(prepared.name(), b"transfer 42");
/// assert_eq!(db.put("alice", "0").unwrap_err().kind(), ErrorKind::Conflict);
/// drop(prepared);
/// db.close()?;
///
/// let db = Db::open(&path, Options::default())?;
/// for state in db.prepared()? {
///     // Here the application asks the coordinator for the outcome.
///     db.commit_prepared(&state.name)?;
/// }
/// assert_eq!(db.get("alice")?.as_deref(), Some(&b"7"[..]));
/// # Ok::<(), thermocline::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "it stays prepared, and keeps others out, until it is committed or rolled back"]
pub struct Prepared {
    inner: thermocline_txn::Prepared<Engine>,
    engine: Engine,
}

impl Prepared {
    pub(crate) fn new(inner: thermocline_txn::Prepared<Engine>, engine: Engine) -> Prepared {
        Prepared { inner, engine }
    }

    /// The name under which the transaction was prepared.
    pub fn name(&self) -> &[u8] {
        self.inner.name()
    }

    /// Applies all writes of the transaction, in all column families, as one. They are visible together, and durable,
    /// on return.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if the transaction was resolved by its name before, even if another one was
    /// prepared under that name since, which is left alone. Otherwise those of [`Batch::commit`](crate::Batch::commit):
    /// the transaction is prepared as before then, and can be resolved by its name. But after
    /// [`crate::Error::Poisoned`] the outcome is unknown until the next opening.
    pub fn commit(self) -> Result<()> {
        let times = self.engine.latencies();
        times.time(Operation::Batch, || self.inner.commit())
    }

    /// As [`Prepared::commit`], with a [`Durability`](crate::Durability) or [`WriteOptions`] of its own. If a crash
    /// loses a `Buffered` commit, the transaction is still prepared.
    ///
    /// # Errors
    /// As [`Prepared::commit`]; [`crate::Error::Busy`] if the options ask not to wait.
    pub fn commit_with(self, options: impl Into<WriteOptions>) -> Result<()> {
        let options = options.into();
        let times = self.engine.latencies();
        times.time(Operation::Batch, || self.inner.commit_with(options))
    }

    /// Rolls the transaction back, durably. None of its writes is left.
    ///
    /// # Errors
    /// As [`Prepared::commit`].
    pub fn rollback(self) -> Result<()> {
        self.inner.rollback()
    }
}
