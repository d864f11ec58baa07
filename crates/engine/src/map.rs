//! Where a store's data lies: its partitions, and every table, by family.

use std::collections::BTreeSet;

use thermocline_base::CfId;
use thermocline_policy::level0::PartitionRate;
use thermocline_version::{Level, TableRef, Version};

use crate::store::Reporter;

/// Where the data of a column family lies.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyMap {
    /// The family.
    pub family: CfId,
    /// Its name; `None` of the one that keeps the metadata of batches.
    pub name: Option<String>,
    /// The first key of each partition, ascending bytewise; the first one is empty.
    pub partitions: Vec<Vec<u8>>,
    /// How often partitions are read and written, lately; those of which nothing is known are left out.
    pub rates: Vec<PartitionRate>,
    /// Its tables, the newest data first: from level 0, in which they are ordered by age, to the last level, in which
    /// they are ordered by keys.
    pub tables: Vec<TableState>,
}

/// A table, or the part of one that is limited to a range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableState {
    /// The number of its file, or of the table in persistent memory.
    pub number: u64,
    /// Its level.
    pub level: u8,
    /// Whether it lies in persistent memory.
    pub in_pm: bool,
    /// No key is smaller.
    pub first: Vec<u8>,
    /// No key is greater.
    pub last: Vec<u8>,
    /// Whether `last` itself is not in it: where keys are limited, and where deletes of ranges end.
    pub ends_before_last: bool,
    /// Whether it is only a part of a table.
    pub is_part: bool,
    /// Bytes; estimated for a part.
    pub bytes: u64,
    /// Entries: values, deletes and range deletes, older versions included; estimated for a part.
    pub entries: u64,
    /// Of those, deletes.
    pub deletes: u64,
    /// The seqnos of the oldest and of the newest entry; of the whole table.
    pub seqnos: (u64, u64),
}

impl TableState {
    fn of(version: &Version, level: Level, table: &TableRef) -> TableState {
        TableState {
            number: table.file.0,
            level: level.0,
            in_pm: version.pm_table(table.file).is_some(),
            first: table.range.first.to_vec(),
            last: table.range.last.to_vec(),
            ends_before_last: table.range.open,
            is_part: table.is_part(),
            bytes: table.bytes,
            entries: table.entries,
            deletes: table.deletes,
            seqnos: (table.smallest_seqno.0, table.largest_seqno.0),
        }
    }
}

impl Reporter {
    fn map_of(&self, family: CfId, version: &Version) -> FamilyMap {
        let tables = version.tables_of(family);
        let partitions = version.partitions(family).iter();
        let exists = |cf, partition| self.common.has_partition(cf, partition);
        FamilyMap {
            family,
            name: self.common.families.name_of(family),
            partitions: partitions
                .map(|partition| partition.start.to_vec())
                .collect(),
            rates: self.common.rates.per_second(
                self.common.now_ns(),
                &exists,
                version.partitions(family),
                family,
            ),
            tables: tables
                .map(|(place, table)| TableState::of(version, place.level, table))
                .collect(),
        }
    }

    /// As [`Engine::map`](crate::Engine::map).
    pub fn map(&self) -> Vec<FamilyMap> {
        let version = self.common.catalog.version();
        let divided = version.divided().map(|(cf, _)| cf);
        let families: BTreeSet<CfId> = version.families().chain(divided).collect();
        let map = |cf| self.map_of(cf, &version);
        families.into_iter().map(map).collect()
    }
}
