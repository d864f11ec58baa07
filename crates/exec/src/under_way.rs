//! How much is under way.

use std::sync::Arc;
use std::time::Duration;

use crate::budget::Budget;

/// Counts what is under way. Clones count together. Reads and writes of jobs that are beside it find room, or not, by that
/// ([`JobIo`](crate::JobIo)).
#[derive(Debug, Clone, Default)]
pub struct UnderWay(Arc<Budget>);

/// So many are under way for as long as this is held.
#[derive(Debug)]
pub struct Counted<'a> {
    count: &'a UnderWay,
    n: usize,
    /// Where they are counted.
    shard: usize,
}

/// One more is, for as long as this is held, wherever that is.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Arc<Budget>,
    whose: Whose,
}

/// Whose read or write it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Of a reader, counted in this shard.
    Reader(usize),
    Job,
    /// A job's write, which goes before others.
    First,
}

impl UnderWay {
    /// How many there are now, without those of jobs.
    pub fn now(&self) -> usize {
        self.0.clients()
    }

    pub(crate) fn add(&self, n: usize) -> Counted<'_> {
        let shard = self.0.enter_clients(n);
        Counted {
            count: self,
            n,
            shard,
        }
    }

    pub(crate) fn hold(&self) -> Held {
        let shard = self.0.enter_clients(1);
        self.held(Whose::Reader(shard))
    }

    /// A read or write of a job, which does not ask for room.
    pub(crate) fn job(&self) -> Held {
        self.0.enter(false);
        self.held(Whose::Job)
    }

    /// A write of a job, which does not ask for room. As long as it is under way nobody who waits finds any.
    pub(crate) fn first_job(&self) -> Held {
        self.0.enter(true);
        self.held(Whose::First)
    }

    /// A read of a job, if fewer than `depth` are under way, those of jobs included.
    pub(crate) fn job_if_room(&self, depth: usize) -> Option<Held> {
        let fits = self.0.enter_if_room(depth);
        fits.then(|| self.held(Whose::Job))
    }

    /// A write of a job, once fewer than `depth` are under way, or no time is `left` to wait for that.
    pub(crate) fn job_within(&self, depth: usize, left: impl FnMut() -> Option<Duration>) -> Held {
        self.0.enter_within(depth, left);
        self.held(Whose::Job)
    }

    fn held(&self, whose: Whose) -> Held {
        Held {
            budget: self.0.clone(),
            whose,
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.0.leave_clients(self.shard, self.n);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        match self.whose {
            Whose::Reader(shard) => self.budget.leave_clients(shard, 1),
            Whose::Job => self.budget.leave(false),
            Whose::First => self.budget.leave(true),
        }
    }
}
