//! The sum of all edits.

mod chains;
mod copy;
mod evacuation;
mod order;
mod rates;
mod snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::{CfId, Error, FileId, Result, limits};

use crate::age;

use crate::edit::{Change, NextIds, StoredRate, VersionEdit};
use crate::origin::Origins;
use crate::table::Place;
use crate::version::Version;
pub use evacuation::Evacuation;
use order::Order;

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
    families: BTreeMap<u16, String>,
    family_ids: BTreeMap<String, u16>,
    /// Of the families that have other options than by default.
    family_options: BTreeMap<u16, Vec<(String, String)>>,
    generations: BTreeMap<u64, Generation>,
    /// All chains, by their seqnos.
    order: Order,
    next: NextIds,
    /// Bounds of file ids, ascending, and the database that wrote the files below each.
    inherited: Vec<(u64, [u8; 16])>,
    /// Generations with bases up to here were flushed; 0 if that was never said.
    flushed_up_to: u64,
    /// How far the next ones are evacuated, if that has begun.
    evacuation: Option<Evacuation>,
    /// Whether records may refer to blob files.
    long_values: bool,
    /// See [`State::rates`].
    rates: Arc<[StoredRate]>,
    version: Arc<Version>,
}

/// A memtable generation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Generation {
    /// Its chains, oldest first.
    pub chains: Vec<Chain>,
}

/// A chain of zones. See [`Change::ChainOpened`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    /// Its id.
    pub id: u64,
    /// Who writes it.
    pub incarnation: u32,
    /// The random value of that incarnation.
    pub nonce: u64,
    /// The seqno of its first record; 0: the one after the previous chain's last.
    pub base_seqno: u64,
    /// Where it begins; `None`: at its own first zone.
    pub start: Option<u64>,
    /// Where recovery found its end, if it was cut.
    pub cut: Option<Cut>,
    /// Whether it was written before it was named: its records are numbered from 1, which stands
    /// for `base_seqno`. See [`Change::ChainAdopted`].
    pub staged: bool,
}

impl Generation {
    /// Whether it is a chain that was written before it was named: complete from the beginning.
    pub fn is_staged(&self) -> bool {
        self.chains.first().is_some_and(|chain| chain.staged)
    }
}

/// The end of a chain. See [`Change::ChainCut`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The seqno of the last record.
    pub last_seqno: u64,
    /// The region's offset behind the last item.
    pub end: u64,
}

/// Why a change cannot be.
#[derive(Debug)]
pub(crate) struct Impossible {
    pub(crate) what: &'static str,
    pub(crate) expected: String,
    pub(crate) got: String,
}

/// No database lives to see half of all seqnos: larger ones are damage, and adding to them would
/// overflow.
pub(crate) fn possible_seqno(seqno: u64, what: &'static str) -> Result<(), Impossible> {
    must(seqno < 1 << 63, what, "below 2^63", seqno)
}

pub(crate) fn must(
    holds: bool,
    what: &'static str,
    expected: impl ToString,
    got: impl ToString,
) -> Result<(), Impossible> {
    if holds {
        return Ok(());
    }
    Err(Impossible {
        what,
        expected: expected.to_string(),
        got: got.to_string(),
    })
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

    /// All generations with bases at or below this seqno have been flushed. (So have those with bases at
    /// or below the largest seqno in a table.)
    pub fn flushed_up_to(&self) -> u64 {
        self.flushed_up_to
    }

    /// How far generations are evacuated that have not been flushed as a whole, if some are.
    pub fn evacuation(&self) -> Option<&Evacuation> {
        self.evacuation.as_ref()
    }

    /// Whether records in persistent memory, or in logs, may refer to blob files: [`Change::LongValues`].
    pub fn has_long_values(&self) -> bool {
        self.long_values
    }

    /// The effective options that were stored last.
    pub fn options(&self) -> &[(String, String)] {
        &self.options
    }

    /// The column families that exist, by id.
    pub fn families(&self) -> &BTreeMap<u16, String> {
        &self.families
    }

    /// The id of the family of this name.
    pub fn family_id(&self, name: &str) -> Option<u16> {
        self.family_ids.get(name).copied()
    }

    /// The options of family `id` that are not as by default.
    pub fn family_options(&self, id: u16) -> &[(String, String)] {
        self.family_options.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The memtable generations that exist, by id, which is oldest first.
    pub fn generations(&self) -> &BTreeMap<u64, Generation> {
        &self.generations
    }

    /// All chains, oldest first, each with its generation.
    pub fn chains(&self) -> impl Iterator<Item = (u64, &Chain)> {
        self.order.iter().map(|(_, link)| {
            let chains = &self.generations[&link.generation].chains;
            (link.generation, &chains[link.index])
        })
    }

    /// The smallest ids that were never used.
    pub fn next_ids(&self) -> NextIds {
        self.next
    }

    /// Whether it is more than the state of a database that was just created.
    pub(crate) fn holds_data(&self) -> bool {
        !self.order.is_empty() || self.families.len() > 1 || self.version.names_anything()
    }

    /// The tables and blob files that exist.
    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// Applies an edit, all of it or, if a part of it cannot be, nothing.
    ///
    /// # Errors
    /// [`Error::Corruption`] saying what cannot be: an id twice, a generation that does not exist,
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
        if !matches!(change, Change::Created { .. }) {
            must(
                self.identity.is_some(),
                "first change",
                "Created",
                "another",
            )?;
        }
        match change {
            Change::Created { db_id, region_id } => {
                must(self.identity.is_none(), "creation", "one", "a second one")?;
                self.identity = Some((*db_id, *region_id));
            }
            Change::Options(options) => self.options.clone_from(options),
            Change::ColumnFamilyCreated { id, name } => self.create_family(*id, name)?,
            Change::ColumnFamilyDropped { id } => {
                must(*id != 0, "dropped column family", "not the default one", id)?;
                let name = self.families.remove(id);
                let what = "dropped column family";
                must(name.is_some(), what, "one that exists", id)?;
                self.family_ids.retain(|_, other| other != id);
                self.family_options.remove(id);
                let id = CfId(*id);
                self.forget_rates(|rate| rate.cf == id);
                if self.version.family(id).is_some() || self.version.partitions(id).len() > 1 {
                    self.version_mut().drop_family(id);
                }
            }
            Change::ColumnFamilyOptions { id, options } => {
                let what = "column family with options";
                must(self.families.contains_key(id), what, "one that exists", id)?;
                if options.is_empty() {
                    self.family_options.remove(id);
                } else {
                    self.family_options.insert(*id, options.clone());
                }
            }
            Change::GenerationCreated { id } => {
                let next = self.next.generation;
                must(*id >= next, "generation id", at_least(next), id)?;
                self.next.generation = next_of(*id, "generation id")?;
                self.generations.insert(*id, Generation::default());
            }
            Change::GenerationDropped { id } => self.drop_generation(*id)?,
            Change::ChainOpened {
                chain,
                generation,
                incarnation,
                nonce,
                base_seqno,
                start,
            } => {
                let opened = Chain {
                    id: *chain,
                    incarnation: *incarnation,
                    nonce: *nonce,
                    base_seqno: *base_seqno,
                    start: *start,
                    cut: None,
                    staged: false,
                };
                self.open_chain(*generation, opened)?;
            }
            Change::ChainAdopted {
                chain,
                generation,
                incarnation,
                nonce,
                base_seqno,
                last_seqno,
                end,
            } => {
                let adopted = Chain {
                    id: *chain,
                    incarnation: *incarnation,
                    nonce: *nonce,
                    base_seqno: *base_seqno,
                    start: None,
                    cut: Some(Cut {
                        last_seqno: *last_seqno,
                        end: *end,
                    }),
                    staged: true,
                };
                self.adopt_chain(*generation, adopted)?;
            }
            Change::ChainCut {
                chain,
                last_seqno,
                end,
            } => self.cut_chain(*chain, *last_seqno, *end)?,
            Change::NextIds(next) => self.raise(*next)?,
            Change::TableAdded { place, table } => {
                let Place { cf, .. } = *place;
                // The engine's own family has no name.
                let exists = cf == CfId::METADATA || self.families.contains_key(&cf.0);
                must(exists, "family of a table", "one that exists", cf.0)?;
                self.reserved(table.file)?;
                self.version_mut().add_table(*place, table)?;
            }
            Change::TableRemoved {
                place,
                file,
                smallest,
            } => self.version_mut().remove_table(*place, *file, smallest)?,
            Change::BlobFileAdded { file, bytes } => {
                self.reserved(*file)?;
                self.version_mut().add_blob_file(*file, *bytes)?;
            }
            Change::LongValues => self.long_values = true,
            Change::PartitionRates(rates) => self.set_rates(rates),
            Change::FlushedUpTo { seqno } => {
                let what = "seqno up to which is flushed";
                possible_seqno(*seqno, what)?;
                let before = self.flushed_up_to;
                must(*seqno >= before, what, at_least(before), seqno)?;
                self.end_evacuation(*seqno)?;
                self.flushed_up_to = *seqno;
            }
            Change::Evacuated {
                above,
                up_to,
                cf,
                key,
            } => self.evacuate(Evacuation {
                above: *above,
                up_to: *up_to,
                cf: *cf,
                key: key.clone(),
            })?,
            Change::FilesInherited { below, db_id } => self.inherit(*below, *db_id)?,
            Change::PartitionCreated {
                cf,
                partition,
                start,
            } => {
                self.check_partitioned(*cf)?;
                self.version_mut()
                    .create_partition(*cf, *partition, start)?;
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
            }
            Change::BlobFileRemoved { file } => self.version_mut().remove_blob_file(*file)?,
            Change::PmTableAdded { table } => {
                self.reserved(table.file)?;
                self.owns_zones(table.meta.owner)?;
                self.version_mut().add_pm_table(table)?;
            }
            Change::PmTableRemoved { file } => self.version_mut().remove_pm_table(*file)?,
        }
        Ok(())
    }

    fn check_partitioned(&self, cf: CfId) -> Result<(), Impossible> {
        let exists = self.families.contains_key(&cf.0);
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
        let is_chain = self.order.get(owner).is_some();
        must(!is_chain, what, "one that is no chain", owner)
    }

    fn create_family(&mut self, id: u16, name: &str) -> Result<(), Impossible> {
        let next = self.next.cf;
        must(
            u32::from(id) >= next,
            "column family id",
            at_least(next),
            id,
        )?;
        // The ids behind are the engine's own.
        let most = limits::COLUMN_FAMILIES_MAX - 1;
        let within = usize::from(id) <= most;
        must(within, "column family id", format!("at most {most}"), id)?;
        let len = name.len();
        let most = limits::CF_NAME_LEN_MAX;
        must(len <= most, "length of a column family's name", most, len)?;
        let twice = self.family_ids.contains_key(name);
        must(!twice, "column family's name", "one that is free", name)?;
        self.next.cf = u32::from(id) + 1;
        self.families.insert(id, name.to_string());
        self.family_ids.insert(name.to_string(), id);
        Ok(())
    }

    fn raise(&mut self, to: NextIds) -> Result<(), Impossible> {
        let from = self.next;
        let most = 1 << 16;
        must(
            to.chain >= from.chain,
            "next chain id",
            at_least(from.chain),
            to.chain,
        )?;
        must(
            to.generation >= from.generation,
            "next generation id",
            at_least(from.generation),
            to.generation,
        )?;
        let what = "next column family id";
        must(to.cf >= from.cf, what, at_least(from.cf), to.cf)?;
        must(to.cf <= most, what, format!("at most {most}"), to.cf)?;
        must(
            to.incarnation >= from.incarnation,
            "next incarnation",
            at_least(from.incarnation),
            to.incarnation,
        )?;
        let (next, file) = (from.file, to.file);
        must(file >= next, "next file id", at_least(next), file)?;
        self.next = to;
        Ok(())
    }
}

fn at_least(n: impl std::fmt::Display) -> String {
    format!("at least {n}")
}

/// The number after `id`, which must exist: the largest number of all is never given out.
fn next_of(id: u64, what: &'static str) -> Result<u64, Impossible> {
    match id.checked_add(1) {
        Some(next) => Ok(next),
        None => must(false, what, "below 2^64 - 1", id).map(|()| id),
    }
}

#[cfg(test)]
mod tests;
