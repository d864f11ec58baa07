//! A write's way to its group, and a group's way to its acknowledgement.
//!
//! Nothing may fail between [`CommitEnv::reserve`] and the finish but a persist: room, memory for the index and a slot
//! in the ring were taken before. What fails all the same poisons the store, because what the next open will find is no
//! longer what this process would answer.

use std::time::Duration;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{BatchEntry, Error, Result, SeqNo, WriteBatch};

use crate::ack::Acks;
use crate::bucket::{Bucket, Buckets, Joined, Led, Request, Taken};
use crate::env::{CommitEnv, Durability, Entries, Group, Persists, Reserved, WriteOptions};
use crate::readers::Readers;
use crate::recent::Recent;
use crate::ring::{Range, Ring};
use crate::sync::{Mutex, lock};

/// Sizes and times of committing.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Buckets in which durable writes meet.
    pub buckets: usize,
    /// Groups in flight, at most.
    pub ring_slots: usize,
    /// Bytes that a leader gathers, at most.
    pub group_bytes: u64,
    /// Time for which a leader waits for followers.
    pub group_wait: Duration,
    /// Deferred bytes at which they are written back.
    pub buffered_bytes: u64,
    /// Time after which they are.
    pub buffered_time: Duration,
    /// Bytes of a buffered write, or of one with a callback, from which on it is not deferred: its own thread persists it,
    /// beside other groups.
    pub alone_bytes: u64,
}

/// The commits of a store, from the opening on.
#[derive(Debug)]
pub struct Commits {
    limits: Limits,
    /// Where durable writes meet.
    buckets: Buckets,
    /// Groups between grant and finish, and the watermarks.
    pub ring: Ring,
    /// The readers of the past.
    pub readers: Readers,
    /// What was written lately, while transactions watch.
    pub recent: Recent,
    /// Held while what was deferred is written back: the list of it, whose memory is used again.
    syncing: Mutex<Vec<Range>>,
    pub(crate) acks: Acks,
}

/// A group that has not finished yet, or deferred bytes that were taken and are not written back yet. If it is dropped like
/// that, by an error or by a panic, neither that group nor any behind it can ever finish, and nobody may say any more that
/// those bytes, or any behind them, are durable. So its drop poisons the store, and wakes the threads that wait, which learn of
/// it instead of hanging.
pub struct Flying<'a, E: Persists> {
    commits: &'a Commits,
    env: &'a E,
}

impl<E: Persists> Drop for Flying<'_, E> {
    fn drop(&mut self) {
        self.env.poison(Error::Poisoned(
            "a write, or writing back, ended halfway".into(),
        ));
        self.commits.ring.fail();
    }
}

impl<E: Persists> Flying<'_, E> {
    /// It has finished.
    pub fn finished(self) {
        std::mem::forget(self);
    }
}

impl Commits {
    /// Nothing is in flight, and everything up to `last` is durable.
    pub fn new(limits: Limits, last: u64) -> Commits {
        Commits {
            limits,
            buckets: Buckets::new(limits.buckets),
            ring: Ring::new(last, limits.ring_slots),
            readers: Readers::default(),
            recent: Recent::default(),
            syncing: Mutex::default(),
            acks: Acks::default(),
        }
    }

    /// Its sizes and times.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Applies `entries`, which take `bytes` bytes, as one: visible together on return, and durable as `mode` says.
    ///
    /// # Errors
    /// Those of admission and of the reservation, with which nothing was written; [`Error::Poisoned`] after a failed
    /// persist: the outcome of the write that met the failure is unknown.
    pub fn write<'a>(
        &self,
        env: &impl CommitEnv,
        entries: impl Entries<'a>,
        bytes: u64,
        mode: WriteOptions,
    ) -> Result<()> {
        // What returns without a persist gains nothing by waiting for others.
        if mode.durability == Durability::Buffered || mode.no_slowdown {
            return self.write_alone(env, entries, bytes, mode);
        }
        let bucket = self.buckets.mine();
        if let Some(led) = bucket.lead() {
            return self.write_leading(env, entries, bytes, &led);
        }
        self.write_behind(env, entries, bytes, bucket)
    }

    /// Writes as a group of its own, and waits for the acknowledgement.
    ///
    /// # Errors
    /// As [`Commits::write`].
    pub fn write_alone<'a>(
        &self,
        env: &impl CommitEnv,
        entries: impl Entries<'a>,
        bytes: u64,
        mode: WriteOptions,
    ) -> Result<()> {
        self.write_owing(env, entries, (bytes, bytes), mode)
    }

    /// As [`Commits::write_alone`], of `bytes` bytes, for `owed` of which it is held back.
    fn write_owing<'a>(
        &self,
        env: &impl CommitEnv,
        entries: impl Entries<'a>,
        (bytes, owed): (u64, u64),
        mode: WriteOptions,
    ) -> Result<()> {
        env.admit(entries.clone(), owed, mode.no_slowdown)?;
        let reserved = env.reserve(entries.clone(), bytes, mode)?;
        let durability = self.durability_of(mode.durability, bytes);
        self.write_reserved(env, reserved, entries, durability)
    }

    /// How a group of `bytes` bytes is written for which `durability` was asked: a large buffered one as a durable one, since it
    /// would be written back at once (the [crate's text](crate) has more).
    pub fn durability_of(&self, durability: Durability, bytes: u64) -> Durability {
        match durability {
            Durability::Buffered if bytes >= self.limits.alone_bytes => Durability::Immediate,
            asked_for => asked_for,
        }
    }

    /// Writes what several callers have brought as one group. `is_held` from when it was held back for all of them.
    fn write_together<'a>(
        &self,
        env: &impl CommitEnv,
        entries: impl Entries<'a>,
        (taken, is_held): (&Taken<'_>, &mut bool),
    ) -> Result<()> {
        let bytes = env.item_bytes(entries.clone());
        env.admit_together(entries.clone(), bytes)?;
        *is_held = true;
        let reserved = env.reserve_together(entries.clone(), bytes)?;
        taken.granted();
        self.write_reserved(env, reserved, entries, Durability::Immediate)
    }

    /// Writes a group that has its place, and waits for the acknowledgement.
    fn write_reserved<'a, E: CommitEnv>(
        &self,
        env: &E,
        reserved: Reserved<E::Place>,
        entries: impl Entries<'a>,
        durability: Durability,
    ) -> Result<()> {
        let last = reserved.group.last;
        self.carry(env, reserved.group, entries, durability)?;
        let acknowledged = self.acknowledge(env, last, durability);
        env.wrote(reserved.due);
        acknowledged
    }

    /// Writes `entries` and what has gathered behind them.
    fn write_leading<'a>(
        &self,
        env: &impl CommitEnv,
        entries: impl Entries<'a>,
        bytes: u64,
        led: &Led<'_>,
    ) -> Result<()> {
        let more = self.limits.group_bytes.saturating_sub(bytes);
        if !self.limits.group_wait.is_zero() {
            led.wait_for_followers(more, self.limits.group_wait);
        }
        let taken = led.take(more);
        let mode = WriteOptions::default();
        if taken.is_empty() {
            return self.write_alone(env, entries, bytes, mode);
        }
        let mut is_held = false;
        let result = {
            let mut all: Vec<BatchEntry<'_>> = entries.clone().collect();
            let followers = taken.requests().iter();
            all.extend(followers.flat_map(|request| request.batch.iter()));
            self.write_together(env, all.iter().copied(), (&taken, &mut is_held))
        };
        if result.is_ok() {
            taken.answer(|_| Ok(()));
            return result;
        }
        if env.check_poison().is_err() {
            // A member's error is its own: what poisoned the store has been kept.
            taken.answer(|_| env.check_poison());
            return result;
        }
        // There was no room for all, or one names a family that is gone. Each learns about itself, and owes nothing twice.
        let owed = |bytes| if is_held { 0 } else { bytes };
        let alone = |batch: &WriteBatch, bytes| {
            self.write_owing(env, batch.iter(), (bytes, owed(bytes)), mode)
        };
        let own = self.write_owing(env, entries, (bytes, owed(bytes)), mode);
        taken.answer(|request| alone(&request.batch, request.bytes));
        own
    }

    /// Leaves `entries` to the bucket's leader, or writes them when it is their turn to lead.
    #[cold]
    fn write_behind<'a>(
        &self,
        env: &impl CommitEnv,
        entries: impl Entries<'a>,
        bytes: u64,
        bucket: &Bucket,
    ) -> Result<()> {
        let request = Request::new(WriteBatch::of(entries.clone()), bytes);
        match bucket.join(&request) {
            Joined::Done(result) => result,
            Joined::Leads(led) => self.write_leading(env, entries, bytes, &led),
        }
    }

    /// A group takes part from now on: until what this returns has [finished](Flying::finished), its end by an error or
    /// a panic poisons the store.
    pub fn flying<'a, E: Persists>(&'a self, env: &'a E) -> Flying<'a, E> {
        Flying { commits: self, env }
    }

    /// Stores, persists unless that is deferred, and indexes a group, beside others, and finishes it. On return the
    /// group's place is given up. The thread may do the store's work after its write, and its own place must not keep
    /// what has become old by then.
    ///
    /// # Errors
    /// A failed persist, which poisons the store.
    pub fn carry<'a, E: CommitEnv>(
        &self,
        env: &E,
        group: Group<E::Place>,
        entries: impl Entries<'a>,
        durability: Durability,
    ) -> Result<()> {
        let flying = self.flying(env);
        let published = active(Bug::PublishBeforePersist);
        if published {
            self.ring.finish(group.ticket, None);
        }
        let deferred = durability == Durability::Buffered || env.defers_all();
        // An error poisons the store with its cause first; then the drop of `flying` wakes the threads that wait.
        let applied = env.apply(&group, entries, deferred);
        applied.map_err(|error| env.poison(error))?;
        flying.finished();
        if !published {
            self.ring
                .finish(group.ticket, deferred.then_some(group.range));
        }
        Ok(())
    }

    /// Waits until a group that ends with `last` may be acknowledged.
    ///
    /// # Errors
    /// [`Error::Poisoned`]; a failed persist, which poisons the store.
    pub fn acknowledge(
        &self,
        env: &impl CommitEnv,
        last: SeqNo,
        durability: Durability,
    ) -> Result<()> {
        if !self.ring.wait_visible(last.0) {
            env.check_poison()?;
        }
        match durability {
            Durability::Immediate => self.make_durable(env, last),
            Durability::Buffered if self.ring.deferred_bytes() >= self.limits.buffered_bytes => {
                self.sync_up_to(env, last)
            }
            Durability::Buffered => {
                env.sync_later(self.limits.buffered_time);
                Ok(())
            }
        }
    }

    /// Waits until everything up to `last` is visible, and makes it durable.
    ///
    /// # Errors
    /// As [`Commits::sync_up_to`].
    pub fn make_durable(&self, env: &impl Persists, last: SeqNo) -> Result<()> {
        if !self.ring.wait_visible(last.0) {
            env.check_poison()?;
        }
        if active(Bug::AckAtVisible) {
            return Ok(());
        }
        self.sync_up_to(env, last)
    }

    /// Whether a group that ends with `last` could be acknowledged without waiting.
    pub fn is_acknowledged(&self, last: SeqNo, durability: Durability) -> bool {
        match durability {
            _ if active(Bug::AckOutOfOrder) => true,
            Durability::Immediate if active(Bug::AckAtVisible) => self.ring.visible() >= last.0,
            Durability::Immediate => self.ring.durable() >= last.0,
            Durability::Buffered => self.ring.visible() >= last.0,
        }
    }

    /// Makes everything up to `last`, which is visible, durable.
    ///
    /// # Errors
    /// A failed persist, which poisons the store.
    pub fn sync_up_to(&self, env: &impl Persists, last: SeqNo) -> Result<()> {
        if self.ring.durable() >= last.0 {
            return Ok(());
        }
        // One at a time: a thread that waits here finds its bytes on the next list, or persisted.
        let mut ranges = lock(&self.syncing);
        if self.ring.durable() >= last.0 {
            return Ok(());
        }
        env.check_poison()?;
        // Until it is persisted: whoever has the turn next would not find it on the list, and take it for durable. An error
        // poisons the store with its cause first.
        let flying = self.flying(env);
        let up_to = self.ring.take_deferred(&mut ranges);
        if !ranges.is_empty() {
            let written = env.write_back(&ranges);
            written.map_err(|error| env.poison(error))?;
        }
        flying.finished();
        self.ring.persisted(up_to);
        Ok(())
    }

    /// Waits until nothing is in flight, and makes it durable. The caller holds the writer's lock, so
    /// nothing is granted meanwhile.
    ///
    /// # Errors
    /// As [`Commits::sync_up_to`].
    pub fn drain(&self, env: &impl Persists) -> Result<()> {
        if !self.ring.wait_empty() {
            env.check_poison()?;
        }
        self.sync_up_to(env, SeqNo(self.ring.visible()))
    }
}
