//! Locks of keys and ranges, and deadlocks.

pub(crate) mod entry;
pub(crate) mod graph;
pub(crate) mod key;
pub(crate) mod ranges;
pub(crate) mod slots;
pub(crate) mod stripe;
pub(crate) mod table;
pub(crate) mod wake;
