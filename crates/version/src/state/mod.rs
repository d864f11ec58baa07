//! The sum of all edits.

mod chains;
mod copy;
mod evacuation;
mod families;
mod ids;
mod order;
mod snapshot;

pub use chains::{Chain, Cut, MemtableEntry};
pub use evacuation::Evacuation;

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::{CfId, Error, FileId, Result};

use crate::age;
use crate::edit::{Change, NextIds, StoredRate, VersionEdit};
use crate::impossible::{Impossible, at_least, must};
use crate::job_done::JobsDone;
use crate::origin::Origins;
use crate::table::{PartitionId, Place};
use crate::version::Version;
use crate::write_times::WriteTimes;
use chains::Chains;
use evacuation::Flushed;
use families::Families;

/// What exists, after some edits.
///
/// ```
/// use thermocline_version::{Change, State, VersionEdit};
/// let mut state = State::default();
/// let first = VersionEdit::new()
///     .with(Change::Created { db_id: [1; 16], region_id: [2; 16] })
///     .with(Change::ColumnFamilyCreated { id: 0, name: "default".into() });
/// state.apply(&first).unwrap();
/// assert_eq!(state.family_id("default"), Some(0));
/// // What cannot be is refused, and nothing has changed.
/// assert!(state.apply(&first).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    identity: Option<([u8; 16], [u8; 16])>,
    options: Vec<(String, String)>,
    /// Shared by states as long as no family changes: there may be tens of thousands.
    families: Arc<Families>,
    chains: Chains,
    next: NextIds,
    /// Bounds of file ids, ascending, and the database that wrote the files below each.
    inherited: Vec<(u64, [u8; 16])>,
    flushed: Flushed,
    /// Whether records may refer to blob files.
    long_values: bool,
    /// Whether there may be prepared transactions.
    prepared: bool,
    /// See [`State::rates`].
    rates: Arc<[StoredRate]>,
    /// See [`State::write_times`].
    times: Arc<WriteTimes>,
    /// See [`State::jobs_done`].
    jobs: Arc<JobsDone>,
    version: Arc<Version>,
}

impl State {
    /// The database's id, once it was created.
    pub fn db_id(&self) -> Option<[u8; 16]> {
        self.identity.map(|(db_id, _)| db_id)
    }

    /// The id of the database's region, once it was created.
    pub fn region_id(&self) -> Option<[u8; 16]> {
        self.identity.map(|(_, region_id)| region_id)
    }

    /// Which database wrote its files, once it was created.
    pub fn origins(&self) -> Option<Origins> {
        let own = self.db_id()?;
        Some(Origins::new(own, &self.inherited))
    }

    /// All memtables with bases at or below this seqno have been flushed. (So have those with bases at
    /// or below the largest seqno in a table.)
    pub fn flushed_up_to(&self) -> u64 {
        self.flushed.up_to
    }

    /// How far memtables are evacuated that have not been flushed as a whole, if some are.
    pub fn evacuation(&self) -> Option<&Evacuation> {
        self.flushed.evacuation.as_ref()
    }

    /// Whether records in persistent memory, or in logs, may refer to blob files: [`Change::LongValues`].
    pub fn has_long_values(&self) -> bool {
        self.long_values
    }

    /// Whether there may be prepared transactions: [`Change::PreparedTransactions`].
    pub fn may_have_prepared(&self) -> bool {
        self.prepared
    }

    /// The effective options that were stored last.
    pub fn options(&self) -> &[(String, String)] {
        &self.options
    }

    /// The column families that exist, by id.
    pub fn families(&self) -> &BTreeMap<u16, String> {
        self.families.names()
    }

    /// The id of the family of this name.
    pub fn family_id(&self, name: &str) -> Option<u16> {
        self.families.id(name)
    }

    /// The options of family `id` that are not as by default.
    pub fn family_options(&self, id: u16) -> &[(String, String)] {
        self.families.options(id).map_or(&[], Vec::as_slice)
    }

    /// The memtables that exist, by id, which is oldest first.
    pub fn memtables(&self) -> &BTreeMap<u64, MemtableEntry> {
        self.chains.memtables()
    }

    /// All chains, oldest first, each with its memtable.
    pub fn chains(&self) -> impl Iterator<Item = (u64, &Chain)> {
        self.chains.iter()
    }

    /// How often partitions were read and written when the store was closed last, as far as that was noted: of
    /// some partitions that exist.
    pub fn rates(&self) -> &[StoredRate] {
        &self.rates
    }

    /// Whether there is such a family, and it has this partition.
    pub fn has_partition(&self, cf: CfId, partition: PartitionId) -> bool {
        self.families.has(cf.0) && self.version.partitions(cf).has(partition)
    }

    /// The last flushes and compactions.
    pub fn jobs_done(&self) -> &Arc<JobsDone> {
        &self.jobs
    }

    /// When what was written was written, as far as is known.
    pub fn write_times(&self) -> &Arc<WriteTimes> {
        &self.times
    }

    /// The smallest ids that were never used.
    pub fn next_ids(&self) -> NextIds {
        self.next
    }

    /// Whether it is more than the state of a database that was just created.
    pub(crate) fn holds_data(&self) -> bool {
        !self.chains.is_empty() || self.families.names().len() > 1 || self.version.names_anything()
    }

    /// The tables and blob files that exist.
    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// Applies an edit, all of it or, if a part of it cannot be, nothing.
    ///
    /// # Errors
    /// [`Error::Corruption`] saying what cannot be: an id twice, a memtable that does not exist,
    /// a number that goes back.
    pub fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        let mut next = self.clone();
        next.apply_in_place(edit)
            .map_err(|e| Error::corruption(e.what, "the manifest", 0, e.expected, e.got))?;
        *self = next;
        Ok(())
    }

    /// Applies an edit; after an error some of it is applied.
    pub(crate) fn apply_in_place(&mut self, edit: &VersionEdit) -> Result<(), Impossible> {
        let adds = |c: &Change| matches!(c, Change::TableAdded { .. });
        let aged = cfg!(debug_assertions) && edit.changes.iter().any(adds);
        let before = aged.then(|| Arc::clone(&self.version));
        edit.changes.iter().try_for_each(|c| self.apply_change(c))?;
        match before {
            Some(before) => age::check(&before, &self.version, edit),
            None => Ok(()),
        }
    }

    fn apply_change(&mut self, change: &Change) -> Result<(), Impossible> {
        let created = self.identity.is_some();
        let creates = matches!(change, Change::Created { .. });
        must(created || creates, "first change", "Created", "another")?;
        match change {
            Change::Created { db_id, region_id } => {
                must(!created, "creation", "one", "a second one")?;
                self.identity = Some((*db_id, *region_id));
            }
            Change::Options(options) => self.options.clone_from(options),
            Change::NextIds(next) => ids::raise(&mut self.next, *next)?,
            Change::LongValues => self.long_values = true,
            Change::PreparedTransactions => self.prepared = true,
            Change::WriteTimes(times) => {
                let known = Arc::make_mut(&mut self.times);
                times.iter().try_for_each(|time| known.add(*time))?;
            }
            Change::FilesInherited { below, db_id } => self.inherit(*below, *db_id)?,
            Change::PartitionRates(rates) => self.set_rates(rates),
            Change::JobDone(job) => Arc::make_mut(&mut self.jobs).add(job.clone()),
            Change::ColumnFamilyCreated { .. }
            | Change::ColumnFamilyDropped { .. }
            | Change::ColumnFamilyOptions { .. }
            | Change::PartitionCreated { .. }
            | Change::PartitionRemoved { .. } => self.apply_to_families(change)?,
            Change::MemtableCreated { .. }
            | Change::MemtableDropped { .. }
            | Change::ChainOpened { .. }
            | Change::ChainAdopted { .. }
            | Change::ChainCut { .. }
            | Change::FlushedUpTo { .. }
            | Change::Evacuated { .. } => self.apply_to_memtables(change)?,
            Change::TableAdded { .. }
            | Change::TableRemoved { .. }
            | Change::BlobFileAdded { .. }
            | Change::BlobValues { .. }
            | Change::BlobFileRemoved { .. }
            | Change::PmTableAdded { .. }
            | Change::PmTableRemoved { .. } => self.apply_to_files(change)?,
        }
        Ok(())
    }

    /// Changes of families, and of how they are divided.
    fn apply_to_families(&mut self, change: &Change) -> Result<(), Impossible> {
        match change {
            Change::ColumnFamilyCreated { id, name } => {
                Arc::make_mut(&mut self.families).create(*id, name, &mut self.next)
            }
            Change::ColumnFamilyDropped { id } => {
                Arc::make_mut(&mut self.families).drop(*id)?;
                let id = CfId(*id);
                self.forget_rates(|rate| rate.cf == id);
                if self.version.family(id).is_some() || self.version.partitions(id).len() > 1 {
                    self.version_mut().drop_family(id);
                }
                Ok(())
            }
            Change::ColumnFamilyOptions { id, options } => {
                Arc::make_mut(&mut self.families).set_options(*id, options)
            }
            Change::PartitionCreated {
                cf,
                partition,
                start,
            } => {
                self.check_partitioned(*cf)?;
                self.version_mut().create_partition(*cf, *partition, start)
            }
            Change::PartitionRemoved {
                cf,
                partition,
                start,
            } => {
                self.check_partitioned(*cf)?;
                self.version_mut()
                    .remove_partition(*cf, *partition, start)?;
                self.forget_rates(|rate| (rate.cf, rate.partition) == (*cf, *partition));
                Ok(())
            }
            other => unreachable!("{other:?} is no change of a family"),
        }
    }

    /// Changes of memtables, their chains, and how far they are flushed.
    fn apply_to_memtables(&mut self, change: &Change) -> Result<(), Impossible> {
        let next = &mut self.next;
        match change {
            Change::MemtableCreated { id } => self.chains.create_memtable(*id, next),
            Change::MemtableDropped { id } => self.chains.drop_memtable(*id),
            Change::ChainOpened { memtable, .. } => {
                let chain = Chain::opened(change).expect("it opens one");
                self.chains.open(*memtable, chain, next)
            }
            Change::ChainAdopted { memtable, .. } => {
                let chain = Chain::adopted(change).expect("it adopts one");
                let taken = self.version.owns_pm_table(chain.id);
                self.chains.adopt(*memtable, chain, taken, next)
            }
            Change::ChainCut {
                chain,
                last_seqno,
                end,
            } => self.chains.cut(*chain, *last_seqno, *end),
            Change::FlushedUpTo { seqno } => {
                if self.flushed.flush(*seqno)? {
                    self.version_mut().set_front(None);
                }
                Ok(())
            }
            Change::Evacuated {
                above,
                up_to,
                cf,
                key,
            } => {
                self.flushed.evacuate(Evacuation {
                    above: *above,
                    up_to: *up_to,
                    cf: *cf,
                    key: key.clone(),
                })?;
                self.version_mut()
                    .set_front(Some((*cf, key.as_ref().into())));
                Ok(())
            }
            other => unreachable!("{other:?} is no change of memtables"),
        }
    }

    /// Changes of tables and blob files.
    fn apply_to_files(&mut self, change: &Change) -> Result<(), Impossible> {
        match change {
            Change::TableAdded { place, table } => {
                let Place { cf, .. } = *place;
                // The engine's own family has no name.
                let exists = cf == CfId::METADATA || self.families.has(cf.0);
                must(exists, "family of a table", "one that exists", cf.0)?;
                self.reserved(table.file)?;
                self.version_mut().add_table(*place, table)
            }
            Change::TableRemoved {
                place,
                file,
                smallest,
            } => self.version_mut().remove_table(*place, *file, smallest),
            Change::BlobFileAdded { file, bytes } => {
                self.reserved(*file)?;
                self.version_mut().add_blob_file(*file, *bytes)
            }
            Change::BlobValues { file, bytes } => self.version_mut().set_blob_values(*file, *bytes),
            Change::BlobFileRemoved { file } => self.version_mut().remove_blob_file(*file),
            Change::PmTableAdded { table } => {
                self.reserved(table.file)?;
                self.owns_zones(table.meta.owner)?;
                self.version_mut().add_pm_table(table)
            }
            Change::PmTableRemoved { file } => self.version_mut().remove_pm_table(*file),
            other => unreachable!("{other:?} is no change of a file"),
        }
    }

    /// Keeps the rates of partitions that exist. The ids of others are given out again.
    fn set_rates(&mut self, rates: &[StoredRate]) {
        let exists = |rate: &&StoredRate| self.has_partition(rate.cf, rate.partition);
        self.rates = rates.iter().filter(exists).copied().collect();
    }

    fn forget_rates(&mut self, of: impl Fn(&StoredRate) -> bool) {
        if self.rates.iter().any(&of) {
            let others = self.rates.iter().filter(|rate| !of(rate));
            self.rates = others.copied().collect();
        }
    }

    /// Files below `below` were written by the database `db_id`.
    fn inherit(&mut self, below: u64, db_id: [u8; 16]) -> Result<(), Impossible> {
        let what = "bound of inherited files";
        let least = self.inherited.last().map_or(1, |(below, _)| below + 1);
        must(below >= least, what, at_least(least), below)?;
        let next = self.next.file;
        must(below <= next, what, format_args!("at most {next}"), below)?;
        let named = self.version.names_anything();
        must(!named, "files named before inherited ones", "none", "some")?;
        let own = self.db_id() == Some(db_id);
        must(
            !own,
            "database of inherited files",
            "another one",
            "this one",
        )?;
        self.inherited.push((below, db_id));
        Ok(())
    }

    fn check_partitioned(&self, cf: CfId) -> Result<(), Impossible> {
        let exists = self.families.has(cf.0);
        must(exists, "family of a partition", "one that exists", cf.0)
    }

    fn version_mut(&mut self) -> &mut Version {
        Arc::make_mut(&mut self.version)
    }

    /// A file that was made after its id was reserved: so no file of that id was made before.
    fn reserved(&self, file: FileId) -> Result<(), Impossible> {
        let next = self.next.file;
        must(file.0 < next, "file id", format_args!("below {next}"), file)
    }

    /// An owner of zones that was reserved, and is no chain.
    fn owns_zones(&self, owner: u64) -> Result<(), Impossible> {
        let (next, what) = (self.next.chain, "owner of a PM table's zones");
        must(owner < next, what, format_args!("below {next}"), owner)?;
        let is_chain = self.chains.has(owner);
        must(!is_chain, what, "one that is no chain", owner)
    }
}

#[cfg(test)]
mod tests;
