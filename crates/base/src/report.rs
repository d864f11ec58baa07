//! The report of a check of data at rest.

use std::path::Path;

use crate::error::{Error, Result};

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file or region.
    pub place: String,
    /// The offset in it, in bytes.
    pub offset: u64,
    /// A description of the fault.
    pub what: String,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The faults; a file with very many has only its first ones here.
    pub faults: Vec<Fault>,
    /// Number of faults that are not among `faults`.
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
    /// Any other error is returned as it is.
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

    /// Takes in what the check of a part has found.
    pub fn add(&mut self, part: Report) {
        self.faults.extend(part.faults);
        self.more_faults += part.more_faults;
        self.records += part.records;
        self.bytes += part.bytes;
    }

    /// Ends the check of what lies at `place`, of which something could not be read. Where nothing is wrong that is the answer.
    /// Beside faults it is one: neither hides the other.
    ///
    /// # Errors
    /// The first of these.
    pub fn note_unread(&mut self, place: &Path, unread: Vec<Error>) -> Result<()> {
        if self.faults.is_empty() {
            return unread.into_iter().next().map_or(Ok(()), Err);
        }
        self.faults.extend(unread.into_iter().map(|error| Fault {
            place: place.display().to_string(),
            offset: 0,
            what: format!("a part could not be checked: {error}"),
        }));
        Ok(())
    }
}
