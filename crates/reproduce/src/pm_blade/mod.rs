//! PM-Blade (`PAPERS.md`).

pub(crate) mod tables;
