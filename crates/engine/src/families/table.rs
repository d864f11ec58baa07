//! The families that there are.

use std::collections::BTreeMap;
use std::num::NonZeroU8;

use arc_swap::ArcSwap;
use thermocline_base::filter::CompactionFilter;
use thermocline_base::merge::{self, MergeOperator};
use thermocline_base::options::{Options, PartitionBy};
use thermocline_base::{BatchEntry, CfId, CfOptions, Error, Result};
use thermocline_version::State;

use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, RwLock, fence, read};

/// A column family as those who read it must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// Its id.
    pub id: CfId,
    /// Whether its keys order bytewise descending.
    pub reverse: bool,
}

impl Family {
    /// The family that every database has.
    pub const DEFAULT: Family = Family {
        id: CfId::DEFAULT,
        reverse: false,
    };

    /// Its options, every one set.
    pub fn options(&self) -> CfOptions {
        CfOptions::default().reverse(self.reverse)
    }
}

/// The families of an open store.
#[derive(Debug)]
pub(crate) struct Families {
    pub(super) table: RwLock<Table>,
    /// Those of the table, for whoever reads or writes data.
    dropped: Arc<Dropped>,
    pub(super) given: Given,
    /// Whether a family has or had one. Raised under the writer's lock, where writers ask.
    pub(super) any_operator: AtomicBool,
    /// How many were dropped since the store was opened: lets everybody skip the table until there
    /// is one. Raised under the table's lock and the writer's, so that a writer sees it exactly; a
    /// reader beside a drop may see either.
    pub(super) drops: AtomicU64,
}

/// What the store was opened with.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Merge operators, beside those that are built in.
    pub operators: Vec<Arc<dyn MergeOperator>>,
    /// Compaction filters, by the name of the family.
    pub filters: BTreeMap<String, Arc<dyn CompactionFilter>>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    /// The merge operators of families that have one; of dropped ones, too, which may still be read.
    pub(super) operators: BTreeMap<CfId, Arc<dyn MergeOperator>>,
    /// Those that there are. The order of their ids is that in which they were made.
    named: BTreeMap<CfId, (String, Family)>,
    /// The ids of those, by name.
    ids: BTreeMap<String, CfId>,
    /// The options of those that are divided in their own way; of dropped ones, too, whose handles tell them.
    pub(super) own: BTreeMap<CfId, CfOptions>,
    /// Those that are gone. Changed under the table's lock.
    pub(super) dropped: Arc<Dropped>,
}

/// Families that are gone, with their name and the number of their drop, from 1. Every read of another family than the default one
/// asks them once there are some, so it takes no lock for that.
#[derive(Debug, Default)]
pub(super) struct Dropped(ArcSwap<BTreeMap<CfId, (String, u64)>>);

/// Keeps the options of a family that is divided in its own way.
pub(super) fn note_own(all: &mut BTreeMap<CfId, CfOptions>, cf: CfId, options: &CfOptions) {
    let mut own = *options;
    own.reverse = None;
    own.merge_operator = None;
    if own != CfOptions::default() {
        all.insert(cf, own);
    }
}

/// The merge operator that `family` has by its name.
///
/// # Errors
/// [`Error::InvalidArgument`] saying how to open the database.
pub(super) fn operator_named(
    name: &str,
    family: &str,
    given: &[Arc<dyn MergeOperator>],
) -> Result<Arc<dyn MergeOperator>> {
    let own = given.iter().find(|operator| operator.name() == name);
    own.cloned().or_else(|| merge::built_in(name)).ok_or_else(|| {
        Error::InvalidArgument(format!(
            "column family '{family}' has the merge operator '{name}', which is not built in; open the database with \
             it (DbBuilder::merge_operator)"
        ))
    })
}

impl Families {
    /// Those that the manifest names.
    pub fn of(state: &State, given: Given) -> Result<Families> {
        let mut table = Table::default();
        for (id, name) in state.families() {
            let id = CfId(*id);
            let options = CfOptions::from_stored(state.family_options(id.0))?;
            note_own(&mut table.own, id, &options);
            if let Some(operator) = options.merge_operator {
                let operator = operator_named(operator.as_str(), name, &given.operators)?;
                table.operators.insert(id, operator);
            }
            let reverse = options.reverse == Some(true);
            table.add(name, Family { id, reverse });
        }
        Ok(Families {
            any_operator: AtomicBool::new(!table.operators.is_empty()),
            given,
            dropped: table.dropped.clone(),
            table: RwLock::new(table),
            drops: AtomicU64::new(0),
        })
    }

    /// How many families were dropped by now: the moment of a reader.
    pub fn moment(&self) -> u64 {
        // Who sees a drop's number finds it among the dropped ones (`Dropped::insert`).
        self.drops.load(Ordering::Acquire)
    }

    /// Whether a reader of `moment` may read `cf`.
    #[inline]
    pub fn check(&self, cf: CfId, moment: u64) -> Result<()> {
        if moment == 0 || cf == CfId::DEFAULT {
            return Ok(());
        }
        self.dropped.check(cf, moment)
    }

    /// For a message: its name, or of one that was dropped its number.
    pub fn told_name(&self, cf: CfId) -> String {
        let name = self.name_of(cf);
        name.unwrap_or_else(|| format!("number {}", cf.0))
    }

    /// The name of a family that was not dropped.
    pub fn name_of(&self, cf: CfId) -> Option<String> {
        self.by_name(cf, |name| Some(name.to_string()))
    }

    /// What there is for a family by its name, if it was not dropped. `find` is called under the lock.
    pub fn by_name<T>(&self, cf: CfId, find: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let table = read(&self.table);
        let (name, _) = table.named.get(&cf)?;
        find(name)
    }

    /// What a family was made with, and its merge operator.
    pub fn options_of(&self, family: Family) -> CfOptions {
        let own = self.own_options(family.id).reverse(family.reverse);
        match self.operator(family.id) {
            Some(operator) => own.merge_operator(operator.name()),
            None => own,
        }
    }

    /// What was set when the family was made of how it is divided.
    pub fn own_options(&self, cf: CfId) -> CfOptions {
        read(&self.table).own.get(&cf).copied().unwrap_or_default()
    }

    /// How many bytes the prefixes have that tables of a family have in their filters, beside keys.
    pub fn filter_prefix(&self, cf: CfId, options: &Options) -> Option<NonZeroU8> {
        let own = (cf != CfId::METADATA).then(|| self.own_options(cf))?;
        options.division(&own).filter_prefix()
    }

    /// Whether a family that was not dropped is divided by size in its own way.
    pub fn any_by_size(&self) -> bool {
        let table = read(&self.table);
        let mut own = table.own.iter();
        own.any(|(cf, own)| {
            own.partition_by == Some(PartitionBy::Size) && table.named.contains_key(cf)
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        read(&self.table).named.len()
    }

    /// Whether the record of `key` in `cf` belongs to a family that was not dropped, durably.
    pub fn exists(&self, cf: CfId, key: &[u8]) -> bool {
        if cf == CfId::METADATA {
            // The tables of a dropped family are gone. Those with its metadata are not, were it dropped before this opening.
            let owner = CfId::of_metadata_key(key);
            return owner.is_none_or(|owner| read(&self.table).named.contains_key(&owner));
        }
        self.moment() == 0 || !self.dropped.has(cf)
    }

    /// Whether all families of a batch exist. The caller holds the writer's lock (invariant 2).
    #[inline]
    pub fn check_write<'a>(&self, entries: impl Iterator<Item = BatchEntry<'a>>) -> Result<()> {
        match self.moment() {
            0 => Ok(()),
            moment => self.check_each(entries, moment),
        }
    }

    pub(super) fn check_each<'a>(
        &self,
        entries: impl Iterator<Item = BatchEntry<'a>>,
        moment: u64,
    ) -> Result<()> {
        let mut checked = CfId::DEFAULT;
        for entry in entries {
            let of_metadata = (entry.cf == CfId::METADATA)
                .then(|| CfId::of_metadata_key(entry.key))
                .flatten();
            let cf = of_metadata.unwrap_or(entry.cf);
            if cf != checked {
                self.check(cf, moment)?;
                checked = cf;
            }
        }
        Ok(())
    }

    /// The merge operator of a family, if it has one.
    pub fn operator(&self, cf: CfId) -> Option<Arc<dyn MergeOperator>> {
        let any = self.any_operator.load(Ordering::Acquire);
        any.then(|| read(&self.table).operators.get(&cf).cloned())
            .flatten()
    }

    /// Whether a family has a merge operator.
    pub fn has_operator(&self, cf: CfId) -> bool {
        self.any_operator() && read(&self.table).operators.contains_key(&cf)
    }

    /// Whether the family of this name has a compaction filter, or will have when it is made.
    pub fn is_filtered(&self, name: &str) -> bool {
        self.given.filters.contains_key(name)
    }

    /// The compaction filter of a family, if it has one.
    pub fn filter(&self, cf: CfId) -> Option<Arc<dyn CompactionFilter>> {
        let filters = &self.given.filters;
        match filters.is_empty() {
            true => None,
            false => self.by_name(cf, |name| filters.get(name).cloned()),
        }
    }

    /// Whether any family has a merge operator.
    pub fn any_operator(&self) -> bool {
        self.any_operator.load(Ordering::Acquire)
    }

    /// The merge operator of a family.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the family if it has none.
    pub fn checked_operator(&self, cf: CfId) -> Result<Arc<dyn MergeOperator>> {
        self.operator(cf).ok_or_else(|| {
            Error::InvalidArgument(format!(
                "column family '{}' has no merge operator; have it with CfOptions::merge_operator first",
                self.told_name(cf)
            ))
        })
    }

    /// The family of this name, if there is one.
    pub fn find(&self, name: &str) -> Option<Family> {
        read(&self.table).find(name)
    }

    /// The names of all, in the order in which they were made.
    pub fn names(&self) -> Vec<String> {
        let table = read(&self.table);
        table.named.values().map(|(name, _)| name.clone()).collect()
    }
}

impl Table {
    pub(super) fn find(&self, name: &str) -> Option<Family> {
        let (_, family) = self.named.get(self.ids.get(name)?)?;
        Some(*family)
    }

    /// A family is there from now on; there was none of this name.
    pub(super) fn add(&mut self, name: &str, family: Family) {
        self.ids.insert(name.to_string(), family.id);
        self.named.insert(family.id, (name.to_string(), family));
    }

    /// It is not there any more.
    pub(super) fn remove(&mut self, cf: CfId) {
        if let Some((name, _)) = self.named.remove(&cf) {
            self.ids.remove(&name);
        }
    }
}

impl Dropped {
    /// One is gone from now on. The caller raises the number of drops next.
    pub(super) fn insert(&self, cf: CfId, named: (String, u64)) {
        let mut all = (**self.0.load()).clone();
        all.insert(cf, named);
        self.0.store(Arc::new(all));
        fence(Ordering::Release);
    }

    fn has(&self, cf: CfId) -> bool {
        self.0.load().contains_key(&cf)
    }

    fn check(&self, cf: CfId, moment: u64) -> Result<()> {
        match self.0.load().get(&cf) {
            Some((name, number)) if *number <= moment => Err(Error::InvalidArgument(format!(
                "column family '{name}' was dropped; this handle or snapshot of it reads and \
                 writes nothing any more"
            ))),
            _ => Ok(()),
        }
    }
}
