//! Whether a region may still grow.

use thermocline_base::{Error, Result};

/// Of growing and giving back.
#[derive(Debug, Default)]
pub(super) struct Growing {
    /// A part header or the part word could not be persisted. Nobody knows then how many parts the durable word counts, so
    /// nothing behind the parts that are known may change any more.
    failed: bool,
}

impl Growing {
    /// Refuses what follows a failure.
    pub fn check(&self) -> Result<()> {
        match self.failed {
            true => Err(Error::Poisoned(
                "how many parts the region has could not be written".into(),
            )),
            false => Ok(()),
        }
    }

    /// Something of them was written, or was not.
    pub fn note(&mut self, written: Result<()>) -> Result<()> {
        self.failed |= written.is_err();
        written
    }
}
