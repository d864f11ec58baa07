//! PM-Blade (`PAPERS.md`).

pub(crate) mod internal;
pub(crate) mod loading;
pub(crate) mod merging;
pub(crate) mod space;
mod systems;
pub(crate) mod tables;
pub(crate) mod ycsb;
