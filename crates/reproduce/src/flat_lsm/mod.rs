//! FlatLSM's experiments.

mod lengths;
mod space;
mod writing;

pub(crate) use lengths::Lengths;
pub(crate) use space::Room;
pub(crate) use writing::Writing;
