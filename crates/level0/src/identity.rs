//! Whose table it is.

use crate::format::header::Owner;
use crate::format::piece_seed;

/// The database and number of a PM table: what seeds its checksums, together with the generations of its
/// zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableIdentity {
    /// The database.
    pub db_id: [u8; 16],
    /// The table: the owner of its zones. An id of the same sequence as the ids of chains, which own
    /// zones too; never given out twice.
    pub table: u64,
}

impl TableIdentity {
    /// Table number `table` of the database `db_id`.
    pub fn new(db_id: [u8; 16], table: u64) -> TableIdentity {
        TableIdentity { db_id, table }
    }

    pub(crate) fn owner(&self, zone_generation: u64) -> Owner {
        Owner {
            db_id: self.db_id,
            table: self.table,
            zone_generation,
        }
    }

    pub(crate) fn seed(&self, zone_generation: u64) -> u64 {
        piece_seed(&self.db_id, self.table, zone_generation)
    }
}
