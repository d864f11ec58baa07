//! The commands, one file each; the small ones together.

mod bench;
mod bench_oltp;
mod bench_suite;
mod changes;
mod compact;
pub(crate) mod copies;
mod explain;
pub(crate) mod families;
mod level0;
mod line_ends;
mod load;
mod measured;
mod memtables;
mod plan;
mod point;
mod prepared;
mod quotes;
mod reproduce;
mod rows;
mod scan;
mod stat;
pub(crate) mod tables;
mod verify;

pub(crate) use bench::bench;
pub(crate) use changes::changes;
pub(crate) use compact::compact;
pub(crate) use explain::explain;
pub(crate) use load::load;
pub(crate) use plan::plan;
pub(crate) use point::{delete, delete_range, drop_partition, get, put};
pub(crate) use prepared::prepared;
pub(crate) use reproduce::reproduce;
pub(crate) use scan::scan;
pub(crate) use stat::stat;
pub(crate) use verify::verify;
