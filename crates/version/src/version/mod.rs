//! Which tables and blob files exist at one moment: immutable, cheap to share, cheap to look up in.
//!
//! # Vocabulary
//! - A **version** holds the [table references](TableRef) of all column families, by family and level,
//!   how each family is [divided](Partitions), and the blob files. Whoever reads or compacts holds
//!   one and is not disturbed by edits.
//! - A version **names** a file if one of its references is to that table, or if it is one of its
//!   blob files.
//!
//! # Invariants
//! [`State::apply`](crate::State::apply) keeps them or refuses the edit: whatever the edits are, a
//! version that exists has them all.
//!
//! 1. **Ranges.** No reference has an empty key range, and none has a seqno of 2^63 or more.
//! 2. **Level 0** is ordered newest first, and where two references overlap in keys, one is newer
//!    in all its entries. So the first one that has an entry of a key has the newest.
//! 3. **Levels from 1** are in key order, and no two references of a level overlap: at most one may
//!    have a given key.
//! 4. **One file, one table.** A file is either one table, of one family, or one blob file. Several
//!    references to a table are to parts that do not overlap, wherever they stand, and agree about
//!    the file.
//! 5. **Blob files.** Each blob file that a table refers to is named. What references refer to in a
//!    blob file is counted there, and never more than the file has. An edit removes it, when no
//!    reference refers to it (bytes may be estimates that are too small), never the count alone:
//!    records in persistent memory may refer to it too, of which a version knows nothing.
//! 6. **Sums.** Counts and bytes of a level are those of its references.
//! 7. **Shared.** An edit copies what it changes: of the levels that it touches one chunk for each
//!    reference and the lists of chunks, and as much of the lists of families, of those that are divided, of
//!    files and of tables in persistent memory. Everything else is the same memory before and after. So what
//!    differs is found without a look at the rest ([`Version::tables_since`]).
//! 8. **Tables in persistent memory** are no files. An edit names each before references to it can stand,
//!    in level 0 only, and removes it, when there are none: whoever reads an older version may read it
//!    until then. References to different families of one are as if they were to different tables.
//!
//! The law of age between levels needs an edit, not a version: [`crate::age`].
//!
//! # Families that are dropped
//! Dropping a family drops its references without a word about each: the edit stays small however
//! large the family is, and nobody can forget one. What they referred to in blob files is no longer
//! counted; the files themselves stay until an edit removes them, since they may hold other
//! families' values.
//!
//! # Rejected
//! - *One list of references per level*, copied by every edit: 80 KB for a level of 10,000 tables,
//!   and every flush would pay it.
//! - *Range-limited references with the table's own range beside the limits*: four keys of up to 64
//!   KiB do not fit in a manifest's record. What is within the limits is all that anybody asks; the
//!   rest is in the table itself.

mod apply;
mod level;
mod named;
mod pm;

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::chunked::{Chunked, Position};
use thermocline_base::{CfId, FileId};

use crate::edit::Change;
use crate::partitions::Partitions;
use crate::table::{Level, Place, TableRef};

pub use level::LevelTables;
pub use named::{BlobFile, FileKind, PmTotals, TableDifference};
use named::{FileEntry, Named, PmTables};

/// The levels of one family.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FamilyTables {
    /// By number, up to the deepest one that has tables.
    levels: Vec<Arc<LevelTables>>,
}

impl FamilyTables {
    /// The levels from 0 to the deepest one that has tables; those between may have none.
    pub fn levels(&self) -> impl DoubleEndedIterator<Item = (Level, &Arc<LevelTables>)> {
        (0..=Level::MAX.0).map(Level).zip(&self.levels)
    }

    /// A level; `None` if neither it nor a deeper one has tables.
    pub fn level(&self, level: Level) -> Option<&Arc<LevelTables>> {
        self.levels.get(usize::from(level.0))
    }
}

/// Parts of one table that stand beside each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// Where they stand.
    pub place: Place,
    /// They, in the order of keys: at least two.
    pub parts: Vec<Arc<TableRef>>,
    /// All of them as one.
    pub whole: TableRef,
}

impl Joined {
    /// The changes by which they become one.
    pub fn changes(self) -> impl Iterator<Item = Change> {
        let Joined {
            place,
            parts,
            whole,
        } = self;
        let removed = parts.into_iter();
        let removed = removed.map(move |part| Change::table_removed(place, &part));
        let table = Arc::new(whole);
        removed.chain([Change::TableAdded { place, table }])
    }
}

/// See the [module](self).
///
/// ```
/// use thermocline_base::CfId;
/// use thermocline_version::{Level, State, Place};
/// let state = State::default();
/// assert!(state.version().level(Place::new(CfId(0), Level(1))).is_none());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Version {
    /// Of the families that have tables, by id.
    families: Chunked<(CfId, Arc<FamilyTables>)>,
    /// Of the families that have more than one, by id.
    partitions: Chunked<(CfId, Partitions)>,
    /// By id.
    files: Chunked<FileEntry>,
    /// The tables in persistent memory.
    pm: PmTables,
    /// Where an evacuation has come to, if one has begun: [`Version::front`].
    front: Option<(CfId, Arc<[u8]>)>,
}

impl Version {
    /// The families that have tables, ascending.
    pub fn families(&self) -> impl DoubleEndedIterator<Item = CfId> {
        self.families.iter().map(|(cf, _)| *cf)
    }

    /// The levels of a family, if it has tables.
    pub fn family(&self, cf: CfId) -> Option<&Arc<FamilyTables>> {
        self.families.find(&cf)
    }

    /// A level of a family; `None` if neither it nor a deeper one has tables.
    pub fn level(&self, place: Place) -> Option<&Arc<LevelTables>> {
        self.family(place.cf)?.level(place.level)
    }

    /// The key of a family at which an evacuation stands (`Change::Evacuated`): what memtables have before it
    /// is in tables, and what they have behind it is not yet. So a table of level 0 that has data from both
    /// sides would be neither newer nor older than what comes behind it.
    pub fn front(&self, cf: CfId) -> Option<&[u8]> {
        let (of, key) = self.front.as_ref()?;
        (*of == cf && !key.is_empty()).then_some(key)
    }

    pub(crate) fn has_front(&self) -> bool {
        self.front.is_some()
    }

    pub(crate) fn set_front(&mut self, front: Option<(CfId, Arc<[u8]>)>) {
        self.front = front;
    }

    /// How the keys of a family are divided.
    pub fn partitions(&self, cf: CfId) -> &Partitions {
        static WHOLE: std::sync::LazyLock<Partitions> =
            std::sync::LazyLock::new(Partitions::default);
        self.partitions.find(&cf).unwrap_or(&WHOLE)
    }

    /// The families that have more than one partition, ascending.
    pub fn divided(&self) -> impl Iterator<Item = (CfId, &Partitions)> {
        let all = self.partitions.iter();
        all.map(|(cf, partitions)| (*cf, partitions))
    }

    /// The references of a family that reach over `key`: that may have keys below it, and it or keys behind
    /// it.
    pub fn reaching_over<'a>(
        &'a self,
        cf: CfId,
        key: &'a [u8],
    ) -> impl Iterator<Item = (Place, &'a Arc<TableRef>)> {
        self.levels_of(cf).flat_map(move |(level, tables)| {
            let place = Place::new(cf, level);
            let over = tables.may_have(key);
            let over = over.filter(move |table| *table.range.first < *key);
            over.map(move |table| (place, table))
        })
    }

    /// The changes by which references of a family that reach over `key` become two parts each, limited
    /// there. `share` says how much of one lies below, as a part of something; what it says nothing of stays
    /// whole.
    pub fn cut_at(
        &self,
        cf: CfId,
        key: &[u8],
        mut share: impl FnMut(Place, &TableRef) -> Option<(u64, u64)>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for (place, table) in self.reaching_over(cf, key) {
            let parts = share(place, table).and_then(|share| table.cut_at(key, share));
            if let Some(parts) = parts {
                changes.push(Change::table_removed(place, table));
                changes.extend(parts.map(|part| Change::TableAdded {
                    place,
                    table: Arc::new(part),
                }));
            }
        }
        changes
    }

    /// Parts of one table that meet at one of `keys`, which ascend, and stand in the same level of a family: where
    /// that is, the parts, in the order of keys, and what they are together. `may` says whether
    /// they may become that; where they may not, it is asked for those before and behind.
    pub fn joined_at(
        &self,
        cf: CfId,
        keys: &[Vec<u8>],
        mut may: impl FnMut(Place, &TableRef) -> bool,
    ) -> Vec<Joined> {
        let levels = self.family(cf).into_iter().flat_map(|f| f.levels());
        let mut all: Vec<Joined> = Vec::new();
        for (level, tables) in levels {
            let place = Place::new(cf, level);
            // Of each file that which goes on, if its next part is joined, too.
            let mut open: BTreeMap<FileId, Joined> = BTreeMap::new();
            for key in keys {
                for right in tables.may_have(key).filter(|t| *t.range.first == *key) {
                    let going = open.remove(&right.file);
                    let goes_on = |going: &Joined| going.whole.joined(right).is_some();
                    let going = match going {
                        Some(going) if goes_on(&going) => Some(going),
                        ended => {
                            all.extend(ended);
                            self.part_before(place, right)
                        }
                    };
                    let Some(mut joined) = going else {
                        continue;
                    };
                    let both = joined.whole.joined(right);
                    match both.filter(|both| may(place, both)) {
                        Some(both) => {
                            joined.parts.push(Arc::clone(right));
                            joined.whole = both;
                            open.insert(right.file, joined);
                        }
                        None if joined.parts.len() > 1 => all.push(joined),
                        None => {}
                    }
                }
            }
            all.extend(open.into_values());
        }
        all
    }

    /// The part of the same table that ends where `right` begins.
    fn part_before(&self, place: Place, right: &TableRef) -> Option<Joined> {
        let beside = self.references(right.file).iter();
        let mut beside = beside.filter(|(at, left)| *at == place && left.joined(right).is_some());
        beside.next().map(|(_, left)| Joined {
            place,
            parts: vec![Arc::clone(left)],
            whole: TableRef::clone(left),
        })
    }

    /// Every table reference: by family and level, and there in the level's order.
    pub fn tables(&self) -> impl DoubleEndedIterator<Item = (Place, &Arc<TableRef>)> {
        self.families().flat_map(|cf| self.tables_of(cf))
    }

    /// Every table reference of a family.
    pub fn tables_of(&self, cf: CfId) -> impl DoubleEndedIterator<Item = (Place, &Arc<TableRef>)> {
        self.levels_of(cf).flat_map(move |(level, tables)| {
            let place = Place::new(cf, level);
            tables.iter().map(move |table| (place, table))
        })
    }

    /// Whether some table has deletes or range tombstones.
    pub fn has_deletes(&self) -> bool {
        let levels = self.families().flat_map(|cf| self.levels_of(cf));
        levels.into_iter().any(|(_, tables)| tables.deletes() > 0)
    }

    fn levels_of(&self, cf: CfId) -> impl DoubleEndedIterator<Item = (Level, &Arc<LevelTables>)> {
        let family = self.family(cf).into_iter();
        family.flat_map(|family| family.levels())
    }

    /// Every table reference, of each family the older before the newer.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = (Place, &Arc<TableRef>)> {
        self.families.iter().flat_map(|(cf, family)| {
            family.levels().rev().flat_map(move |(level, tables)| {
                let place = Place::new(*cf, level);
                // In key order, which fills chunks, where there is no age.
                let aged = (level == Level::ZERO).then(|| tables.iter().rev());
                let ordered = (level > Level::ZERO).then(|| tables.iter());
                let all = aged
                    .into_iter()
                    .flatten()
                    .chain(ordered.into_iter().flatten());
                all.map(move |table| (place, table))
            })
        })
    }

    /// Every file that is named, by id.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = (FileId, FileKind)> {
        self.files.iter().map(|file| (file.id, file.kind()))
    }

    /// The number of files that are named.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// What the file is, if it is named.
    pub fn file(&self, file: FileId) -> Option<FileKind> {
        self.entry(file).map(FileEntry::kind)
    }

    /// Bytes of a file, as the manifest has them; 0 if it is not named.
    pub fn file_bytes(&self, file: FileId) -> u64 {
        match self.entry(file).map(|entry| &entry.named) {
            Some(Named::Table(table)) => table.bytes,
            Some(Named::Blob(blob)) => blob.bytes,
            None => 0,
        }
    }

    /// The references to a table, in a file or in persistent memory, and where they stand.
    pub fn references(&self, file: FileId) -> &[(Place, Arc<TableRef>)] {
        match self.entry(file).map(|entry| &entry.named) {
            Some(Named::Table(table)) => &table.references,
            _ => self.pm.get(file).map_or(&[], |entry| &entry.references),
        }
    }

    /// Whether it names a file, or a table in persistent memory.
    pub(crate) fn names_anything(&self) -> bool {
        self.file_count() > 0 || !self.pm.is_empty()
    }

    /// A blob file.
    pub fn blob_file(&self, file: FileId) -> Option<BlobFile> {
        match self.entry(file)?.named {
            Named::Blob(blob) => Some(blob),
            Named::Table(_) => None,
        }
    }

    /// Every blob file, by id.
    pub fn blob_files(&self) -> impl DoubleEndedIterator<Item = (FileId, BlobFile)> {
        self.files.iter().filter_map(|file| match file.named {
            Named::Blob(blob) => Some((file.id, blob)),
            Named::Table(_) => None,
        })
    }

    /// The tables in files to which this version does not refer as `before` does, by number: such that came or
    /// went, and such that were moved or cut. The cost is that of what differs, and a step for each chunk of the
    /// list of files.
    pub fn tables_since<'a>(
        &'a self,
        before: &'a Version,
    ) -> impl Iterator<Item = TableDifference<'a>> {
        let key_of = |entry: &FileEntry| entry.id;
        let all = self
            .files
            .differences(&before.files, key_of, |old, new| old == new);
        all.filter_map(|one| {
            let file = one.after.or(one.before)?.id;
            let [before, after] = [one.before, one.after].map(references_to);
            TableDifference::new(file, before, after)
        })
    }

    /// The families whose tables are not the same memory as those of `before`, by id: if nothing of a family has
    /// changed, it is not among them. The cost is as that of [`Version::tables_since`].
    pub fn families_since<'a>(&'a self, before: &'a Version) -> impl Iterator<Item = CfId> {
        type Entry = (CfId, Arc<FamilyTables>);
        let key_of = |(cf, _): &Entry| *cf;
        let is_same = |old: &Entry, new: &Entry| Arc::ptr_eq(&old.1, &new.1);
        let all = self.families.differences(&before.families, key_of, is_same);
        all.filter_map(|one| Some(one.after.or(one.before)?.0))
    }

    fn position(&self, file: FileId) -> Position {
        self.files.position(|entry| entry.id < file)
    }

    fn entry(&self, file: FileId) -> Option<&FileEntry> {
        let entry = self.files.get(self.position(file))?;
        (entry.id == file).then_some(entry)
    }
}

/// The references to a table in a file.
fn references_to(entry: Option<&FileEntry>) -> &[(Place, Arc<TableRef>)] {
    match entry.map(|entry| &entry.named) {
        Some(Named::Table(table)) => &table.references,
        _ => &[],
    }
}

impl FileEntry {
    fn kind(&self) -> FileKind {
        match self.named {
            Named::Table(_) => FileKind::Table,
            Named::Blob(_) => FileKind::Blob,
        }
    }
}

#[cfg(test)]
mod tests;
