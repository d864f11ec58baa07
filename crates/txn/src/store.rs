//! What transactions need of a store, and how the engine gives it.

use std::ops::{Bound, Deref};
use std::sync::Arc;

use thermocline_base::merge::MergeOperator;
use thermocline_base::{CfId, Result, SeqNo};
use thermocline_engine::{
    Claims, Cursor, Direction, Engine, Entries, Family, Footprint, PreparedState, Resolution,
    Value, Watch, WriteOptions,
};

/// Of the DRAM that a store may have, the part that its transactions may have.
pub const MEMORY_SHARE: u64 = 4;

/// A prepared transaction: its name, and what its preparation has returned. Without that it is the one that has the name now.
pub type Which<'a> = (&'a [u8], Option<SeqNo>);

/// A store, as transactions need it.
pub trait Store: Send + Sync + 'static {
    /// A moment that can be read, and since which all changes are known.
    type Moment: Moment;

    /// What is visible now, held; all changes behind it are known to it.
    ///
    /// # Errors
    /// If the store is closed, or has failed.
    fn moment(&self) -> Result<Self::Moment>;

    /// Writes changes as one, wherever they come to lie.
    ///
    /// # Errors
    /// Those of a write: nothing was written.
    fn write<'a>(&self, changes: impl Entries<'a>, mode: WriteOptions) -> Result<()>;

    /// Prepares a transaction under a name, unless something of a footprint has changed since a moment. Returns a seqno that
    /// no other preparation has.
    ///
    /// # Errors
    /// See [`Engine::prepare`]: nothing was written.
    fn prepare<'a>(
        &self,
        name: &[u8],
        what: (impl Entries<'a>, Claims),
        since: Option<(&Self::Moment, &dyn Footprint)>,
    ) -> Result<SeqNo>;

    /// Commits a prepared transaction, or rolls it back.
    ///
    /// # Errors
    /// See [`Engine::resolve`] and [`Engine::resolve_own`].
    fn resolve(&self, which: Which<'_>, resolution: Resolution, mode: WriteOptions) -> Result<()>;

    /// The transactions that are prepared.
    ///
    /// # Errors
    /// See [`Engine::prepared`].
    fn prepared(&self) -> Result<Vec<PreparedState>>;

    /// The names of all that are prepared, and what they claim.
    fn prepared_claims(&self) -> Vec<(Vec<u8>, Claims)>;

    /// Nanoseconds by the store's clock.
    fn now_ns(&self) -> u64;

    /// As [`Store::now_ns`], but of the clock's last tick: never ahead of it, up to ten milliseconds behind, and cheaper.
    fn tick_ns(&self) -> u64;

    /// The name of a family, for messages.
    fn family_name(&self, cf: CfId) -> String;

    /// The merge operator of a family.
    ///
    /// # Errors
    /// If it has none.
    fn merge_operator(&self, cf: CfId) -> Result<Arc<dyn MergeOperator>>;

    /// Bytes of DRAM that all transactions together may have.
    fn memory_max(&self) -> u64;
}

/// A moment of a store.
pub trait Moment: std::fmt::Debug {
    /// A value that was read.
    type Value: Deref<Target = [u8]>;
    /// A position among the entries of a family, at the moment.
    type Place: Place;

    /// The last change that it sees.
    fn seqno(&self) -> SeqNo;

    /// The value that a key had.
    ///
    /// # Errors
    /// Those of reading.
    fn get(&self, cf: CfId, key: &[u8]) -> Result<Option<Self::Value>>;

    /// The values that these keys had, in their order.
    fn values(&self, keys: &[(CfId, &[u8])]) -> Vec<Result<Option<Self::Value>>>;

    /// A position, at no key.
    ///
    /// # Errors
    /// If the family had been dropped.
    fn place(&self, family: Family) -> Result<Self::Place>;

    /// These bytes, as a value.
    fn value(bytes: &[u8]) -> Self::Value;

    /// Whether nothing of a footprint has changed since, be it visible yet or not.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Conflict`] saying what has.
    fn check(&self, footprint: &dyn Footprint) -> Result<()>;

    /// Writes changes as one, if nothing of a footprint changes between the moment and them.
    ///
    /// # Errors
    /// As [`Moment::check`], and those of a write: nothing was written.
    fn write<'a>(
        &self,
        changes: impl Entries<'a>,
        mode: WriteOptions,
        footprint: &dyn Footprint,
    ) -> Result<()>;
}

/// A position among the entries of a family. All is in the order of bytes.
pub trait Place {
    /// Goes to the first key at or behind `from`, or to the last one at or before it, unless it is `ascending`. Returns
    /// whether there is one that does not lie behind `until`; what does is not read.
    ///
    /// # Errors
    /// Those of reading.
    fn seek(&mut self, from: Bound<&[u8]>, until: Bound<&[u8]>, ascending: bool) -> Result<bool>;

    /// Goes on to the next key, upwards or downwards, up to `until`.
    ///
    /// # Errors
    /// Those of reading.
    fn step(&mut self, until: Bound<&[u8]>, ascending: bool) -> Result<bool>;

    /// The key here.
    fn key(&self) -> &[u8];

    /// Its value.
    fn value(&self) -> &[u8];
}

impl Store for Engine {
    type Moment = Watch;

    fn moment(&self) -> Result<Watch> {
        self.watch()
    }

    fn write<'a>(&self, changes: impl Entries<'a>, mode: WriteOptions) -> Result<()> {
        Engine::write(self, changes, mode)
    }

    fn prepare<'a>(
        &self,
        name: &[u8],
        what: (impl Entries<'a>, Claims),
        since: Option<(&Watch, &dyn Footprint)>,
    ) -> Result<SeqNo> {
        Engine::prepare(self, name, what, since)
    }

    fn resolve(
        &self,
        (name, prepared): Which<'_>,
        resolution: Resolution,
        mode: WriteOptions,
    ) -> Result<()> {
        match prepared {
            None => Engine::resolve(self, name, resolution, mode),
            Some(prepared) => self.resolve_own((name, prepared), resolution, mode),
        }
    }

    fn prepared(&self) -> Result<Vec<PreparedState>> {
        Engine::prepared(self)
    }

    fn prepared_claims(&self) -> Vec<(Vec<u8>, Claims)> {
        Engine::prepared_claims(self)
    }

    fn now_ns(&self) -> u64 {
        self.clock_ns()
    }

    fn tick_ns(&self) -> u64 {
        Engine::tick_ns(self)
    }

    fn family_name(&self, cf: CfId) -> String {
        self.name_of_family(cf)
    }

    fn merge_operator(&self, cf: CfId) -> Result<Arc<dyn MergeOperator>> {
        Engine::merge_operator(self, cf)
    }

    fn memory_max(&self) -> u64 {
        self.options().dram / MEMORY_SHARE
    }
}

impl Moment for Watch {
    type Value = Value;
    type Place = Ordered;

    fn seqno(&self) -> SeqNo {
        self.snapshot().seqno()
    }

    fn get(&self, cf: CfId, key: &[u8]) -> Result<Option<Value>> {
        self.snapshot().value(cf, key)
    }

    fn values(&self, keys: &[(CfId, &[u8])]) -> Vec<Result<Option<Value>>> {
        self.snapshot().values(keys)
    }

    fn place(&self, family: Family) -> Result<Ordered> {
        Ok(Ordered(self.snapshot().cursor(family)?))
    }

    fn value(bytes: &[u8]) -> Value {
        Value::copy(bytes)
    }

    fn check(&self, footprint: &dyn Footprint) -> Result<()> {
        Watch::check(self, footprint)
    }

    fn write<'a>(
        &self,
        changes: impl Entries<'a>,
        mode: WriteOptions,
        footprint: &dyn Footprint,
    ) -> Result<()> {
        Watch::write(self, changes, mode, footprint)
    }
}

/// A cursor of the engine, which moves in the order of its family.
#[derive(Debug)]
pub struct Ordered(Cursor);

impl Ordered {
    /// A way in the order of bytes, as one in that of the family.
    fn way(&self, ascending: bool) -> Direction {
        match ascending != self.0.is_reverse() {
            true => Direction::Forward,
            false => Direction::Reverse,
        }
    }
}

impl Place for Ordered {
    fn seek(&mut self, from: Bound<&[u8]>, until: Bound<&[u8]>, ascending: bool) -> Result<bool> {
        let way = self.way(ascending);
        self.0.seek_within(from, until, way)
    }

    fn step(&mut self, until: Bound<&[u8]>, ascending: bool) -> Result<bool> {
        let way = self.way(ascending);
        self.0.step_within(until, way)
    }

    fn key(&self) -> &[u8] {
        self.0.key()
    }

    fn value(&self) -> &[u8] {
        self.0.value()
    }
}
