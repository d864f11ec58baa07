//! After a failed persist nobody knows what is durable: reads go on, writes end.

use std::sync::OnceLock;

use thermocline_base::{Error, Result};

#[derive(Debug, Default)]
pub(crate) struct Poison(OnceLock<String>);

impl Poison {
    /// Whether writing is still allowed.
    pub fn check(&self) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned(cause.clone())),
        }
    }

    /// Notes the first cause and gives the error back.
    #[cold]
    pub fn poison(&self, cause: Error) -> Error {
        self.0.get_or_init(|| cause.to_string());
        cause
    }
}
