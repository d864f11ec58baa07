//! Whose file this is.

use thermocline_base::FileId;
use thermocline_base::numbers::u64_at;

use crate::format::coding::{Unreadable, damaged};

/// The database and number of a file: what seeds its checksums, so that a file in another's place
/// does not verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The database.
    pub db_id: [u8; 16],
    /// The file within it.
    pub file: FileId,
}

impl Identity {
    /// File number `file` of the database `db_id`.
    pub fn new(db_id: [u8; 16], file: FileId) -> Identity {
        Identity { db_id, file }
    }

    fn mixed(&self, factor: u64) -> u64 {
        let (low, high) = (u64_at(&self.db_id, 0), u64_at(&self.db_id, 8));
        low ^ high.rotate_left(32) ^ self.file.0.wrapping_mul(factor)
    }

    /// Seeds the checksums and the filter of a table.
    pub(crate) fn table_seed(&self) -> u64 {
        self.mixed(0x9fb2_1c65_1e98_df25)
    }

    /// Seeds the checksums of a blob file.
    pub(crate) fn blob_seed(&self) -> u64 {
        self.mixed(0xc2b2_ae3d_27d4_eb4f)
    }

    /// Whether `found`, stored at `at` as database id and file id, is this file.
    pub(crate) fn check(&self, found: &Identity, at: usize) -> Result<(), Unreadable> {
        let id = |id: &[u8; 16]| id.iter().map(|b| format!("{b:02x}")).collect::<String>();
        if found.db_id != self.db_id {
            return Err(damaged(
                "database id",
                at,
                id(&self.db_id),
                id(&found.db_id),
            ));
        }
        if found.file != self.file {
            return Err(damaged("file id", at + 16, self.file, found.file));
        }
        Ok(())
    }
}
