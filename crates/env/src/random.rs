//! Unpredictable bytes.

use std::fmt;

use thermocline_base::Result;

/// Unpredictable bytes, for UUIDs and nonces.
pub trait Random: Send + Sync + fmt::Debug {
    /// Fills `buf`.
    fn fill(&self, buf: &mut [u8]) -> Result<()>;
}
