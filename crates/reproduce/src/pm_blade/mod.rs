//! PM-Blade (`PAPERS.md`).

pub(crate) mod merging;
pub(crate) mod tables;
