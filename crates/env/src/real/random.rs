//! The randomness of the operating system.

use std::io;
use std::path::Path;

use thermocline_base::{Error, Result};

use crate::random::Random;

/// The operating system's randomness.
#[derive(Debug, Clone, Copy)]
pub struct OsRandom;

impl Random for OsRandom {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that draws randomness"
    )]
    fn fill(&self, buf: &mut [u8]) -> Result<()> {
        getrandom::fill(buf).map_err(|e| {
            let source = io::Error::other(e.to_string());
            Error::io("draw random bytes from", Path::new("the system"), source)
        })
    }
}
