//! A transaction between the two halves of its commit.

use thermocline_base::{Result, SeqNo};
use thermocline_engine::{Durability, Resolution, WriteOptions};

use crate::shared::Shared;
use crate::store::Store;
use crate::sync::Arc;

/// A transaction that is prepared: it survives crashes, nobody else changes what it writes or relies on, and its commit is
/// refused by nobody. Dropped, it stays prepared, and can be resolved by its name ([`crate::Transactions::resolve`]).
#[derive(Debug)]
#[must_use = "it stays prepared, and keeps others out, until it is committed or rolled back"]
pub struct Prepared<S: Store> {
    shared: Arc<Shared<S>>,
    name: Box<[u8]>,
    /// What tells it from others that are prepared under its name when it was resolved.
    last: SeqNo,
}

impl<S: Store> Prepared<S> {
    pub(crate) fn new(shared: Arc<Shared<S>>, (name, last): (&[u8], SeqNo)) -> Prepared<S> {
        Prepared {
            shared,
            name: name.into(),
            last,
        }
    }

    fn resolve(&self, resolution: Resolution, options: WriteOptions) -> Result<()> {
        let which = (&*self.name, Some(self.last));
        self.shared.resolve(which, resolution, options)
    }

    /// The name that it was prepared under.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Makes all of its changes as one, durably.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] if it was resolved by its name before, whatever is prepared under that
    /// now. Those of a write: it is prepared as before; but after [`thermocline_base::Error::Poisoned`] the outcome is unknown.
    pub fn commit(self) -> Result<()> {
        self.commit_with(Durability::Immediate.into())
    }

    /// As [`Prepared::commit`], with options of its own. One that was acknowledged when it was visible is prepared again
    /// after a crash that takes it.
    ///
    /// # Errors
    /// As [`Prepared::commit`]; [`thermocline_base::Error::Busy`] if the options ask not to wait.
    pub fn commit_with(self, options: WriteOptions) -> Result<()> {
        self.resolve(Resolution::Commit, options)
    }

    /// Ends it without a trace, durably.
    ///
    /// # Errors
    /// As [`Prepared::commit`].
    pub fn rollback(self) -> Result<()> {
        self.resolve(Resolution::RollBack, Durability::Immediate.into())
    }
}
