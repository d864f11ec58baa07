//! FlatLSM's experiments.

mod writing;

pub(crate) use writing::Writing;
