//! What a check of data at rest finds.

use crate::error::{Error, Result};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file or region.
    pub place: String,
    /// The offset in it.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Everything that is wrong; of a file with very many faults the first ones.
    pub faults: Vec<Fault>,
    /// How many more there are.
    pub more_faults: u64,
    /// Records, entries of tables and values in blob files whose checksums were checked.
    pub records: u64,
    /// Bytes of items, of the manifest, and of tables and blob files that were checked.
    pub bytes: u64,
}

impl Report {
    /// Notes a corruption as a fault.
    ///
    /// # Errors
    /// Any other error: it is the caller's.
    pub fn note(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Corruption {
                what,
                place,
                offset,
                expected,
                got,
            } => {
                let what = format!("{what} (expected {expected}, got {got})");
                self.faults.push(Fault {
                    place,
                    offset,
                    what,
                });
                Ok(())
            }
            other => Err(other),
        }
    }
}
