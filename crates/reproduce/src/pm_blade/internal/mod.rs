//! Compaction by hand, mostly inside persistent memory: tables IV and V, figures 7(b) and 9.
//!
//! Level 0 is filled with runs that lie over each other, each of them written, sealed and flushed by itself, and nothing
//! is compacted before that is asked for. Then it is merged, in persistent memory by
//! [`Db::compact_level0`](thermocline::Db::compact_level0), or, where it lies on the SSD, into the level below by
//! [`Db::compact`](thermocline::Db::compact): the paper's PMBlade and PMBlade-SSD. One thread does it, and blocks are not
//! compressed on either side, so that both merge the same bytes.

mod duration;
mod filling;
mod reading;
mod released;
mod scheduling;

pub(crate) use duration::Duration;
pub(crate) use reading::Reading;
pub(crate) use released::Released;
pub(crate) use scheduling::Scheduling;
