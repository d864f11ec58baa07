//! A model of tables and blob files that is written differently: one list, and ranges as sets of
//! points. Keys are single letters; between two of them lies one point that stands for all keys
//! there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use proptest::prelude::*;
use thermocline_base::{CfId, FileId, KeyRange, SeqNo};
use thermocline_version::{
    BlobBytes, Change, FileKind, Level, PartitionId, Place, PmTableInfo, PmTotals, TableDifference,
    TableRef, Version, VersionEdit,
};

use crate::pm_tables;

pub type Placed = (Place, Arc<TableRef>);

#[derive(Clone, Default, Debug)]
pub struct ModelTables {
    pub references: Vec<Placed>,
    pub blobs: Vec<(FileId, u64)>,
    /// Bytes of values in blob files, where they are known.
    pub values: Vec<(FileId, u64)>,
    /// Tables in persistent memory.
    pub pm: Vec<Arc<PmTableInfo>>,
}

/// A table, and the references to it in an earlier version and in a later one.
type Moved = (FileId, Vec<Placed>, Vec<Placed>);

fn differences<'a>(all: impl Iterator<Item = TableDifference<'a>>) -> Vec<Moved> {
    let all = all.map(|one| (one.file, one.before.to_vec(), one.after.to_vec()));
    all.collect()
}

/// Whether a version says how it differs from an earlier one.
pub fn check_since(before: &Version, after: &Version) -> Result<(), TestCaseError> {
    let tables = before.tables().chain(after.tables());
    let files: BTreeSet<FileId> = tables.map(|(_, table)| table.file).collect();
    let expected = |of: fn(&Version, FileId) -> Vec<Placed>| -> Vec<Moved> {
        let both = files.iter();
        let both = both.map(|file| (*file, of(before, *file), of(after, *file)));
        both.filter(|(_, old, new)| old != new).collect()
    };
    let in_file = |version: &Version, file: FileId| match version.file(file) {
        Some(FileKind::Table) => version.references(file).to_vec(),
        _ => Vec::new(),
    };
    prop_assert_eq!(differences(after.tables_since(before)), expected(in_file));
    let in_pm = |version: &Version, file: FileId| match version.pm_table(file) {
        Some(_) => version.references(file).to_vec(),
        None => Vec::new(),
    };
    prop_assert_eq!(differences(after.pm_tables_since(before)), expected(in_pm));
    let families: BTreeSet<CfId> = before.families().chain(after.families()).collect();
    let changed = families.into_iter().filter(|cf| {
        let both = before.family(*cf).zip(after.family(*cf));
        both.is_none_or(|(old, new)| !Arc::ptr_eq(old, new))
    });
    prop_assert!(after.families_since(before).eq(changed));
    Ok(())
}

const LETTERS: std::ops::RangeInclusive<u8> = b'a'..=b'h';

fn point(key: &[u8]) -> u32 {
    2 * u32::from(key[0])
}

/// The points from `from` to `to`.
fn points(from: Bound<&[u8]>, to: Bound<&[u8]>) -> BTreeSet<u32> {
    let from = match from {
        Bound::Included(key) => point(key),
        Bound::Excluded(key) => point(key) + 1,
        Bound::Unbounded => 0,
    };
    let to = match to {
        Bound::Included(key) => point(key) + 1,
        Bound::Excluded(key) => point(key),
        Bound::Unbounded => 512,
    };
    (from..to).collect()
}

pub fn points_of(range: &KeyRange<impl AsRef<[u8]>>) -> BTreeSet<u32> {
    let range = range.borrowed();
    let to = match range.open {
        true => Bound::Excluded(range.last),
        false => Bound::Included(range.last),
    };
    points(Bound::Included(range.first), to)
}

fn overlap(a: &TableRef, b: &TableRef) -> bool {
    !points_of(&a.range).is_disjoint(&points_of(&b.range))
}

fn is_above(a: &Placed, b: &Placed) -> bool {
    let by_age = a.0.level == Level(0) && b.0.level == Level(0);
    a.0.level < b.0.level || by_age && a.1.smallest_seqno > b.1.largest_seqno
}

/// The points of a removed reference without those at an end of it that the edit adds again, in its
/// place and limited there.
fn moved((place, whole): &Placed, edit: &VersionEdit) -> BTreeSet<u32> {
    let all = points_of(&whole.range);
    let mut moved = all.clone();
    for change in &edit.changes {
        let Change::TableAdded { place: at, table } = change else {
            continue;
        };
        let stays = points_of(&table.range);
        if at != place || table.file != whole.file || !stays.is_subset(&all) {
            continue;
        }
        let is_first = stays.first() == all.first();
        let is_last = stays.last() == all.last();
        let limited = (is_first || table.limited_below) && (is_last || table.limited_above);
        if (is_first || is_last) && limited {
            moved.retain(|point| !stays.contains(point));
        }
    }
    moved
}

impl ModelTables {
    fn referenced(&self, blob: FileId) -> u64 {
        let blobs = self.references.iter().flat_map(|(_, table)| &table.blobs);
        blobs.filter(|b| b.file == blob).map(|b| b.bytes).sum()
    }

    fn references_to(&self, blob: FileId) -> usize {
        let blobs = self.references.iter().flat_map(|(_, table)| &table.blobs);
        blobs.filter(|b| b.file == blob).count()
    }

    /// Whether the change can be; applies it, perhaps in part if it cannot. `families` are those
    /// that exist, `next` is the next file id.
    pub fn apply(&mut self, change: &Change, families: &[u16], next: u64) -> bool {
        match change {
            Change::TableAdded { place, table } => {
                let possible = self.may_add(*place, table, families, next);
                self.references.push((*place, Arc::clone(table)));
                possible
            }
            Change::TableRemoved {
                place,
                file,
                smallest,
            } => {
                let before = self.references.len();
                let is_it = |(at, table): &Placed| {
                    at == place && table.file == *file && table.range.first == *smallest
                };
                self.references.retain(|placed| !is_it(placed));
                self.references.len() < before
            }
            Change::BlobFileAdded { file, bytes } => {
                let free =
                    file.0 < next && self.kind(*file).is_none() && self.in_pm(*file).is_none();
                self.blobs.push((*file, *bytes));
                free
            }
            Change::BlobValues { file, bytes } => {
                let named = self.blobs.iter().find(|(id, _)| id == file);
                let fits = named.is_some_and(|(_, all)| bytes <= all);
                let first = !self.values.iter().any(|(id, _)| id == file);
                let referred = self.referenced(*file);
                self.values.push((*file, *bytes));
                fits && first && referred <= *bytes
            }
            Change::BlobFileRemoved { file } => {
                self.values.retain(|(id, _)| id != file);
                let possible = self.kind(*file) == Some(FileKind::Blob);
                self.blobs.retain(|(id, _)| id != file);
                possible && self.references_to(*file) == 0
            }
            Change::PmTableAdded { table } => {
                let free = table.file.0 < next && self.kind(table.file).is_none();
                let alone = |other: &Arc<PmTableInfo>| {
                    other.file != table.file && other.meta.owner != table.meta.owner
                };
                let possible = free && self.pm.iter().all(alone) && pm_tables::is_sound(table);
                self.pm.push(Arc::clone(table));
                possible
            }
            Change::PmTableRemoved { file } => {
                let before = self.pm.len();
                self.pm.retain(|table| table.file != *file);
                let unread = self.references.iter().all(|(_, t)| t.file != *file);
                self.pm.len() < before && unread
            }
            Change::ColumnFamilyDropped { id } => {
                self.references.retain(|(place, _)| place.cf.0 != *id);
                true
            }
            _ => true,
        }
    }

    pub fn in_pm(&self, file: FileId) -> Option<&Arc<PmTableInfo>> {
        self.pm.iter().find(|table| table.file == file)
    }

    fn kind(&self, file: FileId) -> Option<FileKind> {
        let named = |(_, t): &Placed| t.file == file && self.in_pm(file).is_none();
        let table = self.references.iter().any(named);
        let blob = self.blobs.iter().any(|(id, _)| *id == file);
        table
            .then_some(FileKind::Table)
            .or(blob.then_some(FileKind::Blob))
    }

    fn may_add(&self, place: Place, table: &TableRef, families: &[u16], next: u64) -> bool {
        let in_blobs = |blob: &BlobBytes| {
            let mut known = self.values.iter().chain(&self.blobs);
            let file = known.find(|(id, _)| *id == blob.file);
            file.is_some_and(|(_, bytes)| self.referenced(blob.file) + blob.bytes <= *bytes)
        };
        let blob_ids: BTreeSet<_> = table.blobs.iter().map(|b| b.file).collect();
        let beside = |(at, other): &Placed| {
            let apart = other.largest_seqno < table.smallest_seqno
                || table.largest_seqno < other.smallest_seqno;
            *at != place || !overlap(other, table) || place.level == Level(0) && apart
        };
        let of_file = |(at, other): &Placed| {
            let fields = |t: &TableRef| (t.file_bytes, t.smallest_seqno, t.largest_seqno);
            let same = at.cf == place.cf && fields(other) == fields(table);
            // Families share a table in persistent memory.
            let beside = match self.in_pm(table.file) {
                Some(_) => at.cf != place.cf || !overlap(other, table),
                None => same && !overlap(other, table),
            };
            other.file != table.file || beside
        };
        let of_pm = |info: &Arc<PmTableInfo>| pm_tables::may_refer(info, place, table);
        (place.cf == CfId::METADATA || families.contains(&place.cf.0))
            && place.partition.0 == 0
            && place.level.0 <= 7
            && table.file.0 < next
            && self.kind(table.file) != Some(FileKind::Blob)
            && !points_of(&table.range).is_empty()
            && (table.range.open || !table.limited_above)
            && table.smallest_seqno <= table.largest_seqno
            && table.largest_seqno.0 < 1 << 63
            && table.deletes <= table.entries
            && (table.bytes == table.file_bytes
                || table.is_part() && table.bytes <= table.file_bytes)
            && blob_ids
                .iter()
                .copied()
                .eq(table.blobs.iter().map(|b| b.file))
            && table.blobs.iter().all(in_blobs)
            && self.in_pm(table.file).is_none_or(of_pm)
            && self.references.iter().all(beside)
            && self.references.iter().all(of_file)
    }

    /// Whether the edit that made this of `before` kept the law of age.
    pub fn kept_age(&self, before: &ModelTables, edit: &VersionEdit) -> bool {
        let removes = |placed: &&Placed| {
            let removal = Change::table_removed(placed.0, &placed.1);
            edit.changes.contains(&removal)
        };
        let removed: Vec<_> = before.references.iter().filter(removes).collect();
        let kept = |(place, table): Placed| {
            let of_family = removed.iter().filter(|source| source.0.cf == place.cf);
            let sources = of_family.filter(|source| overlap(&source.1, &table));
            let mut sources: Vec<_> = sources.map(|s| (*s, points_of(&s.1.range))).collect();
            if sources.iter().any(|(s, _)| s.1.file == table.file) {
                sources.retain(|(s, _)| s.1.file == table.file);
            } else {
                sources
                    .iter_mut()
                    .for_each(|(s, points)| *points = moved(s, edit));
                let lies_in =
                    |points: &BTreeSet<u32>| !points.is_disjoint(&points_of(&table.range));
                sources.retain(|(_, points)| lies_in(points));
            }
            let newer = |s: &Placed| s.1.largest_seqno >= table.largest_seqno;
            let outside = !sources.iter().any(|(s, _)| newer(s));
            let added = (place, Arc::clone(&table));
            self.references.iter().all(|other| {
                if (other.0.cf, other.0.partition) != (place.cf, place.partition)
                    || !overlap(&other.1, &table)
                {
                    return true;
                }
                let above = is_above(other, &added);
                let (upper, lower) = match other.0.level < place.level {
                    true => (&other.1, &table),
                    false => (&table, &other.1),
                };
                let ends = |t: &TableRef| {
                    let first = (!t.limited_below).then(|| t.range.first.to_vec());
                    let last = (!t.range.open).then(|| t.range.last.to_vec());
                    first.into_iter().chain(last).collect::<BTreeSet<_>>()
                };
                let common = !ends(upper).is_disjoint(&ends(lower));
                let reversed = upper.largest_seqno <= lower.smallest_seqno && common;
                if other.0.level != place.level && reversed {
                    return false;
                }
                if !before.references.contains(other) {
                    return true;
                }
                let overtaken = |(source, points): &(&Placed, BTreeSet<u32>)| {
                    !points.is_disjoint(&points_of(&other.1.range))
                        && is_above(other, source) != above
                };
                let sinks = outside && above;
                !(sinks || sources.iter().any(overtaken))
            })
        };
        edit.changes.iter().all(|change| match change {
            Change::TableAdded { place, table } => kept((*place, Arc::clone(table))),
            _ => true,
        })
    }

    /// The files that are named.
    pub fn files(&self) -> BTreeSet<(FileId, FileKind)> {
        let in_files = self
            .references
            .iter()
            .filter(|(_, t)| self.in_pm(t.file).is_none());
        let tables = in_files.map(|(_, t)| (t.file, FileKind::Table));
        let blobs = self.blobs.iter().map(|(id, _)| (*id, FileKind::Blob));
        tables.chain(blobs).collect()
    }

    /// Every reference, in the order in which a version has them.
    pub fn in_order(&self) -> Vec<Placed> {
        let mut all = self.references.clone();
        all.sort_by_key(|(place, table)| {
            let key = table.range.first.to_vec();
            let seqnos = (Reverse(table.largest_seqno), Reverse(table.smallest_seqno));
            let age = (place.level == Level(0)).then_some(seqnos);
            (*place, age, key, table.file)
        });
        all
    }

    /// Whether the version holds this, and answers as this does.
    pub fn check(&self, version: &Version) -> Result<(), TestCaseError> {
        let all = self.in_order();
        let got: Vec<_> = version
            .tables()
            .map(|(at, t)| (at, Arc::clone(t)))
            .collect();
        prop_assert_eq!(&got, &all);
        let files: BTreeSet<_> = version.files().collect();
        prop_assert_eq!(files, self.files());
        prop_assert_eq!(version.file_count(), self.files().len());
        for (file, _) in self.files() {
            let references = all.iter().filter(|(_, t)| t.file == file);
            let mut references: Vec<_> = references.cloned().collect();
            references.sort_by_key(|(_, t)| t.range.first.to_vec());
            prop_assert_eq!(version.references(file), &references);
            prop_assert_eq!(version.file(file), self.kind(file));
        }
        let pm: BTreeMap<FileId, &Arc<PmTableInfo>> = self.pm.iter().map(|t| (t.file, t)).collect();
        prop_assert!(
            version
                .pm_tables()
                .map(|(table, _)| table)
                .eq(pm.values().copied())
        );
        for (table, got) in version.pm_tables() {
            let references = all.iter().filter(|(_, t)| t.file == table.file);
            let mut references: Vec<_> = references.cloned().collect();
            references.sort_by_key(|(_, t)| t.range.first.to_vec());
            let same = got.iter().all(|placed| references.contains(placed));
            prop_assert!(same && got.len() == references.len(), "{:?}", got);
            prop_assert!(got.is_sorted_by_key(|(_, t)| &t.range.first));
            prop_assert_eq!(version.file(table.file), None);
        }
        let retired = self.pm.iter().filter(|t| self.is_retired(t.file));
        let retired: Vec<_> = retired.collect();
        let totals = PmTotals {
            tables: self.pm.len() as u64,
            bytes: self.pm.iter().map(|t| t.meta.zone_bytes).sum(),
            retired: retired.len() as u64,
            retired_bytes: retired.iter().map(|t| t.meta.zone_bytes).sum(),
        };
        prop_assert_eq!(version.pm_totals(), totals);
        for (file, bytes) in &self.blobs {
            let blob = version.blob_file(*file).unwrap();
            prop_assert_eq!(blob.bytes, *bytes);
            let values = self.values.iter().find(|(id, _)| id == file);
            prop_assert_eq!(blob.value_bytes, values.map(|(_, bytes)| *bytes));
            prop_assert_eq!(blob.referenced_bytes, self.referenced(*file));
            prop_assert_eq!(blob.references, self.references_to(*file) as u64);
        }
        let places: BTreeSet<Place> = all.iter().map(|(place, _)| *place).collect();
        for place in places {
            self.check_level(version, place)?;
        }
        Ok(())
    }

    fn is_retired(&self, file: FileId) -> bool {
        self.references.iter().all(|(_, table)| table.file != file)
    }

    fn check_level(&self, version: &Version, place: Place) -> Result<(), TestCaseError> {
        let all = self.in_order();
        let here: Vec<_> = all
            .iter()
            .filter(|(at, _)| *at == place)
            .map(|(_, t)| t)
            .collect();
        let level = version.level(place).unwrap();
        prop_assert_eq!(level.len(), here.len());
        prop_assert!(level.iter().eq(here.iter().copied()));
        prop_assert_eq!(level.bytes(), here.iter().map(|t| t.bytes).sum::<u64>());
        prop_assert_eq!(level.entries(), here.iter().map(|t| t.entries).sum::<u64>());
        prop_assert_eq!(level.deletes(), here.iter().map(|t| t.deletes).sum::<u64>());
        let keys: Vec<[u8; 1]> = LETTERS.map(|letter| [letter]).collect();
        for key in &keys {
            let has = |t: &&&Arc<TableRef>| points_of(&t.range).contains(&point(key));
            prop_assert!(level.may_have(key).eq(here.iter().filter(has).copied()));
        }
        let bounds = |key| [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
        for (n, from) in keys.iter().enumerate() {
            for to in &keys[n + 1..] {
                for (from, to) in bounds(&from[..]).into_iter().zip(bounds(&to[..])) {
                    let asked = points(from, to);
                    let hit = |t: &&&Arc<TableRef>| !points_of(&t.range).is_disjoint(&asked);
                    let expected = here.iter().filter(hit).copied();
                    prop_assert!(
                        level.overlapping(from, to).eq(expected),
                        "{:?}{:?}",
                        from,
                        to
                    );
                }
            }
        }
        Ok(())
    }
}

/// Table references over few letters, files and seqnos, so that collisions are common.
fn table() -> impl Strategy<Value = TableRef> {
    let letter = || LETTERS.prop_map(|letter| [letter]);
    let seqno = prop_oneof![30 => 0u64..12, 1 => Just((1 << 63) - 1), 1 => Just(1 << 63)];
    let blobs = prop::collection::vec((0u64..8, 0u64..40), 0..2);
    let flags = (
        any::<bool>(),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.3),
    );
    let sizes = (0u64..10, 0u64..5, prop::bool::weighted(0.03));
    (
        0u64..10,
        letter(),
        letter(),
        flags,
        (seqno, 0u64..6),
        sizes,
        blobs,
    )
        .prop_map(
            |(
                file,
                a,
                b,
                (open, below, above),
                (smallest, seqnos),
                (entries, deletes, odd),
                blobs,
            )| {
                // Files agree about themselves, mostly.
                let file_bytes = 100 + file + u64::from(odd);
                let mut blobs: Vec<_> = blobs
                    .into_iter()
                    .map(|(file, bytes)| BlobBytes {
                        file: FileId(file),
                        bytes,
                    })
                    .collect();
                blobs.sort_by_key(|b| b.file);
                TableRef {
                    file: FileId(file),
                    file_bytes,
                    // The format has no other for a whole table.
                    bytes: if below || above {
                        file_bytes - entries
                    } else {
                        file_bytes
                    },
                    entries: entries + 3,
                    deletes,
                    range: match open || above {
                        true => KeyRange::until(a.min(b), a.max(b)).owned(),
                        false => {
                            KeyRange::inclusive(a.min(b), if odd { a } else { a.max(b) }).owned()
                        }
                    },
                    limited_below: below,
                    limited_above: above,
                    smallest_seqno: SeqNo(smallest),
                    largest_seqno: SeqNo(smallest.saturating_add(seqnos)),
                    blobs,
                }
            },
        )
}

/// Changes of tables and blob files.
pub fn change() -> impl Strategy<Value = Change> {
    let cf = prop_oneof![10 => Just(0), 3 => 1u16..4, 1 => Just(u16::MAX)];
    let partition = prop_oneof![30 => Just(0u32), 1 => Just(1)];
    let level = prop_oneof![30 => 0u8..4, 1 => 7u8..9];
    let place = (cf, partition, level).prop_map(|(cf, partition, level)| Place {
        cf: CfId(cf),
        partition: PartitionId(partition),
        level: Level(level),
    });
    let blob = || 0u64..10;
    prop_oneof![
        10 => (place.clone(), table()).prop_map(|(place, table)| Change::TableAdded {
            place,
            table: Arc::new(table),
        }),
        2 => (place, table()).prop_map(|(place, table)| Change::table_removed(place, &table)),
        2 => (blob(), 0u64..100).prop_map(|(file, bytes)| Change::BlobFileAdded {
            file: FileId(file),
            bytes,
        }),
        2 => (blob(), 0u64..100).prop_map(|(file, bytes)| Change::BlobValues {
            file: FileId(file),
            bytes,
        }),
        1 => blob().prop_map(|file| Change::BlobFileRemoved { file: FileId(file) }),
    ]
}
