//! Which transactions are prepared, and what nobody else may change meanwhile.
//!
//! # Invariants
//! 1. What is here changes under the writer's lock, in the hold of it in which the write is granted that prepares or
//!    resolves. So a writer that looks here before it is granted sees exactly the transactions whose records come before
//!    its own and whose resolutions come behind.
//! 2. Nothing that one transaction writes is claimed by another one: a transaction is refused that would bring that
//!    about. So whichever is resolved first, the other one still stands on unchanged ground.

use std::collections::BTreeMap;

use thermocline_base::shown::shown;
use thermocline_base::{BatchEntry, CfId, Error, Kind, Result, SeqNo};

use crate::families::table::Families;
use crate::prepared::claims::{Claims, RangeClaim};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};

/// A transaction that is prepared.
#[derive(Debug)]
pub(crate) struct Entry {
    pub name: Box<[u8]>,
    pub claims: Claims,
    /// Changes that it will make.
    pub changes: u64,
    /// What it takes at rest, in bytes, and in how many records.
    pub bytes: u64,
    pub parts: u32,
    /// When it was prepared, or found by an open, by the store's clock.
    pub since_ns: u64,
    /// The last seqno of what prepared it; 0 of one that an open has found.
    pub last: AtomicU64,
}

/// What a write does about prepared transactions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Step<'a> {
    /// Nothing: it keeps off what they claim.
    #[default]
    Keep,
    /// It prepares one.
    Prepare(&'a Arc<Entry>),
    /// It ends one: commits it, or rolls it back.
    Resolve(&'a Arc<Entry>),
}

/// Who claims a key, and whether he writes it.
type Holders = Vec<(Arc<Entry>, bool)>;

#[derive(Debug, Default)]
struct Held {
    names: BTreeMap<Box<[u8]>, Arc<Entry>>,
    keys: BTreeMap<CfId, BTreeMap<Box<[u8]>, Holders>>,
    /// Looked through from end to end: there are as many as iterators of serializable transactions, and deleted ranges.
    ranges: BTreeMap<CfId, Vec<(Arc<Entry>, RangeClaim)>>,
}

/// The transactions that are prepared.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// How many: writers skip the rest while there are none. Relaxed: it changes under the writer's lock, under which
    /// they look.
    count: AtomicU64,
    held: Mutex<Held>,
}

/// Which claims stand in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Against {
    /// Of a write: all.
    All,
    /// Of a read that has to last: those of who writes.
    Writes,
}

impl Against {
    fn is(self, writes: bool) -> bool {
        writes || self == Against::All
    }
}

impl Held {
    /// Who claims a key.
    fn of_key(&self, cf: CfId, key: &[u8], against: Against) -> Option<&Arc<Entry>> {
        let holders = self.keys.get(&cf).and_then(|keys| keys.get(key));
        let mut holders = holders.into_iter().flatten();
        if let Some((entry, _)) = holders.find(|(_, writes)| against.is(*writes)) {
            return Some(entry);
        }
        let ranges = self.ranges.get(&cf).into_iter().flatten();
        let mut ranges = ranges.filter(|(_, range)| against.is(range.writes));
        let found = ranges.find(|(_, range)| range.has(key));
        found.map(|(entry, _)| entry)
    }

    /// Who claims something in a range, and the first such key or the range's first.
    fn of_range<'h>(
        &'h self,
        cf: CfId,
        (start, end): (&'h [u8], Option<&'h [u8]>),
        against: Against,
    ) -> Option<(&'h Arc<Entry>, &'h [u8])> {
        if end.is_some_and(|end| end <= start) {
            return None;
        }
        if let Some(keys) = self.keys.get(&cf) {
            use std::ops::Bound::{Excluded, Included, Unbounded};
            let within = (Included(start), end.map_or(Unbounded, Excluded));
            for (key, holders) in keys.range::<[u8], _>(within) {
                if let Some((entry, _)) = holders.iter().find(|(_, writes)| against.is(*writes)) {
                    return Some((entry, key));
                }
            }
        }
        let ranges = self.ranges.get(&cf).into_iter().flatten();
        let mut ranges = ranges.filter(|(_, range)| against.is(range.writes));
        let found = ranges.find(|(_, range)| range.overlaps(start, end));
        found.map(|(entry, range)| (entry, (&*range.start).max(start)))
    }

    /// Whether a change may be made.
    fn check(&self, families: &Families, entry: BatchEntry<'_>) -> Result<()> {
        if entry.kind != Kind::RangeDelete {
            let holder = self.of_key(entry.cf, entry.key, Against::All);
            return refused_if(families, holder.map(|by| (by, entry.key)), entry.cf);
        }
        let end = (!entry.value.is_empty()).then_some(entry.value);
        let holder = self.of_range(entry.cf, (entry.key, end), Against::All);
        refused_if(families, holder, entry.cf)
    }

    /// Invariant 2.
    fn check_claims(&self, families: &Families, claims: &Claims) -> Result<()> {
        let against = |writes| match writes {
            true => Against::All,
            false => Against::Writes,
        };
        for (cf, key, writes) in claims.keys() {
            let holder = self.of_key(cf, key, against(writes));
            refused_if(families, holder.map(|by| (by, key)), cf)?;
        }
        for range in claims.ranges() {
            let span = (&*range.start, range.end.as_deref());
            let holder = self.of_range(range.cf, span, against(range.writes));
            refused_if(families, holder, range.cf)?;
        }
        Ok(())
    }

    fn insert(&mut self, entry: &Arc<Entry>) {
        for (cf, key, writes) in entry.claims.keys() {
            let keys = self.keys.entry(cf).or_default();
            let holders = keys.entry(key.into()).or_default();
            holders.push((Arc::clone(entry), writes));
        }
        for range in entry.claims.ranges() {
            let ranges = self.ranges.entry(range.cf).or_default();
            ranges.push((Arc::clone(entry), range.clone()));
        }
        self.names.insert(entry.name.clone(), Arc::clone(entry));
    }

    fn remove(&mut self, entry: &Arc<Entry>) {
        self.names.remove(&entry.name);
        for (cf, key, _) in entry.claims.keys() {
            let Some(keys) = self.keys.get_mut(&cf) else {
                continue;
            };
            let left = keys.get_mut(key).is_some_and(|holders| {
                holders.retain(|(by, _)| !Arc::ptr_eq(by, entry));
                !holders.is_empty()
            });
            if !left {
                keys.remove(key);
            }
        }
        for range in entry.claims.ranges() {
            if let Some(ranges) = self.ranges.get_mut(&range.cf) {
                ranges.retain(|(by, _)| !Arc::ptr_eq(by, entry));
            }
        }
    }
}

/// What is claimed is refused to others.
fn refused_if(families: &Families, met: Option<(&Arc<Entry>, &[u8])>, cf: CfId) -> Result<()> {
    let Some((entry, key)) = met else {
        return Ok(());
    };
    Err(Error::Conflict(format!(
        "key '{}' of column family '{}' must not change while transaction '{}' is prepared, which has read or written it, \
         or a range with it; commit that or roll it back first (Db::commit_prepared, Db::roll_back_prepared)",
        shown(key),
        families.told_name(cf),
        shown(&entry.name)
    )))
}

/// Nobody has prepared a transaction of this name, or it was resolved.
pub(super) fn unknown(name: &[u8]) -> Error {
    Error::InvalidArgument(format!(
        "there is no prepared transaction '{}': it was never prepared, or was committed or rolled back before \
         (Db::prepared lists those that there are)",
        shown(name)
    ))
}

impl Registry {
    /// Whether there are none.
    #[inline]
    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether a write may be granted. The caller holds the writer's lock until it is.
    ///
    /// # Errors
    /// [`Error::Conflict`] naming the transaction that claims what it changes; [`Error::InvalidArgument`] for a name that
    /// is taken, or of a transaction that is not prepared any more.
    #[inline]
    pub fn check<'a>(
        &self,
        families: &Families,
        entries: impl Iterator<Item = BatchEntry<'a>>,
        step: Step<'_>,
    ) -> Result<()> {
        match step {
            Step::Keep if self.is_empty() => Ok(()),
            Step::Keep => self.check_entries(families, entries),
            Step::Prepare(entry) => self.check_new(families, entry),
            Step::Resolve(entry) => match self.find(&entry.name) {
                Ok(found) if Arc::ptr_eq(&found, entry) => Ok(()),
                _ => Err(unknown(&entry.name)),
            },
        }
    }

    #[cold]
    fn check_entries<'a>(
        &self,
        families: &Families,
        mut entries: impl Iterator<Item = BatchEntry<'a>>,
    ) -> Result<()> {
        let held = lock(&self.held);
        entries.try_for_each(|entry| held.check(families, entry))
    }

    /// Whether a transaction may be prepared.
    ///
    /// # Errors
    /// As [`Registry::check`]; [`Error::InvalidArgument`] for a family that was dropped.
    pub fn check_new(&self, families: &Families, entry: &Entry) -> Result<()> {
        let held = lock(&self.held);
        if held.names.contains_key(&entry.name) {
            return Err(Error::InvalidArgument(format!(
                "transaction '{}' is prepared already; give this one another name, or commit that or roll it back first \
                 (Db::prepared lists those that there are)",
                shown(&entry.name)
            )));
        }
        for cf in entry.claims.families() {
            families.check(cf, families.moment())?;
        }
        held.check_claims(families, &entry.claims)
    }

    /// Whether a family may be dropped, or all of its keys may change. The caller holds the writer's lock.
    ///
    /// # Errors
    /// [`Error::Conflict`] naming a transaction that claims something there.
    pub fn check_family(&self, families: &Families, cf: CfId) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let held = lock(&self.held);
        let holder = held.of_range(cf, (&[], None), Against::All);
        refused_if(families, holder, cf)
    }

    /// A write was granted, whose last seqno is `last`. The caller holds the writer's lock since it has asked.
    #[inline]
    pub fn granted(&self, step: Step<'_>, last: SeqNo) {
        match step {
            Step::Keep => {}
            Step::Prepare(entry) => {
                entry.last.store(last.0, Ordering::Relaxed);
                self.insert(entry);
            }
            Step::Resolve(entry) => {
                lock(&self.held).remove(entry);
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// A transaction is prepared. The caller holds the writer's lock, or is alone with the store.
    pub fn insert(&self, entry: &Arc<Entry>) {
        lock(&self.held).insert(entry);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The transaction of this name.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if none is prepared.
    pub fn find(&self, name: &[u8]) -> Result<Arc<Entry>> {
        let found = lock(&self.held).names.get(name).cloned();
        found.ok_or_else(|| unknown(name))
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        lock(&self.held).names.values().cloned().collect()
    }
}
