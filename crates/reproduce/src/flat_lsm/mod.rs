//! FlatLSM's experiments.

mod space;
mod writing;

pub(crate) use space::Room;
pub(crate) use writing::Writing;
