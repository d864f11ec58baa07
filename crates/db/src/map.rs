//! Where the data of a database lies.

use thermocline_engine::{PartitionRate, TableState};

/// Where the data of a column family lies: an entry of [`Db::map`](crate::Db::map).
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyMap {
    /// The number of the family, which tells it from a dropped family of the same name.
    pub family: u16,
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

impl FamilyMap {
    pub(crate) fn of(map: thermocline_engine::FamilyMap) -> FamilyMap {
        FamilyMap {
            family: map.family.0,
            name: map.name,
            partitions: map.partitions,
            rates: map.rates,
            tables: map.tables,
        }
    }
}
