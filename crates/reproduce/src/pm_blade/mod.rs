//! PM-Blade (`PAPERS.md`).

pub(crate) mod internal;
pub(crate) mod merging;
mod systems;
pub(crate) mod tables;
