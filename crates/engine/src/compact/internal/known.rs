//! What compactions inside persistent memory know of each other.

use std::sync::Weak;

use thermocline_version::Version;

use crate::sync::Mutex;

/// What internal compactions know of each other.
#[derive(Debug, Default)]
pub(crate) struct Internal {
    /// In this version one has given up.
    pub(super) gave_up: Mutex<Weak<Version>>,
}
